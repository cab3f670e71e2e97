#!/usr/bin/env python3
"""Cases from the field, each named by its number (cases.tsv), against the server with real files: what people reported of such servers, cut
down to an input and a result that a program can check.

    tests/cases/run.py [CASE]     only cases whose name holds CASE"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rigs")]
import hls
import house
import picture
import report
import shelf
import sound
import step
import web
import words

GROUPS = "video audio subs tv music photos names seek".split()
# Modules of cases that are played on the sample library.
PLAYED = [hls, step, words, picture, sound, web, shelf]


def samples():
    run = subprocess.run([os.path.join(HERE, "../samples/ensure"), *GROUPS], stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.strip().splitlines()[-1]


def name_of(case):
    return "%s_%s" % (case.__name__, case.__doc__)


def run():
    stage = report.Stage("cases", sys.argv[1] if len(sys.argv) > 1 else None)
    wanted = [case for module in PLAYED for case in module.CASES if stage.wants(name_of(case))]
    if wanted:
        folder = samples()
        with house.House([("movies", folder + "/Movies"), ("tv", folder + "/TV"), ("music", folder + "/Music")]) as at:
            at.folder = folder
            at.server.idle(300)
            for case in wanted:
                with stage.case(name_of(case)):
                    case(at)
    for case in shelf.ALONE:
        if stage.wants(name_of(case)):
            with stage.case(name_of(case)):
                case(samples())
    return stage.finish()


if __name__ == "__main__":
    report.main(run)
