#!/usr/bin/env python3
"""scripts/fuzz [--seed N] [--count N] [--only K[,K...]] [--from K] [--batch N] [--at-once N] [--without-server | --without-parsers]

Damaged files by number. Each goes through the parsers that run in the server's process, one by one under a limit of memory and time, and is then
part of a running server's library: scanned, shown, repacked and converted, while somebody watches a good film. Nothing of it may have an effect on the
server: same process, as many descriptors, threads and bytes of memory as before, no panic in its log, no core, workers that end.
A finding is kept with its input below tests/.work/fuzz/findings; `--seed N --only K` repeats it. Status 1 with any finding."""
import argparse
import contextlib
import glob
import os
import resource
import shutil
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import house as houses
import mutate
import parsers
import place
import report
import server as servers
import sources as kinds

# What a server may have more at the end than after its first batch: descriptors and threads that come and go with requests, and what an
# index of some thousand files keeps in memory.
SLACK = {"descriptors": 4, "threads": 4, "memory": 48 << 20}
MOST_SEGMENTS = 4096  # transcode/client/cache.rs
SETTLE_S = 120  # workers without work end after 10 s, spare ones after 30, threads of the executor's after 10
KINDS = {"panic": "panics", "hang": "hangs"}


class Findings:
    """What was found, each kept with its input."""

    def __init__(self, seed, folder):
        self.seed, self.folder, self.rows, self.lock = seed, folder, [], threading.Lock()
        self.inputs = {}

    def tell(self, number, kind, text):
        one = self.inputs.get(number)
        with self.lock:
            self.rows.append((number, kind, text))
            os.makedirs(self.folder, exist_ok=True)
            if not one:
                # Of no input by itself: of a batch, or of the whole run.
                with open(os.path.join(self.folder, "%d-run.txt" % self.seed), "a") as out:
                    out.write("%s: %s\n" % (kind, text))
            else:
                base = os.path.join(self.folder, "%d-%s" % (self.seed, one.name))
                with open(base, "wb") as out:
                    out.write(one.data)
                with open(base + ".txt", "a") as out:
                    out.write("%s\n%s: %s\nagain: scripts/fuzz --seed %d --only %d\n" % (one.describe(self.seed), kind, text, self.seed, number))
            what = one.describe(self.seed) if one else "seed %d" % self.seed
            print("FINDING  %s: %s: %s" % (what, kind, text), flush=True)

    def count(self, kind):
        return len({number for number, k, _ in self.rows if k == kind})


class Tally:
    """Outcomes, summed."""

    def __init__(self):
        self.done = self.probed = self.remuxed = self.converted = self.refused = self.subtitles = self.pictures = self.in_process = 0

    def add(self, out):
        self.done += 1
        self.probed += out.probed
        self.refused += not out.probed
        self.remuxed += out.remuxed
        self.converted += out.converted
        self.subtitles += out.subtitles
        self.pictures += out.pictures
        self.in_process += out.by in ("mp4", "matroska")


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__.partition("\n\n")[2], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="which ten thousand (default 1)")
    parser.add_argument("--count", type=int, default=10_000, help="how many inputs")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first one's number")
    parser.add_argument("--only", type=lambda text: [int(n) for n in text.split(",")], help="these alone")
    parser.add_argument("--batch", type=int, default=200, help="inputs in the library at once")
    parser.add_argument("--at-once", type=int, default=4, help="players at once")
    parser.add_argument("--without-server", action="store_true", help="the parsers alone")
    parser.add_argument("--without-parsers", action="store_true", help="the server alone")
    # What the tests of this program put in the parsers' place.
    parser.add_argument("--parser", default=os.path.join(servers.TARGET, "fuzz", "examples", "parse"), help=argparse.SUPPRESS)
    parser.add_argument("--answer-s", type=float, default=parsers.ANSWER_S, help=argparse.SUPPRESS)
    parser.add_argument("--findings", default=os.path.join(place.work(), "fuzz", "findings"), help=argparse.SUPPRESS)
    return parser.parse_args()


def parse_all(asked, inputs, folder, findings, tally):
    """Every input of a batch through the parsers."""
    for one in inputs:
        path = os.path.join(folder, one.name)
        with open(path, "wb") as out:
            out.write(one.data)
        verdict, text = asked.ask(path, len(one.data))
        os.unlink(path)
        tally[verdict] = tally.get(verdict, 0) + 1
        if "(held)" in text:
            tally["held"] = tally.get("held", 0) + 1
        if verdict not in ("read", "refused"):
            findings.tell(one.number, verdict, text)


