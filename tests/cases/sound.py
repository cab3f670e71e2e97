"""Sound: the chosen track, its channels where they belong, and bits enough."""
import media
from house import COPIES, client, near
from report import check

# One pitch a channel. Which one of the first three is which depends on the ffmpeg that made the samples (its `join` gives a mono input to the
# centre first): the source is asked.
PITCHES = (300, 400, 500, 60, 600, 700, 800, 900)
# The order in which ffmpeg has the channels of a layout.
ORDER = {6: ["FL", "FR", "FC", "LFE", "BL", "BR"], 8: ["FL", "FR", "FC", "LFE", "BL", "BR", "SL", "SR"]}


def takes(name, channels, codec):
    return client(name, audio=({"codec": codec, "max_channels": channels},), protocols=["hls"])


def piece_of(path, channel):
    return media.sound(path, at=1, seconds=1, channel=channel, rate=8000)


def loudest(piece):
    return max(PITCHES, key=lambda hz: media.level(piece, hz, 8000))


def pitches(at, title, track=0):
    """Channel -> pitch, as the source has them."""
    path = at.path(title)
    count = media.probe(path)["streams"][1 + track]["channels"]
    found = {name: loudest(media.sound(path, "a:%d" % track, at=1, seconds=1, channel=n, rate=8000)) for n, name in enumerate(ORDER[count])}
    check(len(set(found.values())) == count, "%s" % found)
    return found


def levels(path, channels, source):
    """Of every channel that came out, how much of each of the source's is in it."""
    return {name: {of: media.level(piece_of(path, n), hz, 8000) for of, hz in source.items()} for n, name in enumerate(ORDER[channels])}


def AU01(at):
    """each_of_five_tracks_is_heard_when_it_is_chosen"""
    sounds = [s["index"] for s in at.detail("Dust Choir")["versions"][0]["streams"] if s["kind"] == "audio"]
    check(len(sounds) == 5, "%s" % sounds)
    who, source = takes("au01", 6, "aac"), pitches(at, "Dust Choir")
    for nth, index in enumerate(sounds):
        with at.play("Dust Choir", who, audio=index) as played:
            check(played.decision["audio"]["stream"] == index, "%s" % played.decision["audio"])
            path = played.cut([0, 1], "au01")
            samples = media.sound(path)
            power = (sum(x * x for x in samples) / len(samples)) ** 0.5
            check(media.decibels(power, 1) > -40, "track %d: %.1f dBFS" % (nth, media.decibels(power, 1)))
            if nth < 3:
                heard = {name: loudest(piece_of(path, n)) for n, name in enumerate(ORDER[6])}
                check(heard == source, "track %d: %s, not %s" % (nth, heard, source))
            else:
                near(media.pitch(samples[8000:24000]), {3: 1000, 4: 1500}[nth], 8, "track %d: its pitch" % nth)


def AU02(at):
    """as_many_channels_are_kept_as_the_client_takes"""
    both = client("au02", audio=({"codec": "ac3", "max_channels": 6}, {"codec": "aac", "max_channels": 2}), protocols=["hls"])
    for who, codec, channels in ((takes("six", 6, "aac"), "aac", 6), (takes("two", 2, "aac"), "aac", 2), (both, "ac3", 6)):
        with at.play("Soundcheck DTS (1975)", who) as played:
            path = played.cut([0], "au02")
            row = media.stream(path, "audio")
            check((row["codec_name"], row["channels"]) == (codec, channels), "%s of %d" % (row["codec_name"], row["channels"]))
            if channels == 2:
                source = pitches(at, "Soundcheck DTS (1975)")
                for n, heard in enumerate((("FL", "FC", "BL"), ("FR", "FC", "BR"))):
                    least = {of: media.level(piece_of(path, n), source[of], 8000) for of in heard}
                    check(min(least.values()) > 0.02, "channel %d: %s" % (n, least))


def AU04(at):
    """each_of_eight_channels_comes_out_where_it_belongs"""
    for title in ("Soundcheck FLAC71 (1977)", "Soundcheck AAC71 (1972)"):
        source = pitches(at, title)
        for codec, channels in (("aac", 6), ("ac3", 6), ("opus", 8)):
            with at.play(title, takes("au04", channels, codec)) as played:
                if played.action("audio") == "copy":
                    continue
                path = played.cut([0, 1], "au04")
                check(media.stream(path, "audio")["channels"] == channels, "%s" % media.stream(path, "audio"))
                heard = levels(path, channels, source)
                what = "%s as %s of %d" % (title, codec, channels)
                centre = heard["FC"]["FC"]
                for name, row in heard.items():
                    if name != "FC":
                        check(media.decibels(row["FC"], centre) <= -30, "%s: the centre is in %s at %.1f dB" % (what, name, media.decibels(row["FC"], centre)))
                check(max(heard["LFE"], key=heard["LFE"].get) == "LFE", "%s: LFE has %s" % (what, heard["LFE"]))
                if channels == 6:
                    for name, both in (("BL", ("BL", "SL")), ("BR", ("BR", "SR"))):
                        check(min(heard[name][b] for b in both) > 0.02, "%s: %s has %s" % (what, name, heard[name]))
                else:
                    for name, row in heard.items():
                        check(max(row, key=row.get) == name, "%s: %s has %s" % (what, name, row))


def AU05(at):
    """six_channels_get_bits_for_six"""
    for channels, least in ((6, 256_000), (2, 96_000)):
        with at.play("Soundcheck TrueHD (1976)", takes("au05", channels, "aac")) as played:
            check(played.decision["audio"]["bitrate_bps"] >= least, "%s" % played.decision["audio"])
            row = media.stream(played.cut([0], "au05"), "audio")
            check((row["channels"], int(row["sample_rate"])) == (channels, 48000), "%s" % row)


def AU08(at):
    """tags_in_odd_encodings_and_none_are_no_reason_to_leave_a_track_out"""
    rows = [r for r in at.server.items(type="track") if r.get("top_title") == "Marble Fox" or "Night Ferry" in str(at.server.api("GET", "/items/" + r["id"])["versions"][0]["file"])]
    check(len(rows) == 11, "%d tracks: %s" % (len(rows), [r["title"] for r in rows]))
    titles = {r["title"] for r in rows}
    check("Täg Ünïcode 時計" in titles, "%s" % titles)
    check("Wave" in titles or "08 - Wave" in titles, "%s" % titles)


CASES = [AU01, AU02, AU04, AU05, AU08]
