"""Counts of a test stage, in the form that scripts/test sums.

A case is a `with` block named by a sentence; an exception in it is a failure, with its place printed. The counts go
to standard output for people and, as one `passed failed skipped` line, to the file named by RIG_COUNTS,
which is written after every case, so that a stage that dies later has not lost what it proved.

Cases that share nothing run beside each other: `beside` gives each group of them a process of its own."""
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import traceback


class Skip(Exception):
    """Raised in a case that cannot run here; the text says why."""


class Stage:
    """The cases of one stage. `only` keeps those whose name holds the text."""

    def __init__(self, name, only=None):
        self.name, self.only = name, only or os.environ.get("RIG_CASE")
        self.passed = self.failed = self.skipped = 0
        self._write()

    def _write(self):
        path = os.environ.get("RIG_COUNTS")
        if path:
            with open(path, "w") as out:
                out.write("%d %d %d\n" % (self.passed, self.failed, self.skipped))

    def wants(self, name):
        return not self.only or self.only in name

    @contextlib.contextmanager
    def case(self, name):
        """Runs a block as one case. Use `if stage.wants(name)` before costly preparation."""
        started = time.monotonic()
        try:
            yield
        except Skip as why:
            self.skipped += 1
            print("skip  %s: %s" % (name, why), flush=True)
        except Exception as error:  # a case may fail in any way; the stage goes on
            self.failed += 1
            print("FAIL  %s: %s: %s" % (name, type(error).__name__, error), flush=True)
            for frame in traceback.extract_tb(error.__traceback__)[-3:]:
                print("        at %s:%d in %s: %s" % (os.path.basename(frame.filename), frame.lineno, frame.name, frame.line), flush=True)
        else:
            self.passed += 1
            print("ok    %s (%.1f s)" % (name, time.monotonic() - started), flush=True)
        self._write()

    def finish(self):
        """Prints the stage's line and gives its exit status; a group's line is its stage's."""
        if os.environ.get("RIG_GROUP"):
            return 1 if self.failed else 0
        print("%s: %d passed, %d failed%s" % (self.name, self.passed, self.failed,
              ", %d skipped" % self.skipped if self.skipped else ""), flush=True)
        return 1 if self.failed else 0


class Group:
    """Some of a stage's cases, run by a process of their own."""

    def __init__(self, name, folder):
        self.name, self.process = name, None
        self.output, self.counts = (os.path.join(folder, name + end) for end in (".out", ".counts"))

    def start(self, program, only):
        environment = dict(os.environ, RIG_COUNTS=self.counts, RIG_GROUP=self.name, RIG_CASE=only or "")
        with open(self.output, "wb") as out:
            self.process = subprocess.Popen([sys.executable, program], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment)

    def add_to(self, stage):
        """Prints what it said and adds what it counted."""
        with open(self.output, errors="replace") as text:
            print(text.read(), end="", flush=True)
        passed = failed = skipped = 0
        with contextlib.suppress(OSError, ValueError), open(self.counts) as text:
            passed, failed, skipped = map(int, text.read().split())
        if self.process.returncode and not failed:
            failed = 1
            print("FAIL  the cases of %s ended with status %d" % (self.name, self.process.returncode), flush=True)
        stage.passed, stage.failed, stage.skipped = stage.passed + passed, stage.failed + failed, stage.skipped + skipped
        stage._write()


def beside(stage, program, groups, at_once):
    """Runs groups of a stage's cases, `at_once` of them at a time, and prints what each said in their order. `groups`: name -> function
    of the stage. A group is run by `program` itself, started once more with RIG_GROUP: it comes here again, and runs that one alone."""
    own = os.environ.get("RIG_GROUP")
    if own:
        groups[own](stage)
        return
    at_once = int(os.environ.get("RIG_AT_ONCE") or at_once)
    with tempfile.TemporaryDirectory(prefix="groups-") as folder:
        rows = [Group(name, folder) for name in groups]
        running, printed = [], 0
        try:
            for row in rows + [None]:
                # The last turn waits for all of them.
                while len(running) > (at_once - 1 if row else 0):
                    time.sleep(0.05)
                    running = [one for one in running if one.process.poll() is None]
                    while printed < len(rows) and rows[printed].process and rows[printed].process.poll() is not None:
                        rows[printed].add_to(stage)
                        printed += 1
                if row:
                    row.start(program, stage.only)
                    running.append(row)
            for row in rows[printed:]:
                row.add_to(stage)
        finally:
            # Each takes down what it has made.
            for row in running:
                row.process.terminate()
            for row in running:
                row.process.wait()


def check(condition, text):
    """An assertion that names what was seen."""
    if not condition:
        raise AssertionError(text)


def main(run):
    """Entry of a stage file: signals become SystemExit, so that `with` blocks and atexit clean up."""
    import signal

    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def stop(number, _frame):
        # Once: a second one (to the group, and by who runs it) would cut short what is being taken down.
        for other in wanted:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)
    for number in wanted:
        signal.signal(number, stop)
    sys.exit(run())
