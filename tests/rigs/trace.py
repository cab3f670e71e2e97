"""The independent witness: which bytes the kernel asked of which disk, from the block tracepoint's text.

It shares nothing with the server's own trace: another interface (tracefs, its own instance, mounted on a private
folder), another language, another parser. `block_bio_queue` on a leaf device fires once a request enters it, in the
thread that caused it, read-ahead included; a request that the driver splits is still told once and whole.
Requests flagged `M` are the filesystem's own blocks (trees, inodes) and are counted apart.

    tests/rigs/trace.py DEVICE... -- COMMAND...     trace while COMMAND runs, print a table"""
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

Event = collections.namedtuple("Event", "time_s tid comm disk sector len_bytes flags")
LINE = re.compile(r"^\s*(.{1,16})-(\d+)\s+\[\d+\]\s+\S*\s*(\d+\.\d+): block_bio_queue: (\d+),(\d+) (\S+) (\d+) \+ (\d+) \[")


def why_not():
    if os.geteuid() != 0:
        return "the block trace needs root"
    if "tracefs" not in open("/proc/filesystems").read():
        return "this kernel has no tracefs"
    return None


def _superblock(event):
    """The page at 64 KiB, where btrfs has its first superblock: whoever looks for filesystems (mkfs, mount, udev) reads it on every
    disk there is, at any time. No filesystem here keeps file data there."""
    return event.sector == 128 and event.len_bytes <= 4096


class Unqueued:
    """Requests that a disk was given without a bio that came to it first. The kernel tells of a bio once (`BIO_TRACE_COMPLETION`): a
    driver that passes on the very one it was given (bcache without a cache, md linear) leaves only the request to be seen."""

    def __init__(self):
        self.waiting = {}

    def queued(self, disk, start, end):
        self.waiting.setdefault(disk, []).append((start, end))

    def issued(self, disk, start, end):
        """The parts of a request that no bio explains; those that explain it are used up."""
        left, rest = [(start, end)], []
        for first, last in self.waiting.get(disk, []):
            if last <= start or first >= end:
                rest.append((first, last))
                continue
            rest += [part for part in ((first, min(last, start)), (max(first, end), last)) if part[0] < part[1]]
            left = [part for a, b in left for part in ((a, min(b, first)), (max(a, last), b)) if part[0] < part[1]]
        self.waiting[disk] = rest
        return left


class BlockTrace:
    """Records reads (or writes, by `kind`; `RW`: both) of `disks` (name -> device path) while its block runs; results after it."""

    def __init__(self, disks, buffer_kib=8192, kind="R"):
        self.numbers, self.kind = {}, kind
        for name, path in disks.items():
            status = os.stat(path)
            self.numbers[(os.major(status.st_rdev), os.minor(status.st_rdev))] = name
            # A request to a partition carries the partition's number, and the place on the whole disk.
            for part in glob.glob("/sys/class/block/%s/%s*/dev" % (name, name)):
                major, minor = open(part).read().split(":")
                self.numbers[(int(major), int(minor))] = name
        self.buffer_kib, self.events, self.lost = buffer_kib, [], 0

    def _write(self, name, value):
        with open(os.path.join(self.instance, name), "w") as out:
            out.write(str(value))

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="spindle-tracefs-%d-" % os.getpid())
        subprocess.run(["mount", "-t", "tracefs", "none", self.root], check=True)
        self.instance = os.path.join(self.root, "instances", "spindle-test-%d" % os.getpid())
        try:
            os.mkdir(self.instance)
            self._write("trace_clock", "mono")
            self._write("buffer_size_kb", self.buffer_kib)
            # The kernel's own device number in a filter: 12 bits of major, 20 of minor.
            self._write("events/block/block_bio_queue/filter",
                        " || ".join("dev == %d" % (major << 20 | minor) for major, minor in self.numbers))
            self._write("events/block/block_bio_queue/enable", 1)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._write("tracing_on", 0)
            with open(os.path.join(self.instance, "trace"), errors="replace") as text:
                for line in text:
                    found = LINE.match(line)
                    if not found:
                        if not line.startswith("#") and line.strip():
                            self.lost += 1
                        continue
                    disk = self.numbers.get((int(found[4]), int(found[5])))
                    if disk and any(letter in found[6] for letter in self.kind):
                        self.events.append(Event(float(found[3]), int(found[2]), found[1].strip(), disk, int(found[7]), int(found[8]) * 512, found[6]))
            for cpu in os.listdir(os.path.join(self.instance, "per_cpu")):
                for line in open(os.path.join(self.instance, "per_cpu", cpu, "stats")):
                    key, _, value = line.partition(":")
                    if key in ("overrun", "dropped events"):
                        self.lost += int(float(value))
        finally:
            self._close()
        return False

    def _close(self):
        for _ in range(20):
            try:
                if os.path.isdir(self.instance):
                    self._write("events/block/block_bio_queue/enable", 0)
                    os.rmdir(self.instance)
                break
            except OSError:
                time.sleep(0.1)  # a reader of the instance must have closed it first
        subprocess.run(["umount", self.root], check=False)
        os.rmdir(self.root)

    def data(self, keep=lambda event: True):
        """Bytes of file data read from each disk. Every disk is in it, also one that served nothing."""
        total = {name: 0 for name in self.numbers.values()}
        for event in self.events:
            if "M" not in event.flags and not _superblock(event) and keep(event):
                total[event.disk] += event.len_bytes
        return total

    def metadata(self):
        total = {name: 0 for name in self.numbers.values()}
        for event in self.events:
            if "M" in event.flags:
                total[event.disk] += event.len_bytes
        return total


def leftover():
    """Removes trace instances and mounts of test runs that are no more."""
    if why_not():
        return
    root = tempfile.mkdtemp(prefix="spindle-tracefs-%d-" % os.getpid())
    subprocess.run(["mount", "-t", "tracefs", "none", root], check=True)
    try:
        for name in os.listdir(os.path.join(root, "instances")):
            found = re.fullmatch(r"spindle-test-(\d+)", name)
            if found and not os.path.exists("/proc/" + found[1]):
                os.rmdir(os.path.join(root, "instances", name))
    finally:
        subprocess.run(["umount", root], check=False)
        os.rmdir(root)
    for old in glob.glob(os.path.join(tempfile.gettempdir(), "spindle-tracefs-*-*")):
        if not os.path.exists("/proc/" + os.path.basename(old).split("-")[2]):
            if os.path.ismount(old):
                subprocess.run(["umount", old], check=False)
            os.rmdir(old)


if __name__ == "__main__":
    if sys.argv[1:] == ["sweep"]:
        leftover()
        sys.exit(0)
    if "--" not in sys.argv:
        sys.exit(__doc__)
    cut = sys.argv.index("--")
    with BlockTrace({os.path.basename(path): path for path in sys.argv[1:cut]}) as trace:
        status = subprocess.run(sys.argv[cut + 1:]).returncode
    print("disk\tdata_bytes\tmetadata_bytes")
    for disk, count in sorted(trace.data().items()):
        print("%s\t%d\t%d" % (disk, count, trace.metadata()[disk]))
    sys.exit(status)
