"""Subtitles that a real browser draws over the picture: what is on its canvas, when, after seeks and with an offset.

The film is a sample with a styled script and its font, with Blu-ray pictures and with DVD pictures, whose times and places
sample_tools.py gives: lines of the script at 2i to 2i + 1.5 s, every third a red sign in the middle; pictures at 1 to 3, 5 to 7
and 9 to 11 s at the bottom."""
import os
import shutil
import subprocess
import tempfile

import browser as browsers
import report
import server as servers
from report import check

HERE = os.path.dirname(os.path.abspath(__file__))
TITLE, FOLDER = "Delta Night", "Delta Night (2005)"
# The groups that the cases make: the same folder serves both.
GROUPS = "video audio subs tv music photos names seek".split()

# What the page's canvas shows, as shares of its size, once it is as wanted; or what it shows when the time is up.
LOOK = """new Promise((resolve) => {
  const wanted = %s, began = performance.now();
  const look = () => {
    const video = document.querySelector("video"), canvas = document.querySelector("[data-testid=subtitle-canvas]");
    const seen = { at_s: video.currentTime, canvas: Boolean(canvas), pixels: 0 };
    if (canvas && canvas.width > 0 && !video.seeking) {
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let top = height, bottom = 0, red = 0, white = 0;
      for (let i = 0; i < width * height; i += 1) {
        if (data[4 * i + 3] < 128) continue;
        const y = Math.floor(i / width);
        seen.pixels += 1;
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
        if (data[4 * i] > 180 && data[4 * i + 1] < 80) red += 1;
        if (data[4 * i] > 180 && data[4 * i + 1] > 180 && data[4 * i + 2] > 180) white += 1;
      }
      Object.assign(seen, { top: top / height, bottom: bottom / height, red, white, width, height });
    }
    const done = Boolean(canvas) && !video.seeking && (wanted ? seen.pixels > 100 : seen.pixels === 0);
    if (done || performance.now() - began > 20000) resolve({ ...seen, done });
    else setTimeout(look, 50);
  };
  look();
})"""


def sample():
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), *GROUPS], stdout=subprocess.PIPE, text=True, check=True)
    return os.path.join(run.stdout.strip().splitlines()[-1], "Movies", FOLDER)


def look(browser, at_s, shown):
    """Goes to a time and waits until the canvas is as it should be; never both times the same, so that an old one does not count."""
    browser.eval_(code="document.querySelector('video').pause(), document.querySelector('video').currentTime = %f, null" % at_s)
    seen = browser.eval_(code=LOOK % ("true" if shown else "false"))
    check(seen["done"] and abs(seen["at_s"] - at_s) < 0.05, "at %g s, wanted %s: %s" % (at_s, "something" if shown else "nothing", seen))
    return seen


def open_track(browser, row, position):
    browser.leave()
    played = browser.play(id=row["id"])
    browser.advance(seconds=0.3)
    browser.eval_(code="document.querySelector('video').pause()")
    browser.choose(menu="subtitle-menu", position=position)
    return played


def script(browser):
    seen = look(browser, 6.7, True)
    check(seen["red"] > 50 and 0.3 < seen["top"] < seen["bottom"] < 0.7, "the sign is red and in the middle: %s" % seen)
    look(browser, 7.7, False)
    seen = look(browser, 20.5, True)
    check(seen["white"] > 50 and seen["red"] == 0 and seen["top"] > 0.7, "a line is white and at the bottom: %s" % seen)
    look(browser, 31.7, False)
    # A second later: the sign of 30 s, which is over by then.
    for _ in range(10):
        browser.press(key="h")
    seen = look(browser, 31.9, True)
    check(seen["red"] > 50, "with an offset the sign is still there: %s" % seen)
    look(browser, 30.7, False)


def pictures(browser):
    seen = look(browser, 6.0, True)
    check(seen["white"] > 50 and seen["top"] > 0.7, "the picture is white and at the bottom: %s" % seen)
    look(browser, 8.0, False)
    look(browser, 2.0, True)
    look(browser, 40.0, False)
    look(browser, 10.5, True)
    look(browser, 11.4, False)
    for _ in range(10):
        browser.press(key="h")
    look(browser, 11.4 + 0.3, True)
    look(browser, 9.5, False)


def run(stage):
    name = "page_draws_subtitles"
    if not any(stage.wants(name + end) for end in ("", "_ass", "_pgs", "_vobsub")):
        return
    with stage.case(name):
        if browsers.why_not():
            raise report.Skip(browsers.why_not())
        with tempfile.TemporaryDirectory(dir=servers.WORK) as folder:
            film = os.path.join(shutil.copytree(sample(), os.path.join(folder, FOLDER)), FOLDER + ".mkv")
            # What is no font under a font's name: the script is drawn all the same.
            liar = os.path.join(folder, "liar.ttf")
            with open(liar, "wb") as out:
                out.write(b"GIF89a, not a font")
            subprocess.run(["mkvpropedit", "-q", film, "--attachment-mime-type", "font/ttf", "--attachment-name", "liar.ttf", "--add-attachment", liar],
                           stdout=subprocess.DEVNULL, check=True)
            with servers.Server([("movies", folder)], ["--storage-helper", "off"]) as server, browsers.Browser() as browser:
                browser.open(url=server.url)
                browser.setup(user=servers.USER, password=servers.PASSWORD)
                server.login()
                row = server.settled([TITLE])[TITLE]
                tracks = browser.play(id=row["id"])["subtitles"]
                for kind, draw in KINDS:
                    with stage.case("%s_%s" % (name, kind)):
                        at = next(n for n, t in enumerate(tracks) if (t.get("original") or {}).get("format") == kind)
                        played = open_track(browser, row, at + 1)  # the first choice is none
                        check(played["decision"]["video"]["action"] == "copy", "nothing is burnt in: %s" % played["decision"]["video"])
                        draw(browser)
                        now = browser.eval_(code="document.querySelector('[data-testid=player]').dataset.session")
                        check(now == played["session"], "another stream was asked for")
                        browser.shot(name="subtitles-" + kind)
                        # Kept for the title: taken back for the next kind.
                        for _ in range(10):
                            browser.press(key="g")
                        problems = [line for line in browser.problems() if "/fonts/" not in line]
                        check(not problems, "the page complains: %s" % problems)
                forgotten(server, row)


def forgotten(server, row):
    """A client that draws none of them gets words, and pictures in the picture."""
    tracks = server.play(row["id"])["subtitles"]
    check(not any(t.get("original") for t in tracks), "nothing as it is for who does not say so: %s" % tracks)
    pgs = next(t["index"] for t in tracks if not t.get("url"))
    played = server.play(row["id"], subtitle=pgs)
    check("subtitle_burn_in" in [reason["code"] for reason in played["reasons"]], "drawn into the picture: %s" % played["reasons"])


KINDS = [("ass", script), ("pgs", pictures), ("vobsub", pictures)]
