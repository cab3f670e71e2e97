"""Real filesystems on loop devices: btrfs in all its profiles, ext4, xfs, partitions and mergerfs. Needs root.

A pool is a context manager; it is taken down when the block ends, also by an exception or a signal. What a
killed run left behind is written to a state file before it is made, and `pool sweep` removes it.

    tests/rigs/pool up raid1 /some/dir     make, print mount point and devices, and leave it
    tests/rigs/pool sweep [all]            take down what dead runs left (all: also what `up` made)

Loop devices are opened with direct I/O: otherwise the backing file's own page cache answers reads and the
rig measures memory. They say `rotational = 0`; the flag can be set with `rotational=True`, which changes how the
kernel chooses a mirror leg on md, not on btrfs. With `model="hdd7200"` the devices take that drive's time once
`pool.model.delays(True)` was called, and fail as `pool.model` is told (disks.py)."""
import atexit
import ctypes
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import disks as models
import place

WORK = place.work()
STATE = os.path.join(WORK, "pools")


class Profile:
    """How a pool is made. `columns` and `copies` are worked out by hand, for what is expected of the server."""

    def __init__(self, kind, disks, data=None, meta="raid1", options="", partition=False, columns=1, copies=1):
        self.kind, self.disks, self.data, self.meta, self.options, self.partition = kind, disks, data, meta, options, partition
        self.columns, self.copies = columns, copies


PROFILES = {
    "single": Profile("btrfs", 3, "single"),
    "dup": Profile("btrfs", 1, "dup", "dup", copies=2),
    "raid0": Profile("btrfs", 3, "raid0", columns=3),
    "raid1": Profile("btrfs", 2, "raid1", copies=2),
    "raid1-3": Profile("btrfs", 3, "raid1", copies=2),
    "raid1c3": Profile("btrfs", 3, "raid1c3", "raid1c3", copies=3),
    "raid1c4": Profile("btrfs", 4, "raid1c4", "raid1c4", copies=4),
    "raid10": Profile("btrfs", 4, "raid10", columns=2, copies=2),
    "raid5": Profile("btrfs", 3, "raid5", columns=2),
    "raid6": Profile("btrfs", 4, "raid6", "raid1c3", columns=2),
    "compressed": Profile("btrfs", 2, "single", options=",compress-force=zstd:1"),
    "ext4": Profile("ext4", 1),
    "xfs": Profile("xfs", 1),
    "partition": Profile("ext4", 1, partition=True),
    "partition-raid1": Profile("btrfs", 2, "raid1", partition=True, copies=2),
    "mergerfs": Profile("mergerfs", 3),
}
# What each branch of a mergerfs pool is.
BRANCHES = ("ext4", "xfs", "ext4")
# A partition begins here: not at a multiple of anything that a filesystem uses, so that a forgotten offset shows.
PARTITION_START = (3 << 20) + (36 << 10)


def sh(*argv, check=True):
    """Runs a program; its output is in the exception when it fails."""
    run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and run.returncode:
        raise RuntimeError("%s: exit %d: %s" % (" ".join(argv), run.returncode, run.stdout.strip()[-600:]))
    return run.stdout


def which(tool):
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def why_not(profile=None, model=False):
    """None when pools (of a profile, behind the disk model) can be made here, else the reason."""
    if os.geteuid() != 0:
        return "making loop devices and mounting needs root"
    if not os.path.exists("/dev/loop-control"):
        return "this machine has no loop devices"
    for tool in ("losetup", "mount", "mkfs.btrfs", "mkfs.ext4", "mkfs.xfs") + (("mergerfs",) if profile == "mergerfs" else ()):
        if not which(tool):
            return "%s is not installed" % tool
    return models.why_not() if model else None


