"""A server whose library holds the inputs, and what people's players ask of it: a scan, pictures, and each film repacked and converted."""
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import sqlite3
import sys
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "rigs")]
import server as servers

ANSWER_S = 45    # a disk that sleeps, a scan for key frames and a worker that hangs twice are all shorter
SCAN_S = 900     # a batch; each file has at most two tries of 15 s
SEEKS = 3        # of so many inputs one is asked for a segment further on, too
GOOD_PACE = 400_000  # bytes a second of the film that plays meanwhile

CODECS = "h264 hevc vp9 vp8 av1 mpeg4 mpeg2video mpeg1video vc1 theora prores".split()
SOUNDS = "aac ac3 eac3 mp3 mp2 opus flac vorbis alac dts truehd pcm_s16le wmav2".split()
SUBTITLES = [{"format": "webvtt", "delivery": "external"}]
# Takes playlists alone, with whatever may be copied into them.
COPIES = {"name": "copies", "direct_play": [], "video": [{"codec": c} for c in CODECS], "audio": [{"codec": c} for c in SOUNDS], "subtitles": SUBTITLES, "protocols": ["hls"]}
# Takes nothing as it is: small pictures and another sound.
MADE = {"name": "made", "direct_play": [], "video": [{"codec": "h264", "profiles": ["Main"], "max_width": 160, "max_height": 90}], "audio": [{"codec": "opus", "max_channels": 2}],
        "subtitles": SUBTITLES, "protocols": ["hls"]}
PLAYS = {"name": "plays", "direct_play": [{"container": "mp4", "video": ["*"], "audio": ["*"]}], "video": [], "audio": [], "subtitles": SUBTITLES, "protocols": ["http", "hls"]}


class Outcome:
    """What became of one input."""

    def __init__(self):
        self.probed = self.remuxed = self.converted = False
        self.subtitles = self.pictures = 0
        self.by = ""


def free_box(number):
    """A box that says nothing, behind a good film: no two files are the same one moved."""
    body = b"input %d" % number
    return (8 + len(body)).to_bytes(4, "big") + b"free" + body


