"""HTTP, addresses, sessions and processes: what a client may ask, and what is left when it goes."""
import http.client
import json
import os
import socket
import urllib.parse

import media
import server as servers
from house import COPIES, DIRECT, MADE, client, near
from report import check


def ask(at, path, method="GET", **headers):
    return at.server.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})


def low(headers):
    return {k.lower(): v for k, v in headers.items()}


def HT01(at):
    """a_range_from_zero_is_206"""
    with at.play("Birch Road", DIRECT) as played:
        size = os.path.getsize(at.path("Birch Road"))
        for asked, told, count in (("0-", "0-%d" % (size - 1), size), ("0-1", "0-1", 2), ("0-0", "0-0", 1)):
            status, headers, body = ask(at, played.path, Range="bytes=" + asked)
            headers = low(headers)
            check(status == 206 and headers["content-range"] == "bytes %s/%d" % (told, size), "%s: %d %s" % (asked, status, headers))
            check(int(headers["content-length"]) == len(body) == count, "%s: %s" % (asked, headers))
            check("etag" in headers and headers["accept-ranges"] == "bytes", "%s" % headers)


def HT02(at):
    """odd_ranges_are_answered_as_rfc_9110_says"""
    with at.play("Birch Road", DIRECT) as played:
        data = open(at.path("Birch Road"), "rb").read()
        n = len(data)
        for asked, status, body in (("-500", 206, data[-500:]), ("-99999999999", 206, data), ("0-99999999999", 206, data), ("%d-" % n, 416, None),
                                    ("%d-" % (n - 1), 206, data[-1:]), ("5-2", 200, data), ("abc", 200, data), ("", 200, data)):
            got, headers, sent = ask(at, played.path, Range="bytes=" + asked)
            check(got == status and (body is None or sent == body), "%r: %d, %d bytes" % (asked, got, len(sent)))
            if status == 416:
                check(low(headers)["content-range"] == "bytes */%d" % n, "%s" % headers)
        got, headers, sent = ask(at, played.path, Range="bytes=0-9,20-29")
        kind = low(headers)["content-type"]
        check(got == 200 or got == 206 and kind.startswith("multipart/byteranges; boundary="), "two: %d %s" % (got, kind))
        check(data[0:10] in sent and data[20:30] in sent, "two: the bytes are others")
        got, headers, sent = ask(at, played.path, Range="bytes=" + ",".join("%d-%d" % (k, k) for k in range(0, 400, 2)))
        check(got in (200, 416), "200 ranges: %d" % got)
        got, headers, sent = ask(at, played.path, Range="bytes=3-7")
        check(got == 206 and not low(headers)["content-type"].startswith("multipart"), "one: %s" % headers)


def HT04(at):
    """clients_that_go_away_in_mid_answer_leave_nothing"""
    with at.play("High Bitrate", DIRECT) as played:
        pid = at.server.pid
        count = lambda: len(os.listdir("/proc/%d/fd" % pid))
        memory = lambda: int(next(line for line in open("/proc/%d/status" % pid) if line.startswith("VmRSS")).split()[1]) << 10
        host = urllib.parse.urlsplit(at.server.url)

        def once():
            link = socket.create_connection((host.hostname, host.port), timeout=30)
            link.sendall(("GET %s HTTP/1.1\r\nHost: t\r\nRange: bytes=0-\r\n\r\n" % played.path).encode())
            left = 65536
            while left > 0:
                got = link.recv(65536)
                check(got, "closed by the server")
                left -= len(got)
            link.close()
        for _ in range(20):
            once()
        before, held = count(), memory()
        for _ in range(500):
            once()
        servers.until(10, "descriptors come back", lambda: count() <= before + 5)
        check(memory() - held < 20 << 20, "%d MiB more" % ((memory() - held) >> 20))
        errors = [line for line in open(at.server.log_path, errors="replace") if " ERROR " in line]
        check(not errors, errors[:3])


def NE02(at):
    """forged_addresses_change_nothing"""
    for name, value in (("X-Forwarded-For", "127.0.0.1"), ("X-Forwarded-For", "192.168.1.1, ::1"), ("X-Real-IP", "::1"), ("Forwarded", 'for="[::1]"'),
                        ("X-Forwarded-For", "junk\x7f'\""), ("X-Forwarded-For", ",".join(["10.0.0.1"] * 100)), ("Forwarded", "for=;;=,=\"")):
        token, at.server.token = at.server.token, None
        try:
            status, _, _ = at.server.request("GET", "/api/v1/items", headers={name: value})
            # A value that is no header's is refused as such.
            check(status == 401 or status == 400 and "\x7f" in value, "%s: %s: %d without a token" % (name, value[:40], status))
            status, _, _ = at.server.request("GET", "/metrics", headers={name: value})
            check(status < 500, "%s: %d" % (name, status))
        finally:
            at.server.token = token
    # Whoever guesses is slowed down, whatever address each guess names.
    statuses = []
    for n in range(25):
        status, _, _ = at.server.request("POST", "/api/v1/auth/login", {"username": "nobody", "password": "wrong guess %d" % n}, headers={"X-Forwarded-For": "203.0.113.%d" % n})
        statuses.append(status)
        check(status in (401, 429), "%d" % status)
        if status == 429:
            break
    check(429 in statuses, "25 guesses with 25 addresses are not slowed down: %s" % statuses)


