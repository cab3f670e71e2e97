"""Starts and ends a real server for a test, and speaks to it. Standard library only."""
import contextlib
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import place

TOP = os.path.dirname(os.path.dirname(HERE))
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(TOP, "target")
WORK = place.work()
PROGRAM = os.environ.get("RIG_PROGRAM") or os.path.join(TARGET, "release", "spindle")
USER, PASSWORD = "robin", "a long enough passphrase"


# A client like a browser without HEVC: plays MP4 with H.264 and AAC as it is, and takes HLS for the rest.
PROFILE = {
    "name": "test client",
    "direct_play": [{"container": "mp4", "video": ["h264"], "audio": ["aac"]}],
    "video": [{"codec": "h264"}],
    "audio": [{"codec": "aac", "max_channels": 2}],
    "subtitles": [{"format": "webvtt", "delivery": "external"}],
    "protocols": ["http", "hls"],
}


class Problem(Exception):
    """An answer outside 2xx."""

    def __init__(self, method, path, status, body):
        super().__init__("%s %s: %d %s" % (method, path, status, body[:300]))
        self.status, self.body = status, body


def descendants(pid):
    """Process ids below `pid`, from /proc."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = open("/proc/%s/stat" % name).read()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(name))
    found, open_ = [], [pid]
    while open_:
        for child in children.get(open_.pop(), []):
            found.append(child)
            open_.append(child)
    return found


def program_of(pid):
    """What a process runs; empty when it is gone or a zombie."""
    try:
        if open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0] == "Z":
            return ""
        return os.path.basename(open("/proc/%d/cmdline" % pid, "rb").read().split(b"\0")[0].decode(errors="replace"))
    except OSError:
        return ""


def files_of(pid):
    """What a process has open, by path; nothing when it is gone."""
    found = []
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(OSError):
                found.append(os.readlink("/proc/%d/fd/%s" % (pid, number)))
    return found


def until(seconds, what, probe):
    """Polls until `probe` gives something true, and gives that. The limit only ends a broken run."""
    end = time.monotonic() + seconds
    while True:
        got = probe()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError("%s: not within %d s (last: %r)" % (what, seconds, got))
        time.sleep(0.1)


def program_for(uid):
    """The server's program; for a user who cannot come to where it was built (a clone in /root), a copy of it and of its worker."""
    folder = os.path.dirname(PROGRAM)
    if not uid or place.open_to_all(folder):
        return PROGRAM
    into = os.path.join(WORK, "programs")
    os.makedirs(into, exist_ok=True)
    for name in (os.path.basename(PROGRAM), "spindle-transcode"):
        source, target = os.path.join(folder, name), os.path.join(into, name)
        if not os.path.exists(target) or os.stat(source).st_mtime_ns != os.stat(target).st_mtime_ns:
            # Aside and moved: an older copy may still run.
            part = "%s.%d.part" % (target, os.getpid())
            shutil.copy2(source, part)
            os.replace(part, target)
    return os.path.join(into, os.path.basename(PROGRAM))


def end_program(process):
    """Ends a program that has not ended by itself, and waits for it."""
    if process.poll() is None:
        process.kill()
        process.wait()


