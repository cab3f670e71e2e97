"""Holds what the server said against what was built and what the disks did. Pure: evidence in, findings out.

A finding is (sentence, None when it holds, else what was seen). The disks' side is the trace of the guest (guest.py): `events`
are rows of [disk, byte, length, flags, thread, program, time]."""
import bisect
import collections

BLOCK = 4096
EXACT, FALLBACK = 0.01, 0.10
# States of a piece that is not on its disk (any more).
GONE = ("missing", "stale")
# Below this a percentage says nothing: a page or two that read-ahead brought along.
LEAST = 64 << 10
# Who reads the disks for purposes of its own while a stream plays: threads of the kernel, and zdb, which reads them to tell a map.
OWN_WORK = ("_resync", "_recover", "_reshape", "zdb")

Finding = collections.namedtuple("Finding", "name wrong")
# One cell of the accuracy table: bytes the record gives a disk over bytes the trace saw there.
Cell = collections.namedtuple("Cell", "mode scenario attribution said seen total")


def judge(case, evidence):
    """All findings of a case, and its cells of the accuracy table."""
    findings, cells = [], []
    if evidence.get("error"):
        findings.append(Finding("is built, filled and read", "%s (steps: %s)" % (evidence["error"], evidence.get("steps"))))
    if "topology" in evidence:
        findings.append(Finding("topology is what was built", topology(case, evidence, evidence["topology"])))
    for row in evidence.get("layouts", []):
        name = row["file"].rsplit("/", 1)[-1]
        findings.append(Finding("layout of %s is where it was read" % name, layout(case, evidence, row)))
        if row["raw"] is not None:
            findings.append(Finding("layout of %s is where its bytes are" % name, raw(case, row)))
        if "unexpected argument" not in row["verified"].get("error", ""):
            findings.append(Finding("layout of %s verifies itself" % name, verified(case, row["verified"], row["answer"])))
    for row in evidence.get("serve", []):
        name = "%s, %s" % (row["mode"], row["scenario"])
        if row["errors"]:
            findings.append(Finding("plays (%s)" % name, "; ".join(row["errors"])))
        if "events" in row:
            wrong, cell = record(case, evidence, row)
            findings.append(Finding("record is what the disks did (%s)" % name, wrong))
            cells.append(cell)
        if "mapped" in row:
            findings.append(Finding("a page that asks for a map while it is made gets that one", one_map(evidence, row["mapped"])))
        if row["scenario"] == "lost" and not row["errors"]:
            findings.append(Finding("a disk that nothing replaces ends the stream, not the server", lost(row)))
        if row["scenario"] == "fault" and not row["errors"]:
            findings.append(Finding("the lost disk is named after playback went on", degraded(row.get("topology", {}))))
    return findings, cells


# ---- topology

def nodes(tree):
    yield tree
    for child in tree.get("children") or []:
        yield from nodes(child)


def fits(wanted, node):
    return all(key.startswith("_") or (fits(value, node.get(key) or {}) if isinstance(value, dict) else node.get(key) == value) for key, value in wanted.items())


def topology(case, evidence, said):
    if "error" in said:
        return said["error"]
    wrong = []
    want = case["expect"]
    for key in ("columns", "copies", "layout"):
        if want[key] is not None and said.get(key) != want[key]:
            wrong.append("%s is %s, built with %s" % (key, said.get(key), want[key]))
    there = set() if case["share"] else {evidence["names"][n] if n in evidence["names"] else evidence["names"][str(n)] for n in case["disks"]}
    if not case["state"] and set(said.get("disks", [])) != there:
        wrong.append("disks are %s, built from %s" % (sorted(said.get("disks", [])), sorted(there)))
    found = list(nodes(said.get("node") or {}))
    for part in want["nodes"]:
        # The same disk may be met twice, below two slices.
        names = {node.get("name") for node in found if fits(part, node)}
        if len(names) < part.get("_count", 1):
            wrong.append("no %s (%d of %d found)" % ({k: v for k, v in part.items() if k[0] != "_"}, len(names), part.get("_count", 1)))
    if wrong:
        return "%s; the tree: %s" % ("; ".join(wrong), brief(said.get("node") or {}))
    sync = [node["sync"] for node in found if node.get("sync")]
    if case["busy"] and not (sync and all(0 <= (s.get("done") or 0) <= 1 for s in sync)):
        return "a resync runs, sync is %s" % sync
    return None


def brief(node):
    words = [str(node.get(key)) for key in ("kind", "name", "level", "columns", "copies", "chunk_bytes", "degraded", "sync", "member_state", "state", "why") if node.get(key) is not None]
    children = [brief(child) for child in node.get("children") or []]
    return " ".join(words) + (" [%s]" % ", ".join(children) if children else "")


