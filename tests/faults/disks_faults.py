"""Faults of disks, on pools behind the disk model (rigs/disks.py): pulled, read-only, hanging; a trace that is lost; files that
are not laid out as films usually are."""
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse

import disks
import layout
import place
import pool as pools
import report
import server as servers
import trace as tracing
from report import check

MIB = 1 << 20


class Viewer(threading.Thread):
    """One viewer: reads a film from a place on, at a pace, and keeps its hash and how far it is."""

    def __init__(self, server, item, rate=None, start=0, **play):
        super().__init__(daemon=True)
        self.server, self.rate, self.start_byte = server, rate, start
        self.count, self.error, self.hash, self.length = 0, None, hashlib.sha256(), None
        self.played = server.play(item, **play)
        check(self.played["method"] == "direct_play", "method %s (%s)" % (self.played["method"], self.played["reasons"]))
        self.session = self.played["session"]

    def run(self):
        try:
            self._read()
        except (OSError, ValueError, AssertionError) as error:
            self.error = error

    def _read(self):
        host = urllib.parse.urlsplit(self.server.url)
        with socket.socket() as link:
            # A small buffer, so that the pace reaches the server; an answer may take as long as a hang.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 << 10)
            link.settimeout(120)
            link.connect((host.hostname, host.port))
            link.sendall(("GET %s HTTP/1.1\r\nHost: test\r\nRange: bytes=%d-\r\nConnection: close\r\n\r\n" % (self.server.path_of(self.played["url"]), self.start_byte)).encode())
            head = b""
            while b"\r\n\r\n" not in head:
                got = link.recv(4096)
                check(got, "no answer head: %r" % head[:200])
                head += got
            head, _, body = head.partition(b"\r\n\r\n")
            lines = head.decode(errors="replace").lower().split("\r\n")
            check(lines[0].split()[1] == "206", "status: %s" % lines[0])
            self.length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
            began = time.monotonic()
            while True:
                self.hash.update(body)
                self.count += len(body)
                if self.rate:
                    ahead = self.count / self.rate - (time.monotonic() - began)
                    if ahead > 0:
                        time.sleep(ahead)
                body = link.recv(64 << 10)
                if not body:
                    return

    def reaches(self, count, seconds=60):
        servers.until(seconds, "the viewer has %d bytes" % count, lambda: self.count >= count or self.error or not self.is_alive())
        check(self.count >= count, "stopped at %d of %s: %s" % (self.count, self.length, self.error))

    def ends_whole(self, path, seconds=120):
        """Every byte of the film came, and they are the film's."""
        self.join(seconds)
        check(not self.is_alive(), "still reading after %d s, at %d of %s" % (seconds, self.count, self.length))
        check(self.error is None and self.count == self.length, "got %d of %s: %s" % (self.count, self.length, self.error))
        check(self.hash.digest() == digest(path, self.start_byte, self.count), "the bytes are not the film's")


_digests = {}


def digest(path, start, count):
    """Of the film as it was made, outside the pool: its own disks may be broken."""
    key = (path, start, count)
    if key not in _digests:
        with open(path, "rb") as film:
            film.seek(start)
            _digests[key] = hashlib.sha256(film.read(count)).digest()
    return _digests[key]


def film(stage_samples, folder, title, year=2020):
    """Copies the film under a title. Gives the path of the copy."""
    target = os.path.join(folder, "%s (%d)" % (title, year))
    os.makedirs(target)
    path = os.path.join(target, "%s (%d).mp4" % (title, year))
    shutil.copyfile(stage_samples, path)
    pools.flush(path)
    return path


@contextlib.contextmanager
def served(pool, titles, helper="auto", libraries=None):
    """A server that has indexed the pool and is idle; every film's bytes are out of memory, the trees are in."""
    with servers.Server(libraries or [("movies", pool.mount)], ["--storage-helper", helper]) as server:
        server.setup()
        rows = server.settled(list(titles))
        server.idle()
        # Pictures are made after a scan: that, too, reads the films.
        pool.still()
        yield server, rows


def alive(server):
    status, _, body = server.request("GET", "/health")
    check(status == 200, "health: %d %s" % (status, body[:200]))


def listed(server, titles):
    got = {row["title"] for row in server.items(type="movie")}
    check(set(titles) <= got, "films are gone from the library: %s of %s" % (got, titles))


