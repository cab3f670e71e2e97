#!/usr/bin/env python3
"""Proves the rigs themselves with dd and expectations worked out by hand, before anything is measured with them."""
import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import time

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
    pools.flush(path)


def read_by_dd(path, skip, count):
    """Reads 1 MiB blocks past the cache, so that no read-ahead blurs the expectation."""
    subprocess.run(["dd", "if=" + path, "of=/dev/null", "bs=1M", "skip=%d" % skip, "count=%d" % count, "iflag=direct", "status=none"], check=True)


def skip(why):
    if why:
        raise report.Skip(why)


def strangers(pool, seen, *files):
    """Requests that lie in no place of the files."""
    owner = layout.Owner(pool, list(files))
    return [e for e in seen.events if "M" not in e.flags and owner.of(e.disk, e.sector * 512) not in files]


@contextlib.contextmanager
def held_in_memory(path):
    """The pages of a file, locked: a machine may let go of them at any time, also of what was read a moment ago (DAMON_RECLAIM)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    failed = lambda what: "%s: %s" % (what, os.strerror(ctypes.get_errno()))
    with open(path, "rb") as source:
        size = ctypes.c_size_t(os.fstat(source.fileno()).st_size)
        pages = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, source.fileno(), ctypes.c_long(0))
    check(pages != ctypes.c_void_p(-1).value, failed("mmap"))
    pages = ctypes.c_void_p(pages)
    try:
        check(libc.mlock(pages, size) == 0, failed("mlock"))
        yield
    finally:
        libc.munmap(pages, size)


def agree(pool):
    """A file is read by dd: the trace must see just its bytes, on the disks where the layout says they are."""
    film, other = os.path.join(pool.mount, "film.bin"), os.path.join(pool.mount, "other.bin")
    profile, plan = pool.profile, pool.plan
    fill(film, 48 * MIB)
    fill(other, 12 * MIB)
    pool.remount()
    if profile == "compressed":
        # The places of compressed extents are told, their lengths are not: only the sum is known, as noise does not shrink.
        pools.evict(film)
        with tracing.BlockTrace(pool.disks) as seen:
            subprocess.run(["cat", film], stdout=subprocess.DEVNULL, check=True)
        check(48 * MIB <= sum(seen.data().values()) <= 49 * MIB, "cold and compressed: %s" % seen.data())
        return
    # Written so once: file data is placed by the filesystem alone, so what the disks hold is the whole file.
    held = {disk: 0 for disk in pool.disks}
    for piece in layout.pieces(pool, film):
        held[piece.disk] += piece.len_bytes
    check(sum(held.values()) == 48 * MIB * plan.copies, "the layout holds %s" % held)
    with tracing.BlockTrace(pool.disks) as seen:
        read_by_dd(film, 8, 24)
    got = seen.data()
    check(seen.lost == 0, "%d events lost" % seen.lost)
    check(sum(got.values()) == 24 * MIB, "dd read 24 MiB, the trace saw %s" % got)
    # By hand: 64 KiB stripes in turn, so 24 MiB over n columns is even to one stripe a MiB-sized request;
    # one mirror set is one leg for one process; single and plain disks put it all in one or few places.
    even = lambda counts, share: all(abs(count - share) <= MIB for count in counts)
    rows = sorted(got.values())
    if profile == "raid0":
        check(even(rows, 8 * MIB), "uneven stripes: %s" % got)
    if profile in ("raid1", "raid1c3", "raid1c4", "partition-raid1"):
        check(rows == [0] * (pool.count - 1) + [24 * MIB], "one process reads one leg, but: %s" % got)
    if profile == "raid10":
        check(rows[:2] == [0, 0] and even(rows[2:], 12 * MIB), "a leg of each pair: %s" % got)
    if profile in ("raid5", "raid6"):
        check(even(rows, 24 * MIB / pool.count), "data and parity go round, so all disks serve alike: %s" % got)
    foreign = strangers(pool, seen, film)
    check(not foreign, "requests outside the file's own places: %s" % foreign[:3])
    # A cold buffered read brings the whole of `other` in once, and a second one nothing.
    warmed = [other] if pool.kind != "mergerfs" else [layout.in_branch(pool, b, other) for b in pool.branches if os.path.exists(layout.in_branch(pool, b, other))]
    pools.evict(*warmed)
    with tracing.BlockTrace(pool.disks) as cold:
        subprocess.run(["cat", other], stdout=subprocess.DEVNULL, check=True)
    # mergerfs drops what it read when a file is closed.
    locked = contextlib.nullcontext() if pool.kind == "mergerfs" else held_in_memory(other)
    with locked, tracing.BlockTrace(pool.disks) as warm:
        subprocess.run(["cat", other], stdout=subprocess.DEVNULL, check=True)
    check(sum(cold.data().values()) == 12 * MIB, "cold: %s" % cold.data())
    if pool.kind != "mergerfs":
        check(sum(warm.data().values()) == 0, "warm: %s, %s" % (warm.data(), warm.events[:4]))


def model_cases(stage, why):
    """The disks that take time and fail: their log against the kernel's trace, and each fault as a reader meets it."""
    name = "the_log_of_the_model_agrees_with_the_trace_and_with_its_own_times"
    if stage.wants(name):
        with stage.case(name):
            skip(why or pools.why_not(model=True))
            with pools.Pool("raid0", model="hdd7200") as pool:
                film = os.path.join(pool.mount, "film.bin")
                fill(film, 48 * MIB)
                pool.remount()
                pool.model.delays(True)
                before = {disk: len(pool.model.rows(pool.name_in_model(disk))) for disk in pool.disks}
                with tracing.BlockTrace(pool.disks) as seen:
                    read_by_dd(film, 8, 24)
                for disk, count in seen.data().items():
                    rows = [row for row in pool.model.rows(pool.name_in_model(disk))[before[disk]:] if row["op"] == "read"]
                    logged, meta = sum(row["len_bytes"] for row in rows), seen.metadata()[disk]
                    check(logged == count + meta, "%s: the log has %d bytes, the trace %d and %d of metadata" % (disk, logged, count, meta))
                    for row in rows:
                        parts = row["seek_us"] + row["rotation_us"] + row["transfer_us"] + 80
                        check(abs(row["service_us"] - parts) <= 5, "%s: the parts of a request make %d us: %s" % (disk, parts, row))
                        check(row["errno"] == 0 and row["seek_us"] <= 16000 and row["rotation_us"] <= 8334, "%s: %s" % (disk, row))
    name = "a_bad_range_is_an_error_for_who_reads_it_and_for_nobody_else"
    if stage.wants(name):
        with stage.case(name):
            skip(why or pools.why_not(model=True))
            with pools.Pool("ext4", model="ssd") as pool:
                film, other = os.path.join(pool.mount, "film.bin"), os.path.join(pool.mount, "other.bin")
                fill(film, 4 * MIB)
                fill(other, 4 * MIB)
                bad = next(piece for piece in layout.pieces(pool, film) if piece.file_offset <= 2 * MIB < piece.file_offset + piece.len_bytes)
                pool.remount()
                pool.model.error("d0", bad.start_byte + 2 * MIB - bad.file_offset, 4096)
                read_by_dd(film, 0, 2)
                read_by_dd(other, 0, 4)
                run = subprocess.run(["dd", "if=" + film, "of=/dev/null", "bs=1M", "skip=2", "iflag=direct"], stderr=subprocess.PIPE, text=True)
                check(run.returncode and "Input/output error" in run.stderr, run.stderr)
                pool.model.heal("d0")
                read_by_dd(film, 0, 4)
    name = "a_hang_holds_a_reader_until_it_is_healed_and_a_pulled_disk_fails_at_once"
    if stage.wants(name):
        with stage.case(name):
            skip(why or pools.why_not(model=True))
            with pools.Pool("xfs", model="ssd") as pool:
                film = os.path.join(pool.mount, "film.bin")
                fill(film, 4 * MIB)
                pool.remount()
                pool.model.hang("d0", 600)
                reader = subprocess.Popen(["dd", "if=" + film, "of=/dev/null", "bs=1M", "iflag=direct", "status=none"])
                servers_until(lambda: pool.model.stats("d0")["waiting"] > 0, "a request waits")
                check(reader.poll() is None, "the reader got something")
                pool.model.heal("d0")
                check(reader.wait(60) == 0, "the reader failed after the hang")
                pool.model.vanish("d0")
                run = subprocess.run(["dd", "if=" + film, "of=/dev/null", "bs=1M", "iflag=direct"], stderr=subprocess.PIPE, text=True)
                check(run.returncode and "Input/output error" in run.stderr, run.stderr)


