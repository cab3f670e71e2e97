"""Disks that take a disk's time, fail, hang and vanish on demand: tests/lab/disks run for a test, and steered by it.

    with Model(folder, {"d0": image, "d1": image}) as model:
        model.files["d0"]            # put a loop device on it
        model.delays(True)           # requests take the time of a 7200 rpm drive from here on
        model.hang("d0", 30)         # ... and then an answer
        model.rows("d0")             # every request so far: the ground truth

Delays are off at first, so that making filesystems and filling them costs nothing."""
import csv
import json
import os
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CRATE = os.path.join(TOP, "tests", "lab", "disks")


def program():
    """Where scripts/lib.sh builds it: with the shared target directory there, else in the crate's own."""
    named = os.environ.get("RIG_DISKS")
    if named:
        return named
    target = os.environ.get("CARGO_TARGET_DIR")
    for folder in ([target] if target else []) + [os.path.join(CRATE, "target"), os.path.join(TOP, "target")]:
        path = os.path.join(folder, "release", "spindle-disks")
        if os.path.exists(path):
            return path
    return os.path.join(CRATE, "target", "release", "spindle-disks")


def why_not():
    """None when devices can be made, else the reason."""
    if os.geteuid() != 0:
        return "mounting FUSE and making loop devices needs root"
    if not os.path.exists("/dev/fuse"):
        return "this machine has no FUSE"
    if not os.path.exists(program()):
        return "%s is not built (cargo build --release --manifest-path tests/lab/disks/Cargo.toml)" % program()
    return None


class Model:
    """The running program. `stays`: it outlives this process and is ended by `Model.end(folder)`."""

    def __init__(self, folder, images, preset="hdd7200", settings=(), stays=False):
        self.folder, self.images, self.preset, self.settings, self.stays = folder, images, preset, list(settings), stays
        self.mount = os.path.join(folder, "fuse")
        self.files = {name: os.path.join(self.mount, name) for name in images}
        self.process = None

    def up(self):
        for name in ("fuse", "log"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        argv = [program(), "serve", "--fuse", "fuse", "--log", "log", "--control", "control.sock", "--no-delays", "--disk", self.preset, *self.settings]
        argv += [] if self.stays else ["--while-stdin"]
        argv += ["%s=%s" % (name, os.path.abspath(path)) for name, path in self.images.items()]
        # Woken at once although the machine is busy: it sleeps nearly all the time.
        if subprocess.run(["chrt", "-f", "10", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            argv = ["chrt", "-f", "10"] + argv
        with open(os.path.join(self.folder, "model.out"), "wb") as errors:
            self.process = subprocess.Popen(argv, cwd=self.folder, stdin=subprocess.DEVNULL if self.stays else subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, start_new_session=self.stays)
        line = self.process.stdout.readline()
        if line.strip() != b"ready":
            self.process.wait()
            raise RuntimeError("the disks did not start: %s" % open(os.path.join(self.folder, "model.out")).read().strip())
        return self

    def order(self, line):
        """Sends a line; gives the JSON of the answer, if there is some."""
        # By way of a descriptor: a socket's path may have 107 bytes, and folders of tests are deep.
        place = os.open(self.folder, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(30)
                link.connect("/proc/self/fd/%d/control.sock" % place)
                link.sendall(line.encode() + b"\n")
                answer = b""
                while not answer.endswith(b"\n"):
                    got = link.recv(65536)
                    if not got:
                        raise RuntimeError("the disks hung up on %r" % line)
                    answer += got
        finally:
            os.close(place)
        word, _, rest = answer.decode().strip().partition(" ")
        if word != "ok":
            raise RuntimeError("%r: %s" % (line, rest))
        return json.loads(rest) if rest else None

    def delays(self, on):
        self.order("delays " + ("on" if on else "off"))

    def error(self, name, at, len_bytes, which="read"):
        """Requests that touch these bytes fail with EIO; `which`: read, write, any."""
        self.order("error %s %d %d %s" % (name, at, len_bytes, which))

    def hang(self, name, seconds):
        self.order("hang %s %g" % (name, seconds))

    def vanish(self, name):
        """Pulled out: everything fails from here on."""
        self.order("vanish " + name)

    def readonly(self, name):
        self.order("readonly " + name)

    def fills(self, name, after_bytes, bytes_per_s):
        """A write cache that is full after so many bytes more: then writes go at this rate. Only while delays are on."""
        self.order("fills %s %d %g" % (name, after_bytes, bytes_per_s))

    def heal(self, name):
        self.order("heal " + name)

    def stats(self, name):
        return self.order("stats " + name)

    def rows(self, name):
        """Every request, as a dict of the log's columns; numbers are numbers."""
        self.order("flush")
        with open(os.path.join(self.folder, "log", name + ".csv"), newline="") as text:
            return [{key: value if key == "op" else int(value) for key, value in row.items()} for row in csv.DictReader(text)]

    def down(self):
        """Ends it. Loop devices on its files must be gone before."""
        if self.process is None:
            return
        try:
            self.order("quit")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process = None
        clear(self.folder)

    def __enter__(self):
        try:
            return self.up()
        except BaseException:
            self.down()
            raise

    def __exit__(self, *_):
        self.down()


def end(folder):
    """Ends the devices of a run that is no more, from its folder alone."""
    try:
        Model(folder, {}).order("quit")
    except (OSError, RuntimeError):
        pass
    for _ in range(20):
        if not os.path.ismount(os.path.join(folder, "fuse")):
            return
        time.sleep(0.1)  # it unmounts by itself when it can
    clear(folder)


def clear(folder):
    """Removes the mount of a program that was killed."""
    mount = os.path.join(folder, "fuse")
    try:
        stale = os.path.ismount(mount) or not os.path.exists(mount)
    except OSError:
        stale = True
    if stale and os.path.isdir(folder):
        subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL, check=False)