class Run:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.findings = Findings(options.seed, options.findings)
        self.sources = kinds.Sources(kinds.made())
        self.tally, self.parsed, self.began = Tally(), {}, time.monotonic()
        self.numbers = options.only if options.only else list(range(options.first, options.first + options.count))
        self.first_figures = self.last_figures = None
        self.rounds = self.servers = 0

    def batches(self):
        for at in range(0, len(self.numbers), self.options.batch):
            inputs = [mutate.Input(self.options.seed, number, self.sources) for number in self.numbers[at:at + self.options.batch]]
            self.findings.inputs = {one.number: one for one in inputs}
            yield inputs

    def all(self):
        batches = self.batches()
        with parsers.Parsers(self.options.parser, self.options.answer_s) as asked:
            if self.options.without_server:
                for inputs in batches:
                    self.parse(asked, inputs)
                    self.tally.done += len(inputs)
                    self.progress()
                return
            left = next(batches, None)
            while left:
                # One server for all of them, as long as it lives.
                left = self.one_server(asked, left, batches)

    def parse(self, asked, inputs):
        if not self.options.without_parsers:
            parse_all(asked, inputs, self.scratch, self.findings, self.parsed)

    def one_server(self, asked, inputs, batches):
        """Gives batch after batch to one server; what is left when it died."""
        self.servers += 1
        folder = os.path.join(self.scratch, "server-%d" % self.servers)
        os.makedirs(folder)
        log_at = 0
        with contextlib.ExitStack() as stack:
            house = houses.House(folder, self.sources, self.findings.tell)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.enter_context(house)
            viewer = stack.enter_context(houses.Viewer(house))
            while inputs:
                told = "in the batch `--seed %d --from %d --count %d`" % (self.options.seed, inputs[0].number, len(inputs))
                parsing = threading.Thread(target=self.parse, args=(asked, inputs), name="parsers")
                parsing.start()
                try:
                    for outcome in house.batch(inputs, self.options.at_once).values():
                        self.tally.add(outcome)
                except (OSError, AssertionError, servers.Problem) as error:
                    self.findings.tell(-1, "server", "%s: %s: %s; asked then: %s" % (told, type(error).__name__, error, sorted(house.asking.values())))
                finally:
                    parsing.join()
                faults, log_at = house.log_faults(log_at)
                for line in faults:
                    self.findings.tell(-1, "panic" if "panicked" in line else "log", "%s: %s" % (told, line))
                if not house.alive():
                    self.findings.tell(-1, "server", "%s: it ended with %s: %s" % (told, house.server.process.returncode, house.server.tail()))
                    return next(batches, None)
                if house.server.request("GET", "/health", timeout=houses.ANSWER_S)[0] != 200:
                    self.findings.tell(-1, "health", "%s: the server is not well after it" % told)
                self.progress(house)
                if not self.first_figures:
                    self.first_figures = self.settled(house, None) if len(self.numbers) > 1000 else house.figures()
                inputs = next(batches, None)
            if viewer.trouble:
                self.findings.tell(-1, "viewer", viewer.trouble)
            self.rounds += viewer.rounds
            self.last_figures = self.settled(house, self.first_figures)
            self.compare(house, folder)
        return None

    def settled(self, house, first):
        """The server's figures once its workers have ended, and it is down to what it had first where that comes."""
        try:
            servers.until(SETTLE_S, "workers end", lambda: not house.server.workers())
            within = lambda now: all(now[key] <= first[key] + SLACK[key] for key in ("descriptors", "threads"))
            if first:
                servers.until(SETTLE_S, "descriptors and threads are given back", lambda: within(house.figures()))
        except AssertionError as error:
            self.findings.tell(-1, "left", "%s; first %s, now %s" % (error, first, house.figures()))
        return house.figures()

    def compare(self, house, folder):
        first, last = self.first_figures, self.last_figures
        if last["memory"] > first["memory"] + SLACK["memory"]:
            self.findings.tell(-1, "memory", "the server holds %d MiB, %d after its first batch" % (last["memory"] >> 20, first["memory"] >> 20))
        if last["segments"] > MOST_SEGMENTS:
            self.findings.tell(-1, "segments", "the server holds %d cached segments open" % last["segments"])
        if house.server.pid != house.pid:
            self.findings.tell(-1, "server", "its process was %d and is %d" % (house.pid, house.server.pid))
        for core in glob.glob(os.path.join(self.scratch, "core*")) + glob.glob(os.path.join(folder, "**", "core"), recursive=True):
            self.findings.tell(-1, "core", core)

    def progress(self, house=None):
        t, took = self.tally, time.monotonic() - self.began
        memory = ", %d MiB" % (house.figures()["memory"] >> 20) if house else ""
        print("fuzz: %d of %d inputs: %d probed, %d remuxed, %d converted, %d refused, %d findings, %.1f/s%s"
              % (t.done, len(self.numbers), t.probed, t.remuxed, t.converted, t.refused, len(self.findings.rows), t.done / took, memory), flush=True)

    def summary(self):
        t, count = self.tally, self.findings.count
        p = lambda key: self.parsed.get(key, 0)
        if not self.options.without_parsers:
            print("parsers: %d read, %d refused, %d panics of crates held by the net" % (p("read"), p("refused"), p("held")))
        if self.last_figures:
            told = ", ".join("%s %d -> %d" % (key, self.first_figures[key], self.last_figures[key]) for key in ("descriptors", "threads", "segments"))
            print("server: %d described in its process, %d converted, %d subtitles, %d pictures; %s, memory %d -> %d MiB; the good film played %d times"
                  % (t.in_process, t.converted, t.subtitles, t.pictures, told, self.first_figures["memory"] >> 20, self.last_figures["memory"] >> 20, self.rounds))
        others = {kind for _, kind, _ in self.findings.rows} - set(KINDS)
        for kind in sorted(others):
            print("findings of kind %s: %d" % (kind, count(kind)))
        print("%d inputs: %d probed, %d remuxed, %d refused, %d panics, %d hangs" % (t.done, t.probed, t.remuxed, t.refused, count("panic"), count("hang")), flush=True)
        return 1 if self.findings.rows else 0


def run():
    options = arguments()
    os.makedirs(os.path.join(place.work(), "fuzz"), exist_ok=True)
    # A server that dies would leave its core here.
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    scratch = tempfile.mkdtemp(prefix="run-", dir=os.path.join(place.work(), "fuzz"))
    try:
        os.chdir(scratch)
        one = Run(options, scratch)
        one.all()
        return one.summary()
    finally:
        os.chdir(HERE)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    report.main(run)
