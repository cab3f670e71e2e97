"""A server over the samples, and what a client gets of a film: playlists, segments, subtitles."""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "rigs")]
import place
import server as servers
from report import check


def near(got, wanted, within, what):
    check(got is not None and abs(got - wanted) <= within, "%s: %s, not %s (within %s)" % (what, got, wanted, within))


WEBVTT = [{"format": "webvtt", "delivery": "external"}]


def client(name, direct=(), video=("h264",), audio=("aac",), **more):
    """A profile of the contract's form. Codecs are words, or whole limits."""
    limit = lambda codec: codec if isinstance(codec, dict) else {"codec": codec}
    word = lambda codec: codec["codec"] if isinstance(codec, dict) else codec
    return {"name": name, "direct_play": [{"container": c, "video": [word(v) for v in video], "audio": [word(a) for a in audio]} for c in direct],
            "video": [limit(v) for v in video], "audio": [limit(a) for a in audio], "subtitles": WEBVTT, "protocols": ["http", "hls"], **more}


# Takes playlists alone, with every codec in them that may be: what is copied is copied.
COPIES = client("copies", video=("h264", "hevc", "vp9", "av1"), audio=("aac", "ac3", "mp3", "opus", "flac"), protocols=["hls"])
# The same, with sound always made anew.
SOUND_MADE = client("sound made", audio=("opus",), video=("h264", "hevc"), protocols=["hls"])
# Takes no picture of the samples as it is, in its own size.
MADE = client("made", video=({"codec": "h264", "profiles": ["Main"]},), audio=({"codec": "aac", "max_channels": 2},), protocols=["hls"])
# The picture is made, AC-3 is copied.
PICTURE_MADE = client("picture made", video=({"codec": "h264", "profiles": ["Main"]},), audio=("ac3", "aac"), protocols=["hls"])
# Plays any file.
# One answer without playlists, everything copied that may be.
ONE = {**client("one", direct=("mp4",), video=("h264", "hevc"), audio=("aac", "ac3")), "protocols": ["http"]}
DIRECT = client("direct", direct=("mp4,mkv,mov,webm,mpegts,m2ts,avi",), video=("*",), audio=("*",))
IN_TS = {"hls": {"container": "mpegts", "video": ["h264"], "audio": ["aac", "ac3", "mp3"]}}


class House:
    """A server with the sample library, logged in. `scratch` is for what was fetched."""

    def __init__(self, libraries, flags=(), env=None):
        self.server = servers.Server(libraries, ["--storage-helper", "off", *flags], env=env)

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="cases-", dir=place.work())
        self.server.__enter__()
        self.server.setup()
        return self

    def __exit__(self, *_):
        try:
            self.server.__exit__()
        finally:
            self.scratch.cleanup()

    def item(self, name, type="movie"):
        """The one item called so; with "(1970)" behind it, of that year and with this or a shorter title (a codec at the end of a title is
        taken for a word of the release)."""
        year = re.search(r" \((\d{4})\)$", name)
        fits = lambda r: r["title"] == name
        if year:
            fits = lambda r: r.get("year") == int(year[1]) and name.startswith(r["title"])
        rows = [r for r in self.server.items(type=type) if fits(r)]
        check(len(rows) == 1, "%d items are called %r" % (len(rows), name))
        return rows[0]

    def detail(self, title, **more):
        return self.server.api("GET", "/items/%s" % self.item(title, **more)["id"])

    def path(self, title):
        """Where a film's file lies."""
        return os.path.join(self.folder, "Movies", self.detail(title)["versions"][0]["file"])

    def stream(self, title, kind, **has):
        """The index of a film's stream with these fields."""
        rows = [s for s in self.detail(title)["versions"][0]["streams"] if s["kind"] == kind and all(s.get(k) == v for k, v in has.items())]
        check(rows, "%s has no %s stream with %s" % (title, kind, has))
        return rows[0]["index"]

    def decide(self, title, who, **more):
        """The decision of the version that would play."""
        dry = self.server.api("POST", "/items/%s/decide" % self.item(title)["id"], {"client": who, **more})
        return next(v for v in dry["versions"] if v["chosen"])

    def play(self, title, who, **more):
        return Played(self, self.server.api("POST", "/items/%s/play" % self.item(title)["id"], {"client": who, **more}))

    def cli(self, *argv):
        """What a command prints with --json."""
        run = subprocess.run([servers.PROGRAM, *argv, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        check(run.returncode == 0, "%s: %d: %s" % (argv[0], run.returncode, run.stderr[-300:]))
        return json.loads(run.stdout)

    def profile(self, who):
        """A client as a file."""
        path = self.file("profile.json")
        json.dump(who, open(path, "w"))
        return path

    def worker_cpu(self):
        """Seconds that the server's workers have computed: those that live (proc(5): utime, stime) and those that have ended (cutime, cstime)."""
        ticks = 0
        for pid in self.server.workers():
            ticks += sum(map(int, open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[11:13]))
        ticks += sum(map(int, open("/proc/%d/stat" % self.server.pid).read().rpartition(")")[2].split()[13:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def file(self, name):
        return os.path.join(self.scratch.name, name)


class Played:
    """A session. Leaving its `with` block ends it."""

    def __init__(self, house, answer):
        self.house, self.answer, self.server = house, answer, house.server
        self.decision, self.method = answer["decision"], answer["method"]
        self.reasons = [r["code"] for r in answer["reasons"]]
        self.path = self.server.path_of(answer["url"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.request("DELETE", "/api/v1/sessions/" + self.answer["session"])

    def action(self, kind):
        return (self.decision[kind] or {}).get("action")

    def get(self, name, status=200):
        got, headers, body = self.server.request("GET", urllib.parse.urljoin(self.path, name))
        check(got == status, "%s: %d, not %d: %s" % (name, got, status, body[:200]))
        return body

    def playlist(self):
        """(name, begins, lasts) of every segment listed, and the init segment's name."""
        if not hasattr(self, "_list"):
            text = self.get("media.m3u8").decode()
            rows, at, lasts, self.init_name = [], 0.0, None, None
            for line in text.splitlines():
                if line.startswith("#EXTINF:"):
                    lasts = float(line[8:].rstrip(","))
                elif line.startswith("#EXT-X-MAP"):
                    self.init_name = line.split('URI="')[1].split('"')[0]
                elif line and not line.startswith("#"):
                    rows.append((line, at, lasts))
                    at += lasts
            check(rows, "the playlist lists nothing: %s" % text[:300])
            self.text, self._list = text, rows
        return self._list

    def length(self):
        return sum(row[2] for row in self.playlist())

    def at(self, seconds):
        """The number of the segment in which a time lies."""
        return max(n for n, (_, begins, _) in enumerate(self.playlist()) if begins <= seconds + 1e-4)

    def segment(self, n):
        return self.get(self.playlist()[n][0])

    def init(self):
        self.playlist()
        return self.get(self.init_name) if self.init_name else b""

    def cut(self, numbers, name="cut"):
        """A file of the init segment and these segments."""
        numbers = list(numbers)
        path = self.house.file("%s-%s%s" % (name, numbers[0], ".mp4" if self.init() else ".ts"))
        with open(path, "wb") as out:
            out.write(self.init())
            for n in numbers:
                out.write(self.segment(n))
        return path

    def whole(self, name="whole"):
        return self.cut(range(len(self.playlist())), name)

    def file(self):
        """What plays as it is, or as one stream, saved."""
        path = self.house.file("file" + os.path.splitext(self.path.split("?")[0])[1])
        with open(path, "wb") as out:
            out.write(self.get(self.path))
        return path
