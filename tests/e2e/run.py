#!/usr/bin/env python3
"""The main job, end to end: a library on a real pool, played in a browser, and the disks that served it shown.

For raid0, raid1 and raid10: one stream in the page (direct play, then a conversion), and three at once of which two play the
same file. The figures of the I/O view and of the API are held against an independent trace (rigs/trace.py) with a cold cache:
2 % a disk. With the helper, as root without it, and as a user without any privilege.

    tests/e2e/run.py [CASE]     only cases whose name holds CASE"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import accuracy
import browser as browsers
import copies
import experiments
import failing
import layout
import pool as pools
import report
import server as servers
import streams
import subtitles
import trace as tracing
from report import check

DIRECT, OTHER, CONVERT, TEN_BITS = "Direct Hour", "Other Tide", "Convert Me", "Ten Bits"
TOLERANCE = 0.02
PICTURE_S = 0.04
NOBODY = 65534


def clips():
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), "clips"], stdout=subprocess.PIPE, text=True, check=True)
    return os.path.join(run.stdout.strip().splitlines()[-1], "Clips")


def fill(pool, source):
    """Copies the clips one after the other, so that each lies as a film that was copied does. Gives title -> path."""
    paths = {}
    for folder in sorted(os.listdir(source)):
        shutil.copytree(os.path.join(source, folder), os.path.join(pool.mount, folder))
        pool.flush()
        name = os.listdir(os.path.join(pool.mount, folder))[0]
        paths[folder.rsplit(" (", 1)[0]] = os.path.join(pool.mount, folder, name)
    return paths


def by_disk(record):
    """disk -> bytes of file data in an I/O record."""
    return {row["disk"]: row["read_bytes"] for row in record["disks"]}


def compare(said, seen, what):
    """Holds bytes per disk against the trace: within 2 % of the disk's true bytes, nothing for a disk that was not read."""
    check(sum(seen.values()) > 4 << 20, "%s: the trace saw too little to compare: %s" % (what, seen))
    for disk in sorted(set(said) | set(seen)):
        true, told = seen.get(disk, 0), said.get(disk, 0)
        # A disk of a mirror may serve some kilobytes of inline data; below 64 KiB a percentage says nothing.
        check(abs(told - true) <= max(TOLERANCE * true, 64 << 10),
              "%s: disk %s: said %d bytes, the trace saw %d (all: said %s, seen %s)" % (what, disk, told, true, said, seen))


def blame(rig, seen):
    """Who read what in a trace, for the message of a failure: bytes by program, thread and file."""
    owner, rows = layout.Owner(rig.pool, list(rig.paths.values())), {}
    for event in seen.events:
        if "M" not in event.flags:
            name = os.path.basename(owner.of(event.disk, event.sector * 512) or "?")
            key = (event.comm, event.tid, name)
            first, last, count = rows.get(key, (event.time_s, event.time_s, 0))
            rows[key] = (min(first, event.time_s), max(last, event.time_s), count + event.len_bytes)
    began = min((row[0] for row in rows.values()), default=0)
    return "; ".join("%s/%d %s %d bytes %.1f-%.1f s" % (*key, count, first - began, last - began) for key, (first, last, count) in sorted(rows.items()))


def total(records):
    out = {}
    for record in records:
        for disk, count in by_disk(record).items():
            out[disk] = out.get(disk, 0) + count
    return out


