"""Real filesystems on loop devices: multi-device btrfs, ext4 and xfs. Needs root.

A pool is a context manager; it is taken down when the block ends, also by an exception or a signal. What a
killed run left behind is written to a state file before it is made, and `pool sweep` removes it.

    tests/rigs/pool up raid1 /some/dir     make, print mount point and devices, and leave it
    tests/rigs/pool sweep [all]            take down what dead runs left (all: also what `up` made)

Loop devices are opened with direct I/O: otherwise the backing file's own page cache answers reads and the
rig measures memory. They say `rotational = 0`; the flag can be set with `rotational=True`, which changes how the
kernel chooses a mirror leg on md, not on btrfs."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = os.environ.get("RIG_WORK") or os.path.join(os.path.dirname(HERE), ".work")
STATE = os.path.join(WORK, "pools")

# profile -> (filesystem, disks, data profile, metadata profile)
PROFILES = {
    "single": ("btrfs", 3, "single", "raid1"),
    "raid0": ("btrfs", 3, "raid0", "raid1"),
    "raid1": ("btrfs", 2, "raid1", "raid1"),
    "raid10": ("btrfs", 4, "raid10", "raid1"),
    "ext4": ("ext4", 1, None, None),
    "xfs": ("xfs", 1, None, None),
}


def sh(*argv, check=True):
    """Runs a program; its output is in the exception when it fails."""
    run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if check and run.returncode:
        raise RuntimeError("%s: exit %d: %s" % (" ".join(argv), run.returncode, run.stdout.strip()[-600:]))
    return run.stdout


def why_not():
    """None when pools can be made here, else the reason."""
    if os.geteuid() != 0:
        return "making loop devices and mounting needs root"
    if not os.path.exists("/dev/loop-control"):
        return "this machine has no loop devices"
    for tool in ("losetup", "mount", "mkfs.btrfs", "mkfs.ext4", "mkfs.xfs"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            return "%s is not installed" % tool
    return None


class Pool:
    """One mounted filesystem over its own loop devices. `disks` maps the kernel's name to the device path."""

    def __init__(self, profile, size_mib=512, rotational=False, owner=None):
        self.profile, self.size_mib, self.rotational = profile, size_mib, rotational
        self.kind, self.count, self.data, self.meta = PROFILES[profile]
        self.dir = os.path.join(STATE, "%s-%d-%d" % (profile, os.getpid(), time.monotonic_ns() % 1000000))
        self.mount = os.path.join(self.dir, "mnt")
        self.owner, self.loops = owner or os.getpid(), []

    @property
    def disks(self):
        return {os.path.basename(path): path for path in self.loops}

    def up(self):
        os.makedirs(self.mount)
        os.chmod(STATE, 0o755)
        self._note()
        for number in range(self.count):
            image = os.path.join(self.dir, "disk%d.img" % number)
            with open(image, "wb") as out:
                out.truncate(self.size_mib << 20)
            loop = sh("losetup", "--direct-io=on", "-f", "--show", image).strip()
            self.loops.append(loop)
            self._note()
            queue = "/sys/block/%s/queue/" % os.path.basename(loop)
            # Loop numbers keep the settings of whoever had them before.
            for key, value in (("read_ahead_kb", "128"), ("rotational", "1" if self.rotational else "0")):
                with open(queue + key, "w") as knob:
                    knob.write(value)
            if open("/sys/block/%s/loop/dio" % os.path.basename(loop)).read().strip() != "1":
                raise RuntimeError("%s refused direct I/O on %s" % (loop, self.dir))
        if self.kind == "btrfs":
            sh("mkfs.btrfs", "-q", "-f", "-d", self.data, "-m", self.meta, *self.loops)
        elif self.kind == "ext4":
            # Lazy initialisation writes in the background for minutes and would show up in the trace.
            sh("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", *self.loops)
        else:
            sh("mkfs.xfs", "-q", "-f", *self.loops)
        self._mount()
        return self

    def _mount(self):
        options = "noatime"
        if self.kind == "btrfs":
            # Without udev the kernel knows a pool's other members only from the mount options.
            options += "".join(",device=" + loop for loop in self.loops)
        sh("mount", "-t", self.kind, "-o", options, self.loops[0], self.mount)

    def remount(self):
        """A fresh mount: data and metadata are cold."""
        os.sync()
        self.unmount()
        self._mount()

    def unmount(self):
        for _ in range(50):
            if "busy" not in sh("umount", self.mount, check=False):
                return
            time.sleep(0.1)  # a process that was killed lets go of its files only when it is reaped
        raise RuntimeError("%s stays busy" % self.mount)

    def _note(self):
        with open(os.path.join(self.dir, "state.json"), "w") as out:
            json.dump({"owner": self.owner, "mount": self.mount, "loops": self.loops}, out)

    def down(self):
        take_down(self.dir, self.mount, self.loops)

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


def take_down(folder, mount, loops):
    """Undoes a pool, as far as it came. Says what would not go."""
    if os.path.ismount(mount):
        if sh("umount", mount, check=False) and os.path.ismount(mount):
            sh("umount", "-l", mount, check=False)
    for loop in loops:
        backing = "/sys/block/%s/loop/backing_file" % os.path.basename(loop)
        try:
            ours = open(backing).read().strip().startswith(folder)
        except OSError:
            continue
        if ours:  # never detach a number that somebody else has taken since
            sh("losetup", "-d", loop, check=False)
    if os.path.ismount(mount):
        print("pool: %s could not be unmounted" % mount, file=sys.stderr)
    elif os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)


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
        take_down(folder, state["mount"], state["loops"])


def evict(*paths):
    """Drops files from the page cache, without touching anyone else's, and proves it."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            for _ in range(20):
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                left = int(sh("fincore", "-b", "-n", "-o", "RES", path).strip() or 0)
                if left == 0:
                    break
                time.sleep(0.05)  # pages that sit in a CPU's own batch are only freed when it drains
            else:
                raise RuntimeError("%s: %d bytes stay in memory" % (path, left))
        finally:
            os.close(fd)


if __name__ == "__main__":
    if sys.argv[1:2] == ["up"]:
        made = Pool(sys.argv[2], size_mib=int(os.environ.get("SIZE_MIB", "512")), owner=-1)
        made.up()
        if len(sys.argv) > 3:
            sh("cp", "-r", sys.argv[3] + "/.", made.mount)
            os.sync()
        print(made.mount, *made.loops)
    elif sys.argv[1:2] == ["sweep"]:
        sweep(everything=sys.argv[2:3] == ["all"])
    else:
        sys.exit(__doc__)
