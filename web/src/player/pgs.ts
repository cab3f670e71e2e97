/**
 * Blu-ray subtitles (`.sup`): which picture is on screen when, and its pixels. Pure: bytes in, pixels out.
 *
 * A file is a run of segments behind `PG`, 90 kHz times: a composition (what is where), palettes, objects (run-length
 * pictures, in pieces), an end. Palettes and objects hold until the next epoch begins. Bytes come from strangers: every
 * length is held against what is there, and a picture against a limit, before anything is made for it.
 */

import { MAX_PIXELS, MAX_PICTURES, type Picture, type PictureTrack, type Screen } from "./picture";

const PALETTE = 0x14, OBJECT = 0x15, COMPOSITION = 0x16, END = 0x80;
const HEADER = 13;

interface Segment {
  type: number;
  /** Of its bytes in the file. */
  from: number;
  to: number;
}

interface Set {
  atS: number;
  /** Whether nothing before it is needed. */
  begins: boolean;
  segments: Segment[];
}

interface Composed {
  id: number;
  x: number;
  y: number;
  crop?: { x: number; y: number; width: number; height: number };
}

/** Reads a whole file; what is damaged in it is left out. */
export function pgs(data: Uint8Array): PictureTrack {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const sets = read(view);
  const times = sets.map((set) => set.atS);
  return {
    times,
    squarePixels: true,
    screen(n) {
      const set = sets[n];
      if (!set) return undefined;
      let first = n;
      while (first > 0 && !sets[first]?.begins) first -= 1;
      return draw(view, sets.slice(first, n + 1));
    },
  };
}

function read(view: DataView): Set[] {
  const sets: Set[] = [];
  let current: Set | undefined;
  for (let at = 0; at + HEADER <= view.byteLength; ) {
    if (view.getUint16(at) !== 0x5047) break;
    const length = view.getUint16(at + 11);
    const from = at + HEADER, to = from + length;
    if (to > view.byteLength) break;
    const type = view.getUint8(at + 10);
    if (type === COMPOSITION && length >= 11) {
      const state = view.getUint8(from + 7);
      current = { atS: view.getUint32(at + 2) / 90_000, begins: (state & 0xc0) !== 0, segments: [] };
      sets.push(current);
    }
    if (current && type !== END) current.segments.push({ type, from, to });
    at = to;
  }
  // Times turn over after 13 hours, and no film is as long: out of order is damage, which a search would not survive.
  return sets.filter((set, n) => n === 0 || set.atS >= (sets[n - 1] as Set).atS);
}

/** What is on screen after these sets. */
function draw(view: DataView, sets: Set[]): Screen | undefined {
  const palettes = new Map<number, Uint8ClampedArray>();
  const objects = new Map<number, Segment[]>();
  let last: { segment: Segment } | undefined;
  for (const segment of sets.flatMap((set) => set.segments)) {
    const { type, from, to } = segment;
    if (type === COMPOSITION) {
      last = { segment };
      if ((view.getUint8(from + 7) & 0xc0) === 0x80) {
        palettes.clear();
        objects.clear();
      }
    } else if (type === PALETTE && to - from >= 2) {
      const id = view.getUint8(from);
      const palette = palettes.get(id) ?? new Uint8ClampedArray(256 * 4);
      colours(view, from + 2, to, palette);
      palettes.set(id, palette);
    } else if (type === OBJECT && to - from >= 4) {
      const id = view.getUint16(from);
      const isFirst = (view.getUint8(from + 3) & 0x80) !== 0;
      if (isFirst) objects.set(id, [segment]);
      else objects.get(id)?.push(segment);
    }
  }
  if (!last) return undefined;
  const { from, to } = last.segment;
  const width = view.getUint16(from), height = view.getUint16(from + 2);
  if (width === 0 || height === 0 || width * height > MAX_PIXELS) return undefined;
  const palette = palettes.get(view.getUint8(from + 9)) ?? new Uint8ClampedArray(256 * 4);
  const pictures = composed(view, from + 11, to, view.getUint8(from + 10))
    .map((one) => picture(view, objects.get(one.id) ?? [], palette, one))
    .filter((one) => one !== undefined);
  return { width, height, pictures };
}