class Rig:
    """A filled pool with a running server that has indexed it, and its HTTP client logged in."""

    def __init__(self, profile, source, helper, uid=None):
        self.profile, self.source, self.helper, self.uid = profile, source, helper, uid

    def __enter__(self):
        self.pool = pools.Pool(self.profile, size_mib=384)
        self.pool.__enter__()
        try:
            self.paths = fill(self.pool, self.source)
            self.pool.remount()
            self.server = servers.Server([("movies", self.pool.mount)], ["--storage-helper", self.helper], uid=self.uid)
            self.server.__enter__()
        except BaseException:
            self.pool.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.server.__exit__()
        finally:
            self.pool.__exit__()

    def ready(self):
        """Indexed, idle, and with cold caches. Call after the first account exists."""
        rows = self.server.settled([DIRECT, OTHER, CONVERT, TEN_BITS])
        # Pictures are taken after a scan, and on a busy machine late: that, too, reads the films.
        self.server.idle()
        self.quiet()
        self.cool()
        return rows

    def quiet(self):
        """Waits until nothing reads the pool any more: its disks' own counters stand still."""
        def counters():
            return [open("/sys/block/%s/stat" % disk).read().split()[2] for disk in self.pool.disks]
        end, last, since = time.monotonic() + 60, counters(), time.monotonic()
        while time.monotonic() - since < 1.5:
            time.sleep(0.1)
            now = counters()
            if now != last:
                last, since = now, time.monotonic()
            check(time.monotonic() < end, "the pool is still read after 60 s")

    def alone(self):
        """Waits until nobody reads for who has watched before, with cold caches then."""
        self.server.let_go(self.pool.mount)
        self.pool.still()
        self.cool()

    def cool(self):
        pools.evict(*self.paths.values())

    def trace(self):
        return tracing.BlockTrace(self.pool.disks)

    def attribution(self, record):
        """The record must say how it knows, and that must be what was asked for."""
        want = "sampled_map" if self.helper == "off" else "block_trace"
        check(record["attribution"] == want, "attribution is %s (%s), wanted %s" % (record["attribution"], record.get("why"), want))


def open_page(rig, browser):
    browser.open(url=rig.server.url)
    browser.setup(user=servers.USER, password=servers.PASSWORD)
    rig.server.login()
    rows = rig.ready()
    browser.open(url=rig.server.url)
    browser.cards(titles=[DIRECT, CONVERT])
    return rows


def clock_is_true(picture, what):
    check(picture.get("clock_s") is not None, "%s: the clock cannot be read: %s" % (what, picture))
    check(abs(picture["clock_s"] - picture["media_s"]) <= 2 * PICTURE_S, "%s: the picture says %.3f, the player %.3f" % (what, picture["clock_s"], picture["media_s"]))


def watch(browser, row, method):
    """Plays a title in the page: it moves, pictures are decoded, sound is decoded, a seek lands where it says."""
    title = row["title"]
    played = browser.play(id=row["id"])
    check(played["method"] == method, "%s: method is %s (%s), wanted %s" % (title, played["method"], played["reasons"], method))
    began = browser.advance(seconds=1.0, limit_s=90)
    moved = browser.advance(seconds=2.0)
    check(moved["decoded"] > began["decoded"] and moved["width"] > 0, "%s: no pictures decoded: %s" % (title, moved))
    check(moved["audio_bytes"], "%s: no sound decoded: %s" % (title, moved))
    clock_is_true(browser.presented(), title + " at the start")
    for tenths in (7, 2):
        picture = browser.seek(tenths=tenths)
        clock_is_true(picture, "%s after a seek to %d s" % (title, 6 * tenths))
        # Right after the seek: the first picture is the one asked for, not a key frame before it.
        check(abs(picture["media_s"] - 6 * tenths) <= 1.0, "%s: sought %d s, got %.3f" % (title, 6 * tenths, picture["media_s"]))
        browser.advance(seconds=1.0)
    return played


def one_stream(rig, browser, row, method, shot):
    """One viewer in the page; the view's disks against the trace, and the stored record too."""
    title = row["title"]
    rig.alone()
    with rig.trace() as seen:
        played = watch(browser, row, method)
        browser.io_open()
        browser.advance(seconds=1.0)
        browser.shot(name=shot)
        # Paused and read to its end, the view must come to rest at the truth.
        browser.eval_(code="document.querySelector('video').pause()")
        rig.quiet()
        time.sleep(2.5)  # the view is fed once a second; two of its periods
        view = browser.io()
        record = rig.server.io(played["session"])
        browser.shot(name=shot + "-paused")
    check(seen.lost == 0, "the trace lost %d events" % seen.lost)
    try:
        compare({row["disk"]: row["bytes"] for row in view["disks"]}, seen.data(), "%s, the page" % title)
    except AssertionError as error:
        raise AssertionError("%s\n        trace: %s\n        record: read %s, unattributed %s, cached %s, served %s" % (
            error, blame(rig, seen), record["read_bytes"], record["unattributed_bytes"], record["cached_bytes"], record["served_bytes"])) from error
    compare(by_disk(record), seen.data(), "%s, the API" % title)
    rig.attribution(record)
    check(view["verdict"], "the view has no verdict")
    check(record["served_bytes"] > 0, "nothing served: %s" % record["served_bytes"])
    browser.leave(url=rig.server.url)
    browser.cards(titles=[title])
    after = servers.until(30, "the record is kept after the session", lambda: (lambda r: r if r.get("ended") else None)(rig.server.io(played["session"])))
    compare(by_disk(after), seen.data(), "%s, the record afterwards" % title)
    # Before the sign-in the page asks who it is, and is told 401.
    noise = [p for p in browser.problems() if "/auth/me" not in p]
    check(not noise, "the page complained: %s" % noise[:3])


