"""The picture: shape, turn, brightness, fields and bits a second of what is made, and how copies are named."""
import os
import re
import subprocess

import media
from house import COPIES, DIRECT, IN_TS, MADE, ONE, client, near
from report import check


def raw(path, at=None, size=None, filters="", pixel="rgb24"):
    """One picture's bytes and its size."""
    seek = ["-ss", str(at)] if at is not None else []
    row = media.stream(path)
    scale = ["-vf", ",".join(f for f in (filters, "scale=%d:%d" % size if size else "") if f)] if size or filters else []
    data = media.run(["ffmpeg", "-nostdin", "-v", "error", *seek, "-i", path, "-map", "0:v:0", "-frames:v", "1", *scale, "-pix_fmt", pixel, "-f", "rawvideo", "-"]).stdout
    return data, size or (row["width"], row["height"])


def aspect(row):
    """The shape in which a stream is shown."""
    sar = row.get("sample_aspect_ratio", "1:1").split(":")
    share = int(sar[0]) / int(sar[1]) if int(sar[0]) else 1
    return row["width"] * share / row["height"]


def PI01(at):
    """squeezed_pictures_come_out_in_the_shape_that_is_shown"""
    for title, who, shape in (("Tall Grass (1995)", MADE, 16 / 9), ("Zephyr Bridge (1980)", MADE, 4 / 3), ("Display Dims", COPIES, 853 / 360)):
        with at.play(title, who) as played:
            check(played.action("video") == ("copy" if who is COPIES else "encode"), "%s: %s" % (title, played.decision))
            got = aspect(media.stream(played.cut([0], "pi01")))
            near(got / shape, 1, 0.01, "%s: the shape" % title)


def PI02(at):
    """turned_pictures_stand_upright_however_they_are_played"""
    for turn, size in ((90, (360, 640)), (180, (640, 360)), (270, (360, 640))):
        title = "Silver Fern %d" % turn
        row = next(s for s in at.detail(title)["versions"][0]["streams"] if s["kind"] == "video")
        shown = (row["height"], row["width"]) if row.get("rotation", 0) % 180 else (row["width"], row["height"])
        check(shown == size, "%s is said to be %s" % (title, shown))
        with at.play(title, MADE) as played:
            path = played.cut([0], "pi02")
            made = media.stream(path)
            check((made["width"], made["height"]) == size, "%s: made as %dx%d" % (title, made["width"], made["height"]))
            check(not any("rotation" in d for d in made.get("side_data_list", [])), "%s: a turn is left" % title)
            check(sum(c is not None for _, c in media.pictures(path)) > 20, "%s: the clock does not read" % title)
        with at.play(title, COPIES) as played:
            check((played.action("video"), played.decision["container"]) == ("copy", "fmp4"), "%s" % played.decision)
            path = played.cut([0], "pi02c")
            turns = [int(d["rotation"]) % 360 for d in media.stream(path).get("side_data_list", []) if "rotation" in d]
            check(turns == [-turn % 360], "%s: the copy's turn is %s" % (title, turns))
            check(sum(c is not None for _, c in media.pictures(path)) > 20, "%s: the copy's clock does not read" % title)
        with at.play(title, client("ts", protocols=["hls"], **IN_TS)) as played:
            check(played.action("video") == "encode", "%s is copied into a transport stream" % title)


def hue(r, g, b):
    import colorsys
    return colorsys.rgb_to_hsv(r / 255, g / 255, b / 255)


