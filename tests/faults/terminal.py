"""`spindle top` on a real terminal: what it draws, another size, every way out, and the terminal as it was; and where there is none.

The terminal is a pty whose session leader is the program, as a shell's would be. Nothing here waits for a time to pass: it waits
for what must come, and a limit ends a run that is broken."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import server as servers
from report import Skip, check

NOBODY = 65534
LIMIT_S = 60
ALTERNATE, BACK, CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


class Terminal:
    """A program on a pty of its own. `text()` is what stands there, line by line, as far as this program's own few sequences go."""

    def __init__(self, arguments, columns=110, rows=30, **more):
        self.master, self.slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.raw = b""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPINDLE_")}
        environment.update(TERM="xterm-256color")

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([servers.PROGRAM, "top", *arguments], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        preexec_fn=own_terminal, env=environment, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        servers.end_program(self.process)
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns, rows):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, data):
        os.write(self.master, data)

    def pump(self, seconds=0.1):
        if select.select([self.master], [], [], seconds)[0]:
            self.raw += os.read(self.master, 65536)

    def until(self, what, probe):
        end = time.monotonic() + LIMIT_S
        while not probe():
            check(time.monotonic() < end, "%s: not within %d s; it shows:\n%s" % (what, LIMIT_S, "\n".join(self.text())))
            self.pump()

    def sees(self, text):
        self.until("`%s` is shown" % text, lambda: any(text in line for line in self.text()))

    def text(self):
        """The lines that stand there: the program writes whole lines at `ESC [ row ; 1 H`."""
        lines = {}
        for part in self.raw.rpartition(b"\x1b[2J")[2].split(b"\x1b["):
            found = re.match(rb"(\d+);1H", part)
            if found:
                row = int(found.group(1))
                lines[row] = part[found.end():]
            elif lines:
                # A style, or the end of the line: its text goes on in the row that was begun last.
                lines[row] += re.sub(rb"^[0-9;?]*[A-Za-z]", b"", part)
        return [lines.get(row, b"").decode(errors="replace").rstrip() for row in range(1, max(lines, default=0) + 1)]

    def ended(self, status=0):
        """It has ended, with this status, and the terminal is as it was."""
        def is_over():
            return self.process.poll() is not None
        self.until("it ends", is_over)
        while select.select([self.master], [], [], 0)[0]:
            self.pump(0)
        check(self.process.returncode == status, "exit status %s, wanted %s" % (self.process.returncode, status))
        check(termios.tcgetattr(self.slave) == self.before, "the terminal's modes are not what they were")
        if ALTERNATE in self.raw:
            last = self.raw.rindex(ALTERNATE)
            check(BACK in self.raw[last:] and CURSOR in self.raw[last:], "the screen or the cursor was not given back: %r" % self.raw[-80:])


def top(server, *more):
    return ["--data-dir", server.data, "--interval", "0.2", *more]


