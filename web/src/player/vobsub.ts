/**
 * DVD subtitles: which picture is on screen when, and its pixels. Pure: bytes in, pixels out.
 *
 * The server sends the index text (palette and screen) and the sub-picture units with their times (transcode/client/original.rs).
 * A unit is two fields of runs of two-bit colours, and commands that say which of the palette's sixteen these are, where the
 * picture goes, when it comes and goes. Bytes come from strangers: every offset is held against what is there.
 */

import { MAX_PIXELS, type PictureTrack, type Screen } from "./picture";

/** Units of time of a command: 1024 ticks of 90 kHz. */
const DELAY_S = 1024 / 90_000;
/** A unit without a command to stop stays for so long, as players have it. */
const LONGEST_S = 30;

interface Change {
  atS: number;
  /** The unit that is shown from then on; none clears the screen. */
  unit?: Uint8Array;
}

interface Commands {
  startS: number;
  stopS?: number;
  colours: number[];
  alphas: number[];
  area: { x1: number; x2: number; y1: number; y2: number };
  fields: [top: number, bottom: number];
}

/** Reads a whole file; what is damaged in it is left out. */
export function vobsub(data: Uint8Array): PictureTrack {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const indexLength = data.byteLength >= 4 ? view.getUint32(0) : 0;
  const textEnd = Math.min(data.byteLength, 4 + indexLength);
  const { palette, width, height } = index(new TextDecoder().decode(data.subarray(4, textEnd)));
  const changes: Change[] = [];
  for (let at = textEnd; at + 8 <= data.byteLength; ) {
    const ptsS = view.getUint32(at) / 90_000;
    const end = at + 8 + view.getUint32(at + 4);
    if (end > data.byteLength) break;
    const unit = data.subarray(at + 8, end);
    const told = commands(unit);
    if (told) {
      // What is still on screen goes when the next comes.
      const atS = ptsS + told.startS;
      while ((changes.at(-1)?.atS ?? -1) >= atS) changes.pop();
      changes.push({ atS, unit }, { atS: ptsS + (told.stopS ?? told.startS + LONGEST_S) });
    }
    at = end;
  }
  return {
    times: changes.map((change) => change.atS),
    squarePixels: false,
    screen(n) {
      const change = changes[n];
      if (!change) return undefined;
      return change.unit ? draw(change.unit, palette, width, height) : { width, height, pictures: [] };
    },
  };
}

/** Palette and screen out of the index text; without them, greys on a screen of PAL. */
function index(text: string): { palette: number[]; width: number; height: number } {
  const colours = /^palette:\s*([0-9a-f, \t]+)/im.exec(text)?.[1]?.split(",").map((word) => Number.parseInt(word.trim(), 16)) ?? [];
  const palette = Array.from({ length: 16 }, (_, n) => {
    const colour = colours[n];
    return colour !== undefined && Number.isFinite(colour) ? colour & 0xff_ff_ff : n * 0x11_11_11;
  });
  const size = /^size:\s*(\d{1,5})x(\d{1,5})/im.exec(text);
  const width = Number(size?.[1] ?? 720), height = Number(size?.[2] ?? 576);
  const fits = width > 0 && height > 0 && width * height <= MAX_PIXELS;
  return { palette, width: fits ? width : 720, height: fits ? height : 576 };
}

function commands(unit: Uint8Array): Commands | undefined {
  const u8 = (at: number) => unit[at] ?? 0;
  const u16 = (at: number) => (u8(at) << 8) | u8(at + 1);
  const nibbles = (at: number) => [u8(at + 1) & 15, u8(at + 1) >> 4, u8(at) & 15, u8(at) >> 4];
  const out: Partial<Commands> = {};
  // Each block points to the next; the last to itself, and none backwards.
  for (let block = u16(2), before = 0; block > before && block + 4 <= unit.length; before = block, block = u16(before + 2)) {
    const delayS = u16(block) * DELAY_S;
    let at = block + 4;
    reading: while (at < unit.length) {
      const command = u8(at);
      at += 1;
      switch (command) {
        case 0x00:
        case 0x01:
          out.startS ??= delayS;
          break;
        case 0x02:
          out.stopS ??= delayS;
          break;
        case 0x03:
          out.colours ??= nibbles(at);
          at += 2;
          break;
        case 0x04:
          out.alphas ??= nibbles(at);
          at += 2;
          break;
        case 0x05:
          out.area ??= {
            x1: (u8(at) << 4) | (u8(at + 1) >> 4),
            x2: ((u8(at + 1) & 15) << 8) | u8(at + 2),
            y1: (u8(at + 3) << 4) | (u8(at + 4) >> 4),
            y2: ((u8(at + 4) & 15) << 8) | u8(at + 5),
          };
          at += 6;
          break;
        case 0x06:
          out.fields ??= [u16(at), u16(at + 2)];
          at += 4;
          break;
        case 0x07:
          at += Math.max(2, u16(at));
          break;
        default:
          break reading;
      }
    }
  }
  const { startS, stopS, colours, alphas, area, fields } = out;
  if (startS === undefined || !colours || !alphas || !area || !fields || area.x2 < area.x1 || area.y2 < area.y1) return undefined;
  return { startS, stopS: stopS !== undefined && stopS > startS ? stopS : undefined, colours, alphas, area, fields };
}

function draw(unit: Uint8Array, palette: number[], width: number, height: number): Screen | undefined {
  const told = commands(unit);
  if (!told) return undefined;
  const { area, fields, colours, alphas } = told;
  const wide = area.x2 - area.x1 + 1, high = area.y2 - area.y1 + 1;
  const rgba = new Uint8ClampedArray(wide * high * 4);
  const shades = colours.map((colour, n) => {
    const value = palette[colour] ?? 0;
    return [value >> 16, (value >> 8) & 255, value & 255, (alphas[n] ?? 0) * 17];
  });
  const at: [number, number] = [fields[0] * 2, fields[1] * 2];
  for (let y = 0; y < high; y += 1) {
    const field = (y & 1) as 0 | 1;
    at[field] = line(unit, at[field], (x, length, colour) => {
      for (let i = x; i < x + length; i += 1) rgba.set(shades[colour] as number[], 4 * (y * wide + i));
    }, wide);
  }
  return { width, height, pictures: [{ x: area.x1, y: area.y1, width: wide, height: high, rgba }] };
}

/** One line of runs from a half byte on; gives where the next of its field begins. */
function line(unit: Uint8Array, from: number, put: (x: number, length: number, colour: number) => void, wide: number): number {
  let at = from;
  const half = () => {
    const byte = unit[at >> 1] ?? 0;
    at += 1;
    return at & 1 ? byte >> 4 : byte & 15;
  };
  for (let x = 0; x < wide; ) {
    if (at >> 1 >= unit.length) break;
    // Four bits where the length fits two of them, else eight, twelve, sixteen; sixteen without a length reach the line's end.
    let code = half();
    for (const limit of [0x4, 0x10, 0x40]) {
      if (code >= limit) break;
      code = (code << 4) | half();
    }
    const length = code >> 2 === 0 ? wide - x : Math.min(code >> 2, wide - x);
    put(x, length, code & 3);
    x += length;
  }
  return at + (at & 1);
}