def PI04(at):
    """hdr_is_made_sdr_by_curve_and_gamut_and_not_by_its_tags_alone"""
    size = (640, 360)
    twin, _ = raw(at.path("Amber Coast"), 0, size)
    # The reddest place of the SDR twin, away from the text.
    places = [(y * 640 + x) * 3 for y in range(60, 350, 2) for x in range(0, 640, 2)]
    reddest = max(places, key=lambda i: min(sum(twin[i + d] - max(twin[i + d + 1], twin[i + d + 2]) for d in (-6, 0, 6)), 600))
    for title in ("Xenon Small", "Xenon Bloom"):
        with at.play(title, MADE) as played:
            check(played.decision["video"].get("tone_map"), "%s: %s" % (title, played.decision))
            path = played.cut([0], "pi04")
            row = media.stream(path)
            check(row["pix_fmt"] == "yuv420p", row["pix_fmt"])
            tags = [row.get(k) for k in ("color_space", "color_transfer", "color_primaries")]
            check(tags == ["bt709"] * 3, "%s: tagged %s" % (title, tags))
            luma, _ = raw(path, None, size, pixel="gray")
            line = luma[18 * 640:19 * 640]
            white = sum(line[25:35]) / 10
            black = sum(line[5:15]) / 10
            # The gray that ffmpeg gives is full range; the limits are of the 16 to 235 in the stream.
            white, black = 16 + white * 219 / 255, 16 + black * 219 / 255
            check(180 <= white <= 236, "%s: white is %d" % (title, white))
            check(black <= 24, "%s: black is %d" % (title, black))
            picture, _ = raw(path, None, size)
            one, other = hue(*twin[reddest:reddest + 3]), hue(*picture[reddest:reddest + 3])
            apart = abs(one[0] - other[0]) * 360
            check(min(apart, 360 - apart) <= 15, "%s: red is turned by %d degrees: %s, the twin %s" % (title, apart, picture[reddest:reddest + 3].hex(), twin[reddest:reddest + 3].hex()))


def PI05(at):
    """hdr_in_a_disc_folder_is_known_and_mapped"""
    folder = os.path.join(at.file("disc"), "BDMV", "STREAM")
    os.makedirs(folder)
    path = os.path.join(folder, "00002.m2ts")
    media.ffmpeg("-i", at.path("White Comet"), "-c", "copy", "-f", "mpegts", "-mpegts_m2ts_mode", "1", path)
    row = next(s for s in at.cli("probe", path)["streams"] if s["kind"] == "video")
    check((row["bit_depth"], row["color_transfer"], row["color_primaries"], row["hdr"]) == (10, "smpte2084", "bt2020", "hdr10"), "%s" % row)
    told = at.cli("decide", path, "--client", at.profile({**MADE, "video": [{"codec": "hevc", "max_bit_depth": 10}, {"codec": "h264"}]}))
    check(told["method"] == "transcode" and told["video"].get("tone_map"), "%s" % told["video"])
    check("video_range_not_supported" in told["reasons"], "%s" % told["reasons"])


def PI07(at):
    """full_range_stays_as_bright_as_it_is"""
    with at.play("Full Range", MADE) as played:
        path = played.cut([0], "pi07")
        row = media.stream(path)
        # ffmpeg's conversion to RGB heeds the tags: what is seen is right only where they agree with the picture.
        picture, (width, _) = raw(path, None)
        line = picture[18 * width * 3:19 * width * 3]
        white, black = line[30 * 3], line[8 * 3]
        check(white >= 230, "white is %d (%s)" % (white, row.get("color_range")))
        check(black <= 20, "black is %d (%s)" % (black, row.get("color_range")))


def DE07(at):
    """copied_hevc_is_labelled_hvc1_and_its_string_is_the_streams_own"""
    told = {}
    for title in ("Velvet Mine (1998)", "Velvet Mine Hev (1999)", "Velvet Mine Ten (2000)"):
        with at.play(title, COPIES) as played:
            check(played.action("video") == "copy", "%s" % played.decision)
            init = played.init()
            check(b"hvc1" in init and b"hev1" not in init, "%s: not labelled hvc1" % title)
            master = played.get(played.path).decode()
            codecs = re.search(r'CODECS="([^",]+)', master)[1]
            at_ = init.index(b"hvcC") + 4
            record = init[at_:at_ + 13]
            # ISO/IEC 14496-15 annex E.3: profile, compatibility with its bits reversed, tier and level, constraints without trailing zeroes.
            profile, tier = record[1] & 31, "H" if record[1] & 32 else "L"
            flags = int("{:032b}".format(int.from_bytes(record[2:6], "big"))[::-1], 2)
            constraints = record[6:12].rstrip(b"\0")
            wanted = "hvc1.%d.%X.%s%d%s" % (profile, flags, tier, record[12], "".join(".%X" % b for b in constraints))
            check(codecs == wanted, "%s: %s, its parameter sets say %s" % (title, codecs, wanted))
            told[title[12:15]] = codecs
    check(len(set(told.values())) == 2, "%s" % told)


