"""The virtual machine of the lab: a Debian kernel, a RAM root made of this machine's own programs, and QEMU.

Nothing is installed for it and nothing of it stays: the kernel's package is unpacked, not installed; the root lives in
RAM; the job goes in and the results come out as tar archives on raw disks; there is no network. What costs time is kept
below the work directory under a key of all that went into it."""
import contextlib
import hashlib
import lzma
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rigs"))
import place
from pool import sh

TOP = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(place.work(), "lab")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

# With what each needs; "=" lines of modules.dep are followed. A name that the kernel has built in is no module there.
MODULES = """virtio_pci virtio_blk virtio_scsi sd_mod loop xfs btrfs ext4 raid0 raid1 raid10 raid456 linear dm-mod dm-raid dm-mirror dm-crypt
    dm-writecache dm-cache dm-cache-smq dm-thin-pool dm-snapshot bcache xts ecb cbc aes_generic sha256_generic algif_skcipher algif_hash aesni_intel crc32c_generic crc32c_intel zfs
    nfsd nfsv4""".split()
# Programs of the guest; `?` before one that only some cases need.
PROGRAMS = """mdadm dmsetup lvm cryptsetup btrfs mkfs.btrfs mkfs.ext4 mkfs.xfs make-bcache sfdisk filefrag setpriv modprobe""".split()
# Parts of Python's library that a guest never imports: they are half of its size.
NOT_NEEDED = set("""test idlelib lib2to3 ensurepip distutils pydoc_data tkinter turtledemo unittest dist-packages site-packages __pycache__
    asyncio multiprocessing xmlrpc wsgiref sqlite3 curses dbm venv msilib zoneinfo pydoc.py turtle.py doctest.py pdb.py""".split())
# The same for the parts that are machine code: each has libraries of its own.
NO_DYNLOAD = re.compile(r"_(codecs_|sqlite3|curses|dbm|gdbm|tkinter|test|ctypes_test|xxtest|asyncio|multiprocessing|decimal|zoneinfo|lzma|bz2|crypt|uuid)|nis|ossaudiodev|audioop|readline|xxlimited|termios")
# Starts the network's loopback, unpacks the job, runs it, and packs what it left.
INIT = """#!/bin/busybox sh
export PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/ TERM=dumb
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/pts /dev/shm
mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /out; mount -t tmpfs tmpfs /run; mkdir -p /run/lock /run/lvm /run/cryptsetup
mount -t tracefs tracefs /sys/kernel/tracing
for m in virtio_pci virtio_blk virtio_scsi sd_mod; do modprobe -q $m; done
ip link set lo up
echo "UP $(cut -d' ' -f1 /proc/uptime)" > /dev/ttyS0
for b in /sys/block/vd*; do
  case $(cat $b/serial 2>/dev/null) in job) JOB=/dev/${b##*/};; out) OUT=/dev/${b##*/};; esac
done
export OUT; mkdir -p /job; tar xf $JOB -C /job; cd /job; sh ./run 2>&1 | tee /out/log > /dev/ttyS0
dmesg > /out/dmesg
tar cf - -C /out . | dd of=$OUT bs=1M conv=fsync 2>/dev/null
echo "DOWN $(cut -d' ' -f1 /proc/uptime)" > /dev/ttyS0
poweroff -f
"""
# What keeps a loaded host from looking like a broken machine to the guest's kernel; and an NMI, which the monitor can send, makes it tell
# what each processor is at (panic_print, bit 6).
APPEND = "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1 mitigations=off unknown_nmi_panic panic_print=64"
# A guest gives a sign of life to its console every few seconds of its own (`guest.py`). One that has had this much of the host's
# processors since the last stands still; seconds of the wall would also pass where the host is busy with others.
STILL_CPU_S = 240


class Unavailable(Exception):
    """The lab cannot run here; the text says why."""


class StoodStill(RuntimeError):
    """The whole guest, its clock too, stopped while its processors were busy: no program in it does that. The text holds what the processors were at."""


def which(name):
    return shutil.which(name, path=PATH)


def why_not():
    """None when machines can be built and started here, else the reason."""
    missing = [name for name in ["qemu-system-x86_64", "busybox", "cpio", "zstd", "depmod", "dpkg-deb", "apt-get"] + [p for p in PROGRAMS if p[0] != "?"] if not which(name)]
    if missing:
        return "not installed: %s (scripts/packages-lab.txt)" % ", ".join(missing)
    if os.uname().machine != "x86_64":
        return "the lab's machine is an x86-64 one"
    return None


