import { describe, expect, it } from "vitest";
import { pgs } from "./pgs";
import { changeAt } from "./picture";

const u16 = (n: number) => [n >> 8, n & 255];
const u32 = (n: number) => [...u16(n >>> 16), ...u16(n & 0xffff)];
const segment = (atS: number, type: number, body: number[]) => [0x50, 0x47, ...u32(atS * 90_000), ...u32(0), type, ...u16(body.length), ...body];
const composition = (atS: number, state: number, objects: number[][]) =>
  segment(atS, 0x16, [...u16(640), ...u16(360), 0x10, ...u16(0), state, 0, 0, objects.length, ...objects.flat()]);
const placed = (id: number, x: number, y: number) => [...u16(id), 0, 0, ...u16(x), ...u16(y)];
/** White is 1, black 2, nothing 3. */
const palette = (atS: number) => segment(atS, 0x14, [0, 0, 1, 235, 128, 128, 255, 2, 16, 128, 128, 255]);
const end = (atS: number) => segment(atS, 0x80, []);
/** Four wide, three high: two white and two of nothing, a line of black, a line that ends early. */
const RUNS = [1, 1, 3, 3, 0, 0, 0, 0x84, 2, 0, 0, 1, 0, 0];
const object = (atS: number, flags: number, body: number[]) => segment(atS, 0x15, [...u16(7), 0, flags, ...body]);
const head = [0, 0, 0, ...u16(4), ...u16(3)];

const film = [
  ...composition(1, 0x80, [placed(7, 10, 300)]), ...palette(1), ...object(1, 0xc0, [...head, ...RUNS]), ...end(1),
  ...composition(3, 0, []), ...end(3),
  ...composition(5, 0, [placed(7, 20, 30)]), ...end(5),
];

describe("Blu-ray subtitles", () => {
  const track = pgs(new Uint8Array(film));
  it("have the times of their compositions", () => {
    expect(track.times).toEqual([1, 3, 5]);
    expect([0.9, 1, 2.9, 3, 99].map((at) => changeAt(track.times, at))).toEqual([-1, 0, 0, 1, 2]);
  });
  it("are drawn by their runs and their palette", () => {
    const screen = track.screen(0);
    expect([screen?.width, screen?.height]).toEqual([640, 360]);
    const one = screen?.pictures[0];
    expect([one?.x, one?.y, one?.width, one?.height]).toEqual([10, 300, 4, 3]);
    const pixel = (n: number) => [...(one?.rgba.subarray(4 * n, 4 * n + 4) ?? [])];
    expect([pixel(0), pixel(2), pixel(4), pixel(7), pixel(8), pixel(9)]).toEqual([
      [255, 255, 255, 255], [0, 0, 0, 0], [0, 0, 0, 255], [0, 0, 0, 255], [255, 255, 255, 255], [0, 0, 0, 0],
    ]);
  });
  it("clear the screen, and show again what their epoch holds", () => {
    expect(track.screen(1)?.pictures).toEqual([]);
    expect(track.screen(2)?.pictures[0]).toMatchObject({ x: 20, y: 30, width: 4 });
  });
  it("put together an object in pieces", () => {
    const torn = [
      ...composition(1, 0x80, [placed(7, 10, 300)]), ...palette(1),
      ...object(1, 0x80, [...head, ...RUNS.slice(0, 7)]), ...object(1, 0x40, RUNS.slice(7)), ...end(1),
    ];
    expect(pgs(new Uint8Array(torn)).screen(0)?.pictures[0]?.rgba).toEqual(track.screen(0)?.pictures[0]?.rgba);
  });
  it("make no room for a picture larger than any screen", () => {
    const huge = [...composition(1, 0x80, [placed(7, 0, 0)]), ...object(1, 0xc0, [0, 0, 0, ...u16(65_535), ...u16(65_535), 1])];
    expect(pgs(new Uint8Array(huge)).screen(0)?.pictures).toEqual([]);
  });
  it("bear every way to be cut off or damaged", () => {
    for (let length = 0; length < film.length; length += 1) {
      const cut = pgs(new Uint8Array(film.slice(0, length)));
      for (let n = 0; n < cut.times.length; n += 1) cut.screen(n);
    }
    for (let at = 0; at < film.length; at += 1) {
      for (const value of [0, 0x7f, 0xff]) {
        const bad = pgs(new Uint8Array(film.with(at, value)));
        for (let n = 0; n < bad.times.length; n += 1) bad.screen(n);
      }
    }
  });
});
