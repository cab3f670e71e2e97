"""The browser of browser.mjs as an object: `browser.seek(tenths=5)` sends a command and gives its answer."""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rigs"))
import report

HERE = os.path.dirname(os.path.abspath(__file__))


def why_not():
    if not any(os.path.exists(p) for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser", os.environ.get("CHROMIUM", "/nowhere"))):
        return "there is no chromium here"
    if not glob.glob(os.path.join(HERE, "../../web/node_modules/playwright-core/package.json")):
        return "web/node_modules is missing (scripts/test makes it)"
    return None


class Browser:
    def __enter__(self):
        if why_not():
            raise report.Skip(why_not())
        self.process = subprocess.Popen(["node", os.path.join(HERE, "browser.mjs")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "ready" not in line:
            raise RuntimeError("the browser did not start: %r" % line)
        return self

    def __getattr__(self, name):
        def call(**args):
            self.process.stdin.write(json.dumps({"do": name, **args}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the browser is gone")
            answer = json.loads(line)
            if "error" in answer:
                try:  # what the page looked like says more than the message
                    self.process.stdin.write(json.dumps({"do": "shot", "name": "failed-" + name}) + "\n")
                    self.process.stdin.flush()
                    self.process.stdout.readline()
                except OSError:
                    pass
                raise AssertionError("%s %s: %s" % (name, args, answer["error"]))
            return answer["ok"]
        return call

    def __exit__(self, *_):
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        return False
