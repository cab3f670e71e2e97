"""Faults of experiments (spindle bench): no room, no consent, no right, stopped, killed, and a volume that turns read-only in mid-run.
Whatever happens, the temporary file is gone at the end or after the next start, and what was measured is kept and said to be partial."""
import contextlib
import fcntl
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import place
import pool as pools
import report
import server as servers
from report import check

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = ".spindle-bench-"


def skip(why):
    if why:
        raise report.Skip(why)


@contextlib.contextmanager
def data_dir():
    folder = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def argv(data, *words):
    return [servers.PROGRAM, "bench", "--data-dir", data, *words]


def bench(data, *words, **more):
    return subprocess.run(argv(data, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **more)


def left(pool):
    return [name for name in os.listdir(pool.mount) if name.startswith(PREFIX)]


def noted(data):
    folder = os.path.join(data, "experiments", "scratch")
    return os.listdir(folder) if os.path.isdir(folder) else []


def records(data):
    run = bench(data, "list", "--json")
    check(run.returncode == 0, run.stderr)
    return json.loads(run.stdout)


class Running:
    """A bench under way, whose lines of progress can be waited for."""

    def __init__(self, data, *words):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv(data, *words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors, text=True)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def until(self, text):
        end = time.monotonic() + 120
        while text not in self.said():
            check(self.process.poll() is None, "it ended with %s: %s" % (self.process.returncode, self.said()))
            check(time.monotonic() < end, "not within 120 s: %s" % text)
            time.sleep(0.05)

    def ends(self):
        self.process.wait(120)
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        servers.end_program(self.process)
        self.text = self.said()
        self.errors.close()


def refused():
    with pools.Pool("ext4", size_mib=64) as pool, data_dir() as data:
        run = bench(data, "corners", pool.mount, "--size", "60M", "--yes")
        check(run.returncode == 1 and "no room" in run.stderr and "must stay" in run.stderr, "%d %s" % (run.returncode, run.stderr))
        run = bench(data, "corners", pool.mount, "--size", "8M")
        check(run.returncode == 2 and "--yes" in run.stderr and pool.mount in run.stderr and "8388608 bytes" in run.stderr, "%d %s" % (run.returncode, run.stderr))
        run = bench(data, "blocks", os.path.join(pool.mount, "missing"), "--yes")
        check(run.returncode == 1, run.stderr)
        pools.sh("mount", "-o", "remount,ro", pool.mount)
        run = bench(data, "corners", pool.mount, "--size", "8M", "--yes")
        check(run.returncode == 1 and "ead-only" in run.stderr, "%d %s" % (run.returncode, run.stderr))
        pools.sh("mount", "-o", "remount,rw", pool.mount)
        check(not left(pool) and not noted(data) and not records(data), "nothing was made: %s %s" % (left(pool), noted(data)))


def no_right():
    with pools.Pool("ext4", size_mib=64) as pool, data_dir() as data:
        os.chmod(data, 0o777)
        os.chmod(pool.mount, 0o755)
        program = servers.program_for(65534)
        run = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program, "bench", "--data-dir", data, "corners", pool.mount, "--size", "8M", "--yes"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(run.returncode == 1 and "ermission denied" in run.stderr, "%d %s" % (run.returncode, run.stderr))
        check(not left(pool) and not noted(data), "left: %s %s" % (left(pool), noted(data)))


def stopped():
    for number in (signal.SIGINT, signal.SIGTERM):
        with pools.Pool("ext4", size_mib=128) as pool, data_dir() as data:
            with Running(data, "corners", pool.mount, "--size", "16M", "--seconds", "0.5", "--yes") as run:
                run.until("sequential_read_1_block")
                check(len(left(pool)) == 1, "its file: %s" % left(pool))
                mode = os.stat(os.path.join(pool.mount, left(pool)[0])).st_mode & 0o777
                check(mode == 0o600, "mode %o" % mode)
                run.process.send_signal(number)
                check(run.ends() == 1, "status %s: %s" % (run.process.returncode, run.said()))
                check("interrupted" in run.said(), run.said())
            check(not left(pool) and not noted(data), "left: %s %s" % (left(pool), noted(data)))
            kept = records(data)
            check(len(kept) == 1 and kept[0]["interrupted"], "kept: %s" % kept)
            whole = json.loads(bench(data, "show", kept[0]["id"], "--json").stdout)
            names = [row["pattern"] for row in whole["rows"]]
            check("sequential_write_512k" in names and len(names) < 10, "partial: %s" % names)


def killed():
    with pools.Pool("ext4", size_mib=128) as pool, data_dir() as data:
        films = [os.path.join(pool.mount, name) for name in ("film.mkv", PREFIX + "of-somebody.tmp")]
        for film in films:
            with open(film, "w") as out:
                out.write("film")
        with Running(data, "corners", pool.mount, "--size", "16M", "--seconds", "30", "--yes") as run:
            run.until("sequential_write_512k")
            # A second one meanwhile leaves the first one's file alone.
            check("interrupted" not in bench(data, "corners", pool.mount).stderr and len(left(pool)) == 2, "in use: %s" % left(pool))
            run.process.kill()
            check(run.ends() == -signal.SIGKILL, "it was killed")
        check(len(left(pool)) == 2 and len(noted(data)) == 1, "a killed run leaves its file: %s" % left(pool))
        # While its volume is away nothing is forgotten.
        pool.unmount()
        run = bench(data, "corners", pool.mount)
        check("stays" in run.stderr and len(noted(data)) == 1, run.stderr)
        pool._mount()
        run = bench(data, "corners", pool.mount)
        check("removed" in run.stderr, run.stderr)
        check(not noted(data) and all(os.path.exists(film) for film in films) and len(left(pool)) == 1, "after the next start: %s %s" % (left(pool), noted(data)))


def turns_read_only():
    with pools.Pool("ext4", size_mib=256, model="ssd") as pool, data_dir() as data:
        with Running(data, "corners", pool.mount, "--size", "32M", "--seconds", "1", "--yes") as run:
            run.until("random_write_4k")
            pool.model.readonly("d0")
            check(run.ends() == 1, "status %s: %s" % (run.process.returncode, run.said()))
            said = run.said()
            check("interrupted" in said, said)
        kept = records(data)
        check(len(kept) == 1 and "write" in kept[0]["interrupted"], "kept: %s" % kept)
        pool.model.heal("d0")
        pool.remount()
        bench(data, "corners", pool.mount)
        check(not left(pool) and not noted(data), "after the next start: %s %s" % (left(pool), noted(data)))


SLEEPS = """set -e
mount -t tmpfs none "$1"; mkdir "$1/up" "$1/work"
mount -t overlay overlay -o lowerdir="$2",upperdir="$1/up",workdir="$1/work" "$2"
mkdir -p "$2/device/power"; echo suspended > "$2/device/power/runtime_status"
shift 2; exec "$@"
"""


def asleep(data, disk):
    """A command's beginning that makes it see a disk as the kernel shows one whose power was taken (a file that loop devices lack, in a
    mount namespace of its own)."""
    folder = os.path.join(data, "overlay")
    os.makedirs(folder, exist_ok=True)
    return ["unshare", "--mount", "sh", "-c", SLEEPS, "sh", folder, os.path.realpath("/sys/block/" + disk)]


class Asked:
    """A program on a terminal of its own that is asked questions; `says` waits for a text, `answer` types a line."""

    def __init__(self, words):
        self.master, slave = pty.openpty()
        self.raw = b""
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)

    def pump(self):
        if not select.select([self.master], [], [], 0.1)[0]:
            return True
        try:
            got = os.read(self.master, 65536)
        except OSError:  # nobody is at the other end any more
            return False
        self.raw += got
        return bool(got)

    def says(self, text):
        end = time.monotonic() + 60
        while text.encode() not in self.raw:
            check(self.pump() and time.monotonic() < end, "it does not say %r but: %r" % (text, self.raw[-600:]))

    def answer(self, line):
        self.raw = b""
        os.write(self.master, line.encode() + b"\n")

    def ends(self):
        end = time.monotonic() + 60
        while self.pump() and time.monotonic() < end:
            pass
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        servers.end_program(self.process)
        os.close(self.master)


