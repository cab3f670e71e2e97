"""Where a file's bytes lie on the disks, from other people's tools: filefrag and btrfs inspect-internal.

The server's own map is checked against this one; it must not use the server's code or its way of asking."""
import bisect
import collections
import os
import re

from pool import sh

Piece = collections.namedtuple("Piece", "disk start_byte len_bytes file_offset copy")


def extents(path):
    """(file offset, filesystem address, length) of each extent, in bytes."""
    found = []
    for line in sh("filefrag", "-v", "-e", "-b512", path).splitlines():
        part = re.match(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*(\d+):", line)
        if part:
            first, last, address = int(part[1]), int(part[2]), int(part[3])
            found.append((first * 512, address * 512, (last - first + 1) * 512))
    return found


def chunks(device):
    """The chunk tree of a mounted btrfs: logical start, length, type and stripes as (devid, offset)."""
    found, current = [], None
    for line in sh("btrfs", "inspect-internal", "dump-tree", "-t", "chunk", device).splitlines():
        if part := re.search(r"CHUNK_ITEM (\d+)\)", line):
            current = dict(start=int(part[1]), stripes=[])
            found.append(current)
        elif current is None:
            continue
        elif part := re.search(r"length (\d+) owner \d+ stripe_len (\d+) type (\S+)", line):
            current.update(length=int(part[1]), stripe=int(part[2]), type=part[3])
        elif part := re.search(r"sub_stripes (\d+)", line):
            current["sub"] = int(part[1])
        elif part := re.search(r"stripe \d+ devid (\d+) offset (\d+)", line):
            current["stripes"].append((int(part[1]), int(part[2])))
    return [chunk for chunk in found if chunk["stripes"] and "length" in chunk]


def devids(mount):
    """btrfs device number -> kernel name."""
    text = sh("btrfs", "filesystem", "show", mount)
    return {int(number): os.path.basename(path) for number, path in re.findall(r"devid\s+(\d+) .* path (\S+)", text)}


def pieces(pool, path):
    """Every place on a disk that holds bytes of the file, all copies."""
    if pool.kind != "btrfs":
        return [Piece(os.path.basename(pool.loops[0]), address, length, offset, 0) for offset, address, length in extents(path)]
    table, names, found = chunks(pool.loops[0]), devids(pool.mount), []
    for offset, address, length in extents(path):
        while length > 0:
            chunk = next(c for c in table if c["start"] <= address < c["start"] + c["length"])
            inside, count = address - chunk["start"], len(chunk["stripes"])
            run = min(length, chunk["start"] + chunk["length"] - address)
            kind = chunk["type"]
            if "RAID0" in kind or "RAID10" in kind:
                run = min(run, chunk["stripe"] - inside % chunk["stripe"])
                number = inside // chunk["stripe"]
                copies = chunk["sub"] if "RAID10" in kind else 1
                columns = count // copies
                first = number % columns * copies
                physical = number // columns * chunk["stripe"] + inside % chunk["stripe"]
                legs = chunk["stripes"][first:first + copies]
            else:  # one copy (single) or all stripes hold the same (mirrors)
                physical, legs = inside, chunk["stripes"]
            for copy, (devid, base) in enumerate(legs):
                found.append(Piece(names[devid], base + physical, run, offset, copy))
            offset, address, length = offset + run, address + run, length - run
    return found


class Owner:
    """Answers which of some files a disk address belongs to."""

    def __init__(self, pool, files):
        self.table = collections.defaultdict(list)
        for path in files:
            for piece in pieces(pool, path):
                self.table[piece.disk].append((piece.start_byte, piece.len_bytes, path))
        for rows in self.table.values():
            rows.sort()

    def of(self, disk, start_byte):
        rows = self.table.get(disk, [])
        at = bisect.bisect_right(rows, (start_byte, 1 << 62, "")) - 1
        if at >= 0 and rows[at][0] <= start_byte < rows[at][0] + rows[at][1]:
            return rows[at][2]
        return None