function composed(view: DataView, from: number, to: number, count: number): Composed[] {
  const out: Composed[] = [];
  for (let at = from; out.length < Math.min(count, MAX_PICTURES) && at + 8 <= to; ) {
    const cropped = (view.getUint8(at + 3) & 0x80) !== 0;
    if (cropped && at + 16 > to) break;
    const u16 = (by: number) => view.getUint16(at + by);
    out.push({ id: u16(0), x: u16(4), y: u16(6), crop: cropped ? { x: u16(8), y: u16(10), width: u16(12), height: u16(14) } : undefined });
    at += cropped ? 16 : 8;
  }
  return out;
}

/** Entries of five bytes: index, Y, Cr, Cb, alpha; studio range, BT.709 as Blu-ray has it. */
function colours(view: DataView, from: number, to: number, palette: Uint8ClampedArray): void {
  for (let at = from; at + 5 <= to; at += 5) {
    const y = (view.getUint8(at + 1) - 16) * 1.164;
    const cr = view.getUint8(at + 2) - 128, cb = view.getUint8(at + 3) - 128;
    palette.set([y + 1.793 * cr, y - 0.213 * cb - 0.533 * cr, y + 2.112 * cb, view.getUint8(at + 4)], 4 * view.getUint8(at));
  }
}

function picture(view: DataView, pieces: Segment[], palette: Uint8ClampedArray, where: Composed): Picture | undefined {
  const head = pieces[0];
  if (!head || head.to - head.from < 11) return undefined;
  const width = view.getUint16(head.from + 7), height = view.getUint16(head.from + 9);
  if (width === 0 || height === 0 || width * height > MAX_PIXELS) return undefined;
  const indices = new Uint8Array(width * height);
  runs(view, pieces, indices, width);
  const cut = where.crop ?? { x: 0, y: 0, width, height };
  const wide = Math.min(cut.width, width - cut.x), high = Math.min(cut.height, height - cut.y);
  if (wide <= 0 || high <= 0) return undefined;
  const rgba = new Uint8ClampedArray(wide * high * 4);
  for (let y = 0; y < high; y += 1) {
    for (let x = 0; x < wide; x += 1) {
      const colour = 4 * (indices[(cut.y + y) * width + cut.x + x] as number);
      rgba.set(palette.subarray(colour, colour + 4), 4 * (y * wide + x));
    }
  }
  return { x: where.x, y: where.y, width: wide, height: high, rgba };
}

/**
 * Run lengths over the pieces of an object: a byte is a pixel; after 0 come 0 (end of the line), a length of 6 or 14 bits, and a
 * colour where bit 7 says so.
 */
function runs(view: DataView, pieces: Segment[], out: Uint8Array, width: number): void {
  let piece = 0;
  let at = (pieces[0] as Segment).from + 11;
  const next = (): number => {
    for (;;) {
      const here = pieces[piece];
      if (!here) return -1;
      if (at < here.to) {
        at += 1;
        return view.getUint8(at - 1);
      }
      piece += 1;
      at = (pieces[piece]?.from ?? 0) + 4;
    }
  };
  let row = 0, x = 0;
  while (row * width < out.length) {
    const byte = next();
    if (byte < 0) return;
    let length = 1, colour = byte;
    if (byte === 0) {
      const flags = next();
      if (flags < 0) return;
      if (flags === 0) {
        row += 1;
        x = 0;
        continue;
      }
      length = flags & 0x3f;
      if ((flags & 0x40) !== 0) length = (length << 8) | Math.max(0, next());
      colour = (flags & 0x80) !== 0 ? Math.max(0, next()) : 0;
    }
    const end = Math.min(width, x + length);
    out.fill(colour, row * width + x, row * width + end);
    x = end;
  }
}
