"""The library: what a scan finds, groups and keeps, and what no name, file or request may do."""
import json
import os
import re
import shutil
import tempfile
import time
import urllib.parse

import house
import server as servers
from house import COPIES, DIRECT, near
from report import check


def manifest(at):
    return json.load(open(os.path.join(at.folder, "manifest.json")))["files"]


def count(at, **query):
    return at.server.api("GET", "/items?" + urllib.parse.urlencode({"limit": 1, **query}))["total"]


def everything(folder):
    """Every file below a folder, with its time and size."""
    return {os.path.join(base, name): os.lstat(os.path.join(base, name)).st_mtime_ns for base, _, names in os.walk(folder) for name in names}


def episodes_of(at, title):
    """The episodes of a series, season by season."""
    show = next(s for s in at.server.items(type="show") if s["title"] == title)
    return [e for season in at.server.items(type="season", parent=show["id"]) for e in at.server.items(type="episode", parent=season["id"])]


def GR01(at):
    """files_of_several_episodes_are_no_versions_of_one"""
    of = lambda title: sorted((e.get("season") or 0, e.get("episode") or 0, e.get("episode_last") or e.get("episode") or 0) for e in episodes_of(at, title))
    found = of("Harbor Lights")
    check((1, 3, 4) in found and (1, 5, 5) in found, "%s" % found)
    check(len(of("Kumo no Tabi")) == 3, "three-digit numbers: %s" % of("Kumo no Tabi"))
    twice = of("Northern Desk")
    check(twice == [(2, 5, 5), (2, 6, 7)], "%s" % twice)


def GR02(at):
    """versions_are_named_by_their_names_and_measured_by_their_streams"""
    versions = at.detail("Ninefold")["versions"]
    labels = {v["label"]: next(s["height"] for s in v["streams"] if s["kind"] == "video") for v in versions}
    check(labels == {"1080p": 360, "480p": 180, "Director's Cut": 360}, "%s" % labels)


def GR04(at):
    """extras_hang_on_their_film_and_are_none"""
    extras = {e["title"]: e["extra"] for e in at.detail("Amber Coast")["extras"]}
    wanted = [row["expect"]["extra"] for row in manifest(at) if row.get("expect", {}).get("of") == "Amber Coast" and row["expect"].get("extra") != "sample"]
    check(sorted(extras.values()) == sorted(wanted), "%s, not %s" % (extras, wanted))
    check(len([r for r in at.server.items(type="movie") if "Amber Coast" in r["title"]]) == 1, "the film is there more than once")
    check(not [r for r in at.server.items(type="movie") if r["title"].lower() == "sample"], "a sample is a film")
    check(len([e for e in episodes_of(at, "Harbor Lights") if (e.get("season"), e.get("episode")) == (1, 1)]) == 1, "a second first episode")


def GR05(at):
    """films_in_one_folder_stay_apart"""
    titles = {(r["title"], r.get("year")) for r in at.server.items(type="movie")}
    check({("Loose Reel", 1977), ("the loose scene", 1978)} <= titles, "%s" % sorted(titles, key=str)[:9])


def SC12(at):
    """three_scans_find_the_same_and_write_nothing_beside_the_films"""
    folder = at.folder
    before, films = everything(folder), count(at, type="movie")
    for _ in range(2):
        at.server.scan_and_wait(200)
        check(count(at, type="movie") == films, "%d films, not %d" % (count(at, type="movie"), films))
        after = everything(folder)
        check(after == before, "files were made or changed: %s" % sorted(set(after) ^ set(before))[:3])


def SE03(at):
    """paths_from_clients_lead_nowhere"""
    with at.play("Amber Coast", COPIES) as hls, at.play("Birch Road", DIRECT) as direct:
        bases = [os.path.dirname(hls.path), os.path.dirname(direct.path), os.path.dirname(os.path.dirname(direct.path)) + "/subtitles",
                 "", "/assets", "/api/v1/items/%s/images" % at.item("Amber Coast")["id"]]
        for base in bases:
            for name in ("..%2f..%2f..%2fetc%2fpasswd", "..%5c..%5cetc%5cpasswd", "%2e%2e/%2e%2e/%2e%2e/etc/passwd", "%252e%252e/etc/passwd", "/etc/passwd", "%2fetc%2fpasswd", "poster%00.jpg", "../../../../etc/passwd"):
                status, headers, body = at.server.request("GET", base + "/" + name)
                check(b"root:" not in body, "%s/%s" % (base, name))
                page = base in ("", "/assets") and "html" in str(headers.get("content-type", headers.get("Content-Type")))
                check(status in (400, 403, 404) or page, "%s/%s: %d" % (base, name, status))