def DE12(at):
    """fields_become_whole_pictures_for_who_takes_none"""
    with_fields = client("fields", direct=("mkv,mpegts",), video=({"codec": "h264", "interlaced": True},), audio=("ac3",))
    without = client("frames", direct=("mkv,mpegts",), audio=("ac3",))
    for title in ("Opal Street (2017)", "Opal Street Two (2018)"):
        check(at.decide(title, with_fields)["decision"]["method"] == "direct_play", "%s with fields" % title)
        with at.play(title, without) as played:
            check(played.reasons == ["interlaced_video_not_supported"], "%s" % played.reasons)
            path = played.whole("de12")
            row = media.stream(path)
            check(row.get("field_order", "progressive") == "progressive", row.get("field_order"))
            rate = [int(x) for x in row["avg_frame_rate"].split("/")]
            check(24.5 <= rate[0] / rate[1] <= 50.5, "%s pictures a second" % row["avg_frame_rate"])
            done = media.run(["ffmpeg", "-nostdin", "-hide_banner", "-i", path, "-vf", "idet", "-an", "-f", "null", "-"])
            counts = re.findall(r"Multi frame detection: TFF:\s*(\d+) BFF:\s*(\d+) Progressive:\s*(\d+)", done.stderr.decode())[-1]
            tff, bff, whole = map(int, counts)
            check((tff + bff) <= 0.05 * max(1, tff + bff + whole), "%s: fields in %s" % (title, counts))


def DE13(at):
    """no_limit_holds_that_nobody_set_and_a_set_one_holds_for_every_three_seconds"""
    browser = {**DIRECT, "video": [{"codec": "h264"}], "audio": [{"codec": "aac"}]}
    dry = at.decide("High Bitrate", browser)
    check(dry["decision"]["method"] == "direct_play" and not dry["reasons"], "%s" % dry["reasons"])
    with at.play("High Bitrate", browser, max_bitrate=10_000_000) as played:
        check((played.method, played.reasons) == ("transcode", ["bitrate_over_limit"]), "%s %s" % (played.method, played.reasons))
        path = played.whole("de13")
        rows = media.packets(path) + media.packets(path, "a:0")
        for begins in range(0, 2):
            bits = 8 * sum(r["size"] for r in rows if begins <= r["pts"] < begins + 3)
            check(bits <= 33_000_000, "%.1f Mb/s from %d s on" % (bits / 3e6, begins))


def DE01(at):
    """a_container_alone_costs_no_encoding"""
    who = client("de01", direct=("mp4", "mpegts"), audio=("mp3",))
    with at.play("Soundcheck MP3 (1980)", who) as played:
        check((played.method, played.action("video"), played.action("audio"), played.reasons) == ("direct_stream", "copy", "copy", ["container_not_supported"]), "%s" % played.decision)
        before = at.worker_cpu()
        played.whole("de01")
        # 8 s of film: a tenth of a core of its time.
        used = at.worker_cpu() - before
        check(used < 0.8, "its worker computed %.2f s" % used)


def DE09(at):
    """streams_that_nobody_knows_are_left_out_and_the_film_plays"""
    for title in ("Cold Ferry Six", "Brass Key Four"):
        kinds = [s["kind"] for s in at.detail(title)["versions"][0]["streams"]]
        check("data" in kinds, "%s: %s" % (title, kinds))
        with at.play(title, MADE) as played:
            check([t["index"] for t in played.answer["audio"]] == [i for i, k in enumerate(kinds) if k == "audio"], "%s" % played.answer["audio"])
            path = played.cut([0], "de09")
            check(sorted(s["codec_type"] for s in media.probe(path)["streams"]) == ["audio", "video"], "%s" % media.probe(path)["streams"])
            check(len(media.pictures(path)) > 10 and media.pitch(media.sound(path)[2000:6000]) > 300, "%s: nothing is seen or heard" % title)


CASES = [DE01, DE07, DE09, DE12, DE13, PI01, PI02, PI04, PI05, PI07]
