"""What the record costs: streams at full speed from a cold pool, with the helper that traces every request, by the map alone,
and without any record.

The servers run at once on the same pool and take turns, so that what else the machine does meets them alike. The pool is
btrfs raid0 in memory: its disks are faster than any real ones, so the share of the record in the whole is the largest there
can be. Nothing passes or fails here; the aim is 3 %."""
import os
import shutil
import statistics
import struct
import threading
import time

import bench
import pool as pools
import server as servers
from report import check

STREAMS = 16
FILM_BYTES = 64 << 20


def fill(pool):
    """As many films as streams: a clip, then a box of noise that every reader of MP4 skips."""
    folder = os.path.join(bench.samples("clips"), "Clips", "Direct Hour (2020)")
    source = os.path.join(folder, os.listdir(folder)[0])
    titles, paths = ["Film %02d" % number for number in range(STREAMS)], []
    for title in titles:
        folder = os.path.join(pool.mount, "%s (2000)" % title)
        os.makedirs(folder)
        path = os.path.join(folder, "%s (2000).mp4" % title)
        shutil.copyfile(source, path)
        left = FILM_BYTES - os.path.getsize(path)
        with open(path, "ab") as out:
            out.write(struct.pack(">I4s", left, b"free"))
            for at in range(8, left, 1 << 20):
                out.write(os.urandom(min(1 << 20, left - at)))
        os.sync()
        paths.append(path)
    return titles, paths


class Played:
    """A server with a session for every film."""

    def __init__(self, name, pool, titles, flags):
        self.name, self.titles = name, titles
        self.server = servers.Server([("movies", pool.mount)], flags)

    def __enter__(self):
        self.server.__enter__()
        try:
            self.server.setup()
            rows = self.server.settled(self.titles, 180)
            self.server.idle()
            self.plays = [self.server.play(rows[title]["id"]) for title in self.titles]
            check(all(play["method"] == "direct_play" for play in self.plays), "not played as it is: %s" % {p["method"] for p in self.plays})
        except BaseException:
            self.server.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.server.__exit__()

    def run(self):
        """All films at once, whole and as fast as they go: rate and CPU."""
        targets = [(self.server.url.split("//")[1], self.server.path_of(play["url"])) for play in self.plays]
        rows, errors = [], []

        def one(target):
            try:
                rows.append(bench.load(target, "seq", FILM_BYTES))
            except Exception as error:
                errors.append(str(error))
        threads = [threading.Thread(target=one, args=(target,)) for target in targets]
        before, began = bench.cpu_s(self.server.pid), time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        # The rest of the record's work is done when nothing waits for it: it counts, too.
        time.sleep(1.5)
        cpu = bench.cpu_s(self.server.pid) - before
        check(not errors, "; ".join(errors[:2]))
        total = sum(row["bytes"] for row in rows)
        return {"mb_s": total / seconds / 1e6, "cpu_s_per_gb": cpu / (total / 1e9)}

    def attribution(self):
        if self.name == NONE:
            return ["none"]
        return sorted({self.server.io(play["session"])["attribution"] for play in self.plays})


HELPER, MAP, NONE = "with the helper", "by the map alone", "no record"


def overhead(options):
    """Rows for the table: with the helper, by the map, without a record, and their ratios to the last."""
    why = pools.why_not()
    if why:
        print("\noverhead: skipped, %s" % why)
        return {"skipped": why}
    with pools.Pool("raid0", size_mib=640, ram=True) as pool:
        titles, paths = fill(pool)
        pool.remount()
        kinds = [(HELPER, []), (MAP, ["--storage-helper", "off"]), (NONE, ["--storage-record", "false"])]
        running = []
        rows = {name: [] for name, _ in kinds}
        try:
            for name, flags in kinds:
                running.append(Played(name, pool, titles, flags).__enter__())
            for number in range(max(options.rounds, 3) + 1):
                # Who goes first changes every round; the first round warms everything but the films.
                for one in running if number % 2 else running[::-1]:
                    pools.evict(*paths)
                    row = one.run()
                    if number:
                        rows[one.name].append(row)
            told = {one.name: one.attribution() for one in running}
        finally:
            for one in running:
                one.__exit__()
    table = {name: {key: round(statistics.median(row[key] for row in got), 4) for key in got[0]} for name, got in rows.items()}
    pairs = {name: {key: [round(x[key] / y[key], 3) for x, y in zip(rows[name], rows[NONE])] for key in table[NONE]} for name in (HELPER, MAP)}
    ratios = {name: {key: statistics.median(values) for key, values in by.items()} for name, by in pairs.items()}
    print("\n%d streams at full speed, cold, btrfs raid0 in memory (medians of %d)" % (STREAMS, len(rows[NONE])))
    print("%-20s %9s %12s %s" % ("", "MB/s", "CPU s/GB", "attribution"))
    for name, row in table.items():
        print("%-20s %9.0f %12.3f %s" % (name, row["mb_s"], row["cpu_s_per_gb"], "/".join(told[name])))
    for name, row in ratios.items():
        print("%-20s %9.3f %12.3f   to no record, medians of the pairs: %s" % (name, row["mb_s"], row["cpu_s_per_gb"], pairs[name]))
    return {"rows": table, "ratios": ratios, "pairs": pairs, "attribution": told}
