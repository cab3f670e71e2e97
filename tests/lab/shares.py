"""Runs inside the machine: a folder of it, served by the kernel's own NFS or SMB server on the loopback, and mounted from there.

NFS needs no program at all: what `exportfs` and `rpc.mountd` would answer is written into the kernel's caches beforehand
(Documentation/filesystems/nfs/rpc-cache.rst; fs/nfsd/export.c). SMB needs `ksmbd.tools`, which the lab unpacks."""
import ctypes
import os
import signal
import subprocess
import time

FOREVER = 2147483647
# NFSEXP_INSECURE_PORT | NFSEXP_NOSUBTREECHECK | NFSEXP_FSID (include/uapi/linux/nfsd/export.h): the export is the root of the tree.
FLAGS = 0x0002 | 0x0400 | 0x2000
MS_NOATIME = 1024
SHARE = "films"
MODULES = {"nfs": ["nfsd", "nfsv4"], "cifs": "md4 cifs_arc4 cmac sha512_generic ctr ccm ghash_generic gcm seqiv ecb ksmbd cifs".split()}
CONF, USERS, LOCK = "/etc/ksmbd/ksmbd.conf", "/etc/ksmbd/ksmbdpwd.db", "/run/ksmbd.lock"


def put(path, text):
    with open(path, "w") as out:
        out.write(text)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError("%s: status %d: %s" % (" ".join(command), done.returncode, done.stdout.strip()[-400:]))


def start(kind, folder):
    # All by name: the kernel here has no program to ask for a module that it misses.
    for name in MODULES[kind]:
        run("modprobe", name)
    {"nfs": start_nfs, "cifs": start_smb}[kind](folder)


def start_nfs(folder):
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


def start_smb(folder):
    os.makedirs("/etc/ksmbd", exist_ok=True)
    put(CONF, "[global]\n\tnetbios name = lab\n\tinterfaces = lo\n\tbind interfaces only = yes\n\n[%s]\n\tpath = %s\n\tread only = no\n\tstore dos attributes = no\n" % (SHARE, folder))
    put(USERS, "")
    run("ksmbd.adduser", "-c", CONF, "-i", USERS, "-a", "root", "-p", "lab")
    subprocess.Popen(["ksmbd.mountd", "-n", "-v", "-c", CONF, "-u", USERS], stdout=open("/out/ksmbd.log", "w"), stderr=subprocess.STDOUT)


def mount(kind, at):
    source, name, options = {
        "nfs": (b"127.0.0.1:/", b"nfs4", b"addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,sec=sys"),
        "cifs": (b"//127.0.0.1/" + SHARE.encode(), b"cifs", b"ip=127.0.0.1,unc=\\\\127.0.0.1\\" + SHARE.encode() + b",vers=3.1.1,username=root,password=lab,noperm"),
    }[kind]
    library = ctypes.CDLL(None, use_errno=True)
    # A server that has just started may not listen yet; it tells nobody when it does.
    end = time.monotonic() + 30
    while library.mount(source, at.encode(), name, MS_NOATIME, options):
        number = ctypes.get_errno()
        if time.monotonic() > end:
            raise RuntimeError("unable to mount %s: %s" % (source.decode(), os.strerror(number)))
        time.sleep(0.5)


def stop(folder):
    """Ends whichever server runs and gives the folder's filesystem back. Nothing is said of what was not there."""
    if os.path.exists("/proc/fs/nfsd/threads"):
        put("/proc/fs/nfsd/threads", "0\n")
        for cache in ("nfsd.fh", "nfsd.export", "auth.unix.ip"):
            put("/proc/net/rpc/%s/flush" % cache, "%d\n" % (time.time() + 2))
    if os.path.exists(LOCK):
        with open(LOCK) as held:
            number = held.read().strip()
        put("/sys/class/ksmbd-control/kill_server", "hard")
        if number.isdigit():
            try:
                os.kill(int(number), signal.SIGTERM)
            except ProcessLookupError:
                pass
    if os.path.ismount(folder):
        for _ in range(20):
            if subprocess.run(["umount", folder], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.25)
        run("umount", "-l", folder)
