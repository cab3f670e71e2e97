"""How much of what the disks really served the record tells, stack by stack.

Every pool of tests/rigs/pool.py: one viewer, three on three films, three on one film; with the helper (each request is seen: 1 %)
and without it (places are worked out: 10 %). The measure is the kernel's block trace (rigs/trace.py), disk by disk. Rows go to
tests/.work/accuracy/host.json for the table in the docs; a stack whose rows are not within its limit fails here."""
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
    "three": [(0, 0.0, 24e6, 0.0), (1, 0.0, 24e6, 0.0), (2, 0.0, 24e6, 0.0)],
    "same": [(0, 0.0, 24e6, 0.0), (0, 0.4, 12e6, 0.0), (0, 0.0, 24e6, 0.1)],
}
# Below this a percentage of a disk says nothing: inline data, a page at the end of a file.
FLOOR_BYTES = 64 << 10


def rows_path():
    folder = os.path.join(servers.WORK, "accuracy")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, "host.json")


def fill(pool, clip):
    """Three films of different bytes: no filesystem may make one of them. Gives the paths."""
    paths = []
    for number, title in enumerate(FILMS):
        folder = os.path.join(pool.mount, "%s (202%d)" % (title, number))
        os.makedirs(folder)
        path = os.path.join(folder, "%s (202%d).mp4" % (title, number))
        shutil.copyfile(clip, path)
        with open(path, "ab") as out:
            out.write(bytes([0, 0, 0, 8]) + b"free" * number + b"\0" * 4)
        os.sync()
        paths.append(path)
    return paths


def real_paths(pool, paths):
    """Where the page cache of a film is: below mergerfs, in its branch."""
    if pool.kind != "mergerfs":
        return paths
    found = [os.path.join(branch, os.path.relpath(path, pool.mount)) for path in paths for branch in pool.branches]
    return [path for path in found if os.path.exists(path)]


def still(pool, seconds=1.0):
    """Waits until nothing reads the pool's disks."""
    def counters():
        return [open("/sys/block/%s/stat" % disk).read().split()[2] for disk in pool.disks]
    end, last, since = time.monotonic() + 90, counters(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.1)
        now = counters()
        if now != last:
            last, since = now, time.monotonic()
        check(time.monotonic() < end, "the pool is still read after 90 s")