def degraded(said):
    found = list(nodes(said.get("node") or {}))
    return None if any(node.get("degraded") or node.get("member_state") in ("missing", "faulty") for node in found) else "nothing in the tree is degraded: %s" % brief(said.get("node") or said)


def lost(row):
    if not all(row["ended"]):
        return "a stream went on although its disk is gone: %s; taking it away said %s; topology %s" % (row["ended"], row["fault"], str(row.get("topology"))[:600])
    if row["health"] != 200 or row["titles"] != ["Alpha", "Beta", "Gamma"]:
        return "health is %s, the library lists %s" % (row["health"], row["titles"])
    return row["topology"].get("error")


# ---- layout

class Spans:
    """A set of byte ranges of one disk."""

    def __init__(self, ranges):
        self.rows = []
        for start, end in sorted(ranges):
            if self.rows and start <= self.rows[-1][1]:
                self.rows[-1][1] = max(self.rows[-1][1], end)
            else:
                self.rows.append([start, end])
        self.starts = [row[0] for row in self.rows]

    def outside(self, start, end):
        """The parts of a range that are not in the set."""
        out = []
        at = max(bisect.bisect_right(self.starts, start) - 1, 0)
        for first, last in self.rows[at:]:
            if start >= end or first >= end:
                break
            if last <= start:
                continue
            if first > start:
                out.append((start, first))
            start = max(start, last)
        if start < end:
            out.append((start, end))
        return out

    def missing_bytes(self, start, end):
        return sum(last - first for first, last in self.outside(start, end))


