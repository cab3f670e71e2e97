"""Where rigs keep pools, data directories and state: below tests/.work, unless a server without privilege could not get there."""
import hashlib
import os
import stat

HERE = os.path.dirname(os.path.abspath(__file__))


def open_to_all(path):
    """Whether every folder above and including `path` may be entered by any user."""
    path = os.path.realpath(path)
    while True:
        if os.path.exists(path) and not os.stat(path).st_mode & stat.S_IXOTH:
            return False
        if path == os.path.dirname(path):
            return True
        path = os.path.dirname(path)


def work():
    """The folder, the same for every rig of one clone. `RIG_WORK` names another one."""
    named = os.environ.get("RIG_WORK")
    if named:
        return named
    own = os.path.join(os.path.dirname(HERE), ".work")
    if open_to_all(own):
        return own
    # A clone in /root, say: its folders are closed to the user that the cases without privilege run as.
    return "/var/tmp/spindle-tests-" + hashlib.sha256(HERE.encode()).hexdigest()[:8]
