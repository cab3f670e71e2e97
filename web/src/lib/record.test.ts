import { describe, expect, it } from "vitest";
import type { IoRecord } from "../api/types";
import {
  areaPath,
  attributionWords,
  betterOf,
  compareRows,
  diskNames,
  faultWords,
  meanRequest,
  plotData,
  ratesOfDisk,
  rest,
  sources,
  timeSpan,
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

  it("says how sure the attribution is, and why not surer", () => {
    expect(attributionWords("block_trace").title).toBe("Exact");
    expect(attributionWords("sampled_map", "no helper runs").text).toMatch(/: no helper runs\.$/);
    expect(attributionWords("none", "tmpfs has no disks").text).toBe("Tmpfs has no disks.");
  });
});