def needs_model(profile=None):
    why = pools.why_not(profile, model=True)
    if why:
        raise report.Skip(why)


# ---- a disk is pulled

def pulled_from_a_mirror(stage, clip):
    title = "a_disk_pulled_from_a_mirror_mid_stream_leaves_playback_whole_and_is_named"
    if not stage.wants(title):
        return
    with stage.case(title):
        needs_model()
        with pools.Pool("raid1", size_mib=384, model="ssd") as pool:
            path = film(clip, pool.mount, "Alpha")
            pool.remount()
            with served(pool, ["Alpha"]) as (server, rows):
                pools.evict(path)
                viewer = Viewer(server, rows["Alpha"]["id"], rate=6e6)
                viewer.start()
                viewer.reaches(6 * MIB)
                by = {row["disk"]: row["read_bytes"] for row in servers.until(20, "a disk has served", lambda: [r for r in server.io(viewer.session)["disks"] if r["read_bytes"]])}
                victim = max(by, key=by.get)
                pool.model.vanish(pool.name_in_model(victim))
                viewer.ends_whole(clip)
                record = servers.until(20, "the record names the disk", lambda: (lambda r: r if names(r, victim) else None)(server.io(viewer.session)))
                other = next(disk for disk in pool.disks if disk != victim)
                check(any(row["disk"] == other and row["read_bytes"] > MIB for row in record["disks"]), "the other disk served nothing: %s" % record["disks"])
                # The next viewer starts on what is left.
                second = Viewer(server, rows["Alpha"]["id"])
                second.start()
                second.ends_whole(clip)
                alive(server)


def names(record, disk):
    """Whether a record says that a disk fails: as something that happened, in its row, and in words."""
    return (any(fault["disk"] == disk for fault in record["faults"]) and disk in record["striping"]["verdict"]
            and any(row["disk"] == disk and row.get("failed_reads", 0) > 0 for row in record["disks"]))


def pulled_from_a_single_disk(stage, clip):
    for profile in ("ext4", "single"):
        title = "the_disk_pulled_from_under_a_stream_on_%s_is_a_clean_error_and_the_library_stays" % profile
        if not stage.wants(title):
            continue
        with stage.case(title):
            needs_model()
            with pools.Pool(profile, size_mib=384, model="ssd") as pool:
                path = film(clip, pool.mount, "Alpha")
                pool.remount()
                with served(pool, ["Alpha"]) as (server, rows):
                    server.api("PUT", "/items/%s/state" % rows["Alpha"]["id"], {"position_s": 12.5})
                    pools.evict(path)
                    viewer = Viewer(server, rows["Alpha"]["id"], rate=6e6)
                    viewer.start()
                    viewer.reaches(4 * MIB)
                    for disk in {piece.disk for piece in layout.pieces(pool, path)}:
                        pool.model.vanish(pool.name_in_model(disk))
                    viewer.join(60)
                    check(not viewer.is_alive(), "the stream hangs at %d of %s" % (viewer.count, viewer.length))
                    check(viewer.count < viewer.length, "everything came: nothing was read from the disk")
                    alive(server)
                    listed(server, ["Alpha"])
                    # A new request is told, soon, before anything is promised.
                    last_bytes(server, viewer)
                    server.scan_and_wait()
                    listed(server, ["Alpha"])
                    for number in range(pool.count):
                        pool.model.heal("d%d" % number)
                    server.scan_and_wait()
                    back = servers.until(60, "the film is back", lambda: (lambda r: r if r and r["available"] else None)(server.item("Alpha")))
                    check(back["id"] == rows["Alpha"]["id"] and abs(back["state"]["position_s"] - 12.5) < 0.01, "came back as %s" % back)
                    if pool.kind == "ext4":
                        # A btrfs that lost a disk may have to be mounted again; ext4 reads on.
                        once_more = Viewer(server, rows["Alpha"]["id"])
                        once_more.start()
                        once_more.ends_whole(clip)


def last_bytes(server, viewer):
    """Asks for the end of the film, which no disk can give: a problem document that says when to ask again."""
    wanted = {"Range": "bytes=%d-%d" % (viewer.length - 4096, viewer.length - 1)}
    status, headers, body = server.request("GET", server.path_of(viewer.played["url"]), headers=wanted, timeout=30)
    told = {name.lower(): value for name, value in dict(headers).items()}
    check(status == 503 and "problem+json" in told.get("content-type", "") and int(told.get("retry-after", "0")) > 0, "%d %s %s" % (status, told, body[:200]))
    check(b"cannot be read" in body, body[:300])


