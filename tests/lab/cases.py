"""Every stack that the lab builds, as data: a recipe for the guest's shell and what must then be seen.

`expect` is what was built, in the words of `spindle topology --json`: `columns`, `copies` and `layout` of the volume, the
disks by number (D0 is 0), and `nodes`: parts of nodes that must each be found somewhere in the tree. `None` is not compared.
The figures are worked out by hand from the recipe, never taken from the server."""
import re

# MiB of the disks D0.. of every machine. The last two differ, for raid0 zones and for slices; 320 is the least that holds
# XFS (300) and a bcache set (128 buckets).
DISKS = [320, 320, 320, 320, 384, 448]
KIB = 1024


class Case:
    """One stack. `top`: what gets the filesystem; `mount`: more options; `state`: shell after filling (a failed disk..)."""

    def __init__(self, name, what, build, top, disks, expect, fs="ext4", **more):
        self.name, self.what, self.build, self.top, self.disks, self.expect, self.fs = name, what, build, top, disks, expect, fs
        # exact: False where the kernel moves bytes while it runs: such a layout must say so, with the reason.
        # raw: whether the disks hold the file's bytes as they are. fault: shell that takes a disk away in the middle of a stream.
        # busy: something else reads the disks (a resync). traced: whether a cold read touches only the file's own places.
        self.mkfs, self.mount, self.state, self.fault, self.settle = more.pop("mkfs", ""), more.pop("mount", ""), more.pop("state", ""), more.pop("fault", ""), more.pop("settle", "")
        # between: shell after the filesystem is unmounted for the last time; remount: options of what is mounted then.
        self.between, self.remount = more.pop("between", ""), more.pop("remount", "")
        self.exact, self.raw, self.busy, self.traced = more.pop("exact", True), more.pop("raw", True), more.pop("busy", ""), more.pop("traced", "all")
        # lost: shell that takes a disk away that nothing replaces: the stream must end, the server and its library stay.
        # needs: what the guest must have that Debian's kernel has not.
        # share: the filesystem is exported to the machine itself over NFS, and what is mounted is that.
        # patience: how many times the usual it may take. zdb loads a pool for half a minute on an emulated processor.
        self.patience = more.pop("patience", 1)
        # fresh: in a machine that has run nothing before it.
        self.fresh = more.pop("fresh", False)
        self.group, self.lost, self.needs = more.pop("group", "md"), more.pop("lost", ""), more.pop("needs", "")
        self.share = more.pop("share", False)
        assert not more, more

    def as_json(self):
        return dict(vars(self))


def volume(columns, copies, layout, *nodes):
    return {"columns": columns, "copies": copies, "layout": layout, "nodes": list(nodes)}


def md(level, **more):
    return {"kind": "md", "level": level, **more}


def disk_nodes(count):
    return {"kind": "disk", "_count": count}


def dev(*numbers):
    return " ".join("$D%d" % n for n in numbers)


def array(name, what, args, numbers, expect, **more):
    return Case(name, what, "md %s %s" % (args, dev(*numbers)), "/dev/md0", list(numbers), expect, **more)


FAIL_D1 = "mdadm /dev/md0 --fail $D1 2>&1"
REMOVE_D1 = FAIL_D1 + "; mdadm /dev/md0 --remove $D1 2>&1"


def plain_cases():
    yield Case("plain-ext4", "ext4 on a disk", ":", "$D0", [0], volume(1, 1, "simple", disk_nodes(1)), group="plain")
    yield Case("plain-xfs", "XFS on a disk", ":", "$D0", [0], volume(1, 1, "simple", disk_nodes(1)), fs="xfs", group="plain")
    yield Case("partition", "ext4 on the second partition of a disk", "printf 'label: gpt\\n,100M\\n,\\n' | sfdisk -q $D0 2>&1", "${D0}2", [0],
               volume(1, 1, "simple", {"kind": "partition"}, disk_nodes(1)), group="plain")
    yield Case("btrfs-raid1", "btrfs raid1, 2 disks", ":", "$D0 $D1", [0, 1], volume(1, 2, "mirror", {"kind": "btrfs", "level": "raid1"}, disk_nodes(2)),
               fs="btrfs", mkfs="-d raid1 -m raid1", group="plain", fault="gone $D1")
    yield Case("btrfs-raid10", "btrfs raid10, 4 disks", ":", "$D0 $D1 $D2 $D3", [0, 1, 2, 3], volume(2, 2, "mirror", {"kind": "btrfs", "level": "raid10"}, disk_nodes(4)),
               fs="btrfs", mkfs="-d raid10 -m raid1", group="plain")


