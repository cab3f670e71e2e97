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


def chunks(*devices, scan=True):
    """The chunk tree of a mounted btrfs: logical start, length, type and stripes as (devid, offset). `scan` looks for the members that are not
    given, and reads a megabyte of every disk of the machine for it: maybe in the middle of somebody else's trace."""
    found, current = [], None
    for line in sh("btrfs", "inspect-internal", "dump-tree", *([] if scan else ["--noscan"]), "-t", "chunk", *devices).splitlines():
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
    """btrfs device number -> (kernel name of the disk, byte where the device begins on it)."""
    text = sh("btrfs", "filesystem", "show", mount)
    return {int(number): place(path) for number, path in re.findall(r"devid\s+(\d+) .* path (\S+)", text) if os.path.exists(path)}


def place(device):
    """The disk that a device is or lies on, and where it begins there."""
    name = os.path.basename(device)
    start = "/sys/class/block/%s/start" % name
    if not os.path.exists(start):
        return name, 0
    whole = os.path.basename(os.path.dirname(os.path.realpath("/sys/class/block/" + name)))
    return whole, int(open(start).read()) * 512


def pieces(pool, path):
    """Every place on a disk that holds bytes of the file, all copies. Parity is not among them, nor what is missing."""
    if pool.kind == "mergerfs":
        branch, device = next((b, d) for b, d in zip(pool.branches, pool.devices) if os.path.exists(in_branch(pool, b, path)))
        disk, base = place(device)
        return [Piece(disk, base + address, length, offset, 0) for offset, address, length in extents(in_branch(pool, branch, path))]
    if pool.kind != "btrfs":
        disk, base = place(pool.devices[0])
        return [Piece(disk, base + address, length, offset, 0) for offset, address, length in extents(path)]
    here = [device for device, loop in zip(pool.devices, pool.loops) if loop not in pool.missing]
    table, names, found = chunks(*here, scan=False), devids(pool.mount), []
    for offset, address, length in extents(path):
        while length > 0:
            chunk = next(c for c in table if c["start"] <= address < c["start"] + c["length"])
            inside, count = address - chunk["start"], len(chunk["stripes"])
            run = min(length, chunk["start"] + chunk["length"] - address)
            kind = chunk["type"]
            parity = 1 if "RAID5" in kind else 2 if "RAID6" in kind else 0
            if parity:
                # Data goes round with the row: column c of row r lies on stripe (r + c) mod n, parity behind the last.
                run = min(run, chunk["stripe"] - inside % chunk["stripe"])
                row, column = divmod(inside // chunk["stripe"], count - parity)
                physical = row * chunk["stripe"] + inside % chunk["stripe"]
                legs = [chunk["stripes"][(row + column) % count]]
            elif "RAID0" in kind or "RAID10" in kind:
                run = min(run, chunk["stripe"] - inside % chunk["stripe"])
                number = inside // chunk["stripe"]
                copies = chunk["sub"] if "RAID10" in kind else 1
                columns = count // copies
                first = number % columns * copies
                physical = number // columns * chunk["stripe"] + inside % chunk["stripe"]
                legs = chunk["stripes"][first:first + copies]
            else:  # one copy (single) or all stripes hold the same (mirrors, dup)
                physical, legs = inside, chunk["stripes"]
            for copy, (devid, base) in enumerate(legs):
                if devid in names:
                    found.append(Piece(names[devid][0], names[devid][1] + base + physical, run, offset, copy))
            offset, address, length = offset + run, address + run, length - run
    return found


def in_branch(pool, branch, path):
    return os.path.join(branch, os.path.relpath(path, pool.mount))


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