def servers_until(probe, what):
    end = time.monotonic() + 30
    while not probe():
        check(time.monotonic() < end, what + ": not within 30 s")
        time.sleep(0.05)


def what_if(stage):
    """What `spindle simulate` predicts of eight viewers, against disks that take their time: bytes, and busy time by the drives' own logs. How far
    they were apart when this was written is in docs/striping.md."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab"))
    import striping
    for layout in striping.QUICK:
        name = "what_is_predicted_of_eight_viewers_is_what_the_disks_of_%s_do" % layout.replace(",", "_").replace("=", "")
        if stage.wants(name):
            with stage.case(name):
                skip(pools.why_not(striping.LAYOUTS[layout], model=True))
                for row in striping.measure(layout, ("eight viewers, four films",)):
                    check(row["error_bytes"] <= 0.05, "%.1f %% of the bytes on another disk: %s" % (row["error_bytes"] * 100, row))
                    # A disk that is woken late finds more to choose from: the model is a tenth off on an idle machine.
                    check(abs(row["error_total"]) <= 0.4, "busy time is %+.1f %% off: %s" % (row["error_total"] * 100, row))


def run():
    stage = report.Stage("rigs")
    why = tracing.why_not()
    for profile in pools.PROFILES:
        name = "trace_and_layout_agree_with_dd_on_%s" % profile
        if stage.wants(name):
            with stage.case(name):
                skip(why or pools.why_not(profile))
                with pools.Pool(profile) as pool:
                    agree(pool)
    name = "trace_and_layout_agree_with_dd_on_a_mirror_with_a_missing_disk"
    if stage.wants(name):
        with stage.case(name):
            skip(why or pools.why_not())
            with pools.Pool("raid1-3") as pool:
                film = os.path.join(pool.mount, "film.bin")
                fill(film, 48 * MIB)
                gone = sorted(pool.disks)[1]
                pool.degrade(gone)
                check(gone not in pool.disks and len(pool.disks) == 2, "disks: %s" % pool.disks)
                with tracing.BlockTrace(pool.disks) as seen:
                    read_by_dd(film, 8, 24)
                check(sum(seen.data().values()) == 24 * MIB, "the trace saw %s" % seen.data())
                check(not strangers(pool, seen, film), "requests outside the file's own places")
    model_cases(stage, why)
    what_if(stage)
    return stage.finish()


if __name__ == "__main__":
    report.main(run)
