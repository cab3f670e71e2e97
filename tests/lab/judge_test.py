"""The judge, on evidence made by hand: it must find what is wrong, and only that. Needs no machine."""
import copy

import cases
import judge
import trace
from report import check

MIB = 1 << 20
CASE = {"name": "x", "disks": [0, 1], "exact": True, "traced": "all", "busy": "", "state": "", "fs": "ext4", "share": False,
        "expect": cases.volume(1, 2, "mirror", cases.md("raid1", copies=2), cases.disk_nodes(2))}
TREE = {"columns": 1, "copies": 2, "layout": "mirror", "disks": ["vda", "vdb"],
        "node": {"kind": "md", "name": "md0", "level": "raid1", "copies": 2, "children": [{"kind": "disk", "name": "vda", "children": []}, {"kind": "disk", "name": "vdb", "children": []}]}}
# A file of 2 MiB and 100 bytes on a mirror, read half from each leg.
SIZE = 2 * MIB + 100
ANSWER = {"exact": True, "extents": [{"offset": 0, "length_bytes": SIZE, "copies": [[{"disk": "vda", "disk_offset": MIB, "length_bytes": SIZE}], [{"disk": "vdb", "disk_offset": 5 * MIB, "length_bytes": SIZE}]]}]}
READS = [["vda", MIB, MIB, "R", 7, "x", 0.0], ["vdb", 6 * MIB, MIB + 4096, "RA", 7, "x", 0.1], ["vda", 0, 4096, "RM", 7, "x", 0.0]]


def file_row(**more):
    return {"file": "/a", "size": SIZE, "answer": ANSWER, "raw": {"same": 2 * SIZE, "other": 0, "first": None}, "lost": 0, "issued": {"vda": 0, "vdb": 0}, "events": READS, **more}


def stream_row(said, events, mode="exact", attribution="block_trace", why=None):
    record = {"attribution": attribution, "why": why, "read_bytes": sum(said.values()), "unattributed_bytes": 0, "disks": [{"disk": d, "read_bytes": n} for d, n in said.items()]}
    return {"mode": mode, "scenario": "one", "errors": [], "viewers": [{"film": 0, "record": record}], "lost": 0, "issued": {"vda": 0, "vdb": 0}, "events": events}


def evidence(**more):
    return {"names": {"0": "vda", "1": "vdb"}, "topology": TREE, "facts": {}, **more}


def changed(value, path, new):
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return value


