"""`spindle bench stream`, against disks that keep a log of their own.

Every scenario on a btrfs raid1 and a raid10 behind the rotating-disk model (tests/lab/disks): what the record tells of each disk, and what the
page draws of it, is held against the model's log of the same seconds, within 2 %. Then what can go wrong: no film, a film that is no film,
Ctrl-C, kill -9, no privilege, a server on the same data folder."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import browser as browsers
import layout
import pool as pools
import report
import server as servers
from report import check

SCENARIOS = ("single", "skip-around", "one-file-three-clients", "three-files-one-transcode")
SECONDS = 6
TOLERANCE = 0.02
# Below this a percentage of a disk says nothing: inline data, the last page of a file.
FLOOR_BYTES = 64 << 10
NOBODY = 65534


def bench(data, *arguments, uid=None, check_status=0):
    """Runs `spindle bench`; gives its standard output and error."""
    argv = command(data, arguments, uid)
    run = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, env=environment())
    check(run.returncode == check_status, "%s: status %d: %s%s" % (" ".join(arguments), run.returncode, run.stderr[-600:], run.stdout[-300:]))
    return run.stdout, run.stderr


def command(data, arguments, uid=None):
    drop = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--inh-caps=-all", "--no-new-privs"] if uid else []
    return drop + [servers.program_for(uid), "bench", "--data-dir", data, *arguments]


def environment():
    return {key: value for key, value in os.environ.items() if not key.startswith("SPINDLE_")}


def records(data):
    """Every record, the oldest first."""
    out, _ = bench(data, "list", "--json")
    return [json.loads(bench(data, "show", row["id"], "--json")[0]) for row in reversed(json.loads(out))]


def fill(pool, source, long=False):
    """Three films of different bytes, one after the other; the first is the largest, and long enough for four jumps far apart."""
    clip = next(os.path.join(base, name) for base, _, names in os.walk(source) for name in names if name.startswith("Direct Hour"))
    paths = []
    for number, name in enumerate(("Alpha", "Beta", "Gamma")):
        path = os.path.join(pool.mount, "%s.mp4" % name)
        if number == 0 and long:
            pools.sh("ffmpeg", "-v", "error", "-stream_loop", "4", "-i", clip, "-c", "copy", "-y", path)
        else:
            shutil.copyfile(clip, path)
        with open(path, "ab") as out:
            out.write(bytes([0, 0, 0, 8]) + b"free" * (3 - number) + b"\0" * 4)
        pool.flush()
        paths.append(path)
    return paths


class Log:
    """What the disks of a pool served in a run, by the model's log: all of it, and what of it was films'."""

    def __init__(self, pool, paths, record):
        owner = layout.Owner(pool, paths)
        began, ended = record["clock"]["began_us"], record["clock"]["ended_us"]
        self.all, self.films = {}, {}
        for disk in pool.disks:
            # The kernel counts a request when it is complete: what was under way when the last viewer left is in neither.
            rows = [row for row in pool.model.rows(pool.name_in_model(disk))
                    if row["op"] == "read" and began <= row["time_us"] and row["time_us"] + row["service_us"] <= ended]
            self.all[disk] = sum(row["len_bytes"] for row in rows)
            self.films[disk] = sum(row["len_bytes"] for row in rows if owner.of(disk, row["offset"]))


def alike(said, true, what):
    check(sum(true.values()) > 1 << 20, "%s: the model saw too little to compare: %s" % (what, true))
    worst = 0.0
    for disk in sorted(set(said) | set(true)):
        off = abs(said.get(disk, 0) - true.get(disk, 0))
        check(off <= max(TOLERANCE * true.get(disk, 0), FLOOR_BYTES), "%s: disk %s: told %s, the model's log has %s" % (what, disk, said, true))
        worst = max(worst, off / max(true.get(disk, 0), 1) if off > FLOOR_BYTES else 0.0)
    return worst


def is_whole(record, scenario):
    check(record["scenario"] == scenario and record["pace"] == "paced", "%s: it is %s, %s" % (scenario, record["scenario"], record["pace"]))
    check(not record.get("interrupted"), "%s: %s" % (scenario, record.get("interrupted")))
    check(record["verdict"].startswith(scenario + ": "), record["verdict"])
    wanted = {"single": 1, "skip-around": 1}.get(scenario, 3)
    check(len(record["streams"]) == wanted, "%s: %d streams" % (scenario, len(record["streams"])))
    for stream in record["streams"]:
        check(stream.get("record"), "%s: stream %d has no record: %s" % (scenario, stream["stream"], stream.get("no_record")))
        check(stream["record"]["attribution"] == "block_trace", "%s: attribution %s: %s" % (scenario, stream["record"]["attribution"], stream["record"].get("why")))
        asked = stream["record"].get("requests", [])
        check(asked and asked == sorted(asked, key=lambda row: row["at_ms"]), "%s: stream %d keeps no requests, or out of order" % (scenario, stream["stream"]))
        served = sum(row["length_bytes"] for row in asked)
        read = stream["record"]["read_bytes"]
        check(abs(served - read) <= max(TOLERANCE * read, 256 << 10), "%s: stream %d: %d bytes in its requests, %d read" % (scenario, stream["stream"], served, read))
        method = "transcode" if stream["way"] == "converted" else "direct_play"
        check(stream["method"] == method and stream["received_bytes"] > 0, "%s: stream %d: %s, %d bytes" % (scenario, stream["stream"], stream["method"], stream["received_bytes"]))
    if scenario == "skip-around":
        jumps = [step for step in record["streams"][0]["steps"] if "jump" in step["action"]]
        check(len(jumps) == 4 and len(record["streams"][0]["record"]["seeks"]) == 4,
              "four jumps: %d planned, the recorder saw %d" % (len(jumps), len(record["streams"][0]["record"]["seeks"])))


def what_if(record):
    """The streams once more on another layout: what this server recorded is enough, and no byte of it is lost or added."""
    with tempfile.TemporaryDirectory(dir=servers.Server._runs()) as folder:
        paths, wanted = [], []
        for stream in record["streams"]:
            paths.append(os.path.join(folder, "stream%d.json" % stream["stream"]))
            wanted.append(sum(row["length_bytes"] for row in stream["record"]["requests"]))
            with open(paths[-1], "w") as out:
                json.dump(stream["record"], out)
        run = subprocess.run([servers.PROGRAM, "simulate", "--layout", "mirror,disks=4,columns=2", "--most", "0", "--json", *paths],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(run.returncode == 0, "simulate: exit %d: %s" % (run.returncode, run.stderr[-600:]))
    told = json.loads(run.stdout)
    check([said["read_bytes"] for said in told["sessions"]] == wanted and not any(said.get("approximate") for said in told["sessions"]), "%s, wanted %s" % (told["sessions"], wanted))
    check(sum(row["read_bytes"] for row in told["disks"]) == sum(wanted), "disks: %s" % told["disks"])


def drawn(browser, url, record):
    """The bytes of each disk as the page has them, and as its bars are drawn: a bar's length over that of all, which is the largest disk's whole."""
    browser.open(url=url + "/#/experiments/" + record["id"])
    value = browser.eval_(code="""(async () => {
        for (let i = 0; i < 100 && !document.querySelector('[data-testid=stream-disk]'); i++) await new Promise((go) => setTimeout(go, 100));
        const width = (e) => e.getBoundingClientRect().width;
        return [...document.querySelectorAll('[data-testid=stream-disk]')].map((e) => {
            const track = e.querySelector('.track');
            return [e.dataset.disk, Number(e.dataset.streamBytes), Number(e.dataset.totalBytes), width(track.children[0]) / width(track)];
        });
    })()""")
    most = max([row[2] for row in value], default=1)
    return {row[0]: row[1] for row in value}, {row[0]: row[2] for row in value}, {row[0]: row[3] * most for row in value}


def on_model(stage, profile, source, why):
    """All scenarios on one pool, in one run; a case each."""
    names = {scenario: "streams_%s_%s" % (profile, scenario) for scenario in SCENARIOS}
    picture = "streams_%s_picture" % profile
    if not any(stage.wants(name) for name in list(names.values()) + [picture]):
        return
    run = None
    with stage.case("streams_%s_run_to_their_end" % profile):
        if why or pools.why_not(model=True):
            raise report.Skip(why or pools.why_not(model=True))
        run = Run(profile, source)
    if run is None:
        return
    with run:
        for scenario, record, log in zip(SCENARIOS, run.records, run.logs):
            with stage.case(names[scenario]):
                is_whole(record, scenario)
                disks = {row["disk"]: row for row in record["disks"]}
                worst = [alike({disk: row["stream_bytes"] for disk, row in disks.items()}, log.films, scenario + ", films"),
                         alike({disk: row["total_read_bytes"] for disk, row in disks.items()}, log.all, scenario + ", whole disks")]
                what_if(record)
                print("      %s %s: worst disk %.2f %% of films, %.2f %% of all" % (profile, scenario, worst[0] * 100, worst[1] * 100), flush=True)
        with stage.case(picture):
            if browsers.why_not():
                raise report.Skip(browsers.why_not())
            with servers.Server(data=run.data) as server, browsers.Browser() as browser:
                browser.open(url=server.url)
                browser.setup(user=servers.USER, password=servers.PASSWORD)
                for scenario, record, log in zip(SCENARIOS, run.records, run.logs):
                    films, everything, bars = drawn(browser, server.url, record)
                    alike(films, log.films, scenario + ", drawn")
                    # A bar is some hundred pixels long: one of them is no error.
                    check(all(abs(bars[disk] - films[disk]) <= TOLERANCE * films[disk] + 0.01 * max(everything.values()) for disk in films), "%s: bars of %s for %s" % (scenario, bars, films))
                    alike(everything, log.all, scenario + ", drawn, whole disks")
                    browser.shot(name="stream-%s-%s" % (profile, scenario))


class Run:
    """A pool, the records of all scenarios on it, and the model's log of each."""

    def __init__(self, profile, source):
        self.data = tempfile.mkdtemp(prefix="data-", dir=servers.Server._runs())
        try:
            with pools.Pool(profile, size_mib=640, model="hdd7200") as pool:
                paths = fill(pool, source, long=True)
                pool.remount()
                pool.model.delays(True)
                out, _ = bench(self.data, "stream", "--seconds", str(SECONDS), pool.mount)
                pool.model.delays(False)
                for scenario in SCENARIOS:
                    check(scenario + ": " in out, "the table tells nothing of %s: %s" % (scenario, out[-600:]))
                self.records = records(self.data)
                self.logs = [Log(pool, paths, record) for record in self.records]
            check(not os.path.exists(os.path.join(self.data, "bench-runs")), "a folder of a run is left")
        except BaseException:
            shutil.rmtree(self.data, ignore_errors=True)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.data, ignore_errors=True)


