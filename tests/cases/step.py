"""Sound in step with the picture, and clocks that are told in odd ways."""
import media
from house import COPIES, IN_TS, MADE, ONE, PICTURE_MADE, client, near
from report import check

PICTURE_S = 0.040
REPACKED = {**client("sound made", video=("h264",), audio=({"codec": "aac", "max_channels": 2},)), "protocols": ["hls"]}


def offsets(path, which="a:0"):
    """Of every second that is both seen and heard to begin: how much later it is heard."""
    first = media.packets(path, which)[0]["pts"]
    clocks = {}
    for time_s, clock in media.pictures(path):
        if clock is not None:
            clocks.setdefault(round(clock, 3), time_s)
    # A film of whole pictures a second has one at the second itself; another shows the nearest before.
    found = []
    for time_s, second in media.onsets(path, which, first):
        seen = [t for c, t in clocks.items() if abs(c % 100 - second % 100) < 0.0005]
        if seen:
            found.append(time_s - min(seen, key=lambda t: abs(t - time_s)))
    return found


def in_step(path, within, at_least, what, apart=0.0):
    found = offsets(path)
    check(len(found) >= at_least, "%s: only %d seconds are seen and heard to begin" % (what, len(found)))
    for one in found:
        check(abs(one - apart) <= within, "%s: a second is heard %+.3f s off: %s" % (what, one - apart, found))