def three_at_once(rig, rows, browser=None):
    """Three streams, two of them on one file at different places. The sum and each file's own bytes must be right."""
    rig.alone()
    owner = layout.Owner(rig.pool, list(rig.paths.values()))
    opened, errors = [], []

    def viewer(title, start_share, rate):
        try:
            played = rig.server.play(rows[title]["id"])
            check(played["method"] == "direct_play", "method %s" % played["method"])
            opened.append((title, played["session"]))
            size = os.path.getsize(rig.paths[title])
            start = int(size * start_share)
            got = rig.server.read_paced(played["url"], start, None, rate)
            check(got >= size - start, "%s: %d of %d bytes" % (title, got, size - start))
        except Exception as error:
            errors.append("%s: %s" % (title, error))

    with rig.trace() as seen:
        threads = [threading.Thread(target=viewer, args=args) for args in (
            ([] if browser else [(DIRECT, 0.0, 12e6)]) + [(DIRECT, 0.4, 6e6), (OTHER, 0.0, 12e6)])]
        for thread in threads:
            thread.start()
        if browser:
            played = browser.play(id=rows[DIRECT]["id"])
            opened.append((DIRECT, played["session"]))
            browser.advance(seconds=3.0)
            clock_is_true(browser.seek(tenths=8), "one of three, after a seek")
            browser.io_open()
            browser.shot(name="three-at-once-" + rig.profile)
            browser.eval_(code="document.querySelector('video').pause()")
        for thread in threads:
            thread.join(120)
        check(not errors, "; ".join(errors))
        rig.quiet()
        time.sleep(1.5)
        records = [(title, rig.server.io(session)) for title, session in opened]
    check(seen.lost == 0, "the trace lost %d events" % seen.lost)
    for _, record in records:
        rig.attribution(record)
    try:
        compare(total(r for _, r in records), seen.data(), "three together")
        for title in (DIRECT, OTHER):
            of_file = seen.data(lambda e: owner.of(e.disk, e.sector * 512) == rig.paths[title])
            compare(total(r for t, r in records if t == title), of_file, "streams of %s" % title)
    except AssertionError as error:
        raise AssertionError("%s\n        trace: %s\n        records: %s" % (error, blame(rig, seen), "; ".join(
            "%s: %s, unattributed %s, served %s" % (title, by_disk(r), r["unattributed_bytes"], r["served_bytes"]) for title, r in records))) from error
    served = sum(r["served_bytes"] for _, r in records)
    check(served >= sum(r["read_bytes"] for _, r in records) * 0.5, "served %d" % served)
    for _, session in opened:
        if not browser or session != opened[-1][1]:
            rig.server.end(session)
    if not browser:
        what_if(rig, [session for _, session in opened])
    if browser:
        browser.leave(url=rig.server.url)