def md_cases():
    yield array("md-raid1", "md raid1, 2 disks", "1 - -", (0, 1), volume(1, 2, "mirror", md("raid1", columns=1, copies=2), disk_nodes(2)), fault=FAIL_D1)
    yield array("md-raid1-3", "md raid1, 3 disks", "1 - -", (0, 1, 2), volume(1, 3, "mirror", md("raid1", columns=1, copies=3), disk_nodes(3)), fs="xfs", fault="gone $D1")
    yield array("md-raid0", "md raid0, 3 equal disks", "0 - 64", (0, 1, 2), volume(3, 1, "simple", md("raid0", columns=3, copies=1, chunk_bytes=64 * KIB), disk_nodes(3)), fs="xfs", lost="gone $D1")
    yield array("md-raid0-unequal", "md raid0, 3 unequal disks", "0 - 64", (3, 4, 5), volume(3, 1, "simple", md("raid0", chunk_bytes=64 * KIB), disk_nodes(3)),
                mkfs="-G 1")
    yield array("md-raid0-alternate", "md raid0, unequal, alternate layout", "0 alternate 64", (3, 4, 5), volume(3, 1, "simple", md("raid0", chunk_bytes=64 * KIB), disk_nodes(3)))
    for layout, columns, words in (("n2", 2, "near"), ("f2", 4, "far"), ("o2", 4, "offset")):
        yield array("md-raid10-" + layout, "md raid10 %s 2, 4 disks" % words, "10 %s 256" % layout, (0, 1, 2, 3),
                    volume(columns, 2, "mirror", md("raid10", copies=2, chunk_bytes=256 * KIB), disk_nodes(4)), fault=FAIL_D1 if layout == "n2" else "")
    yield array("md-raid10-n2-3", "md raid10 near 2, 3 disks", "10 n2 64", (0, 1, 2), volume(None, 2, "mirror", md("raid10", copies=2, chunk_bytes=64 * KIB), disk_nodes(3)))
    yield array("md-raid10-f2-3", "md raid10 far 2, 3 disks", "10 f2 64", (0, 1, 2), volume(3, 2, "mirror", md("raid10", copies=2), disk_nodes(3)))
    yield array("md-raid4", "md raid4, 4 disks", "4 - 64", (0, 1, 2, 3), volume(3, 1, "parity", md("raid4", columns=3, chunk_bytes=64 * KIB), disk_nodes(4)))
    for layout, words in (("ls", "left-symmetric"), ("la", "left-asymmetric"), ("rs", "right-symmetric"), ("ra", "right-asymmetric")):
        yield array("md-raid5-" + layout, "md raid5 %s, 4 disks" % words, "5 %s 64" % layout, (0, 1, 2, 3),
                    volume(3, 1, "parity", md("raid5", columns=3, copies=1, chunk_bytes=64 * KIB), disk_nodes(4)), fault=FAIL_D1 if layout == "ls" else "")
    yield array("md-raid6", "md raid6, 5 disks", "6 ls 64", (0, 1, 2, 3, 4), volume(3, 1, "parity", md("raid6", columns=3, chunk_bytes=64 * KIB), disk_nodes(5)), fault=FAIL_D1)
    yield array("md-linear", "md linear, 2 disks", "linear - -", (0, 1), volume(1, 1, "simple", md("linear"), disk_nodes(2)), mkfs="-G 1")
    yield array("md-raid1-degraded", "md raid1, one of 2 failed", "1 - -", (0, 1), volume(None, None, "mirror", md("raid1", degraded=True)), state=REMOVE_D1)
    yield array("md-raid10-degraded", "md raid10 near 2, one of 4 failed", "10 n2 256", (0, 1, 2, 3), volume(None, None, "mirror", md("raid10", degraded=True)), state=REMOVE_D1)
    yield array("md-raid5-degraded", "md raid5, one of 4 failed", "5 ls 64", (0, 1, 2, 3), volume(3, 1, "parity", md("raid5", degraded=True)), state=REMOVE_D1, traced="stripe")
    yield array("md-raid6-degraded", "md raid6, one of 5 failed", "6 ls 64", (0, 1, 2, 3, 4), volume(3, 1, "parity", md("raid6", degraded=True)), state=REMOVE_D1, traced="stripe")
    # KiB/s: what it reads beside a stream stays below what the judge lets pass, for its reads carry the array's own thread.
    slow = "echo 10 > /proc/sys/dev/raid/speed_limit_min; echo 10 > /proc/sys/dev/raid/speed_limit_max; "
    yield Case("md-raid1-resync", "md raid1, resync running", slow + "MD_CLEAN= md 1 - - $D0 $D1", "/dev/md0", [0, 1],
               volume(1, 2, "mirror", md("raid1", sync={"action": "resync"})), busy="resync")
    yield Case("md-raid5-recovery", "md raid5, a new member is being filled", "md 5 ls 64 $D0 $D1 $D2", "/dev/md0", [0, 1, 2, 3],
               volume(2, 1, "parity", md("raid5", sync={"action": "recover"})), state=slow + REMOVE_D1 + "; mdadm --add /dev/md0 $D3 2>&1", busy="resync", traced="stripe")


    yield Case("md-raid5-reshape", "md raid5, growing from 3 to 4 disks", "md 5 ls 64 $D0 $D1 $D2", "/dev/md0", [0, 1, 2, 3], volume(None, 1, "parity", md("raid5", sync={"action": "reshape"})),
               state=slow + "mdadm --add /dev/md0 $D3 2>&1; mdadm --grow /dev/md0 --raid-devices=4 2>&1", busy="reshape", exact=False)
    yield array("md-raid1-readonly", "md raid1, array and filesystem read-only", "1 - -", (0, 1), volume(1, 2, "mirror", md("raid1", state="read-only, readonly"), disk_nodes(2)), between="mdadm --readonly /dev/md0", remount="ro")


