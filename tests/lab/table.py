"""The accuracy table from the results of the last runs, never written by hand. What they did not look at stays as the page has it: a stack takes
minutes of an emulated processor, and results are kept on the machine that measured them."""
import json
import os
import re
import sys

import cases
import machine
import place

PAGE = os.path.join(machine.TOP, "docs", "accuracy.md")
COLUMNS = [("exact", "one"), ("exact", "three"), ("exact", "same"), ("fallback", "one"), ("fallback", "three"), ("fallback", "same")]
MACHINE, LOOPS, NOT_RUN = "In the virtual machine", "On loop devices", "not run"
INTRO = """# Accuracy

Bytes that the I/O record gives each disk over the bytes that the kernel's own trace saw go to that disk, file data only. Of several
disks the one that is furthest off is shown; disks with less than 64 KiB are left out. *Exact* is the server with its helper
(`block_trace`); *fallback* is user `nobody` without it. `total` means that the record names no disk then, with its reason, and the ratio
is of the sum. md, LVM and the like are built in a virtual machine (`scripts/lab all`), the rest on loop devices (`RIG_ALL=1 RIG_CASE=accuracy
tests/e2e/run.py`), see [TESTING.md](TESTING.md); `scripts/lab table --write` puts the results of both into this page and leaves what they do not have.

- 1: one stream; 3: three streams of three files; same: three streams, two of them of one file at different places. Empty: not measured yet.
- found: how many of the lab's checks of that stack hold (topology, layout against reads, layout against raw bytes, records, faults);
  those of loop devices are in `tests/e2e` and `tests/rigs`.
"""


def ratio(cell):
    seen, said = cell["seen"], cell["said"]
    if cell["mode"] == "exact" and cell["attribution"] != "block_trace":
        return "no trace"  # what it gives instead is the fallback's figure
    if cell["attribution"] == "none":
        return "total %.3f" % (cell["total"] / sum(seen.values())) if sum(seen.values()) and cell["total"] else "unknown"
    shares = [said.get(disk, 0) / seen[disk] if seen.get(disk) else float("inf") for disk in {**seen, **said} if max(seen.get(disk, 0), said.get(disk, 0)) >= 64 << 10]
    return "%.3f" % max(shares, key=lambda share: abs(share - 1)) if shares else "–"


def table_of(title, text):
    """(kernels, name -> cells without the name) of the page's section with this title; nothing where there is none."""
    section = re.search(r"^## %s$(.*?)(?=^## |\Z)" % re.escape(title), text, re.M | re.S)
    if not section:
        return set(), {}
    kernels = re.search(r"^Kernel: (.+)\.$", section[1], re.M)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section[1].splitlines() if line.startswith("|")]
    # The first two lines are the head and its rule.
    return set(kernels[1].split(", ")) if kernels else set(), {name: cells for name, *cells in lines[2:]}


def joined(ours, page):
    """A row's figures: the new ones, and the page's where there is none. `NOT_RUN` is no figure."""
    return [new or ("" if old == NOT_RUN else old) for new, old in zip(ours, page or [""] * len(ours))]


def found(ours, page):
    """How many checks hold, `GOOD/ALL`: the last run's, unless it made fewer than are on the page and none of them failed."""
    good, every = map(int, ours.split("/"))
    known = re.fullmatch(r"\d+/(\d+)", page or "")
    return page if known and good == every < int(known[1]) else ours


def machine_lines(results, page):
    """The section of the stacks in the virtual machine; empty where there is neither a result nor a row of the page."""
    kernels, known = table_of(MACHINE, page)
    lines, seen, kept = [], set(), False
    for case in cases.all_cases():
        old = known.get(case.name, ["", NOT_RUN] + [""] * len(COLUMNS))[1:]
        path = os.path.join(results, case.name + ".json")
        if not os.path.exists(path):
            row, kept = old, kept or old[0] != NOT_RUN
        else:
            with open(path) as text:
                result = json.load(text)
            seen.add(result["kernel"])
            cells = {(cell["mode"], cell["scenario"]): "no disk here" if case.share else ratio(cell) for cell in result["cells"]}
            good = sum(finding["wrong"] is None for finding in result["findings"])
            row = joined([cells.get(key, "") for key in COLUMNS], old[:-1]) + [found("%d/%d" % (good, len(result["findings"])), old[-1])]
            kept = kept or row[:-1] != [cells.get(key, "") for key in COLUMNS]
        lines.append("| " + " | ".join([case.name, "%s, %s" % (case.what, case.fs)] + row) + " |")
    seen |= kernels if kept else set()
    if not seen:
        return []
    head = ["| name | stack | exact 1 | exact 3 | exact same | fallback 1 | fallback 3 | fallback same | found |", "| --- | --- |" + " --- |" * 7]
    return ["", "## " + MACHINE, "", "Kernel: %s." % ", ".join(sorted(seen)), "", *head, *lines]


# Rows of tests/e2e/accuracy.py, in the same shape.
HOST = os.path.join(place.work(), "accuracy", "host.json")
HOST_INTRO = """
The same figures for stacks that need no virtual machine, by `RIG_ALL=1 RIG_CASE=accuracy tests/e2e/run.py`. *Fallback* here is root without
the helper (`sampled_map`): without any privilege a btrfs of several disks does not tell its map. `-degraded`: one disk is missing.
"""


def host_lines(path, page):
    """The section of the host's own stacks; empty where they were never measured."""
    kernels, known = table_of(LOOPS, page)
    stacks, seen = {}, set()
    if os.path.exists(path):
        with open(path) as text:
            measured = json.load(text)
        seen.add(measured["kernel"])
        for row in measured["rows"]:
            total = sum(row["said"].values()) + row["unattributed_bytes"]
            stacks.setdefault(row["stack"], {})[row["mode"], row["scenario"]] = ratio({**row, "total": total})
    ours = {name: [cells.get(key, "") for key in COLUMNS] for name, cells in stacks.items()}
    whole = {name: joined(ours.get(name, [""] * len(COLUMNS)), known.get(name)) for name in sorted({**known, **ours})}
    if not whole:
        return []
    seen |= kernels if whole != ours else set()
    head = ["| stack | exact 1 | exact 3 | exact same | fallback 1 | fallback 3 | fallback same |", "| --- |" + " --- |" * 6]
    return ["", "## " + LOOPS, HOST_INTRO, "Kernel: %s." % ", ".join(sorted(seen)), "", *head, *["| " + " | ".join([name] + cells) + " |" for name, cells in whole.items()]]


def page_of(results, host, before):
    """The whole page from the results and the page that is there; None where there is nothing to say."""
    lines = machine_lines(results, before) + host_lines(host, before)
    return "\n".join([INTRO.rstrip("\n"), *lines]) + "\n" if lines else None


def main(results, write):
    before = ""
    if os.path.exists(PAGE):
        with open(PAGE) as old:
            before = old.read()
    text = page_of(results, HOST, before)
    if text is None:
        print("error: there are no results yet; run `scripts/lab all`", file=sys.stderr)
        return 1
    if write:
        with open(PAGE, "w") as out:
            out.write(text)
    print(text)
    return 0
