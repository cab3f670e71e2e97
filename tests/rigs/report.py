"""Counts of a test stage, in the form that scripts/test sums.

A case is a `with` block named by a sentence; an exception in it is a failure, with its place printed. The counts go
to standard output for people and, as one `passed failed skipped` line, to the file named by RIG_COUNTS,
which is written after every case, so that a stage that dies later has not lost what it proved."""
import contextlib
import os
import sys
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
        """Prints the stage's line and gives its exit status."""
        print("%s: %d passed, %d failed%s" % (self.name, self.passed, self.failed,
              ", %d skipped" % self.skipped if self.skipped else ""), flush=True)
        return 1 if self.failed else 0


def check(condition, text):
    """An assertion that names what was seen."""
    if not condition:
        raise AssertionError(text)


def main(run):
    """Entry of a stage file: signals become SystemExit, so that `with` blocks and atexit clean up."""
    import signal

    def stop(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    sys.exit(run())
