"""What a file or an answer of the server really holds, read by ffmpeg's own programs: the clock in the picture, the pitch of
the sound, the times of packets. Written so that a case can be read: every function gives seconds, and clocks in seconds."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "samples")]
import read_clock


def run(argv, **more):
    """A program's output; its complaint is the failure's text."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, **more)
    if done.returncode:
        raise AssertionError("%s: %s" % (" ".join(argv[:6]), done.stderr.decode(errors="replace")[-400:]))
    return done


def ffmpeg(*argv):
    run(["ffmpeg", "-nostdin", "-hide_banner", "-v", "error", "-y", *[str(a) for a in argv]])


def probe(path, *more):
    """ffprobe's JSON: streams and format."""
    return json.loads(run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format", *more, str(path)]).stdout)


def stream(path, kind="video"):
    """The first stream of a kind, as ffprobe has it."""
    return next(s for s in probe(path)["streams"] if s["codec_type"] == kind)


def pictures(path, at=None, count=None, which="v:0", crop=None):
    """(time, clock) of every picture; the clock is None where it does not read (a film without one, or a turned picture)."""
    seek = ["-ss", str(at)] if at is not None else []
    limit = ["-frames:v", str(count)] if count else []
    view = (crop + "," if crop else "") + "format=gray,crop=iw:1:0:ih/40,showinfo=checksum=0"
    done = run(["ffmpeg", "-nostdin", "-v", "info", "-hide_banner", *seek, "-copyts", "-i", str(path), "-map", "0:" + which, *limit, "-vf", view,
                "-fps_mode", "passthrough", "-pix_fmt", "gray", "-f", "rawvideo", "-"])
    at, found = 0, []
    for time_s, width in re.findall(r"pts_time:\s*(-?[\d.]+).*? s:(\d+)x", done.stderr.decode(errors="replace")):
        row = done.stdout[at:at + int(width)]
        at += int(width)
        if len(row) < 32:
            break
        clock = read_clock.decode_row(row)
        found.append((float(time_s), None if clock is None else clock / 1000))
    return found


def packets(path, which="v:0"):
    """Rows of pts, dts, duration (seconds), bytes and flags of a stream's packets, in the file's order."""
    done = run(["ffprobe", "-v", "error", "-select_streams", which, "-of", "json", "-show_entries", "packet=pts_time,dts_time,duration_time,size,flags", str(path)])
    rows = []
    for row in json.loads(done.stdout)["packets"]:
        number = lambda key: float(row[key]) if key in row else None
        rows.append({"pts": number("pts_time"), "dts": number("dts_time"), "lasts": number("duration_time"), "size": int(row["size"]), "key": "K" in row["flags"]})
    return rows


RATE = 16000


def sound(path, which="a:0", at=None, seconds=None, channel=None, rate=RATE):
    """Samples of a track, -1 to 1, and the time of the first: gaps at its beginning are told by the packets, not filled."""
    seek = ["-ss", str(at)] if at is not None else []
    long = ["-t", str(seconds)] if seconds else []
    mix = ["-af", "pan=mono|c0=c%d" % channel] if channel is not None else ["-ac", "1"]
    raw = run(["ffmpeg", "-nostdin", "-v", "error", *seek, "-i", str(path), "-map", "0:" + which, *mix, "-ar", str(rate), *long, "-f", "s16le", "-"]).stdout
    view = memoryview(raw[:len(raw) // 2 * 2]).cast("h")
    return [x / 32768 for x in view]


def pitch(samples, rate=RATE):
    """The frequency of a pure tone, by its rising zero crossings; 0 for silence."""
    if not samples or max(abs(x) for x in samples) < 0.003:
        return 0
    cross = [i - samples[i] / (samples[i] - samples[i - 1]) for i in range(1, len(samples)) if samples[i - 1] < 0 <= samples[i]]
    return (len(cross) - 1) * rate / (cross[-1] - cross[0]) if len(cross) > 2 else 0


def level(samples, hz, rate=RATE):
    """The amplitude of one frequency in a piece of sound (Goertzel)."""
    import math
    n = len(samples)
    w = 2 * math.pi * hz / rate
    c = 2 * math.cos(w)
    s1 = s2 = 0.0
    for x in samples:
        s1, s2 = x + c * s1 - s2, s1
    return 2 * math.sqrt(max(s1 * s1 + s2 * s2 - c * s1 * s2, 0)) / n


def decibels(x, y):
    import math
    return 20 * math.log10(max(x, 1e-9) / max(y, 1e-9))


def second_told(hz):
    """Which second (of a hundred) a pitch tells: 400 + 8 * second."""
    return round((hz - 400) / 8)


def onsets(path, which="a:0", first=0):
    """(time, second) at which the pitch changes, within some 3 ms: when a second begins to be heard. Times count from the first sample;
    `first` is where that is."""
    rate = 8000
    samples = sound(path, which, rate=rate)
    step, wide = rate // 50, rate // 25
    seconds = [second_told(pitch(samples[i:i + wide], rate)) for i in range(0, len(samples) - wide, step)]
    found = []
    for i in range(3, len(seconds) - 3):
        # A window over the change tells anything: both sides must be steady.
        before, after = seconds[i - 3:i - 1], seconds[i + 2:i + 4]
        if len(set(before)) == 1 and len(set(after)) == 1 and after[0] == before[0] + 1 and (not found or found[-1][1] != after[0]):
            low, high = max(0, (i - 3) * step), min(len(samples), (i + 4) * step + wide)
            found.append((boundary(samples, rate, low, high, before[0], after[0]) + first, after[0]))
    return found


def boundary(samples, rate, low, high, before, after):
    """Where one pitch ends and the next begins: the place that fits both best, looked for roughly first."""
    wide, old, new = rate // 33, 400 + 8 * before, 400 + 8 * after

    def fit(i):
        left, right = samples[i - wide:i], samples[i:i + wide]
        return level(left, old, rate) - level(left, new, rate) + level(right, new, rate) - level(right, old, rate)

    rough = max(range(low + wide, high - wide, rate // 125), key=fit)
    near = range(max(low + wide, rough - rate // 125), min(high - wide, rough + rate // 125), rate // 1000)
    return max(near, key=fit) / rate
