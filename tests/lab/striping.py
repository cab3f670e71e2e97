#!/usr/bin/env python3
"""What `spindle simulate` predicts, held against emulated disks; and the figures of docs/striping.md, which nobody writes by hand.

    tests/lab/striping.py check [LAYOUT...]    replay the scenarios, print what was predicted and what was seen (all layouts, or some)
    tests/lab/striping.py figures              the same layouts and others in virtual time
    tests/lab/striping.py page                 put both into docs/striping.md, from the results of the last runs

Scenarios are records as the server keeps them (`requests`), of viewers who read 2 MiB at a time. They are replayed
- on real filesystems of this kernel, on loop devices behind the disks of tests/lab/disks (FUSE): btrfs and ext4;
- for layouts that this kernel cannot have, by `spindle-disks replay`: threads that ask the same disks in real time.
Disks have the times of hdd7200 either way, and their own logs are the measure: what the model says that a command took does not depend on how
busy the machine is. Results stay in tests/.work/striping."""
import fcntl
import json
import mmap
import os
import random
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "rigs"))
import disks as models
import layout as layouts
import place
import pool as pools
import report
from report import check

PAGE = os.path.join(TOP, "docs", "striping.md")
IMAGES = os.path.join(TOP, "docs", "img")
MIB = 1 << 20
READ = 2 * MIB
SIZE_MIB = 8192
FILMS, FILM_MIB = 4, 160

# Layout as the simulator names it; the pool of tests/rigs/pool.py that is the same, or None: replayed by threads.
LAYOUTS = {
    "single": "ext4",
    "btrfs-raid1,disks=2": "raid1",
    "btrfs-raid10,disks=4": "raid10",
    "md-raid10,disks=4": None,
    "mirror,disks=3,columns=1": None,
    "mirror,disks=4,columns=2": None,
    "parity,disks=3": None,
}
# What scripts/test replays.
QUICK = ("btrfs-raid1,disks=2", "mirror,disks=4,columns=2")


# A player does not ask by a clock: without this, every request of a viewer would meet the platter at nearly the same angle.
DICE = random.Random(11)


def jitter():
    return DICE.uniform(0, 0.08)