def NE04(at):
    """it_works_without_upgrades_and_through_slow_proxies"""
    status, _, _ = ask(at, "/api/v1/sessions", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==", Sec_WebSocket_Version="13")
    check(status == 200, "asking for an upgrade that is not there: %d" % status)
    with at.play("Amber Coast", DIRECT) as played:
        status, headers, _ = ask(at, played.path, Range="bytes=0-99")
        headers = low(headers)
        check("content-length" in headers or headers.get("x-accel-buffering") == "no", "%s" % headers)
    with at.play("Amber Coast", COPIES) as played:
        status, headers, _ = ask(at, urllib.parse.urljoin(played.path, "0.m4s"))
        check("content-length" in low(headers), "a segment has no length: %s" % headers)
    # Something is sent at least every 30 s on the stream of events, so that no proxy takes it for dead.
    host = urllib.parse.urlsplit(at.server.url)
    link = http.client.HTTPConnection(host.hostname, host.port, timeout=29)
    link.request("GET", "/api/v1/events", headers={"Authorization": "Bearer " + at.server.token})
    answer = link.getresponse()
    check(answer.status == 200 and low(dict(answer.getheaders())).get("x-accel-buffering", "no") == "no", "%s" % answer.getheaders())
    for _ in range(2):
        check(answer.readline(), "the stream of events ended")
    link.close()


def encoders(at):
    return at.server.workers()


def RE01(at):
    """a_vanished_client_leaves_no_worker"""
    with at.play("Two Hours", MADE) as played:
        for n in range(3):
            played.segment(n)
        check(encoders(at), "nothing works for it")
        # The connection is gone with each answer; nothing says that the client is.
        servers.until(60, "its workers are gone", lambda: not encoders(at))


def RE02(at):
    """a_storm_of_seeks_has_one_worker_a_session"""
    with at.play("Two Hours", MADE) as one, at.play("Two Hours Mp4", MADE) as two:
        most = 0
        for k in range(15):
            for played in (one, two):
                played.segment((k * 137) % len(played.playlist()))
                most = max(most, len(encoders(at)))
        # One each, and while one is replaced its successor; a spare that is held ready encodes nothing.
        check(most <= 5, "%d workers at once" % most)
        path = one.cut([one.at(4321)], "re02")
        rows = sorted(row for row in media.pictures(path) if row[1] is not None)
        near(rows[0][1], one.playlist()[one.at(4321)][1], 0.2, "the last seek's first picture")
    servers.until(60, "none is left over", lambda: not encoders(at))


def RE07(at):
    """two_viewers_of_one_film_do_not_mix"""
    small = client("small", video=({"codec": "h264", "max_height": 180},), protocols=["hls"])
    sounds = [s["index"] for s in at.detail("Delta Night")["versions"][0]["streams"] if s["kind"] == "audio"]
    with at.play("Delta Night", MADE, audio=sounds[0], subtitle="off") as one:
        with at.play("Delta Night", small, audio=sounds[1], subtitle="off") as two:
            for n in (0, 5, 1):
                for played, height, french in ((one, 360, False), (two, 180, True)):
                    path = played.cut([n], "re07-%d" % height)
                    check(media.stream(path)["height"] == height, "%s" % media.stream(path)["height"])
                    rows = sorted(row for row in media.pictures(path) if row[1] is not None)
                    near(rows[0][1], played.playlist()[n][1], 0.06, "the clock in segment %d" % n)
                    hz = media.pitch(media.sound(path)[4000:12000])
                    check((abs(hz - 1000) < 10) == french, "a pitch of %d Hz" % hz)
        for n in (2, 3, 8):
            rows = sorted(row for row in media.pictures(one.cut([n], "re07")) if row[1] is not None)
            near(rows[0][1], one.playlist()[n][1], 0.06, "after the other's end: the clock in segment %d" % n)


def ST04(at):
    """a_failed_start_keeps_the_place"""
    item = at.item("Two Hours")["id"]
    place = lambda: at.server.api("GET", "/items/" + item)["state"]["position_s"]
    at.server.api("PUT", "/items/%s/state" % item, {"position_s": 318.0})
    for start, reports in ((0, [0]), (318, [319]), (0, [])):
        played = at.play("Two Hours", COPIES, start_s=start)
        for position in reports:
            at.server.api("POST", "/sessions/%s/progress" % played.answer["session"], {"position_s": position, "paused": False})
        at.server.end(played.answer["session"])
        check(318 <= place() <= 319, "after a start at %s and %s: %s" % (start, reports, place()))
    at.server.api("PUT", "/items/%s/state" % item, {"position_s": 0})


def DL02(at):
    """a_converted_stream_is_sought_by_time"""
    who = {**client("dl02", direct=("mpegts",), audio=("ac3", "aac")), "protocols": ["http"], "target": {"container": "mpegts", "video": ["h264"], "audio": ["ac3"]}}
    with at.play("Delta Night", who, subtitle="off") as played:
        check(played.path.split("?")[0].endswith("film.ts"), played.path)
        status, headers, body = at.server.request("GET", played.path, headers={"TimeSeekRange.dlna.org": "npt=30.0-"})
        headers = low(headers)
        check(status in (200, 206), "%d" % status)
        check(headers["timeseekrange.dlna.org"].startswith("npt=") and headers["timeseekrange.dlna.org"].split("-")[1].startswith("60.0"), "%s" % headers)
        path = at.file("dl02.ts")
        open(path, "wb").write(body)
        near(min(row for row in media.pictures(path, count=30) if row[1] is not None)[1], 30, 2.5, "the first clock")
        status, _, body = at.server.request("GET", played.path)
        open(path, "wb").write(body)
        near(min(row for row in media.pictures(path, count=30) if row[1] is not None)[1], 0, 0.1, "the first clock without")


CASES = [HT01, HT02, HT04, NE02, NE04, RE01, RE02, RE07, ST04, DL02]
