"""The parsers that run in the server's own process, each input in a process that has little memory and is watched
(src/media/examples/parse.rs). One that panics, takes much memory, asks without end, dies or stands still is a finding."""
import os
import resource
import select
import subprocess

ADDRESS_SPACE = 1 << 30
ANSWER_S = 20       # nothing that small takes longer, on whatever machine
CALLS = 210_000     # `Limits::default` allows 100,000 steps, each of at most two calls
SPARE = 24 << 20    # bytes held at once for an input of nothing ...
TIMES = 24          # ... and for each byte of it: text is held as UTF-8, as cues and as WebVTT, an index three times


class Parsers:
    def __init__(self, program, answer_s=ANSWER_S):
        self.program, self.answer_s, self.process, self.rest = program, answer_s, None, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()
        self.process = None

    def start(self):
        def limits():
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self.rest = b""
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limits, bufsize=0)

    def line(self):
        """Its next line; nothing when it has ended; `TimeoutError` when it stands still."""
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], self.answer_s)[0]:
                raise TimeoutError
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                return None
            self.rest += got
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode(errors="replace")

    def ask(self, path, size):
        """(verdict, what is wrong with it): the verdict is `read`, `refused`, or the kind of a finding."""
        if not self.process:
            self.start()
        try:
            self.process.stdin.write(path.encode() + b"\n")
            line = self.line()
        except BrokenPipeError:
            line = None
        except TimeoutError:
            self.end()
            return "hang", "no answer within %d s" % self.answer_s
        if line is None:
            status = self.process.wait()
            words = self.process.stderr.read().decode(errors="replace").strip()[-300:]
            self.end()
            return "crash", "it ended with %s: %s" % (status, words)
        verdict, peak, calls, _took, text = line.split("\t", 4)
        if verdict not in ("read", "refused"):
            return "panic", text
        if int(peak) > SPARE + TIMES * size:
            return "memory", "%s bytes held for a file of %d: %s" % (peak, size, text)
        if int(calls) > CALLS:
            return "calls", "%s reads and seeks: %s" % (calls, text)
        return verdict, text
