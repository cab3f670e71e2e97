"""Faults of experiments (spindle bench): no room, no consent, no right, stopped, killed, and a volume that turns read-only in mid-run.
Whatever happens, the temporary file is gone at the end or after the next start, and what was measured is kept and said to be partial."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import place
import pool as pools
import report
import server as servers
from report import check

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
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
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


CASES = {
    "an_experiment_refuses_where_there_is_no_room_no_consent_or_no_writing": (refused, None),
    "an_experiment_without_the_right_to_write_says_so_and_leaves_nothing": (no_right, None),
    "an_experiment_that_is_stopped_keeps_what_it_has_and_leaves_no_file": (stopped, None),
    "the_file_of_a_killed_experiment_is_removed_at_the_next_start_and_nothing_else": (killed, None),
    "a_volume_that_turns_read_only_ends_an_experiment_with_what_it_has": (turns_read_only, True),
}


def run(stage):
    for name, (case, model) in CASES.items():
        if stage.wants(name):
            with stage.case(name):
                skip(pools.why_not(model=bool(model)))
                case()
