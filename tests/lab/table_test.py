"""The accuracy table from results and a page made by hand: a run changes what it looked at, and nothing else. Needs no machine."""
import json
import os
import tempfile

import cases
import table
from report import check

MIB = 1 << 20
# One stack with all figures, one with some, one with none; loop devices.
PAGE = """# Accuracy

## In the virtual machine

Kernel: 6.1.0-1.

| name | stack | exact 1 | exact 3 | exact same | fallback 1 | fallback 3 | fallback same | found |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| plain-ext4 | ext4 on a disk, ext4 | 1.001 | 1.002 | 1.003 | 1.004 | 1.005 | 1.006 | 13/13 |
| md-raid6 | md raid6, 5 disks, ext4 | 1.007 |  | 1.008 |  |  | total 1.009 | 6/7 |
| zfs-cache | ZFS, a mirror with a cache device, zfs | not run |  |  |  |  |  |  |

## On loop devices

Kernel: 6.18.1.

| stack | exact 1 | exact 3 | exact same | fallback 1 | fallback 3 | fallback same |
| --- | --- | --- | --- | --- | --- | --- |
| raid1 | 1.010 | 1.011 | 1.012 | 1.013 | 1.014 | 1.015 |
"""
SECTION = (("exact", "one"), ("exact", "three"), ("exact", "same"), ("fallback", "one"), ("fallback", "three"), ("fallback", "same"))


def cell(mode, scenario, said=MIB, attribution="block_trace"):
    return {"mode": mode, "scenario": scenario, "attribution": attribution, "said": {"vda": said}, "seen": {"vda": MIB}, "total": said}


def result(cells, wrong, kernel="6.1.0-1"):
    return {"kernel": kernel, "cells": cells, "findings": [{"name": "n%d" % number, "wrong": why} for number, why in enumerate(wrong)]}


def made(results, host=None, page=PAGE):
    """The page after a run that gave these results."""
    with tempfile.TemporaryDirectory() as folder:
        for name, row in results.items():
            with open(os.path.join(folder, name + ".json"), "w") as out:
                json.dump(row, out)
        path = os.path.join(folder, "host of loops")
        if host:
            with open(path, "w") as out:
                json.dump(host, out)
        return table.page_of(folder, path, page)


def row(text, section, name):
    return table.table_of(section, text)[1].get(name)


def run(stage):
    with stage.case("table_keeps_the_page_s_rows_where_there_is_no_result"):
        text = made({})
        check(row(text, table.MACHINE, "plain-ext4") == row(PAGE, table.MACHINE, "plain-ext4"), text)
        check(row(text, table.MACHINE, "md-raid6") == row(PAGE, table.MACHINE, "md-raid6"), text)
        check(row(text, table.LOOPS, "raid1") == row(PAGE, table.LOOPS, "raid1"), text)
        check(row(text, table.MACHINE, "zfs-cache")[1] == "not run" == row(text, table.MACHINE, "md-raid4")[1], text)
        check(len(table.table_of(table.MACHINE, text)[1]) == len(cases.all_cases()), "a stack has no row")
        check(table.table_of(table.MACHINE, text)[0] == {"6.1.0-1"} and table.table_of(table.LOOPS, text)[0] == {"6.18.1"}, text)
        check(made({}, page=text) == text, "a second writing changes the page")
    with stage.case("table_takes_a_whole_result_in_place_of_the_page_s_row"):
        text = made({"plain-ext4": result([cell(*key, said=MIB * 2) for key in SECTION], [None] * 14, "6.1.0-2")})
        check(row(text, table.MACHINE, "plain-ext4")[1:] == ["2.000"] * 6 + ["14/14"], text)
        check(table.table_of(table.MACHINE, text)[0] == {"6.1.0-1", "6.1.0-2"}, "rows of two kernels: %s" % text)
        check(row(text, table.LOOPS, "raid1") == row(PAGE, table.LOOPS, "raid1"), text)
    with stage.case("table_fills_with_the_page_s_figures_what_a_part_of_a_run_did_not_look_at"):
        text = made({"md-raid6": result([cell("exact", "three")], [None] * 2), "zfs-cache": result([cell("exact", "one")], [None, "it is wrong"])})
        check(row(text, table.MACHINE, "md-raid6")[1:] == ["1.007", "1.000", "1.008", "", "", "total 1.009", "6/7"], text)
        check(row(text, table.MACHINE, "zfs-cache")[1:] == ["1.000", "", "", "", "", "", "1/2"], text)
    with stage.case("table_shows_a_check_that_failed_however_few_were_made"):
        check(row(made({"md-raid6": result([], [None, "it is wrong"])}), table.MACHINE, "md-raid6")[-1] == "1/2", "the failure is hidden")
        check(row(made({"md-raid6": result([], [None] * 8)}), table.MACHINE, "md-raid6")[-1] == "8/8", "more checks that hold are hidden")
    with stage.case("table_adds_a_stack_of_loop_devices_to_those_of_the_page"):
        host = {"kernel": "6.18.2", "rows": [{**cell("fallback", "one", attribution="sampled_map"), "stack": "ext4", "unattributed_bytes": 0}]}
        text = made({}, host)
        check(row(text, table.LOOPS, "ext4") == ["", "", "", "1.000", "", ""] and row(text, table.LOOPS, "raid1") == row(PAGE, table.LOOPS, "raid1"), text)
        check(table.table_of(table.LOOPS, text)[0] == {"6.18.1", "6.18.2"}, text)
    with stage.case("table_of_nothing_is_no_page"):
        check(made({}, page="") is None, made({}, page=""))
