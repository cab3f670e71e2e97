import { describe, expect, it } from "vitest";
import type { IoEvent } from "../api/types";
import { lately, matrixOf } from "./matrix";

const second = (a: number, b: number, all: number): IoEvent => ({
  sessions: { s1: { disks: { sda: a, sdb: 0 } }, s2: { disks: { sda: b } } },
  disks: [{ disk: "sda", read_bytes_per_s: all }],
});

describe("matrix", () => {
  it("has a cell for each stream and disk that was read, and what is left of the disk's work", () => {
    const m = matrixOf([second(1, 2, 10), second(3, 0, 2)], ["s1", "s2"]);
    expect(m.disks).toEqual(["sda"]);
    expect(m.streams).toEqual([
      { session: "s1", cells: [[1, 3]] },
      { session: "s2", cells: [[2, 0]] },
    ]);
    // The counters and the trace are read at moments that differ a little: never less than nothing.
    expect(m.others).toEqual([[7, 0]]);
  });

  it("leaves out sessions that are over, and is empty without any", () => {
    expect(matrixOf([second(1, 2, 3)], ["s1"]).streams).toHaveLength(1);
    expect(matrixOf([], []).disks).toEqual([]);
    expect(lately([], 5)).toBe(0);
    expect(lately([9, 1, 3], 2)).toBe(2);
  });
});
