#!/usr/bin/env python3
"""Cases from the field, run through the client crate and the worker on the sample library.

  cases.py CUT WORKER SAMPLES [CASE...]

CUT is `cargo build -p spindle-transcode --example cut`, WORKER the worker binary, SAMPLES folders that
tests/samples/make.sh made, joined by `:`. One line a check; exit status 1 if one failed. A case whose
film is not there is left out and said so. Needs ffmpeg and ffprobe.
"""
import cmath, glob, json, math, os, subprocess, sys, tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(ROOT, "tests/samples"))
import read_clock  # noqa: E402

CUT, WORKER, SAMPLES = sys.argv[1], sys.argv[2], sys.argv[3].split(":")
WANTED = sys.argv[4:]
failed = []
case = ""


class Missing(Exception):
    pass


def film(name):
    for folder in SAMPLES:
        found = [f for f in glob.glob(os.path.join(folder, "**", glob.escape(name) + ".*"), recursive=True)
                 if f.rsplit(".", 1)[1] in ("mkv", "mp4", "ts", "m2ts", "mov", "mpg", "avi", "webm", "ogv", "vob")]
        if found:
            return found[0]
    raise Missing(name)


def check(what, ok, seen):
    print("%-5s %s  %s: %s" % (case, "ok  " if ok else "FAIL", what, seen), flush=True)
    if not ok:
        failed.append((case, what))


COPY = {"action": "copy"}
H264 = {"action": "encode", "codec": "h264", "max_width": 1280, "max_height": 720, "max_bitrate_bps": 4000000,
        "fps_cap": 60, "burn_subtitle": None, "tone_map": False}


def aac(channels=2, codec="aac", bitrate=None):
    return {"action": "encode", "codec": codec, "channels": channels, "bitrate_bps": bitrate, "sample_rate": None}


class Cut:
    """What the worker made of a film."""

    def __init__(self, path, video, audio, v=0, a=1, boundaries=(), order=None):
        self.dir = tempfile.mkdtemp(prefix="cut", dir=TMP)
        plan = {"video": video and dict(video, stream=v), "audio": audio and dict(audio, stream=a),
                "boundaries": list(boundaries)}
        args = [CUT, WORKER, path, self.dir, json.dumps(plan)] + ([order] if order else [])
        p = subprocess.run(args, capture_output=True, text=True, timeout=300)
        if p.returncode:
            raise RuntimeError(p.stderr.strip())
        said = json.loads(p.stdout)
        self.info, self.at = said["info"], said["at"]
        self.b = [t / 1e6 for t in said["boundaries"]]

    def join(self, numbers=None):
        numbers = range(len(self.b) - 1) if numbers is None else numbers
        out = os.path.join(self.dir, "%s.mp4" % "-".join(map(str, numbers))[:60])
        with open(out, "wb") as f:
            for part in ["init.mp4"] + ["%d.m4s" % n for n in numbers]:
                f.write(open(os.path.join(self.dir, part), "rb").read())
        return out


def run(*args):
    return subprocess.run(args, capture_output=True, text=True)


def packets(path, stream):
    """(pts, dts, duration, key) in order of the file."""
    p = run("ffprobe", "-v", "error", "-select_streams", stream, "-show_entries",
            "packet=pts_time,dts_time,duration_time,flags", "-of", "csv=p=0", path)
    out = []
    for line in p.stdout.splitlines():
        f = line.split(",")
        if f[0] != "N/A":
            number = lambda x, other: other if x == "N/A" else float(x)  # noqa: E731
            out.append((float(f[0]), number(f[1], float(f[0])), number(f[2], 0.0), f[3].startswith("K")))
    return out


def stream(path, which, *fields):
    p = run("ffprobe", "-v", "error", "-select_streams", which, "-show_entries", "stream=" + ",".join(fields)
            + ":stream_side_data=rotation", "-of", "json", path)
    return json.loads(p.stdout)["streams"][0]


def clocks(path):
    """(pts, clock in seconds or None) of every picture."""
    p = run(sys.executable, read_clock.__file__, path, "--frames", "100000")
    out = []
    for line in p.stdout.splitlines():
        t, ms = line.split("\t")
        out.append((float(t), None if ms == "-" else int(ms) / 1000))
    return out


