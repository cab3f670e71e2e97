import { describe, expect, it } from "vitest";
import type { IoRecord } from "../api/types";
import {
  areaPath,
  attributionWords,
  betterOf,
  compareRows,
  differences,
  diskNames,
  faultWords,
  indexAt,
  kib,
  lacks,
  linePath,
  meanRequest,
  plotData,
  ratesOfDisk,
  requestWords,
  rest,
  sources,
  timeSpan,
  together,
} from "./record";

const record: IoRecord = {
  session: "s",
  started: "2026-11-30T10:00:00Z",
  attribution: "block_trace",
  served_bytes: 30,
  read_bytes: 40,
  cached_bytes: 10,
  input_bytes: 0,
  input_cached_bytes: 0,
  unattributed_bytes: 0,
  disks: [
    { disk: "sdb", reads: 2, read_bytes: 30, share: 0.75 },
    { disk: "sda", reads: 1, read_bytes: 10, share: 0.25 },
  ],
  seeks: [{ at_s: 9, from_byte: 1, to_byte: 2, disks_before: ["sda"], disks_after: ["sdc"] }],
  stalls: [],
  faults: [],
  attribution_spans: [],
  series: {
    interval_ms: 500,
    t_s: [0, 0.5, 1],
    disks: { sda: { read_bytes: [1e6, 0, 3e6], reads: [1, 0, 1] }, sdb: { read_bytes: [2e6], reads: [1] } },
  },
};