def watch(server, rows, paths, viewers):
    """Runs the viewers of a scenario; gives their sessions."""
    sessions, errors = [], []

    def viewer(film, share, rate, after_s):
        try:
            time.sleep(after_s)
            played = server.play(rows[FILMS[film]]["id"])
            check(played["method"] == "direct_play", "method %s" % played["method"])
            sessions.append(played["session"])
            size = os.path.getsize(paths[film])
            start = int(size * share)
            got = server.read_paced(played["url"], start, None, rate)
            check(got >= size - start, "%s: %d of %d bytes" % (FILMS[film], got, size - start))
        except Exception as error:
            errors.append("%s: %s" % (FILMS[film], error))
    threads = [threading.Thread(target=viewer, args=row) for row in viewers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    check(not errors, "; ".join(errors))
    return sessions


def settled_records(server, sessions):
    """The records, once two in a row tell the same: they are fed once a second."""
    def told():
        return [server.io(session) for session in sessions]
    last = told()
    for _ in range(20):
        time.sleep(1.1)
        now = told()
        if [r["read_bytes"] for r in now] == [r["read_bytes"] for r in last]:
            return now
        last = now
    return last


def measure(pool, server, rows, paths, mode, scenario):
    """One row of the table."""
    still(pool)
    pools.evict(*real_paths(pool, paths))
    with tracing.BlockTrace(pool.disks) as seen:
        sessions = watch(server, rows, paths, SCENARIOS[scenario])
        still(pool)
        records = settled_records(server, sessions)
    for session in sessions:
        server.end(session)
    check(seen.lost == 0, "the trace lost %d events" % seen.lost)
    real, told = seen.data(), {}
    for record in records:
        for row in record["disks"]:
            told[row["disk"]] = told.get(row["disk"], 0) + row["read_bytes"]
    row = judge(told, real)
    row.update(stack=pool.profile, scenario=scenario, mode=mode,
               attribution=sorted({record["attribution"] for record in records}), why=sorted({record["why"] for record in records if record.get("why")}),
               unattributed_bytes=sum(record["unattributed_bytes"] for record in records))
    return row


def judge(told, real):
    """Per disk, what was told of what was real; `error` is the worst disk's, beyond the floor."""
    total, worst = sum(real.values()), 0.0
    for disk in set(told) | set(real):
        off = abs(told.get(disk, 0) - real.get(disk, 0))
        if off > FLOOR_BYTES:
            worst = max(worst, off / max(real.get(disk, 0), 1))
    return {"real_bytes": real, "told_bytes": told, "total_bytes": total, "error": round(worst, 5)}


def keep(row):
    """Puts a row into the file of rows; one of the same stack, mode and scenario gives way."""
    path, found = rows_path(), []
    if os.path.exists(path):
        with open(path) as text:
            found = json.load(text)["rows"]
    key = lambda r: (r["stack"], r["mode"], r["scenario"])
    found = [r for r in found if key(r) != key(row)] + [row]
    with open(path + ".tmp", "w") as out:
        json.dump({"where": "host", "rows": sorted(found, key=key)}, out, indent=1)
    os.replace(path + ".tmp", path)


def stack(stage, profile, clip, why, modes=("exact", "fallback"), scenarios=tuple(SCENARIOS), before=None, **more):
    """All rows of a stack: a pool, and a server a mode. `before` does something to the filled pool."""
    names = {mode: "accuracy_%s_%s" % (more.get("name", profile), mode) for mode in modes}
    if not any(stage.wants(name) for name in names.values()):
        return
    reason = why or pools.why_not(profile)
    if reason:
        for name in names.values():
            with stage.case(name):
                raise report.Skip(reason)
        return
    with pools.Pool(profile, size_mib=more.get("size_mib", 448)) as pool:
        paths = fill(pool, clip)
        pool.profile = more.get("name", profile)
        if before:
            before(pool)
        pool.remount()
        for mode in modes:
            if stage.wants(names[mode]):
                with stage.case(names[mode]):
                    one_mode(pool, paths, mode, scenarios)


def one_mode(pool, paths, mode, scenarios):
    with servers.Server([("movies", pool.mount)], ["--storage-helper", "auto" if mode == "exact" else "off"]) as server:
        server.setup()
        rows = server.settled(list(FILMS))
        found = []
        for scenario in scenarios:
            found.append(measure(pool, server, rows, paths, mode, scenario))
            keep(found[-1])
    for row in found:
        print("      %-16s %-8s %-5s error %.2f %% of the worst disk, %s" % (row["stack"], row["mode"], row["scenario"], row["error"] * 100, "/".join(row["attribution"])), flush=True)
    for row in found:
        where = "%s, %s: told %s, real %s" % (row["stack"], row["scenario"], row["told_bytes"], row["real_bytes"])
        check(row["total_bytes"] > 4 << 20, "the trace saw too little to compare: " + where)
        check(row["attribution"] == [ATTRIBUTION[mode]], "attribution is %s (%s)" % (row["attribution"], row["why"]))
        check(row["error"] <= LIMIT[mode], "%.1f %% off: %s" % (row["error"] * 100, where))


def degrade(pool):
    pool.degrade(sorted(pool.disks)[1])


def run(stage, source, why):
    clip = None if why else next(os.path.join(base, name) for base, _, names in os.walk(source) for name in names if name.startswith("Direct Hour"))
    for profile in ("single", "dup", "raid0", "raid1", "raid1-3", "raid1c3", "raid1c4", "raid10", "raid5", "raid6", "compressed", "ext4", "xfs", "partition", "partition-raid1", "mergerfs"):
        stack(stage, profile, clip, why)
    stack(stage, "raid1-3", clip, why, before=degrade, name="raid1-degraded")
    stack(stage, "raid5", clip, why, before=degrade, name="raid5-degraded")
    stack(stage, "raid10", clip, why, before=degrade, name="raid10-degraded")