def routes(at):
    status, _, body = at.server.request("GET", "/api/openapi.json")
    check(status == 200, "%d" % status)
    return [(method.upper(), path, what) for path, methods in json.loads(body)["paths"].items() for method, what in methods.items()]


def SE04(at):
    """nothing_takes_a_file_and_no_body_is_endless"""
    # There is no upload: what a client sends is JSON, and bounded.
    taken = [(m, p) for m, p, what in routes(at) for kind in what.get("requestBody", {}).get("content", {}) if "json" not in kind]
    check(not taken, "%s take more than JSON" % taken)
    item = at.item("Amber Coast")["id"]
    for method, path in (("POST", "/items/%s/images/poster" % item), ("PUT", "/items/%s/images/poster" % item), ("POST", "/items/%s/subtitles/../../x.srt" % item), ("POST", "/items/%s/subtitles" % item)):
        status, _, _ = at.server.request(method, "/api/v1" + path, {"name": "../../x.srt"})
        check(status in (404, 405), "%s %s: %d" % (method, path, status))
    status, _, _ = at.server.request("POST", "/api/v1/items/%s/play" % item, {"client": "x" * (1 << 20)})
    check(status == 413, "%d" % status)


def SE06(at):
    """no_request_names_a_program"""
    body = at.server.request("GET", "/api/openapi.json")[2].decode()
    for word in ("transcode.worker", "worker_program", "storage.helper", "plugin", "hook", "\"exec"):
        check(word not in body, "the API speaks of %s" % word)
    changing = sorted({p for m, p, _ in routes(at) if m in ("PUT", "PATCH", "POST")})
    check(not [p for p in changing if "setting" in p or "config" in p], "%s" % changing)
    for body in ({"transcode.worker": "/tmp/x"}, {"worker": "/tmp/x"}):
        status, _, _ = at.server.request("PUT", "/api/v1/preferences", body)
        check(status == 400, "%s: %d" % (body, status))