class Pool:
    """One mounted filesystem over its own loop devices. `disks` maps the kernel's name of a disk to its device path;
    `devices` are what the filesystem is on (partitions, where there are some)."""

    def __init__(self, profile, size_mib=512, rotational=False, owner=None, model=None, settings=(), ram=False):
        self.profile, self.size_mib, self.rotational = profile, size_mib, rotational or bool(model)
        self.plan = PROFILES[profile]
        self.kind, self.count, self.data, self.meta = self.plan.kind, self.plan.disks, self.plan.data, self.plan.meta
        self.dir = os.path.join(STATE, "%s-%d-%d" % (profile, os.getpid(), time.monotonic_ns() % 1000000))
        self.mount = os.path.join(self.dir, "mnt")
        self.owner, self.loops, self.devices, self.missing = owner or os.getpid(), [], [], set()
        self.branches = []
        # In memory: as fast as loop devices get, for what is measured against the rest of the path.
        self.images = os.path.join("/dev/shm", "spindle-rig-" + os.path.basename(self.dir)) if ram else self.dir
        self.preset, self.settings, self.model = model, settings, None

    @property
    def disks(self):
        return {os.path.basename(path): path for path in self.loops if path not in self.missing}

    @property
    def numbers(self):
        """What the kernel may call a disk in a trace: a partition's requests carry the partition's number."""
        return {**self.disks, **{os.path.basename(path): path for path in self.devices if path not in self.missing}}

    def name_in_model(self, disk):
        """The model's name of a disk: they are numbered as the loops are."""
        return "d%d" % [os.path.basename(path) for path in self.loops].index(disk)

    def up(self):
        os.makedirs(self.mount)
        os.chmod(STATE, 0o755)
        self._note()
        os.makedirs(self.images, exist_ok=True)
        images = {}
        for number in range(self.count):
            images["d%d" % number] = os.path.join(self.images, "disk%d.img" % number)
            with open(images["d%d" % number], "wb") as out:
                out.truncate(self.size_mib << 20)
        if self.preset:
            self.model = models.Model(self.dir, images, self.preset, self.settings, stays=self.owner == -1).up()
            images = self.model.files
        for image in images.values():
            self._loop(image)
        self.devices = [self._partition(loop) for loop in self.loops] if self.plan.partition else list(self.loops)
        if self.kind == "btrfs":
            sh("mkfs.btrfs", "-q", "-f", "-d", self.data, "-m", self.meta, *self.devices)
        elif self.kind == "mergerfs":
            self.branches = [os.path.join(self.dir, "branch%d" % number) for number in range(self.count)]
            for branch, kind, device in zip(self.branches, BRANCHES, self.devices):
                os.makedirs(branch)
                make(kind, device)
            self._note()
        else:
            make(self.kind, self.devices[0])
        self._mount()
        return self

    def _loop(self, image):
        loop = sh("losetup", "--direct-io=on", *(["-P"] if self.plan.partition else []), "-f", "--show", image).strip()
        self.loops.append(loop)
        self._note()
        queue = "/sys/block/%s/queue/" % os.path.basename(loop)
        # Loop numbers keep the settings of whoever had them before.
        for key, value in (("read_ahead_kb", "128"), ("rotational", "1" if self.rotational else "0")):
            with open(queue + key, "w") as knob:
                knob.write(value)
        if open("/sys/block/%s/loop/dio" % os.path.basename(loop)).read().strip() != "1":
            raise RuntimeError("%s refused direct I/O on %s" % (loop, self.dir))

    def _partition(self, loop):
        """One partition, told to the kernel (BLKPG): some kernels cannot read a table."""
        sectors = (self.size_mib << 11) - PARTITION_START // 512
        sh("addpart", loop, "1", str(PARTITION_START // 512), str(sectors))
        path = loop + "p1"
        for _ in range(50):
            if os.path.exists(path):
                return path
            time.sleep(0.1)  # the node is made by another process
        major, minor = open("/sys/class/block/%s/dev" % os.path.basename(path)).read().split(":")
        os.mknod(path, 0o600 | 0o060000, os.makedev(int(major), int(minor)))
        return path

    def _mount(self, more=""):
        if self.kind == "mergerfs":
            for branch, kind, device in zip(self.branches, BRANCHES, self.devices):
                sh("mount", "-t", kind, "-o", "noatime", device, branch)
            # Its own caches off: what is read twice must be seen twice. Places go to the branch with the most room.
            sh("mergerfs", "-o", "cache.files=off,dropcacheonclose=true,minfreespace=0,category.create=mfs,allow_other,use_ino", ":".join(self.branches), self.mount)
            return
        options = "noatime" + self.plan.options + more
        here = [device for device, loop in zip(self.devices, self.loops) if loop not in self.missing]
        if self.kind == "btrfs":
            # Without udev the kernel knows a pool's other members only from the mount options.
            options += "".join(",device=" + device for device in here)
        sh("mount", "-t", self.kind, "-o", options, here[0], self.mount)

    def remount(self):
        """A fresh mount: data and metadata are cold."""
        self.flush()
        self.unmount()
        self._mount(",degraded" if self.missing else "")

    def degrade(self, disk):
        """Takes a disk away while the pool is not mounted, and mounts what is left."""
        self.flush()
        self.unmount()
        loop = next(path for path in self.loops if os.path.basename(path) == disk)
        self.missing.add(loop)
        device = self.devices[self.loops.index(loop)]
        # The kernel remembers members by path.
        sh("btrfs", "device", "scan", "--forget", device)
        sh("wipefs", "-q", "-a", device)
        sh("losetup", "-d", loop)
        self._mount(",degraded")

    def flush(self):
        for path in self.branches or [self.mount]:
            flush(path)

    def still(self, seconds=0.6):
        """Waits until nothing reads the disks any more: their own counters stand still."""
        def counters():
            return [open("/sys/block/%s/stat" % disk).read().split()[2] for disk in self.disks]
        end, last, since = time.monotonic() + 90, counters(), time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(0.1)
            now = counters()
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() > end:
                raise RuntimeError("the disks are still read after 90 s")

    def unmount(self):
        for path in [self.mount] + self.branches:
            for _ in range(50):
                if "busy" not in sh("umount", path, check=False):
                    break
                time.sleep(0.1)  # a process that was killed lets go of its files only when it is reaped
            else:
                raise RuntimeError("%s stays busy" % path)

    def _note(self):
        with open(os.path.join(self.dir, "state.json"), "w") as out:
            json.dump({"owner": self.owner, "mounts": [self.mount] + self.branches, "loops": self.loops, "model": bool(self.preset), "images": self.images}, out)

    def down(self):
        if self.model:
            # Whatever was done to the disks: with a hang or an error under it an unmount takes its time.
            try:
                for number in range(self.count):
                    self.model.heal("d%d" % number)
                self.model.delays(False)
            except (OSError, RuntimeError):
                pass
        release([self.dir, self.images], [self.mount] + self.branches, self.loops)
        if self.model:
            self.model.down()
            self.model = None
        remove([self.dir, self.images], [self.mount] + self.branches)

    def __enter__(self):
        atexit.register(self.down)
        try:
            return self.up()
        except BaseException:
            self.down()
            raise

    def __exit__(self, *_):
        self.down()
        atexit.unregister(self.down)


def flush(path):
    """Writes out the filesystem of a path, and no other: the machine's own may have much to write, another pool's disk may hang. As
    sync(2) it says nothing of what cannot be written: of a pool that turned read-only, say."""
    at = os.open(path, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(at)
    finally:
        os.close(at)


def make(kind, device):
    if kind == "ext4":
        # Lazy initialisation writes in the background for minutes and would show up in the trace.
        sh("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    else:
        sh("mkfs.xfs", "-q", "-f", device)


def is_mount(path):
    try:
        return os.path.ismount(path)
    except OSError:  # a mount whose server is gone
        return True


def release(folders, mounts, loops):
    """Unmounts and detaches, as far as a pool came."""
    for mount in mounts:
        if is_mount(mount) and sh("umount", mount, check=False) and is_mount(mount):
            sh("umount", "-l", mount, check=False)
    for loop in loops:
        backing = "/sys/block/%s/loop/backing_file" % os.path.basename(loop)
        try:
            ours = open(backing).read().strip().startswith(tuple(folders))
        except OSError:
            continue
        if ours:  # never detach a number that somebody else has taken since
            sh("losetup", "-d", loop, check=False)


def remove(folders, mounts):
    """Removes the folders. Says what would not go."""
    stuck = [mount for mount in mounts if is_mount(mount)]
    if stuck:
        print("pool: %s could not be unmounted" % ", ".join(stuck), file=sys.stderr)
        return
    for folder in folders:
        if os.path.isdir(folder):
            shutil.rmtree(folder, ignore_errors=True)


def take_down(folder, images, mounts, loops, model):
    """Undoes a pool of a run that is no more."""
    release([folder, images], mounts, loops)
    if model:
        models.end(folder)
    remove([folder, images], mounts)


def sweep(everything=False):
    """Takes down the pools of runs that are no more."""
    if not os.path.isdir(STATE):
        return
    for name in sorted(os.listdir(STATE)):
        folder = os.path.join(STATE, name)
        try:
            state = json.load(open(os.path.join(folder, "state.json")))
        except (OSError, ValueError):
            continue
        alive = state["owner"] != -1 and os.path.exists("/proc/%d" % state["owner"])
        if alive or (state["owner"] == -1 and not everything):
            continue
        print("pool: removing what was left in %s" % folder)
        take_down(folder, state.get("images") or folder, state.get("mounts") or [state["mount"]], state["loops"], state.get("model", False))


def evict(*paths):
    """Drops files from the page cache, without touching anyone else's, and proves it."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            for attempt in range(100):
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                left = int(sh("fincore", "-b", "-n", "-o", "RES", path).strip() or 0)
                if left == 0:
                    break
                time.sleep(0.02 * min(attempt + 1, 10))  # pages that sit in a CPU's own batch are only freed when it drains
            else:
                raise RuntimeError("%s: %d bytes stay in memory" % (path, left))
        finally:
            os.close(fd)


def evict_now(*paths):
    """Drops of files what the page cache lets go at once; of a disk that hangs, what is being read stays."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


if __name__ == "__main__":
    if sys.argv[1:2] == ["up"]:
        made = Pool(sys.argv[2], size_mib=int(os.environ.get("SIZE_MIB", "512")), owner=-1, model=os.environ.get("MODEL"))
        made.up()
        if len(sys.argv) > 3:
            sh("cp", "-r", sys.argv[3] + "/.", made.mount)
            made.flush()
        print(made.mount, *made.loops)
    elif sys.argv[1:2] == ["sweep"]:
        sweep(everything=sys.argv[2:3] == ["all"])
    else:
        sys.exit(__doc__)