def SY01(at):
    """a_film_whose_picture_is_made_and_whose_sound_is_copied_goes_on_in_step"""
    for start in (33.0, 7.3, 59.0):
        with at.play("Delta Night", PICTURE_MADE, start_s=start, subtitle="off") as played:
            check((played.action("video"), played.action("audio"), played.decision["audio"]["codec"]) == ("encode", "copy", "ac3"), "%s" % played.decision)
            path = played.cut([played.at(start)], "sy01")
            sound, pictures = media.packets(path, "a:0"), [row for row in sorted(media.pictures(path)) if row[1] is not None]
            near(sound[0]["pts"] - pictures[0][0], 0, 0.064, "from %s: sound against picture" % start)
            # The second that is told at the first picture of the asked second.
            time_s, clock = next(row for row in pictures if row[1] >= int(start) - 0.001)
            heard = media.sound(path)
            begins = int((time_s - sound[0]["pts"] + 0.1) * media.RATE)
            told = media.second_told(media.pitch(heard[begins:begins + media.RATE // 5]))
            check(told == int(clock + 0.1), "from %s: the picture of %s is shown with the sound of second %s" % (start, clock, told))


def SY02(at):
    """a_transport_stream_of_a_disc_goes_on_in_step_after_a_seek"""
    for start in (4.7, 9.1):
        with at.play("Cold Ferry Three", REPACKED, start_s=start) as played:
            check((played.action("video"), played.action("audio")) == ("copy", "encode"), "%s" % played.decision)
            path = played.cut(range(played.at(start), len(played.playlist())), "sy02")
            in_step(path, 0.050, 2, "from %s" % start)


def SY04(at):
    """a_start_between_key_frames_has_sound_and_picture_together"""
    for start in (4.0, 4.5, 5.0, 5.5):
        with at.play("Amber Coast", COPIES, start_s=start) as played:
            path = played.cut(range(played.at(start), len(played.playlist())), "sy04")
            near(media.packets(path, "a:0")[0]["pts"], media.packets(path)[0]["pts"], 0.050, "from %s: where sound begins" % start)
            in_step(path, 0.050, 3, "from %s" % start)
        with at.play("Amber Coast", {**ONE, "direct_play": []}, start_s=start) as played:
            in_step(played.file(), 0.050, 3, "one stream from %s" % start)


def SY05(at):
    """edit_lists_and_what_an_encoder_puts_before_the_sound_are_heeded"""
    for who in (COPIES, client("sy05", protocols=["hls"], **IN_TS)):
        with at.play("Birch Road", who) as played:
            check(played.action("video") == played.action("audio") == "copy", "%s" % played.decision)
            path = played.whole("sy05")
            near(min(row for row in media.pictures(path))[1], 0, 0.001, "the first clock shown")
            in_step(path, 0.025, 9, "Birch Road as %s" % played.decision["container"])
        with at.play("Edit Trim", who) as played:
            path = played.whole("sy05")
            near(min(row for row in media.pictures(path) if row[0] >= -0.001)[1], 3.32, 0.040, "the first clock shown")
            in_step(path, 0.025, 6, "Edit Trim as %s" % played.decision["container"])


def SY07(at):
    """a_varying_rate_keeps_its_times_and_gains_no_pictures"""
    with at.play("Red Lantern Bay", MADE) as played:
        check(played.action("video") == "encode", "%s" % played.decision)
        rows = sorted(media.pictures(played.whole("sy07")))
        zero = rows[0][0]
        check(len(rows) <= 905, "%d pictures" % len(rows))
        near(played.length(), 15.0, 0.1, "its length")
        for time_s, clock in rows:
            check(clock is not None, "the picture at %s does not read" % time_s)
            near(clock, time_s - zero, 0.017 if time_s - zero < 5 else 0.084, "the clock at %s" % time_s)


def SY08(at):
    """sound_that_begins_late_or_early_stays_so_however_it_is_played"""
    for title in ("Late Audio", "Late Video"):
        source = offsets(at.path(title))
        check(len(source) >= 5, "%s: %s" % (title, source))
        apart = sorted(source)[len(source) // 2]
        for who in (COPIES, MADE):
            with at.play(title, who) as played:
                in_step(played.whole("sy08"), 0.025, 5, "%s %s" % (title, played.method), apart)


def clocks_follow(path, what, zero=0.0):
    """Every picture's clock is its time, and no time jumps."""
    rows = sorted(media.pictures(path))
    for time_s, clock in rows:
        if clock is not None:
            near(clock, time_s - zero, 0.050, "%s: the clock at %s" % (what, time_s))
    for one, next_ in zip(rows, rows[1:]):
        check(next_[0] - one[0] <= 0.1, "%s: a jump at %s" % (what, one[0]))
    return rows


def TS01(at):
    """a_clock_that_wraps_within_the_film_is_one_clock"""
    near(at.item("Cold Ferry")["duration_s"], 12.0, 0.1, "its length")
    for who in (COPIES, MADE):
        with at.play("Cold Ferry", who) as played:
            begins = min(media.pictures(played.cut([0], "ts01")))[0]
            rows = clocks_follow(played.whole("ts01-whole"), played.method, begins)
            check(len(rows) == 300, "%d pictures" % len(rows))
        for start in (3.0, 9.0):
            with at.play("Cold Ferry", who, start_s=start) as played:
                n = played.at(start)
                rows = sorted(media.pictures(played.cut([n], "ts01")))
                shown = [clock for time_s, clock in rows if time_s <= start + 0.021]
                near(shown[-1], start, 0.061, "%s: what is shown at %s" % (played.method, start))


def TS02(at):
    """a_film_counts_from_zero_wherever_its_own_clock_begins"""
    for title in ("Cold Ferry Two", "Amber Coast"):
        near(at.item(title)["duration_s"], 12.0, 0.1, "%s: its length" % title)
        for who in (COPIES, MADE):
            with at.play(title, who) as played:
                near(played.length(), 12.0, 0.1, "%s: the playlist's length" % title)
                rows = sorted(media.pictures(played.cut([0], "ts02")))
                near(rows[0][1], 0, 0.001, "%s: the first clock" % title)
                check(0 <= rows[0][0] < 0.1, "%s: the first picture is at %s" % (title, rows[0][0]))


def TS04(at):
    """a_recording_that_restarts_smaller_is_played_to_its_end"""
    near(at.item("Cold Ferry Four")["duration_s"], 12.0, 0.5, "its length")
    with at.play("Cold Ferry Four", COPIES) as played:
        check(played.method == "transcode" or "#EXT-X-DISCONTINUITY" in played.playlist() and played.text, "%s %s" % (played.method, played.reasons))
        check("recording_restarts" in played.reasons, "%s" % played.reasons)
        path = played.whole("ts04")
        rows = sorted(media.pictures(path))
        near(rows[-1][0], 12.0, 0.5, "the last picture")
        clocks = [round(clock) for _, clock in rows if clock is not None]
        check(clocks[0] == 0 and max(clocks) == 6 and clocks[-1] == 6, "both recordings are there: %s" % clocks[::25])
        check(len(rows) >= 290, "%d pictures" % len(rows))


def TS05(at):
    """a_film_without_a_length_has_one_and_keeps_its_place"""
    for title in ("Fallow Moon", "Cinder Lake", "Ember Field"):
        near(at.item(title)["duration_s"], 12.0, 0.1, "%s: its length" % title)
        with at.play(title, COPIES, start_s=8.0) as played:
            n = played.at(8.0)
            rows = sorted(media.pictures(played.cut([n], "ts05")))
            shown = [clock for time_s, clock in rows if time_s <= 8.001]
            near(shown[-1], 8.0, 0.1, "%s: what is shown at 8 s" % title)
            at.server.api("PUT", "/items/%s/state" % at.item(title)["id"], {"position_s": 8.0})
            check(at.detail(title)["state"]["position_s"] == 8.0, "%s: its place is lost" % title)


CASES = [SY01, SY02, SY04, SY05, SY07, SY08, TS01, TS02, TS04, TS05]