def lvm(name, what, options, numbers, expect, **more):
    return Case("lvm-" + name, "LVM " + what, "vg %s; lvcreate -n lv %s" % (dev(*numbers), options), "/dev/vg/lv", list(numbers), expect, group="lvm", **more)


def lvm_cases():
    four = (0, 1, 2, 3)
    yield lvm("linear", "linear over 2 disks", "-L 600M", (0, 1), volume(1, 1, "simple", {"kind": "lvm"}, disk_nodes(2)), fs="xfs")
    yield lvm("striped", "striped, 3 disks, 64 KiB", "--type striped -i 3 -I 64 -L 600M", (0, 1, 2),
              volume(3, 1, "simple", {"kind": "lvm", "columns": 3, "chunk_bytes": 64 * KIB}, disk_nodes(3)), fs="xfs")
    yield lvm("raid1", "raid1, 2 disks", "--type raid1 -m 1 --nosync -L 300M", (0, 1), volume(1, 2, "mirror", {"kind": "lvm", "copies": 2}, disk_nodes(2)), fs="xfs")
    yield lvm("raid10", "raid10, 4 disks", "--type raid10 -i 2 -m 1 -I 256 --nosync -L 400M", four, volume(2, 2, "mirror", {"kind": "lvm", "copies": 2}, disk_nodes(4)))
    yield lvm("raid5", "raid5, 4 disks", "--type raid5 -i 3 -I 64 --nosync -L 400M", four, volume(3, 1, "parity", {"kind": "lvm", "columns": 3}, disk_nodes(4)))
    yield lvm("mirror", "mirror (the old target), 2 disks", "--type mirror -m 1 --mirrorlog core --nosync -L 256M", (0, 1), volume(1, 2, "mirror", {"kind": "lvm"}, disk_nodes(2)))
    yield lvm("thin", "thin volume in a pool", "--type thin -V 300M -L 260M --thinpool pool", (0,), volume(1, 1, "simple", {"kind": "lvm"}, disk_nodes(1)), exact=False)
    yield Case("lvm-cache", "LVM cache, writethrough", "vg $D0 $D1; lv lvcreate -Zn -Wn -n lv -L 280M vg $D0; lv lvcreate --type cache-pool -L 200M -n fast vg $D1; lv lvconvert --type cache -Zy --cachepool vg/fast --cachemode writethrough vg/lv; dmsetup mknodes",
               "/dev/vg/lv", [0, 1], volume(None, None, None, {"kind": "lvm"}, disk_nodes(2)), exact=False, group="lvm",
               # What the filling has brought into the cache stays there, and nothing more is copied into it: copies are the kernel's
               # own reads, in threads that also read for streams.
               settle="lv lvchange --cachepolicy cleaner vg/lv")
    yield Case("lvm-on-md", "LVM striped over two md mirrors", "md 1 - - $D0 $D1; MD=/dev/md1 md 1 - - $D2 $D3; vg /dev/md0 /dev/md1; lvcreate -n lv --type striped -i 2 -I 128 -L 500M",
               "/dev/vg/lv", [0, 1, 2, 3], volume(2, 2, "mirror", {"kind": "lvm", "chunk_bytes": 128 * KIB}, {"kind": "md", "level": "raid1", "_count": 2}, disk_nodes(4)), fs="xfs", group="lvm")
    slices = "for d in $D3 $D4; do printf 'label: gpt\\n,300M\\n' | sfdisk -q $d 2>&1; done; printf 'label: gpt\\n,300M\\n,60M\\n' | sfdisk -q $D5 2>&1; printf ',60M\\n' | sfdisk -q -a $D4 2>&1; "
    yield Case("shr", "SHR-like: raid5 and raid1 of slices, joined by LVM", slices + "md 5 ls 64 ${D3}1 ${D4}1 ${D5}1; MD=/dev/md1 md 1 - - ${D4}2 ${D5}2; vg /dev/md0 /dev/md1; lvcreate -n lv -l 100%FREE",
               "/dev/vg/lv", [3, 4, 5], volume(None, None, "mixed", {"kind": "lvm"}, md("raid5"), md("raid1"), {"kind": "partition"}, disk_nodes(3)), fs="btrfs", mkfs="-d single -m single", group="lvm")


