import { describe, expect, it } from "vitest";
import { pieces, twins } from "./overlap";

const wave = (n: number, f: (i: number) => number) => Array.from({ length: n }, (_, i) => f(i));

describe("lines that lie on each other", () => {
  it("are found, each with its place, and others stay alone", () => {
    const a = wave(40, (i) => 50 + i);
    const other = wave(40, (i) => 90 - i);
    expect(twins([a, other, a.map((v) => v + 0.3), a.map((v) => v - 0.4)])).toEqual([
      { of: 3, at: 0 },
      { of: 1, at: 0 },
      { of: 3, at: 1 },
      { of: 3, at: 2 },
    ]);
  });

  it("are judged by what can be seen: by the height of the chart, and where one of them rises", () => {
    const idle = wave(100, () => 0);
    expect(twins([idle, [...idle]])).toEqual([{ of: 1, at: 0 }, { of: 1, at: 0 }]);
    const once = wave(100, (i) => (i < 3 ? 100 : 0));
    const late = wave(100, (i) => (i > 96 ? 100 : 0));
    expect(twins([once, late]).every((t) => t.of === 1)).toBe(true);
    const small = wave(20, () => 1);
    expect(twins([small, wave(20, () => 1.5)])[0]?.of).toBe(1);
    expect(twins([small, wave(20, () => 1.5)], 100)[0]?.of).toBe(2);
    expect(twins([])).toEqual([]);
  });

  it("fill each other's gaps, so that every one is seen", () => {
    for (const of of [2, 3, 4]) {
      const stroked = Array.from({ length: of }, (_, at) => pieces({ of, at }));
      const period = stroked[0]?.reduce((a, b) => a + b, 0) ?? 0;
      // Each place of a period is inside exactly one line's piece.
      for (let x = 0.5; x < period; x += 1) {
        const inked = stroked.filter((dash) => {
          let end = 0;
          const k = dash.findIndex((length) => x < (end += length));
          return k % 2 === 0;
        });
        expect(inked.length).toBe(1);
      }
    }
    expect(pieces({ of: 1, at: 0 })).toEqual([]);
    expect(pieces(undefined)).toEqual([]);
  });
});
