"""Runs inside the machine: a folder of it, served by the kernel's own NFS server on the loopback, and mounted from there.

It needs no program at all: what `exportfs` and `rpc.mountd` would answer is written into the kernel's caches beforehand
(Documentation/filesystems/nfs/rpc-cache.rst; fs/nfsd/export.c)."""
import ctypes
import os
import subprocess
import time

FOREVER = 2147483647
# NFSEXP_INSECURE_PORT | NFSEXP_NOSUBTREECHECK | NFSEXP_FSID (include/uapi/linux/nfsd/export.h): the export is the root of the tree.
FLAGS = 0x0002 | 0x0400 | 0x2000
MS_NOATIME = 1024


def put(path, text):
    with open(path, "w") as out:
        out.write(text)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError("%s: status %d: %s" % (" ".join(command), done.returncode, done.stdout.strip()[-400:]))


def start(folder):
    # Both by name: the kernel here has no program to ask for a module that it misses.
    run("modprobe", "nfsd")
    run("modprobe", "nfsv4")
    if not os.path.exists("/proc/fs/nfsd/threads"):
        run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    # Where the server remembers its clients. Without it, it cannot be told that there are none to wait for.
    os.makedirs("/var/lib/nfs/v4recovery", exist_ok=True)
    # 4 alone: the older versions want a port mapper.
    put("/proc/fs/nfsd/versions", "-2 -3 +4 +4.2\n")
    put("/proc/fs/nfsd/nfsv4leasetime", "10\n")
    put("/proc/fs/nfsd/nfsv4gracetime", "10\n")
    put("/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 %d lab\n" % FOREVER)
    put("/proc/net/rpc/nfsd.export/channel", "lab %s %d %d 65534 65534 0\n" % (folder, FOREVER, FLAGS))
    put("/proc/net/rpc/nfsd.fh/channel", "lab 1 \\x00000000 %d %s\n" % (FOREVER, folder))
    put("/proc/fs/nfsd/threads", "4\n")
    put("/proc/fs/nfsd/v4_end_grace", "Y\n")


def mount(at):
    library = ctypes.CDLL(None, use_errno=True)
    # A server that has just started may not listen yet; it tells nobody when it does.
    end = time.monotonic() + 30
    while library.mount(b"127.0.0.1:/", at.encode(), b"nfs4", MS_NOATIME, b"addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,sec=sys"):
        number = ctypes.get_errno()
        if time.monotonic() > end:
            raise RuntimeError("unable to mount 127.0.0.1:/: %s" % os.strerror(number))
        time.sleep(0.5)


def stop(folder):
    """Ends the server and gives the folder's filesystem back. Nothing is said of what was not there."""
    if os.path.exists("/proc/fs/nfsd/threads"):
        put("/proc/fs/nfsd/threads", "0\n")
        for cache in ("nfsd.fh", "nfsd.export", "auth.unix.ip"):
            put("/proc/net/rpc/%s/flush" % cache, "%d\n" % (time.time() + 2))
    if os.path.ismount(folder):
        for _ in range(20):
            if subprocess.run(["umount", folder], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.25)
        run("umount", "-l", folder)
