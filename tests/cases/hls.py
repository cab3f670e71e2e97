"""HLS: where segments are cut, that they stand alone, and that the same one comes whatever was asked before."""
import os
import re

import media
from house import COPIES, MADE, ONE, client, near
from report import check

PICTURE_S = 0.040


def first(path):
    """Time and clock of the first picture shown that tells its clock."""
    return min(row for row in media.pictures(path) if row[1] is not None)


def HL01(at):
    """a_copied_film_that_begins_in_the_middle_is_cut_where_its_playlist_says"""
    with at.play("Jagged Keys", client("hl01", direct=("mp4",), audio=("opus",), video=("h264",), protocols=["hls"]), start_s=14.5) as played:
        check(played.action("video") == "copy" and played.action("audio") == "encode", "%s" % played.decision)
        rows = played.playlist()
        for n in [3, *range(4, len(rows)), *range(0, 3)]:
            time_s, clock = first(played.cut([n], "hl01"))
            near(time_s, rows[n][1], PICTURE_S, "the first picture of segment %d" % n)
            near(clock, rows[n][1], PICTURE_S, "the clock in segment %d" % n)
        check(not re.search(rb"[^0-9]", rows[-1][0].split(".")[0].encode()), "names are numbers")
        played.get("%d.m4s" % len(rows), 404)


def HL03(at):
    """sound_that_is_longer_than_the_picture_is_played_to_its_end"""
    for who in (COPIES, MADE):
        with at.play("Long Audio", who) as played:
            near(played.length(), 13.0, 0.1, "the playlist's length")
            whole = played.whole("hl03")
            sound = media.packets(whole, "a:0")
            near(sound[-1]["pts"] + (sound[-1]["lasts"] or 0), 13.0, 0.1, "where the sound ends")
            for one, next_ in zip(sound, sound[1:]):
                check(next_["pts"] - one["pts"] < 0.1, "a hole in the sound at %s" % one["pts"])
            check("#EXT-X-ENDLIST" in played.text, "the playlist has no end")


def HL04(at):
    """a_far_seek_never_gets_what_an_earlier_run_left"""
    with at.play("Two Hours", MADE) as played:
        rows = played.playlist()
        scale = len(rows) / 1200
        for n in [10, 11, 12, 13, 14, *[int(900 * scale) + k for k in range(4)], 12, int(901 * scale), int(450 * scale), 10]:
            time_s, clock = first(played.cut([n], "hl04"))
            near(clock, rows[n][1], 0.2, "the clock in segment %d" % n)


def HL06(at):
    """a_start_at_the_exact_time_of_a_key_frame_begins_there"""
    # The times of this file are 21 ms after its clock: its sound begins with what an encoder puts before it.
    for clock in (13.4, 14.04, 27.8):
        start = round(clock + 0.021, 3)
        with at.play("Jagged Keys", COPIES, start_s=start) as played:
            near(played.answer["start_s"], start, 0.001, "the start that is told")
            found = sorted(media.pictures(played.cut([played.at(start)], "hl06")))
            shown = [c for time_s, c in found if time_s <= start + 0.0005]
            near(shown[-1], clock, 0.001, "the picture at %s" % start)


def HL07(at):
    """key_frames_close_together_make_no_slivers"""
    with at.play("Jagged Keys", COPIES) as played:
        lengths = [row[2] for row in played.playlist()]
        check(min(lengths[:-1]) >= 1, "a segment of %s s: %s" % (min(lengths[:-1]), lengths))
        check(max(lengths) <= 13.36 + 6 + 0.01, "a segment of %s s" % max(lengths))
        for n in range(len(lengths)):
            check(media.packets(played.cut([n], "hl07")), "segment %d is empty" % n)


def HL09(at):
    """each_segment_of_an_open_group_stands_alone"""
    for title in ("Quiet Ridge (1991)", "Quiet Ridge HEVC (1992)"):
        with at.play(title, COPIES) as played:
            check(played.action("video") == "copy", "%s: %s" % (title, played.reasons))
            rows, shown = played.playlist(), []
            for n in range(len(rows)):
                path = played.cut([n], "hl09")
                check(media.packets(path)[0]["key"], "%s: segment %d begins with no key frame" % (title, n))
                found = sorted(row for row in media.pictures(path) if row[1] is not None)
                near(found[0][1], rows[n][1], 3 * PICTURE_S, "%s: the first picture of segment %d" % (title, n))
                shown += [clock for _, clock in found]
            times = [round(p["pts"], 3) for p in media.packets(played.whole("hl09"))]
            check(len(times) == len(set(times)), "%s: a picture is there twice" % title)
            clocks = [round(clock, 3) for _, clock in media.pictures(played.whole("hl09"))]
            check(len(clocks) == len(set(clocks)) == 500, "%s: %d pictures, %d of them different" % (title, len(clocks), len(set(clocks))))