def SE12(at):
    """nothing_listens_for_datagrams"""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % at.server.pid):
        try:
            found = re.match(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" % (at.server.pid, fd)))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    for table in ("udp", "udp6"):
        rows = [line.split() for line in open("/proc/%d/net/%s" % (at.server.pid, table))][1:]
        check(not [r for r in rows if r[9] in inodes], "the server listens for datagrams")


def SE13(at):
    """no_request_removes_a_file"""
    check(not [p for m, p, _ in routes(at) if m == "DELETE" and ("items" in p or "versions" in p or "files" in p)], "a route removes items")
    folder = at.file("Kept")
    os.makedirs(os.path.join(folder, "Amber Coast (2001)"))
    shutil.copy(at.path("Amber Coast"), os.path.join(folder, "Amber Coast (2001)", "Amber Coast (2001).mp4"))
    before = everything(folder)
    made = at.server.api("POST", "/libraries", {"name": "Kept", "kind": "movies", "path": folder})
    at.server.idle(120)
    at.server.api("DELETE", "/libraries/" + made["id"])
    time.sleep(1)
    check(everything(folder) == before, "removing a library changed its files")
    status, _, _ = at.server.request("DELETE", "/api/v1/items/" + at.item("Amber Coast")["id"])
    check(status in (404, 405), "%d" % status)


def HT05(at):
    """a_film_that_is_gone_is_missing_and_keeps_its_place"""
    folder = at.file("Going")
    os.makedirs(os.path.join(folder, "Last Ferry (1999)"))
    path = os.path.join(folder, "Last Ferry (1999)", "Last Ferry (1999).mp4")
    shutil.copy(at.path("Amber Coast"), path)
    shutil.copy(at.path("Birch Road"), os.path.join(folder, "Stays (1998).mp4"))
    made = at.server.api("POST", "/libraries", {"name": "Going", "kind": "movies", "path": folder})
    try:
        servers.until(60, "the film is there", lambda: [r for r in at.server.items(type="movie") if r["title"] == "Last Ferry" and r.get("duration_s")])
        item = at.item("Last Ferry")["id"]
        at.server.api("PUT", "/items/%s/state" % item, {"position_s": 5.0})
        os.remove(path)
        status, _, body = at.server.request("POST", "/api/v1/items/%s/play" % item, {"client": DIRECT})
        problem = json.loads(body)
        said = status in (404, 410) and problem["type"].endswith("file-missing")
        # The scan that the removal asks for may be first: then the item itself says so.
        gone = not at.server.api("GET", "/items/" + item)["available"]
        check(said or gone, "%d %s" % (status, problem))
        servers.until(60, "it is marked", lambda: not at.server.api("GET", "/items/" + item)["available"])
        check(at.server.api("GET", "/items/" + item)["state"]["position_s"] == 5.0, "its place is lost")
    finally:
        at.server.api("DELETE", "/libraries/" + made["id"])


CASES = [GR01, GR02, GR04, GR05, SC12, HT05, SE03, SE04, SE06, SE12, SE13]


# ---- with a library of their own

def SC07(folder):
    """links_that_loop_or_lead_nowhere_end_no_scan"""
    with house.House([("movies", os.path.join(folder, "Names", "Links"))]) as at:
        at.server.idle(60)
        titles = sorted(r["title"] for r in at.server.items(type="movie"))
        check(len(titles) == len(set(titles)) and {"Real", "Linked", "Hard"} & {t.split()[0] for t in titles}, "%s" % titles)


def SC09(folder):
    """one_name_that_is_no_unicode_hides_no_other"""
    with house.House([("movies", os.path.join(folder, "Names"))]) as at:
        at.server.idle(120)
        rows = at.server.items(type="movie")
        years = {r.get("year") for r in rows}
        check({1983, 2001, 2002, 2007, 2008, 2009, 2010, 2014, 2015, 2016, 2019, 2020} <= years, "%s" % sorted(y for y in years if y))
        check(not [line for line in open(at.server.log_path, errors="replace") if " ERROR " in line or "panicked" in line], "the log has errors")
        # SE07 too: what is in a name is text.
        check([r for r in rows if r.get("year") == 2003 and "<b>" in r["title"]], "the name with marks of HTML is %s" % [r["title"] for r in rows if r.get("year") == 2003])


def SC16(folder):
    """a_pipe_named_like_a_film_is_not_opened"""
    with tempfile.TemporaryDirectory(prefix="pipe-", dir=house.place.work()) as films:
        os.mkfifo(os.path.join(films, "x.mkv"))
        os.makedirs(os.path.join(films, "Amber Coast (2001)"))
        shutil.copy(os.path.join(folder, "Movies/Amber Coast (2001)/Amber Coast (2001).mp4"), os.path.join(films, "Amber Coast (2001)"))
        with house.House([("movies", films)]) as at:
            at.server.settled(["Amber Coast"], 60)
            at.server.idle(90)
            # Whoever opened it for reading would let a writer in.
            try:
                os.close(os.open(os.path.join(films, "x.mkv"), os.O_WRONLY | os.O_NONBLOCK))
                raise AssertionError("somebody reads the pipe")
            except OSError as error:
                check(error.errno == 6, "%s" % error)


def ST05(folder):
    """the_last_place_outlives_a_killed_server"""
    at = house.House([("movies", os.path.join(folder, "Movies/Two Hours (2000)"))])
    at.server.own_data = False
    data = at.server.data
    try:
        with at:
            at.server.settled(["Two Hours"], 120)
            played = at.play("Two Hours", COPIES)
            for position in range(1200, 1235, 10):
                at.server.api("POST", "/sessions/%s/progress" % played.answer["session"], {"position_s": position, "paused": False})
                time.sleep(1.1)
            at.server.kill()
        with servers.Server([("movies", os.path.join(folder, "Movies/Two Hours (2000)"))], ["--storage-helper", "off"], data=data) as again:
            again.login()
            place = again.item("Two Hours")["state"]["position_s"]
            near(place, 1234, 15, "the place after kill -9")
    finally:
        shutil.rmtree(data, ignore_errors=True)


ALONE = [SC07, SC09, SC16, ST05]