def run_top(arguments, **more):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPINDLE_")}
    return subprocess.run([servers.PROGRAM, "top", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, timeout=LIMIT_S, env=environment, **more)


def one_line(run, mentions, status=1):
    lines = [line for line in run.stderr.splitlines() if line.strip()]
    check(run.returncode == status, "exit status %d: %s" % (run.returncode, run.stderr))
    check(len(lines) == 1 and mentions in lines[0], "one line that says %r: %s" % (mentions, run.stderr))


def run(stage, scratch, source):
    films = os.path.join(scratch, "nothing")
    os.makedirs(films, exist_ok=True)
    ways_out(stage, films)
    troubles(stage, films, scratch)
    if stage.wants("top_shows_a_stream_with_its_disks_as_a_snapshot_and_as_lines"):
        with stage.case("top_shows_a_stream_with_its_disks_as_a_snapshot_and_as_lines"):
            streaming(source())


def ways_out(stage, films):
    with servers.Server([("movies", films)]) as server:
        with stage.case("top_draws_a_picture_that_follows_the_size_and_q_gives_the_terminal_back"):
            with Terminal(top(server)) as shown:
                shown.sees("Nothing plays")
                shown.sees("quit")
                check(shown.text()[0].startswith("Spindle"), "the head: %s" % shown.text()[0])
                check(termios.tcgetattr(shown.slave)[3] & (termios.ECHO | termios.ICANON) == 0, "keys are taken one by one, unseen")
                shown.resize(60, 12)
                shown.until("the picture of 12 rows", lambda: len(shown.text()) == 12 and "quit" in shown.text()[-1])
                check(all(len(line) <= 60 for line in shown.text()), "a line is longer than the terminal: %s" % shown.text())
                shown.send(b"p")
                shown.sees("paused")
                shown.send(b"q")
                shown.ended()
        for name, out in (("an_interrupt", lambda t: t.send(b"\x03")), ("escape", lambda t: t.send(b"\x1b")),
                          ("a_request_to_end", lambda t: t.process.send_signal(signal.SIGTERM)),
                          ("a_hangup", lambda t: t.process.send_signal(signal.SIGHUP))):
            with stage.case("top_gives_the_terminal_back_after_%s" % name):
                with Terminal(top(server)) as shown:
                    shown.sees("quit")
                    out(shown)
                    shown.ended()
        with stage.case("top_gives_the_terminal_back_while_it_is_stopped_and_draws_anew_afterwards"):
            with Terminal(top(server)) as shown:
                shown.sees("quit")
                shown.send(b"\x1a")
                shown.until("it is stopped", lambda: os.waitpid(shown.process.pid, os.WUNTRACED | os.WNOHANG)[0] == shown.process.pid)
                while select.select([shown.master], [], [], 0)[0]:
                    shown.pump(0)
                check(termios.tcgetattr(shown.slave) == shown.before, "a stopped program keeps no terminal")
                check(shown.raw.endswith(BACK), "the shell's screen is back: %r" % shown.raw[-60:])
                shown.raw = b""
                shown.process.send_signal(signal.SIGCONT)
                shown.sees("quit")
                shown.send(b"q")
                shown.ended()
        with stage.case("top_ends_after_as_many_looks_as_it_was_told"):
            with Terminal(top(server, "--count", "3")) as shown:
                shown.ended()


def troubles(stage, films, scratch):
    with stage.case("without_a_server_top_says_so_in_one_line"):
        one_line(run_top(["--data-dir", scratch]), "no server of the data directory")
        one_line(run_top(["--server", "https://nas"]), "token", 2)
        one_line(run_top(["--server", "https://nas", "--token", "x"]), "only http:// is spoken here", 2)
        one_line(run_top(["--server", "http://127.0.0.1:1", "--token", "x"]), "no server answers at http://127.0.0.1:1")
        one_line(run_top(["--interval", "0"]), "interval", 2)
    with servers.Server([("movies", films)]) as server:
        with stage.case("the_local_credential_is_its_owners_alone_and_another_token_is_refused"):
            check(os.stat(os.path.join(server.data, "local.json")).st_mode & 0o777 == 0o600, "others may read it")
            one_line(run_top(["--server", server.url, "--token", "wrong"]), "does not take this token")
            if os.geteuid() != 0:
                raise Skip("only root can ask as somebody else")
            if not os.access(os.path.dirname(servers.program_for(NOBODY)), os.X_OK):
                raise Skip("nobody cannot come to the program")
            other = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", servers.program_for(NOBODY), "top", "--data-dir", server.data]
            asked = subprocess.run(other, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=LIMIT_S)
            one_line(asked, "may be read by its owner alone")
        with stage.case("top_keeps_its_last_picture_when_the_server_is_killed_and_finds_the_next_one"):
            with Terminal(top(server)) as shown:
                shown.sees("Nothing plays")
                server.kill()
                shown.sees("no server answers")
                shown.sees("Nothing plays")
                with servers.Server([("movies", films)], data=server.data):
                    shown.until("it has found the new one", lambda: not any("no server answers" in line for line in shown.text()))
                    shown.send(b"q")
                    shown.ended()


def streaming(folder):
    with servers.Server([("movies", os.path.join(folder, "Clips"))]) as server:
        server.setup()
        row = server.settled(["Direct Hour"])["Direct Hour"]
        played = server.play(row["id"])
        server.read_paced(played["url"], length=4 << 20)

        def told():
            sessions = json.loads(run_top(top(server, "--json")).stdout)["sessions"]
            return next((s for s in sessions if (s.get("io") or {}).get("served_bytes", 0) >= 4 << 20), None)
        seen = servers.until(LIMIT_S, "the snapshot has the stream with its record", told)
        check(seen["session"] == played["session"] and seen["io"]["verdict"], "the stream: %s" % seen)
        snapshot = json.loads(run_top(top(server, "--json")).stdout)
        check(set(snapshot) >= {"server", "at", "attribution", "sessions", "disks", "volumes"}, "the snapshot: %s" % sorted(snapshot))
        plain = run_top(top(server, "--count", "2"))
        check(plain.returncode == 0 and plain.stdout.count("Spindle  ") == 2 and "\x1b" not in plain.stdout, "plain lines: %s" % plain.stdout)
        check("Direct Hour" in plain.stdout, "the title: %s" % plain.stdout)
        lines = subprocess.run("%s top --data-dir %s --interval 0.2 | head -1" % (servers.PROGRAM, server.data), shell=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
        check(lines.stdout.startswith("Spindle") and lines.stderr == "", "a reader that goes away ends it quietly: %s" % lines.stderr)
        with Terminal(top(server)) as shown:
            shown.sees("Direct Hour")
            shown.sees("direct play")
            shown.send(b"q")
            shown.ended()