def other_cases():
    yield Case("crypt", "dm-crypt (LUKS2) on a disk", "crypt c0 $D0", "/dev/mapper/c0", [0], volume(1, 1, "simple", {"kind": "crypt"}, disk_nodes(1)), raw=False, group="dm")
    yield Case("crypt-md-raid1", "dm-crypt on md raid1", "md 1 - - $D0 $D1; crypt c0 /dev/md0", "/dev/mapper/c0", [0, 1],
               volume(1, 2, "mirror", {"kind": "crypt"}, md("raid1"), disk_nodes(2)), raw=False, group="dm")
    yield Case("btrfs-crypt", "btrfs raid1 over two dm-crypt disks", "crypt c0 $D0; crypt c1 $D1", "/dev/mapper/c0 /dev/mapper/c1", [0, 1],
               volume(1, 2, "mirror", {"kind": "btrfs", "level": "raid1"}, {"kind": "crypt", "_count": 2}, disk_nodes(2)), fs="btrfs", mkfs="-d raid1 -m raid1", raw=False, group="dm")
    yield Case("btrfs-md", "btrfs single on md raid10", "md 10 n2 64 $D0 $D1 $D2 $D3", "/dev/md0", [0, 1, 2, 3],
               volume(2, 2, "mirror", md("raid10"), disk_nodes(4)), fs="btrfs", mkfs="-d single -m dup", group="dm")
    yield Case("writecache", "dm-writecache, flushed", "dmsetup create wc --table \"0 $(sectors $D0) writecache s $D0 $D1 4096 0\"; dmsetup mknodes", "/dev/mapper/wc", [0, 1],
               volume(1, 1, "simple", disk_nodes(2)), settle="dmsetup message wc 0 flush", group="dm", exact=None)
    yield Case("bcache", "bcache without a cache set", "make-bcache -B $D0 2>&1; bcache_up $D0", "/dev/bcache0", [0], volume(1, 1, "simple", {"kind": "bcache"}, disk_nodes(1)), group="dm")
    # The whole kernel (6.1) stops where a cache set is registered after a backing device was taken down.
    yield Case("bcache-cached", "bcache, writethrough with a cache", "make-bcache -B $D0 -C $D1 2>&1; bcache_up $D0 $D1; echo 0 > /sys/block/bcache0/bcache/sequential_cutoff", "/dev/bcache0", [0, 1],
               volume(1, 1, "simple", {"kind": "bcache"}, disk_nodes(2)), group="dm", exact=False, fresh=True)


