#!/usr/bin/env python3
"""The lab: every stack that Spindle claims to know, really built in a virtual machine and held against the machine's own trace.

    scripts/lab list               the stacks, and which of them scripts/test boots
    scripts/lab run NAME...        some of them
    scripts/lab all                every one, in several machines
    scripts/lab stage              what scripts/test runs
    scripts/lab table [--write]    the accuracy table of the last results; --write puts it into docs/accuracy.md
    scripts/lab zfs-module         builds ZFS's kernel module for the lab (long), so that `all` has ZFS too"""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import cases as table_of_cases
import judge
import machine
import report
from report import check

TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(machine.TOP, "target")
PROGRAM = os.environ.get("RIG_PROGRAM") or os.path.join(TARGET, "release", "spindle")
RESULTS = os.path.join(machine.WORK, "results")
# The stage of scripts/test has five minutes on two busy cores; `all` asks everything of every stack.
# It has one processor: on an emulated machine that is as fast, and of many boots with two a few stood still (machine.StoodStill).
# Faults come last: what follows them would meet another pool.
STAGE_SERVE = [["exact", ["one", "same", "fault"]]]
BRIEF_SERVE = [["fallback", ["same"]], ["exact", ["one", "same", "fault", "lost"]]]
FULL_SERVE = [["fallback", ["one", "three", "same"]], ["exact", ["one", "three", "same", "fault", "lost"]]]
PER_BOOT = int(os.environ.get("LAB_PER_BOOT", "8"))


def film():
    """A short MP4 that any client plays as it is, at a rate high enough to make disks busy. Made once."""
    arguments = ["-f", "lavfi", "-i", "testsrc2=s=640x360:r=25:d=12", "-f", "lavfi", "-i", "sine=f=440:r=48000:d=12", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "50",
                 "-x264-params", "nal-hrd=cbr:force-cfr=1", "-b:v", "8M", "-minrate", "8M", "-maxrate", "8M", "-bufsize", "4M", "-c:a", "aac", "-b:a", "96k", "-movflags", "+faststart"]
    path = os.path.join(machine.WORK, "film-%s.mp4" % hashlib.sha256(repr(arguments).encode()).hexdigest()[:12])
    if not os.path.exists(path):
        subprocess.run(["ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", *arguments, "-f", "mp4", path + ".tmp"], check=True)
        os.rename(path + ".tmp", path)
    return path


def boot(kernel, cases, plan, out, echo):
    """Runs cases in one machine. Gives (name -> evidence, seconds); a case that hung has an error in it.

    A machine that stood still leaves those whose evidence is whole, and `StoodStill` of the rest."""
    with tempfile.TemporaryDirectory(prefix="job-", dir=machine.WORK) as folder:
        job = os.path.join(folder, "job")
        os.makedirs(job)
        rigs = os.path.join(HERE, "..", "rigs")
        for name in ["guest.py", "shares.py", "lib.sh"] + [os.path.join(rigs, name) for name in os.listdir(rigs) if name.endswith(".py")]:
            shutil.copy(os.path.join(HERE, name), job)
        shutil.copy(film(), os.path.join(job, "film.mp4"))
        with open(os.path.join(job, "run"), "w") as start:
            start.write("exec python3 -u guest.py\n")
        with open(os.path.join(job, "plan.json"), "w") as sheet:
            json.dump({**plan, "cases": [case.as_json() for case in cases]}, sheet)
        initrd = machine.with_programs(machine.base_root(kernel), [(PROGRAM, "spindle")], folder)
        trouble = still = None
        began = time.monotonic()
        try:
            machine.boot(kernel, initrd, job, out, table_of_cases.DISKS, memory_mib=2048, seconds=60 + sum(plan["seconds"] * case.patience for case in cases), echo=echo, processors=plan["processors"])
        except machine.StoodStill as error:
            print("error: %s" % error, flush=True)
            still = error
        except RuntimeError as error:
            trouble = str(error)
        took = time.monotonic() - began
        evidence = {case.name: evidence_of(case, out, trouble or still and str(still)) for case in cases}
        if still:
            evidence = {name: still if found.get("error") else found for name, found in evidence.items()}
        return evidence, took


def evidence_of(case, out, trouble):
    path = os.path.join(out, case.name + ".json")
    found = json.load(open(path)) if os.path.exists(path) else {"case": case.name, "names": {}, "steps": {}}
    if not found.get("done"):
        why = [trouble] if trouble else []
        for name in (case.name + ".hung", "stopped"):
            if os.path.exists(os.path.join(out, name)):
                why.append(open(os.path.join(out, name)).read())
        found["error"] = found.get("error") or "; ".join(why) or "no evidence came back; see %s" % os.path.join(out, "log")
    return found


def note(case, cells, findings, kernel, is_whole):
    """Keeps what the table needs of a run. One that looks at a part of a stack leaves the rest as it was found before."""
    os.makedirs(RESULTS, exist_ok=True)
    path = os.path.join(RESULTS, case.name + ".json")
    row = {"case": case.name, "what": case.what, "fs": case.fs, "group": case.group, "kernel": machine.modules_of(kernel)[0], "cells": [cell._asdict() for cell in cells],
           "findings": [finding._asdict() for finding in findings]}
    if not is_whole and os.path.exists(path):
        with open(path) as text:
            before = json.load(text)
        if before["kernel"] == row["kernel"]:
            cells = list(row["cells"])
            merge(row["cells"], before["cells"], ("mode", "scenario"))
            # That something did not play is said only where it did not: it played since.
            played = {"plays (%s, %s)" % (cell["mode"], scenario) for cell in cells for scenario in (cell["scenario"], "-")}
            merge(row["findings"], [found for found in before["findings"] if found["name"] not in played], ("name",))
    with open(path, "w") as out:
        json.dump(row, out, indent=1)


