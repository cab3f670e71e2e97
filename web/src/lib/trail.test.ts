import { describe, expect, it } from "vitest";
import type { IoRecord, IoTrail, Layout, TrailRun } from "../api/types";
import { binsOf, piecesOf } from "./band";
import { covered, diskAt, marksOf, originWords, placeAt, readBins, runNear, timeSteps, trailSentence } from "./trail";

const run = (from_s: number, from_byte: number, to_byte: number, more: Partial<TrailRun> = {}): TrailRun => ({ from_s, to_s: from_s, from_byte, to_byte, read_bytes: to_byte - from_byte, ...more });
const trail: IoTrail = { file_bytes: 1000, interval_ms: 1000, gap_bytes: 0, runs: [run(0, 0, 100, { to_s: 1, copy: 0 }), run(2, 100, 200, { copy: 1 }), run(5, 800, 900, { memory: true })] };
const box = { width: 100, height: 50, from: 0, to: 1000, span: { from: 0, to: 10 } };

describe("trail", () => {
  it("puts the file to the right and time down", () => {
    expect(marksOf(trail, box).map((m) => [m.x, m.y, m.width, m.height])).toEqual([
      [0, 0, 10, 5],
      [10, 10, 10, 2],
      [80, 25, 10, 2],
    ]);
  });

  it("leaves out what is not seen and cuts what is seen in part", () => {
    const seen = marksOf(trail, { ...box, from: 50, to: 150 });
    expect(seen.map((m) => [m.x, m.width])).toEqual([
      [0, 50],
      [50, 50],
    ]);
  });

  it("shows what lasted a moment at the end of the time, and a sliver of a large file", () => {
    const [mark] = marksOf({ ...trail, runs: [run(10, 999, 1000)] }, box);
    expect([mark?.x, mark?.y, mark?.width, mark?.height]).toEqual([98, 48, 2, 2]);
  });

  it("draws a mark as the disks that hold those bytes of that copy, in turns where several share a point", () => {
    const piece = (disk: string, length_bytes: number) => ({ disk, disk_offset: 0, length_bytes });
    const layout = {
      file: "f",
      size_bytes: 40,
      exact: true,
      extents: [{ offset: 0, length_bytes: 40, copies: [[piece("sda", 20), piece("sdb", 20)], [piece("sdc", 40)]] }],
      per_disk: [],
      fragments: 1,
      evenness: 1,
      candidates: [],
      special: {},
    } as Layout;
    const pieces = piecesOf(layout);
    const wide = binsOf(pieces, 0, 40, 2);
    expect([diskAt(wide, 0, 0), diskAt(wide, 0, 1), diskAt(wide, 1, 0)]).toEqual([0, 1, 2]);
    expect([diskAt(wide, undefined, 0), diskAt(wide, 7, 0), diskAt(wide, 0, 9)]).toEqual([-1, -1, -1]);
    const mixed = { ...wide, count: 100, bytes: [new Float64Array(100 * 3).map((_, i) => (i % 3 < 2 ? 1 : 0))] };
    const seen = Array.from({ length: 100 }, (_, i) => diskAt(mixed, 0, i));
    expect(seen.filter((d) => d === 0).length).toBeGreaterThan(40);
    expect(seen.filter((d) => d === 1).length).toBeGreaterThan(40);
  });

  it("lights what was read of each copy, half where the copy is not known, nothing for memory", () => {
    const all = { ...trail, runs: [...trail.runs, run(8, 500, 600)] };
    const bins = (copy: number, copies = 2) => [...readBins(all, copy, copies, 0, 1000, 10)];
    expect(bins(0)).toEqual([1, 0, 0, 0, 0, 0.5, 0, 0, 0, 0]);
    expect(bins(1)).toEqual([0, 1, 0, 0, 0, 0.5, 0, 0, 0, 0]);
    expect(bins(0, 1)).toEqual([1, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
    expect([...readBins(all, 0, 2, 50, 150, 2)]).toEqual([1, 0]);
  });

  it("steps through time as a clock does", () => {
    expect(timeSteps({ from: 0, to: 40 }, 5)).toEqual([0, 10, 20, 30]);
    expect(timeSteps({ from: 3, to: 7 }, 5)).toEqual([3, 4, 5, 6]);
    expect(timeSteps({ from: 0, to: 100_000 }, 4).length).toBeLessThanOrEqual(5);
  });

  it("finds the run under the pointer, the nearest one", () => {
    const marks = marksOf(trail, box);
    expect(runNear(marks, 82, 27)).toBe(trail.runs[2]);
    expect(runNear(marks, 12, 15)).toBe(trail.runs[1]);
    expect(runNear(marks, 50, 45)).toBeNull();
  });

  it("knows where the stream was at a moment", () => {
    expect(placeAt(trail, 0.5)).toBe(50);
    expect(placeAt(trail, 4)).toBe(200);
    expect(placeAt(trail, 99)).toBe(900);
    expect(placeAt(trail, -1)).toBeNull();
  });

  it("counts what was read twice once, and says it", () => {
    const twice = { ...trail, runs: [...trail.runs, run(7, 50, 150)] };
    expect(covered(twice)).toBeCloseTo(0.3);
    const record = { trail: twice, seeks: [{}, {}] } as unknown as IoRecord;
    expect(trailSentence(record)).toBe("30 % of the file was read, with 2 jumps.");
    expect(trailSentence({ seeks: [] } as unknown as IoRecord)).toBe("");
  });

  it("says where bytes came from, and what is not known", () => {
    expect(originWords(run(0, 0, 1, { copy: 1 }), 2)).toBe("of copy 2");
    expect(originWords(run(0, 0, 1), 2)).toContain("not known of which copy");
    expect(originWords(run(0, 0, 1), 1)).toBe("off disks");
    expect(originWords(run(0, 0, 1, { memory: true }), 2)).toBe("from memory");
  });
});