def HL10(at):
    """a_container_that_is_not_known_is_refused_and_never_another_one"""
    for container, name, begins in (("fmp4", "0.m4s", b"moof"), ("mpegts", "0.ts", b"\x47")):
        who = client("hl10", protocols=["hls"], hls={"container": container, "video": ["h264"], "audio": ["aac"]})
        with at.play("Amber Coast", who) as played:
            check(played.playlist()[0][0] == name, played.text[:300])
            check(begins in played.segment(0)[:8], "%s: the segment is something else" % container)
            others = ["0.webm", "0.mp4", "0.x", "0.m4s" if container == "mpegts" else "0.ts"]
            for other in others + (["init.mp4"] if container == "mpegts" else []):
                played.get(other, 400)
    status, _, body = at.server.request("POST", "/api/v1/items/%s/play" % at.item("Amber Coast")["id"], {"client": client("x", hls={"container": "webm"})})
    check(status == 400 and b"webm" in body, "%d %s" % (status, body[:200]))
    # What a path makes of it is no name either.
    with at.play("Amber Coast", COPIES) as played:
        for name in ("../x", "..%2fx", "%2e%2e/x"):
            status, _, _ = at.server.request("GET", os.path.dirname(played.path) + "/" + name)
            check(status in (400, 403, 404), "%s: %d" % (name, status))


def HL12(at):
    """the_clocks_of_fragments_go_on_from_segment_to_segment_in_any_order"""
    with at.play("Birch Road", COPIES) as played:
        count = len(played.playlist())
        check(count >= 2, "one segment only")
        # Whatever is asked for first.
        bodies = {n: played.segment(n) for n in [*range(count - 1, -1, -1)]}
        again = {n: played.segment(n) for n in range(count)}
        check(bodies == again, "a segment differs with the order of asking")
        runs = {n: fragments(bodies[n]) for n in bodies}
        for track in runs[0]:
            for n in range(count - 1):
                if track in runs[n] and track in runs[n + 1]:
                    begins, lasts = runs[n][track]
                    check(abs(begins + lasts - runs[n + 1][track][0]) <= 1, "track %d: segment %d begins at %d, not %d" % (track, n + 1, runs[n + 1][track][0], begins + lasts))


def fragments(data):
    """Of every track in a segment: its decode time and the sum of its samples' durations (ISO/IEC 14496-12: tfhd, tfdt, trun)."""
    out = {}

    def boxes(part):
        at = 0
        while at + 8 <= len(part):
            size, kind = int.from_bytes(part[at:at + 4], "big"), part[at + 4:at + 8]
            head = 8
            if size == 1:
                size, head = int.from_bytes(part[at + 8:at + 16], "big"), 16
            yield kind, part[at + head:at + size]
            at += size

    for kind, moof in boxes(data):
        if kind != b"moof":
            continue
        for kind, traf in boxes(moof):
            if kind != b"traf":
                continue
            track = begins = preset = None
            total = 0
            for kind, body in boxes(traf):
                flags = int.from_bytes(body[1:4], "big")
                if kind == b"tfhd":
                    track, at = int.from_bytes(body[4:8], "big"), 8
                    at += (8 if flags & 1 else 0) + (4 if flags & 2 else 0)
                    if flags & 8:
                        preset = int.from_bytes(body[at:at + 4], "big")
                elif kind == b"tfdt":
                    begins = int.from_bytes(body[4:12] if body[0] else body[4:8], "big")
                elif kind == b"trun":
                    count, at = int.from_bytes(body[4:8], "big"), 8 + (4 if flags & 1 else 0) + (4 if flags & 4 else 0)
                    each = 4 * bin(flags & 0xf00).count("1")
                    for _ in range(count):
                        total += int.from_bytes(body[at:at + 4], "big") if flags & 0x100 else preset
                        at += each
            known = out.get(track)
            out[track] = (known[0], known[1] + total) if known else (begins, total)
    return out


def HL13(at):
    """the_second_sound_track_plays_to_the_end_of_the_film"""
    for title in ("Flag Maze", "Cold Ferry"):
        sounds = [s["index"] for s in at.detail(title)["versions"][0]["streams"] if s["kind"] == "audio"]
        with at.play(title, COPIES, **({"audio": sounds[1]} if len(sounds) > 1 else {})) as played:
            near(played.length(), 12.0, 0.2, "%s: the playlist's length" % title)
            whole = played.whole("hl13")
            for which in ("v:0", "a:0"):
                rows = media.packets(whole, which)
                near(max(r["pts"] + (r["lasts"] or 0) for r in rows), 12.0, 0.2, "%s: where %s ends" % (title, which))
                for one, next_ in zip(rows, rows[1:]):
                    check(next_["dts"] > one["dts"], "%s %s: decode times fall at %s" % (title, which, next_["dts"]))
                check(all(r["dts"] <= r["pts"] + 1e-6 for r in rows), "%s %s: shown before it is decoded" % (title, which))


CASES = [HL01, HL03, HL04, HL06, HL07, HL09, HL10, HL12, HL13]
