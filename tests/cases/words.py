"""Subtitles: in step after a seek, in every code page, by the names of their files, and drawn into the picture."""
import os
import re

import media
from house import COPIES, DIRECT, MADE, client, near
from report import check


def vtt(played, index):
    """(begins, ends, text) of every cue of a track, and the answer's headers."""
    url = next(s["url"] for s in played.answer["subtitles"] if s["index"] == index)
    status, headers, body = played.server.request("GET", played.server.path_of(url))
    check(status == 200, "subtitles: %d %s" % (status, body[:200]))
    text = body.decode("utf-8")
    check(text.startswith("WEBVTT"), text[:80])
    second = lambda h, m, s: (int(h or 0) * 60 + int(m)) * 60 + float(s)
    cues = []
    for block in re.split(r"\n\n+", text.replace("\r\n", "\n")):
        found = re.search(r"(?:(\d+):)?(\d+):([\d.]+) --> (?:(\d+):)?(\d+):([\d.]+)[^\n]*\n(.*)", block, re.S)
        if found:
            cues.append((second(*found.groups()[:3]), second(*found.groups()[3:6]), found[7].strip()))
    return cues, headers, text


def SU01(at):
    """text_is_shown_at_its_time_after_every_jump"""
    index = at.stream("Two Hours", "subtitle")
    for who in (DIRECT, COPIES, MADE):
        for start in (0, 4003, 6999):
            with at.play("Two Hours", who, start_s=start, subtitle=index) as played:
                cues, headers, _ = vtt(played, index)
                begins, ends, _ = next(c for c in cues if "4000" in c[2])
                near(begins, 4000, 0.1, "%s: where the cue begins" % played.method)
                near(ends, 4004, 0.1, "%s: where it ends" % played.method)
                if who is not DIRECT and start == 4003:
                    # What is seen while the cue is shown.
                    rows = sorted(media.pictures(played.cut([played.at(4003)], "su01")))
                    shown = [clock for time_s, clock in rows if begins <= time_s < ends]
                    check(shown and all(3999.9 <= clock <= 4004.1 for clock in shown), "%s: shown with the cue: %s" % (played.method, shown[:3]))


def side_files(at):
    """Name below the film's folder -> what the manifest says of it."""
    import json
    rows = json.load(open(os.path.join(at.folder, "manifest.json")))["files"]
    here = "Movies/Caption Street (1960)/"
    return {row["path"][len(here):]: row for row in rows if row.get("path", "").startswith(here) and row["kind"] == "sidecar"}


def SU03(at):
    """every_code_page_arrives_as_utf8"""
    wanted = {name: row["expect"]["text"] for name, row in side_files(at).items() if "text" in row["expect"]}
    check(len(wanted) >= 8, "%s" % sorted(wanted))
    streams = at.detail("Caption Street")["versions"][0]["streams"]
    with at.play("Caption Street", DIRECT) as played:
        for name, text in wanted.items():
            index = next((s["index"] for s in streams if s["kind"] == "subtitle" and str(s.get("external", "")).endswith(name)), None)
            check(index is not None, "%s is not attached: %s" % (name, [s for s in streams if s["kind"] == "subtitle"][:3]))
            cues, headers, told = vtt(played, index)
            check(text in told, "%s: %r is not in %r" % (name, text, told[:200]))
            kind = {k.lower(): v for k, v in headers.items()}["content-type"]
            check(kind == "text/vtt; charset=utf-8", kind)
        # Those without a text of their own are read too: marks, line ends and all.
        for name, row in side_files(at).items():
            index = next((s["index"] for s in streams if s["kind"] == "subtitle" and str(s.get("external", "")).endswith("/" + name)), None)
            if index is not None and any(t["index"] == index and t.get("url") for t in played.answer["subtitles"]):
                cues, _, told = vtt(played, index)
                check(cues and "�" not in told, "%s: %r" % (name, told[:200]))


def SU04(at):
    """side_files_say_their_language_and_marks_by_their_names"""
    streams = {s["external"]: s for s in at.detail("Caption Street")["versions"][0]["streams"] if s.get("external")}
    for name, row in side_files(at).items():
        expect = row["expect"]
        stream = streams.get(os.path.basename(name))
        if expect["of"] == "":
            check(stream is None, "%s is attached" % name)
            continue
        if stream is None and not name.endswith((".srt", ".ass", ".vtt")):
            continue
        check(stream is not None, "%s is not attached: %s" % (name, sorted(streams)))
        short = {"en": "eng", "fr": "fra", "de": "deu", "es": "spa", "it": "ita", "ja": "jpn", "ru": "rus", "el": "ell", "nl": "nld", "pt-BR": "por", "pl": "pol",
                 "hi": "hin", "sv": "swe", "zh-Hans": "zho", "zh-Hant": "zho", "ko": "kor"}
        check(stream.get("language") == short[expect["lang"]], "%s: %s" % (name, stream.get("language")))
        for mark in ("default", "forced", "hearing_impaired"):
            wanted = bool(expect.get(mark)) or mark in str(expect.get("flags", ""))
            check(stream["disposition"][mark] == wanted, "%s: %s is %s" % (name, mark, stream["disposition"][mark]))