# ---- a pool is read-only

def read_only(stage, clip):
    title = "a_pool_that_is_forced_read_only_is_served_and_scanned_as_before"
    if not stage.wants(title):
        return
    with stage.case(title):
        needs_model()
        with pools.Pool("raid1", size_mib=384, model="ssd") as pool:
            path = film(clip, pool.mount, "Alpha")
            pools.sh("btrfs", "subvolume", "create", os.path.join(pool.mount, SCRATCH))
            pool.remount()
            with served(pool, ["Alpha"]) as (server, rows):
                pools.evict(path)
                viewer = Viewer(server, rows["Alpha"]["id"], rate=6e6)
                viewer.start()
                viewer.reaches(4 * MIB)
                for number in range(pool.count):
                    pool.model.readonly("d%d" % number)
                force_errors(pool)
                viewer.ends_whole(clip)
                server.scan_and_wait()
                listed(server, ["Alpha"])
                row = server.item("Alpha")
                check(row["available"] and row["id"] == rows["Alpha"]["id"], "after a scan: %s" % row)
                second = Viewer(server, row["id"])
                second.start()
                second.ends_whole(clip)
                server.api("PUT", "/items/%s/state" % row["id"], {"position_s": 3.5})
                alive(server)


def force_errors(pool):
    """Makes the filesystem write, so that it meets its disks' refusal and goes read-only.

    What it writes lies in a subvolume of its own, so small that it has no checksums: a tree block that could not be written is
    unreadable afterwards, and the films' must not be among those."""
    def probe():
        try:
            with open(os.path.join(pool.mount, SCRATCH, "write-me"), "wb") as out:
                out.write(os.urandom(64))
                os.fsync(out.fileno())
        except OSError:
            pass
        fields = [line.split() for line in open("/proc/self/mounts")]
        return any(f[1] == pool.mount and "ro" in f[3].split(",") for f in fields)
    servers.until(60, "the filesystem is read-only", probe)


SCRATCH = ".scratch"


# ---- a disk hangs