def share_cases():
    """A mount from over the network, with the server in the same machine: its reads of the disk are there to be seen, and no stream may claim them."""
    yield Case("nfs", "NFS 4.2 mount of a folder of this machine", "true", "$D0", [0], volume(None, None, None, {"kind": "network", "level": "nfs4", "server": "127.0.0.1", "export": "/"}),
               share=True, group="share", exact=False, raw=False)


def zfs(name, what, vdevs, numbers, expect, **more):
    """`vdevs` in the words of zpool create; z0 .. z5 are the disks."""
    # ZFS takes whole disks only where udev makes partitions for it: it gets linear devices over them.
    build = "for d in %s; do dmsetup create z${d##*/} --table \"0 $(sectors $d) linear $d 0\"; done; dmsetup mknodes" % dev(*numbers)
    paths = re.sub(r"\bz(\d)\b", r"$(zdev $D\1)", vdevs)
    return Case("zfs-" + name, "ZFS, " + what, more.pop("build", build), paths, list(numbers), expect, fs="zfs", group="zfs", needs="zfs", patience=4, **more)


def zfs_cases():
    pool = {"kind": "zfs", "level": "pool"}
    four, mirror = (0, 1, 2, 3), volume(1, 2, "mirror", {"kind": "zfs", "level": "mirror", "columns": 1, "copies": 2}, disk_nodes(2))
    raidz1 = volume(3, 1, "parity", {"kind": "zfs", "level": "raidz1", "columns": 3}, disk_nodes(4))
    yield zfs("single", "one partition", "${D0}1", (0,), volume(1, 1, "simple", pool, {"kind": "partition"}, disk_nodes(1)), build="printf 'label: gpt\n,\n' | sfdisk -q $D0 2>&1")
    yield zfs("mirror", "a mirror, 2 disks", "mirror z0 z1", (0, 1), mirror, fault="zpool offline -f z $(zdev $D1)")
    yield zfs("mirrors", "two mirrors", "mirror z0 z1 mirror z2 z3", four, volume(2, 2, "mirror", {**pool, "columns": 2}, disk_nodes(4)))
    yield zfs("raidz1", "raidz1, 4 disks", "raidz1 z0 z1 z2 z3", four, raidz1, fault="zpool offline -f z $(zdev $D1)")
    yield zfs("raidz2", "raidz2, 5 disks", "raidz2 z0 z1 z2 z3 z4", (0, 1, 2, 3, 4), volume(3, 1, "parity", {"kind": "zfs", "level": "raidz2", "columns": 3}, disk_nodes(5)))
    yield zfs("special", "a mirror, and a special vdev for metadata", "mirror z0 z1 special z2", (0, 1, 2), volume(1, 2, "mirror", {"kind": "zfs", "level": "mirror"}, {"role": "special"}, disk_nodes(3)))
    yield zfs("cache", "a mirror with a cache device", "mirror z0 z1 cache z2", (0, 1, 2), volume(1, 2, "mirror", {"kind": "zfs", "level": "mirror"}, {"role": "cache"}, disk_nodes(3)), exact=None)
    yield zfs("compressed", "raidz1, lz4", "raidz1 z0 z1 z2", (0, 1, 2), volume(2, 1, "parity", {"kind": "zfs", "level": "raidz1"}, disk_nodes(3)), mkfs="-O compression=lz4")
    yield zfs("small", "a mirror, records of 16 KiB, two copies", "mirror z0 z1", (0, 1), mirror, mkfs="-O recordsize=16K -O copies=2")
    yield zfs("mirror-degraded", "a mirror, one of 2 offline", "mirror z0 z1", (0, 1), volume(None, None, "mirror", {"kind": "zfs", "level": "mirror", "degraded": True}), state="zpool offline z $(zdev $D1)")
    yield zfs("raidz1-degraded", "raidz1, one of 4 offline", "raidz1 z0 z1 z2 z3", four, volume(3, 1, "parity", {"kind": "zfs", "level": "raidz1", "degraded": True}), state="zpool offline z $(zdev $D1)", traced="stripe")


def all_cases():
    return [*plain_cases(), *md_cases(), *lvm_cases(), *other_cases(), *share_cases(), *zfs_cases()]


# What scripts/test boots, at most six: those of which every check that it makes has been seen to hold. The others are in `all`.
STAGE = ["md-raid1", "md-raid10-n2", "lvm-striped", "crypt-md-raid1", "writecache"]


def by_name(names):
    table = {case.name: case for case in all_cases()}
    return [table[name] for name in names]