def paced(film, start, mbit, seconds, after_s=0.0):
    """Rows of a viewer who plays on from a share of the film."""
    every, first = READ * 8 / (mbit * 1e6), int(start * FILM_MIB) // 2 * 2 * MIB
    count = min(int(seconds / every), (FILM_MIB * MIB - first) // READ)
    return {"film": film, "rows": [(after_s + number * every + jitter(), first + number * READ) for number in range(count)]}


def skipping(film, mbit, seconds):
    """Four jumps: a fifth of the time at each place."""
    every, rows, at = READ * 8 / (mbit * 1e6), [], 0
    for part, start in enumerate((0.0, 0.6, 0.2, 0.8, 0.4)):
        at = int(start * FILM_MIB) // 2 * 2 * MIB
        moment = part * seconds / 5
        while moment < (part + 1) * seconds / 5 and at + READ <= FILM_MIB * MIB:
            rows.append((moment + jitter(), at))
            moment, at = moment + every, at + READ
    return {"film": film, "rows": rows}


SECONDS = 16
SCENARIOS = {
    "one viewer": [paced(0, 0.0, 50, SECONDS)],
    "skipping around": [skipping(0, 50, SECONDS)],
    "three viewers, one film": [paced(0, start, 25, SECONDS, after) for start, after in ((0.0, 0.0), (0.34, 0.13), (0.67, 0.31))],
    "eight viewers, four films": [paced(number % FILMS, number // FILMS * 0.5, 25, SECONDS, number * 0.07) for number in range(8)],
}


def work():
    path = os.path.join(place.work(), "striping")
    os.makedirs(path, exist_ok=True)
    return path


def records(scenario):
    """Files of records, one a viewer."""
    paths = []
    for number, viewer in enumerate(SCENARIOS[scenario]):
        path = os.path.join(work(), "%s-%d.json" % (scenario.replace(" ", "-").replace(",", ""), number))
        rows = [{"at_ms": round(at * 1e3, 3), "offset": offset, "length_bytes": READ} for at, offset in viewer["rows"]]
        # Aside and moved: other runs read it.
        with open("%s.%d" % (path, os.getpid()), "w") as out:
            json.dump({"session": os.path.basename(path)[:-5], "file": "film %d" % viewer["film"], "requests": rows}, out)
        os.replace("%s.%d" % (path, os.getpid()), path)
        paths.append(path)
    return paths


def disks_program(*words):
    argv = [models.program(), *words]
    # As Model does: woken at once although the machine is busy. It sleeps nearly all the time.
    if words[0] == "replay" and subprocess.run(["chrt", "-f", "10", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        argv = ["chrt", "-f", "10"] + argv
    run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise RuntimeError("spindle-disks %s: %s" % (" ".join(words[:3]), run.stderr.strip()))
    return json.loads(run.stdout)


def predict(layout, paths, places, threads):
    return disks_program("predict", "--layout", layout, "size_mib=%d" % SIZE_MIB, "place=" + ",".join(map(str, places)),
                         "thread=" + ",".join(map(str, threads)), *paths)


def emulated(layout, scenario, places):
    """By threads and devices in real time; disk by disk: bytes, commands, busy seconds."""
    paths = records(scenario)
    threads = list(range(len(paths)))
    real = disks_program("replay", "--layout", layout, "--folder", work(), "size_mib=%d" % SIZE_MIB, "place=" + ",".join(map(str, places)),
                         "thread=" + ",".join(map(str, threads)), *paths)
    seen = [{"bytes": row["read_bytes"], "commands": row["reads"], "busy_s": row["busy_us"] / 1e6} for row in real["disks"]]
    return seen, predict(layout, paths, places, threads)


# Reads by which it is found out which disk answers a thread: the first ones fetch the filesystem's trees as well.
PROBES = 6


class Viewer(threading.Thread):
    """A thread that reads for one session, as a reader thread of the server does: through the page cache, read-ahead of the kernel's own off."""

    def __init__(self, path, rows):
        super().__init__(daemon=True)
        self.path, self.rows, self.error = path, rows, None
        self.probe, self.probed, self.go, self.began = threading.Semaphore(0), threading.Semaphore(0), threading.Event(), None

    def run(self):
        try:
            fd = os.open(self.path, os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
                for _ in range(PROBES):
                    self.probe.acquire()
                    self._direct()
                    self.probed.release()
                self.go.wait()
                buffer = bytearray(READ)
                for at, offset in self.rows:
                    time.sleep(max(0.0, self.began + at - time.monotonic()))
                    done = 0
                    while done < READ:
                        done += os.preadv(fd, [memoryview(buffer)[done:]], offset + done) or READ
            finally:
                os.close(fd)
        except OSError as error:
            self.error = error
            for _ in range(PROBES):
                self.probed.release()

    def _direct(self):
        """A page of the film past the cache: which disk answers tells the copy that this thread gets. (btrfs may read through the cache in
        spite of O_DIRECT.)"""
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECT)
        try:
            page = mmap.mmap(-1, 4096)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            os.posix_fadvise(fd, self.rows[0][1], 4096, os.POSIX_FADV_DONTNEED)
            os.preadv(fd, [page], self.rows[0][1])
        finally:
            os.close(fd)


class Kernel:
    """A pool of this kernel's own filesystems behind the disks, filled with films."""

    def __init__(self, layout, profile):
        self.layout, self.pool = layout, pools.Pool(profile, size_mib=SIZE_MIB, model="hdd7200")

    def __enter__(self):
        self.pool.__enter__()
        try:
            films = []
            noise = random.Random(7).randbytes(MIB)
            for number in range(FILMS + 2):
                path = os.path.join(self.pool.mount, "film%d" % number)
                with open(path, "wb") as out:
                    for _ in range(FILM_MIB):
                        out.write(noise)
                    os.fsync(out.fileno())
                films.append(path)
            os.sync()
            self.pool.remount()
            self._choose(films)
        except BaseException:
            self.pool.down()
            raise
        return self

    def __exit__(self, *_):
        self.pool.__exit__()

    def _choose(self, films):
        """The films that lie in one chunk, where each is in it, and the order of its disks: where real chunks begin and which disk is first in
        them goes by what was free when, and the simulator cannot know. It is told as if the chunk were its first."""
        if self.pool.kind != "btrfs":
            self.films, self.order = films[:FILMS], list(range(self.pool.count))
            self.places = [min(piece.start_byte for piece in layouts.pieces(self.pool, path) if piece.file_offset == 0) for path in self.films]
            return
        found, names = {}, layouts.devids(self.pool.mount)
        for chunk in layouts.chunks(self.pool.devices[0]):
            first, last = chunk["start"], chunk["start"] + chunk["length"]
            inside = [path for path in films if all(first <= at and at + length <= last for _, at, length in layouts.extents(path))]
            found[len(inside)] = (chunk, inside)
        chunk, inside = found[max(found)]
        check(len(inside) >= FILMS, "no chunk holds more than %d films" % len(inside))
        self.films = inside[:FILMS]
        self.places = [layouts.extents(path)[0][1] - chunk["start"] for path in self.films]
        numbers = [os.path.basename(path) for path in self.pool.loops]
        self.order = [numbers.index(names[devid][0]) for devid, _ in chunk["stripes"]]

    def _busy(self):
        return [self.pool.model.stats("d%d" % number) for number in range(self.pool.count)]

    def run(self, scenario):
        viewers = [Viewer(self.films[row["film"]], row["rows"]) for row in SCENARIOS[scenario]]
        paths, model = records(scenario), self.pool.model
        places = [self.places[row["film"]] for row in SCENARIOS[scenario]]
        pools.evict(*self.films)
        for viewer in viewers:
            viewer.start()
        threads = [self._thread(viewer, path) for viewer, path in zip(viewers, paths)]
        # The trees (extents, checksums) are warm, the films are not: metadata has no part in a record's requests.
        for path in self.films:
            with open(path, "rb", buffering=0) as film:
                while film.read(8 * MIB):
                    pass
        pools.evict(*self.films)
        self.pool.still()
        model.delays(True)
        for number in range(self.pool.count):
            model.order("reset d%d" % number)
        began = time.monotonic() + 0.2
        for viewer in viewers:
            viewer.began = began
            viewer.go.set()
        for viewer in viewers:
            viewer.join(60)
        model.delays(False)
        errors = [str(viewer.error) for viewer in viewers if viewer.error or viewer.is_alive()]
        check(not errors, "; ".join(errors))
        seen = []
        for number in range(self.pool.count):
            # Reads alone: a sync from anywhere on the machine makes the filesystem write.
            rows = [row for row in model.rows("d%d" % number) if row["op"] == "read" and row["time_us"] >= began * 1e6]
            seen.append({"bytes": sum(row["len_bytes"] for row in rows), "commands": len(rows), "busy_s": sum(row["service_us"] for row in rows) / 1e6})
        return [seen[number] for number in self.order], predict(self.layout, paths, places, threads)

    def _thread(self, viewer, path):
        """The number of the copy that this thread gets: by the order of the chunk, the half of each pair."""
        answers = []
        for _ in range(PROBES):
            before = [row["reads"] for row in self._busy()]
            viewer.probe.release()
            check(viewer.probed.acquire(timeout=30), "a probe of %s was not answered" % path)
            answers.append([now["reads"] > was for now, was in zip(self._busy(), before)])
        # The last that one disk alone answered.
        served = next((row for row in reversed(answers) if sum(row) == 1), answers[-1])
        check(not viewer.error, "a probe of %s: %s" % (path, viewer.error))
        check(sum(served) == 1, "no disk alone answers a read: %s" % answers)
        return self.order.index(served.index(True)) % 2


def judged(layout, scenario, how, seen, told):
    """A row of results. The error of a disk is against the busiest one's seconds: a disk that does nothing has no percentage."""
    said = [{"bytes": row["read_bytes"], "commands": row["requests"], "busy_s": row["busy_s"]} for row in told["disks"]]
    most = max(row["busy_s"] for row in seen) or 1e-9
    all_seen, all_said = sum(row["busy_s"] for row in seen), sum(row["busy_s"] for row in said)
    return {
        "layout": layout, "scenario": scenario, "how": how, "seen": seen, "said": said, "seconds": told["elapsed_s"],
        "error_total": (all_said - all_seen) / max(all_seen, 1e-9),
        "error_worst": max(abs(a["busy_s"] - b["busy_s"]) for a, b in zip(said, seen)) / most,
        "error_bytes": max(abs(a["bytes"] - b["bytes"]) for a, b in zip(said, seen)) / max(sum(row["bytes"] for row in seen), 1),
    }


def keep(row):
    path, found = os.path.join(work(), "check.json"), []
    # Several runs may measure at once.
    lock = open(path + ".lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.path.exists(path):
        with open(path) as text:
            found = json.load(text)
    key = lambda r: (list(LAYOUTS).index(r["layout"]), list(SCENARIOS).index(r["scenario"]))
    found = [r for r in found if r["layout"] in LAYOUTS and r["scenario"] in SCENARIOS and key(r) != key(row)] + [row]
    with open(path + ".tmp", "w") as out:
        json.dump(sorted(found, key=key), out, indent=1)
    os.replace(path + ".tmp", path)
    lock.close()


def measure(layout, scenarios=tuple(SCENARIOS)):
    """The rows of a layout."""
    profile, rows = LAYOUTS[layout], []
    if profile:
        with Kernel(layout, profile) as kernel:
            for scenario in scenarios:
                rows.append(judged(layout, scenario, "kernel", *kernel.run(scenario)))
    else:
        for scenario in scenarios:
            # Films where a simulator without a record of places would put them: spread over the disks.
            places = [(1 + row["film"]) * 1024 * MIB for row in SCENARIOS[scenario]]
            rows.append(judged(layout, scenario, "threads", *emulated(layout, scenario, places)))
    for row in rows:
        keep(row)
        print("%-26s %-26s busy s predicted %s, seen %s; all %+.1f %%, worst disk %.1f %%" % (
            layout, row["scenario"], ["%.3f" % d["busy_s"] for d in row["said"]], ["%.3f" % d["busy_s"] for d in row["seen"]],
            row["error_total"] * 100, row["error_worst"] * 100), flush=True)
    return rows


# ---- the page

def between(text, name, body):
    """Puts a body between the marks of a name."""
    begin, end = "<!-- %s: written by tests/lab/striping.py page -->" % name, "<!-- end of %s -->" % name
    check(begin in text and end in text, "docs/striping.md has no marks of %s" % name)
    head, rest = text.split(begin)
    return head + begin + "\n" + body.strip("\n") + "\n" + end + rest.split(end)[1]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def error_table(rows):
    busy = lambda disks: " ".join("%.2f" % disk["busy_s"] for disk in disks)
    body = table(["layout", "scenario", "emulated by", "busy s of each disk, predicted", "seen", "all disks", "worst disk", "bytes, worst disk"],
                 [["`%s`" % r["layout"], r["scenario"], "this kernel" if r["how"] == "kernel" else "threads", busy(r["said"]), busy(r["seen"]),
                   "%+.1f %%" % (r["error_total"] * 100), "%.1f %%" % (r["error_worst"] * 100), "%.1f %%" % (r["error_bytes"] * 100)] for r in rows])
    mean = sum(abs(r["error_total"]) for r in rows) / len(rows)
    return body + "\n\nMean of the %d rows, without sign: %.1f %% of all disks' busy time; %.1f %% for the worst disk." % (
        len(rows), mean * 100, sum(r["error_worst"] for r in rows) / len(rows) * 100)


def share_table(figures):
    shares = lambda row: " ".join("%.0f" % (share * 100) for share in row["shares"])
    counts = [row["viewers"] for row in figures[0]["viewers"]]
    return table(["layout"] + ["%d viewer%s" % (n, "s" if n > 1 else "") for n in counts],
                 [["`%s`" % f["layout"]] + [shares(row) for row in f["viewers"]] for f in figures])


def fit_table(figures):
    return table(["layout", "of the disks' room", "columns × copies", "viewers of 25 Mbit/s", "of 80 Mbit/s", "a disk busy with 8 viewers, mean", "95 % of reads within, 8 viewers"],
                 [["`%s`" % f["layout"], "%.0f %%" % (f["size_share"] * 100), "%d × %d" % (f["columns"], f["copies"]), f["fit_25"], f["fit_80"],
                   "%.0f %%" % (sum(f["viewers"][-1]["busy"]) / f["disks"] * 100), "%.0f ms" % f["viewers"][-1]["p95_ms"]] for f in figures])


def pace_table(figures):
    rate = lambda value: "–" if value is None else "%.0f" % (value / 1e6)
    keys = ("read_512k", "read_1m_q8", "read_8m", "write_64k", "write_512k", "write_1m", "write_row")
    return table(["layout", "read 512 KiB", "read 1 MiB, 8 at once", "read 8 MiB", "write 64 KiB", "write 512 KiB", "write 1 MiB", "write 12 MiB"],
                 [["`%s`" % f["layout"]] + [rate(f[key]) for key in keys] for f in figures])


def published_table(figures):
    of = {f["layout"]: f for f in figures}
    three, four, two = of["mirror,disks=3,columns=1"], of["mirror,disks=4,columns=1"], of["mirror,disks=4,columns=2"]
    parity, mirror = of["parity,disks=3"], of["mirror,disks=2"]
    ratio = lambda a, b, keys: ", ".join("%.2f" % (a[k] / b[k]) for k in keys)
    reads, writes = ("read_512k", "read_1m_q8", "read_8m"), ("write_64k", "write_512k", "write_1m")
    return table(["published", "the model, as a ratio"], [
        ["reading, 3 disks with 1 column are as fast as 4 disks with 1 column", "%s (512 KiB; 1 MiB, 8 at once; 8 MiB)" % ratio(three, four, reads)],
        ["4 disks with 2 columns read at about 3 times their rate", "%s" % ratio(two, three, reads)],
        ["parity writes at about a third of a mirror's rate", "3 disks against 2: %s (64 KiB, 512 KiB, 1 MiB); 4 disks with 4 columns: %s" % (
            ratio(parity, mirror, writes), ratio(of["parity,disks=4"], mirror, writes))],
    ])


COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7")


def bars(figures):
    """A picture: where the reads of one, three and eight viewers go, a bar a layout, a colour a disk."""
    shown = [f for f in figures if f["layout"] in ("mirror,disks=3,columns=1", "mirror,disks=4,columns=1", "mirror,disks=4,columns=2", "parity,disks=4",
                                                    "md-raid1,disks=2", "md-raid10,disks=4", "md-raid10,disks=4,far=2", "btrfs-raid1,disks=3", "btrfs-raid10,disks=4", "zfs-mirror,disks=4")]
    counts, line, left, wide, gap = (1, 3, 8), 26, 190, 170, 20
    height = 60 + line * len(shown)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">' % (left + (wide + gap) * 3, height),
           "<title>Share of each disk in what one, three and eight viewers read</title>",
           '<rect width="100%" height="100%" fill="#ffffff"/>']
    for place_, count in enumerate(counts):
        out.append('<text x="%d" y="20" font-weight="bold">%d viewer%s</text>' % (left + place_ * (wide + gap), count, "s" if count > 1 else ""))
    for number, f in enumerate(shown):
        top = 32 + number * line
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (left - 8, top + 14, f["layout"]))
        for place_, count in enumerate(counts):
            row = next(row for row in f["viewers"] if row["viewers"] == count)
            x = left + place_ * (wide + gap)
            out.append('<rect x="%d" y="%d" width="%d" height="18" fill="#eeeeee"/>' % (x, top, wide))
            for disk, share in enumerate(row["shares"]):
                if share > 0:
                    out.append('<rect x="%.1f" y="%d" width="%.1f" height="18" fill="%s"><title>disk %d: %.0f %%</title></rect>' % (x, top, share * wide, COLOURS[disk % 6], disk, share * 100))
                    x += share * wide
    for disk in range(4):
        x = left + disk * 80
        out.append('<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">disk %d</text>' % (x, height - 18, COLOURS[disk], x + 16, height - 8, disk))
    return "\n".join(out + ["</svg>"]) + "\n"


def columns(figures):
    """A picture: how many viewers fit."""
    most, line, left, wide = max(f["fit_25"] for f in figures), 22, 210, 420
    height = 40 + line * len(figures)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">' % (left + wide + 60, height),
           "<title>Viewers of 25 Mbit/s that a layout carries</title>", '<rect width="100%" height="100%" fill="#ffffff"/>',
           '<text x="%d" y="18" font-weight="bold">viewers of 25 Mbit/s that fit</text>' % left]
    for number, f in enumerate(figures):
        top, length = 28 + number * line, f["fit_25"] / most * wide
        out.append('<text x="%d" y="%d" text-anchor="end">%s</text>' % (left - 8, top + 13, f["layout"]))
        out.append('<rect x="%d" y="%d" width="%.1f" height="16" fill="%s"/>' % (left, top, length, COLOURS[0]))
        out.append('<text x="%.1f" y="%d">%d</text>' % (left + length + 6, top + 13, f["fit_25"]))
    return "\n".join(out + ["</svg>"]) + "\n"


def seen_table(rows):
    """Where reads went on the emulated disks themselves."""
    shares = lambda row: " ".join("%.0f" % (disk["bytes"] / max(sum(d["bytes"] for d in row["seen"]), 1) * 100) for disk in row["seen"])
    of = {(row["layout"], row["scenario"]): row for row in rows}
    names = [layout for layout in LAYOUTS if (layout, "one viewer") in of]
    return table(["layout"] + list(SCENARIOS), [["`%s`" % name] + [shares(of[name, scenario]) if (name, scenario) in of else "" for scenario in SCENARIOS] for name in names])


def page():
    with open(os.path.join(work(), "check.json")) as text:
        rows = json.load(text)
    with open(os.path.join(work(), "figures.json")) as text:
        figures = json.load(text)["layouts"]
    with open(PAGE) as text:
        body = text.read()
    for name, made in (("seen", seen_table(rows)), ("shares", share_table(figures)), ("fit", fit_table(figures)), ("pace", pace_table(figures)),
                       ("published", published_table(figures)), ("errors", error_table(rows))):
        body = between(body, name, made)
    with open(PAGE, "w") as out:
        out.write(body)
    for name, made in (("striping-shares.svg", bars(figures)), ("striping-fit.svg", columns(figures))):
        with open(os.path.join(IMAGES, name), "w") as out:
            out.write(made)
    print("docs/striping.md and two pictures written from %d rows and %d layouts" % (len(rows), len(figures)))


def run():
    words = sys.argv[1:]
    if words[:1] == ["check"]:
        for layout in words[1:] or LAYOUTS:
            reason = pools.why_not(LAYOUTS[layout], model=True) if LAYOUTS[layout] else None
            if reason:
                print("skip %s: %s" % (layout, reason))
                continue
            measure(layout)
    elif words == ["figures"]:
        with open(os.path.join(work(), "figures.json"), "w") as out:
            json.dump(disks_program("figures"), out)
    elif words == ["page"]:
        page()
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    report.main(run)
