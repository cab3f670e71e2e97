"""Builds ZFS's kernel module for the lab's kernel, and unpacks its tools: neither is part of what Debian's kernel package holds.

Everything is downloaded and unpacked below the work directory, nothing is installed. The configure script compiles some hundred
probes and the module itself takes minutes more, so the result is kept; it is made for this machine alone and never
handed on (its licence and the kernel's do not go together)."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile

import machine
from pool import sh

TOOLS = ["zfsutils-linux", "libzfs4linux", "libzpool5linux", "libnvpair3linux", "libuutil3linux", "zfs-test"]


def main():
    os.makedirs(machine.WORK, exist_ok=True)
    try:
        kernel = machine.kernel(os.environ.get("LAB_SUITE"))
        made = build(kernel)
    except (machine.Unavailable, RuntimeError) as why:
        print("error: %s" % why, file=sys.stderr)
        return 1
    print(made)
    return 0


def build(kernel):
    version, _ = machine.modules_of(kernel)
    made = os.path.join(machine.WORK, "zfs-%s.tar" % version)
    if os.path.exists(made):
        return made
    folder = os.path.join(machine.WORK, "zfs-build")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "debs"))
    flavour = version.removesuffix("-cloud-amd64")
    fetch(folder, ["zfs-dkms", *TOOLS], version, flavour)
    root = os.path.join(folder, "root")
    source = next(iter(glob.glob(os.path.join(root, "usr/src/zfs-*"))), None)
    if not source:
        raise machine.Unavailable("the package zfs-dkms holds no source")
    headers = os.path.join(root, "usr/src/linux-headers-" + version)
    common = os.path.join(root, "usr/src/linux-headers-%s-common" % flavour)
    relocate(root, [headers, common])
    print("building ZFS for %s in %s: some ten to thirty minutes" % (version, source), file=sys.stderr, flush=True)
    step(source, "configure", ["sh", "./configure", "--with-config=kernel", "--with-linux=" + common, "--with-linux-obj=" + headers])
    step(source, "make", ["make", "-s", "-j2"])
    with tarfile.open(made + ".tmp", "w") as archive:
        for path in glob.glob(os.path.join(source, "module/**/*.ko"), recursive=True):
            sh("strip", "--strip-debug", path)
            archive.add(path, "lib/modules/%s/extra/%s" % (version, os.path.basename(path)))
        for name in ("sbin/zpool", "sbin/zfs", "sbin/zdb", "usr/sbin/zdb", "sbin/mount.zfs", "sbin/zinject", "usr/sbin/zinject"):
            path = os.path.join(root, name)
            if os.path.exists(path):
                archive.add(os.path.realpath(path), "usr/bin/" + os.path.basename(name))
        for path in glob.glob(os.path.join(root, "lib/x86_64-linux-gnu/*.so*")) + glob.glob(os.path.join(root, "usr/lib/x86_64-linux-gnu/*.so*")):
            archive.add(os.path.realpath(path), "lib/x86_64-linux-gnu/" + os.path.basename(path))
        for path in other_libraries(root):
            archive.add(os.path.realpath(path), path.lstrip("/"))
    os.rename(made + ".tmp", made)
    shutil.rmtree(folder, ignore_errors=True)
    return made


def fetch(folder, names, version, flavour):
    options = machine.private_apt(os.environ.get("LAB_SUITE"))
    common = "linux-headers-%s-common" % flavour
    shown = sh("apt-cache", *options, "show", "--no-all-versions", "linux-headers-" + version, check=False)
    kbuild = re.search(r"(linux-kbuild-[^ ,]+)", shown)
    if not kbuild:
        raise machine.Unavailable("the package lists hold no linux-headers-%s" % version)
    debs = os.path.join(folder, "debs")
    for name in [*names, "linux-headers-" + version, common, kbuild[1]]:
        run = subprocess.run(["apt-get", *options, "-q", "download", name], cwd=debs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            raise machine.Unavailable("unable to fetch %s: %s" % (name, run.stdout.strip()[-300:]))
    for path in glob.glob(os.path.join(debs, "*.deb")):
        sh("dpkg-deb", "-x", path, os.path.join(folder, "root"))


def relocate(root, folders):
    """The headers' makefiles name each other by where they would be installed."""
    for folder in folders:
        for base, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(base, name)
                if name == "Makefile" and not os.path.islink(path):
                    text = open(path, errors="surrogateescape").read()
                    if "/usr/src/linux-headers" in text or "/usr/lib/linux-kbuild" in text:
                        with open(path, "w", errors="surrogateescape") as out:
                            out.write(text.replace("/usr/src/linux-headers", root + "/usr/src/linux-headers").replace("/usr/lib/linux-kbuild", root + "/usr/lib/linux-kbuild"))


def step(source, name, command):
    log = os.path.join(source, name + ".lab.log")
    with open(log, "w") as out:
        run = subprocess.run(["nice", "-n", "10", *command], cwd=source, stdout=out, stderr=subprocess.STDOUT)
    if run.returncode:
        raise RuntimeError("%s of ZFS failed; %s ends: %s" % (name, log, open(log, errors="replace").read()[-800:]))


def other_libraries(root):
    """Libraries of this machine that the tools need besides their own."""
    found = set()
    paths = ":".join(os.path.join(root, name) for name in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"))
    for name in ("zpool", "zfs", "zdb", "zinject"):
        path = next((p for p in (os.path.join(root, "sbin", name), os.path.join(root, "usr/sbin", name)) if os.path.exists(p)), None)
        if path:
            run = subprocess.run(["ldd", path], env={**os.environ, "LD_LIBRARY_PATH": paths}, stdout=subprocess.PIPE, text=True)
            found |= {library for library in re.findall(r"=> (/[^ ]+) \(0x", run.stdout) if not library.startswith(root)}
    return sorted(found)