def decode_errors(path):
    return run("ffmpeg", "-nostdin", "-v", "error", "-i", path, "-f", "null", "-").stderr.strip()


def samples(path, which="0:a:0", rate=8000, pan=None):
    """Sound from time 0 of the file on: a late start is filled with silence."""
    af = (pan + "," if pan else "") + "aresample=%d:async=1:first_pts=0" % rate
    cmd = ["ffmpeg", "-nostdin", "-v", "error", "-copyts", "-i", path, "-map", which, "-af", af, "-ac", "1",
           "-ar", str(rate), "-f", "s16le", "-"]
    d = subprocess.run(cmd, capture_output=True).stdout
    return memoryview(d[:len(d) // 2 * 2]).cast("h")


def tone_change(x, at, second, rate=8000):
    """When the clock tone goes from `second - 1` to `second`, looked for around `at`.

    The tone is continuous in phase and changes by 8 Hz: seen from the middle, the phase falls before
    the change and rises after it, and the two lines meet at the change."""
    f = 400 + 8 * ((second - 1) % 100) + 4
    def phases(start, end):
        out = []
        t = start
        while t < end:
            i0, n = int((t - 0.025) * rate), int(0.05 * rate)
            if i0 >= 0 and i0 + n <= len(x):
                z = sum(x[i0 + k] * cmath.exp(-2j * math.pi * f * (i0 + k) / rate) for k in range(0, n))
                out.append((t, cmath.phase(z)))
            t += 0.02
        return out
    ph = phases(at - 0.35, at + 0.35)
    if len(ph) < 30:
        return None
    un = [ph[0]]
    for t, p in ph[1:]:
        last = un[-1][1]
        un.append((t, p + 2 * math.pi * round((last - p) / (2 * math.pi))))
    w = 8 * math.pi
    before = [p + w * t for t, p in un if t < at - 0.1]
    after = [p - w * t for t, p in un if t > at + 0.1]
    return (sum(before) / len(before) - sum(after) / len(after)) / (2 * w)


def in_step(path, places=5, which="0:a:0", ahead=0):
    """How far the tone changes from the picture of that second: {second: seconds or None}."""
    pictures = [(t, c) for t, c in clocks(path) if c is not None]
    x = samples(path, which)
    offset = sorted(t - c for t, c in pictures)[len(pictures) // 2]
    first, last = pictures[0][1], pictures[-1][1]
    seconds = [s for s in range(math.ceil(first + 0.5), int(last - 0.5) + 1)]
    step = max(1, len(seconds) // places)
    out = {}
    for s in seconds[::step][:places]:
        t = tone_change(x, s + offset, s + ahead)
        out[s] = None if t is None else t - (s + offset)
    return out


def sync(path, limit=0.05, places=5, like=None, ahead=0):
    """Whether sound and picture are in step, or as far apart as in the film `like`."""
    is_ = in_step(path, places, ahead=ahead)
    want = in_step(like, places, ahead=ahead) if like else {}
    off = [None if d is None else d - (want.get(s) or 0) for s, d in is_.items()]
    return (bool(off) and all(d is not None and abs(d) <= limit for d in off),
            " ".join("%d:%s" % (s, "none" if d is None else "%+.0fms" % (d * 1000)) for s, d in zip(is_, off)))


def whole(cut, path, length=None, hole=0.1, first=0.1):
    for which in ("v:0", "a:0"):
        p = packets(path, which)
        if not p:
            check("has " + which, False, "no packets")
            continue
        shown = sorted(t for t, _, _, _ in p)
        gaps = [b - a for a, b in zip(shown, shown[1:])]
        end = max(t + d for t, _, d, _ in p)
        check(which + " starts, no hole", 0 <= shown[0] < first and max(gaps) <= hole,
              "first %.3f, largest step %.3f, end %.3f" % (shown[0], max(gaps), end))
        rising = all(b[1] > a[1] for a, b in zip(p, p[1:])) and all(q[1] <= q[0] + 1e-6 for q in p)
        check(which + " decode times rise, not after showing", rising, len(p))
    if length:
        check("listed length", abs(cut.b[-1] - length[0]) <= length[1], cut.b[-1])


def segments_tell_time(cut, limit=0.041, numbers=None, clock_offset=0.0):
    worst = 0
    numbers = range(len(cut.b) - 1) if numbers is None else numbers
    for n in numbers:
        c = clocks(cut.join([n]))
        if not c or c[0][1] is None:
            check("segment %d decodes alone" % n, False, c[:1])
            continue
        worst = max(worst, abs(c[0][0] - cut.b[n]), abs(c[0][1] + clock_offset - cut.b[n]))
    check("each segment begins with the clock of its listed time", worst <= limit, "%.3f s" % worst)


def hl01():
    f = film("Jagged Keys (1989)")
    n = 5
    c = Cut(f, COPY, aac(), order="3,4,0,1,2")
    first = packets(f, "v:0")[0][0]
    segments_tell_time(c, clock_offset=first)
    whole(c, c.join())


def hl03():
    f = film("Long Audio (1964)")
    for name, v, a in (("copied", COPY, COPY), ("encoded", H264, aac())):
        c = Cut(f, v, a)
        p = c.join()
        check(name + " listed length", abs(c.b[-1] - 13) <= 0.1, c.b[-1])
        s = packets(p, "a:0")
        gaps = [b[0] - a[0] - a[2] for a, b in zip(s, s[1:])]
        check(name + " sound", s[-1][0] + s[-1][2] > 12.9 and max(gaps) < 0.1,
              "to %.3f, hole %.3f" % (s[-1][0] + s[-1][2], max(gaps)))


def hl04():
    f = film("Two Hours (2000)")
    b = [i * 3000000 for i in range(2400)] + [7200000000]
    c = Cut(f, H264, aac(), boundaries=b, order="10,11,12,13,14,900,901,902,903,12,901,450,10")
    segments_tell_time(c, 0.2, [10, 11, 12, 13, 14, 900, 901, 902, 903, 450])


def hl06():
    f = film("Jagged Keys (1989)")
    c = Cut(f, COPY, COPY, boundaries=[0, 7621000, 13421000, 14061000, 27421000, 27821000, 40021000],
            order="2,3,5")
    for n, ms in ((2, 13.4), (3, 14.04), (5, 27.8)):
        check("first picture at %s" % ms, clocks(c.join([n]))[0][1] == ms, clocks(c.join([n]))[0])


def hl09():
    for name in ("Quiet Ridge (1991)", "Quiet Ridge HEVC (1992)"):
        f = film(name)
        c = Cut(f, COPY, COPY)
        seen = []
        for n in range(len(c.b) - 1):
            path = c.join([n])
            p = packets(path, "v:0")
            check("%s segment %d begins with a key picture" % (name, n), p[0][3], p[0])
            k = clocks(path)
            leading = [t for t, _ in k if t < p[0][0] - 1e-6]
            at = next((t, s) for t, s in k if s is not None and t >= p[0][0] - 1e-6)
            check("%s segment %d" % (name, n), abs(at[1] - (c.b[n] - CLOCK0(f))) <= 0.12,
                  "listed %.3f, first clock %s, leading %d" % (c.b[n], at, len(leading)))
            seen += [round(t, 3) for t, _, _, _ in p]
        check(name + " shows no picture twice", len(seen) == len(set(seen)), len(seen))
        check(name + " decodes whole", decode_errors(c.join()) == "", decode_errors(c.join())[:100])


def CLOCK0(f):
    """Time of the presentation at which the clock reads 0."""
    return 0.021 if f.endswith(".mkv") else 0.0


def sy01():
    f = film("Delta Night (2005)")
    for start in (33.0, 7.3, 59.0):
        us = int(start * 1e6)
        c = Cut(f, H264, COPY, boundaries=[0, us, us + 3000000, 66000000], order="1")
        path = c.join([1])
        v, a = packets(path, "v:0"), packets(path, "a:0")
        check("from %s: sound begins with the picture" % start, abs(a[0][0] - min(p[0] for p in v)) <= 0.064,
              "%.3f" % (a[0][0] - min(p[0] for p in v)))
        if start < 59:  # there the film has no further whole second
            check("from %s: in step" % start, *sync(path))


def sy02():
    f = film("Cold Ferry Three (1986)")
    c = Cut(f, COPY, aac())
    n = len(c.b) - 1
    for start in (4.7, 9.1):
        k = max(i for i in range(n) if c.b[i] <= start)
        d = Cut(f, COPY, aac(), boundaries=[int(t * 1e6) for t in c.b], order=",".join(map(str, range(k, n))))
        check("from %s" % start, *sync(d.join(range(k, n)), places=5))
    check("whole", *sync(c.join(), places=9))


def sy05():
    c = Cut(film("Birch Road (2002)"), COPY, COPY)
    k = clocks(c.join())
    check("Birch Road first clock", k[0][1] == 0, k[0])
    check("Birch Road in step", *sync(c.join(), limit=0.025))
    c = Cut(film("Edit Trim (1961)"), COPY, COPY)
    path = c.join()
    k = clocks(path)
    check("Edit Trim first clock", abs(k[0][1] - 3.32) <= 0.04, k[:3])
    check("Edit Trim in step", *sync(path, limit=0.025))
    check("Edit Trim as in the film", *sync(path, limit=0.025, like=film("Edit Trim (1961)")))


def sy07():
    c = Cut(film("Red Lantern Bay (1993)"), H264, aac())
    path = c.join()
    k = clocks(path)
    check("all clocks read", all(s is not None for _, s in k), len(k))
    # As Matroska's offset of the priming: samples/README.
    d = [(t, abs(s - t + 0.021)) for t, s in k if s is not None]
    check("clock and time", max(x for _, x in d) <= 0.084, "%.3f" % max(x for _, x in d))
    check("first five seconds", max(x for t, x in d if t < 5) <= 0.017, "%.3f" % max(x for t, x in d if t < 5))
    check("pictures", len(k) <= 905, len(k))
    p = packets(path, "v:0")
    check("length", abs(max(t + x for t, _, x, _ in p) - 15) <= 0.1, max(t + x for t, _, x, _ in p))


def sy08():
    for name in ("Late Audio (1962)", "Late Video (1963)"):
        f = film(name)
        for way, v, a in (("copied", COPY, COPY), ("encoded", H264, aac())):
            c = Cut(f, v, a)
            check("%s %s" % (name, way), *sync(c.join(), limit=0.025, like=f, ahead=2 if "Video" in name else 0))


def ts01():
    f = film("Cold Ferry (1984)")
    for name, v, a in (("copied", COPY, COPY), ("encoded", H264, aac())):
        c = Cut(f, v, a)
        path = c.join()
        whole(c, path, (12, 0.1))
        k = clocks(path)
        worst = max((abs(s - t) for t, s in k if s is not None), default=9)
        check(name + " clock is time on both sides", worst <= 0.05 and all(s is not None for _, s in k),
              "%.3f of %d" % (worst, len(k)))
        n = len(c.b) - 1
        for start in (3, 9):
            i = max(i for i in range(n) if c.b[i] <= start)
            d = Cut(f, v, a, boundaries=[int(t * 1e6) for t in c.b], order=str(i))
            segments_tell_time(d, 0.05, [i])


def ts02():
    f = film("Cold Ferry Two (1985)")
    for name, v, a in (("copied", COPY, COPY), ("encoded", H264, aac())):
        c = Cut(f, v, a)
        whole(c, c.join(), (12, 0.1))
        k = clocks(c.join())
        check(name + " position 0 shows clock 0", abs(k[0][1]) <= 0.04 and 0 <= k[0][0] <= 0.05, k[0])


def ts04():
    f = film("Cold Ferry Four (1987)")
    c = Cut(f, H264, aac())
    path = c.join()
    k = clocks(path)
    check("length", abs(c.b[-1] - 12) <= 0.5, c.b[-1])
    check("clock goes on to the end", len(k) > 280, "%d pictures, last %s" % (len(k), k[-1:]))
    check("decodes", decode_errors(path) == "", decode_errors(path)[:200])
    whole(c, path)


def ts05():
    for name in ("Fallow Moon (2007)", "Cinder Lake (2003)", "Ember Field (2006)"):
        f = film(name)
        c = Cut(f, H264, aac())
        check(name + " length", abs(c.b[-1] - 12) <= 0.1, c.b[-1])
        i = max(i for i in range(len(c.b) - 1) if c.b[i] <= 8)
        d = Cut(f, H264, aac(), boundaries=[int(t * 1e6) for t in c.b], order=str(i))
        k = clocks(d.join([i]))
        at = min(k, key=lambda x: abs(x[0] - 8))
        check(name + " at 8 s", at[1] is not None and abs(at[1] - 8) <= 0.1, at)


def aspect(path):
    s = stream(path, "v:0", "width", "height", "sample_aspect_ratio")
    n, d = map(int, s.get("sample_aspect_ratio", "1:1").split(":"))
    return s["width"] * (n or 1) / (s["height"] * (d or 1)), s


def pi01():
    for name, want, way in (("Tall Grass (1995)", 16 / 9, H264), ("Zephyr Bridge (1980)", 4 / 3, H264),
                            ("Display Dims (1952)", 853 / 360, COPY)):
        c = Cut(film(name), way, COPY if way is COPY else aac())
        is_, s = aspect(c.join([0]))
        check(name, abs(is_ / want - 1) <= 0.01, "%.3f, %s" % (is_, s))


def pi02():
    for turn in (90, 180, 270):
        f = film("Silver Fern %d (1994)" % turn)
        c = Cut(f, H264, aac())
        path = c.join()
        s = stream(path, "v:0", "width", "height")
        size = (360, 640) if turn != 180 else (640, 360)
        k = clocks(path)
        check("%d encoded" % turn, (s["width"], s["height"]) == size and not s.get("side_data_list")
              and all(x is not None for _, x in k), "%s %s" % (s, k[:1]))
        c = Cut(f, COPY, COPY)
        s = stream(c.join(), "v:0", "width", "height")
        check("%d copied keeps the matrix" % turn, abs(s["side_data_list"][0]["rotation"]) == min(turn, 360 - turn)
              and all(x is not None for _, x in clocks(c.join())), s)


def pi04():
    for name in ("Xenon Small (2017)", "Xenon Bloom (2019)"):
        c = Cut(film(name), dict(H264, tone_map=True), aac())
        s = stream(c.join(), "v:0", "pix_fmt", "color_transfer", "color_primaries", "color_space", "color_range")
        check(name, [s.get(x) for x in ("pix_fmt", "color_transfer", "color_primaries", "color_space")]
              == ["yuv420p", "bt709", "bt709", "bt709"], s)
        k = clocks(c.join())
        check(name + " clock reads", all(x is not None for _, x in k), k[:2])


def pi07():
    f = film("Full Range (1955)")
    c = Cut(f, H264, aac())
    path = c.join()
    s = stream(path, "v:0", "pix_fmt", "color_range")
    # The bar code: column 0 of 32 black, column 1 white.
    d = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-ss", "1", "-i", path, "-frames:v", "1", "-vf",
                        "scale=out_range=pc,format=rgb24,crop=iw:1:0:ih/40", "-f", "rawvideo", "-"],
                       capture_output=True).stdout
    w = len(d) // 3 // 32
    black, white = d[3 * (w // 2)], d[3 * (w + w // 2)]
    check("white and black", white >= 230 and black <= 20, "%d %d %s" % (white, black, s))
    check("tags agree", s.get("color_range") in ("tv", None) and s["pix_fmt"] == "yuv420p", s)


def tone(x, rate, f):
    n = min(len(x), rate)
    x = x[len(x) // 2 - n // 2:len(x) // 2 + n // 2]
    z = sum(v * cmath.exp(-2j * math.pi * f * i / rate) for i, v in enumerate(x))
    return 20 * math.log10(max(abs(z) * 2 / max(len(x), 1) / 32768, 1e-6))


def channel(path, i):
    return samples(path, pan="pan=mono|c0=c%d" % i)


TONES = {"FL": 300, "FR": 400, "FC": 500, "LFE": 60, "BL": 600, "BR": 700, "SL": 800, "SR": 900}


def au01():
    f = film("Dust Choir (1970)")
    for i in range(1, 6):
        for way, plan in (("encoded", aac(6)), ("copied", COPY)):
            try:
                c = Cut(f, COPY, plan, a=i)
            except RuntimeError as e:
                check("track %d %s" % (i, way), i in (1, 3) and way == "copied", str(e)[:160])
                continue
            path = c.join()
            if i <= 3:
                # The film's own order of channels is what has to come out.
                def own(path, which):
                    x = [samples(path, which, pan="pan=mono|c0=c%d" % k) for k in range(6)]
                    return [max(list(TONES.values())[:6], key=lambda f: tone(c, 8000, f)) for c in x]
                is_, want = own(path, "0:a:0"), own(f, "0:a:%d" % (i - 1))
                check("track %d %s" % (i, way), is_ == want and len(set(is_)) == 6, is_)
            else:
                level = tone(samples(path), 8000, 1000 if i == 4 else 1500)
                check("track %d %s" % (i, way), level > -40, "%.0f dB" % level)


def au02():
    f = film("Soundcheck DTS (1975)")
    for plan, codec, channels in ((aac(6), "aac", 6), (aac(2), "aac", 2), (aac(6, "ac3", 448000), "ac3", 6)):
        s = stream(Cut(f, COPY, plan).join(), "a:0", "codec_name", "channels")
        check("%s %d" % (codec, channels), (s["codec_name"], s["channels"]) == (codec, channels), s)


def au04():
    for name in ("Soundcheck FLAC71 (1977)", "Soundcheck AAC71 (1972)"):
        f = film(name)
        for codec, channels in (("aac", 6), ("ac3", 6), ("opus", 8)):
            path = Cut(f, COPY, aac(channels, codec, 640000 if codec == "ac3" else None)).join()
            s = stream(path, "a:0", "channels", "channel_layout")
            order = ["FL", "FR", "FC", "LFE", "BL", "BR", "SL", "SR"][:s["channels"]]
            x = [channel(path, k) for k in range(s["channels"])]
            centre = [tone(c, 8000, 500) for c in x]
            check("%s %s: 500 Hz in the centre alone" % (name, codec),
                  all(centre[2] - v >= 30 for k, v in enumerate(centre) if k != 2),
                  s["channel_layout"] + " " + " ".join("%.0f" % v for v in centre))
            low = [tone(c, 8000, 60) for c in x]
            check("%s %s: 60 Hz in LFE" % (name, codec), max(range(len(low)), key=lambda k: low[k]) == 3,
                  " ".join("%.0f" % v for v in low))
            if channels == 6:
                back = [tone(x[4], 8000, 600), tone(x[4], 8000, 800), tone(x[5], 8000, 700), tone(x[5], 8000, 900)]
                check("%s %s: sides and backs" % (name, codec), min(back) > -50, " ".join("%.0f" % v for v in back))
            else:
                own = [tone(c, 8000, TONES[o]) for c, o in zip(x, order)]
                check("%s %s: each in its own" % (name, codec), min(own) > -40, " ".join("%.0f" % v for v in own))


def au05():
    f = film("Soundcheck TrueHD (1976)")
    for channels, least in ((6, 256000), (2, 96000)):
        path = Cut(f, COPY, aac(channels)).join()
        p = run("ffprobe", "-v", "error", "-select_streams", "a:0", "-show_entries", "packet=size", "-of",
                "csv=p=0", path).stdout.split()
        s = stream(path, "a:0", "sample_rate", "channels", "bit_rate")
        rate = sum(int(x.strip(",")) for x in p) * 8 / (len(p) * 1024 / 48000)
        check("%d channels" % channels, s["sample_rate"] == "48000" and s["channels"] == channels,
              "asked %d, measured %.0f (a pure tone may need less)" % (64000 * channels, rate))


with tempfile.TemporaryDirectory(prefix="spindle-cases") as TMP:
    for name, test in list(globals().items()):
        if len(name) == 4 and name[2:].isdigit() and callable(test) and (not WANTED or name.upper() in WANTED):
            case = name.upper()
            try:
                test()
            except Missing as e:
                print("%-5s left out: no %s" % (case, e))
            except Exception as e:  # noqa: BLE001: a case that breaks has failed
                check("runs", False, "%s: %s" % (type(e).__name__, e))
print("%d failed" % len(failed))
sys.exit(bool(failed))