def what_goes_wrong(stage, source, why):
    names = ("streams_no_film_is_said_and_nothing_kept", "streams_ctrl_c_keeps_what_was_measured", "streams_kill_leaves_nothing_after_the_next_start",
             "streams_without_privilege_say_how_sure", "streams_beside_a_server_of_the_same_data")
    if not any(stage.wants(name) for name in names):
        return
    with stage.case("streams_faults_are_prepared"):
        if why:
            raise report.Skip(why)
        with pools.Pool("ext4", size_mib=256) as pool:
            paths = fill(pool, source)
            pool.remount()
            for name, run in zip(names, (no_film, interrupted, killed, unprivileged, beside_a_server)):
                if stage.wants(name):
                    with stage.case(name):
                        data = tempfile.mkdtemp(prefix="data-", dir=servers.Server._runs())
                        try:
                            run(data, pool, paths)
                        finally:
                            shutil.rmtree(data, ignore_errors=True)


def no_film(data, pool, paths):
    folder = os.path.join(pool.mount, "none")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "broken.mkv"), "wb") as out:
        out.write(b"no film at all" * 1000)
    _, errors = bench(data, "stream", "--seconds", "2", folder, check_status=1)
    check("no film that can be played" in errors and "broken.mkv" in errors, errors)
    check(json.loads(bench(data, "list", "--json")[0]) == [], "something was kept")
    bench(data, "stream", "--scenario", "sing", folder, check_status=2)