class Server:
    """One `spindle serve` on a free loopback port with its own data directory."""

    def __init__(self, libraries=(), flags=(), data=None, uid=None, wrap=(), env=None):
        self.libraries, self.flags, self.uid = list(libraries), list(flags), uid
        self.wrap, self.env = list(wrap), env or {}
        self.own_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="data-", dir=self._runs())
        self.token, self.process = None, None

    @staticmethod
    def _runs():
        path = os.path.join(WORK, "runs")
        os.makedirs(path, exist_ok=True)
        return path

    def command(self):
        argv = list(self.wrap)
        if self.uid:
            os.chown(self.data, self.uid, self.uid)
            argv += ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups", "--inh-caps=-all", "--no-new-privs"]
        argv += [program_for(self.uid), "serve", "--json", "--data-dir", self.data, "--listen", "127.0.0.1:0"]
        for kind, path in self.libraries:
            argv += ["--library", "%s=%s" % (kind, path)]
        return argv + self.flags

    def __enter__(self):
        self.log_path = self.data.rstrip("/") + ".log"
        self.log = open(self.log_path, "ab")
        # Settings of whoever runs the tests must not reach the server under test.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPINDLE_")}
        environment.update(self.env)
        if self.uid:
            environment.update(HOME=self.data, XDG_CONFIG_HOME=self.data, XDG_CACHE_HOME=self.data)
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL, env=environment)
        try:
            self.url = self._ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _ready(self):
        end = time.monotonic() + 60
        line = b""
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError("the server did not become ready; see %s" % self.log_path)
            got = os.read(self.process.stdout.fileno(), 4096)
            if not got:
                raise AssertionError("the server ended with %s: %s" % (self.process.wait(), self.tail()))
            line += got
        return json.loads(line.splitlines()[0])["listening"].rstrip("/")

    def tail(self):
        return open(self.log_path, errors="replace").read()[-600:].strip()

    @property
    def pid(self):
        """The server's own process, below a wrapper such as strace."""
        if not self.wrap:
            return self.process.pid
        return next(p for p in descendants(self.process.pid) if program_of(p) == "spindle")

    def workers(self):
        return [pid for pid in descendants(self.pid) if program_of(pid).startswith("spindle-transcode")]

    def let_go(self, folder):
        """Waits until no worker has a file below `folder` open. One whose viewer has gone still makes, for some seconds, what it had been asked
        for, and reads for that in large steps with long pauses: disks that stand still for a moment say nothing of it."""
        def probe():
            return not any(path.startswith(folder + "/") for pid in self.workers() for path in files_of(pid))
        until(60, "no worker reads files in %s" % folder, probe)

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            family = descendants(self.process.pid)
            try:
                os.kill(self.pid, signal.SIGTERM)  # the server itself: a wrapper such as strace keeps signals to itself
            except (StopIteration, ProcessLookupError):
                self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                for pid in [self.process.pid] + family:
                    if program_of(pid).startswith("spindle"):
                        os.kill(pid, signal.SIGKILL)
                self.process.kill()
                self.process.wait()
                raise AssertionError("the server did not end within 20 s of SIGTERM")
        if self.process:
            self.process.stdout.close()
        self.log.close()
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)
        return False

    def kill(self):
        """kill -9, as a power cut would."""
        self.process.kill()
        self.process.wait()

    # ---- HTTP

    def request(self, method, path, body=None, headers=None, timeout=60):
        host = urllib.parse.urlsplit(self.url)
        link = http.client.HTTPConnection(host.hostname, host.port, timeout=timeout)
        try:
            send = dict(headers or {})
            if self.token and path.startswith("/api"):
                send["Authorization"] = "Bearer " + self.token
            if body is not None:
                send["Content-Type"] = "application/json"
                body = json.dumps(body)
            link.request(method, path, body, send)
            answer = link.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            link.close()

    def api(self, method, path, body=None, timeout=60):
        status, _, text = self.request(method, "/api/v1" + path, body, timeout=timeout)
        if not 200 <= status < 300:
            raise Problem(method, path, status, text.decode(errors="replace"))
        return json.loads(text) if text.strip() else None

    def setup(self):
        self.token = self.api("POST", "/setup", {"username": USER, "password": PASSWORD})["token"]
        return self

    def login(self):
        self.token = self.api("POST", "/auth/login", {"username": USER, "password": PASSWORD, "device": "test"})["token"]
        return self

    def items(self, **query):
        return self.api("GET", "/items?" + urllib.parse.urlencode({"limit": 500, **query}))["items"]

    def item(self, title):
        return next((row for row in self.items(type="movie") if row["title"] == title), None)

    def settled(self, titles, seconds=120):
        """Waits until every title is there and probed (a duration is known)."""
        def probe():
            rows = {row["title"]: row for row in self.items(type="movie")}
            return all(rows.get(title, {}).get("duration_s") for title in titles) and rows
        return until(seconds, "titles %s are indexed" % titles, probe)

    def play(self, item, **more):
        return self.api("POST", "/items/%s/play" % item, {"client": PROFILE, **more})

    def segments(self, url):
        """Paths of an HLS title's video segments, in order, by way of its master playlist; the init segment is first."""
        status, _, text = self.request("GET", self.path_of(url))
        if status != 200:
            raise Problem("GET", url, status, text.decode(errors="replace"))
        lines = text.decode().splitlines()
        if any(line.startswith("#EXT-X-STREAM-INF") for line in lines):
            inner = next(line for line in lines if line and not line.startswith("#"))
            return self.segments(urllib.parse.urljoin(self.path_of(url), inner))
        found = [line.split('URI="')[1].split('"')[0] for line in lines if line.startswith("#EXT-X-MAP")]
        found += [line for line in lines if line and not line.startswith("#")]
        return [urllib.parse.urljoin(self.path_of(url), line) for line in found]

    def scan_and_wait(self, seconds=120):
        """Asks every library for a scan and waits until no scan runs."""
        for row in self.api("GET", "/libraries")["items"]:
            self.api("POST", "/libraries/%s/scan" % row["id"])
        time.sleep(0.3)  # a request that is accepted need not have begun
        self.idle(seconds)

    def idle(self, seconds=120):
        """Waits until every library's last scan is over, and the pictures that are taken from films behind it: both read."""
        def probe():
            return not any(row["scanning"] or row["taking_pictures"] for row in self.api("GET", "/libraries")["items"])
        until(seconds, "no scan runs and no picture is taken", probe)

    def end(self, session):
        return self.api("DELETE", "/sessions/" + session)

    def io(self, session):
        return self.api("GET", "/sessions/%s/io" % session)

    def path_of(self, url):
        """The path and query of a media URL, absolute or not."""
        parts = urllib.parse.urlsplit(url)
        return parts.path + ("?" + parts.query if parts.query else "")

    def read_paced(self, url, start=0, length=None, bytes_per_s=None):
        """Reads a range through a small receive buffer, so that the pace reaches the server. Gives the byte count."""
        host = urllib.parse.urlsplit(self.url)
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 << 10)
        link.settimeout(60)
        link.connect((host.hostname, host.port))
        try:
            last = "" if length is None else start + length - 1
            link.sendall(("GET %s HTTP/1.1\r\nHost: test\r\nRange: bytes=%d-%s\r\nConnection: close\r\n\r\n" % (self.path_of(url), start, last)).encode())
            head = b""
            while b"\r\n\r\n" not in head:
                got = link.recv(4096)
                if not got:
                    raise AssertionError("no answer head: %r" % head[:200])
                head += got
            status = int(head.split(b" ", 2)[1])
            if status not in (200, 206):
                raise Problem("GET", url, status, head.decode(errors="replace"))
            count, began = len(head.partition(b"\r\n\r\n")[2]), time.monotonic()
            while True:
                got = link.recv(64 << 10)
                if not got:
                    return count
                count += len(got)
                if bytes_per_s:
                    ahead = count / bytes_per_s - (time.monotonic() - began)
                    if ahead > 0:
                        time.sleep(ahead)
        finally:
            link.close()
