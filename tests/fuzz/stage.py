#!/usr/bin/env python3
"""The stage `fuzz`: three hundred inputs, and that the fuzzer itself finds, keeps, repeats and lets go."""
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import mutate
import place
import report
import server as servers
import sources as kinds
import structure
from report import check

COUNT = 300
LONGEST_S = 1200  # ends a broken run only
RUN = os.path.join(HERE, "run.py")
# In the parsers' place: inputs 2, 3 and 5 are their faults.
FAULTY = '''#!/usr/bin/env python3
import os, sys, time
for line in sys.stdin:
    number = int(os.path.basename(line).split(".")[0])
    if number == 2:
        print("panic\\t0\\t0\\t0\\tpanicked at src/media/planted.rs", flush=True)
        continue
    if number == 3:
        time.sleep(3600)
    if number == 5:
        os.abort()
    if number == 7:
        print("read\\t%d\\t0\\t0\\t" % (1 << 40), flush=True)
        continue
    print("refused\\t0\\t0\\t0\\t", flush=True)
'''


def fuzz(*argv, **more):
    return subprocess.run([sys.executable, RUN, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST_S, **more)


def last(run):
    return run.stdout.strip().splitlines()[-1]


def same(_scratch):
    """an_input_is_known_by_seed_and_number_alone"""
    sources = kinds.Sources(kinds.made())
    one = {number: mutate.Input(9, number, sources) for number in range(200)}
    again = {number: mutate.Input(9, number, sources) for number in reversed(range(200))}
    check(all(one[n].data == again[n].data and one[n].name == again[n].name for n in one), "two makings differ")
    check(len({row.data for row in one.values()}) > 190, "they are much the same")
    other = sum(one[n].data == mutate.Input(10, n, sources).data for n in one)
    check(other < 5, "%d inputs of another seed are the same" % other)
    changed = sum(row.data != row.source.data for row in one.values())
    check(changed > 180, "%d of 200 are damaged" % changed)


def kinds_of_file(_scratch):
    """every_kind_of_file_comes_and_its_lengths_are_known"""
    sources = kinds.Sources(kinds.made())
    extensions = {e for rows in sources.extensions.values() for e in rows}
    wanted = set("mp4 mov mkv webm avi ts m2ts flv ogv ogg opus mp3 flac wav m4a jpg png webp srt ass vtt idx sub".split())
    check(wanted <= extensions, "no sources: %s" % sorted(wanted - extensions))
    for extension in "mp4 mkv webm avi ts m2ts flv ogg flac wav mp3 png jpg".split():
        check(any(len(s.units) > 2 for s in sources.named(extension)), "nothing is known of the parts of %s" % extension)
    moov = b"\0\0\0\x18ftypisom\0\0\0\0isomisom" + b"\0\0\0\x18moov\0\0\0\x10trak\0\0\0\x08mdia"
    found = [(u.begins, u.body, u.ends, u.size_at) for u in structure.units(moov, "mp4")]
    check(found == [(0, 8, 24, 0), (24, 32, 48, 24), (32, 40, 48, 32), (40, 48, 48, 40)], "boxes: %s" % found)
    ebml = bytes.fromhex("1a45dfa384") + bytes.fromhex("42868101") + bytes.fromhex("1853806701ffffffffffffff") + bytes.fromhex("ec8100")
    found = [(u.begins, u.body, u.ends, u.size_len) for u in structure.units(ebml, "mkv")]
    check(found == [(0, 5, 9, 1), (5, 8, 9, 1), (9, 21, 24, 8), (21, 23, 24, 1)], "elements: %s" % found)


def findings(scratch):
    """a_panic_a_standstill_a_death_and_greed_are_found_kept_and_repeated"""
    faulty, kept = os.path.join(scratch, "faulty"), os.path.join(scratch, "findings")
    with open(faulty, "w") as out:
        out.write(FAULTY)
    os.chmod(faulty, 0o755)
    planted = ["--without-server", "--parser", faulty, "--answer-s", "3", "--findings", kept]
    run = fuzz("--count", "12", *planted)
    check(run.returncode == 1, "status %d: %s" % (run.returncode, run.stdout))
    check(last(run) == "12 inputs: 0 probed, 0 remuxed, 0 refused, 1 panics, 1 hangs", last(run))
    told = sorted(line.split(": ")[0].split("input ")[1] + " " + line.split(": ")[2] for line in run.stdout.splitlines() if line.startswith("FINDING"))
    check(told == ["2 panic", "3 hang", "5 crash", "7 memory"], "found: %s" % told)
    files = sorted(os.listdir(kept))
    check(len(files) == 8, "kept: %s" % files)
    sources = kinds.Sources(kinds.made())
    for number in (2, 3, 5, 7):
        one = mutate.Input(1, number, sources)
        check(open(os.path.join(kept, "1-" + one.name), "rb").read() == one.data, "input %d is not what was kept" % number)
        check("--seed 1 --only %d\n" % number in open(os.path.join(kept, "1-%s.txt" % one.name)).read(), "it is not said how to repeat it")
    run = fuzz("--only", "5", *planted)
    check(run.returncode == 1 and ": crash:" in run.stdout and last(run).startswith("1 inputs: "), run.stdout)


def left_of(root):
    """Processes that were started for a run below `root`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open("/proc/%s/cmdline" % name, "rb").read()
        except OSError:
            continue
        if root.encode() in words:
            found.append((int(name), words.replace(b"\0", b" ")[:120]))
    return found


def cancelled(scratch):
    """a_run_that_is_stopped_half_way_leaves_nothing"""
    work = os.path.join(scratch, "work")
    os.makedirs(work)
    os.symlink(os.path.dirname(kinds.library()), os.path.join(work, "samples"))
    environment = dict(os.environ, RIG_WORK=work)
    run = subprocess.Popen([sys.executable, RUN, "--count", "5000", "--batch", "20"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        line = next((line for line in run.stdout if line.startswith("fuzz: 20 of 5000")), None)
        check(line, "no progress was told")
        family = servers.descendants(run.pid)
        check([pid for pid in family if servers.program_of(pid) == "spindle"], "no server runs")
        run.send_signal(signal.SIGINT)
        rest = run.communicate(timeout=120)[0]
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
    check(run.returncode == 130, "status %d: %s" % (run.returncode, rest[-500:]))
    servers.until(15, "its processes end", lambda: not [pid for pid in family if servers.program_of(pid).startswith(("spindle", "parse"))])
    check(not left_of(work), "left: %s" % left_of(work))
    check(not [name for name in os.listdir(os.path.join(work, "fuzz")) if name.startswith("run-")], "left: %s" % os.listdir(os.path.join(work, "fuzz")))


def short_run(_scratch):
    """three_hundred_damaged_files_have_no_effect_on_the_server"""
    run = fuzz("--count", str(COUNT), "--batch", "100")
    print(run.stdout, end="", flush=True)
    check(run.returncode == 0, "findings: see above")
    words = last(run).split()
    check(words[0] == str(COUNT) and int(words[2]) > COUNT // 3 and int(words[4]) > COUNT // 10 and int(words[6]) > COUNT // 20, "the damage misses or destroys everything: %s" % last(run))


def run():
    stage = report.Stage("fuzz", sys.argv[1] if len(sys.argv) > 1 else None)
    with tempfile.TemporaryDirectory(prefix="fuzz-stage-", dir=place.work()) as scratch:
        for case in (same, kinds_of_file, findings, cancelled, short_run):
            if stage.wants(case.__doc__):
                with stage.case(case.__doc__):
                    case(scratch)
    return stage.finish()


if __name__ == "__main__":
    report.main(run)