def merge(rows, before, keys):
    """Adds the earlier rows that no later one replaces. That a stack could not be built or read is true of one run only."""
    def key(row):
        return [row[name] for name in keys]
    known = [key(row) for row in rows] + [["is built, filled and read"]]
    rows += [row for row in before if key(row) not in known]


def run_cases(stage, cases, plan, echo=False):
    """Boots machines of a few cases each; every finding is a case of the stage."""
    wanted = [case for case in cases if stage.wants(case.name)]
    why = machine.why_not() or (None if os.path.exists(PROGRAM) else "%s is not built" % PROGRAM)
    kernel = None
    if not why:
        machine.clean()
        os.makedirs(machine.WORK, exist_ok=True)
        try:
            kernel = machine.kernel(os.environ.get("LAB_SUITE"))
        except machine.Unavailable as error:
            why = str(error)
    if why:
        for case in wanted:
            with stage.case(case.name):
                raise report.Skip(why)
        return
    for case in wanted:
        if case.needs == "zfs" and not machine.zfs_module(machine.modules_of(kernel)[0]):
            with stage.case(case.name):
                raise report.Skip("ZFS is no part of Debian's kernel; `scripts/lab zfs-module` builds its module for the lab")
    wanted = [case for case in wanted if not case.needs or machine.zfs_module(machine.modules_of(kernel)[0])]
    # What came back of the last run stays: consoles, the kernel's log, the evidence.
    last = os.path.join(machine.WORK, "last")
    shutil.rmtree(last, ignore_errors=True)
    parts, number, stood_still = machines(wanted), 0, 0
    while parts:
        part, number = parts.pop(0), number + 1
        evidence, took = boot(kernel, part, plan, os.path.join(last, "%d" % number), echo)
        print("machine (%s, kernel %s): %d stacks in %.0f s" % (machine.accelerator(), machine.modules_of(kernel)[0], len(part), took), flush=True)
        rest = [case for case in part if isinstance(evidence[case.name], machine.StoodStill)]
        if rest and not stood_still:
            # QEMU's emulation did that to one boot in a dozen (7.2, several processors), at no certain place. What has run counts as it is; what the machine did
            # not come to is asked of another. A second one that stands still in the same run is the stack's or ours.
            stood_still += 1
            print("the machine stood still before %s: another one starts for what is left" % ", ".join(case.name for case in rest), flush=True)
            parts.insert(0, rest)
            part = [case for case in part if case not in rest]
        for case in part:
            if isinstance(evidence[case.name], machine.StoodStill):
                evidence[case.name] = {"case": case.name, "names": {}, "steps": {}, "error": str(evidence[case.name])}
            findings, cells = judge.judge(case.as_json(), evidence[case.name])
            note(case, cells, findings, kernel, plan["is_whole"])
            for finding in findings:
                with stage.case("%s: %s" % (case.name, finding.name)):
                    check(finding.wrong is None, finding.wrong)
            if not findings:
                with stage.case("%s: says something" % case.name):
                    check(False, "there is no evidence at all")


def machines(cases):
    """The cases of each machine, in order."""
    parts = []
    for case in cases:
        if not parts or len(parts[-1]) >= PER_BOOT or case.fresh:
            parts.append([])
        parts[-1].append(case)
    return parts


def main_run(arguments):
    stage = report.Stage("lab")
    plan = {"do": ["layout"], "serve": FULL_SERVE, "seconds": 420, "processors": 2, "is_whole": not (arguments.quick or arguments.brief or arguments.records)}
    if arguments.quick:
        plan["serve"] = []
    if arguments.records:
        plan["do"] = []
    if arguments.brief:
        plan["serve"] = BRIEF_SERVE
    names = {case.name for case in table_of_cases.all_cases()}
    if arguments.command == "run":
        unknown = set(arguments.names) - names
        if unknown:
            sys.exit("error: no such stack: %s (scripts/lab list)" % ", ".join(sorted(unknown)))
        run_cases(stage, table_of_cases.by_name(arguments.names), plan, arguments.echo)
    elif arguments.command == "all":
        run_cases(stage, table_of_cases.all_cases(), plan, arguments.echo)
    else:
        import judge_test
        import table_test
        judge_test.run(stage)
        table_test.run(stage)
        run_cases(stage, table_of_cases.by_name(table_of_cases.STAGE), {**plan, "serve": STAGE_SERVE, "seconds": 150, "processors": 1, "is_whole": False}, arguments.echo)
    return stage.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["list", "run", "all", "stage", "table", "zfs-module"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--echo", action="store_true", help="show the machine's console")
    parser.add_argument("--quick", action="store_true", help="topology and layout only, no server")
    parser.add_argument("--records", action="store_true", help="topology and records only, no layouts")
    parser.add_argument("--brief", action="store_true", help="fewer streams, and the faults")
    parser.add_argument("--write", action="store_true", help="table: put it into docs/accuracy.md")
    arguments = parser.parse_intermixed_args()
    if arguments.command == "list":
        for case in table_of_cases.all_cases():
            print("%-20s %s, %s%s" % (case.name, case.what, case.fs, "  (scripts/test)" if case.name in table_of_cases.STAGE else ""))
        return
    if arguments.command == "table":
        import table
        sys.exit(table.main(RESULTS, arguments.write))
    if arguments.command == "zfs-module":
        import zfs
        sys.exit(zfs.main())
    report.main(lambda: main_run(arguments))


if __name__ == "__main__":
    main()
