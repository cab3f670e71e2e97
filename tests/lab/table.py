"""The accuracy table from the results of the lab's last runs: never written by hand."""
import json
import os
import sys

import cases
import machine
import place

PAGE = os.path.join(machine.TOP, "docs", "accuracy.md")
COLUMNS = [("exact", "one"), ("exact", "three"), ("exact", "same"), ("fallback", "one"), ("fallback", "three"), ("fallback", "same")]
INTRO = """# Accuracy

Bytes that the I/O record gives each disk over the bytes that the kernel's own trace saw go to that disk, file data only. Of several
disks the one that is furthest off is shown; disks with less than 64 KiB are left out. *Exact* is the server with its helper
(`block_trace`); *fallback* is user `nobody` without it. `total` means that the record names no disk then, with its reason, and the ratio
is of the sum. md, LVM and the like are built in a virtual machine (`scripts/lab all`), the rest on loop devices (`RIG_ALL=1 RIG_CASE=accuracy
tests/e2e/run.py`), see [TESTING.md](TESTING.md); this page is written by `scripts/lab table --write` from the results of both.

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


def rows(results):
    """A row a stack, and the kernel it was seen on; None where there is no result."""
    for case in cases.all_cases():
        what = [case.name, "%s, %s" % (case.what, case.fs)]
        path = os.path.join(results, case.name + ".json")
        if not os.path.exists(path):
            yield what + ["not run"] + [""] * len(COLUMNS), None
            continue
        with open(path) as text:
            row = json.load(text)
        cells = {(cell["mode"], cell["scenario"]): "no disk here" if case.share else ratio(cell) for cell in row["cells"]}
        good = sum(finding["wrong"] is None for finding in row["findings"])
        yield what + [cells.get(key, "") for key in COLUMNS] + ["%d/%d" % (good, len(row["findings"]))], row["kernel"]


# Rows of tests/e2e/accuracy.py, in the same shape.
HOST = os.path.join(place.work(), "accuracy", "host.json")
HOST_INTRO = """
## On loop devices

The same figures for stacks that need no virtual machine, by `RIG_ALL=1 RIG_CASE=accuracy tests/e2e/run.py`. *Fallback* here is root without
the helper (`sampled_map`): without any privilege a btrfs of several disks does not tell its map. `-degraded`: one disk is missing.
"""


def host_lines(path):
    """The section of the host's own stacks; empty where they were not measured."""
    if not os.path.exists(path):
        return []
    with open(path) as text:
        found = json.load(text)
    stacks = {}
    for row in found["rows"]:
        total = sum(row["said"].values()) + row["unattributed_bytes"]
        stacks.setdefault(row["stack"], {})[row["mode"], row["scenario"]] = ratio({**row, "total": total})
    head = ["| stack | exact 1 | exact 3 | exact same | fallback 1 | fallback 3 | fallback same |", "| --- | " + "--- | " * 6]
    return [HOST_INTRO, "Kernel: %s." % found["kernel"], ""] + [line.strip() for line in head] + [
        "| " + " | ".join([name] + [cells.get(key, "") for key in COLUMNS]) + " |" for name, cells in sorted(stacks.items())]


def main(results, write):
    lines, kernels = [], set()
    for row, kernel in rows(results):
        kernels.add(kernel)
        lines.append("| " + " | ".join(row) + " |")
    kernels.discard(None)
    if not kernels:
        print("error: there are no results yet; run `scripts/lab all`", file=sys.stderr)
        return 1
    head = ["| name | stack | exact 1 | exact 3 | exact same | fallback 1 | fallback 3 | fallback same | found |", "| --- | --- | " + "--- | " * 7]
    text = "\n".join([INTRO, "## In the virtual machine", "", "Kernel: %s." % ", ".join(sorted(kernels)), "", *[line.strip() for line in head], *lines, *host_lines(HOST)]) + "\n"
    if write:
        with open(PAGE, "w") as out:
            out.write(text)
    print(text)
    return 0
