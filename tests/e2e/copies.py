"""`spindle bench copy` between two real pools, and `spindle bench net` against a real server.

A copy's record says what each disk wrote: held against the independent trace (tests/rigs/trace.py) of the same time, within 2 %. What
a mirror and parity cost a write is in it. A write cache that fills is made by the disk model, which is told after how many bytes."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import browser as browsers
import place
import pool as pools
import report
import server as servers
import trace as tracing
from report import check

MIB = 1 << 20
TOLERANCE = 0.02
# Below this a percentage of a disk says nothing: a superblock, a leaf of a tree.
FLOOR_BYTES = 256 << 10


def bench(data, *words, more=(), **keys):
    return subprocess.run([*more, servers.PROGRAM, "bench", "--data-dir", data, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **keys)


def record_of(data, run, interrupted=False):
    check(run.returncode == (1 if interrupted else 0), "exit %d: %s" % (run.returncode, run.stderr[-600:]))
    kept = json.loads(bench(data, "list", "--json").stdout)
    return json.loads(bench(data, "show", kept[0]["id"], "--json").stdout)


def left(*mounts):
    return [name for mount in mounts for name in os.listdir(mount) if name.startswith(".spindle-bench-")]


def copied(profile, cost):
    """From a raid1 to a pool of `profile`; each byte should be written `cost` times."""
    data = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    try:
        with pools.Pool("raid1", size_mib=512) as source, pools.Pool(profile, size_mib=512) as target:
            with tracing.BlockTrace({**source.disks, **target.disks}, kind="RW") as seen:
                run = bench(data, "copy", source.mount, target.mount, "--size", "128M", "--yes", stdin=subprocess.DEVNULL)
            record = record_of(data, run)
            check(not seen.lost, "the trace lost %d lines" % seen.lost)
            rows = {row["name"]: row for row in record["rows"] if row["what"] == "disk"}
            check(set(rows) == set(source.disks) | set(target.disks), "disks: %s" % sorted(rows))
            began, ended = record["clock"]["began_us"] / 1e6, record["clock"]["ended_us"] / 1e6
            for disks, kind, field in ((target.disks, "W", "write_bytes"), (source.disks, "R", "read_bytes")):
                true = {disk: sum(e.len_bytes for e in seen.events if e.disk == disk and kind in e.flags and began <= e.time_s <= ended) for disk in disks}
                for disk in disks:
                    said = rows[disk][field]
                    check(abs(said - true[disk]) <= max(TOLERANCE * true[disk], FLOOR_BYTES), "%s: %s told %d, the trace has %s" % (disk, field, said, true))
                print("      %s to %s: %s told %s, traced %s" % (source.profile, profile, field, {d: rows[d][field] for d in disks}, true), flush=True)
            volumes = {row["side"]: row for row in record["rows"] if row["what"] == "volume"}
            check(record["rows"][0]["write_bytes"] == 128 * MIB, "the copy: %s" % record["rows"][0])
            check(abs(volumes["to"]["per_byte"] - cost) <= 0.05 * cost, "each byte was written %.3f times, expected %.2f" % (volumes["to"]["per_byte"], cost))
            check(abs(volumes["from"]["per_byte"] - 1) <= 0.05, "each byte was read %.3f times" % volumes["from"]["per_byte"])
            check("written %.2f times" % volumes["to"]["per_byte"] in record["verdict"], record["verdict"])
            check(not left(source.mount, target.mount) and not os.listdir(os.path.join(data, "experiments", "scratch")), "a file is left")
    finally:
        shutil.rmtree(data, ignore_errors=True)


def knee():
    """Disks whose write cache is full after a known number of bytes: the record and the page mark that place."""
    full_bytes, after = 192 * MIB, 8e6
    data = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    try:
        with pools.Pool("ext4", size_mib=512, ram=True) as source, \
                pools.Pool("raid1", size_mib=512, model="hdd7200", settings=("outer_mb_s=100", "inner_mb_s=90")) as target:
            for disk in target.disks:
                target.model.fills(target.name_in_model(disk), full_bytes, after)
            target.model.delays(True)
            run = bench(data, "copy", source.mount, target.mount, "--size", "224M", "--yes", stdin=subprocess.DEVNULL)
            target.model.delays(False)
            record = record_of(data, run)
            check(not left(source.mount, target.mount), "a file is left")
        found, rates, had, last = record.get("knee"), [], 0, 0
        for t, rate in zip(record["series"]["t_s"], record["series"]["bytes_per_s"]):
            had, last = had + rate * (t - last), t
            if had < 0.9 * full_bytes:
                rates.append(rate)
        middle = statistics.median(rates)
        if middle < 4 * after or statistics.median(abs(rate - middle) for rate in rates) > middle / 4:
            raise report.Skip("the machine is too busy: before the cache is full it copies at %s MB/s" % [round(r / 1e6) for r in rates])
        check(found, "no knee in %s" % [round(r / 1e6) for r in record["series"]["bytes_per_s"]])
        print("      knee after %.0f MiB of %.0f: %.0f to %.0f MB/s" % (found["after_bytes"] / MIB, full_bytes / MIB, found["before_bytes_per_s"] / 1e6, found["after_bytes_per_s"] / 1e6), flush=True)
        # A place, not a rate: one interval of the series, and what lies between reader and disk.
        check(abs(found["after_bytes"] - full_bytes) <= 0.15 * full_bytes, "after %d bytes, the cache had %d" % (found["after_bytes"], full_bytes))
        check(found["after_bytes_per_s"] < 0.7 * found["before_bytes_per_s"], "rates: %s" % found)
        check("as when a cache is full" in record["verdict"], record["verdict"])
        if browsers.why_not():
            raise report.Skip(browsers.why_not())
        with servers.Server(data=data) as server, browsers.Browser() as browser:
            browser.open(url=server.url)
            browser.setup(user=servers.USER, password=servers.PASSWORD)
            browser.open(url=server.url + "/#/experiments/" + record["id"])
            marked = browser.eval_(code="""(async () => {
                for (let i = 0; i < 100 && !document.querySelector('svg .marked'); i++) await new Promise((go) => setTimeout(go, 100));
                return [...document.querySelectorAll('svg .marked')].map((e) => e.textContent);
            })()""")
            check(len(marked) == 1 and marked[0].startswith("from "), "the page marks %s" % marked)
            browser.shot(name="copy-knee")
    finally:
        shutil.rmtree(data, ignore_errors=True)


def patterns(profile):
    """`corners` and `blocks` on a pool, from end to end: every row, in order, with figures that fit together."""
    data = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    try:
        with pools.Pool(profile, size_mib=256) as pool:
            def given():
                return sum(int(open("/sys/block/%s/stat" % disk).read().split()[2]) * 512 for disk in pool.disks)
            before = given()
            run = bench(data, "corners", pool.mount, "--size", "64M", "--seconds", "0.2", "--yes", "--json", stdin=subprocess.DEVNULL)
            record = record_of(data, run)
            rows = json.loads(run.stdout)
            # btrfs takes blocks that are smaller than its own and reads them through memory: what is called direct came off the disks.
            wanted = sum(row["bytes"] for row in rows if row["op"] == "read")
            check(given() - before >= wanted, "%d bytes were read, and the disks gave %d" % (wanted, given() - before))
            # The last digit of a fraction may change when it is read again.
            check([sorted(row) for row in rows] == [sorted(row) for row in record["rows"]] and
                  all(abs(a[key] - b[key]) <= 1e-9 * abs(b[key]) if isinstance(b[key], float) else a[key] == b[key] for a, b in zip(rows, record["rows"]) for key in b),
                  "what is printed is what is kept: %s %s" % (rows, record["rows"]))
            names = ("sequential_read_1_block", "random_read_4k", "random_write_4k", "sequential_write_512k", "sequential_read_512k")
            check([(row["depth"], row["pattern"]) for row in rows] == [(depth, name) for depth in (1, 32) for name in names] or
                  {(row["depth"], row["pattern"]) for row in rows} == {(depth, name) for depth in (1, 32) for name in names}, "rows: %s" % rows)
            run = bench(data, "blocks", pool.mount, "--size", "64M", "--seconds", "0.2", "--yes", "--json", stdin=subprocess.DEVNULL)
            sweep = json.loads(run.stdout)
            check([(row["block_bytes"], row["op"]) for row in sweep] == [(4096 << (2 * step), op) for step in range(7) for op in ("write", "read")], "rows: %s" % sweep)
            for row in rows + sweep:
                check(row["ops"] > 0 and row["bytes"] == row["ops"] * row["block_bytes"] and row["seconds"] > 0, "row: %s" % row)
                check(abs(row["iops"] * row["seconds"] - row["ops"]) < 1e-3 * row["ops"] + 1, "row: %s" % row)
                check(row["p50_us"] <= row["p95_us"] <= row["p99_us"] <= row["max_us"] + 1, "row: %s" % row)
                check(row["direct"], "O_DIRECT works on %s: %s" % (profile, row))
            topology = record["topology"]
            check((topology["columns"], topology["copies"], sorted(topology["disks"])) == (pool.plan.columns, pool.plan.copies, sorted(pool.disks)), "topology: %s" % topology)
            check(not left(pool.mount), "a file is left")
    finally:
        shutil.rmtree(data, ignore_errors=True)


def net():
    """Over loopback: rows, and what client and server say of the same bytes."""
    with servers.Server() as server:
        server.setup()
        data = tempfile.mkdtemp(prefix="bench-", dir=place.work())
        try:
            run = bench(data, "net", server.url, "--user", servers.USER, "--password-stdin", "--connections", "1,8", "--seconds", "0.5", "--json", input=servers.PASSWORD + "\n")
            record = record_of(data, run)
            rows = record["rows"]
            check([(row["direction"], row["connections"]) for row in rows] == [("down", 1), ("down", 8), ("up", 1), ("up", 8)] or
                  {(row["direction"], row["connections"]) for row in rows} == {(d, n) for d in ("down", "up") for n in (1, 8)}, "rows: %s" % rows)
            for row in rows:
                check(row["bytes"] > 0 and abs(row["bits_per_s"] - 8 * row["bytes_per_s"]) < 1, "row: %s" % row)
            run = bench(data, "net", server.url, "--user", servers.USER, "--password-stdin", "--seconds", "0.5", input="not-this-one\n")
            check(run.returncode == 1 and "sign in" in run.stderr and "not-this-one" not in run.stderr, run.stderr)
            check(server.api("GET", "/sessions")["total"] == 0, "a session is left")
        finally:
            shutil.rmtree(data, ignore_errors=True)


def slow_net():
    """In a network namespace whose loopback takes 80 Mbit/s: nothing above that is told, in either direction."""
    work = tempfile.mkdtemp(prefix="bench-", dir=place.work())
    try:
        run = subprocess.run(["unshare", "--net", sys.executable, os.path.abspath(__file__), "in-namespace", work], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        check(run.returncode == 0, "exit %d: %s%s" % (run.returncode, run.stdout[-600:], run.stderr[-600:]))
        print(run.stdout.rstrip(), flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


LIMIT_MBIT = 80


def in_namespace(work):
    for words in ("ip link set lo up", "ip link set lo mtu 1500", "tc qdisc add dev lo root tbf rate %dmbit burst 32kb latency 100ms" % LIMIT_MBIT):
        subprocess.run(words.split(), check=True)
    with servers.Server() as server:
        server.setup()
        run = bench(work, "net", server.url, "--user", servers.USER, "--password-stdin", "--connections", "1,4", "--seconds", "1" if not os.environ.get("RIG_ALL") else "3", "--json", input=servers.PASSWORD + "\n")
        rows = json.loads(run.stdout)
        # Beside another program only where rates are looked at (scripts/bench net).
        theirs = iperf() if os.environ.get("RIG_ALL") and pools.which("iperf3") else {}
        for row in rows:
            other = theirs.get((row["direction"], row["connections"]))
            beside = ", iperf3 %.1f, ratio %.3f" % (other / 1e6, row["bits_per_s"] / other) if other else ""
            print("      %s by %d: %.1f Mbit/s of %d%s" % (row["direction"], row["connections"], row["bits_per_s"] / 1e6, LIMIT_MBIT, beside), flush=True)
            # What the limit lets pass at once (its burst) and what lies in sockets is no rate; no more than that goes beyond it.
            check(row["bits_per_s"] <= LIMIT_MBIT * 1e6 * 1.05, "more than the line takes: %s" % row)


def iperf():
    """{(direction, connections): bits a second}, by whoever received."""
    out = {}
    server = subprocess.Popen(["iperf3", "-s", "-B", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for connections in (1, 4):
            for direction, flag in (("up", []), ("down", ["-R"])):
                for _ in range(20):
                    run = subprocess.run(["iperf3", "-c", "127.0.0.1", "-t", "3", "-P", str(connections), "-J", *flag], stdout=subprocess.PIPE, text=True, timeout=60)
                    if run.returncode == 0:
                        out[(direction, connections)] = json.loads(run.stdout)["end"]["sum_received"]["bits_per_second"]
                        break
                    subprocess.run(["sleep", "0.1"], check=True)
    finally:
        server.terminate()
        server.wait()
    return out


def why_no_namespace():
    if os.geteuid() != 0 or not all(pools.which(tool) for tool in ("unshare", "ip", "tc")):
        return "making a network namespace needs root, ip and tc"
    made = subprocess.run(["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "8mbit", "burst", "32kb", "latency", "50ms"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return None if made.returncode == 0 else "this kernel makes no network namespace with a rate limit"


def run(stage):
    cases = {
        "copy_from_raid1_to_raid10_costs_what_the_trace_says": (lambda: copied("raid10", 2.0), lambda: pools.why_not() or tracing.why_not()),
        "copy_from_raid1_to_raid5_costs_what_the_trace_says": (lambda: copied("raid5", 1.5), lambda: pools.why_not() or tracing.why_not()),
        "copy_marks_where_a_write_cache_is_full": (knee, lambda: pools.why_not(model=True)),
        "corners_and_blocks_on_a_pool_give_every_row": (lambda: patterns("raid10"), pools.why_not),
        "net_over_loopback_by_one_and_by_many": (net, lambda: None),
        "net_over_a_line_of_known_rate": (slow_net, why_no_namespace),
    }
    for name, (case, why) in cases.items():
        if stage.wants(name):
            with stage.case(name):
                if why():
                    raise report.Skip(why())
                case()


if __name__ == "__main__" and sys.argv[1:2] == ["in-namespace"]:
    in_namespace(sys.argv[2])
