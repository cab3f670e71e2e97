import { describe, expect, it } from "vitest";
import { blockLines, blockSize, cellText, columnsOf, copyLine, isCurve, cornerTable, diskLines, ticks, volumeText, wrapped } from "./experiment";

describe("experiments", () => {
  it("lays corners out by pattern and depth, with the figure that each is about", () => {
    const { depths, lines } = cornerTable([
      { pattern: "random_read_4k", depth: 32, figure: "iops", iops: 1560, bytes_per_s: 6.4e6 },
      { pattern: "random_read_4k", depth: 1, figure: "iops", iops: 76.4, p50_us: 12000, p99_us: 22000 },
      { pattern: "sequential_read_512k", depth: 1, figure: "bytes_per_s", iops: 300, bytes_per_s: 157_300_000 },
      { depth: 1 },
    ]);
    expect(depths).toEqual([1, 32]);
    expect(lines.map((l) => l.pattern)).toEqual(["random_read_4k", "sequential_read_512k"]);
    expect(lines[0]?.cells.get(1)).toMatchObject({ text: "76.4", unit: "IOPS" });
    expect(lines[0]?.cells.get(32)?.text).toBe("1,560");
    expect(lines[1]?.cells.get(1)).toMatchObject({ text: "157", unit: "MB/s" });
  });

  it("draws a sweep as a line a direction, by the size's power of two", () => {
    const lines = blockLines([
      { op: "read", block_bytes: 65536, bytes_per_s: 2e6 },
      { op: "read", block_bytes: 4096, bytes_per_s: 1e6 },
    ]);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.points).toEqual([{ x: 12, y: 1 }, { x: 16, y: 2 }]);
  });

  it("draws a copy, and of its disks what moved at all", () => {
    const series = { t_s: [0.2, 0.4], bytes_per_s: [1e6, 2e6], disks: { sda: { read_bytes_per_s: [0, 0], write_bytes_per_s: [1e6, 3e6] }, sdb: { read_bytes_per_s: [1e6, 0], write_bytes_per_s: [0, 0] } } };
    expect(copyLine(series)[0]?.points[1]).toEqual({ x: 0.4, y: 2 });
    expect([isCurve(series), isCurve({ ...series, t_s: [0.2] }), isCurve({ ...series, t_s: [] }), isCurve(undefined)]).toEqual([true, false, false, false]);
    expect(copyLine(undefined)).toEqual([]);
    expect(diskLines(series, new Map()).map((l) => [l.label, l.dashed])).toEqual([["sda writes", false], ["sdb reads", true]]);
  });

  it("marks an axis by round steps that reach the top", () => {
    expect(ticks(157)).toEqual([0, 50, 100, 150, 200]);
    expect(ticks(1)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(ticks(0)).toEqual([0, 1]);
    expect(ticks(NaN)).toEqual([0, 1]);
  });

  it("writes cells in the unit that their name carries", () => {
    expect(cellText("bytes_per_s", 157_300_000)).toBe("157 MB/s");
    expect(cellText("block_bytes", 4096)).toBe("4 KiB");
    expect(cellText("p50_us", 12000)).toBe("12 ms");
    expect(cellText("direct", true)).toBe("yes");
    expect(cellText("x", null)).toBe("–");
    expect(blockSize(16 << 20)).toBe("16 MiB");
    expect(columnsOf([{ a: 1 }, { b: 1, a: 2 }])).toEqual(["a", "b"]);
    expect(volumeText({ filesystem: "ext4", kind: "md", level: "raid10", layout: "mirror", columns: 2, copies: 2, disks: [] })).toBe("ext4 on md raid10, 2 columns, 2 copies");
  });
});

it("words stay whole in lines that are as long as there is room", () => {
  expect(wrapped("from 214 MB/s to 88 MB/s after 2.62 GB", 100)).toEqual(["from 214 MB/s to 88 MB/s after 2.62 GB"]);
  expect(wrapped("from 214 MB/s to 88 MB/s", 14)).toEqual(["from 214 MB/s", "to 88 MB/s"]);
  expect(wrapped("unbreakable", 3)).toEqual(["unbreakable"]);
});
