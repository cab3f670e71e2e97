"""How long it takes to say where a file lies: `spindle topology` and `spindle layout` of a film of 60 GB in 50,000 extents, as a
person would run them (a process each, its start included), beside `filefrag -v`, which asks the kernel the same question and places
nothing on a disk. The aim is 200 ms.

The extents are of 8 KiB with holes between them: as many rows as a badly fragmented film has, without its bytes."""
import os
import shutil
import statistics
import subprocess
import time

import bench
import pool as pools
import report
import server as servers

SIZE_BYTES = 60_000_000_000
EXTENTS = 50_000
EXTENT_BYTES = 8 << 10
PROFILES = ("ext4", "xfs", "single", "raid0", "raid1", "raid10")
POOL_MIB = 96 << 10  # of nothing: the images are sparse


def scattered(path):
    step = SIZE_BYTES // EXTENTS // 4096 * 4096
    noise = os.urandom(EXTENT_BYTES)
    with open(path, "wb") as out:
        for number in range(EXTENTS):
            os.pwrite(out.fileno(), noise, number * step)
        out.truncate(SIZE_BYTES)
        os.fsync(out.fileno())


def took(argv):
    """(wall seconds, CPU seconds, output) of a program."""
    before, began = os.times(), time.monotonic()
    run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wall, after = time.monotonic() - began, os.times()
    report.check(run.returncode == 0, "%s: %s" % (argv[:2], run.stderr.decode()[-400:]))
    return wall, after.children_user + after.children_system - before.children_user - before.children_system, run.stdout


def mapping(options):
    table = {}
    program = servers.PROGRAM
    for profile in PROFILES:
        with pools.Pool(profile, size_mib=POOL_MIB) as pool:
            path = os.path.join(pool.mount, "Long (2000).mkv")
            scattered(path)
            pool.remount()
            asked = {"topology": [program, "topology", pool.mount, "--json"], "layout": [program, "layout", path, "--json"], "filefrag": [shutil.which("filefrag", path="/usr/sbin:/sbin:/usr/bin"), "-v", path]}
            rows = {name: [] for name in asked}
            for round_ in range(options.rounds + 1):
                for name, argv in asked.items():
                    wall, cpu, out = took(argv)
                    if round_:  # the first reads the extent tree from the disk
                        rows[name].append((wall, cpu, len(out)))
            table[profile] = {name: {"wall_ms": round(statistics.median(r[0] for r in got) * 1e3, 1), "cpu_ms": round(statistics.median(r[1] for r in got) * 1e3, 1), "bytes": got[0][2]} for name, got in rows.items()}
    print("\nplaces of %d extents, ms (medians of %d; CPU in brackets)" % (EXTENTS, options.rounds))
    print("%-8s %18s %18s %18s %8s" % ("", "topology", "layout", "filefrag -v", "ratio"))
    for profile, row in table.items():
        cell = lambda name: "%8.1f (%7.1f)" % (row[name]["wall_ms"], row[name]["cpu_ms"])
        print("%-8s %18s %18s %18s %8.2f" % (profile, cell("topology"), cell("layout"), cell("filefrag"), row["layout"]["cpu_ms"] / max(row["filefrag"]["cpu_ms"], 1)))
    return table
