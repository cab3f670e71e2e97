#!/usr/bin/env python3
"""Proves the rigs themselves with dd and expectations worked out by hand, before anything is measured with them."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layout
import pool as pools
import report
import trace as tracing
from report import check

MIB = 1 << 20


def fill(path, size):
    with open(path, "wb") as out:
        for _ in range(size // MIB):
            out.write(os.urandom(MIB))
    os.sync()


def read_by_dd(path, skip, count):
    """Reads 1 MiB blocks past the cache, so that no read-ahead blurs the expectation."""
    subprocess.run(["dd", "if=" + path, "of=/dev/null", "bs=1M", "skip=%d" % skip, "count=%d" % count, "iflag=direct", "status=none"], check=True)


def run():
    stage = report.Stage("rigs")
    why = pools.why_not() or tracing.why_not()
    for profile in pools.PROFILES:
        name = "trace_and_layout_agree_with_dd_on_%s" % profile
        if not stage.wants(name):
            continue
        with stage.case(name):
            if why:
                raise report.Skip(why)
            with pools.Pool(profile) as pool:
                film, other = os.path.join(pool.mount, "film.bin"), os.path.join(pool.mount, "other.bin")
                fill(film, 48 * MIB)
                fill(other, 12 * MIB)
                pool.remount()
                # Written so once: file data is placed by the filesystem alone, so what the disks hold is the whole file.
                held = {disk: 0 for disk in pool.disks}
                copies = 2 if profile in ("raid1", "raid10") else 1
                for piece in layout.pieces(pool, film):
                    held[piece.disk] += piece.len_bytes
                check(sum(held.values()) == 48 * MIB * copies, "the layout holds %s" % held)
                with tracing.BlockTrace(pool.disks) as seen:
                    read_by_dd(film, 8, 24)
                got = seen.data()
                check(seen.lost == 0, "%d events lost" % seen.lost)
                check(sum(got.values()) == 24 * MIB, "dd read 24 MiB, the trace saw %s" % got)
                # By hand: 64 KiB stripes in turn, so 24 MiB over n columns is even to one stripe a MiB-sized request;
                # one mirror set is one leg for one process; single and plain disks put it all in one or few places.
                if profile == "raid0":
                    check(all(abs(count - 8 * MIB) <= MIB for count in got.values()), "uneven stripes: %s" % got)
                if profile == "raid1":
                    check(sorted(got.values()) == [0, 24 * MIB], "one process reads one leg, but: %s" % got)
                if profile == "raid10":
                    check(sorted(got.values())[:2] == [0, 0] and all(abs(c - 12 * MIB) <= MIB for c in sorted(got.values())[2:]), "a leg of each pair: %s" % got)
                owner = layout.Owner(pool, [film, other])
                foreign = [e for e in seen.events if "M" not in e.flags and owner.of(e.disk, e.sector * 512) != film]
                check(not foreign, "requests outside the file's own places: %s" % foreign[:3])
                # A cold buffered read brings the whole of `other` in once, and a second one nothing.
                pools.evict(other)
                with tracing.BlockTrace(pool.disks) as cold:
                    subprocess.run(["cat", other], stdout=subprocess.DEVNULL, check=True)
                with tracing.BlockTrace(pool.disks) as warm:
                    subprocess.run(["cat", other], stdout=subprocess.DEVNULL, check=True)
                check(sum(cold.data().values()) == 12 * MIB, "cold: %s" % cold.data())
                check(sum(warm.data().values()) == 0, "warm: %s" % warm.data())
    return stage.finish()


if __name__ == "__main__":
    report.main(run)
