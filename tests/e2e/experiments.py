"""`spindle bench corners` against fio with the same patterns, in turns, on the model of a rotating disk: within 5 %.

Both write a file of the same size in the same empty filesystem, freshly mounted, so that it lies in the same place: a rotating disk's
rate depends on it. Rounds alternate, so that what the machine does besides meets both; figures are sums over as many rounds as were said
beforehand. On a plain loop device, where the processors decide, ratios are printed and not judged.

Rates, and minutes of them: measured by `scripts/bench fio`, never by scripts/test."""
import json
import os
import shutil
import subprocess
import tempfile

import place
import pool as pools
import report
import server as servers
from report import check

MIB = 1 << 20
BOUND = 0.05
ROUNDS = 3


def skip(why):
    if why:
        raise report.Skip(why)


def ours(pool, data, size_mib, seconds):
    """What `bench corners` says: {(pattern, depth): (requests, seconds)}."""
    argv = [servers.PROGRAM, "bench", "--data-dir", data, "corners", pool.mount, "--size", "%dM" % size_mib, "--seconds", str(seconds), "--yes", "--json"]
    run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    check(run.returncode == 0, "exit %d: %s" % (run.returncode, run.stderr[-600:]))
    rows = json.loads(run.stdout)
    check(len(rows) == 10 and all(row["direct"] for row in rows), "rows: %s" % rows)
    return {(row["pattern"], row["depth"]): (row["ops"], row["seconds"]) for row in rows}, {row["pattern"]: row["block_bytes"] for row in rows}


def fio(pool, size_mib, seconds, blocks):
    """The same by fio, in the same order."""
    path = os.path.join(pool.mount, "fio.tmp")
    out = {}
    try:
        # As ours: room taken at once, then filled in order, and on the disk before anything is measured.
        subprocess.run(["fallocate", "-l", "%dM" % size_mib, path], check=True)
        subprocess.run(["dd", "if=/dev/urandom", "of=" + path, "bs=1M", "count=%d" % size_mib, "oflag=direct", "conv=notrunc,fsync", "status=none"], check=True)
        order = [("sequential_write_512k", "write"), ("sequential_read_512k", "read"), ("sequential_read_1_block", "read"), ("random_read_4k", "randread")]
        runs = [(name, rw, depth) for depth in (1, 32) for name, rw in order] + [("random_write_4k", "randwrite", depth) for depth in (1, 32)]
        for name, rw, depth in runs:
            engine = ["--ioengine=psync"] if depth == 1 else ["--ioengine=libaio", "--iodepth=%d" % depth]
            argv = ["fio", "--name=x", "--filename=" + path, "--size=%dM" % size_mib, "--direct=1", "--rw=" + rw, "--bs=%d" % blocks[name], "--time_based", "--runtime=%g" % seconds,
                    "--norandommap", "--randrepeat=0", "--thread", "--output-format=json", *engine]
            run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
            check(run.returncode == 0, "fio: exit %d: %s" % (run.returncode, run.stderr[-400:]))
            side = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]["read" if "read" in rw else "write"]
            out[(name, depth)] = (side["total_ios"], side["runtime"] / 1000.0)
    finally:
        if os.path.exists(path):
            os.remove(path)
    return out


def add(sums, seen):
    for key, (ops, seconds) in seen.items():
        had = sums.get(key, (0, 0.0))
        sums[key] = (had[0] + ops, had[1] + seconds)


def ratios(a, b):
    return {key: (a[key][0] / a[key][1]) / (b[key][0] / b[key][1]) for key in sorted(a)}


def agree(pool, size_mib, seconds, wanted):
    data = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    mine, theirs = {}, {}
    try:
        for _ in range(ROUNDS):
            # Mounted anew before each turn: a filesystem remembers where it last put a large file, and puts the next one behind it,
            # where a rotating disk is a third slower.
            pool.remount()
            seen, blocks = ours(pool, data, size_mib, seconds)
            add(mine, seen)
            pool.remount()
            add(theirs, fio(pool, size_mib, seconds, blocks))
    finally:
        shutil.rmtree(data, ignore_errors=True)
    found = {key: ratio for key, ratio in ratios(mine, theirs).items() if wanted(key)}
    for (name, depth), ratio in ratios(mine, theirs).items():
        ops, took = mine[(name, depth)]
        print("      %-24s depth %2d: %9.1f IOPS, fio's times %.3f%s" % (name, depth, ops / took, ratio, "" if (name, depth) in found else " (not judged)"), flush=True)
    off = {key: round(ratio, 3) for key, ratio in found.items() if abs(ratio - 1) > BOUND}
    check(not off, "further than %d %% from fio: %s" % (BOUND * 100, off))


def what_the_disk_decides(key):
    """One block in order is answered from the drive's memory: there the model takes no time, and its own program and the processors do."""
    return key[0] != "sequential_read_1_block"


def run(stage):
    if not os.environ.get("RIG_ALL"):
        return
    # On a plain loop device turns of seconds measure what else the machine does, either way.
    name = "corners_beside_fio_on_a_loop_device"
    if stage.wants(name):
        with stage.case(name):
            skip(pools.why_not("ext4"))
            skip(None if pools.which("fio") else "fio is not installed")
            with pools.Pool("ext4", size_mib=256, ram=True) as pool:
                agree(pool, 128, 1, lambda _: False)
    name = "corners_agree_with_fio_on_a_rotating_disk"
    if stage.wants(name):
        with stage.case(name):
            skip(pools.why_not("xfs", model=True))
            skip(None if pools.which("fio") else "fio is not installed")
            # XFS puts a file beside its folder. ext4 begins elsewhere for each process (fs/ext4/balloc.c, ext4_inode_to_goal_block:
            # the sixteenth of a group by the number of the process), up to a fifth of this disk's rate apart.
            with pools.Pool("xfs", model="hdd7200", size_mib=512) as pool:
                pool.model.delays(True)
                agree(pool, 384, 3, what_the_disk_decides)
