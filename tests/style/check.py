#!/usr/bin/env python3
"""Holds what the graph of crates must keep: licences, forbidden crates, and who may depend on what.

The licences, their exceptions and the bans stand in deny.toml, in cargo-deny's own form, so that whoever has that tool gets
the same answer; this reads the same file over `cargo metadata`, which every machine has. The edges between our crates are
those of docs/ARCHITECTURE.md."""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, "..", "rigs"), os.path.join(HERE, "..", "cases")]
import index
import report
from report import check

try:
    import tomllib
except ImportError:  # python before 3.11
    tomllib = None

# Which of our crates a crate may depend on, build and test dependencies included (docs/ARCHITECTURE.md, "Rooms").
EDGES = {
    "spindle-base": set(),
    "spindle-media": {"spindle-base"},
    "spindle-playback": {"spindle-base", "spindle-media"},
    "spindle-drive": set(),
    "spindle-simulate": {"spindle-drive"},
    # Its block map is held against the simulator's layouts, by a test.
    "spindle-storage": {"spindle-base", "spindle-simulate"},
    "spindle-library": {"spindle-base", "spindle-media", "spindle-storage"},
    "spindle-bench": {"spindle-base", "spindle-storage"},
    "spindle-transcode": {"spindle-base", "spindle-media"},
    "spindle-transcode-worker": {"spindle-base", "spindle-media", "spindle-transcode"},
}
# Crates that only some of ours may name: one place for each foreign kind of trouble.
KEPT_TO = {
    "rusqlite": {"spindle-library"},
    "axum": {"spindle"},
    "hyper": {"spindle"},
    "utoipa": {"spindle"},
    "clap": {"spindle"},
    "ffmpeg-next": {"spindle-transcode-worker"},
    "ffmpeg-sys-next": {"spindle-transcode-worker"},
    # System calls: base reads clocks, storage disks, library watches folders, bench writes past the cache, delivery moves bytes to
    # sockets, transcode handles processes and descriptors.
    "rustix": {"spindle-base", "spindle-storage", "spindle-library", "spindle-bench", "spindle", "spindle-transcode", "spindle-transcode-worker"},
    "libc": {"spindle-storage", "spindle-transcode", "spindle-transcode-worker"},
}


def tokens(expression):
    return re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))


def allowed(expression, fine):
    """Evaluates an SPDX expression: OR needs one side, AND both, WITH makes one licence of two words."""
    parts = tokens(expression)
    at = 0

    def one():
        nonlocal at
        word = parts[at]
        at += 1
        if word == "(":
            value = either()
            at += 1
            return value
        if at < len(parts) and parts[at] == "WITH":
            word = "%s WITH %s" % (word, parts[at + 1])
            at += 2
        return word in fine

    def both():
        nonlocal at
        value = one()
        while at < len(parts) and parts[at] == "AND":
            at += 1
            value = one() and value
        return value

    def either():
        nonlocal at
        value = both()
        while at < len(parts) and parts[at] == "OR":
            at += 1
            value = both() or value
        return value
    return either()


def refused(packages, rules):
    """Packages whose licence neither the list nor an exception allows."""
    fine = set(rules["licenses"]["allow"])
    extra = {row["crate"]: set(row["allow"]) for row in rules["licenses"].get("exceptions", [])}
    out = []
    for package in packages:
        licence = package.get("license")
        if not licence:
            out.append("%s %s: states no licence" % (package["name"], package["version"]))
        elif not allowed(licence, fine | extra.get(package["name"], set())):
            out.append("%s %s: %s" % (package["name"], package["version"], licence))
    return out


def unused_exceptions(packages, rules):
    names = {package["name"] for package in packages}
    return [row["crate"] for row in rules["licenses"].get("exceptions", []) if row["crate"] not in names]


def metadata():
    run = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"],
                         cwd=TOP, stdout=subprocess.PIPE, check=True)
    return json.loads(run.stdout)


def built(paths):
    """Those of paths that tools make from the others."""
    made = {"target", "node_modules", "dist", "__pycache__", ".work"}
    return [path for path in paths if made & set(path.split("/")[:-1])]