def begun(data, pool, seconds=60):
    """A run that has come to its streams."""
    process = subprocess.Popen(command(data, ("stream", "--scenario", "single", "--seconds", str(seconds), pool.mount)), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    lines = []
    for line in process.stdout:
        lines.append(line)
        if " of %d s" % seconds in line:
            return process, lines
    raise AssertionError("it ended with %s: %s" % (process.wait(), "".join(lines)[-600:]))


def interrupted(data, pool, paths):
    process, lines = begun(data, pool)
    try:
        time.sleep(1.0)  # so that there is something to keep
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[0]
    finally:
        process.kill()
        process.wait()
    check(process.returncode == 1 and "stopped after" in rest, "status %s: %s" % (process.returncode, rest[-600:]))
    kept = records(data)
    check(len(kept) == 1 and "stopped" in kept[0]["interrupted"] and kept[0]["streams"][0]["received_bytes"] > 0, "kept: %s" % kept)
    check(not os.path.exists(os.path.join(data, "bench-runs")), "the folder of the run is left")


def killed(data, pool, paths):
    process, _ = begun(data, pool)
    process.kill()
    process.wait()
    process.stdout.close()
    check(os.listdir(os.path.join(data, "bench-runs")), "there is nothing to clear: the case proves nothing")
    bench(data, "stream", "--scenario", "single", "--seconds", "2", pool.mount)
    check(not os.path.exists(os.path.join(data, "bench-runs")), "what was killed is still there: %s" % os.listdir(data))
    check(all(os.path.getsize(path) > 0 for path in paths), "a film is gone")


def unprivileged(data, pool, paths):
    os.chown(data, NOBODY, NOBODY)
    for path in paths:
        os.chmod(path, 0o644)
    bench(data, "stream", "--scenario", "single", "--seconds", "3", pool.mount, uid=NOBODY)
    record = records(data)[0]
    io = record["streams"][0]["record"]
    check(io["attribution"] == "sampled_map" and any("placed by the map" in note for note in record["notes"]), "%s: %s" % (io["attribution"], record["notes"]))
    disk = record["disks"][0]
    check(disk["stream_bytes"] > 0, "nothing was placed: %s" % disk)


def beside_a_server(data, pool, paths):
    with servers.Server([("movies", pool.mount)], data=data) as server:
        server.setup()
        before = server.items()
        bench(data, "stream", "--scenario", "single", "--seconds", "2", pool.mount)
        check(server.request("GET", "/health")[0] == 200 and [r["id"] for r in server.items()] == [r["id"] for r in before] or len(server.items()) >= len(before),
              "the server was disturbed")
        listed = server.api("GET", "/experiments")["items"]
        check([row["kind"] for row in listed] == ["stream"] and not server.api("GET", "/sessions")["items"], "listed: %s" % listed)


def groups(source, why):
    """The pools, and what can go wrong, as groups of cases (report.beside)."""
    found = {"streams-" + profile: lambda stage, profile=profile: on_model(stage, profile, source, why) for profile in ("raid1", "raid10")}
    return {**found, "streams-wrong": lambda stage: what_goes_wrong(stage, source, why)}
