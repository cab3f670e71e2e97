"""Films that a real browser claims and then cannot go on with: the next way plays by itself, from the same place, and is remembered.

The pictures of a stretch say that they are longer than they are. Chromium's decoder ends there, in the file and in segments that
carry the same pictures; FFmpeg leaves out the bad ones, so that a conversion plays on."""
import os
import shutil
import subprocess
import tempfile

import browser as browsers
import report
import server as servers
from report import check

FROM_S, TO_S = 4, 6
AGAIN = "Broken Again"


def damage(source, target, from_s, to_s):
    """Copies an MP4 and overwrites the length that each picture of a stretch begins with."""
    rows = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time,pos", "-of", "csv=p=0", source],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    shutil.copyfile(source, target)
    count = 0
    with open(target, "r+b") as file:
        for row in rows:
            time_s, at = row.split(",")[:2]
            if from_s <= float(time_s) < to_s:
                file.seek(int(at))
                file.write(b"\x7f\xff\xff\xff")
                count += 1
    check(count > 10, "only %d pictures were damaged" % count)


def library(source, into):
    whole = os.path.join(source, "Direct Hour (2020)", "Direct Hour (2020).mp4")
    for title in ("Broken Reel (2020)", AGAIN + " (2021)"):
        folder = os.path.join(into, title)
        os.makedirs(folder)
        damage(whole, os.path.join(folder, title + ".mp4"), FROM_S, TO_S)


def run(stage, clips):
    name = "page_goes_the_next_way_when_the_browser_fails"
    if not stage.wants(name):
        return
    with stage.case(name):
        if browsers.why_not():
            raise report.Skip(browsers.why_not())
        with tempfile.TemporaryDirectory(dir=servers.WORK) as folder:
            library(clips(), folder)
            with servers.Server([("movies", folder)], ["--storage-helper", "off"]) as server, browsers.Browser() as browser:
                browser.open(url=server.url)
                browser.setup(user=servers.USER, password=servers.PASSWORD)
                server.login()
                rows = server.settled(["Broken Reel", AGAIN])
                played = browser.play(id=rows["Broken Reel"]["id"])
                check(played["method"] == "direct_play", "begun by %s: %s" % (played["method"], played["reasons"]))
                # Past the damage, wherever each way ended, and from there on as ever.
                moved = browser.advance(seconds=TO_S + 4, limit_s=120)
                ways = browser.ways()
                check([way["method"] for way in ways] in (["direct_stream", "transcode"], ["transcode"]), "the ways were %s" % ways)
                check(all(FROM_S - 2 <= way["start_s"] <= TO_S for way in ways), "each goes on where the last one ended: %s" % ways)
                check("failed_before" in [reason["code"] for reason in ways[-1]["reasons"]], "the viewer is told why: %s" % ways[-1]["reasons"])
                later = browser.advance(seconds=2.0)
                check(later["decoded"] > moved["decoded"] and later["width"] > 0, "no pictures after the damage: %s" % later)
                picture = browser.presented()
                check(picture.get("clock_s") is not None and abs(picture["clock_s"] - picture["media_s"]) < 0.09, "the right picture: %s" % picture)
                with stage.case(name + "_and_remembers_it"):
                    browser.leave(url=server.url)
                    played = browser.play(id=rows[AGAIN]["id"])
                    check(played["method"] == "transcode", "what failed is not tried again: %s" % played["method"])
                    browser.advance(seconds=2.0, limit_s=90)
                    check(len(browser.ways()) == len(ways), "nothing failed this time: %s" % browser.ways())
                    check(server.api("GET", "/sessions")["total"] == 1, "the sessions that failed are over")