def run():
    stage = report.Stage("style", sys.argv[1] if len(sys.argv) > 1 else None)
    with stage.case("every_case_from_the_field_is_in_the_table_with_tests_that_are_there"):
        check(not index.faults(), "; ".join(index.faults()))
    with stage.case("nothing_that_was_built_is_kept"):
        if not os.path.exists(os.path.join(TOP, ".git")):
            raise report.Skip("this is no clone: what is kept is not known")
        check(built(["src/a/target.rs", "tests/x/target/release/y", "web/dist/index.html"]) == ["tests/x/target/release/y", "web/dist/index.html"], "the rule itself")
        kept = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=TOP, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
        check(len(kept) > 500, "only %d files are kept" % len(kept))
        check(not built(kept), "; ".join(built(kept)[:5]))
    if tomllib is None:
        with stage.case("rules_can_be_read"):
            raise report.Skip("python 3.11 or newer reads deny.toml")
        return stage.finish()
    rules = tomllib.load(open(os.path.join(TOP, "deny.toml"), "rb"))
    with stage.case("a_licence_that_is_not_listed_is_refused"):
        bad = [{"name": "x", "version": "1", "license": text} for text in ("GPL-3.0-only", "MIT AND SSPL-1.0", None, "(GPL-2.0 OR LGPL-3.0) AND MIT")]
        check(len(refused(bad, rules)) == len(bad), "passed: %s" % refused(bad, rules))
        good = [{"name": "x", "version": "1", "license": text} for text in ("MIT", "Apache-2.0/MIT", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception OR SSPL-1.0")]
        check(not refused(good, rules), "refused: %s" % refused(good, rules))
    try:
        graph = metadata()
    except subprocess.CalledProcessError as error:
        with stage.case("cargo_metadata_answers"):
            raise AssertionError("cargo metadata: exit %d" % error.returncode)
        return stage.finish()
    ours = set(graph["workspace_members"])
    resolved = {node["id"] for node in graph["resolve"]["nodes"]}
    packages = [package for package in graph["packages"] if package["id"] in resolved]
    with stage.case("every_licence_in_the_graph_is_listed"):
        check(len(packages) > 50, "only %d packages seen" % len(packages))
        check(not refused(packages, rules), "; ".join(refused(packages, rules)))
        check(not unused_exceptions(packages, rules), "exceptions for crates that are not here: %s" % unused_exceptions(packages, rules))
    with stage.case("no_banned_crate_is_in_the_graph"):
        banned = {row["crate"] for row in rules["bans"]["deny"]}
        found = sorted(banned & {package["name"] for package in packages})
        check(not found, ", ".join(found))
    with stage.case("every_crate_comes_from_the_registry_or_this_tree"):
        sources = {package["source"] for package in packages if package["source"]}
        check(len(sources) == 1 and sources.pop().startswith("registry+"), "sources: %s" % sorted({p["source"] for p in packages if p["source"]}))
    members = [package for package in graph["packages"] if package["id"] in ours]
    with stage.case("our_crates_depend_only_to_the_left"):
        for package in members:
            used = {d["name"] for d in package["dependencies"] if d["name"].startswith("spindle-")} - {package["name"]}
            may = EDGES.get(package["name"])
            if package["name"] == "spindle":
                check("spindle-transcode-worker" not in used, "the server must not depend on the worker: it would link FFmpeg")
                continue
            check(may is not None, "%s is a new crate: add its edges to this check and to docs/ARCHITECTURE.md" % package["name"])
            check(used <= may, "%s may not depend on %s" % (package["name"], ", ".join(sorted(used - may))))
    with stage.case("foreign_crates_are_named_only_where_they_belong"):
        wrong = ["%s may not depend on %s (only %s)" % (package["name"], dependency["name"], ", ".join(sorted(KEPT_TO[dependency["name"]])))
                 for package in members for dependency in package["dependencies"]
                 if dependency["kind"] != "dev" and package["name"] not in KEPT_TO.get(dependency["name"], {package["name"]})]
        check(not wrong, "; ".join(wrong))
    return stage.finish()


if __name__ == "__main__":
    report.main(run)
