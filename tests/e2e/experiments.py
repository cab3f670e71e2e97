"""`spindle bench corners` and `bench blocks` against fio with the same patterns, in turns, on the model of a rotating disk: within 5 %.

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


# What each experiment does, as fio names it: rw of a row's `op` and `order`.
RW = {("write", "sequential"): "write", ("read", "sequential"): "read", ("read", "random"): "randread", ("write", "random"): "randwrite"}


def ours(experiment, pool, data, size_mib, seconds):
    """What `bench corners` or `bench blocks` says: its rows, in the order in which they were run."""
    argv = [servers.PROGRAM, "bench", "--data-dir", data, experiment, pool.mount, "--size", "%dM" % size_mib, "--seconds", str(seconds), "--yes", "--json"]
    run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    check(run.returncode == 0, "exit %d: %s" % (run.returncode, run.stderr[-600:]))
    rows = json.loads(run.stdout)
    check(len(rows) == {"corners": 10, "blocks": 14}[experiment] and all(row["direct"] for row in rows), "rows: %s" % rows)
    return rows


def fio(pool, size_mib, seconds, rows):
    """The same patterns by fio, in the same order: {(pattern, depth): (requests, seconds)}."""
    path = os.path.join(pool.mount, "fio.tmp")
    out = {}
    try:
        # As ours: room taken at once, then filled in order, and on the disk before anything is measured.
        subprocess.run(["fallocate", "-l", "%dM" % size_mib, path], check=True)
        subprocess.run(["dd", "if=/dev/urandom", "of=" + path, "bs=1M", "count=%d" % size_mib, "oflag=direct", "conv=notrunc,fsync", "status=none"], check=True)
        for row in rows:
            depth, rw = row["depth"], RW[row["op"], row["order"]]
            engine = ["--ioengine=psync"] if depth == 1 else ["--ioengine=libaio", "--iodepth=%d" % depth]
            argv = ["fio", "--name=x", "--filename=" + path, "--size=%dM" % size_mib, "--direct=1", "--rw=" + rw, "--bs=%d" % row["block_bytes"], "--time_based", "--runtime=%g" % seconds,
                    "--norandommap", "--randrepeat=0", "--thread", "--output-format=json", *engine]
            run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
            check(run.returncode == 0, "fio: exit %d: %s" % (run.returncode, run.stderr[-400:]))
            side = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0][row["op"]]
            out[(row["pattern"], depth)] = (side["total_ios"], side["runtime"] / 1000.0)
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


def agree(experiment, pool, size_mib, seconds, wanted):
    data = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    mine, theirs = {}, {}
    try:
        for _ in range(ROUNDS):
            # Mounted anew before each turn: a filesystem remembers where it last put a large file, and puts the next one behind it,
            # where a rotating disk is a third slower.
            pool.remount()
            rows = ours(experiment, pool, data, size_mib, seconds)
            add(mine, {(row["pattern"], row["depth"]): (row["ops"], row["seconds"]) for row in rows})
            pool.remount()
            add(theirs, fio(pool, size_mib, seconds, rows))
    finally:
        shutil.rmtree(data, ignore_errors=True)
    found = {key: ratio for key, ratio in ratios(mine, theirs).items() if wanted(key)}
    for (name, depth), ratio in ratios(mine, theirs).items():
        ops, took = mine[(name, depth)]
        print("      %-24s depth %2d: %9.1f IOPS, fio's times %.3f%s" % (name, depth, ops / took, ratio, "" if (name, depth) in found else " (not judged)"), flush=True)
    off = {key: round(ratio, 3) for key, ratio in found.items() if abs(ratio - 1) > BOUND}
    check(not off, "further than %d %% from fio: %s" % (BOUND * 100, off))


def what_the_disk_decides(key):
    """Small blocks in order come from the drive's memory and go into it, at a seventh of the rate of its heads: there the model takes
    no time, and its own program and the processors do."""
    return key[0] not in ("sequential_read_1_block", "read 4 KiB", "write 4 KiB", "read 16 KiB")


def run(stage):
    if not os.environ.get("RIG_ALL"):
        return
    # On a plain loop device turns of seconds measure what else the machine does, either way.
    for experiment in ("corners", "blocks"):
        name = experiment + "_beside_fio_on_a_loop_device"
        if stage.wants(name):
            with stage.case(name):
                skip(pools.why_not("xfs"))
                skip(None if pools.which("fio") else "fio is not installed")
                with pools.Pool("xfs", size_mib=512, ram=True) as pool:
                    agree(experiment, pool, 128, 1, lambda _: False)
        name = experiment + "_agree_with_fio_on_a_rotating_disk"
        if stage.wants(name):
            with stage.case(name):
                skip(pools.why_not("xfs", model=True))
                skip(None if pools.which("fio") else "fio is not installed")
                # XFS puts a file beside its folder. ext4 begins elsewhere for each process (fs/ext4/balloc.c, ext4_inode_to_goal_block:
                # the sixteenth of a group by the number of the process), up to a fifth of this disk's rate apart.
                with pools.Pool("xfs", model="hdd7200", size_mib=512) as pool:
                    pool.model.delays(True)
                    agree(experiment, pool, 384, 3, what_the_disk_decides)
