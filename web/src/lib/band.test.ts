import { describe, expect, it } from "vitest";
import type { Layout } from "../api/types";
import { binsOf, layoutSentence, noPieces, piecesOf, placesAt, windowOf } from "./band";

const piece = (disk: string, disk_offset: number, length_bytes: number) => ({ disk, disk_offset, length_bytes });
const layout: Layout = {
  file: "f",
  size_bytes: 100,
  exact: true,
  extents: [
    { offset: 0, length_bytes: 40, copies: [[piece("sda", 1000, 20), piece("sdb", 2000, 20)], [piece("sdc", 0, 40)]] },
    { offset: 60, length_bytes: 40, copies: [[piece("sda", 5000, 40)], [piece("sdd", 0, 40)]] },
  ],
  per_disk: ["sda", "sdb", "sdc", "sdd"].map((disk) => ({ disk, bytes: 40, share: 0.25 })),
  fragments: 2,
  evenness: 1,
  candidates: [],
  special: {},
};

describe("band", () => {
  const pieces = piecesOf(layout);

  it("keeps every byte of every copy, and leaves a hole empty", () => {
    const bins = binsOf(pieces, 0, 100, 10);
    const [first, second] = bins.bytes;
    expect(first?.reduce((a, b) => a + b, 0)).toBe(80);
    expect(second?.reduce((a, b) => a + b, 0)).toBe(80);
    // 40 to 60 is a hole.
    expect([...(first ?? [])].slice(4 * 4, 6 * 4)).toEqual(Array(8).fill(0));
    expect([...bins.starts]).toEqual([1, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
  });

  it("splits a bin between the disks that share it", () => {
    const bins = binsOf(pieces, 10, 30, 1);
    expect([...(bins.bytes[0] ?? [])]).toEqual([10, 10, 0, 0]);
  });

  it("finds the places of a byte, with the column of each", () => {
    expect(placesAt(pieces, 25)).toEqual([
      { copy: 0, disk: "sdb", disk_offset: 2005, run: 1, column: 1, columns: 2 },
      { copy: 1, disk: "sdc", disk_offset: 25, run: 1, column: 0, columns: 1 },
    ]);
    expect(placesAt(pieces, 50)).toEqual([]);
  });

  it("knows the column of every chunk, also where a run is shorter than a stripe or another set of disks carries it", () => {
    const long = (first: string, second: string) => [piece(first, 0, 10), piece(second, 0, 10), piece(first, 10, 10)];
    const striped: Layout = {
      ...layout,
      extents: [
        { offset: 0, length_bytes: 30, copies: [long("sdb", "sda")] },
        { offset: 30, length_bytes: 5, copies: [[piece("sdb", 90, 5)]] },
        { offset: 40, length_bytes: 30, copies: [long("sdc", "sdd")] },
      ],
    };
    const [lane] = piecesOf(striped).lanes;
    expect(lane?.columns).toBe(2);
    expect([...(lane?.column ?? [])]).toEqual([1, 0, 1, 1, 0, 1, 0]);
    // One disk after the other is one column, however many disks there are.
    expect(piecesOf(layout).lanes[1]?.columns).toBe(1);
  });

  it("shows one chunk after the other as steps, and all columns where many share a bin", () => {
    const striped: Layout = { ...layout, extents: [{ offset: 0, length_bytes: 40, copies: [[piece("sda", 0, 10), piece("sdb", 0, 10), piece("sda", 10, 10), piece("sdb", 10, 10)]] }] };
    const many = piecesOf(striped);
    // 0 is nothing, 1 is sda, 2 is sdb.
    expect([...(binsOf(many, 0, 40, 4).columns[0] ?? [])]).toEqual([1, 0, 0, 2, 1, 0, 0, 2]);
    expect([...(binsOf(many, 0, 40, 1).columns[0] ?? [])]).toEqual([1, 2]);
    expect(binsOf(noPieces(9), 0, 9, 3).columns).toEqual([]);
  });

  it("makes columns of 50,000 runs in a moment", () => {
    const runs = 50_000;
    const long: Layout = {
      ...layout,
      size_bytes: runs * 1_200_000,
      extents: Array.from({ length: runs }, (_, i) => ({ offset: i * 1_200_000, length_bytes: 1_200_000, copies: [[piece(i % 2 ? "sda" : "sdb", i, 1_200_000)]] })),
      fragments: runs,
    };
    const many = piecesOf(long);
    const bins = binsOf(many, 0, many.size_bytes, 1200);
    expect(bins.bytes[0]?.reduce((a, b) => a + b, 0)).toBeCloseTo(long.size_bytes, 0);
    expect(bins.starts.reduce((a, b) => a + b, 0)).toBe(runs);
  });

  it("stays inside the file when it is moved or zoomed", () => {
    expect(windowOf(100, -20, 30, 10)).toEqual({ from: 0, to: 50 });
    expect(windowOf(100, 90, 140, 10)).toEqual({ from: 50, to: 100 });
    expect(windowOf(100, 20, 21, 10)).toEqual({ from: 20, to: 30 });
    expect(windowOf(5, 0, 5, 10)).toEqual({ from: 0, to: 5 });
  });

  it("says where the file lies in a sentence", () => {
    expect(layoutSentence(layout)).toBe("It lies on 4 disks, in 2 pieces, spread evenly; each byte has 2 copies.");
    expect(layoutSentence({ ...layout, extents: [], per_disk: [{ disk: "sda", bytes: 9, share: 1 }, { disk: "sdb", bytes: 0, share: 0 }], fragments: 1 })).toBe("All of it lies on sda, in one piece.");
  });
});