def run(stage):
    with stage.case("judge_accepts_a_tree_that_is_what_was_built"):
        check(judge.topology(CASE, evidence(), TREE) is None, judge.topology(CASE, evidence(), TREE))
    with stage.case("judge_refuses_a_tree_that_is_not"):
        for path, new in ((["copies"], 1), (["layout"], "simple"), (["disks"], ["vda"]), (["node", "level"], "raid0"), (["node", "children"], TREE["node"]["children"][:1])):
            check(judge.topology(CASE, evidence(), changed(TREE, path, new)), "%s = %s passed" % (path, new))
        busy = {**CASE, "busy": "resync"}
        check(judge.topology(busy, evidence(), TREE), "a tree without its resync passed")
        check(not judge.topology(busy, evidence(), changed(TREE, ["node", "sync"], {"action": "resync", "done": 0.3})), "a resync that is told was refused")
    with stage.case("judge_accepts_a_layout_whose_places_were_read"):
        check(judge.layout(CASE, evidence(), file_row()) is None, judge.layout(CASE, evidence(), file_row()))
    with stage.case("judge_refuses_a_layout_that_was_not_read_so"):
        check("never read" in (judge.layout(CASE, evidence(), file_row(events=READS[:1])) or ""), "a half that nobody read passed")
        stray = READS + [["vda", 100 * MIB, 4096, "R", 7, "x", 0.0]]
        check("4096 bytes were read that it does not place" in (judge.layout(CASE, evidence(), file_row(events=stray)) or ""), "a stray read passed")
        shifted = changed(ANSWER, ["extents", 0, "copies", 0, 0, "disk_offset"], MIB + 512)
        check(judge.layout(CASE, evidence(), file_row(answer=shifted)), "a sector's shift passed")
        check(judge.layout(CASE, evidence(), file_row(lost=1)), "a trace with holes passed")
        vague = {"exact": False, "why_inexact": "because", "extents": []}
        check(judge.layout(CASE, evidence(), file_row(answer=vague)), "an inexact map of a stack that can be known passed")
        check(judge.layout({**CASE, "exact": False}, evidence(), file_row(answer=vague)) is None, "an inexact map with its reason was refused")
        check(judge.layout({**CASE, "exact": False}, evidence(), file_row(answer={**vague, "why_inexact": None})), "an inexact map without a reason passed")
        check(judge.raw(CASE, file_row(raw={"same": 5, "other": 4096, "first": {}})), "bytes that differ passed")
        good = {"compared_bytes": 8192, "different_bytes": 0, "differences": [], "unchecked": []}
        check(judge.verified({**CASE, "raw": True}, good, ANSWER) is None, "a comparison without a difference was refused")
        for key, new in (("different_bytes", 4096), ("compared_bytes", 0)):
            check(judge.verified({**CASE, "raw": True}, {**good, key: new}, ANSWER), "%s = %s passed" % (key, new))
    with stage.case("judge_asks_for_no_comparison_of_a_file_that_is_stored_compressed_throughout"):
        none, skipped = {"same": 0, "other": 0, "first": None}, {"compared_bytes": 0, "different_bytes": 0, "differences": [], "unchecked": [{"bytes": SIZE, "why": "stored compressed"}]}
        for packed, is_right in ((SIZE, True), (SIZE - 4096, False)):
            answer = {**ANSWER, "special": {"compressed_bytes": packed, "stored_bytes": packed // 2}}
            check((judge.raw(CASE, file_row(answer=answer, raw=none)) is None) == is_right, "%d of %d bytes are compressed" % (packed, SIZE))
            check((judge.verified({**CASE, "raw": True}, skipped, answer) is None) == is_right, "%d of %d bytes are compressed" % (packed, SIZE))
        check(judge.verified({**CASE, "raw": True}, {**skipped, "unchecked": []}, {**ANSWER, "special": {"compressed_bytes": SIZE}}), "nothing compared without a reason passed")
    with stage.case("judge_holds_a_page_to_the_one_map_that_is_made"):
        known = evidence(layouts=[{"file": "/Alpha.mp4", "answer": ANSWER}])
        for asked, answer, is_right in ((1, ANSWER, True), (2, ANSWER, False), (1, {"error": "HTTP 503"}, False), (1, changed(ANSWER, ["extents", 0, "copies", 0, 0, "disk_offset"], 0), False)):
            check((judge.one_map(known, {"asked": asked, "pages": {"Alpha": answer}}) is None) == is_right, "asked %d times, told %s" % (asked, answer))
    with stage.case("judge_counts_reads_of_a_lost_member_s_stripes_as_the_file_s"):
        facts = {"md0": {"chunk_size": str(64 << 10), "members": {"rd0": {"device": "vda", "offset": "2048"}, "rd2": {"device": "vdc", "offset": "2048"}}}}
        part = {"exact": True, "extents": [{"offset": 0, "length_bytes": 64 << 10, "copies": [[{"disk": "vda", "disk_offset": MIB, "length_bytes": 64 << 10}]]}]}
        check(judge.in_a_row_of({"facts": facts}, part, ("vdc", MIB + 4096, MIB + 8192)), "the same row was refused")
        check(not judge.in_a_row_of({"facts": facts}, part, ("vdc", MIB + (64 << 10), MIB + (68 << 10))), "the next row passed")
    with stage.case("judge_holds_records_to_one_per_cent_of_each_disk"):
        events = [["vda", 0, 10 * MIB, "R", 1, "x", 0.0], ["vdb", 0, 6 * MIB, "R", 1, "x", 0.0], ["vda", 0, 3 * MIB, "R", 1, "md0_resync", 0.0]]
        good = stream_row({"vda": 10 * MIB + 50000, "vdb": 6 * MIB}, events)
        check(judge.record(CASE, evidence(), good)[0] is None, judge.record(CASE, evidence(), good)[0])
        check(judge.record(CASE, evidence(), stream_row({"vda": 10 * MIB + 200000, "vdb": 6 * MIB}, events))[0], "two per cent too much passed")
        check(judge.record(CASE, evidence(), stream_row({"vda": 16 * MIB}, events))[0], "the right sum on the wrong disk passed")
        check(judge.record(CASE, evidence(), stream_row({"vda": 10 * MIB, "vdb": 6 * MIB}, events, attribution="sampled_map"))[0], "a fallback that was not asked for passed")
    with stage.case("judge_holds_the_streams_of_a_film_to_what_was_read_of_its_places"):
        events = [["vda", MIB, MIB, "R", 1, "x", 0.0], ["vdb", 90 * MIB, 4 * MIB, "R", 1, "x", 0.0]]
        known = {"layouts": [{"file": "/Alpha.mp4", "answer": ANSWER}]}

        def row(first, second, events=events):
            viewers = [stream_row({"vda": first}, events)["viewers"][0], {**stream_row({"vdb": second}, events)["viewers"][0], "film": 1}]
            return {**stream_row({}, events), "viewers": viewers}
        check(judge.record(CASE, evidence(**known), row(MIB, 4 * MIB))[0] is None, judge.record(CASE, evidence(**known), row(MIB, 4 * MIB))[0])
        swapped = row(MIB, 4 * MIB)
        for viewer, film in zip(swapped["viewers"], (1, 0)):
            viewer["film"] = film
        check("the streams of the first film say" in (judge.record(CASE, evidence(**known), swapped)[0] or ""), "another film's bytes passed")
    with stage.case("judge_counts_what_zfs_reads_along_between_a_film_s_records_as_the_film_s"):
        spans = judge.Spans([(0, 44 << 10), (48 << 10, 92 << 10), (200 << 10, 244 << 10)])
        for fs, start, end, want in (("zfs", 0, 92 << 10, 92 << 10), ("ext4", 0, 92 << 10, 88 << 10), ("zfs", 48 << 10, 244 << 10, 88 << 10), ("zfs", 4 << 10, 8 << 10, 4 << 10), ("zfs", 300 << 10, 304 << 10, 0)):
            got = judge.of_film({"fs": fs}, spans, start, end)
            check(got == want, "%s: %d of the request %s are the film's, not %d" % (fs, got, (start, end), want))
    with stage.case("judge_takes_what_an_array_reads_where_it_is_synchronised_for_the_array_s"):
        events = [["vda", 90 * MIB, 10 * MIB, "R", 1, "md0_raid5", 0.0], ["vda", 5 * MIB, MIB, "R", 1, "md0_raid5", 0.0]]
        row = {**stream_row({"vda": 10 * MIB}, events), "own_work": [["vda", 4 * MIB, 8 * MIB]]}
        check(judge.record(CASE, evidence(), row)[0] is None, judge.record(CASE, evidence(), row)[0])
        check(judge.record(CASE, evidence(), {**row, "own_work": [["vda", 6 * MIB, 8 * MIB]]})[0], "a read outside of the resync passed")
        events[1][5] = "read-0 md0"
        check(judge.record(CASE, evidence(), {**row, "events": events})[0], "a reader's own read passed for the resync's")
    with stage.case("judge_lets_the_fallback_be_ten_per_cent_off_or_say_that_it_does_not_know"):
        events = [["vda", 0, 10 * MIB, "R", 1, "x", 0.0]]
        check(judge.record(CASE, evidence(), stream_row({"vda": 10 * MIB + 900000}, events, "fallback", "sampled_map"))[0] is None, "nine per cent were refused")
        check(judge.record(CASE, evidence(), stream_row({"vda": 12 * MIB}, events, "fallback", "sampled_map"))[0], "twenty per cent passed")
        unknown = stream_row({"vda": 10 * MIB}, events, "fallback", "none", "no privilege")
        check(judge.record(CASE, evidence(), unknown)[0] is None, judge.record(CASE, evidence(), unknown)[0])
        check(judge.record(CASE, evidence(), stream_row({"vda": 10 * MIB}, events, "fallback", "none"))[0], "no attribution and no reason passed")
    with stage.case("judge_lets_no_stream_from_over_the_network_claim_a_disk"):
        share, events = {**CASE, "share": True}, [["vda", 0, 10 * MIB, "R", 1, "nfsd", 0.0]]
        good = stream_row({}, events, attribution="none", why="it is on a network mount")
        check(judge.record(share, evidence(), good)[0] is None, judge.record(share, evidence(), good)[0])
        for wrong, what in ((stream_row({"vda": 10 * MIB}, events, why="x"), "a disk was claimed"), (stream_row({}, events, attribution="none"), "no reason was given"),
                            (stream_row({}, events, why="x"), "a trace was claimed"), (stream_row({}, [], attribution="none", why="x"), "nothing was read")):
            check(judge.record(share, evidence(), wrong)[0], "%s, and it passed" % what)
        check(judge.verified(share, {"error": "it is on a network mount"}, {}) is None, "the refusal was refused")
        check(judge.verified(share, {"compared_bytes": 5, "different_bytes": 0, "unchecked": []}, {}), "a comparison with disks that are not here passed")
    with stage.case("a_request_that_no_bio_explains_is_seen_and_one_that_bios_explain_is_not_seen_twice"):
        seen = trace.Unqueued()
        check(seen.issued("vda", 0, 8) == [(0, 8)], "a request without a bio was not seen")
        for first, last in ((100, 108), (108, 116), (200, 232)):
            seen.queued("vda", first, last)
        for first, last, want in ((100, 116, []), (208, 216, []), (200, 208, []), (212, 240, [(212, 216), (232, 240)]), (100, 108, [(100, 108)])):
            got = seen.issued("vda", first, last)
            check(got == want, "%s of a request at %s are without a bio, not %s" % (got, (first, last), want))
    with stage.case("recipes_are_named_once_and_the_stage_s_are_among_them"):
        names = [case.name for case in cases.all_cases()]
        check(len(names) == len(set(names)), "a name is there twice")
        check(set(cases.STAGE) <= set(names) and len(cases.STAGE) <= 6, "the stage boots at most six stacks: %s" % cases.STAGE)
