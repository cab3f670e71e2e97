"""How much of what the disks really served the record tells, stack by stack.

Every pool of tests/rigs/pool.py: one viewer, three on three films, three on one film; with the helper (each request is seen: 1 %)
and without it (places are worked out: 10 %). The measure is the kernel's block trace (rigs/trace.py), disk by disk. Rows go to
tests/.work/accuracy/host.json for the table in the docs; a stack whose rows are not within its limit fails here.

Pools are made some at a time and share a server. scripts/test measures three at once on every stack, and the rest where something
else than on its neighbours could go wrong; RIG_ALL=1 measures every row."""
import contextlib
import fcntl
import json
import os
import shutil
import threading
import time

import pool as pools
import report
import server as servers
import trace as tracing
from report import check

FILMS = ("Alpha", "Beta", "Gamma")
LIMIT = {"exact": 0.01, "fallback": 0.10}
ATTRIBUTION = {"exact": "block_trace", "fallback": "sampled_map"}
# film, where it starts (share of the file), bytes a second (None: as fast as it goes), after how many seconds it comes.
SCENARIOS = {
    "one": [(0, 0.0, None, 0.0)],
    "three": [(0, 0.0, 30e6, 0.0), (1, 0.0, 30e6, 0.0), (2, 0.0, 30e6, 0.0)],
    "same": [(0, 0.0, 30e6, 0.0), (0, 0.4, 18e6, 0.0), (0, 0.0, 30e6, 0.1)],
}
# Below this a percentage of a disk says nothing: inline data, a page at the end of a file.
FLOOR_BYTES = 64 << 10


def rows_path():
    folder = os.path.join(servers.WORK, "accuracy")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, "host.json")


class Stack:
    """A pool by its name in the table, filled, and what its films are called."""

    def __init__(self, name, profile, pool, clip):
        self.name, self.profile, self.pool = name, profile, pool
        word = "".join(letter if letter.isalnum() else " " for letter in name).title()
        self.titles = ["%s %s" % (word, film) for film in FILMS]
        self.paths = fill(pool, clip, self.titles)


def fill(pool, clip, titles):
    """Three films of different bytes: no filesystem may make one of them. Gives the paths."""
    paths = []
    for number, title in enumerate(titles):
        folder = os.path.join(pool.mount, "%s (202%d)" % (title, number))
        os.makedirs(folder)
        path = os.path.join(folder, "%s (202%d).mp4" % (title, number))
        shutil.copyfile(clip, path)
        with open(path, "ab") as out:
            out.write(bytes([0, 0, 0, 8]) + b"free" * number + b"\0" * 4)
        pool.flush()
        paths.append(path)
    return paths


def real_paths(pool, paths):
    """Where the page cache of a film is: below mergerfs, in its branch."""
    if pool.kind != "mergerfs":
        return paths
    found = [os.path.join(branch, os.path.relpath(path, pool.mount)) for path in paths for branch in pool.branches]
    return [path for path in found if os.path.exists(path)]


