#!/usr/bin/env python3
"""The bench behind scripts/bench: every figure beside a program of the same kind, interleaved in the same run.

CPU is the server's whole process tree, from /proc; bytes are what the client counted. Medians of the rounds."""
import argparse
import glob
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import report
import server as servers
from report import check

GIB = 1 << 30
FILE_BYTES = GIB
LOAD = os.path.join(servers.TARGET, "release", "spindle-load")
CACHE = os.path.join(servers.WORK, "bench")
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tree(pid):
    return [pid] + servers.descendants(pid)


def cpu_s(pid):
    """CPU seconds of a tree, with those of its children that have ended. Running processes by their clocks (nanoseconds;
    clock_getcpuclockid(3) makes the number of such a clock), ended ones by /proc (hundredths)."""
    total = 0.0
    for one in tree(pid):
        try:
            fields = open("/proc/%d/stat" % one).read().rpartition(")")[2].split()
            total += time.clock_gettime((~one << 3) | 2)
        except OSError:
            continue
        total += sum(int(value) for value in fields[13:15]) / TICKS
    return total


def memory(pid):
    """(rss, pss) of a tree in bytes."""
    rss = pss = 0
    for one in tree(pid):
        try:
            for line in open("/proc/%d/smaps_rollup" % one):
                if line.startswith("Rss:"):
                    rss += int(line.split()[1]) << 10
                if line.startswith("Pss:"):
                    pss += int(line.split()[1]) << 10
        except OSError:
            pass
    return rss, pss


