import { describe, expect, it } from "vitest";
import { vobsub } from "./vobsub";

const u16 = (n: number) => [n >> 8, n & 255];
const u32 = (n: number) => [...u16(n >>> 16), ...u16(n & 0xffff)];
const INDEX = "size: 640x360\npalette: 000000, ffffff, ff0000, 0000ff\n";
/** A line of 4: one white, three red. Another: all of it nothing, by a run to its end. */
const TOP = [0x5e];
const BOTTOM = [0x00, 0x00];

/** Two lines of four at (16, 300), shown 0 to about 2 s after its time. */
function unit(): number[] {
  const pixels = [...TOP, ...BOTTOM];
  const first = 4 + pixels.length;
  const show = [0x01, 0x03, 0x32, 0x10, 0x04, 0xff, 0xf0, 0x05, 0x01, 0x00, 0x13, 0x12, 0xc1, 0x2d, 0x06, ...u16(4), ...u16(4 + TOP.length), 0xff];
  const second = first + 4 + show.length;
  const blocks = [...u16(0), ...u16(second), ...show, ...u16(176), ...u16(second), 0x02, 0xff];
  return [...u16(4 + pixels.length + blocks.length), ...u16(first), ...pixels, ...blocks];
}

const text = [...new TextEncoder().encode(INDEX)];
const at = (seconds: number, body: number[]) => [...u32(seconds * 90_000), ...u32(body.length), ...body];
const film = [...u32(text.length), ...text, ...at(1, unit()), ...at(2, unit()), ...at(9, unit())];

describe("DVD subtitles", () => {
  const track = vobsub(new Uint8Array(film));
  it("come and go by their commands, and the next takes the last away", () => {
    const stop = (176 * 1024) / 90_000;
    expect(track.times).toEqual([1, 2, 2 + stop, 9, 9 + stop]);
    expect(track.screen(2)?.pictures).toEqual([]);
  });
  it("are drawn from both fields with the palette of the index", () => {
    const screen = track.screen(0);
    expect([screen?.width, screen?.height]).toEqual([640, 360]);
    const one = screen?.pictures[0];
    expect([one?.x, one?.y, one?.width, one?.height]).toEqual([16, 300, 4, 2]);
    const pixel = (n: number) => [...(one?.rgba.subarray(4 * n, 4 * n + 4) ?? [])];
    expect([pixel(0), pixel(1), pixel(3), pixel(4), pixel(7)]).toEqual([
      [255, 255, 255, 255], [255, 0, 0, 255], [255, 0, 0, 255], [0, 0, 0, 0], [0, 0, 0, 0],
    ]);
  });
  it("have greys and a screen of PAL without an index", () => {
    const bare = vobsub(new Uint8Array([...u32(0), ...at(1, unit())]));
    expect(bare.screen(0)).toMatchObject({ width: 720, height: 576 });
    expect([...(bare.screen(0)?.pictures[0]?.rgba.subarray(0, 4) ?? [])]).toEqual([17, 17, 17, 255]);
  });
  it("bear every way to be cut off or damaged", () => {
    for (let length = 0; length < film.length; length += 1) {
      const cut = vobsub(new Uint8Array(film.slice(0, length)));
      for (let n = 0; n < cut.times.length; n += 1) cut.screen(n);
    }
    for (let byte = 0; byte < film.length; byte += 1) {
      for (const value of [0, 0x7f, 0xff]) {
        const bad = vobsub(new Uint8Array(film.with(byte, value)));
        for (let n = 0; n < bad.times.length; n += 1) bad.screen(n);
      }
    }
  });
});
