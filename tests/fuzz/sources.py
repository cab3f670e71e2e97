"""The good files that inputs are made of: the sample library, small.

What is small is taken as it is. Of the rest the first second and a half is copied into a file of its own where the container has its index apart
from its pictures (its head alone would be refused for what it lacks), and the head is taken elsewhere. They are kept: an input is known
by its seed and number only as long as its source is the same file."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "rigs"), HERE]
import place
import structure

# The groups that the stage `cases` has made already.
GROUPS = "video audio subs tv music photos names seek".split()
WHOLE = 200 << 10   # bytes up to which a file is taken as it is
HEAD = 160 << 10    # bytes of a head
LARGEST = 900 << 10  # of what was copied for its first seconds
INDEXED = {"mp4", "m4a", "m4b", "mov", "mkv", "webm", "ogv"}
TEXTS = {"srt", "ass", "vtt", "idx", "smi", "nfo"}
ROLES = {"video": "mp4 mov mkv webm avi ts m2ts flv ogv mpg vob wmv".split(),
         "audio": "mp3 flac wav ogg opus m4a m4b wma wv aiff".split(),
         "picture": "jpg png webp gif".split(),
         "subtitle": "srt ass vtt idx sub sup smi".split(),
         "text": ["nfo"]}
# How often each role comes: films are what has most to go wrong.
SHARES = {"video": 12, "audio": 4, "picture": 2, "subtitle": 4, "text": 1}


class Source:
    def __init__(self, name, extension, role, data):
        self.name, self.extension, self.role, self.data = name, extension, role, data
        self.is_text = extension in TEXTS
        self.units = structure.units(data, extension)


class Sources:
    """All of them; a family is a role's extension, drawn first, so that rare containers come as often as MP4."""

    def __init__(self, folder):
        index = json.load(open(os.path.join(folder, "index.json")))
        self.folder, self.all, self.by_family = folder, [], {}
        for row in index:
            with open(os.path.join(folder, row["file"]), "rb") as file:
                source = Source(row["name"], row["extension"], row["role"], file.read())
            self.all.append(source)
            self.by_family.setdefault((source.role, source.extension), []).append(source)
        self.extensions = {role: sorted({e for r, e in self.by_family if r == role}) for role in ROLES}
        self.families = []
        for role, share in SHARES.items():
            names = self.extensions[role]
            self.families += [(role, names[n % len(names)]) for n in range(share * 12)] if names else []
        # MP4 and Matroska are read by our own parsers: they come as often as all other films together.
        for extension in ("mp4", "mkv"):
            self.families += [("video", extension)] * (SHARES["video"] * 4)

    def named(self, extension):
        return self.by_family[next(f for f in self.by_family if f[1] == extension)]


def role_of(extension):
    return next((role for role, names in ROLES.items() if extension in names), None)


def library():
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), *GROUPS], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip().splitlines()[-1]


def short(path, into, extension):
    """The first second and a half, without decoding; nothing where that does not work or is large."""
    argv = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", path, "-map", "0", "-map", "-0:d", "-c", "copy", "-t", "1.5", "-fflags", "+bitexact", "-flags", "+bitexact", into]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
    return done.returncode == 0 and 0 < os.path.getsize(into) <= LARGEST


def made():
    """The folder of sources, made where it is missing."""
    samples = library()
    makers = b"".join(open(os.path.join(HERE, name), "rb").read() for name in ("sources.py",))
    key = hashlib.sha256(makers + os.path.basename(samples).encode()).hexdigest()[:16]
    folder = os.path.join(place.work(), "fuzz", "sources-" + key)
    if os.path.exists(os.path.join(folder, "index.json")):
        return folder
    part = "%s.%d.part" % (folder, os.getpid())
    os.makedirs(part)
    try:
        index = [row for path in files(samples) for row in [take(path, samples, part)] if row]
        for n, row in enumerate(sorted(index, key=lambda row: row["name"])):
            row["file"] = os.path.basename(row["file"])
        with open(os.path.join(part, "index.json"), "w") as out:
            json.dump(sorted(index, key=lambda row: row["name"]), out, indent=0)
        try:
            os.rename(part, folder)
        except OSError:
            if not os.path.exists(os.path.join(folder, "index.json")):  # else: another run was first, and has the same
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def files(samples):
    found = []
    for base, folders, names in os.walk(samples):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "Names"]
        found += [os.path.join(base, name) for name in names]
    return sorted(found)


def take(path, samples, folder):
    """One file, small, in the folder; nothing for what is no medium, or is there already."""
    name = os.path.relpath(path, samples)
    extension = os.path.splitext(name)[1].lower().lstrip(".")
    role = role_of(extension)
    size = os.path.getsize(path)
    if not role or not size:
        return None
    target = os.path.join(folder, hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:12] + "." + extension)
    if size > WHOLE and not (extension in INDEXED and short(path, target, extension)):
        with open(path, "rb") as data, open(target, "wb") as out:
            out.write(data.read(HEAD))
    elif size <= WHOLE:
        shutil.copyfile(path, target)
    digest = hashlib.sha256(open(target, "rb").read()).hexdigest()
    kept = os.path.join(folder, digest[:16] + "." + extension)
    if os.path.exists(kept):
        os.unlink(target)
        return None
    os.rename(target, kept)
    return {"name": name, "file": kept, "extension": extension, "role": role}