def places(answer, size):
    """(disk, first byte, end) of each piece of each copy, ends rounded up to the filesystem's block."""
    for extent in answer["extents"]:
        # What a lost piece is computed from is read for the file too.
        for copy in [*extent["copies"], extent.get("rebuilt_from") or []]:
            for piece in copy:
                yield piece["disk"], piece["disk_offset"], piece["disk_offset"] + -(-piece["length_bytes"] // BLOCK) * BLOCK


def file_reads(row, keep=lambda event: True):
    """disk -> ranges of file data that were read. What a kernel thread read where its array was being synchronised is the array's."""
    out = collections.defaultdict(list)
    own = collections.defaultdict(list)
    for disk, start, end in row.get("own_work", []):
        own[disk].append((start, end))
    for disk, start, length, flags, _tid, comm, _time in row["events"]:
        is_own = comm.endswith(OWN_WORK) or comm.startswith("md") and any(first <= start < last for first, last in own[disk])
        if "M" not in flags and not is_own and keep((disk, start, length)):
            out[disk].append((start, start + length))
    return out


def layout(case, evidence, row):
    answer = row["answer"]
    if "error" in answer:
        return answer["error"]
    if row["lost"]:
        return "the trace lost %d events" % row["lost"]
    if not answer.get("exact"):
        if case["exact"] is True:
            return "it is not exact: %s" % answer.get("why_inexact")
        return None if answer.get("why_inexact") else "it is not exact and does not say why"
    given = collections.defaultdict(list)
    for disk, start, end in places(answer, row["size"]):
        given[disk].append((start, end))
    given = {disk: Spans(ranges) for disk, ranges in given.items()}
    reads = file_reads(row)
    asked = reads
    if case["fs"] == "zfs":
        asked = {disk: [r for r in ranges if not is_gap(given.get(disk, Spans([])), *r)] for disk, ranges in reads.items()}
    stray = [(disk, start, end) for disk, ranges in asked.items() for first, last in ranges for start, end in given.get(disk, Spans([])).outside(first, last)]
    if case["traced"] == "stripe":
        stray = [part for part in stray if not in_a_row_of(evidence, answer, part)]
    if stray:
        return "%d bytes were read that it does not place, the first %s; it places %s" % (sum(end - start for _, start, end in stray), stray[0], sample(answer))
    return covered(case, evidence, answer, reads, row["size"])


def is_gap(given, start, end):
    """Whether a request of ZFS reaches beside the file only between its records: it joins requests that are near each other
    (zfs_vdev_read_gap_limit, 32 KiB), so that parity and padding are read along."""
    outside = given.outside(start, end)
    return bool(outside) and given.missing_bytes(start, end) < end - start and all(last - first <= 32 << 10 for first, last in outside)


def sample(answer):
    return str(answer["extents"][:2])[:400]


def in_a_row_of(evidence, answer, part):
    """Whether a read beside the file lies in a stripe of the file: the other members of a row whose own disk is gone."""
    array = next((value for key, value in evidence["facts"].items() if key.startswith("md") and isinstance(value, dict)), None)
    if array is None:
        return False
    chunk, members = int(array["chunk_size"]), {m["device"]: int(m["offset"]) * 512 for m in array["members"].values()}
    usual = next(iter(members.values()))
    rows = {row for disk, start, end in places(answer, 0) for row in range((start - members.get(disk, usual)) // chunk, (end - 1 - members.get(disk, usual)) // chunk + 1)}
    disk, start, end = part
    base = members.get(disk)
    return base is not None and all(row in rows for row in range((start - base) // chunk, (end - 1 - base) // chunk + 1))


def covered(case, evidence, answer, reads, size):
    """Every byte of the file must have come from one of its places. With a member gone its bytes come from the others' parity."""
    seen = {disk: Spans(ranges) for disk, ranges in reads.items()}
    none = Spans([])
    placed = missing = 0
    for extent in answer["extents"]:
        # Pieces of the copies need not be cut alike: bytes are counted by 4 KiB blocks of the extent.
        length = min(extent["length_bytes"], size - extent["offset"])
        if answer.get("special", {}).get("stored_bytes"):
            # What is compressed is shorter at its places.
            length = min(length, *(sum(piece["length_bytes"] for piece in copy) for copy in extent["copies"]))
        placed += length
        left = Spans([(0, length)])
        for copy in extent["copies"]:
            at, unread = 0, []
            for piece in copy:
                if piece.get("state") in GONE:
                    unread.append((at, at + piece["length_bytes"]))
                    at += piece["length_bytes"]
                    continue
                for start, end in seen.get(piece["disk"], none).outside(piece["disk_offset"], piece["disk_offset"] + piece["length_bytes"]):
                    unread.append((at + start - piece["disk_offset"], at + end - piece["disk_offset"]))
                at += piece["length_bytes"]
            if at < length:
                unread.append((at, length))
            left = Spans([(max(a, c), min(b, d)) for a, b in left.rows for c, d in unread if max(a, c) < min(b, d)])
        missing += sum(min(last, length) - first for first, last in left.rows if first < length)
    if case["traced"] == "stripe":
        return None if missing < placed * 0.6 else "%d of %d bytes were never read" % (missing, placed)
    return "%d of %d bytes were never read at the places given (%s)" % (missing, placed, sample(answer)) if missing else None


def raw(case, row):
    got = row["raw"]
    if row["answer"].get("error"):
        return row["answer"]["error"]
    if got["other"]:
        return "%d bytes of %d on the disks are not the file's, the first at %s" % (got["other"], got["other"] + got["same"], got["first"])
    if case["exact"] is True and not got["same"] and not is_packed(row["answer"]):
        return "it gives no place"
    return None


def is_packed(answer):
    """Whether all of a file is stored compressed: then its places hold other bytes than the file, and only reads tell that they are right."""
    length = sum(extent["length_bytes"] for extent in answer.get("extents", []))
    return 0 < length <= (answer.get("special") or {}).get("compressed_bytes", 0)


def verified(case, said, answer):
    """`spindle layout --verify`: its own comparison of file and disks must find nothing, and must have compared something."""
    if case["share"]:
        return None if "network mount" in said.get("error", "") else "it compared a file with disks that are not here: %s" % said
    if "error" in said:
        return said["error"]
    if said["different_bytes"]:
        return "%d bytes differ: %s" % (said["different_bytes"], said["differences"][:2])
    if not said["compared_bytes"] and not said["unchecked"]:
        return "it compared nothing and does not say why"
    if not said["compared_bytes"] and case["exact"] is True and case["raw"] and not is_packed(answer):
        return "it compared nothing: %s" % said["unchecked"]
    return None


def one_map(evidence, said):
    """A film's page asks where it lies while the film is opened: zdb is asked once for both, and tells the page what it tells a command."""
    if said["asked"] != len(said["pages"]):
        return "zdb was asked %d times for %d films" % (said["asked"], len(said["pages"]))
    known = next((r["answer"] for r in evidence.get("layouts", []) if "Alpha" in r["file"]), None)
    for title, answer in said["pages"].items():
        if "error" in answer:
            return "%s: %s" % (title, answer["error"])
        if title == "Alpha" and known and "error" not in known and answer["extents"] != known["extents"]:
            return "the page was told %s, a command %s" % (sample(answer), sample(known))
    return None


# ---- record

def seen_by_disk(row):
    total = collections.Counter({disk: 0 for disk in row["issued"]})
    for disk, ranges in file_reads(row).items():
        total[disk] += sum(end - start for start, end in ranges)
    return total


def said_by_disk(case, row):
    total = collections.Counter()
    for viewer in row["viewers"]:
        for disk in viewer["record"]["disks"]:
            # ZFS marks nothing as metadata in the trace.
            total[disk["disk"]] += disk["read_bytes"] + (disk["metadata_bytes"] if case["fs"] == "zfs" else 0)
    return total


def record(case, evidence, row):
    """(what is wrong or None, the cell). Exact within 1 % of each disk, the map's estimate within 10 %."""
    seen, said = seen_by_disk(row), said_by_disk(case, row)
    if case["share"]:
        return elsewhere(row, said, seen)
    methods = sorted({viewer["record"]["attribution"] for viewer in row["viewers"]})
    cell = Cell(row["mode"], row["scenario"], "+".join(methods) or "none", dict(said), dict(seen), sum(viewer["record"]["read_bytes"] for viewer in row["viewers"]))
    if row["lost"]:
        return "the trace lost %d events" % row["lost"], cell
    if row["mode"] == "exact" and methods != ["block_trace"]:
        return "attribution is %s: %s" % (methods, [viewer["record"].get("why") for viewer in row["viewers"]][:1]), cell
    if row["mode"] != "exact" and methods == ["none"]:
        why = [viewer["record"].get("why") for viewer in row["viewers"]]
        total = sum(viewer["record"]["read_bytes"] for viewer in row["viewers"])
        if not all(why):
            return "no attribution, and no reason given", cell
        # Which disk cannot be known then; how much still can.
        return (None if near(total, sum(seen.values()), FALLBACK) else "in all it says %d bytes, the disks read %d" % (total, sum(seen.values()))), cell
    share = EXACT if row["mode"] == "exact" else FALLBACK
    wrong = ["%s: said %d, the disk read %d (%+.2f %%)" % (disk, said[disk], seen[disk], (said[disk] - seen[disk]) * 100 / max(seen[disk], 1))
             for disk in sorted(set(seen) | set(said)) if not near(said[disk], seen[disk], share)]
    if wrong:
        return "%s; %s" % ("; ".join(wrong), blame(row)), cell
    if row["mode"] == "exact":
        return by_film(case, evidence, row, share), cell
    return None, cell


def elsewhere(row, said, seen):
    """The record of what came over the network: it names no disk and says why, though the server's disk was read for it here."""
    records = [viewer["record"] for viewer in row["viewers"]]
    cell = Cell(row["mode"], row["scenario"], "none", dict(said), dict(seen), sum(record["read_bytes"] for record in records))
    wrong = None
    if not sum(seen.values()):
        wrong = "the server's disk was not read: the cache was not cold"
    elif said or any(record["disks"] for record in records):
        wrong = "it claims disks for what came over the network: %s" % said
    elif any(record["attribution"] != "none" for record in records):
        wrong = "a stream from over the network has the attribution %s" % [record["attribution"] for record in records]
    elif not all(record.get("why") for record in records):
        wrong = "it names no disk and does not say why"
    return wrong, cell


def near(said, true, share):
    return abs(said - true) <= max(share * true, LEAST)


def by_film(case, evidence, row, share):
    """The streams of each film against what was read of that film's own places, where its layout is known."""
    known = {r["file"]: r["answer"] for r in evidence.get("layouts", []) if r["answer"].get("exact")}
    first = next((answer for path, answer in known.items() if "Alpha" in path), None)
    if first is None or len({viewer["film"] for viewer in row["viewers"]}) < 2 or not any(True for _ in places(first, 0)):
        return None
    spans = collections.defaultdict(list)
    for disk, start, end in places(first, 0):
        spans[disk].append((start, end))
    spans = {disk: Spans(ranges) for disk, ranges in spans.items()}
    seen = sum(of_film(case, spans.get(disk, Spans([])), start, end) for disk, ranges in file_reads(row).items() for start, end in ranges)
    said = sum(disk["read_bytes"] for viewer in row["viewers"] if viewer["film"] == 0 for disk in viewer["record"]["disks"])
    return None if near(said, seen, share) else "the streams of the first film say %d bytes, its places were read %d" % (said, seen)


def of_film(case, spans, start, end):
    """How much of a request was for the film that has these places. What ZFS reads along between its records is (raidz leaves a sector free
    behind every other record of an odd number of sectors)."""
    if case["fs"] == "zfs" and is_gap(spans, start, end):
        return end - start
    return end - start - spans.missing_bytes(start, end)


def blame(row):
    """Who read, by program and disk, for the message of a failure."""
    total = collections.Counter()
    for disk, _start, length, flags, _tid, comm, _time in row["events"]:
        total[comm, disk, "M" if "M" in flags else ""] += length
    return "trace: %s; unattributed %s" % (", ".join("%s on %s%s %d" % (comm, disk, " (metadata)" if kind else "", count) for (comm, disk, kind), count in sorted(total.items())),
                                           [viewer["record"]["unattributed_bytes"] for viewer in row["viewers"]])