class House:
    """One running server and its folders; `tell(number, kind, text)` hears of findings."""

    def __init__(self, scratch, sources, tell):
        self.scratch, self.sources, self.tell = scratch, sources, tell
        self.folders = {kind: os.path.join(scratch, kind) for kind in ("movies", "music", "photos")}
        self.good = max(sources.by_family["video", "mp4"], key=lambda s: s.name == "Movies/North Quay (2016)/North Quay (2016).mp4")
        self.server, self.asking = None, {}

    def __enter__(self):
        for folder in self.folders.values():
            os.makedirs(folder, exist_ok=True)
        good = os.path.join(self.folders["movies"], "Good (1999)")
        os.makedirs(good, exist_ok=True)
        with open(os.path.join(good, "Good (1999).mp4"), "wb") as out:
            out.write(self.good.data)
        self.data = os.path.join(self.scratch, "data")
        os.makedirs(self.data)
        # The record of disks is not what is asked about, and a scan runs when it is asked for, not when a file is half written.
        self.server = servers.Server([(kind, path) for kind, path in self.folders.items()], ["--storage-helper", "off"], data=self.data, env={"SPINDLE_SCAN_WATCH": "false"})
        self.server.__enter__()
        self.server.setup()
        self.pid = self.server.pid
        return self

    def __exit__(self, *_):
        family = servers.descendants(self.pid)
        self.server.__exit__()
        left = [pid for pid in family if servers.program_of(pid).startswith("spindle")]
        servers.until(15, "the server's workers end with it", lambda: not [pid for pid in left if servers.program_of(pid).startswith("spindle")])

    # ---- the library

    def place(self, one):
        """Puts an input where a scan finds it; the path that its outcome is told by."""
        role, title = one.source.role, "Fuzz %06d (2000)" % one.number
        if role == "audio":
            path = os.path.join(self.folders["music"], "Fuzz", "Album %06d" % one.number, "01 - %06d.%s" % (one.number, one.extension))
        elif role == "picture" and one.number % 2:
            path = os.path.join(self.folders["photos"], "Fuzz", one.name)
        else:
            film = os.path.join(self.folders["movies"], title, title)
            path = film + "." + one.extension
            if role != "video":
                os.makedirs(os.path.dirname(film), exist_ok=True)
                with open(film + ".mp4", "wb") as out:
                    out.write(self.good.data + free_box(one.number))
            if role == "picture":
                path = os.path.join(os.path.dirname(film), "poster." + one.extension)
            if role == "subtitle":
                path = film + ".en." + one.extension
                # VobSub is two files.
                other = {"idx": "sub", "sub": "idx"}.get(one.extension)
                if other:
                    with open(film + ".en." + other, "wb") as out:
                        out.write(self.sources.named(other)[0].data)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(one.data)
        return path

    def clear(self):
        for kind, folder in self.folders.items():
            for name in os.listdir(folder):
                if name.startswith("Fuzz"):
                    shutil.rmtree(os.path.join(folder, name))

    def rows(self):
        """What the index says of each file that is there, by path."""
        with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % os.path.join(self.data, "library.db"), uri=True)) as db:
            found = db.execute("SELECT r.path, f.path, f.probe, f.unreadable, f.info, v.id, i.id FROM files f JOIN roots r ON r.pk = f.root "
                               "LEFT JOIN versions v ON v.pk = f.version LEFT JOIN items i ON i.pk = v.item WHERE f.missing_since IS NULL").fetchall()
        keys = ("probe", "unreadable", "info", "version", "item")
        return {os.path.join(os.fsdecode(row[0]), os.fsdecode(row[1])): dict(zip(keys, row[2:])) for row in found}

    # ---- asking

    def get(self, number, method, path, body=None, what=""):
        """An answer, and what is wrong with it told. A server that has no worker to spare is asked again."""
        for _ in range(40):
            self.asking[threading.get_ident()] = "%d %s" % (number, what or path)
            try:
                status, headers, text = self.server.request(method, path, body, timeout=ANSWER_S)
            except (TimeoutError, OSError, http.client.HTTPException) as error:
                kind = "hang" if isinstance(error, TimeoutError) else "server"
                self.tell(number, kind, "%s: %s: %s" % (what, type(error).__name__, error))
                raise Unanswered from error
            finally:
                self.asking.pop(threading.get_ident(), None)
            if status == 503 and b"workers are in use" in text:
                time.sleep(0.25)
                continue
            if status >= 400:
                self.judge(number, what, status, headers, text)
            return status, headers, text
        self.tell(number, "hang", "%s: no worker became free" % what)
        raise Unanswered

    def judge(self, number, what, status, headers, text):
        told = text.decode(errors="replace")[:300]
        kind = {k.lower(): v for k, v in headers.items()}.get("content-type", "")
        if not kind.startswith("application/problem+json"):
            self.tell(number, "answer", "%s: %d is no problem document: %s" % (what, status, told))
        elif "died" in told:
            self.tell(number, "crash", "%s: %s" % (what, told))
        elif status == 504 or "no progress" in told:
            self.tell(number, "hang", "%s: %s" % (what, told))
        elif status >= 500:
            self.tell(number, "fault", "%s: %d %s" % (what, status, told))

    def play(self, number, row, who, subtitle=None):
        """Opens a session, asks for its first segment and its subtitles, and ends it: (method, whether a segment came, subtitles that came)."""
        body = {"client": who, "version": row["version"]}
        if subtitle is not None:
            body["subtitle"] = subtitle
        name = who["name"]
        status, _, text = self.get(number, "POST", "/api/v1/items/%s/play" % row["item"], body, "%s: play" % name)
        if status != 200:
            return None, False, 0, None
        answer = json.loads(text)
        try:
            texts = 0
            if who is COPIES:
                for track in answer["subtitles"]:
                    texts += bool(track.get("url")) and self.get(number, "GET", self.server.path_of(track["url"]), what="subtitles %d" % track["index"])[0] == 200
            came = answer["protocol"] == "hls" and self.first_segment(number, answer, name)
            return answer["method"], came, texts, answer
        finally:
            self.get(number, "DELETE", "/api/v1/sessions/" + answer["session"], what="%s: end" % name)

    def first_segment(self, number, answer, name):
        master = self.server.path_of(answer["url"])
        for playlist in ("master.m3u8", "media.m3u8"):
            status, _, text = self.get(number, "GET", urllib.parse.urljoin(master, playlist), what="%s: %s" % (name, playlist))
            if status != 200:
                return False
        lines = text.decode().splitlines()
        segments = [line for line in lines if line and line[0] != "#"]
        wanted = [line.split('URI="')[1].split('"')[0] for line in lines if line.startswith("#EXT-X-MAP")] + segments[:1]
        if number % SEEKS == 0 and len(segments) > 2:
            # A jump, to where what the file says of its length may be a lie: an answer must come, whatever it is.
            self.get(number, "GET", urllib.parse.urljoin(master, segments[-1 - number // SEEKS % 2 * (len(segments) // 2)]), what="%s: a jump" % name)
        return bool(wanted) and all(self.get(number, "GET", urllib.parse.urljoin(master, one), what="%s: %s" % (name, one))[0] == 200 for one in wanted)

    def pictures(self, number, row):
        status, _, text = self.get(number, "GET", "/api/v1/items/" + row["item"], what="item")
        count = 0
        for image in json.loads(text)["images"] if status == 200 else ():
            count += self.get(number, "GET", "/api/v1/items/%s/images/%s?width=64" % (row["item"], image["kind"]), what="picture " + image["kind"])[0] == 200
        return count

    def exercise(self, one, path, rows):
        """Everything that is asked about one input."""
        out, role = Outcome(), one.source.role
        row = rows.get(path)
        film = path if role in ("video", "audio") else next((p for p in rows if p == os.path.join(os.path.dirname(path), os.path.basename(os.path.dirname(path)) + ".mp4")), None)
        main = rows.get(film) if film else row
        if role in ("video", "audio", "text") or (role == "picture" and one.number % 2):
            if not row:
                self.tell(one.number, "lost", "the scan does not know it")
                return out
            if row["unreadable"]:
                if "died" in row["unreadable"] or "no progress" in row["unreadable"]:
                    self.tell(one.number, "crash" if "died" in row["unreadable"] else "hang", "scan: %s" % row["unreadable"])
                return out
            if row["probe"] != "done":
                self.tell(one.number, "lost", "neither described nor refused: %s" % row["probe"])
                return out
        if role in ("video", "audio"):
            out.probed, out.by = True, json.loads(row["info"]).get("probed_by", "")
            method, came, out.subtitles, _ = self.play(one.number, row, COPIES)
            out.remuxed = came and method == "direct_stream"
            out.converted = came and method == "transcode"
            out.converted |= self.play(one.number, row, MADE)[1]
            out.pictures = self.pictures(one.number, row)
        elif role == "subtitle" and main:
            _, _, out.subtitles, answer = self.play(one.number, main, COPIES)
            drawn = [t["index"] for t in (answer or {}).get("subtitles", ()) if not t.get("url")]
            if drawn:
                out.converted = self.play(one.number, main, MADE, drawn[0])[1]
            out.probed = bool(out.subtitles or out.converted)
        elif role == "picture" and main and main["item"]:
            out.pictures = self.pictures(one.number, main)
            out.probed = out.pictures > 0 and bool(one.number % 2 or (row and not row["unreadable"]))
        elif role == "text":
            out.probed = True
        return out

    def batch(self, inputs, at_once):
        """Scans and asks about some inputs; their outcomes by number."""
        paths = {one.number: self.place(one) for one in inputs}
        self.server.scan_and_wait(SCAN_S)
        rows, out = self.rows(), {}

        def ask(one):
            try:
                return self.exercise(one, paths[one.number], rows)
            except Unanswered:
                return Outcome()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for one, outcome in zip(inputs, pool.map(ask, inputs)):
                out[one.number] = outcome
        self.clear()
        return out

    # ---- the server itself

    def figures(self):
        """What a server must not gather: descriptors, apart from those of cached segments, which have a bound of their own; threads; bytes of
        memory that are its own (PSS)."""
        pss = int(re.search(r"^Pss: +(\d+)", open("/proc/%d/smaps_rollup" % self.pid).read(), re.M)[1]) << 10
        opened = servers.files_of(self.pid)
        segments = sum(path.startswith(os.path.join(self.data, "cache") + "/") for path in opened)
        return {"descriptors": len(opened) - segments, "segments": segments, "threads": len(os.listdir("/proc/%d/task" % self.pid)), "memory": pss}

    def alive(self):
        return self.server.process.poll() is None

    def log_faults(self, begins=0):
        """Lines of its log, from a place on, that a server with bad files must not write, and where the log ends."""
        with open(self.server.log_path, "rb") as log:
            log.seek(begins)
            text = log.read()
        lines = text.decode(errors="replace").splitlines()
        return [line[:400] for line in lines if re.search(r"panicked|\bERROR\b|stack overflow|a fault of its own|worker died|made no progress|took too long", line)], begins + len(text)


class Unanswered(Exception):
    """A request that had no answer; it is told already."""


class Viewer:
    """Somebody who watches a good film all the while. Every byte is compared; a piece that does not come ends the film."""

    def __init__(self, house):
        self.house, self.stop, self.rounds, self.trouble = house, threading.Event(), 0, None
        self.thread = threading.Thread(target=self.watch, name="viewer")

    def __enter__(self):
        servers.until(60, "the good film is indexed", lambda: (self.house.server.item("Good") or {}).get("duration_s"))
        self.answer = self.house.server.play(self.house.server.item("Good")["id"], client=PLAYS)
        if self.answer["method"] != "direct_play":
            raise AssertionError("the good film plays by %s" % self.answer["method"])
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(ANSWER_S + 5)

    def watch(self):
        good, link = self.house.good.data, self.house.server
        path = link.path_of(self.answer["url"])
        try:
            while not self.stop.is_set():
                for at in range(0, len(good), 64 << 10):
                    if self.stop.is_set():
                        return
                    end = min(at + (64 << 10), len(good)) - 1
                    status, _, body = link.request("GET", path, headers={"Range": "bytes=%d-%d" % (at, end)}, timeout=ANSWER_S)
                    if status != 206 or hashlib.sha256(body).digest() != hashlib.sha256(good[at:end + 1]).digest():
                        raise AssertionError("bytes %d-%d of the good film: status %d, %d bytes" % (at, end, status, len(body)))
                    self.stop.wait(len(body) / GOOD_PACE)
                self.rounds += 1
                link.api("POST", "/sessions/%s/progress" % self.answer["session"], {"position_s": 1.0, "paused": False})
        except Exception as error:  # whatever it was, the film was disturbed; told at the end
            self.trouble = "%s: %s" % (type(error).__name__, error)