def SU07(at):
    """pictures_of_text_are_burnt_in_at_their_place_in_every_size"""
    wide = client("su07", video=({"codec": "h264", "profiles": ["Main"]},), audio=("aac",), protocols=["hls"])
    small = client("su07 small", video=({"codec": "h264", "max_width": 426, "max_height": 240},), audio=("aac",), protocols=["hls"])
    for title, codec in (("Delta Night", "hdmv_pgs_subtitle"), ("Cold Ferry Five", "dvb_subtitle")):
        index = at.stream(title, "subtitle", codec=codec)
        for who, more in ((wide, {}), (small, {}), (wide, {"max_bitrate": 900_000})):
            differ = {}
            for subtitle in (index, "off"):
                with at.play(title, who, subtitle=subtitle, **more) as played:
                    if subtitle == index:
                        check(played.decision["video"].get("burn_subtitle") == index, "%s" % played.decision["video"])
                    path = played.cut(range(played.at(4.5) + 1), "su07-%s" % subtitle)
                    for when in (2.0, 4.0):
                        differ[subtitle, when] = frame(path, when)
            what = "%s at %dx%d" % (title, *differ["off", 2.0][1:])
            low, width, height = box(differ[index, 2.0], differ["off", 2.0])
            check(low, "%s: nothing is drawn at 2 s" % what)
            columns, rows = low
            check(rows[0] >= 0.70 * height, "%s: drawn from line %d of %d on" % (what, rows[0], height))
            near((columns[0] + columns[1]) / 2 / width, 0.5, 0.03, "%s: its middle" % what)
            # The ends of this stream's pictures are told by no packet of it.
            if codec != "dvb_subtitle":
                check(not box(differ[index, 4.0], differ["off", 4.0])[0], "%s: something is drawn at 4 s" % what)


def frame(path, when):
    """The gray picture that is shown at a time."""
    row = media.stream(path)
    data = media.run(["ffmpeg", "-nostdin", "-v", "error", "-i", path, "-map", "0:v:0", "-vf", "select=gte(t\\,%.3f),format=gray" % (when - 0.02), "-frames:v", "1", "-f", "rawvideo", "-"]).stdout
    return data, row["width"], row["height"]


def box(drawn, plain):
    """The columns and rows in which one picture is much brighter than another, the clock's part left out."""
    (one, width, height), (other, _, _) = drawn, plain
    columns, rows = [], []
    for y in range(height // 2, height):
        line, base = one[y * width:(y + 1) * width], other[y * width:(y + 1) * width]
        hits = [x for x in range(width) if line[x] - base[x] > 60 and line[x] > 200]
        if len(hits) > 2:
            rows.append(y)
            columns += hits
    return ((min(columns), max(columns)), (min(rows), max(rows))) if rows else None, width, height


def SU09(at):
    """bytes_that_are_no_utf8_spoil_no_track"""
    folder = at.file("Broken Words")
    os.makedirs(folder)
    words, film = at.file("su09.srt"), os.path.join(folder, "Broken Words (1990).mkv")
    open(words, "w").write("1\n00:00:01,000 --> 00:00:03,000\nCaf\u00e9 noir\n\n2\n00:00:05,000 --> 00:00:07,000\nwhole cue\n")
    media.ffmpeg("-i", at.path("Amber Coast"), "-i", words, "-map", "0:v", "-map", "0:a", "-map", "1", "-c", "copy", "-c:s", "subrip", film)
    data = open(film, "rb").read()
    check(data.count("Caf\u00e9".encode()) == 1, "the cue is in the file once")
    open(film, "wb").write(data.replace("Caf\u00e9".encode(), b"Caf\xe9 "))
    made = at.server.api("POST", "/libraries", {"name": "Broken Words", "kind": "movies", "path": folder})
    try:
        at.server.settled(["Broken Words"], 60)
        index = at.stream("Broken Words", "subtitle")
        with at.play("Broken Words", DIRECT, subtitle=index) as played:
            cues, _, _ = vtt(played, index)
            check([c[2] for c in cues][1] == "whole cue" and re.match("Caf(\u00e9|\ufffd)", cues[0][2]), "%s" % cues)
    finally:
        at.server.api("DELETE", "/libraries/" + made["id"])


CASES = [SU01, SU03, SU04, SU07, SU09]