def sleeping():
    with pools.Pool("ext4", size_mib=128) as pool, data_dir() as data:
        disk = next(iter(pool.disks))
        film = os.path.join(pool.mount, "film.mp4")
        with open(film, "wb") as out:
            out.write(b"no film")
        begin = asleep(data, disk)
        short = ("--size", "4M", "--seconds", "0.1")
        ways = {"corners": (pool.mount, *short), "blocks": (pool.mount, *short), "copy": (pool.mount, pool.mount, "--size", "4M"), "stream": (film,)}
        for name, words in ways.items():
            run = subprocess.run(begin + argv(data, name, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
            check(run.returncode == 2 and len(run.stderr.strip().splitlines()) == 1, "%s: %d %s" % (name, run.returncode, run.stderr))
            flag = "--wake" if name == "stream" else "--yes"
            check(disk in run.stderr and ("asleep" in run.stderr or "sleeps" in run.stderr) and flag in run.stderr, "%s: %s" % (name, run.stderr))
            check(not left(pool) and not noted(data), "%s made something" % name)
            with Asked(begin + argv(data, name, *words)) as asked:
                asked.says("[y/N]")
                check(disk.encode() in asked.raw, "it asks of %s: %r" % (disk, asked.raw))
                asked.answer("n")
                asked.says("nothing was done")
                check(asked.ends() == 1 and not left(pool) and not noted(data), "%s after `n`: %s" % (name, asked.process.returncode))
        # Yes to the disk, then the file is asked about; yes to both runs it.
        with Asked(begin + argv(data, "corners", pool.mount, *short)) as asked:
            asked.says("asleep")
            asked.says("[y/N]")
            asked.answer("y")
            asked.says("temporary file")
            asked.says("[y/N]")
            asked.answer("")
            asked.says("nothing was done")
            check(asked.ends() == 1 and not records(data), "an empty answer is no")
        with Asked(begin + argv(data, "corners", pool.mount, *short)) as asked:
            asked.says("[y/N]")
            asked.answer("yes")
            asked.says("temporary file")
            asked.answer("y")
            asked.says("kept as")
            check(asked.ends() == 0, "it ran: %r" % asked.raw[-300:])
        run = subprocess.run(begin + argv(data, "blocks", pool.mount, *short, "--yes"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(run.returncode == 0 and len(records(data)) == 2 and not left(pool), "%d %s" % (run.returncode, run.stderr))
        run = subprocess.run(begin + argv(data, "stream", film, "--wake"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check("sleeps" not in run.stderr and "no film that can be played" in run.stderr, run.stderr)


def through_memory():
    """ext4 with data=journal takes O_DIRECT and goes through memory; ramfs refuses it. Both are said, and the figures say so."""
    with pools.Pool("ext4", size_mib=128) as pool, data_dir() as data:
        pool.unmount()
        pools.sh("mount", "-o", "noatime,data=journal", pool.devices[0], pool.mount)
        run = bench(data, "corners", pool.mount, "--size", "8M", "--seconds", "0.1", "--yes")
        check(run.returncode == 0 and "no direct I/O" in run.stdout and "through memory" in run.stdout, "%d %s %s" % (run.returncode, run.stdout, run.stderr))
        kept = json.loads(bench(data, "show", records(data)[0]["id"], "--json").stdout)
        check(len(kept["rows"]) == 10 and not any(row["direct"] for row in kept["rows"]), "rows: %s" % kept["rows"])
        memory = os.path.join(data, "memory")
        os.mkdir(memory)
        pools.sh("mount", "-t", "ramfs", "none", memory)
        try:
            film = os.path.join(memory, "film.mkv")
            with open(film, "wb") as out:
                out.write(os.urandom((4 << 20) + 777))
            run = bench(data, "copy", film, pool.mount, "--yes")
            check(run.returncode == 0 and "no direct I/O" in run.stdout and "where it is read" in run.stdout, "%d %s %s" % (run.returncode, run.stdout, run.stderr))
            check(os.path.getsize(film) == (4 << 20) + 777 and not left(pool), "the film stays, the copy goes")
            run = bench(data, "corners", memory, "--size", "8M", "--yes")
            check(run.returncode == 1 and "no room" in run.stderr, "%d %s" % (run.returncode, run.stderr))
        finally:
            pools.sh("umount", memory)


def one_piece():
    """Room is taken before the first page is written: the file lies in one piece where there is one."""
    with pools.Pool("ext4", size_mib=256) as pool, data_dir() as data:
        with Running(data, "corners", pool.mount, "--size", "64M", "--seconds", "30", "--yes") as run:
            run.until("sequential_write_512k")
            name = os.path.join(pool.mount, left(pool)[0])
            text = pools.sh("filefrag", "-v", name)
            rows = [[int(n) for n in re.findall(r"\d+", line)[1:6]] for line in text.splitlines() if re.match(r"\s*\d+:", line)]
            block = int(re.search(r"blocks of (\d+) bytes", text)[1])
            # ext4 begins anew where a group of blocks ends; the first piece is no page alone.
            check(rows and rows[0][0] == 0 and rows[0][4] * block >= 1 << 20 and sum(row[4] for row in rows) * block == 64 << 20, text)
            run.process.send_signal(signal.SIGINT)
            run.ends()


def ways_to_end():
    """Ctrl-C, SIGTERM and kill -9 for each command that writes, in the middle of its writing."""
    with pools.Pool("ext4", size_mib=256) as pool, data_dir() as data:
        film = os.path.join(pool.mount, "film.mkv")
        with open(film, "wb") as out:
            out.write(os.urandom(8 << 20))
        ways = {
            "corners": (("--size", "16M", "--seconds", "30"), (pool.mount,), "sequential_write_512k"),
            "blocks": (("--size", "16M", "--seconds", "30"), (pool.mount,), "write 4 KiB"),
            "copy": (("--size", "64M"), (pool.mount, pool.mount), "filling the file"),
        }
        for name, (more, paths, text) in ways.items():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with Running(data, name, *paths, *more, "--yes") as run:
                    run.until(text)
                    run.process.send_signal(number)
                    status = run.ends()
                if number == signal.SIGKILL:
                    check(status == -number and len(left(pool)) == 1 and len(noted(data)) == 1, "%s: %s %s" % (name, status, left(pool)))
                    check("removed" in bench(data, name, *paths, "--size", "1M").stderr, "%s: the next start says nothing" % name)
                else:
                    check(status == 1 and "stopp" in run.text, "%s: %s %s" % (name, status, run.text))
                check(not left(pool) and not noted(data), "%s, signal %d: left %s %s" % (name, number, left(pool), noted(data)))
        check(os.path.getsize(film) == 8 << 20, "the film is as it was")


EXT4_IOC_SHUTDOWN, WITHOUT_LOG = 0x8004587D, 2


def goes(pool):
    """The filesystem goes down as when its disk is pulled: nothing more is read or written."""
    folder = os.open(pool.mount, os.O_RDONLY)
    fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_LOG))
    os.close(folder)


def films(folder):
    """A film of some minutes in a folder; its path."""
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), "clips"], stdout=subprocess.PIPE, text=True, check=True)
    source = glob.glob(run.stdout.strip().splitlines()[-1] + "/Clips/Direct Hour*/*.mp4")[0]
    at = os.path.join(folder, "The Owner's (2000)")
    os.makedirs(at)
    return shutil.copy(source, at)


class Watching(Running):
    """`bench stream` with one viewer; waits until its viewer has had something from the disk."""

    def __init__(self, pool, data, *words):
        super().__init__(data, "stream", pool.mount, "--scenario", "single", *words)
        self.stat = "/sys/block/%s/stat" % os.path.basename(pool.devices[0])

    def read_bytes(self):
        return int(open(self.stat).read().split()[2]) * 512

    def watches(self):
        # The films have been looked at by then, and nobody else reads of this disk.
        self.until("dropping the films from memory")
        before, end = self.read_bytes(), time.monotonic() + 120
        while self.read_bytes() < before + (4 << 20):
            check(self.process.poll() is None and time.monotonic() < end, "no viewer reads: %s" % self.said())
            time.sleep(0.05)


def runs_left(data):
    folder = os.path.join(data, "bench-runs")
    return os.listdir(folder) if os.path.isdir(folder) else []


def streams_end():
    """`bench stream` by signals, and when the volume of its film goes away."""
    with pools.Pool("ext4", size_mib=128) as pool, data_dir() as data:
        film = films(pool.mount)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            pool.remount()
            with Watching(pool, data, "--seconds", "60") as run:
                run.watches()
                run.process.send_signal(number)
                status = run.ends()
            if number == signal.SIGKILL:
                check(status == -number and len(runs_left(data)) == 1, "%s %s" % (status, runs_left(data)))
                check(bench(data, "stream", pool.mount, "--scenario", "single", "--seconds", "2").returncode == 0, "the next one runs")
                check(not runs_left(data), "what a killed run left goes with the next: %s" % runs_left(data))
                continue
            check(status == 1 and "it was stopped after" in run.text and not runs_left(data), "%s %s %s" % (status, run.text, runs_left(data)))
            kept = json.loads(bench(data, "show", records(data)[0]["id"], "--json").stdout)
            check(kept["interrupted"] and kept["rows"] and kept["rows"][0]["read_bytes"] >= 1 << 20, "kept: %s" % kept["rows"])
        pool.remount()
        with Watching(pool, data, "--seconds", "60") as run:
            run.watches()
            goes(pool)
            status = run.ends()
        check(status == 1 and "ended before its time" in run.text and film in run.text, "%s %s" % (status, run.text))
        check("Bench Film" not in run.text and "WARN" not in run.text, "what only the experiment's server knows: %s" % run.text)
        check(records(data)[0]["interrupted"] and not runs_left(data), "%s %s" % (records(data)[0], runs_left(data)))
        pool.unmount()
        pool._mount()


def streams_at_full_speed():
    """Viewers that read as fast as it goes have the whole film at once, others what they play and a little ahead; memory has no disk."""
    with pools.Pool("ext4", size_mib=128) as pool, data_dir() as data:
        film = films(pool.mount)
        size = os.path.getsize(film)
        streams = {}
        for pace, seconds in (("--paced", "2"), ("--full-speed", "8")):
            pool.remount()
            run = bench(data, "stream", pool.mount, "--scenario", "single", pace, "--seconds", seconds)
            check(run.returncode == 0, run.stderr)
            kept = json.loads(bench(data, "show", records(data)[0]["id"], "--json").stdout)
            check(kept["pace"] == pace[2:].replace("-", "_"), "pace: %s" % kept["pace"])
            streams[pace] = kept["streams"][0]["received_bytes"]
        check(streams["--full-speed"] == size, "the whole film: %s of %d" % (streams, size))
        check(0 < streams["--paced"] < size // 2, "two seconds and what is kept ahead: %s of %d" % (streams, size))
        memory = os.path.join(data, "memory")
        os.mkdir(memory)
        pools.sh("mount", "-t", "tmpfs", "none", memory)
        try:
            films(memory)
            run = bench(data, "stream", memory, "--scenario", "single", "--seconds", "2")
            check(run.returncode == 0 and "no disk of its own" in run.stdout and "everything came from memory" in run.stdout, "%d %s %s" % (run.returncode, run.stdout, run.stderr))
        finally:
            pools.sh("umount", memory)


def goes_down():
    """The filesystem stops taking writes in mid-run: blocks, and both sides of a copy."""
    for name in ("blocks", "copy"):
        # So slow that the copy is still under way when its target goes.
        with pools.Pool("ext4", size_mib=256, model="hdd7200", settings=("outer_mb_s=60", "inner_mb_s=50")) as pool, pools.Pool("ext4", size_mib=256) as other, data_dir() as data:
            paths = (other.mount, pool.mount) if name == "copy" else (pool.mount,)
            more = ("--size", "100M") if name == "copy" else ("--size", "16M", "--seconds", "30")
            pool.model.delays(name == "copy")
            with Running(data, name, *paths, *more, "--yes") as run:
                run.until("copying" if name == "copy" else "write 4 KiB")
                goes(pool)
                check(run.ends() == 1, "status %s: %s" % (run.process.returncode, run.said()))
            pool.model.delays(False)
            check(name in run.text or "nterrupted" in run.text or "unable to" in run.text, run.text)
            check("I/O error" in run.text or "ead-only" in run.text or "nput/output" in run.text, "%s says: %s" % (name, run.text))
            pool.unmount()
            pool._mount()
            bench(data, "corners", pool.mount)
            check(not left(pool) and not left(other) and not noted(data), "%s: after the next start: %s %s %s" % (name, left(pool), left(other), noted(data)))


def fills_up():
    """Somebody else fills a volume in mid-run, on a filesystem that writes anew what is overwritten."""
    with pools.Pool("single", size_mib=160) as pool, data_dir() as data:
        with Running(data, "corners", pool.mount, "--size", "64M", "--seconds", "8", "--yes") as run:
            run.until("sequential_write_512k")
            with open(os.path.join(pool.mount, "others.bin"), "wb") as out:
                at, step = 0, 64 << 20
                while step >= 1 << 16 and run.process.poll() is None:
                    try:
                        os.posix_fallocate(out.fileno(), at, step)
                        at += step
                    except OSError:
                        step //= 2  # it is full, but for less than that
            run.until("No space left") if run.process.poll() is None else None
            check(run.ends() == 1 and "No space left" in run.said(), "%s %s" % (run.process.returncode, run.said()))
        check(not left(pool) and not noted(data), "left: %s %s" % (left(pool), noted(data)))


def at_once():
    with pools.Pool("ext4", size_mib=256) as pool, data_dir() as data:
        words = ("corners", pool.mount, "--size", "16M", "--seconds", "0.1", "--yes")
        with Running(data, *words) as one, Running(data, *words) as two:
            check((one.ends(), two.ends()) == (0, 0), "%s %s" % (one.said(), two.said()))
        kept = records(data)
        check(len(kept) == 2 and kept[0]["id"] != kept[1]["id"] and not left(pool) and not noted(data), "kept: %s, left: %s" % (kept, left(pool)))


def clumsy():
    """Arguments that make no sense: one clear line each, never a panic, never a control character; nothing is made."""
    with data_dir() as data, tempfile.TemporaryDirectory(dir=place.work()) as folder:
        film = os.path.join(folder, "film.mkv")
        with open(film, "w") as out:
            out.write("film")
        odd = os.path.join(folder, "a\x1b[31m\nb")
        os.mkdir(odd)
        link = os.path.join(folder, "link")
        os.symlink(os.path.join(folder, "nowhere"), link)
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        wrong = [("corners", folder, "--size", size, "--yes") for size in ("0", "-1G", "1", "NaN", "18446744073709551616", "99999999999999T", "1e9", "\x1b[2J", "")]
        wrong += [("corners", folder, "--seconds=" + seconds, "--yes") for seconds in ("0", "-1", "NaN", "inf", "1e300", "x")]
        wrong += [("corners", folder, "--size", "16E", "--yes"), ("corners", folder, "--size", "8000T", "--yes"), ("corners",), ("corners", film, "--yes"), ("corners", link, "--yes"), ("corners", fifo, "--yes"),
                  ("corners", "/dev/null", "--yes"), ("corners", "/proc", "--yes"), ("corners", "/sys", "--yes"), ("corners", odd, "--size", "1000T", "--yes"), ("blocks", "", "--yes"),
                  ("copy", folder, film, "--yes"), ("copy", fifo, folder, "--yes"), ("copy", "/dev/zero", folder, "--yes"), ("copy", link, folder, "--yes"), ("copy", folder, "--yes"),
                  ("net", "nonsense", "--user", "x", "--password-stdin"), ("net", "http://127.0.0.1:1", "--user", "x", "--password-stdin"), ("net", "http://127.0.0.1:1"),
                  ("net", "http://127.0.0.1:1", "--user", "x", "--password-stdin", "--connections", "0"), ("net", "http://127.0.0.1:1", "--user", "x", "--password-stdin", "--connections", "17"),
                  ("stream",), ("stream", fifo), ("stream", link), ("stream", folder, "--seconds", "0"), ("stream", folder, "--scenario", "\x1b[2Jx"), ("stream", folder, "--paced", "--full-speed"),
                  ("show", "../../etc/passwd"), ("show", "\x1b[2J"), ("show", ""), ("remove", "nothing"), ("sing",)]
        for words in wrong:
            run = bench(data, *words)
            check(run.returncode in (1, 2), "%s: status %d: %s" % (words, run.returncode, run.stderr))
            check(run.stderr.strip() and "panicked" not in run.stderr and "\x1b" not in run.stderr + run.stdout, "%s: %r" % (words, run.stderr))
            # Before it there may be what is being done.
            check(sum(line.startswith("spindle: ") for line in run.stderr.splitlines()) == 1 and run.stderr.splitlines()[-1].startswith("spindle: "), "%s: not one line: %r" % (words, run.stderr))
        check(not noted(data) and not records(data) and sorted(os.listdir(folder)) == sorted([os.path.basename(p) for p in (film, odd, link, fifo)]), "made: %s" % os.listdir(folder))
        # A name with an escape and a line's end is shown without either, and works.
        run = bench(data, "blocks", odd, "--size", "1M", "--seconds", "0.05", "--yes")
        check(run.returncode == 0 and "\x1b" not in run.stdout + run.stderr, "%d %r" % (run.returncode, run.stdout + run.stderr))
        run = bench(data, "blocks", os.path.join(folder, "there"), "--size", "1M", "--seconds", "0.05", "--yes")
        check(run.returncode == 1, "it is not there")
        os.symlink(odd, os.path.join(folder, "there"))
        run = bench(data, "blocks", os.path.join(folder, "there"), "--size", "1M", "--seconds", "0.05", "--yes", "--json")
        check(run.returncode == 0 and len(json.loads(run.stdout)) == 8 and not os.listdir(odd), "by a link: %d %s" % (run.returncode, run.stderr))
        # An empty file is copied, whatever that says.
        empty = os.path.join(folder, "empty")
        open(empty, "w").close()
        run = bench(data, "copy", empty, odd, "--yes", "--json")
        check("panicked" not in run.stderr and not os.listdir(odd), "%d %s" % (run.returncode, run.stderr))


def broken_store():
    with data_dir() as data, tempfile.TemporaryDirectory(dir=place.work()) as folder:
        words = ("blocks", folder, "--size", "1M", "--seconds", "0.05", "--yes")
        check(bench(data, *words).returncode == 0, "it runs")
        store = os.path.join(data, "experiments")
        good = records(data)[0]["id"]
        whole = open(os.path.join(store, good + ".json")).read()
        bad = {"a" * 26: "", "b" * 26: "{", "c" * 26: '{"version": 9}', "d" * 26: "[1]", "e" * 26: '{"version": 1}', "f" * 26: whole[:-20], "g" * 26: "\0" * 1000, "h" * 26: '{"version": "1"}'}
        for name, text in bad.items():
            with open(os.path.join(store, name + ".json"), "w") as out:
                out.write(text)
        os.mkdir(os.path.join(store, "i" * 26 + ".json"))
        listed = records(data)
        check(listed[0]["id"] == good and not listed[0].get("unreadable"), "the good one is first: %s" % listed[0])
        check({row["id"] for row in listed[1:]} == set(bad) | {"i" * 26} and all(row["unreadable"] for row in listed[1:]), "listed: %s" % listed)
        check("version 9" in next(row["unreadable"] for row in listed if row["id"] == "c" * 26), "a newer one is named: %s" % listed)
        for name in bad:
            run = bench(data, "show", name, "--json")
            check(run.returncode == 1 and not run.stdout and "cannot be read" in run.stderr, "%s: %d %s" % (name, run.returncode, run.stderr))
            check(bench(data, "remove", name).returncode == 0, "%s stays" % name)
        check(bench(data, *words).returncode == 0, "another runs")
        with open(os.path.join(store, "scratch", "x" * 26 + ".json"), "w") as out:
            out.write("no note")
        check(bench(data, *words).returncode == 0 and not noted(data), "a note that is none is put away: %s" % noted(data))
        shutil.rmtree(store)
        with open(store, "w") as out:
            out.write("a file where the folder should be")
        run = bench(data, *words)
        check(run.returncode == 1 and "experiments" in run.stderr and len(run.stderr.strip().splitlines()) == 1, "%d %s" % (run.returncode, run.stderr))
        check(not os.listdir(folder), "left: %s" % os.listdir(folder))


def full_data_dir():
    """The volume of the records is full: it is said before anything is measured."""
    with data_dir() as data, tempfile.TemporaryDirectory(dir=place.work()) as folder:
        pools.sh("mount", "-t", "tmpfs", "-o", "size=256k", "none", data)
        try:
            with open(os.path.join(data, "others.bin"), "wb") as out:
                try:
                    out.write(b"x" * (1 << 20))
                    out.flush()
                except OSError:
                    pass
            run = bench(data, "blocks", folder, "--size", "1M", "--seconds", "0.05", "--yes")
            check(run.returncode == 1 and "No space left" in run.stderr and "panicked" not in run.stderr, "%d %s" % (run.returncode, run.stderr))
            check(not os.listdir(folder), "left: %s" % os.listdir(folder))
        finally:
            pools.sh("umount", data)


CASES = {
    "an_experiment_refuses_where_there_is_no_room_no_consent_or_no_writing": (refused, None),
    "an_experiment_without_the_right_to_write_says_so_and_leaves_nothing": (no_right, None),
    "an_experiment_that_is_stopped_keeps_what_it_has_and_leaves_no_file": (stopped, None),
    "the_file_of_a_killed_experiment_is_removed_at_the_next_start_and_nothing_else": (killed, None),
    "a_volume_that_turns_read_only_ends_an_experiment_with_what_it_has": (turns_read_only, True),
    "a_disk_that_sleeps_is_asked_about_before_it_is_woken": (sleeping, None),
    "where_requests_cannot_go_past_memory_it_is_said": (through_memory, None),
    "the_file_of_an_experiment_lies_in_one_piece": (one_piece, None),
    "every_command_that_writes_leaves_nothing_however_it_is_ended": (ways_to_end, None),
    "a_filesystem_that_goes_down_ends_blocks_and_copies": (goes_down, True),
    "a_volume_that_others_fill_ends_an_experiment": (fills_up, None),
    "two_experiments_at_once_on_one_volume": (at_once, None),
    "arguments_that_make_no_sense_are_one_line_and_make_nothing": (clumsy, None),
    "a_bench_of_streams_ends_by_signals_and_without_its_volume": (streams_end, None),
    "streams_at_a_pace_at_full_speed_and_of_memory": (streams_at_full_speed, None),
    "records_that_are_damaged_are_told_and_hinder_nobody": (broken_store, None),
    "where_a_record_cannot_be_kept_nothing_is_measured": (full_data_dir, None),
}


def run(stage):
    for name, (case, model) in CASES.items():
        if stage.wants(name):
            with stage.case(name):
                skip(pools.why_not(model=bool(model)))
                case()
