"""Runs inside the machine: builds each stack, asks the server, watches the disks, and writes down what it saw.

It judges nothing but bytes (a disk's against the file's): the figures go out as evidence, one JSON file a case, and judge.py
holds them against each other on the host."""
import hashlib
import json
import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.update(RIG_PROGRAM="/lab/spindle", RIG_WORK="/tmp/rig")
import server as servers
import shares
import trace as tracing

SOFT = "/test/soft.bin"
OUT, MOUNT, EXPORT, FILMS = "/out", "/mnt/pool", "/srv/export", "/mnt/pool/films"
NOBODY = 65534
TITLES = ["Alpha", "Beta", "Gamma"]
MIB = 1 << 20
# `sync_completed` is written every some stripes, and stripes are read before they are done.
SYNC_BEHIND, SYNC_AHEAD = 1 << 20, 4 << 20
# States of a piece that is not on its disk (any more).
GONE = ("missing", "stale")


class Failed(Exception):
    pass


def shell(script, check=True, seconds=90):
    """Runs shell lines with lib.sh and the disks' names."""
    run = subprocess.run(["/bin/sh", "-c", ". %s/lib.sh\n%s" % (HERE, script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env={**os.environ, **{"D%d" % n: "/dev/" + name for n, name in disks().items()}}, timeout=seconds)
    if check and run.returncode:
        raise Failed("%s: status %d: %s" % (script, run.returncode, run.stdout.strip()[-800:]))
    return run.stdout


def read(path, default=""):
    try:
        with open(path) as text:
            return text.read().strip()
    except OSError:
        return default


def disks():
    """number -> kernel name of the disks that are there now."""
    found = {}
    for name in os.listdir("/sys/block"):
        serial = read("/sys/block/%s/serial" % name)
        if serial.startswith("lab"):
            found[int(serial[3:])] = name
    return found


def drop():
    os.sync()
    if os.path.exists("/proc/spl/kstat/zfs/z"):
        # Its cache is its own: this empties it.
        shell("zinject -a")
    with open("/proc/sys/vm/drop_caches", "w") as knob:
        knob.write("3")


class Trace(tracing.BlockTrace):
    """The rigs' trace of leaf disks, which also sees the requests that the driver was given (block_rq_issue): what of them no bio
    explains is an event, too, of the thread that gave it to the driver."""

    MORE = ("block_rq_issue", "block_rq_requeue")
    REQUEST = re.compile(r"^\s*(.{1,16})-(\d+)\s+\[\d+\]\s+\S*\s*(\d+\.\d+): block_rq_(issue|requeue): (\d+),(\d+) (\S+) (?:\d+ )?\(.*?\) (\d+) \+ (\d+) ")

    def __enter__(self):
        super().__enter__()
        for event in self.MORE:
            self._write("events/block/%s/filter" % event, " || ".join("dev == %d" % (major << 20 | minor) for major, minor in self.numbers))
            self._write("events/block/%s/enable" % event, 1)
        self.issued = {name: 0 for name in self.numbers.values()}
        return self

    def __exit__(self, *rest):
        self._write("tracing_on", 0)
        others, unqueued, bare = 0, tracing.Unqueued(), []
        with open(os.path.join(self.instance, "trace"), errors="replace") as text:
            for line in text:  # in order of time
                bio = tracing.LINE.match(line)
                if bio and "R" in bio[6]:
                    unqueued.queued(self.numbers.get((int(bio[4]), int(bio[5]))), int(bio[7]), int(bio[7]) + int(bio[8]))
                found = self.REQUEST.match(line)
                if not found:
                    continue
                others += 1
                disk, start, count = self.numbers[(int(found[5]), int(found[6]))], int(found[8]), int(found[9])
                if "R" not in found[7]:
                    continue
                if found[4] == "requeue":
                    unqueued.queued(disk, start, start + count)
                    self.issued[disk] -= count * 512
                    continue
                self.issued[disk] += count * 512
                bare += [tracing.Event(float(found[3]), int(found[2]), found[1].strip(), disk, first, (end - first) * 512, found[7]) for first, end in unqueued.issued(disk, start, start + count)]
        for event in self.MORE:
            self._write("events/block/%s/enable" % event, 0)
        super().__exit__(*rest)
        self.lost -= others  # the base class counts lines that it does not know
        self.events = sorted(self.events + bare)
        return False

    def evidence(self):
        return {"lost": self.lost, "issued": self.issued,
                "events": [[e.disk, e.sector * 512, e.len_bytes, e.flags, e.tid, e.comm, round(e.time_s, 6)] for e in self.events]}


def traced(case):
    here = disks()
    return Trace({here[n]: "/dev/" + here[n] for n in case["disks"] if n in here})


# ---- building and filling

def make_filesystem(case):
    if case["fs"] == "zfs":
        # Access as udev's rule of the package gives it; the list of pools is where zdb looks for them.
        shell("modprobe zfs; chmod 666 /dev/zfs; mkdir -p /etc/zfs")
        # It takes no property twice.
        options = case["mkfs"] if "compression=" in case["mkfs"] else "-O compression=off " + case["mkfs"]
        shell("zpool create -f -o ashift=12 -O atime=off -O mountpoint=%s %s z %s" % (MOUNT, options, case["top"]))
        return
    tops = shell("echo %s" % case["top"]).split()
    options = case["mkfs"]
    if case["fs"] == "ext4":
        # Lazy initialisation and the journal would write in the background, into the trace.
        shell("mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 %s %s" % (options, " ".join(tops)))
    elif case["fs"] == "xfs":
        shell("mkfs.xfs -q -f %s %s" % (options, " ".join(tops)))
    else:
        shell("mkfs.btrfs -q -f %s %s" % (options, " ".join(tops)))
    case["devices"] = tops


def mount(case, more=""):
    os.makedirs(MOUNT, exist_ok=True)
    if case["fs"] == "zfs":
        shell("zpool list z >/dev/null 2>&1 || zpool import -d /dev/mapper -d /dev z")
        return
    options = ["noatime"] + [option for option in (case["mount"], more) if option]
    if case["fs"] == "ext4":
        # Its read-ahead of inode tables is not marked as metadata: the trace would hold it for a file's bytes. Block bitmaps are
        # fetched by a thread of its own some time after the mount; md takes the mark off them.
        options += ["inode_readahead_blks=0", "no_prefetch_block_bitmaps"]
    if case["fs"] == "btrfs":
        options += ["device=" + top for top in case["devices"]]
    at = EXPORT if case["share"] else MOUNT
    os.makedirs(at, exist_ok=True)
    shell("mount -t %s -o %s %s %s" % (case["fs"], ",".join(options), case["devices"][0], at))
    if case["share"]:
        shares.start(EXPORT)
        shares.mount(MOUNT)


def remount(case):
    os.sync()
    if case["share"]:
        shell("umount %s" % MOUNT)
        shares.mount(MOUNT)
        return
    if case["fs"] == "zfs":
        shell("zpool export z")
        mount(case)
        return
    for _ in range(50):
        if subprocess.run(["umount", MOUNT], stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(0.1)
    if case["between"]:
        shell(case["between"])
    mount(case, case["remount"])


def film(number):
    """The film's bytes; the second and the third are the first with a box of their own at the end."""
    with open(os.path.join(HERE, "film.mp4"), "rb") as source:
        body = source.read()
    if number:
        own = hashlib.shake_128(b"film %d" % number).digest(40000 + number)
        body += struct.pack(">I4s", len(own) + 8, b"free") + own
    return body


def film_path(number):
    return "%s/%s (200%d)/%s (200%d).mp4" % (FILMS, TITLES[number], number, TITLES[number], number)


def fill():
    for number in range(len(TITLES)):
        os.makedirs(os.path.dirname(film_path(number)))
        with open(film_path(number), "wb") as out:
            out.write(film(number))
        os.sync()
    # A file in many runs: pieces of two files in turn, each on its way to the disk before the next; a hole; an odd end.
    os.makedirs(MOUNT + "/test")
    block = hashlib.shake_128(b"scattered").digest(MIB)
    with open(MOUNT + "/test/scattered.bin", "wb") as one, open(MOUNT + "/test/between.bin", "wb") as two:
        for step in range(6):
            one.seek(step * MIB + (MIB if step > 3 else 0))
            for out, size in ((one, MIB - 4096 * step), (two, 300 << 10)):
                out.write(bytes([step]) + block[1:size])
                out.flush()
                os.fsync(out.fileno())
        one.write(b"the end")
    # A file that shrinks where the filesystem compresses: of each 8 KiB only the first half is chance.
    with open(MOUNT + SOFT, "wb") as out:
        out.write(b"".join(hashlib.shake_128(b"soft %d" % n).digest(4096) + bytes(4096) for n in range(256)))
    os.sync()


def pool_files(case):
    return [film_path(0), MOUNT + "/test/scattered.bin"] + ([MOUNT + SOFT] if "compression=lz4" in case["mkfs"] else [])


def facts():
    """What the kernel itself says was built."""
    out = {"mdstat": read("/proc/mdstat"), "table": shell("dmsetup table 2>/dev/null; dmsetup status 2>/dev/null", check=False)}
    for name in sorted(os.listdir("/sys/block")):
        if name.startswith("md"):
            folder = "/sys/block/%s/md/" % name
            out[name] = {key: read(folder + key) for key in ("level", "layout", "chunk_size", "raid_disks", "degraded", "sync_action", "sync_completed", "component_size")}
            out[name]["members"] = {slot: {"device": os.path.basename(os.path.realpath(folder + slot + "/block")), "offset": read(folder + slot + "/offset"), "state": read(folder + slot + "/state")}
                                    for slot in sorted(os.listdir(folder)) if re.fullmatch(r"rd\d+", slot)}
    return out


def syncing():
    """Where each array is at work by itself: (disk, first byte, end) on every member, for what it reads there is nobody's."""
    out = []
    for name in os.listdir("/sys/block"):
        folder = "/sys/block/%s/md/" % name
        if not name.startswith("md") or read(folder + "sync_action", "idle") in ("idle", "frozen"):
            continue
        done = re.match(r"(\d+) / \d+", read(folder + "sync_completed"))
        at = int(done[1]) * 512 if done else 0
        for slot in os.listdir(folder):
            if re.fullmatch(r"rd\d+", slot):
                start = int(read(folder + slot + "/offset", "0")) * 512
                out.append((os.path.basename(os.path.realpath(folder + slot + "/block")), start + at, start + at))
    return out


def own_work(before, after):
    """What the arrays went over meanwhile, with what they read ahead of themselves."""
    places = {}
    for disk, start, end in before + after:
        first, last = places.get(disk, (start, end))
        places[disk] = (min(first, start), max(last, end))
    return [(disk, max(start - SYNC_BEHIND, 0), end + SYNC_AHEAD) for disk, (start, end) in places.items()]


def spindle(*arguments):
    run = subprocess.run(["/lab/spindle", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)
    if run.returncode:
        return {"error": "spindle %s: status %d: %s" % (arguments[0], run.returncode, (run.stderr or run.stdout).strip()[-500:])}
    try:
        return json.loads(run.stdout)
    except ValueError:
        return {"error": "spindle %s: not JSON: %s" % (arguments[0], run.stdout[:300])}


# ---- layout

def layout(case, path):
    """The server's map of a file; what the disks did when it was read cold; what the disks hold at the places given."""
    with open(path, "rb") as source:
        body = source.read()
    drop()
    answer = spindle("layout", "--json", path)
    drop()
    if case["fs"] == "zfs":
        # The same for ZFS, which knows no direct reads before 2.3.
        shell("zfs set primarycache=metadata z; zpool sync z")
    warm_metadata(path)
    with traced(case) as seen:
        fd = os.open(path, os.O_RDONLY)
        for offset in range(0, len(body), MIB):
            if os.pread(fd, MIB, offset) != body[offset:offset + MIB]:
                raise Failed("%s reads differently the second time" % path)
        os.close(fd)
    if case["fs"] == "zfs":
        shell("zfs set primarycache=all z; zpool sync z")
    return {"file": path, "size": len(body), "answer": answer, "raw": compare_raw(answer, body) if case["raw"] else None,
            "verified": spindle("layout", "--verify", "--json", path), **seen.evidence()}


def warm_metadata(path):
    """Leaves in memory what a read of the file needs besides its bytes: directories, inode, extent tree, checksums. md's mirrors and
    parity arrays submit every request without the mark of metadata, and ext4 never marks blocks of extent trees, so that the
    trace could not tell them from the file's own. A direct read needs all of them and leaves none of the file's pages."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    size, buffer = os.fstat(fd).st_size, mmap.mmap(-1, MIB)
    at = 0
    while at < size:
        got = os.preadv(fd, [buffer], at)
        if got <= 0:
            raise Failed("%s ends at %d of %d bytes" % (path, at, size))
        at += got
    os.close(fd)


def compare_raw(answer, body):
    """Bytes at the places given against the file's: (bytes that are the same, bytes that are not, the first that is not)."""
    drop()
    same = other = 0
    first, handles = None, {}
    for extent in answer.get("extents", []):
        for number, copy in enumerate(extent["copies"]):
            at = extent["offset"]
            if sum(piece["length_bytes"] for piece in copy) < extent["length_bytes"]:
                continue  # stored compressed
            for piece in copy:
                length = min(piece["length_bytes"], len(body) - at)
                if piece.get("state") in GONE:
                    at += piece["length_bytes"]
                    continue
                if piece["disk"] not in handles:
                    handles[piece["disk"]] = os.open("/dev/" + piece["disk"], os.O_RDONLY)
                for start in range(0, length, MIB):
                    want = body[at + start:at + min(length, start + MIB)]
                    if os.pread(handles[piece["disk"]], len(want), piece["disk_offset"] + start) == want:
                        same += len(want)
                    else:
                        other += len(want)
                        first = first or {"copy": number, "file_offset": at + start, **piece}
                at += piece["length_bytes"]
    for handle in handles.values():
        os.close(handle)
    return {"same": same, "other": other, "first": first}


# ---- record

class Viewer(threading.Thread):
    """Takes one film from a place to its end at a pace, and holds every byte against the original."""

    def __init__(self, server, item, number, start_share, bytes_per_s, at_bytes=None, then=None):
        super().__init__()
        self.server, self.item, self.number, self.share, self.pace, self.at, self.then = server, item, number, start_share, bytes_per_s, at_bytes, then
        self.error = self.session = None
        self.count = 0

    def run(self):
        try:
            played = self.server.play(self.item)
            self.session = played["session"]
            if played["method"] != "direct_play":
                raise Failed("method %s: %s" % (played["method"], played.get("reasons")))
            self._take(played["url"])
        except Exception as error:
            self.error = "%s: %s: %s" % (TITLES[self.number], type(error).__name__, error)

    def _take(self, url):
        body = film(self.number)
        start = int(len(body) * self.share)
        path, host = self.server.path_of(url), self.server.url.split("//")[1].split(":")
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 << 10)  # so that the pace reaches the server
        link.settimeout(90)
        link.connect((host[0], int(host[1])))
        link.sendall(("GET %s HTTP/1.1\r\nHost: lab\r\nRange: bytes=%d-\r\nConnection: close\r\n\r\n" % (path, start)).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            got = link.recv(4096)
            if not got:
                raise Failed("no answer: %r" % head)
            head += got
        head, _, got = head.partition(b"\r\n\r\n")
        if head.split(b" ")[1] not in (b"200", b"206"):
            raise Failed("answered %r" % head.split(b"\r\n")[0])
        began = time.monotonic()
        while True:
            at = start + self.count
            if got != body[at:at + len(got)]:
                raise Failed("bytes at %d are not the film's" % at)
            self.count += len(got)
            if self.at is not None and self.count >= self.at:
                self.at = None
                self.then()
            ahead = self.count / self.pace - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(min(ahead, 5))
            got = link.recv(64 << 10)
            if not got:
                break
        link.close()
        if self.count != len(body) - start:
            raise Failed("%d of %d bytes came" % (self.count, len(body) - start))


# When the disk goes: what the server has read ahead by then (two windows) and what the sockets hold (4 MiB) is far from the film's 12 MB.
EARLY = 1 * MIB

# scenario -> (film, where it starts, bytes a second) of each viewer
SCENARIOS = {
    "one": [(0, 0.0, 8e6)],
    "three": [(0, 0.0, 6e6), (1, 0.0, 6e6), (2, 0.0, 6e6)],
    "same": [(0, 0.0, 6e6), (0, 0.4, 4e6), (1, 0.0, 6e6)],
    "fault": [(0, 0.0, 4e6)],
    "lost": [(0, 0.0, 4e6)],
}


def still(case, server, sessions):
    """Waits until neither the disks' own counters nor the records move any more. Gives the records."""
    def now():
        counters = [] if case["busy"] else [read("/sys/block/%s/stat" % name).split()[:3] for name in sorted(disks().values())]
        return counters, [server.io(session) for session in sessions]

    def moving(state):
        return state[0], [(r["read_bytes"], r["unattributed_bytes"], r["served_bytes"]) for r in state[1]]
    # On ZFS a record waits for the map of its file, which zdb takes seconds to tell on an emulated processor.
    quiet, most = (8, 60) if case["fs"] == "zfs" and sessions else (1.2, 30)
    last, since, end = now(), time.monotonic(), time.monotonic() + most
    while time.monotonic() - since < quiet and time.monotonic() < end:
        time.sleep(0.2)
        state = now()
        if moving(state) != moving(last):
            since = time.monotonic()
        last = state
    return last[1]


def serve(case, mode, scenarios):
    """One server on the pool, one scenario after the other, each with a cold cache."""
    helper, uid = {"exact": ("auto", None), "fallback": ("off", NOBODY), "root": ("off", None)}[mode]
    out, maps = [], None
    os.makedirs("/tmp/rig/runs", exist_ok=True)
    os.chmod("/tmp/rig", 0o777)
    os.chmod("/tmp/rig/runs", 0o777)
    began = time.monotonic()
    # A session lives until it is ended here: what is asked of ZFS on an emulated processor takes longer than a player is silent.
    with servers.Server([("movies", FILMS)], ["--storage-helper", helper], uid=uid, env={"SPINDLE_SESSIONS_IDLE_S": "3600", "SPINDLE_LOG_LEVEL": "debug" if case["fs"] == "zfs" else "info"}) as server:
        server.setup()
        rows = server.settled(TITLES, 90)
        server.idle(60)
        ready = time.monotonic() - began
        if case["fs"] == "zfs" and mode == "exact":
            maps = mapped(server, rows, {TITLES[film] for scenario in scenarios for film, _share, _pace in SCENARIOS[scenario]})
        for scenario in scenarios:
            still(case, server, [])
            drop()
            out.append(one_scenario(case, server, rows, mode, scenario))
            out[-1]["ready_s"] = round(ready, 1)
            for session in out[-1].pop("open"):
                server.end(session)
        if maps and out:
            out[-1]["mapped"] = maps
        if case["fs"] == "zfs" and out:
            out[-1]["log"] = open(server.log_path, errors="replace").read()[-30000:]
    return out


def mapped(server, rows, titles):
    """Reads each film that is played until its record has places for it: zdb, which tells the map, takes half a minute on an emulated processor, and a
    scenario is over in three seconds. The server keeps the map. Gives what a page is told that asks for the map meanwhile, and how often zdb was asked."""
    pages = {}

    def page(title):
        try:
            pages[title] = server.api("GET", "/items/%s/layout" % rows[title]["id"], timeout=150)
        except Exception as error:
            pages[title] = {"error": "%s: %s" % (type(error).__name__, error)}
    for title in sorted(titles):
        drop()
        played = server.play(rows[title]["id"])
        asker = threading.Thread(target=page, args=(title,))
        asker.start()
        server.request("GET", server.path_of(played["url"]))
        end = time.monotonic() + 90
        while time.monotonic() < end and not sum(disk["read_bytes"] for disk in server.io(played["session"])["disks"]):
            time.sleep(0.5)
        asker.join()
        server.end(played["session"])
    return {"pages": pages, "asked": read(server.log_path).count("zdb was asked for the map of a file")}


def one_scenario(case, server, rows, mode, scenario):
    began = time.monotonic()
    happened = []

    def fault():
        happened.append(shell(case[scenario], check=False).strip())
    syncs = syncing()
    with traced(case) as seen:
        viewers = [Viewer(server, rows[TITLES[number]]["id"], number, share, pace, EARLY if scenario in ("fault", "lost") else None, fault)
                   for number, share, pace in SCENARIOS[scenario]]
        for viewer in viewers:
            viewer.start()
        for viewer in viewers:
            viewer.join(120)
        if scenario == "lost":
            return after_a_loss(server, mode, viewers, happened)
        sessions = [viewer.session for viewer in viewers if viewer.session]
        records = still(case, server, sessions)
    result = {"own_work": own_work(syncs, syncing()), "mode": mode, "scenario": scenario, "open": sessions, "seconds": round(time.monotonic() - began, 1),
              "viewers": [{"film": v.number, "bytes": v.count, "error": v.error, "record": record} for v, record in zip(viewers, records)],
              "errors": [v.error for v in viewers if v.error] + (["a viewer got no session"] if len(records) < len(viewers) else []), **seen.evidence()}
    if scenario == "fault":
        result["fault"] = happened
        result["topology"] = spindle("topology", "--json", MOUNT)
    return result


def after_a_loss(server, mode, viewers, happened):
    """What must still work when the disks cannot be: the server answers and knows every film."""
    out = {"mode": mode, "scenario": "lost", "open": [], "fault": happened, "ended": [viewer.error for viewer in viewers], "errors": []}
    try:
        out["titles"] = sorted(row["title"] for row in server.items(type="movie"))
        out["health"] = server.request("GET", "/health")[0]
        out["topology"] = spindle("topology", "--json", MOUNT)
    except Exception as error:
        out["errors"].append("after the loss: %s: %s" % (type(error).__name__, error))
    return out


# ---- a case

def run_case(case, plan):
    evidence = {"case": case["name"], "steps": {}, "names": disks()}

    def step(name, work):
        began = time.monotonic()
        try:
            evidence[name] = work()
        finally:
            evidence["steps"][name] = round(time.monotonic() - began, 1)
            save(evidence)
    try:
        step("build", lambda: shell(case["build"]))
        make_filesystem(case)
        mount(case)
        step("fill", fill)
        if case["settle"]:
            shell(case["settle"])
        if case["state"]:
            step("state", lambda: shell(case["state"]))
        remount(case)
        step("facts", facts)
        step("topology", lambda: spindle("topology", "--json", MOUNT))
        if "layout" in plan["do"]:
            step("layouts", lambda: [layout(case, path) for path in pool_files(case)])
        evidence["serve"] = []
        for mode, scenarios in plan["serve"]:
            wanted = [s for s in scenarios if s not in ("fault", "lost") or case[s]]
            if not wanted:
                continue
            try:
                step("serve " + mode, lambda: evidence["serve"].extend(serve(case, mode, wanted)))
            except Exception as error:
                evidence["serve"].append({"mode": mode, "scenario": "-", "errors": ["%s: %s" % (type(error).__name__, error)]})
    except Exception as error:
        evidence["error"] = "%s: %s" % (type(error).__name__, error)
        evidence["where"] = traceback.format_exc(limit=-3)
    evidence["done"] = True
    save(evidence)


def save(evidence):
    path = os.path.join(OUT, evidence["case"] + ".json")
    with open(path + ".tmp", "w") as out:
        json.dump(evidence, out)
    os.rename(path + ".tmp", path)


def in_child(case, plan, seconds):
    """A case in a process group of its own, so that one that hangs costs only its time."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        run_case(case, plan)
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return None
        time.sleep(0.1)
    stacks = "".join("%s: %s\n" % (read("/proc/%s/comm" % pid), read("/proc/%s/stack" % pid).splitlines()[:4]) for pid in os.listdir("/proc") if pid.isdigit() and read("/proc/%s/stat" % pid).rpartition(")")[2].split()[:1] == ["D"])
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child, number)
        except ProcessLookupError:
            pass
        time.sleep(1)
    return "not over after %d s; waiting for a disk: %s" % (seconds, stacks or "nothing")


def sign_of_life():
    """For machine.py: a byte to the console every few seconds of this machine's own clock."""
    while True:
        with open("/dev/ttyS0", "w") as console:
            console.write("\a")
        time.sleep(5)


def keep_names():
    """Leaves one event on for good, one that hardly ever occurs. While any is, the kernel notes the names of threads, by probes in the
    scheduler; with the first and the last it would write those into its own code and out again. On an emulated machine of several processors
    that went wrong: both stood in `__schedule`, at the very instruction that one of them was writing."""
    with open("/sys/kernel/tracing/events/sched/sched_kthread_stop/enable", "w") as knob:
        knob.write("1")


def main():
    threading.Thread(target=sign_of_life, daemon=True).start()
    plan = json.load(open(os.path.join(HERE, "plan.json")))
    for module in ("raid0", "raid1", "raid10", "raid456", "linear", "dm-mod", "dm-raid", "dm-mirror", "dm-crypt", "dm-writecache", "dm-cache-smq", "dm-thin-pool", "bcache", "btrfs", "xfs", "ext4", "xts", "aesni_intel"):
        subprocess.run(["modprobe", "-q", module])
    for number, name in disks().items():
        with open("/sys/block/%s/queue/read_ahead_kb" % name, "w") as knob:
            knob.write("128")
    keep_names()
    speed = {key: read("/proc/sys/dev/raid/" + key) for key in ("speed_limit_min", "speed_limit_max")}
    for case in plan["cases"]:
        began = time.monotonic()
        print("case %s" % case["name"], flush=True)
        why = in_child(case, plan, plan["seconds"] * case["patience"])
        if why:
            with open(os.path.join(OUT, case["name"] + ".hung"), "w") as out:
                out.write(why)
            print("  " + why, flush=True)
        for key, value in speed.items():
            if value:
                with open("/proc/sys/dev/raid/" + key, "w") as knob:
                    knob.write(value)
        # A machine that breaks at the next stack must not take this one's evidence with it.
        shell("tar cf - -C /out . | dd of=$OUT bs=1M conv=fsync 2>/dev/null", check=False)
        try:
            shell("down")
            for name in disks().values():
                shell("blkdiscard -f /dev/%s 2>/dev/null || blkdiscard /dev/%s || dd if=/dev/zero of=/dev/%s bs=1M 2>/dev/null || true" % (name, name, name))
        except Exception as error:
            print("  not taken down: %s" % error, flush=True)
            with open(os.path.join(OUT, "stopped"), "w") as out:
                out.write("after %s: %s" % (case["name"], error))
            return
        print("  %.1f s" % (time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main()
