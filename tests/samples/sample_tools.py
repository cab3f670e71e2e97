#!/usr/bin/env python3
"""Helpers of make.sh: subtitle texts, PGS writer, Dolby Vision signalling, EXIF,
odd file names, broken files, the manifest and its check against ffprobe. Standard library only."""
import json, os, random, re, shutil, struct, subprocess, sys

def w(path, text, enc="utf-8"):
    with open(path, "w", encoding=enc, newline="\n") as f:
        f.write(text)

def ts(sec, sep=","):
    ms = int(round(sec * 1000))
    return "%02d:%02d:%02d%s%03d" % (ms // 3600000, ms // 60000 % 60, ms // 1000 % 60, sep, ms % 1000)

def srt(cues):
    return "".join("%d\n%s --> %s\n%s\n\n" % (i + 1, ts(a), ts(b), t) for i, (a, b, t) in enumerate(cues))

# ------------------------------------------------------------------ subtitle texts
def subs(d):
    p = lambda n: os.path.join(d, n)
    beats = lambda word: [(i * 2, i * 2 + 1.5, "%s %d s" % (word, i * 2)) for i in range(30)]
    w(p("en.srt"), srt(beats("Clock shows")))
    w(p("short.srt"), srt(beats("Clock shows")[:6]))
    w(p("fr.srt"), srt(beats("L’horloge indique déjà")))
    w(p("en.forced.srt"), srt([(3, 5, "[sign: HARBOR]"), (8, 9, "[sign: EXIT]")]))
    w(p("en.sdh.srt"), srt([(0, 1.5, "♪ steady tone ♪"), (2, 3.5, "(tone rises)"), (8, 9, "MAN: The clock shows 8.")]))
    w(p("es.srt"), srt([(1, 3, "¿Dónde está el niño?"), (4, 6, "Mañana – “quizás”… 10 €")]))
    w(p("ja.srt"), srt([(1, 3, "時計を見てください"), (4, 6, "次の駅は東京です")]))
    w(p("ru.srt"), srt([(1, 3, "Посмотрите на часы"), (4, 6, "Следующая остановка")]))
    w(p("el.srt"), srt([(1, 3, "Κοίτα το ρολόι"), (4, 6, "Επόμενη στάση")]))
    w(p("zh.srt"), srt([(1, 3, "請看時鐘"), (4, 6, "下一站是海港")]))
    w(p("zhs.srt"), srt([(1, 3, "请看时钟"), (4, 6, "下一站是海港")]))
    w(p("de.srt"), srt([(1, 3, "Schöne Grüße"), (4, 6, "Nächster Halt: Hafenstraße")]))
    w(p("odd.srt"), "1\n00:00:01.000 --> 00:00:03.000\n<i>dots</i> & <font color=\"#ff0000\">tags</font>\n\n"
      "00:00:02,500 --> 00:00:04,000\nno index, overlaps\n\n\n\n3\n00:00:05,000-->00:00:06,000\nno spaces round the arrow\n\n"
      "4\n00:00:07,000 --> 00:00:08,500  X1:10 X2:20 Y1:1 Y2:2\nno line end at the end")
    w(p("en.vtt"), "WEBVTT\n\nNOTE made for tests\n\nintro\n00:00.000 --> 00:01.500 line:10% align:start\nClock shows <b>0</b> s\n\n"
      + "".join("%s --> %s\nClock shows %d s\n\n" % (ts(i * 2, "."), ts(i * 2 + 1.5, "."), i * 2) for i in range(1, 30)))
    w(p("en.smi"), "<SAMI><HEAD><STYLE TYPE=\"text/css\"><!-- .KRCC {Name:Korean; lang:ko-KR; SAMIType:CC;} --></STYLE></HEAD><BODY>\n"
      + "".join("<SYNC Start=%d><P Class=KRCC>Clock shows %d s\n<SYNC Start=%d><P Class=KRCC>&nbsp;\n" % (i * 2000, i * 2, i * 2000 + 1500) for i in range(6))
      + "</BODY></SAMI>\n")
    ev = "".join("Dialogue: 0,%s,%s,%s,,0,0,0,,%s\n" % (ts(i * 2, ".")[1:-1], ts(i * 2 + 1.5, ".")[1:-1],
        "Sign" if i % 3 == 0 else "Default",
        ("{\\pos(320,200)\\c&H0000FF&\\b1}SIGN %d" if i % 3 == 0 else "{\\i1}clock{\\i0}\\Nshows %d s") % (i * 2)) for i in range(30))
    w(p("styled.ass"), "[Script Info]\nScriptType: v4.00+\nPlayResX: 640\nPlayResY: 360\nWrapStyle: 0\nScaledBorderAndShadow: yes\n\n"
      "[V4+ Styles]\nFormat: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\n"
      "Style: Default,DejaVu Sans Mono,24,&H00FFFFFF,&H000000FF,&H00000000,&H80000000,0,0,0,0,100,100,0,0,1,2,1,2,20,20,20,1\n"
      "Style: Sign,DejaVu Sans Mono,30,&H0000FFFF,&H000000FF,&H00000000,&H80000000,-1,0,0,0,100,100,0,0,1,2,1,8,20,20,20,1\n\n"
      "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n" + ev)
    names = ["Opening", "Ünïcode chapter", "", "Chapter; with = signs", "Credits"]
    w(p("chapters.txt"), "".join("CHAPTER%02d=%s\nCHAPTER%02dNAME=%s\n" % (i + 1, ts(i * 12, "."), i + 1, n) for i, n in enumerate(names)))
    esc = lambda s: re.sub(r"([=;#\\\n])", r"\\\1", s)
    w(p("chapters.ffmeta"), ";FFMETADATA1\ntitle=Long Listen\nartist=Made Up Author\n" + "".join(
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=%d\nEND=%d\ntitle=%s\n" % (i * 12000, i * 12000 + 12000, esc(n)) for i, n in enumerate(names)))

def longsubs(total, base):
    w(base + ".srt", srt([(t, t + 4, "cue at %d" % t) for t in range(0, total, 10)]))
    w(base + ".chapters.txt", "".join("CHAPTER%02d=%s\nCHAPTER%02dNAME=Part %d\n" % (i + 1, ts(i * total / 24, "."), i + 1, i + 1) for i in range(24)))

# ------------------------------------------------------------------ PGS (.sup)
def pgs(gray, gw, gh, W, H, out):
    """Writes a Blu-ray bitmap subtitle stream: one bitmap shown at 1–3, 5–7 and 9–11 s."""
    px = open(gray, "rb").read()
    rle = bytearray()
    for y in range(gh):
        row = [1 if px[y * gw + x] > 127 else 2 for x in range(gw)]
        x = 0
        while x < gw:
            n = 1
            while x + n < gw and row[x + n] == row[x] and n < 16383:
                n += 1
            c = row[x]
            if n < 3:
                rle += bytes([c]) * n
            elif n < 64:
                rle += bytes([0, 0x80 | n, c])
            else:
                rle += bytes([0, 0xC0 | (n >> 8), n & 255, c])
            x += n
        rle += b"\0\0"
    o = open(out, "wb")
    def seg(t, typ, data):
        o.write(b"PG" + struct.pack(">IIBH", int(t * 90000), 0, typ, len(data)) + data)
    X, Y, comp = (W - gw) // 2, H - gh - 10, 0
    for start, end in ((1, 3), (5, 7), (9, 11)):
        seg(start, 0x16, struct.pack(">HHBHBBBB", W, H, 0x10, comp, 0x80, 0, 0, 1) + struct.pack(">HBBHH", 0, 0, 0, X, Y))
        seg(start, 0x17, struct.pack(">BBHHHH", 1, 0, X, Y, gw, gh))
        seg(start, 0x14, bytes([0, 0]) + bytes([1, 235, 128, 128, 255]) + bytes([2, 16, 128, 128, 0]))
        body = struct.pack(">HH", gw, gh) + bytes(rle)
        seg(start, 0x15, struct.pack(">HBB", 0, 0, 0xC0) + struct.pack(">I", len(body))[1:] + body)
        seg(start, 0x80, b"")
        comp += 1
        seg(end, 0x16, struct.pack(">HHBHBBBB", W, H, 0x10, comp, 0, 0, 0, 0))
        seg(end, 0x17, struct.pack(">BBHHHH", 1, 0, X, Y, gw, gh))
        seg(end, 0x80, b"")
        comp += 1
    o.close()

# ------------------------------------------------------------------ Dolby Vision signalling
def dovi(src, dst, profile, compat):
    """Adds a Dolby Vision configuration record to the hvc1 entry of an mp4 whose moov comes last."""
    b = bytearray(open(src, "rb").read())
    def find(lo, hi, path):
        while lo + 8 <= hi:
            n, t = struct.unpack_from(">I4s", b, lo)
            if n < 8: raise SystemExit("box size")
            if t == path[0].encode():
                if len(path) == 1: return [lo]
                skip = {"stsd": 16}.get(path[0], 8)
                r = find(lo + skip, lo + n, path[1:])
                if r: return [lo] + r
            lo += n
        return None
    chain = find(0, len(b), ["moov", "trak", "mdia", "minf", "stbl", "stsd", "hvc1"])
    if not chain: raise SystemExit("no hvc1 entry")
    end = chain[-1] + struct.unpack_from(">I", b, chain[-1])[0]
    bits = (profile << 9) | (3 << 3) | (1 << 2) | (0 << 1) | 1   # profile 7 bits, level 6, rpu, el, bl
    rec = bytes([1, 0]) + struct.pack(">H", bits) + bytes([compat << 4]) + bytes(19)
    box = struct.pack(">I4s", 8 + len(rec), b"dvvC" if profile > 7 else b"dvcC") + rec
    b[end:end] = box
    for off in chain:
        struct.pack_into(">I", b, off, struct.unpack_from(">I", b, off)[0] + len(box))
    if profile == 5:
        b[chain[-1] + 4:chain[-1] + 8] = b"dvh1"
    open(dst, "wb").write(b)

def exif(src, dst, orient, when):
    """Inserts an APP1 segment with Orientation and DateTimeOriginal."""
    j = open(src, "rb").read()
    dt = when.encode() + b"\0"
    ifd0 = struct.pack("<H", 2) + struct.pack("<HHIHH", 0x112, 3, 1, orient, 0) + struct.pack("<HHII", 0x8769, 4, 1, 38) + struct.pack("<I", 0)
    exififd = struct.pack("<H", 1) + struct.pack("<HHII", 0x9003, 2, len(dt), 56) + struct.pack("<I", 0)
    tiff = b"II*\0" + struct.pack("<I", 8) + ifd0 + exififd + dt
    app1 = b"Exif\0\0" + tiff
    open(dst, "wb").write(j[:2] + b"\xff\xe1" + struct.pack(">H", len(app1) + 2) + app1 + j[2:])

# ------------------------------------------------------------------ odd names
def emit(path, recs):
    with open(path, "w") as f:
        for r in recs: f.write(json.dumps(r) + "\n")

def names(out, mp4, mkv, recfile):
    root = os.fsencode(os.path.join(out, "Names"))
    os.makedirs(root, exist_ok=True)
    recs, n = [], 0
    V = "v,h264,High,320x180,25,yuv420p;a,aac,LC,2,48000"
    def put(rel, expect, note="", src=mp4):
        nonlocal n
        if isinstance(rel, str): rel = rel.encode("utf-8")
        dst = os.path.join(root, rel)
        os.makedirs(os.path.dirname(dst), exist_ok=True)
        data = open(src, "rb").read()
        n += 1
        with open(dst, "wb") as f:      # a trailing free box / void element keeps the contents distinct
            f.write(data)
            tag = b"sample %06d" % n
            f.write(struct.pack(">I4s", 8 + len(tag), b"free") + tag if src == mp4 else b"\xec" + bytes([0x80 | len(tag)]) + tag)
        recs.append(dict(path=os.fsdecode(b"Names/" + rel), kind="video", container="mp4" if src == mp4 else "mkv", duration=3, streams=V, expect=expect, features=["names"], note=note))
    mv = lambda t, y: "type=movie|title=%s|year=%d" % (t, y)
    nfd, nfc = "Cre\u0300me Bru\u0302le\u0301e", "Crème Brûlée"
    put("%s (2001)/%s (2001).mp4" % (nfd, nfd), mv(nfc, 2001), "folder and file in NFD; title must come out as NFC")
    put("%s (2002)/%s (2002).mp4" % (nfc, nfd), mv(nfc, 2002), "folder NFC, file NFD")
    put("Twins NFC/Café (2003).mp4", mv("Café", 2003), "NFC twin"); put("Twins NFD/Cafe\u0301 (2003).mp4", mv("Café", 2003), "NFD twin of the same title")
    put("🎬 Night 🌙 (2018).mp4", mv("🎬 Night 🌙", 2018), "emoji outside the BMP")
    put("Track #1 (2015).mp4", mv("Track #1", 2015), "# must be escaped in URLs")
    put("What Is It? (2012).mp4", mv("What Is It?", 2012)); put("100% Wolfram (2020).mp4", mv("100% Wolfram", 2020))
    put("%41 percent (2013).mp4", mv("%41 percent", 2013), "must not be decoded to A"); put("Plus+Minus & Co (2011).mp4", mv("Plus+Minus & Co", 2011))
    put("The \"Quoted\" Tale (2009).mp4", mv("The \"Quoted\" Tale", 2009)); put("Miller's Gate (2010).mp4", mv("Miller's Gate", 2010))
    put("Back\\slash (2008).mp4", mv("Back\\slash", 2008)); put("Semi;colon, comma (2007).mp4", mv("Semi;colon, comma", 2007))
    put("Colon: Part (2006).mp4", mv("Colon: Part", 2006), "has a colon"); put("Tab\tand\nnewline (2005).mp4", "type=movie|year=2005", "control characters in the name")
    put("-i dash first (2016).mp4", "type=movie|year=2016", "a leading dash must not become an option of a child process")
    put("file:proto (2017).mp4", "type=movie|year=2017", "must be opened as a path, not as a protocol"); put("concat:a|b (2019).mp4", "type=movie|year=2019", "same")
    put("frame%03d (2022).mp4", mv("frame%03d", 2022), "not an image sequence pattern"); put("glob[ab]*{c} (2021).mp4", "type=movie|year=2021", "not a glob")
    put("$(id) `id` ; id (2014).mp4", "type=movie|year=2014", "must never reach a shell"); put("quote'; DROP TABLE x (2004).mp4", "type=movie|year=2004", "must never reach SQL text")
    put("<b>bold</b> & <img src=x onerror=alert(1)> (2003).mp4".replace("/", "\u2215"), "type=movie|year=2003", "must be shown as text")
    put("..two dots (2000).mp4", "type=movie|year=2000"); put("trailing dot. (1999)./trailing dot. (1999).mp4", "type=movie|year=1999")
    put(" leading and trailing space (1998) /x y  (1998) .mp4", "type=movie|year=1998")
    put("Полночь (1997).mp4", mv("Полночь", 1997)); put("真夜中 (1996).mp4", mv("真夜中", 1996)); put("منتصف الليل (1995).mp4", mv("منتصف الليل", 1995), "right to left")
    put("Zero\u200bwidth and \u202eoverride (1994).mp4", "type=movie|year=1994", "zero width space, right-to-left override"); put("Intel·ligent (1993).mp4", mv("Intel·ligent", 1993))
    put("Case Twin (1992).mp4", mv("Case Twin", 1992)); put("CASE TWIN (1992).mp4", mv("CASE TWIN", 1992), "differs only in case: two files"); put("UPPER (1991).MP4", mv("UPPER", 1991), "extension in capitals")
    put("CON (1990).mp4", mv("CON", 1990), "reserved on Windows"); put("many.dots.in.name.1989.mp4", mv("many dots in name", 1989)); put("no_ext_dots (1988).mkv.mp4", "type=movie|year=1988")
    long = "L" * (250 - len(" (1987).mp4")) + " (1987).mp4"
    put(long, "type=movie|year=1987", "250 byte name"); put("長" * 80 + " (86).mp4", "type=movie", "249 bytes, 88 characters")
    put("/".join("level%02d" % i for i in range(40)) + "/Deep (1985).mp4", mv("Deep", 1985), "40 folders deep")
    put("/".join(["d" * 200] * 18) + "/Far (1984).mp4", mv("Far", 1984), "path of about 3,700 bytes")
    put(b"bad \xff\xe9 utf8 (1983).mp4", "type=movie|year=1983", "not valid UTF-8: either listed and playable, or skipped with a warning; never a failed scan")
    for rel, note in ((".hidden (1982).mp4", "hidden file"), ("._Case Twin (1992).mp4", "AppleDouble"), ("@eaDir/Case Twin (1992).mp4/SYNOVIDEO.mp4", "NAS thumbnails"),
                      ("#recycle/Gone (1981).mp4", "recycle bin"), (".Trash-1000/files/Gone (1980).mp4", "trash"), ("lost+found/x (1979).mp4", "lost+found"),
                      ("Ignored/.ignore", "ignore marker"), ("Ignored/Skip (1978).mp4", "folder has a marker file .ignore"), ("Partial (1977).mp4.part", "still downloading"), ("Partial (1976).mp4.!qB", "still downloading"), (".stversions/Old (1975).mp4", "sync tool versions")):
        put(rel, "type=ignored", note)
    recs[:] = [r for r in recs if not r["path"].endswith("/.ignore")]
    open(os.path.join(root, b"Ignored/.ignore"), "wb").close()
    j = lambda *a: os.path.join(root, *a)
    os.makedirs(j(b"Links/inner"), exist_ok=True)
    put("Links/Real (1974).mp4", mv("Real", 1974))
    def link(target, at, note, expect):
        if os.path.lexists(at): os.unlink(at)
        os.symlink(target, at)
        recs.append(dict(path=os.fsdecode(os.path.relpath(at, os.fsencode(out))), kind="link", container="", duration=None, streams="", expect=expect, features=["names"], note=note))
    link(b"..", j(b"Links/inner/up"), "loop to a parent: the scan must end", "type=ignored")
    link(j(b"Links"), j(b"Links/self"), "loop through an absolute link", "type=ignored")
    link(b"missing.mp4", j(b"Links/Dangling (1973).mp4"), "target does not exist: scan goes on", "type=ignored")
    link(b"Real (1974).mp4", j(b"Links/Linked (1974).mp4"), "link to a real film", "type=movie|title=Linked|year=1974")
    hard = j(b"Links/Hard (1972).mp4")
    if os.path.lexists(hard): os.unlink(hard)
    os.link(j(b"Links/Real (1974).mp4"), hard)
    recs.append(dict(path="Names/Links/Hard (1972).mp4", kind="video", container="mp4", duration=3, streams=V, expect=mv("Hard", 1972), features=["names"], note="same inode as Real (1974)"))
    emit(recfile, recs)

# ------------------------------------------------------------------ broken files
def broken(out, tmp, recfile):
    root = os.path.join(out, "Broken"); os.makedirs(root, exist_ok=True)
    rd = lambda n: open(os.path.join(tmp, n), "rb").read()
    fs, me, mkv, t, mp3 = rd("fs.mp4"), rd("me.mp4"), rd("base.mkv"), rd("b.ts"), rd("b.mp3")
    rnd = random.Random(5); noise = lambda n: bytes(rnd.getrandbits(8) for _ in range(n))
    recs = []
    def put(name, data, expect, note):
        p = os.path.join(root, name); os.makedirs(os.path.dirname(p), exist_ok=True)
        open(p, "wb").write(data)
        recs.append(dict(path="Broken/" + name, kind="broken", container=os.path.splitext(name)[1][1:], duration=None, streams="", expect=expect, features=["broken"], note=note))
    box = lambda typ, data, size=None: struct.pack(">I4s", 8 + len(data) if size is None else size, typ) + data
    put("zero.mp4", b"", "readable=no", "no bytes"); put("zero.mkv", b"", "readable=no", "no bytes")
    put("random.mp4", noise(100000), "readable=no", "noise"); put("random.mkv", noise(100000), "readable=no", "noise")
    put("text.mkv", b"This is not a film.\n" * 50, "readable=no", "plain text")
    put("cut-faststart.mp4", fs[:len(fs) * 6 // 10], "readable=partial", "index whole, 40 % of the media missing")
    put("cut-moov-at-end.mp4", me[:len(me) * 6 // 10], "readable=no", "index was in the missing part")
    put("cut.mkv", mkv[:len(mkv) * 6 // 10], "readable=partial", "cut in the middle of a cluster")
    put("header-only.mkv", mkv[:400], "readable=no", "EBML header and little more"); put("header-only.mp4", me[:32], "readable=no", "ftyp box only")
    put("mkv-named.mp4", mkv, "readable=yes|container=mkv", "Matroska inside"); put("mp4-named.avi", fs, "readable=yes|container=mp4", "MP4 inside"); put("ts-named.mkv", t, "readable=yes|container=mpegts", "MPEG-TS inside")
    put("huge-mdat.mp4", box(b"ftyp", b"isom\0\0\2\0isomiso2mp41") + struct.pack(">I4sQ", 1, b"mdat", 1 << 62) + noise(4096), "readable=no", "says it has 4 EiB of media")
    put("huge-table.mp4", box(b"ftyp", b"isom\0\0\2\0isomiso2mp41") + box(b"moov", box(b"trak", box(b"mdia", box(b"minf", box(b"stbl", box(b"stsz", struct.pack(">III", 0, 0, 0xFFFFFFFF))))))), "readable=no", "sample table claims 2^32-1 entries: no such allocation")
    deep = b""
    for _ in range(5000): deep = box(b"moov", deep)
    put("deep-boxes.mp4", box(b"ftyp", b"isom\0\0\2\0isomiso2mp41") + deep, "readable=no", "5,000 nested boxes: no stack overflow")
    put("zero-size-box.mp4", box(b"ftyp", b"isom\0\0\2\0isomiso2mp41") + struct.pack(">I4s", 0, b"free") + b"\0" * 64 + struct.pack(">I4s", 4, b"bad!"), "readable=no", "box sizes 0 and 4: no endless loop")
    put("huge-ebml.mkv", mkv[:40] + b"\x18\x53\x80\x67\x01" + b"\xff" * 6 + b"\xfe" + b"\x15\x49\xa9\x66\x08\xff\xff\xff\xff" + noise(2000), "readable=no", "element says 2^56-2 bytes")
    i = fs.find(b"mvhd"); lie = bytearray(fs)
    lie[i + 16 + 4:i + 16 + 8] = struct.pack(">I", 1000 * 36000)
    put("lying-duration.mp4", bytes(lie), "readable=yes", "header says 10 hours, media is 12 s")
    g = bytearray(t); junk = noise(5000); mid = len(g) // 2 // 188 * 188; g[mid:mid] = junk
    put("garbage-inside.ts", bytes(g), "readable=yes", "5,000 bytes of noise between packets, sync lost once")
    put("cut-packet-start.ts", t[100:], "readable=yes", "does not start at a packet edge")
    put("big-id3.mp3", b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + mp3, "readable=partial", "tag says it is 256 MiB long")
    put("cut.mp3", mp3[:len(mp3) // 2 + 17], "readable=yes", "half the frames, last one cut")
    put("playlist-inside.mp4", b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nfile:///etc/hostname\n#EXTINF:5,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n", "readable=no", "a playlist with a media name: no local file or network access may follow from it")
    put("script-inside.mkv", b"ffconcat version 1.0\nfile '/etc/hostname'\n", "readable=no", "a concat script with a media name: must not be followed")
    put("subtitle-inside.srt", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n", "readable=no", "same trap as a sidecar")
    put("xxe/movie.nfo", b'<?xml version="1.0"?>\n<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/hostname">]>\n<movie><title>&x;</title><year>2001</year></movie>\n', "title_must_not_contain=hostname", "external entity")
    lol = b'<?xml version="1.0"?>\n<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa">' + b"".join(b'<!ENTITY %c "&%c;&%c;&%c;&%c;&%c;&%c;&%c;&%c;">' % ((98 + k,) + (97 + k,) * 8) for k in range(8)) + b"]>\n<movie><title>&i;</title></movie>\n"
    put("bomb/movie.nfo", lol, "bounded=1", "entity expansion: bounded time and memory")
    put("odd/movie.nfo", b"\xef\xbb\xbf<movie>\n <title>No declaration & bad ampersand</title>\n <year>20x1</year>\n</movie>\nhttps://example.invalid/title/tt0000001/\n", "title=No declaration & bad ampersand", "not well-formed, as found in the wild; text after the root")
    for d in ("xxe", "bomb", "odd"): put(d + "/movie.mp4", fs, "readable=yes", "film beside the bad NFO")
    put("svg/poster.jpg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><image href="file:///etc/hostname"/></svg>', "image=no", "SVG named .jpg: must not be served as a picture or as HTML")
    put("svg/movie.mp4", fs, "readable=yes", "film beside the bad poster")
    put("bomb.png", b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 6, 0, 0, 0) + b"\0\0\0\0", "image=no", "says 60000 × 60000: refuse by size before decoding")
    emit(recfile, recs)

# ------------------------------------------------------------------ manifest
def stream(spec):
    f = spec.split(","); k = f[0]; s = {}
    opts = {}
    rest = []
    for x in f[1:]:
        m = re.match(r"([a-z0-9]+)=(.*)", x)
        if m: opts[m[1]] = m[2]
        else: rest.append(x)
    if k == "v":
        s = dict(type="video", codec=rest[0], profile=rest[1] or None, width=int(rest[2].split("x")[0]), height=int(rest[2].split("x")[1]),
                 fps=None if rest[3] == "-" else rest[3], pix_fmt=rest[4])
        ren = dict(sar="sample_aspect_ratio", dar="display_aspect_ratio", field="field_order", rot="rotation", trc="color_transfer", prim="color_primaries", mtx="color_space", range="color_range", tag="codec_tag", dv="dolby_vision", keys="keyframes")
        for a, b in opts.items():
            s[ren.get(a, a)] = b
        if "keyframes" in s: s["keyframes"] = [float(x) for x in s["keyframes"].split()]
        for n in ("rotation", "level", "refs"): s[n] = int(s[n]) if n in s else s.get(n)
        s = {a: b for a, b in s.items() if b is not None}
        return s
    if k == "a":
        s = dict(type="audio", codec=rest[0], profile=rest[1] or None, channels=int(rest[2]), sample_rate=int(rest[3]))
    elif k == "s": s = dict(type="subtitle", codec=rest[0])
    elif k == "t": s = dict(type="attachment", codec=rest[0])
    elif k == "p": s = dict(type="attached_pic", codec=rest[0], width=int(rest[1].split("x")[0]), height=int(rest[1].split("x")[1]))
    elif k == "i": s = dict(type="image", codec=rest[0], width=int(rest[1].split("x")[0]), height=int(rest[1].split("x")[1]))
    elif k == "d": s = dict(type="data", codec=rest[0])
    if "disp" in opts: s["disposition"] = opts.pop("disp").split("+")
    if "lang" in opts: s["language"] = opts.pop("lang")
    s.update(opts)
    return {a: b for a, b in s.items() if b is not None}

NUM = ("year", "season", "absolute", "part", "disc", "track", "chapters", "orientation", "total_duration", "cues", "cue_tracks", "forced", "default", "hearing_impaired", "animated", "compilation", "untagged")
def expect(text):
    e = {}
    for kv in filter(None, text.split("|")):
        a, b = kv.split("=", 1)
        if a in NUM and re.fullmatch(r"\d+", b): b = int(b)
        if a == "episodes": b = [int(x) for x in b.split()]
        e[a] = b
    return e

def manifest(out, *recfiles):
    items = []
    for rf in recfiles:
        if not os.path.exists(rf): continue
        if rf.endswith((".names", ".broken")):
            raw = [json.loads(l) for l in open(rf)]
        else:
            raw = []
            for line in open(rf, encoding="utf-8").read().split("\n"):
                if not line: continue
                f = line.split("\x1f")
                raw.append(dict(path=f[0], kind=f[1], container=f[2], duration=None if f[3] == "-" else float(f[3]), streams=f[4], expect=f[5], features=[x for x in f[6].split(",") if x], note=f[7]))
        for r in raw:
            p = os.path.join(out, r["path"])
            st = [stream(s) for s in r["streams"].split(";") if s] if r["streams"] else []
            it = dict(path=r["path"], kind=r["kind"], container=r["container"])
            if re.search("[\udc80-\udcff]", r["path"]): it["path_hex"] = os.fsencode(r["path"]).hex()
            if r["duration"] is not None: it["duration"] = r["duration"]
            if st: it["streams"] = st
            it["expect"] = expect(r["expect"])
            if r["features"]: it["features"] = r["features"]
            if r["note"]: it["note"] = r["note"]
            if os.path.exists(p) and not os.path.islink(p): it["size"] = os.path.getsize(p)
            items.append(it)
    items.sort(key=lambda i: i["path"])
    # the clock readable from every picture unless cropped or scaled away
    doc = dict(version=1, clock="see read_clock.py", files=items)
    with open(os.path.join(out, "manifest.json"), "w", encoding="utf-8", errors="surrogateescape") as f:
        json.dump(doc, f, indent=1, ensure_ascii=True)
    print("manifest: %d files" % len(items))

FMT = dict(mp4="mov,mp4", mov="mov,mp4", mkv="matroska", webm="matroska", mpegts="mpegts", mpegps="mpeg", avi="avi", asf="asf", flv="flv", ogg="ogg", flac="flac", mp3="mp3", wav="wav", wv="wv", aiff="aiff")
def verify(out):
    doc = json.load(open(os.path.join(out, "manifest.json"))); bad = n = 0
    for it in doc["files"]:
        p = os.path.join(os.fsencode(out), bytes.fromhex(it["path_hex"]) if "path_hex" in it else os.fsencode(it["path"]))
        errs = []
        if not os.path.lexists(p): errs.append("missing"); info = None
        elif it["kind"] in ("video", "audio", "photo") or (it["kind"] == "sidecar" and "ffprobe_cannot" not in it.get("features", [])):
            arg = b"file:" + p
            r = subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_format", "-show_streams", "-show_chapters", arg], capture_output=True)
            info = json.loads(r.stdout or b"{}")
        else: info = None
        n += 1
        if info is not None:
            if not info.get("streams"): errs.append("ffprobe found nothing")
            else: errs += compare(it, info)
        if errs:
            bad += 1; print("%s: %s" % (it["path"].encode("ascii", "backslashreplace").decode(), "; ".join(errs)))
    print("%d files checked, %d with differences" % (n, bad))
    return 1 if bad else 0

def compare(it, info):
    e, fmt = [], info["format"]
    if it["container"] in FMT and not fmt["format_name"].startswith(FMT[it["container"]]): e.append("container %s" % fmt["format_name"])
    if it.get("duration") and it["kind"] in ("video", "audio"):
        d = float(fmt.get("duration", 0)); tol = max(0.25, 0.01 * it["duration"])
        tol = max([tol] + [float(s.get("durtol", 0)) for s in it["streams"]])
        if abs(d - it["duration"]) > tol: e.append("duration %.3f, declared %.3f" % (d, it["duration"]))
    if it.get("expect", {}).get("chapters") not in (None, len(info.get("chapters", []))): e.append("chapters %d" % len(info.get("chapters", [])))
    got = []
    for s in info["streams"]:
        t = s.get("codec_type", "data")
        if s.get("disposition", {}).get("attached_pic"): t = "attached_pic"
        if it["kind"] == "photo": t = "image"
        got.append((t, s))
    want = it.get("streams", [])
    for t in ("video", "audio", "subtitle", "attached_pic", "attachment", "image", "data"):
        g = [s for k, s in got if k == t]; ws = [s for s in want if s["type"] == t]
        if len(g) != len(ws): e.append("%s streams %d, declared %d" % (t, len(g), len(ws))); continue
        for a, b in zip(ws, g):
            def chk(name, val):
                if name in a and str(a[name]).lower() != str(val).lower(): e.append("%s %s=%s, declared %s" % (t, name, val, a[name]))
            if t in ("data", "attachment"): continue
            chk("codec", b.get("codec_name")); chk("width", b.get("width")); chk("height", b.get("height")); chk("pix_fmt", b.get("pix_fmt")); chk("channels", b.get("channels")); chk("sample_rate", b.get("sample_rate"))
            chk("profile", b.get("profile")); chk("sample_aspect_ratio", b.get("sample_aspect_ratio")); chk("display_aspect_ratio", b.get("display_aspect_ratio")); chk("field_order", b.get("field_order"))
            for c in ("color_transfer", "color_primaries", "color_space", "color_range", "level"): chk(c, b.get(c))
            if "codec_tag" in a: chk("codec_tag", b.get("codec_tag_string"))
            if "language" in a: chk("language", b.get("tags", {}).get("language"))
            sd = b.get("side_data_list", [])
            if "rotation" in a:
                rot = [x.get("rotation") for x in sd if "rotation" in x]
                if not rot or (int(rot[0]) + a["rotation"]) % 360: e.append("rotation %s" % rot)
            if "dolby_vision" in a:
                dv = [x for x in sd if "dv_profile" in x]
                if not dv or "%d.%d" % (dv[0]["dv_profile"], dv[0]["dv_bl_signal_compatibility_id"]) != a["dolby_vision"]: e.append("dolby vision %s" % dv)
            if t == "video" and a.get("fps") and b.get("r_frame_rate"):
                x, y = (a["fps"].split("/") + ["1"])[:2]; p, q = b["avg_frame_rate"].split("/")
                if float(q) and abs(float(x) / float(y) - float(p) / float(q)) > 0.35: e.append("fps %s" % b["avg_frame_rate"])
            for dsp in a.get("disposition", []):
                if not b["disposition"].get(dsp): e.append("%s lacks disposition %s" % (t, dsp))
            for dsp in ("forced", "hearing_impaired", "comment"):
                if b["disposition"].get(dsp) and dsp not in a.get("disposition", []): e.append("%s has disposition %s" % (t, dsp))
    return e

if __name__ == "__main__":
    c, a = sys.argv[1], sys.argv[2:]
    if c == "subs": subs(a[0])
    elif c == "longsubs": longsubs(int(a[0]), a[1])
    elif c == "pgs": pgs(a[0], int(a[1]), int(a[2]), int(a[3]), int(a[4]), a[5])
    elif c == "dovi": dovi(a[0], a[1], int(a[2]), int(a[3]))
    elif c == "exif": exif(a[0], a[1], int(a[2]), a[3])
    elif c == "names": names(*a)
    elif c == "broken": broken(*a)
    elif c == "manifest": manifest(*a)
    elif c == "verify": sys.exit(verify(a[0]))
    else: sys.exit("unknown command " + c)