def watch(server, rows, stack, viewers):
    """Runs the viewers of a scenario; gives their sessions."""
    sessions, errors = [], []

    def viewer(film, share, rate, after_s):
        try:
            time.sleep(after_s)
            played = server.play(rows[stack.titles[film]]["id"])
            check(played["method"] == "direct_play", "method %s" % played["method"])
            sessions.append(played["session"])
            size = os.path.getsize(stack.paths[film])
            start = int(size * share)
            got = server.read_paced(played["url"], start, None, rate)
            check(got >= size - start, "%s: %d of %d bytes" % (stack.titles[film], got, size - start))
        except Exception as error:
            errors.append("%s: %s" % (stack.titles[film], error))
    threads = [threading.Thread(target=viewer, args=row) for row in viewers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    check(not errors, "; ".join(errors))
    return sessions


def settled_records(server, sessions):
    """The records, once two in a row tell the same."""
    def told():
        return [server.io(session) for session in sessions]
    last = told()
    for _ in range(20):
        time.sleep(0.4)
        now = told()
        if [r["read_bytes"] for r in now] == [r["read_bytes"] for r in last]:
            return now
        last = now
    return last


def measure(server, rows, stack, mode, scenario):
    """One row of the table."""
    pool = stack.pool
    pool.still()
    pools.evict(*real_paths(pool, stack.paths))
    with tracing.BlockTrace(pool.disks) as seen:
        sessions = watch(server, rows, stack, SCENARIOS[scenario])
        pool.still()
        records = settled_records(server, sessions)
    for session in sessions:
        server.end(session)
    check(seen.lost == 0, "the trace lost %d events" % seen.lost)
    real, told = seen.data(), {}
    for record in records:
        for row in record["disks"]:
            told[row["disk"]] = told.get(row["disk"], 0) + row["read_bytes"]
    row = judge(told, real)
    row.update(stack=stack.name, scenario=scenario, mode=mode,
               attribution="/".join(sorted({record["attribution"] for record in records})), why=sorted({record["why"] for record in records if record.get("why")}),
               unattributed_bytes=sum(record["unattributed_bytes"] for record in records))
    keep(row)
    print("      %-16s %-8s %-5s error %.2f %% of the worst disk, %s" % (stack.name, mode, scenario, row["error"] * 100, row["attribution"]), flush=True)
    return row


def judge(told, real):
    """Per disk, what was told of what was real; `error` is the worst disk's, beyond the floor."""
    total, worst = sum(real.values()), 0.0
    for disk in set(told) | set(real):
        off = abs(told.get(disk, 0) - real.get(disk, 0))
        if off > FLOOR_BYTES:
            worst = max(worst, off / max(real.get(disk, 0), 1))
    return {"seen": real, "said": told, "total_bytes": total, "error": round(worst, 5)}


def keep(row):
    """Puts a row into the file of rows; one of the same stack, mode and scenario gives way."""
    path, found = rows_path(), []
    with open(path + ".lock", "w") as lock:
        # Groups of stacks run beside each other.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            with open(path) as text:
                found = json.load(text)["rows"]
        key = lambda r: (r["stack"], r["mode"], r["scenario"])
        found = [r for r in found if key(r) != key(row)] + [row]
        with open(path + ".tmp", "w") as out:
            json.dump({"kernel": os.uname().release, "rows": sorted(found, key=key)}, out, indent=1)
        os.replace(path + ".tmp", path)


def held(row):
    where = "%s: told %s, real %s" % (row["scenario"], row["said"], row["seen"])
    limit = LIMIT[row["mode"]]
    check(row["total_bytes"] > 4 << 20, "the trace saw too little to compare: " + where)
    check(row["attribution"] == ATTRIBUTION[row["mode"]], "attribution is %s (%s)" % (row["attribution"], row["why"]))
    if row["stack"] == "raid5-degraded" and row["mode"] == "exact" and row["error"] > limit:
        # Kernel threads compute what is missing. For several streams of one file it cannot be told for whom: then the record must
        # say so, and miss nothing in the sum.
        check(any("kernel" in why for why in row["why"]), "%.1f %% off, and the record does not say why: %s; %s" % (row["error"] * 100, row["why"], where))
        found = sum(row["said"].values()) + row["unattributed_bytes"]
        check(abs(found - row["total_bytes"]) <= limit * row["total_bytes"], "%d of %d bytes are told: %s" % (found, row["total_bytes"], where))
        return
    check(row["error"] <= limit, "%.1f %% off: %s" % (row["error"] * 100, where))


# Stacks that share a server: name, profile, and whether a disk is taken away after filling.
GROUPS = (
    (("single", "single", False), ("dup", "dup", False), ("raid0", "raid0", False), ("compressed", "compressed", False), ("ext4", "ext4", False), ("xfs", "xfs", False)),
    (("raid1", "raid1", False), ("raid1-3", "raid1-3", False), ("raid1c3", "raid1c3", False), ("raid1c4", "raid1c4", False), ("raid1-degraded", "raid1-3", True)),
    (("raid10", "raid10", False), ("raid5", "raid5", False), ("raid6", "raid6", False), ("raid10-degraded", "raid10", True), ("raid5-degraded", "raid5", True)),
    (("partition", "partition", False), ("partition-raid1", "partition-raid1", False), ("mergerfs", "mergerfs", False)),
)
MODES = ("exact", "fallback")
# What scripts/test measures besides three at once with the helper: it has half an hour for everything.
QUICK_SAME = ("raid0", "compressed", "xfs", "raid1c4", "raid1-degraded", "raid10", "raid6", "raid5-degraded", "partition-raid1", "mergerfs")
QUICK_FALLBACK = ("dup", "compressed", "raid1c3", "raid10-degraded", "raid5", "raid6", "raid5-degraded", "partition-raid1", "mergerfs")


def scenarios(stack, mode):
    if os.environ.get("RIG_ALL"):
        return tuple(SCENARIOS)
    if mode == "exact":
        return ("three", "same") if stack in QUICK_SAME else ("three",)
    return ("three",) if stack in QUICK_FALLBACK else ()


def case_name(stack, mode):
    return "accuracy_%s_%s" % (stack, mode)


def group(stage, members, clip, why):
    """The rows of some stacks: their pools, and a server a mode."""
    wanted = [member for member in members if any(stage.wants(case_name(member[0], mode)) for mode in MODES)]
    stacks = []
    with contextlib.ExitStack() as undo:
        for name, profile, degraded in wanted:
            reason = why or pools.why_not(profile)
            try:
                if reason:
                    raise report.Skip(reason)
                pool = undo.enter_context(pools.Pool(profile, size_mib=448))
                stack = Stack(name, profile, pool, clip)
                if degraded:
                    pool.degrade(sorted(pool.disks)[1])
                pool.remount()
                stacks.append(stack)
            except (report.Skip, RuntimeError, OSError) as error:
                with stage.case(case_name(name, "exact")):
                    raise error
        for mode in MODES:
            if any(stage.wants(case_name(stack.name, mode)) and scenarios(stack.name, mode) for stack in stacks):
                one_mode(stage, stacks, mode)


def one_mode(stage, stacks, mode):
    libraries = [("movies", stack.pool.mount) for stack in stacks]
    with contextlib.ExitStack() as undo:
        try:
            server = undo.enter_context(servers.Server(libraries, ["--storage-helper", "auto" if mode == "exact" else "off"]))
            server.setup()
            rows = server.settled([title for stack in stacks for title in stack.titles])
            server.idle()
        except Exception as error:
            with stage.case(case_name(stacks[0].name, mode)):
                raise error
            return
        for stack in stacks:
            if not stage.wants(case_name(stack.name, mode)) or not scenarios(stack.name, mode):
                continue
            with stage.case(case_name(stack.name, mode)):
                # All rows are measured before one is judged: the table has them even if the case fails.
                for row in [measure(server, rows, stack, mode, scenario) for scenario in scenarios(stack.name, mode)]:
                    held(row)


def groups(source, why):
    """Each group of stacks as one of cases (report.beside)."""
    clip = None if why else next(os.path.join(base, name) for base, _, names in os.walk(source) for name in names if name.startswith("Direct Hour"))
    return {"accuracy-" + members[0][0]: lambda stage, members=members: group(stage, members, clip, why) for members in GROUPS}