def hangs_beside_another(stage, clip):
    title = "a_disk_that_hangs_for_30_s_holds_up_nobody_elsewhere_and_its_stream_goes_on"
    if not stage.wants(title):
        return
    with stage.case(title):
        needs_model()
        with pools.Pool("ext4", size_mib=192, model="ssd") as slow, pools.Pool("xfs", size_mib=384) as fine:
            held, free = film(clip, slow.mount, "Held"), film(clip, fine.mount, "Free")
            slow.remount()
            fine.remount()
            libraries = [("movies", slow.mount), ("movies", fine.mount)]
            with served(slow, ["Held", "Free"], libraries=libraries) as (server, rows):
                pools.evict(held, free)
                # More streams on the disk that hangs than it has threads.
                stuck = [Viewer(server, rows["Held"]["id"], rate=3e6, start=n * 5 * MIB) for n in range(6)]
                for viewer in stuck:
                    viewer.start()
                for viewer in stuck:
                    viewer.reaches(MIB // 2)
                began = time.monotonic()
                slow.model.hang("d0", 600)
                try:
                    # What was in memory when the server looked may be gone when it sends: memory is short on small machines.
                    pools.evict_now(held)
                    moving = Viewer(server, rows["Free"]["id"], rate=6e6)
                    moving.start()
                    moving.ends_whole(clip)
                    # The pages, too: lists, the item, a record, what the volumes are.
                    for path in ("/items?limit=10", "/items/" + rows["Held"]["id"], "/sessions", "/sessions/%s/io" % stuck[0].session, "/storage"):
                        answers(server, path)
                    again = Viewer(server, rows["Free"]["id"])
                    again.start()
                    again.ends_whole(clip)
                    check(slow.model.stats("d0")["waiting"] > 0, "nothing waits on the disk that hangs")
                    before = [viewer.count for viewer in stuck]
                    time.sleep(max(0, 30 - (time.monotonic() - began)))  # the fault itself lasts half a minute
                    check(all(viewer.is_alive() for viewer in stuck), "a viewer gave up: %s" % [str(v.error) for v in stuck])
                finally:
                    slow.model.heal("d0")  # or the server could not even end
                for viewer in stuck:
                    viewer.rate = None
                    viewer.ends_whole(clip)
                check(any(viewer.count > count for viewer, count in zip(stuck, before)), "all of them had everything before the hang ended")
                # Not every one waited: what another had just read was in memory.
                stalls = [stall for viewer in stuck for stall in server.io(viewer.session)["stalls"]]
                check(any(stall["duration_s"] > 5 for stall in stalls), "no record tells a stall: %s" % stalls)


def answers(server, path):
    """An answer within 20 s: a page that waits for the hung disk would take longer than any."""
    try:
        server.api("GET", path, timeout=20)
    except OSError as error:
        raise AssertionError("GET %s: %s" % (path, error)) from error


def hangs_within_a_pool(stage, clip):
    title = "a_disk_of_a_pool_that_hangs_holds_up_no_stream_from_its_other_disks"
    if not stage.wants(title):
        return
    with stage.case(title):
        needs_model()
        with pools.Pool("single", size_mib=448, model="ssd") as pool:
            titles = ["Film %s" % letter for letter in "ABCDEFG"]
            paths = {name: film(clip, pool.mount, name) for name in titles}
            where = {name: {piece.disk for piece in layout.pieces(pool, path)} for name, path in paths.items()}
            pairs = [(a, b) for a in titles for b in titles if not where[a] & where[b]]
            check(pairs, "all films share a disk: %s" % where)
            held, free = pairs[0]
            pool.remount()
            with served(pool, titles) as (server, rows):
                # The trees and checksums into memory: they lie on two disks each, and the kernel waits for the one it asked.
                for path in paths.values():
                    with open(path, "rb") as bytes_:
                        while bytes_.read(MIB):
                            pass
                pools.evict(*paths.values())
                stuck = [Viewer(server, rows[held]["id"], rate=2e6, start=n * 5 * MIB) for n in range(6)]
                for viewer in stuck:
                    viewer.start()
                for viewer in stuck:
                    viewer.reaches(MIB // 2)
                hung = sorted(where[held])
                for disk in hung:
                    pool.model.hang(pool.name_in_model(disk), 600)
                pools.evict_now(paths[held])
                servers.until(30, "every reader of the hung disk waits", lambda: pool.model.stats(pool.name_in_model(hung[0]))["waiting"] >= 4)
                moving = Viewer(server, rows[free]["id"], rate=8e6)
                moving.start()
                try:
                    moving.ends_whole(clip, 60)
                finally:
                    for disk in hung:
                        pool.model.heal(pool.name_in_model(disk))
                for viewer in stuck:
                    viewer.rate = None
                    viewer.ends_whole(clip)


# ---- a mount hangs

def mount_hangs(stage, clip):
    """FUSE and NFS wait for their other side in open and close, too: a film that is opened again for a worker, and one that is
    let go."""
    title = "a_mount_that_hangs_holds_up_no_page_when_its_films_are_opened_again_or_let_go"
    if not stage.wants(title):
        return
    with stage.case(title):
        why = disks.why_not()
        if why:
            raise report.Skip(why)
        folder = tempfile.mkdtemp(prefix="mount-", dir=place.work())
        try:
            with disks.Model(folder, {"Held (2020).mp4": clip}, preset="ssd") as model:
                with servers.Server([("movies", model.mount)]) as server:
                    server.setup()
                    row = server.settled(["Held"])["Held"]
                    server.idle()
                    hls = {"client": dict(servers.PROFILE, direct_play=[], protocols=["hls"])}
                    # A worker is started, and its file opened and let go, at about the moment that the mount hangs.
                    for n in range(40):
                        way = server.api("POST", "/items/%s/play" % row["id"], dict(hls, max_bitrate=900000 + n))
                        time.sleep(n * 0.004)  # another moment each time
                        model.process.send_signal(signal.SIGSTOP)
                        try:
                            answers(server, "/sessions")
                            answers(server, "/items/" + row["id"])
                            waits = waiting_for_fuse(server)
                        finally:
                            model.process.send_signal(signal.SIGCONT)
                        check(all(name.startswith("read") for name in waits), "not only reader threads wait for the mount: %s" % waits)
                        ended(server, way["session"])
                    ways = [server.play(row["id"]) for _ in range(4)] + [server.api("POST", "/items/%s/play" % row["id"], hls)]
                    model.process.send_signal(signal.SIGSTOP)
                    try:
                        segment = threading.Thread(target=lambda: server.request("GET", server.path_of(ways[-1]["url"])), daemon=True)
                        segment.start()
                        # Each processor's thread has one to let go.
                        ends = [threading.Thread(target=ended, args=(server, way["session"]), daemon=True) for way in ways[:-1]]
                        for end in ends:
                            end.start()
                        for _ in range(10):
                            answers(server, "/sessions")
                            alive(server)
                            time.sleep(0.2)  # lets the next one come to its end
                    finally:
                        model.process.send_signal(signal.SIGCONT)
                    for end in ends:
                        end.join(30)
                        check(not end.is_alive(), "a session did not end")
        finally:
            shutil.rmtree(folder)


def waiting_for_fuse(server):
    """Names of the server's threads that wait for the other side of a FUSE mount, as the kernel's stacks show."""
    names = []
    for thread in os.listdir("/proc/%d/task" % server.pid):
        try:
            with open("/proc/%d/task/%s/stack" % (server.pid, thread)) as stack, open("/proc/%d/task/%s/comm" % (server.pid, thread)) as name:
                if "fuse" in stack.read():
                    names.append(name.read().strip())
        except OSError:  # it has ended
            continue
    return names


def ended(server, session):
    server.api("DELETE", "/sessions/" + session)


# ---- the trace is lost

def helper_killed(stage, clip):
    title = "the_trace_that_dies_mid_stream_is_replaced_by_the_map_and_the_record_says_so"
    if not stage.wants(title):
        return
    with stage.case(title):
        why = pools.why_not() or tracing.why_not()
        if why:
            raise report.Skip(why)
        with pools.Pool("raid0", size_mib=384) as pool:
            path = film(clip, pool.mount, "Alpha")
            pool.remount()
            with served(pool, ["Alpha"]) as (server, rows):
                pools.evict(path)
                with tracing.BlockTrace(pool.disks) as seen:
                    viewer = Viewer(server, rows["Alpha"]["id"], rate=6e6)
                    viewer.start()
                    viewer.reaches(8 * MIB)
                    check(server.io(viewer.session)["attribution"] == "block_trace", "before: %s" % server.io(viewer.session)["attribution"])
                    os.kill(helper_of(server), signal.SIGKILL)
                    viewer.ends_whole(clip)
                    record = servers.until(20, "the record has all bytes", lambda: (lambda r: r if r["served_bytes"] >= viewer.length else None)(server.io(viewer.session)))
                    time.sleep(2.2)  # it is fed once a second
                    record = server.io(viewer.session)
                check(record["attribution"] == "sampled_map" and record.get("why"), "attribution %s, why %s" % (record["attribution"], record.get("why")))
                real, told = seen.data(), {row["disk"]: row["read_bytes"] for row in record["disks"]}
                for disk, count in real.items():
                    check(abs(told.get(disk, 0) - count) <= max(0.1 * count, 64 << 10), "%s: told %s, real %s" % (disk, told, real))
                alive(server)


def helper_of(server):
    for pid in servers.descendants(server.pid):
        try:
            if b"storage-helper" in open("/proc/%d/cmdline" % pid, "rb").read().split(b"\0"):
                return pid
        except OSError:
            continue
    raise AssertionError("the server has no helper")


# ---- files that are not laid out as films usually are

FREE_BOX = 8


def add_hole(path, length):
    """A `free` box with nothing in it: a film whose file has a hole."""
    with open(path, "r+b") as out:
        out.seek(0, os.SEEK_END)
        at = out.tell()
        out.write(struct.pack(">I4s", FREE_BOX + length, b"free"))
        out.truncate(at + FREE_BOX + length)


def shatter(path, step, piece):
    """Writes pieces of a file again: where data is never overwritten in place, each becomes an extent of its own."""
    with open(path, "r+b") as out:
        for at in range(step, os.path.getsize(path) - piece, step):
            out.seek(at)
            data = out.read(piece)
            out.seek(at)
            out.write(data)
    pools.flush(path)


def odd_files(stage, clip):
    def hole(pool, path):
        add_hole(path, 32 * MIB)

    def reflink(pool, path):
        other = os.path.join(pool.mount, "Beta (2021)")
        os.makedirs(other)
        with open(path, "rb") as source, open(os.path.join(other, "Beta (2021).mp4"), "wb") as target:
            fcntl.ioctl(target.fileno(), 0x40049409, source.fileno())  # FICLONE

    def shattered(pool, path):
        shatter(path, 16 << 10, 4 << 10)
        count = len(layout.extents(path))
        check(count > 3000, "only %d extents" % count)

    for title, profile, prepare in (("a_file_with_a_hole", "xfs", hole), ("two_files_that_share_their_extents", "raid1", reflink),
                                    ("a_file_of_thousands_of_extents", "raid0", shattered)):
        title = "%s_on_%s_is_served_whole_and_placed" % (title, profile)
        if not stage.wants(title):
            continue
        with stage.case(title):
            why = pools.why_not() or tracing.why_not()
            if why:
                raise report.Skip(why)
            with pools.Pool(profile, size_mib=384) as pool:
                path = film(clip, pool.mount, "Alpha")
                prepare(pool, path)
                pool.flush()
                kept = os.path.join(pool.dir, "kept.mp4")
                shutil.copyfile(path, kept)
                pool.remount()
                titles = [name.rsplit(" (", 1)[0] for name in os.listdir(pool.mount)]
                with served(pool, titles) as (server, rows):
                    paths = [os.path.join(base, name) for base, _, found in os.walk(pool.mount) for name in found]
                    pools.evict(*paths)
                    with tracing.BlockTrace(pool.disks) as seen:
                        viewers = [Viewer(server, rows[name]["id"], rate=20e6) for name in titles]
                        for viewer in viewers:
                            viewer.start()
                        for viewer in viewers:
                            viewer.ends_whole(kept)
                        time.sleep(2.2)  # records are fed once a second
                        records = [server.io(viewer.session) for viewer in viewers]
                    told = {}
                    for record in records:
                        check(record["attribution"] == "block_trace", "attribution %s (%s)" % (record["attribution"], record.get("why")))
                        for row in record["disks"]:
                            told[row["disk"]] = told.get(row["disk"], 0) + row["read_bytes"]
                    for disk, count in seen.data().items():
                        check(abs(told.get(disk, 0) - count) <= max(0.01 * count, 64 << 10), "%s: told %s, real %s" % (disk, told, seen.data()))
                    _digests.pop((kept, 0, os.path.getsize(kept)), None)


def growing(stage, clip):
    title = "a_file_that_grows_while_it_is_played_is_served_as_it_was_and_then_as_it_is"
    if not stage.wants(title):
        return
    with stage.case(title):
        why = pools.why_not()
        if why:
            raise report.Skip(why)
        with pools.Pool("raid0", size_mib=384) as pool:
            path = film(clip, pool.mount, "Alpha")
            pool.remount()
            with served(pool, ["Alpha"]) as (server, rows):
                pools.evict(path)
                viewer = Viewer(server, rows["Alpha"]["id"], rate=8e6)
                viewer.start()
                viewer.reaches(4 * MIB)
                for _ in range(20):
                    with open(path, "ab") as out:
                        out.write(struct.pack(">I4s", MIB, b"free") + os.urandom(MIB - 8))
                    time.sleep(0.05)  # a recorder writes as it goes
                pool.flush()
                viewer.ends_whole(clip)
                server.scan_and_wait()
                second = Viewer(server, server.item("Alpha")["id"])
                second.start()
                second.join(60)
                check(second.count == second.length == os.path.getsize(path), "after the scan: %d of %s, the file has %d" % (second.count, second.length, os.path.getsize(path)))
                alive(server)


CASES = (hangs_beside_another, pulled_from_a_mirror, pulled_from_a_single_disk, read_only, hangs_within_a_pool, mount_hangs, helper_killed, odd_files, growing)


def groups(clips):
    """Each case as a group of its own (report.beside). `clips` gives the folder of the films, made only if a case wants it."""
    def group(case):
        def run(stage):
            clip = None
            if os.geteuid() == 0:
                folder = os.path.join(clips(), "Clips", "Direct Hour (2020)")
                clip = os.path.join(folder, os.listdir(folder)[0])
            case(stage, clip)
        return run
    return {case.__name__: group(case) for case in CASES}
