#!/usr/bin/env python3
"""Bad input and faults: bad starts, damaged files, workers that die or hang, a mount that goes, a server that is killed."""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import bench_faults
import disks_faults
import pool as pools
import report
import server as servers
import terminal
from report import check

AT_ONCE = 3  # nearly all of these cases wait
ANSWER_S = 15  # a worker that crashes or hangs must be an answer within this


def samples(*groups):
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), *groups], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip().splitlines()[-1]


def snapshot(folder):
    """Every file below a folder with a hash of its bytes."""
    found = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            found[os.path.relpath(path, folder)] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return found


def refused_start(arguments, mentions, status=None):
    """Runs `spindle serve` with arguments it must refuse: one clear line that names the trouble, and a non-zero exit."""
    run = subprocess.run([servers.PROGRAM, "serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    lines = [line for line in run.stderr.splitlines() if line.strip()]
    check(run.returncode not in (0, 101) and run.returncode > 0, "exit status %d" % run.returncode)
    check(status is None or run.returncode == status, "exit status %d, wanted %s" % (run.returncode, status))
    check(len(lines) == 1, "%d lines: %s" % (len(lines), run.stderr))
    check(mentions in lines[0], "the line does not name %r: %s" % (mentions, lines[0]))
    check(not run.stdout.strip(), "standard output: %s" % run.stdout)


def bad_starts(stage, scratch):
    films = os.path.join(scratch, "films")
    os.makedirs(films, exist_ok=True)
    data = os.path.join(scratch, "never")
    with stage.case("an_unknown_flag_is_one_line_and_status_2"):
        refused_start(["--data-dir", data, "--bogus"], "--bogus", 2)
        check(not os.path.exists(data), "the data directory was made")
    with stage.case("a_missing_directory_is_one_line_and_nothing_is_made"):
        refused_start(["--data-dir", data, "--listen", "127.0.0.1:0", "--library", "movies=" + scratch + "/nowhere"], scratch + "/nowhere")
        check(not os.path.exists(data), "the data directory was made")
    with stage.case("an_unknown_library_kind_is_one_line_and_status_2"):
        refused_start(["--data-dir", data, "--library", "vinyl=" + films], "vinyl", 2)
        check(not os.path.exists(data), "the data directory was made")
    with stage.case("a_busy_port_is_one_line_and_nothing_is_made"):
        with socket.socket() as busy:
            busy.bind(("127.0.0.1", 0))
            busy.listen()
            address = "127.0.0.1:%d" % busy.getsockname()[1]
            refused_start(["--data-dir", data, "--listen", address, "--library", "movies=" + films], address)
        check(not os.path.exists(data), "the data directory was made: %s" % (os.listdir(data) if os.path.exists(data) else ""))
    with stage.case("a_database_from_a_newer_version_is_one_line_and_keeps_every_byte"):
        newer = os.path.join(scratch, "newer")
        os.makedirs(newer)
        with servers.Server([("movies", films)], data=newer) as server:
            server.setup()
        database = os.path.join(newer, "library.db")
        link = sqlite3.connect(database)
        link.execute("PRAGMA user_version = 9999")
        link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        link.close()
        before = snapshot(newer)
        refused_start(["--data-dir", newer, "--listen", "127.0.0.1:0", "--library", "movies=" + films], "newer")
        check(snapshot(newer) == before, "changed: %s" % sorted(set(snapshot(newer).items()) ^ set(before.items())))


def simulated(*arguments):
    """Runs `spindle simulate`; gives its exit status, what it printed and its complaint."""
    run = subprocess.run([servers.PROGRAM, "simulate", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    return run.returncode, run.stdout, run.stderr


def what_if(stage, scratch):
    """Layouts that are not understood or cannot be, and records that are none, old, empty or huge."""
    def record(name, body):
        path = os.path.join(scratch, name + ".json")
        with open(path, "w") as out:
            out.write(body if isinstance(body, str) else json.dumps(body))
        return path

    def refused(status, mentions, *arguments):
        code, out, err = simulated(*arguments)
        check(code == status and not out, "exit status %d, wanted %d: %s%s" % (code, status, out, err))
        check(len(err.strip().splitlines()) == 1 and mentions in err, "not one line that names %r: %s" % (mentions, err))
    rows = [{"at_ms": number * 500, "offset": number << 21, "length_bytes": 1 << 21} for number in range(20)]
    good = record("good", {"file": "Film.mp4", "requests": rows})
    with stage.case("a_layout_that_is_not_understood_is_one_line_with_the_right_form_and_status_2"):
        refused(2, "mirror,disks=4,columns=2", "--layout", "mirrored,disks=4", good)
        refused(2, "`disks=N` is missing", "--layout", "mirror", good)
    with stage.case("a_layout_that_cannot_be_is_one_line_and_status_2"):
        refused(2, "2 columns of 2 copies need at least 4 disks", "--layout", "mirror,disks=3,columns=2", good)
        refused(2, "neither one of hdd7200", "--layout", "single", "--disk", "floppy", good)
    with stage.case("a_session_without_a_record_is_one_line_and_status_1"):
        refused(1, "there is no Spindle data", "--layout", "single", "--data-dir", os.path.join(scratch, "no-such-folder"), "0123456789abcdef")
        refused(1, "neither `requests` nor a `series`", "--layout", "single", record("none", {"items": []}))
        refused(1, "is no I/O record", "--layout", "single", record("text", "not JSON"))
        empty = {"attribution": "none", "why": "recording was off", "series": {"interval_ms": 1000, "t_s": [0.0], "disks": {}}}
        refused(1, "recording was off", "--layout", "single", record("empty", empty))
        refused(1, "unable to read the record", "--layout", "single", os.path.join(scratch, "nowhere.json"))
    with stage.case("a_record_of_an_earlier_version_is_replayed_and_said_to_be_approximate"):
        old = {"disks": [{"disk": "sda", "reads": 8, "read_bytes": 8 << 20, "mean_request_bytes": 1 << 20}],
               "series": {"interval_ms": 1000, "t_s": [0.0, 1.0], "disks": {"sda": {"read_bytes": [4 << 20, 4 << 20], "reads": [4, 4]}}}}
        code, out, err = simulated("--layout", "md-raid1,disks=2", "--most", "0", "--json", record("old", old))
        check(code == 0, err)
        told = json.loads(out)
        check("earlier version" in told["sessions"][0]["approximate"], told["sessions"])
        check(sum(disk["read_bytes"] for disk in told["disks"]) == 8 << 20, told["disks"])
    with stage.case("a_record_with_more_than_can_be_is_refused_at_once"):
        refused(1, "cannot be", "--layout", "single", record("far", {"requests": [{"at_ms": 0, "offset": 1 << 62, "length_bytes": 1}]}))
        refused(1, "requests of", "--layout", "single", record("huge", {"requests": [{"at_ms": 0, "offset": 0, "length_bytes": 1 << 50}]}))
    with stage.case("two_layouts_are_two_lines_of_json_and_the_same_twice"):
        told = [simulated("--layout", "mirror,disks=3,columns=1", "--layout", "parity,disks=4", "--interleave", "1M", "--json", good)[1] for _ in range(2)]
        check(told[0] == told[1], "two runs differ: %s" % told)
        one, two = [json.loads(line) for line in told[0].splitlines()]
        check([disk["read_bytes"] for disk in one["disks"]].count(0) == 2, "one column, one viewer: %s" % one["disks"])
        check(two["layout"]["name"] == "parity,disks=4,interleave=1M" and two["fit"]["streams"] > 1, told[0])


def broken_files(stage):
    """The samples of the group `broken`: listed as unreadable with a reason, nothing they name is opened or called."""
    if not stage.wants("broken_files"):
        return
    root = samples("broken")
    manifest = json.load(open(os.path.join(root, "manifest.json")))["files"]
    films = {f["path"]: f["expect"].get("readable") for f in manifest if re.search(r"\.(mp4|mkv|avi|ts)$", f["path"])}
    log = os.path.join(servers.WORK, "strace.log")
    tracer = ["strace", "-f", "-qq", "-s", "300", "-e", "trace=openat,open,openat2,connect,execve", "-o", log]
    with stage.case("broken_files_are_listed_as_unreadable_and_the_server_goes_on"):
        with servers.Server([("movies", os.path.join(root, "Broken"))], wrap=tracer) as server:
            server.setup()
            server.settle = servers.until(180, "the broken files are examined", lambda: examined(server, films))
            library = server.api("GET", "/libraries")["items"][0]["id"]
            rows = server.api("GET", "/libraries/%s/unreadable?limit=1000" % library)["items"]
            listed = {os.path.basename(row.get("path") or row.get("name") or row.get("file")): row for row in rows}
            for path, readable in films.items():
                name = os.path.basename(path)
                if readable == "no":
                    check(name in listed, "%s is not listed as unreadable (listed: %s)" % (name, sorted(listed)))
                    check(listed[name].get("reason") or listed[name].get("unreadable"), "%s has no reason: %s" % (name, listed[name]))
                if readable == "yes":
                    check(name not in listed or name == "movie.mp4", "%s is listed: %s" % (name, listed.get(name)))
            status, _, _ = server.request("GET", "/health")
            check(status == 200, "health says %d" % status)
    with stage.case("broken_files_lead_to_no_other_file_and_no_address"):
        opened = open(log, errors="replace").read()
        check("openat" in opened, "strace saw nothing")
        check("/etc/hostname" not in opened, [l for l in opened.splitlines() if "/etc/hostname" in l][:2])
        dialled = [line for line in opened.splitlines() if "connect(" in line and "AF_INET" in line]
        check(not dialled, "connections: %s" % dialled[:3])
        workers = set(re.findall(r"^(\d+) +execve\(\"[^\"]*spindle-transcode\"", opened, re.M))
        check(workers, "no worker was seen; programs: %s" % set(re.findall(r'execve\("([^"]+)"', opened)))
        programs = set(re.findall(r'execve\("([^"]+)"', opened))
        check(all(os.path.basename(p) in ("spindle", "spindle-transcode") for p in programs), "programs: %s" % programs)
        media = [l for l in opened.splitlines() if l.split(None, 1)[0] in workers and root in l]
        check(not media, "a worker opened a path of the library by itself: %s" % media[:2])


def examined(server, films):
    """Every film file is either probed or listed as unreadable."""
    library = server.api("GET", "/libraries")["items"][0]["id"]
    bad = server.api("GET", "/libraries/%s/unreadable?limit=1000" % library)["total"]
    want = sum(1 for readable in films.values() if readable == "no")
    waiting = [row for row in server.items() if row["type"] == "movie" for version in server.api("GET", "/items/" + row["id"])["versions"]
               if not version.get("probed") and not version.get("unreadable")]
    return bad >= want and not waiting


def film_library(scratch, clip="Convert Me (2019)"):
    films = os.path.join(scratch, "one")
    if not os.path.isdir(films):
        shutil.copytree(os.path.join(samples("clips"), "Clips", clip), os.path.join(films, clip))
    return films


def timed(server, path, limit):
    began = time.monotonic()
    status, headers, body = server.request("GET", path, timeout=limit + 5)
    return status, time.monotonic() - began, headers, body


def workers(stage, scratch):
    """A worker that dies, and one that hangs: a clean answer in time, and the next request works."""
    for name, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        title = "a_worker_that_is_%s_is_a_clean_answer_and_the_next_request_works" % name
        if not stage.wants(title):
            continue
        with stage.case(title):
            with servers.Server([("movies", film_library(scratch))]) as server:
                server.setup()
                row = server.settled(["Convert Me"])["Convert Me"]
                played = server.play(row["id"])
                check(played["method"] == "transcode" and played["protocol"] == "hls", "plays by %s over %s" % (played["method"], played["protocol"]))
                parts = server.segments(played["url"])
                check(len(parts) > 6, "playlist: %s" % parts)
                status, _, _, body = timed(server, parts[1], 60)
                check(status == 200 and len(body) > 1000, "first segment: %d" % status)
                hit = server.workers()
                check(hit, "no worker runs")
                try:
                    # Requests for a place that nothing has made yet, while the worker is taken away.
                    answers = []
                    asking = threading.Thread(target=lambda: answers.append(timed(server, parts[len(parts) - 3], ANSWER_S + 5)))
                    for pid in hit:
                        os.kill(pid, number)
                    asking.start()
                    asking.join(ANSWER_S + 10)
                    check(answers, "no answer within %d s" % (ANSWER_S + 10))
                    status, took, headers, body = answers[0]
                    check(took <= ANSWER_S, "%d after %.1f s" % (status, took))
                    if status != 200:
                        check(status >= 500 and headers.get("content-type", headers.get("Content-Type", "")).startswith("application/problem+json"), "%d %s" % (status, headers))
                    status, took, _, body = timed(server, parts[len(parts) - 2], 60)
                    check(status == 200 and len(body) > 1000, "the next request: %d after %.1f s: %s" % (status, took, body[:200]))
                finally:
                    for pid in hit:
                        if servers.program_of(pid).startswith("spindle-transcode"):
                            os.kill(pid, signal.SIGKILL)
                check(server.request("GET", "/health")[0] == 200, "health")
    title = "workers_end_when_nobody_needs_them"
    if stage.wants(title):
        with stage.case(title):
            with servers.Server([("movies", film_library(scratch))]) as server:
                server.setup()
                row = server.settled(["Convert Me"])["Convert Me"]
                idle = set(server.workers())
                played = server.play(row["id"])
                check(timed(server, server.segments(played["url"])[1], 60)[0] == 200, "first segment")
                server.end(played["session"])
                # Idle ones that wait for the next job may stay: as many as before, using no processor.
                servers.until(10, "the worker's job ends", lambda: busy(server.workers()) == [] or set(server.workers()) <= idle)


def busy(pids):
    """Processes that used the processor in the last second."""
    def ticks(pid):
        try:
            return sum(int(x) for x in open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[11:13])
        except OSError:
            return 0
    first = {pid: ticks(pid) for pid in pids}
    time.sleep(1)
    return [pid for pid in pids if ticks(pid) > first[pid] + 2]


def vanished(stage, scratch):
    def look(server):
        return {row["title"]: row for row in server.items(type="movie")}

    def goes_and_comes(server, take, give):
        row = server.settled(["Direct Hour"])["Direct Hour"]
        check(row["available"], "available at first")
        server.api("PUT", "/items/%s/state" % row["id"], {"position_s": 12.5})
        take()
        server.scan_and_wait()
        gone = look(server)
        check("Direct Hour" in gone, "the item is gone with its mount: %s" % list(gone))
        check(gone["Direct Hour"]["available"] is False, "still marked available")
        try:
            server.play(row["id"])
            raise AssertionError("an unavailable item could be played")
        except servers.Problem as problem:
            check(400 <= problem.status < 600 and problem.status != 500, "status %d: %s" % (problem.status, problem.body[:200]))
        give()
        server.scan_and_wait()
        back = servers.until(30, "the item is back", lambda: look(server).get("Direct Hour", {}).get("available") and look(server)["Direct Hour"])
        check(back["id"] == row["id"] and abs(back["state"]["position_s"] - 12.5) < 0.01, "came back as %s" % back)

    clip = os.path.join(samples("clips"), "Clips", "Direct Hour (2020)") if stage.wants("vanished") else None
    if stage.wants("a_vanished_mount_leaves_items_unavailable_and_they_come_back"):
        with stage.case("a_vanished_mount_leaves_items_unavailable_and_they_come_back"):
            if pools.why_not():
                raise report.Skip(pools.why_not())
            with pools.Pool("ext4", size_mib=128) as pool:
                shutil.copytree(clip, os.path.join(pool.mount, "Direct Hour (2020)"))
                with servers.Server([("movies", pool.mount)]) as server:
                    server.setup()
                    goes_and_comes(server, lambda: pools.sh("umount", "-l", pool.mount), pool._mount)
    if stage.wants("a_renamed_vanished_root_leaves_items_unavailable_and_they_come_back"):
        with stage.case("a_renamed_vanished_root_leaves_items_unavailable_and_they_come_back"):
            films = os.path.join(scratch, "root")
            shutil.copytree(clip, os.path.join(films, "Direct Hour (2020)"))
            with servers.Server([("movies", films)]) as server:
                server.setup()
                goes_and_comes(server, lambda: os.rename(films, films + ".away"), lambda: os.rename(films + ".away", films))


def killed(stage, scratch):
    title = "kill_9_loses_no_acknowledged_watch_state_and_leaves_no_worker"
    if not stage.wants(title):
        return
    with stage.case(title):
        data = os.path.join(scratch, "killed")
        os.makedirs(data)
        films = film_library(scratch)
        last = None
        for round_ in range(5):
            server = servers.Server([("movies", films)], data=data)
            server.__enter__()
            try:
                if round_ == 0:
                    server.setup()
                else:
                    server.login()
                row = server.settled(["Convert Me"])["Convert Me"]
                if last is not None:
                    check(abs(row["state"]["position_s"] - last) < 0.001, "round %d: acknowledged %.3f, found %s" % (round_, last, row["state"]))
                played = server.play(row["id"])
                check(timed(server, server.segments(played["url"])[1], 60)[0] == 200, "first segment")
                # Acknowledged ever faster, and killed at a moment that differs by round.
                for step in range(1 + 7 * round_):
                    last = 10 + round_ + step / 100
                    server.api("PUT", "/items/%s/state" % row["id"], {"position_s": last})
                family = servers.descendants(server.pid)
            finally:
                server.kill()
            servers.until(10, "no process outlives a killed server", lambda: not [p for p in family if servers.program_of(p).startswith("spindle")])
            server.log.close()
            server.process.stdout.close()
        with servers.Server([("movies", films)], data=data) as server:
            server.login()
            row = server.settled(["Convert Me"])["Convert Me"]
            check(abs(row["state"]["position_s"] - last) < 0.001, "at the end: %s, acknowledged %.3f" % (row["state"], last))
        check(sqlite3.connect(os.path.join(data, "library.db")).execute("PRAGMA integrity_check").fetchone()[0] == "ok", "the database is damaged")


def run():
    stage = report.Stage("faults", sys.argv[1] if len(sys.argv) > 1 else None)
    os.makedirs(os.path.join(servers.WORK, "runs"), exist_ok=True)
    scratch = tempfile.mkdtemp(prefix="faults-", dir=os.path.join(servers.WORK, "runs"))

    def server_alone(stage):
        bad_starts(stage, scratch)
        what_if(stage, scratch)
        broken_files(stage)
        vanished(stage, scratch)
        killed(stage, scratch)
    groups = {
        "server": server_alone,
        "workers": lambda stage: workers(stage, scratch),
        **disks_faults.groups(lambda: samples("clips")),
        "terminal": lambda stage: terminal.run(stage, scratch, lambda: samples("clips")),
        "bench": bench_faults.run,
    }
    try:
        report.beside(stage, os.path.abspath(__file__), groups, AT_ONCE)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return stage.finish()


if __name__ == "__main__":
    report.main(run)