# ---- the kernel

def kernel(suite=None):
    """Folder of an unpacked Debian cloud kernel: this release's own, or that of `suite`. Fetched once per version."""
    options = private_apt(suite) if suite else []
    shown = sh("apt-cache", *options, "show", "linux-image-cloud-amd64", check=False)
    found = re.search(r"^Depends: (linux-image-[^ ,]*)", shown, re.M)
    if not found:
        raise Unavailable("this release's package lists hold no linux-image-cloud-amd64 (Debian's kernel for virtual machines)")
    package = found[1]
    version = re.search(r"^Version: (\S+)", sh("apt-cache", *options, "show", "--no-all-versions", package), re.M)[1]
    folder = os.path.join(WORK, "kernel-%s-%s" % (package.removeprefix("linux-image-"), version.replace("/", "_")))
    if not os.path.exists(os.path.join(folder, ".complete")):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        os.chmod(folder, 0o755)
        run = subprocess.run(["apt-get", *options, "-q", "download", package], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        archive = [name for name in os.listdir(folder) if name.endswith(".deb")]
        if run.returncode or not archive:
            raise Unavailable("unable to fetch %s: %s" % (package, run.stdout.strip()[-300:]))
        sh("dpkg-deb", "-x", os.path.join(folder, archive[0]), folder)
        os.remove(os.path.join(folder, archive[0]))
        open(os.path.join(folder, ".complete"), "w").close()
    return folder


def private_apt(suite=None):
    """Options of an apt with a state of its own, so that this machine's sources stay as they are.

    With a suite it knows that one only; without, the machine's own Debian suites, and of each `contrib` too."""
    base = os.path.join(WORK, "apt-" + (suite or "own"))
    os.makedirs(os.path.join(base, "lists/partial"), exist_ok=True)
    os.makedirs(os.path.join(base, "cache/archives/partial"), exist_ok=True)
    found = [(mirror, name) for mirror, names in sources() for name in names]
    if not found:
        raise Unavailable("no package source is configured")
    lines = [(found[0][0], suite)] if suite else found
    with open(os.path.join(base, "list"), "w") as out:
        for mirror, name in lines:
            out.write("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main contrib\n" % (mirror, name))
    options = []
    for key, value in (("Dir::Etc::sourcelist", base + "/list"), ("Dir::Etc::sourceparts", "/dev/null"), ("Dir::State::lists", base + "/lists"), ("Dir::Cache", base + "/cache")):
        options += ["-o", "%s=%s" % (key, value)]
    sh("apt-get", *options, "-q", "update")
    return options


def sources():
    """(mirror, suites) of each source of Debian's own packages, of either format that apt reads."""
    folder = "/etc/apt/sources.list.d"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for path in ["/etc/apt/sources.list", *(os.path.join(folder, name) for name in names if name.endswith((".list", ".sources")))]:
        if not os.path.exists(path):
            continue
        text = open(path).read()
        if path.endswith(".sources"):
            for part in re.split(r"\n\s*\n", text):
                fields = {key.lower(): value.split() for key, value in re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", part, re.M)}
                if "main" in fields.get("components", []) and any("debian-archive" in key for key in fields.get("signed-by", [])) and "deb" in fields.get("types", []):
                    yield fields["uris"][0], fields["suites"]
        else:
            for mirror, name in re.findall(r"^deb (?:\[[^\]]*\] )?(\S+) (\S+) .*\bmain\b", text, re.M):
                if "debian" in mirror:
                    yield mirror, [name]


def modules_of(folder):
    """(version, folder that holds lib/modules) of an unpacked kernel."""
    for base in (folder, os.path.join(folder, "usr")):
        path = os.path.join(base, "lib/modules")
        if os.path.isdir(path):
            return next(name for name in os.listdir(path) if name[0].isdigit()), base
    raise Unavailable("%s holds no kernel modules" % folder)


# ---- the RAM root

def base_root(folder):
    """Path of the compressed root: busybox, tools with their libraries, Python, modules. Kept by a key of its parts."""
    version, base = modules_of(folder)
    programs = {name.lstrip("?"): which(name.lstrip("?")) for name in PROGRAMS}
    key = hashlib.sha256()
    extra = zfs_module(version)
    for path in [os.path.abspath(__file__), *sorted(p for p in programs.values() if p), *([extra] if extra else [])]:
        status = os.stat(path)
        key.update(("%s %d %d\n" % (path, status.st_size, status.st_mtime_ns)).encode())
    key.update(folder.encode())
    made = os.path.join(WORK, "root-%s-%s.cpio.zst" % (version, key.hexdigest()[:16]))
    if os.path.exists(made):
        return made
    for old in os.listdir(WORK):
        if old.startswith("root-%s-" % version):
            os.remove(os.path.join(WORK, old))
    with tempfile.TemporaryDirectory(prefix="root-", dir=WORK) as root:
        fill_root(root, version, base, programs, extra)
        pack(root, made)
    return made


def fill_root(root, version, base, programs, extra):
    for name in "bin sbin usr/bin usr/sbin lib lib64 etc proc sys dev run tmp mnt out job root var/lib usr/lib".split():
        os.makedirs(os.path.join(root, name), exist_ok=True)
    os.chmod(root, 0o755)  # it becomes `/`, which everyone may pass
    for link, target in (("var/run", "/run"), ("var/lock", "/run/lock"), ("etc/mtab", "/proc/mounts")):
        os.symlink(target, os.path.join(root, link))
    put(root, "etc/passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    put(root, "etc/group", "root:x:0:\nnogroup:x:65534:\n")
    put(root, "init", INIT, 0o755)
    shutil.copy2(which("busybox"), os.path.join(root, "bin/busybox"))
    for applet in set(sh(which("busybox"), "--list").split()) - {"busybox"}:
        os.symlink("busybox", os.path.join(root, "bin", applet))
    for name, path in programs.items():
        if path:
            applet = os.path.join(root, "bin", name)
            if os.path.islink(applet):
                os.remove(applet)
            add_program(root, os.path.realpath(path), os.path.join("usr/bin", name))
    # Opened by name at run time: ldd does not see them.
    for name in ("libgcc_s.so.1", "libpthread.so.0"):
        add_library(root, os.path.join("/lib/x86_64-linux-gnu", name))
    add_python(root)
    add_modules(root, version, base)
    if extra:
        with tarfile.open(extra) as archive:
            archive.extractall(root)
    sh(which("depmod"), "-b", root, version)


def put(root, name, text, mode=0o644):
    path = os.path.join(root, name)
    with open(path, "w") as out:
        out.write(text)
    os.chmod(path, mode)


def add_program(root, source, name):
    target = os.path.join(root, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target)
    os.chmod(target, 0o755)
    for library in libraries(source):
        add_library(root, library)


def libraries(program):
    return re.findall(r"(/[^ ]+) \(0x", sh("ldd", program, check=False))


def add_library(root, path):
    target = os.path.join(root, path.lstrip("/"))
    if os.path.exists(path) and not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.realpath(path), target)


def python():
    """(program, library folder, prefix) of the Python for the guest: the distribution's, which is small and has no strings attached."""
    program = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    text = sh(program, "-I", "-c", "import os, sys; print(os.path.realpath(sys.executable)); print(os.path.dirname(os.path.realpath(os.__file__))); print(sys.base_prefix)")
    return text.split("\n")[:3]


def add_python(root):
    """The interpreter and its library, without what no guest needs."""
    program, source, prefix = python()
    target = os.path.join(root, source.lstrip("/"))
    add_program(root, program, os.path.join("usr/bin", os.path.basename(program)))
    put(root, "usr/bin/python3", "#!/bin/sh\nPYTHONHOME=%s exec /usr/bin/%s \"$@\"\n" % (prefix, os.path.basename(program)), 0o755)

    def unwanted(folder, names):
        return [n for n in names if n in NOT_NEEDED or n.startswith("config-") or n.endswith(".a") or (folder.endswith("lib-dynload") and NO_DYNLOAD.match(n))]
    shutil.copytree(source, target, ignore=unwanted, symlinks=False)
    for name in os.listdir(os.path.join(target, "lib-dynload")):
        for library in libraries(os.path.join(target, "lib-dynload", name)):
            add_library(root, library)
    # Compiling at start costs seconds on an emulated processor. The stamp of a source that is unpacked anew must not matter.
    sh(program, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/", target, check=False)


def add_modules(root, version, base):
    target = os.path.join(root, "lib/modules", version)
    os.makedirs(target)
    if not os.path.exists(os.path.join(base, "lib/modules", version, "modules.dep")):
        sh(which("depmod"), "-b", base, version)
    wanted = set()
    for name in MODULES:
        for line in sh(which("modprobe"), "-d", base, "-S", version, "--show-depends", name, check=False).splitlines():
            if line.startswith("insmod "):
                wanted.add(line.split()[1])
    for path in sorted(wanted):
        inner = os.path.join(target, path.split("/lib/modules/%s/" % version, 1)[1])
        os.makedirs(os.path.dirname(inner), exist_ok=True)
        if path.endswith(".xz"):
            with lzma.open(path) as packed, open(inner.removesuffix(".xz"), "wb") as out:
                shutil.copyfileobj(packed, out)
        else:
            shutil.copy2(path, inner)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        if os.path.exists(os.path.join(base, "lib/modules", version, name)):
            shutil.copy2(os.path.join(base, "lib/modules", version, name), target)


def zfs_module(version):
    """A tar of ZFS's modules and tools for this kernel that `scripts/lab zfs-module` has made, or None."""
    path = os.path.join(WORK, "zfs-%s.tar" % version)
    return path if os.path.exists(path) else None


def pack(root, made):
    """A newc archive of a folder, compressed. Written whole or not at all."""
    with open(made + ".tmp", "wb") as out:
        names = subprocess.Popen(["find", ".", "-print0"], cwd=root, stdout=subprocess.PIPE)
        archive = subprocess.Popen(["cpio", "--null", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=root, stdin=names.stdout, stdout=subprocess.PIPE)
        squeeze = subprocess.run(["zstd", "-q", "-3", "-T0"], stdin=archive.stdout, stdout=out)
        if archive.wait() or names.wait() or squeeze.returncode:
            raise RuntimeError("unable to pack the root")
    os.rename(made + ".tmp", made)


def with_programs(base, programs, folder):
    """The base root with the project's own programs appended: archives may follow each other. Gives its path."""
    made = os.path.join(folder, "initrd")
    with tempfile.TemporaryDirectory(prefix="own-", dir=folder) as root:
        os.chmod(root, 0o755)  # its `.` is unpacked over the first archive's
        for source, name in programs:
            add_program(root, source, os.path.join("lab", name))
        pack(root, made + ".own")
    with open(made, "wb") as out:
        for part in (base, made + ".own"):
            with open(part, "rb") as piece:
                shutil.copyfileobj(piece, out)
    os.remove(made + ".own")
    return made


# ---- running

def accelerator():
    """`kvm` only where the processor does it: under a software hypervisor's own KVM Debian's kernels do not start."""
    return "kvm" if os.access("/dev/kvm", os.W_OK) and not os.path.isdir("/sys/module/kvm_pvm") else "tcg"


def boot(kernel_folder, initrd, job, out, disks, memory_mib=1536, seconds=300, echo=False, processors=2):
    """Runs the folder `job` (its file `run`, by sh) in a machine with raw disks of the given MiB; results go to `out`.

    Gives the seconds it took. A machine that does not come up, or does not end, is an error with the console's end."""
    image = next(os.path.join(kernel_folder, "boot", n) for n in os.listdir(os.path.join(kernel_folder, "boot")) if n.startswith("vmlinuz-"))
    os.makedirs(out, exist_ok=True)
    console = os.path.join(out, "console")
    with tempfile.TemporaryDirectory(prefix="vm-", dir=WORK) as folder:
        with tarfile.open(os.path.join(folder, "job"), "w") as archive:
            archive.add(job, ".")
        os.truncate(os.path.join(folder, "job"), -(-os.path.getsize(os.path.join(folder, "job")) // (1 << 20)) << 20)
        sparse(os.path.join(folder, "out"), 256)
        kind = accelerator()
        # cmpxchg16b under TCG corrupts memory of a 6.12 guest; Nehalem without it is stable with all kernels.
        command = [which("qemu-system-x86_64"), "-accel", kind + (",thread=multi" if kind == "tcg" else ""), "-machine", "q35,hpet=off",
                   "-cpu", "host" if kind == "kvm" else "Nehalem,-cx16", "-smp", str(processors), "-m", str(memory_mib),
                   "-monitor", "unix:%s,server=on,wait=off" % os.path.join(folder, "monitor"), "-nodefaults", "-no-reboot", "-display", "none", "-kernel", image, "-initrd", initrd, "-append", APPEND, "-serial", "file:" + console]
        for name, mode in (("job", "readonly=on"), ("out", "cache=unsafe")):
            command += ["-drive", "file=%s,if=none,id=%s,format=raw,%s" % (os.path.join(folder, name), name, mode), "-device", "virtio-blk-pci,drive=%s,serial=%s" % (name, name)]
        for number, size in enumerate(disks):
            path = os.path.join(folder, "disk%d" % number)
            sparse(path, size)
            command += ["-drive", "file=%s,if=none,id=disk%d,format=raw,cache=unsafe,discard=unmap,detect-zeroes=off" % (path, number),
                        "-device", "virtio-blk-pci,drive=disk%d,serial=lab%d" % (number, number)]
        began = time.monotonic()
        machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            with ended(machine):
                watch(machine, os.path.join(folder, "monitor"), console, began, seconds, kind, echo)
        finally:
            # What a machine had written before it broke is evidence too.
            # Told to be plain: a guess would take a disk of zeros for endlessly many empty LZMA streams.
            with contextlib.suppress(tarfile.ReadError), tarfile.open(os.path.join(folder, "out"), "r:") as archive:
                archive.extractall(out, members=[m for m in archive if m.isfile() or m.isdir()])
        return time.monotonic() - began


def sparse(path, mib):
    with open(path, "wb") as out:
        out.truncate(mib << 20)


@contextlib.contextmanager
def ended(machine):
    try:
        yield
    finally:
        if machine.poll() is None:
            machine.send_signal(signal.SIGKILL)
            machine.wait()


def watch(machine, monitor, console, began, seconds, kind, echo):
    """Waits for the end. The limits only end a broken run: a machine that is up says so within the first."""
    start_limit, shown, up, heard_at_cpu_s = (20 if kind == "kvm" else 150), 0, False, 0.0
    while machine.poll() is None:
        time.sleep(0.1)
        text = open(console, errors="replace").read() if os.path.exists(console) else ""
        if echo and len(text) > shown:
            sys.stderr.write(text[shown:].replace("\r", "").replace(ALIVE, ""))
            sys.stderr.flush()
        if len(text) > shown:
            heard_at_cpu_s = cpu_s(machine.pid)
        shown = len(text)
        up = up or "UP " in text
        spent, tail = time.monotonic() - began, said(text)[-1500:]
        if up and cpu_s(machine.pid) - heard_at_cpu_s > STILL_CPU_S:
            raise StoodStill("the machine (%s) stood still after %d s; its console ends: %s; %s" % (kind, spent, tail, asked(monitor, console, shown)))
        if spent > seconds or (not up and spent > start_limit):
            raise RuntimeError("the machine (%s) %s within %d s; its console ends: %s; %s" % (
                kind, "did not end" if up else "did not start", spent, tail, asked(monitor, console, shown)))
    text = open(console, errors="replace").read() if os.path.exists(console) else ""
    if machine.returncode or "DOWN " not in text:
        raise RuntimeError("the machine ended early (status %d): %s; its console ends: %s" % (machine.returncode, machine.stderr.read()[-300:], said(text)[-1500:]))


# What `guest.py` writes for a sign of life.
ALIVE = "\x07"


def said(text):
    return text.replace("\r", "").replace(ALIVE, "")


def cpu_s(process):
    """Seconds of processor time that a process has had (proc_pid_stat(5), fields 14 and 15); 0 for one that is gone."""
    try:
        with open("/proc/%d/stat" % process) as text:
            fields = text.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def asked(monitor, console, shown):
    """What a machine that hangs is at: the processors' registers, twice, and then what the kernel prints on an NMI."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(2)
            link.connect(monitor)
            registers = answer(link, "info registers -a") + answer(link, "info registers -a")
            answer(link, "nmi")
    except OSError as error:
        return "its monitor does not answer: %s" % error
    size, end = -1, time.monotonic() + 30
    while time.monotonic() < end and os.path.getsize(console) != size:
        size = os.path.getsize(console)
        time.sleep(3)
    with open(console, errors="replace") as text:
        told = said(text.read()[shown:])
    at = re.findall(r"CPU#\d+|RIP=\w+ RFL=\w+ \[[^]]*\] CPL=\d|HLT=\d", registers)
    return "its processors are at: %s; on an NMI it said: %s" % (" ".join(at), told[-6000:] or "nothing")


def answer(link, line):
    """The monitor's answer: all that comes until it is silent."""
    link.sendall(line.encode() + b"\n")
    out = b""
    with contextlib.suppress(TimeoutError):
        while True:
            got = link.recv(65536)
            if not got:
                break
            out += got
    return out.decode(errors="replace")


def clean():
    """Removes what killed runs left in the work directory."""
    if not os.path.isdir(WORK):
        return
    for name in os.listdir(WORK):
        if re.match(r"(vm|root|own|job)-[a-z0-9_]{8}$", name) and stat.S_ISDIR(os.lstat(os.path.join(WORK, name)).st_mode):
            shutil.rmtree(os.path.join(WORK, name), ignore_errors=True)