describe("record", () => {
  it("names every disk once, also one that only a jump mentions", () => {
    expect(diskNames(record)).toEqual(["sda", "sdb", "sdc"]);
  });

  it("turns bytes an interval into bytes a second and pads what is missing", () => {
    expect(ratesOfDisk(record.series, "sda")).toEqual([2e6, 0, 6e6]);
    expect(ratesOfDisk(record.series, "sdb")).toEqual([4e6, 0, 0]);
    expect(ratesOfDisk(record.series, "sdz")).toEqual([0, 0, 0]);
  });

  it("plots equal columns and keeps the mean when it thins them", () => {
    const all = plotData(record);
    expect(all.rows.map((r) => r.length)).toEqual([3, 3, 3, 3]);
    expect(all.peak).toBe(6);
    const thin = plotData(record, 1);
    expect(thin.rows[0]).toEqual([0]);
    expect(thin.rows[1]?.[0]).toBeCloseTo(8 / 3);
  });

  it("plots nothing for a record without a series", () => {
    const bare = { ...record, series: { interval_ms: 1000, t_s: [], disks: {} } };
    expect(plotData(bare).rows[0]).toEqual([]);
    expect(areaPath([], [], { from: 0, to: 1 }, 1, 100, 10)).toBe("");
  });

  it("shares what was read among disks, memory and unattributed", () => {
    expect(sources(record).map((s) => s.share)).toEqual([0.8, 0, 0, 0.2, 0]);
    expect(sources({ ...record, cached_bytes: 0, input_bytes: 50, input_cached_bytes: 10 }).map((s) => s.share)).toEqual([0.8, 0, 0, 0.2, 0]);
    const empty = { ...record, read_bytes: 0, cached_bytes: 0 };
    expect(sources(empty).every((s) => s.share === 0)).toBe(true);
  });

  it("counts each byte once, and says what stands between the parts and what was sent", () => {
    const part = { ...record, method: "direct_play" as const, read_bytes: 10, unattributed_bytes: 4, cached_bytes: 3, served_bytes: 11, input_bytes: 0 };
    const of = (name: string) => sources(part).find((s) => s.name === name)?.bytes;
    expect([of("disks"), of("unattributed"), of("memory")]).toEqual([6, 4, 3]);
    expect(rest(part)).toEqual({ ahead: 2, again: 0 });
    expect(rest({ ...part, served_bytes: 15 })).toEqual({ ahead: 0, again: 2 });
    expect(rest({ ...part, input_bytes: 10 })).toBeNull();
    expect(rest({ ...part, method: "transcode" })).toBeNull();
  });

  it("covers marks beyond the series and is never empty", () => {
    expect(timeSpan(record, false)).toEqual({ from: 0, to: 9 });
    expect(timeSpan({ ...record, seeks: [] }, true).to).toBe(30);
  });

  it("tells apart what was read to make up lost bytes, and metadata", () => {
    const hurt = { ...record, disks: [{ disk: "sda", reads: 4, read_bytes: 8, parity_bytes: 2, reconstruct_bytes: 1, metadata_bytes: 5, share: 1 }], read_bytes: 8, cached_bytes: 0 };
    expect(Object.fromEntries(sources(hurt).map((s) => [s.name, s.bytes]))).toEqual({ disks: 5, make_up: 3, metadata: 5, memory: 0, unattributed: 0 });
    expect(meanRequest(hurt)).toBe(2);
  });

  it("says whether playback went on after a disk failed", () => {
    const fault = { at_s: 0.5, disk: "sdb", what: "it does not answer" };
    expect(faultWords(record, fault)).toBe("sdb: it does not answer. Playback went on from the other disks.");
    expect(faultWords({ ...record, ended: "now" }, { ...fault, at_s: 1 })).toBe("sdb: it does not answer. Nothing was read after it.");
  });

  it("states the measured error where it is known", () => {
    expect(attributionWords("sampled_map", undefined, 0.04).text).toContain("within 4.0 % of the truth");
    expect(attributionWords("sampled_map", undefined, 0).text).toContain("the same");
  });

  it("compares two sessions, and says which is better only where it is", () => {
    const rows = compareRows(record, { ...record, stalls: [{ at_s: 1, duration_s: 1, cause: "x" }] });
    expect(betterOf(rows.find((r) => r.label === "Stalls")!)).toBe("a");
    expect(betterOf(rows.find((r) => r.label === "Sent to the player")!)).toBe(null);
    expect(betterOf(rows.find((r) => r.label === "Columns used")!)).toBe(null);
  });

  it("says what was different between two sessions, in sentences", () => {
    expect(differences(record, record)).toEqual([]);
    const striping = (columns: number, columns_used: number, copies_used: number) => ({ columns, columns_used, evenness: 1, verdict: "", level: "raid10", copies: 2, copies_used });
    const one = { ...record, striping: striping(2, 2, 1) };
    const two: IoRecord = {
      ...record,
      striping: striping(2, 1, 2),
      disks: [{ disk: "sdc", reads: 40, read_bytes: 40, share: 1 }],
      stalls: [{ at_s: 1, duration_s: 2.25, cause: "slow" }],
      cached_bytes: 29,
      attribution: "sampled_map",
    };
    const words = differences(one, two);
    expect(words[0]).toBe("The first used 2 of 2 columns, the second 1 of 2.");
    expect(words[1]).toBe("The first read from sda and sdb, the second from sdc.");
    expect(words[2]).toBe("The second was served by 2 copies, the other by 1 copy.");
    expect(words[3]).toBe("The second waited 2.3 s for its disks, the other not at all.");
    expect(words.some((w) => w.includes("came from memory"))).toBe(true);
    expect(words.some((w) => w.includes("mean request"))).toBe(true);
    expect(words[words.length - 1]).toContain("not known in the same way");
    const none = { ...record, disks: [], read_bytes: 0 };
    expect(differences(none, record)[0]).toBe("The first needed no disk; the second read from sda and sdb.");
    // The other way round it says the same of the other.
    expect(differences(two, one)[3]).toBe("The first waited 2.3 s for its disks, the other not at all.");
  });

  it("sets requests against chunks in words", () => {
    expect(requestWords(undefined, 65_536, 2)).toBe("");
    expect(requestWords(16_384, 65_536, 2)).toBe("less than a chunk of 64 KiB: it keeps one column busy");
    expect(requestWords(65_536, 65_536, 1)).toBe("one chunk of 64 KiB");
    expect(requestWords(524_288, 65_536, 2)).toBe("8.0 chunks of 64 KiB, each column at work");
    expect(requestWords(524_288, undefined, 1)).toBe("nothing is striped");
    expect([512, 1536, 1 << 20, 2.5 * (1 << 20)].map(kib)).toEqual(["512 B", "1.5 KiB", "1 MiB", "2.5 MiB"]);
  });

  it("says what an older version did not keep, and nothing of a new one", () => {
    const old = { ...record, striping: { columns: 2, columns_used: 1, evenness: 1, verdict: "x" } };
    expect(lacks(old)).toContain("did not keep which copy served, and request against chunk, nor what of the file was read when");
    expect(lacks({ ...old, striping: { ...old.striping, level: "raid0" } })).toBe("");
    expect(lacks(record)).not.toContain("which copy");
  });

  it("puts streams that began at different times on one axis", () => {
    const later = { ...record, started: "2026-11-30T10:00:20Z", ended: "x" };
    expect(together([later, { ...record, ended: "x" }])).toEqual({ offsets: [20, 0], span: { from: 0, to: 29 } });
    expect(together([{ ...record, started: "never", ended: "x" }]).offsets).toEqual([0]);
  });

  it("finds the interval of a moment, and draws a line through all of them", () => {
    expect([-1, 0, 0.7, 1.49, 1.5].map((s) => indexAt(record.series, s))).toEqual([-1, 0, 1, 2, -1]);
    expect(indexAt(record.series, null)).toBe(-1);
    expect(linePath([0, 1], [0, 5], { from: 0, to: 1 }, 10, 100, 10)).toBe("M0.0 10.0L100.0 5.0");
  });

  it("says how sure the attribution is, and why not surer", () => {
    expect(attributionWords("block_trace").title).toBe("Exact");
    expect(attributionWords("sampled_map", "no helper runs").text).toMatch(/: no helper runs\.$/);
    expect(attributionWords("none", "tmpfs has no disks").text).toBe("Tmpfs has no disks.");
  });
});