class Peak:
    """Samples a tree's memory while a block runs."""

    def __init__(self, pid):
        self.pid, self.rss, self.pss, self.stop = pid, 0, 0, threading.Event()

    def _run(self):
        while True:
            rss, pss = memory(self.pid)
            self.rss, self.pss = max(self.rss, rss), max(self.pss, pss)
            if self.stop.wait(0.5):
                return

    def __enter__(self):
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class Plain:
    """nginx or lighttpd on a loopback port, serving one folder."""

    def __init__(self, name, root):
        self.name, self.root, self.port = name, root, free_port()
        self.dir = tempfile.mkdtemp(prefix=name + "-", dir=CACHE)

    def __enter__(self):
        conf = os.path.join(self.dir, "conf")
        if self.name == "nginx":
            text = """daemon off; worker_processes auto; pid %(dir)s/pid; error_log %(dir)s/error.log; %(user)s
events { worker_connections 4096; }
http { access_log off; sendfile on; sendfile_max_chunk 2m; tcp_nopush off; tcp_nodelay on; keepalive_requests 1000000; keepalive_timeout 300s;
 open_file_cache max=100; client_body_temp_path %(dir)s/b; proxy_temp_path %(dir)s/p; fastcgi_temp_path %(dir)s/f; uwsgi_temp_path %(dir)s/u; scgi_temp_path %(dir)s/s;
 types { video/mp4 mp4; } server { listen 127.0.0.1:%(port)d backlog=4096; root %(root)s; } }
"""
            argv = ["nginx", "-c", conf, "-p", self.dir, "-e", self.dir + "/error.log"]
        else:
            text = """server.document-root = "%(root)s"
server.port = %(port)d
server.bind = "127.0.0.1"
server.errorlog = "%(dir)s/error.log"
server.network-backend = "sendfile"
server.max-fds = 8192
server.max-connections = 4096
server.max-keep-alive-requests = 100000
server.listen-backlog = 4096
mimetype.assign = ( ".mp4" => "video/mp4" )
"""
            argv = ["lighttpd", "-D", "-f", conf]
        with open(conf, "w") as out:
            out.write(text % dict(dir=self.dir, root=self.root, port=self.port, user="user root;" if os.geteuid() == 0 else ""))
        program = shutil.which(argv[0], path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        check(program, "%s is not installed" % self.name)
        self.process = subprocess.Popen([program] + argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid

        def up():
            check(self.process.poll() is None, "%s ended: %s" % (self.name, open(self.dir + "/error.log").read()[-300:] if os.path.exists(self.dir + "/error.log") else ""))
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0
        servers.until(10, self.name + " listens", up)
        return self

    def target(self):
        return "127.0.0.1:%d" % self.port, "/Big%20One%20(2020)/Big%20One%20(2020).mp4"

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Ours:
    """Spindle with the same folder as its library; the address is that of a playing session, recorded."""

    def __init__(self, root, flags=(), name="spindle"):
        self.name, self.server = name, servers.Server([("movies", root)], flags)

    def __enter__(self):
        self.server.__enter__()
        self.pid = self.server.pid
        try:
            self.server.setup()
            row = self.server.settled(["Big One"])["Big One"]
            self.played = self.server.play(row["id"])
            check(self.played["method"] == "direct_play", "method %s: %s" % (self.played["method"], self.played["reasons"]))
        except BaseException:
            self.server.__exit__()
            raise
        return self

    def target(self):
        return self.server.url.split("//")[1], self.server.path_of(self.played["url"])

    def __exit__(self, *_):
        self.server.__exit__()


def load(target, mode, *numbers):
    run = subprocess.run([LOAD, *target, mode, *map(str, numbers)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(run.returncode == 0, "%s: %s" % (mode, run.stderr.strip()))
    return json.loads(run.stdout)


def big_file():
    """A film of a gigabyte: a real minute of pictures, then a `free` box of noise, which every reader of MP4 skips."""
    root = os.path.join(CACHE, "files")
    path = os.path.join(root, "Big One (2020)", "Big One (2020).mp4")
    if os.path.exists(path) and os.path.getsize(path) == FILE_BYTES:
        return root, path
    clip = glob.glob(os.path.join(samples("clips"), "Clips", "Direct Hour*", "*.mp4"))[0]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copyfile(clip, path)
    left = FILE_BYTES - os.path.getsize(path)
    with open(path, "ab") as out:
        out.write(left.to_bytes(4, "big") + b"free")
        left -= 8
        while left:
            piece = min(left, 4 << 20)
            out.write(os.urandom(piece))
            left -= piece
    return root, path


def samples(*groups):
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), *groups], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip().splitlines()[-1]


def med(rows, key):
    return statistics.median(row[key] for row in rows)


# For 40 s after a worker has read a file its pages are looked at one by one (storage's ForeignReaders): the state of a film that has
# just been scanned, not of one that plays.
SETTLES = 45

# A sequential reader is done within half a second: several in a row, so that a hundredth more or less does not matter.
PASSES = {"seq": 4}


# The threads that do nothing but record; the rest of it is a note a request and the kernel's tracepoints.
RECORDS = ("io-recorder", "block-trace")


def recording_s(pid):
    """CPU seconds of what does nothing but record: two threads of the server, and its helper. Of a thread the first number of
    its schedstat is nanoseconds on a processor (Documentation/scheduler/sched-stats.rst)."""
    total = 0
    for task in glob.glob("/proc/%d/task/*" % pid):
        if open(task + "/comm").read().strip() in RECORDS:
            total += int(open(task + "/schedstat").read().split()[0])
    for one in servers.descendants(pid):
        if b"storage-helper" in open("/proc/%d/cmdline" % one, "rb").read():
            total += sum(int(open(task).read().split()[0]) for task in glob.glob("/proc/%d/task/*/schedstat" % one))
    return total / 1e9


def measure(one, mode, *numbers, passes=None):
    """One run of the client against one server: rate, CPU a gigabyte, memory."""
    before, records = cpu_s(one.pid), recording_s(one.pid)
    with Peak(one.pid) as peak:
        row = load(one.target(), mode, *numbers)
        for _ in range((passes or PASSES.get(mode, 1)) - 1):
            again = load(one.target(), mode, *numbers)
            row["bytes"] += again["bytes"]
            row["seconds"] += again["seconds"]
            row["mb_s"] = row["bytes"] / row["seconds"] / 1e6
    row["cpu_s"] = cpu_s(one.pid) - before
    row["recording_s"] = recording_s(one.pid) - records
    row["cpu_s_per_gb"] = row["cpu_s"] / max(row["bytes"] / 1e9, 1e-9)
    row["rss_mib"], row["pss_mib"] = peak.rss / 2**20, peak.pss / 2**20
    return row


LOADS = {
    "sequential": ("seq", FILE_BYTES),
    "64 readers, 4 MiB ranges": ("range", FILE_BYTES, 64, 4 << 20, 4 * GIB),
    "1,000 readers at 8 Mbit/s": ("paced", FILE_BYTES, 1000, 1_000_000, 10),
}


def record(options):
    """Recording on against off, on one cached file and on a cold one."""
    root, path = big_file()
    pairs = [Ours(root, (), "recording"), Ours(root, ["--storage-record", "false"], "not recording")]
    table, running = {}, []
    try:
        for one in pairs:
            running.append(one.__enter__())
        for one in running:
            load(one.target(), "seq", FILE_BYTES)
        time.sleep(SETTLES)
        for title, args in {**LOADS, "sequential, from the disk": ("seq", FILE_BYTES)}.items():
            rows = {one.name: [] for one in running}
            is_cold = "disk" in title
            # What is looked for is a hundredth, and short runs differ by ten: the short ones are taken more often.
            for number in range(options.rounds * (1 if args[0] == "paced" else 3)):
                # Whoever is first in a round is not always the same one.
                for one in running if number % 2 else running[::-1]:
                    if is_cold:
                        forget(path)
                    else:
                        read_whole(path)
                    rows[one.name].append(measure(one, *args, passes=1 if is_cold else None))
            table[title] = {name: med(got, "cpu_s_per_gb") for name, got in rows.items()}
            table[title]["ratio"] = statistics.median(a["cpu_s_per_gb"] / b["cpu_s_per_gb"] for a, b in zip(*rows.values()))
            on = rows["recording"]
            table[title]["share"] = sum(row["recording_s"] for row in on) / sum(row["cpu_s"] for row in on)
    finally:
        for one in running:
            one.__exit__()
    print("\nrecording on against off, CPU s/GB (medians of %d rounds; the ratio is the median of the rounds'; share: of the CPU, what the threads\n"
          "and the helper took that do nothing but record, which says more where the rounds differ by more than they are looked at for)" % options.rounds)
    for title, row in table.items():
        print("%-28s on %.4f  off %.4f  ratio %.3f  share %.4f" % (title, row["recording"], row["not recording"], row["ratio"], row["share"]))
    return table


def read_whole(path):
    """Brings a file into the page cache, from which the machine may take what nobody reads for a while."""
    with open(path, "rb", buffering=0) as source:
        while source.read(4 << 20):
            pass


def forget(path):
    """Drops a file from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def silent(options):
    """Memory that clients hold who ask and never read, in either lane."""
    root, _ = big_file()
    out = {}
    for lane, lead in (("fast", b""), ("ordinary", b"\r\n")):
        with Ours(root) as one:
            load(one.target(), "seq", FILE_BYTES)
            address, path = one.target()
            host, port = address.split(":")
            before = memory_of(one.pid)
            held = []
            try:
                for _ in range(500):
                    link = socket.create_connection((host, int(port)))
                    link.sendall(lead + ("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, address)).encode())
                    held.append(link)
                time.sleep(3)
                after = memory_of(one.pid)
            finally:
                for link in held:
                    link.close()
            out[lane] = {"rss_kib_each": (after[0] - before[0]) / 1024 / len(held), "rss_mib": after[0] / 2**20}
    print("\n500 clients that never read: %s" % out)
    return out


def files(options):
    """/media against nginx and lighttpd on one cached file."""
    root, path = big_file()
    makers = [lambda: Plain("nginx", root), lambda: Plain("lighttpd", root)]
    if options.server:
        makers += [lambda: Ours(root), lambda: Ours(root, ["--storage-helper", "off"], "spindle, no helper")]
    table = {}
    running = []
    try:
        for make in makers:
            running.append(make().__enter__())
        for one in running:
            load(one.target(), "check", FILE_BYTES, path)
            load(one.target(), "seq", FILE_BYTES)  # warms the cache for all, and each server's own state
        time.sleep(SETTLES)
        for title, args in LOADS.items():
            rows = {one.name: [] for one in running}
            for _ in range(options.rounds):
                for one in running:
                    rows[one.name].append(measure(one, *args))
            table[title] = {name: {key: round(med(got, key), 4) for key in got[0]} for name, got in rows.items()}
    finally:
        for one in running:
            one.__exit__()
    for title, rows in table.items():
        print("\n%s (medians of %d)" % (title, options.rounds))
        print("%-20s %9s %10s %9s %8s %8s %8s %s" % ("", "MB/s", "CPU s/GB", "x nginx", "RSS MiB", "PSS MiB", "p99 ms", "stalled"))
        base = rows["nginx"]["cpu_s_per_gb"] or float("nan")
        for name, row in rows.items():
            print("%-20s %9.0f %10.3f %9.2f %8.1f %8.1f %8.1f %s" % (
                name, row.get("mb_s", row["bytes"] / row["seconds"] / 1e6), row["cpu_s_per_gb"], row["cpu_s_per_gb"] / base,
                row["rss_mib"], row["pss_mib"], row.get("whole_ms_p99", row.get("start_ms_p99", 0)), row.get("stalled_readers", "")))
    return table


def source_1080():
    """Two minutes of 1080p24 H.264 with AC-3 (to convert) and the same with AAC (to rewrap), in Matroska."""
    root = os.path.join(CACHE, "heavy")
    out = {}
    for title, audio in (("Heavy Convert", ["-c:a", "ac3", "-b:a", "384k"]), ("Heavy Rewrap", ["-c:a", "aac", "-b:a", "128k"])):
        path = os.path.join(root, title + " (2020)", title + " (2020).mkv")
        out[title] = path
        if os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        first = out["Heavy Convert"]
        video = ["-i", first] if title == "Heavy Rewrap" else ["-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=24,noise=alls=12:allf=t"]
        code = ["-c:v", "copy"] if title == "Heavy Rewrap" else ["-c:v", "libx264", "-preset", "ultrafast", "-b:v", "8M", "-maxrate", "10M", "-bufsize", "8M", "-g", "48", "-pix_fmt", "yuv420p"]
        scratch = path + ".part.mkv"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *video, "-f", "lavfi", "-i", "sine=f=440:r=48000", "-t", "60", "-map", "0:v", "-map", "1:a", *code, *audio, scratch], check=True)
        os.rename(scratch, path)
    return root, out


LONG = {"Heavy Convert": 4, "Heavy Rewrap": 10}


def source_long():
    """The same in minutes: what a start costs is little there."""
    _, short = source_1080()
    root = os.path.join(CACHE, "long")
    out = {}
    for title, minutes in LONG.items():
        name = title.replace("Heavy", "Long")
        path = out[name] = os.path.join(root, name + " (2020)", name + " (2020).mkv")
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            scratch = path + ".part.mkv"
            subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-stream_loop", str(minutes - 1), "-i", short[title], "-c", "copy", scratch], check=True)
            os.rename(scratch, path)
    return root, out


ENCODE = ["-vf", "scale=1280:720", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "3M", "-maxrate", "3M", "-bufsize", "6M", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2", "-b:a", "128k"]
COPY = ["-c", "copy"]


def ffmpeg_run(path, how, seconds=None):
    """The ffmpeg program making HLS; gives wall and CPU seconds."""
    with tempfile.TemporaryDirectory(dir=CACHE) as out:
        limit = ["-t", str(seconds)] if seconds else []
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *limit, "-i", path, *how, "-f", "hls", "-hls_time", "6", "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4", out + "/x.m3u8"], check=True)
        took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start(options):
    """/play to the first complete segment, against the ffmpeg program making its first of six seconds."""
    root, paths = source_1080()
    kinds = (("Heavy Rewrap", COPY, {}), ("Heavy Convert", ENCODE, {"max_bitrate": 3_000_000}))
    ours, theirs, methods = {title: [] for title, *_ in kinds}, {title: [] for title, *_ in kinds}, {}
    for _ in range(options.rounds):
        # A fresh server each time: workers run ahead of their viewer, and what they made would come from the cache.
        with servers.Server([("movies", root)]) as server:
            server.setup()
            rows = server.settled(list(paths))
            server.idle()
            for title, how, more in kinds:
                began = time.monotonic()
                played = server.play(rows[title]["id"], **more)
                parts = server.segments(played["url"])
                status, _, body = server.request("GET", parts[1])
                check(status == 200 and body, "segment: %d" % status)
                ours[title].append(time.monotonic() - began)
                methods[title] = played["method"]
                server.end(played["session"])
        for title, how, _ in kinds:
            theirs[title].append(ffmpeg_run(paths[title], how, 6.0)[0])
    out = {title: {"method": methods[title], "first_segment_s": statistics.median(ours[title]), "ffmpeg_s": statistics.median(theirs[title])} for title, *_ in kinds}
    print("\n/play to first segment")
    for title, row in out.items():
        print("%-14s %-14s ours %.3f s   ffmpeg program %.3f s   ratio %.2f" % (title, row["method"], row["first_segment_s"], row["ffmpeg_s"], row["first_segment_s"] / row["ffmpeg_s"]))
    return out


def speed(options):
    """The whole title by segments, against the ffmpeg program on the whole title."""
    out = {}
    for (root, paths), title, how, more in (
        (source_1080(), "Heavy Rewrap", COPY, {}), (source_long(), "Long Rewrap", COPY, {}),
        (source_1080(), "Heavy Convert", ENCODE, {"max_bitrate": 3_000_000}), (source_long(), "Long Convert", ENCODE, {"max_bitrate": 3_000_000}),
    ):
        if options.title and options.title not in title:
            continue
        ours, theirs = [], []
        for _ in range(max(1, options.rounds - 1)):
            with servers.Server([("movies", root)]) as server:  # a fresh one: nothing is cached
                server.setup()
                row = server.settled(list(paths))[title]
                read_whole(paths[title])  # whoever is first would bring it in for the other
                before, began = cpu_s(server.pid), time.monotonic()
                played = server.play(row["id"], **more)
                count = 0
                for part in server.segments(played["url"]):
                    status, _, body = server.request("GET", part)
                    check(status == 200, "%s: %d" % (part, status))
                    count += len(body)
                ours.append((time.monotonic() - began, cpu_s(server.pid) - before))
            read_whole(paths[title])
            theirs.append(ffmpeg_run(paths[title], how))
        a, b = (statistics.median(x[0] for x in ours), statistics.median(x[1] for x in ours)), (statistics.median(x[0] for x in theirs), statistics.median(x[1] for x in theirs))
        out[title] = {"wall_s": a[0], "cpu_s": a[1], "ffmpeg_wall_s": b[0], "ffmpeg_cpu_s": b[1], "speed_ratio": b[0] / a[0]}
    print("\nspeed of whole titles (1080p; Heavy: 60 s, Long: %d min to convert, %d to rewrap)" % tuple(LONG.values()))
    for title, row in out.items():
        print("%-14s ours %.2f s wall, %.2f s CPU   ffmpeg %.2f s, %.2f s   speed ratio %.2f" % (title, row["wall_s"], row["cpu_s"], row["ffmpeg_wall_s"], row["ffmpeg_cpu_s"], row["speed_ratio"]))
    return out


def scan(options):
    """1,000 files, against one ffprobe a file (a tenth of them, times ten)."""
    root = os.path.join(CACHE, "thousand")
    if len(glob.glob(root + "/*/*.mkv")) + len(glob.glob(root + "/*/*.mp4")) != 1000:
        shutil.rmtree(root, ignore_errors=True)
        for suffix in ("mkv", "mp4"):
            subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=4", "-f", "lavfi", "-i", "sine=d=4", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-t", "4", os.path.join(CACHE, "small." + suffix)], check=True)
        for number in range(1000):
            suffix = "mkv" if number % 2 else "mp4"
            folder = os.path.join(root, "Film Number %04d (%d)" % (number, 1950 + number % 70))
            os.makedirs(folder)
            shutil.copyfile(os.path.join(CACHE, "small." + suffix), os.path.join(folder, os.path.basename(folder) + "." + suffix))
    every = sorted(glob.glob(root + "/*/*.m*"))
    ours = []
    for _ in range(options.rounds if options.server else 0):
        with tempfile.TemporaryDirectory(dir=CACHE) as data:
            began = time.monotonic()
            run = subprocess.run([servers.PROGRAM, "scan", "--json", "--data-dir", data, "--library", "movies=" + root], stdout=subprocess.PIPE, text=True, check=True)
            row = json.loads(run.stdout.splitlines()[-1])
            check(row["files"] == 1000 and row["failed"] == 0, str(row))
            ours.append(time.monotonic() - began)
    began = time.monotonic()
    for path in every[::10]:
        subprocess.run(["ffprobe", "-v", "error", "-show_format", "-show_streams", "-of", "json", path], stdout=subprocess.DEVNULL, check=True)
    theirs = (time.monotonic() - began) * 10
    out = {"ffprobe_files_per_s": 1000 / theirs}
    if ours:
        out.update(files_per_s=1000 / statistics.median(ours), ratio=theirs / statistics.median(ours))
    print("\nscan of 1,000 files: " + ", ".join("%s %.1f" % pair for pair in out.items()))
    return out


def idle(options):
    """Memory of a server that does nothing, with a library of 1,000 files if the scan's is there."""
    root = os.path.join(CACHE, "thousand")
    if not os.path.isdir(root):
        root, _ = big_file()
    with servers.Server([("movies", root)]) as server:
        server.setup()
        server.idle()
        servers.until(120, "every item is probed", lambda: all(row.get("duration_s") for row in server.items()))
        # Idle is when nobody has looked at anything for a while: the workers, pictures made and all, have ended by then.
        servers.until(180, "the workers have ended", lambda: not any(servers.program_of(pid) == "spindle-transcode" for pid in tree(server.pid)))
        before = cpu_s(server.pid)
        time.sleep(10)
        rows = [(servers.program_of(pid), *[round(x / 2**20, 1) for x in memory_of(pid)]) for pid in tree(server.pid)]
        out = {"rss_mib": memory(server.pid)[0] / 2**20, "pss_mib": memory(server.pid)[1] / 2**20, "server_rss_mib": rows[0][1], "idle_cpu_share": (cpu_s(server.pid) - before) / 10, "processes": rows}
    print("\nidle: %s" % out)
    return out


def memory_of(pid):
    values = dict(rss=0, pss=0)
    for line in open("/proc/%d/smaps_rollup" % pid):
        if line.startswith(("Rss:", "Pss:")):
            values[line[:3].lower()] = int(line.split()[1]) << 10
    return values["rss"], values["pss"]


def overhead(options):
    import overhead as of_the_record
    return of_the_record.overhead(options)


def mapping(options):
    import mapping as of_files
    return of_files.mapping(options)


def fio(_options):
    """`spindle bench corners` and `bench blocks` beside fio with the same patterns, in turns: on a loop device, and on the model of a
    rotating disk."""
    env = {**os.environ, "RIG_ALL": "1", "RIG_CASE": "fio_on_a", "RIG_PROGRAM": servers.PROGRAM}
    return {"status": subprocess.run([sys.executable, os.path.join(HERE, "../e2e/run.py")], env=env, stdin=subprocess.DEVNULL).returncode}


def net(_options):
    """`spindle bench net` beside iperf3 over a loopback of known rate, in a network namespace."""
    env = {**os.environ, "RIG_ALL": "1", "RIG_CASE": "net_over_a_line", "RIG_PROGRAM": servers.PROGRAM}
    return {"status": subprocess.run([sys.executable, os.path.join(HERE, "../e2e/run.py")], env=env, stdin=subprocess.DEVNULL).returncode}


def decide(options):
    """Decisions a second on one core: every sample on every built-in client, the best of several passes; 100,000 is what a library's page may ask for."""
    rows = []
    for _ in range(options.rounds):
        run = subprocess.run(["cargo", "run", "--release", "--quiet", "-p", "spindle-playback", "--example", "decisions", "--", "bench"],
                             cwd=servers.TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(run.stdout)["decisions_per_second"])
    out = {"decisions_per_second": statistics.median(rows), "share_of_100000": statistics.median(rows) / 100_000}
    print("\ndecide: %.0f decisions a second" % out["decisions_per_second"])
    return out


ALL = {"decide": decide, "files": files, "record": record, "silent": silent, "start": start, "speed": speed, "scan": scan, "idle": idle, "overhead": overhead, "mapping": mapping, "fio": fio, "net": net}
WITHOUT = {"decide", "files", "scan"}


def take_precedence():
    """Goes on as a session of its own with a high group weight: niceness counts only between processes of one session."""
    child = os.fork()
    if child:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda got, _frame: os.kill(child, got))
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    os.setsid()
    with open("/proc/self/autogroup", "w") as weight:
        weight.write("-18")


def run():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *ALL])
    parser.add_argument("--without-server", dest="server", action="store_false")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--title", help="of speed: only titles that hold this text")
    parser.add_argument("--first", action="store_true", help="take precedence over the machine's other work (root); for a machine that is not idle")
    options = parser.parse_args()
    if options.first:
        take_precedence()
    os.makedirs(CACHE, exist_ok=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
    result = {"machine": {"cpus": os.cpu_count(), "load_before": os.getloadavg(), "kernel": os.uname().release}}
    for name, function in ALL.items():
        if (not options.names or name in options.names) and (options.server or name in WITHOUT):
            result[name] = function(options)
    result["machine"]["load_after"] = os.getloadavg()
    print("\n" + json.dumps(result))
    return 0


if __name__ == "__main__":
    report.main(run)