def what_if(rig, sessions):
    """The sessions once more on another layout, while the server runs: the same requests, and every byte that came off disks."""
    records = [servers.until(30, "the record is kept", lambda session=session: (lambda r: r if r.get("ended") else None)(rig.server.io(session))) for session in sessions]
    run = subprocess.run([servers.PROGRAM, "simulate", "--data-dir", rig.server.data, "--layout", "mirror,disks=4,columns=2", "--most", "0", "--json", *sessions],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(run.returncode == 0, "simulate: exit %d: %s" % (run.returncode, run.stderr))
    told = json.loads(run.stdout)
    for said, record in zip(told["sessions"], records):
        rows = record.get("requests", [])
        check(said["session"] == record["session"] and said["read_bytes"] == sum(row["length_bytes"] for row in rows) and rows, "%s of %d requests" % (said, len(rows)))
        check(said.get("approximate") is None, "approximate: %s" % said.get("approximate"))
        check({row["disk"]: row["read_bytes"] for row in said["recorded"]} == by_disk(record), "recorded: %s" % said["recorded"])
    check(sum(row["read_bytes"] for row in told["disks"]) == sum(said["read_bytes"] for said in told["sessions"]), "disks: %s" % told["disks"])


# Groups that run at the same time. A trace is of its own group's disks; the limits of waits are wide.
AT_ONCE = 2


def run():
    stage = report.Stage("e2e", sys.argv[1] if len(sys.argv) > 1 else None)
    why = pools.why_not() or tracing.why_not()
    source = None if why else clips()
    pages, clients = {}, {}
    for profile in ("raid0", "raid1", "raid10"):
        for helper, who in (("auto", "with_the_helper"), ("off", "without_the_helper")):
            name = "page_%s_%s" % (profile, who)
            pages[name] = lambda stage, args=(name, profile, source, why, helper): stage.wants(args[0]) and page(stage, *args)
        clients["clients-" + profile] = lambda stage, profile=profile: three_clients(stage, profile, source, why)
    clients["clients-alone"] = lambda stage: one_client(stage, source, why)
    pages["subtitles"] = subtitles.run
    pages["failing"] = lambda stage: failing.run(stage, clips)
    # What computes (browsers, conversions) and what waits (paced viewers) in turns; what is held against a disk model's clock beside
    # what waits.
    ordered = dict(row for pair in itertools.zip_longest(pages.items(), clients.items()) for row in pair if row)
    ordered.update({**streams.groups(source, why), **accuracy.groups(source, why), "experiments": experiments.run, "copies": copies.run})
    report.beside(stage, os.path.abspath(__file__), ordered, AT_ONCE)
    return stage.finish()


def three_clients(stage, profile, source, why):
    for helper, uid, who in (("auto", None, "with_the_helper"), ("off", None, "without_the_helper")):
        name = "three_clients_%s_%s" % (profile, who)
        if not stage.wants(name):
            continue
        with stage.case(name):
            need(why)
            with Rig(profile, source, helper, uid) as rig:
                rig.server.setup()
                three_at_once(rig, rig.ready())


def one_client(stage, source, why):
    for profile in ("ext4", "xfs", "single"):
        name = "one_client_%s_without_privilege" % profile
        if stage.wants(name):
            with stage.case(name):
                need(why)
                unprivileged(profile, source)


def need(why):
    if why:
        raise report.Skip(why)


def page(stage, name, profile, source, why, helper):
    """The cases that share one pool, one server and one browser."""
    with stage.case(name + "_starts_and_lists"):
        need(why or browsers.why_not())
        shots = profile if helper == "auto" else profile + "-no-helper"
        with Rig(profile, source, helper) as rig, browsers.Browser() as browser:
            rows = open_page(rig, browser)
            browser.shot(name="grid-" + shots)
            with stage.case(name + "_plays_an_mp4_as_it_is"):
                one_stream(rig, browser, rows[DIRECT], "direct_play", "direct-" + shots)
            with stage.case(name + "_converts_an_mkv"):
                browser.leave(url=rig.server.url)
                one_stream(rig, browser, rows[CONVERT], "transcode", "convert-" + shots)
            if profile == "raid0" and helper == "auto":
                with stage.case(name + "_converts_hevc_10_bit"):
                    browser.leave(url=rig.server.url)
                    watch(browser, rows[TEN_BITS], "transcode")
            with stage.case(name + "_three_at_once"):
                browser.leave(url=rig.server.url)
                three_at_once(rig, rows, browser)


def unprivileged(profile, source):
    """As `nobody` and without a helper: exact on a plain disk; on a pool that only root may map, honest about it."""
    with Rig(profile, source, "off", NOBODY) as rig:
        rig.server.setup()
        rows = rig.ready()
        with rig.trace() as seen:
            played = rig.server.play(rows[DIRECT]["id"])
            rig.server.read_paced(played["url"])
            rig.quiet()
            time.sleep(1.5)
            record = rig.server.io(played["session"])
        if rig.pool.kind == "btrfs" and record["attribution"] == "none":
            check(record.get("why"), "attribution none must say why")
            check(not by_disk(record) or sum(by_disk(record).values()) == 0, "no attribution, but disks: %s" % by_disk(record))
            check(abs(record["read_bytes"] - sum(seen.data().values())) <= TOLERANCE * sum(seen.data().values()),
                  "total: said %d, the trace saw %s" % (record["read_bytes"], seen.data()))
        else:
            rig.attribution(record)
            compare(by_disk(record), seen.data(), "as nobody")
        rig.server.end(played["session"])


if __name__ == "__main__":
    report.main(run)
