/**
 * A file's map as it is drawn: bins of equal length, each with its bytes on every disk, copy by copy.
 *
 * Tens of thousands of runs, each of many pieces, become as many numbers as the canvas has columns,
 * in one pass. Pure.
 */

import type { Layout } from "../api/types";
import { bytes } from "./format";
import { byDisk } from "./hue";

/** One piece of one copy, in typed arrays: a file may have a million. */
export interface Pieces {
  /** Disk names; `disk` holds indices into them. */
  disks: string[];
  copies: number;
  /** By copy: pieces in the order of the file. */
  lanes: Lane[];
  /** First bytes of the runs, ascending. */
  runs: Float64Array;
  size_bytes: number;
}

export interface Lane {
  /** First byte in the file, ascending. */
  from: Float64Array;
  length: Float64Array;
  disk: Uint16Array;
  place: Float64Array;
  /** Column of the stripe that each piece is of. */
  column: Uint16Array;
  /** How many columns a run of this copy is striped over. */
  columns: number;
}

/** A map of which nothing is known but the file's size. */
export const noPieces = (size_bytes: number): Pieces => ({ disks: [], copies: 0, lanes: [], runs: new Float64Array(0), size_bytes: Math.max(1, size_bytes) });

/**
 * Which column each disk is, run by run: the place of the disk among those that the run is striped over. A short run meets only
 * some of its stripe's disks; it goes by the last longer one that had them all.
 */
function columnsOf(runs: readonly (readonly number[])[]): { of: ReadonlyMap<number, number>[]; columns: number } {
  const columns = runs.reduce((most, disks) => Math.max(most, disks.length), 1);
  const known = new Map<string, ReadonlyMap<number, number>>();
  const ranks = (disks: readonly number[]) => new Map([...disks].sort((a, b) => a - b).map((disk, i) => [disk, i]));
  const stripes: ReadonlyMap<number, number>[] = [];
  for (const disks of runs) {
    const key = [...disks].sort((a, b) => a - b).join();
    if (disks.length !== columns || known.has(key)) continue;
    const map = ranks(disks);
    known.set(key, map);
    stripes.push(map);
  }
  const of = runs.map((disks) => {
    const key = [...disks].sort((a, b) => a - b).join();
    let map = known.get(key);
    if (!map) {
      map = stripes.find((stripe) => disks.every((disk) => stripe.has(disk))) ?? ranks(disks);
      known.set(key, map);
    }
    return map;
  });
  return { of, columns };
}

/** Flattens a layout once; bins are then made from it at any zoom. */
export function piecesOf(layout: Layout): Pieces {
  const names = new Set(layout.per_disk.filter((d) => d.bytes > 0).map((d) => d.disk));
  let copies = 0;
  for (const extent of layout.extents) {
    copies = Math.max(copies, extent.copies.length);
    for (const copy of extent.copies) for (const piece of copy) names.add(piece.disk);
  }
  const disks = [...names].sort(byDisk);
  const index = new Map(disks.map((name, i) => [name, i]));
  const lanes: Lane[] = [];
  for (let c = 0; c < copies; c += 1) {
    let n = 0;
    for (const extent of layout.extents) n += extent.copies[c]?.length ?? 0;
    const met = layout.extents.map((extent) => [...new Set((extent.copies[c] ?? []).map((piece) => index.get(piece.disk) ?? 0))]);
    const { of, columns } = columnsOf(met);
    const lane: Lane = { from: new Float64Array(n), length: new Float64Array(n), disk: new Uint16Array(n), place: new Float64Array(n), column: new Uint16Array(n), columns };
    let i = 0;
    for (const [run, extent] of layout.extents.entries()) {
      let at = extent.offset;
      for (const piece of extent.copies[c] ?? []) {
        lane.column[i] = of[run]?.get(index.get(piece.disk) ?? 0) ?? 0;
        lane.from[i] = at;
        lane.length[i] = piece.length_bytes;
        lane.disk[i] = index.get(piece.disk) ?? 0;
        lane.place[i] = piece.disk_offset;
        at += piece.length_bytes;
        i += 1;
      }
    }
    lanes.push(lane);
  }
  return {
    disks,
    copies,
    lanes,
    runs: Float64Array.from(layout.extents, (e) => e.offset),
    size_bytes: Math.max(1, layout.size_bytes),
  };
}

export interface Bins {
  from: number;
  to: number;
  count: number;
  disks: number;
  /** By copy: `count × disks` bytes. */
  bytes: Float64Array[];
  /** By copy: `count × columns`, the disk that holds most of the column there plus one; 0 where nothing lies. */
  columns: Uint16Array[];
  /** Runs that begin in each bin. */
  starts: Uint32Array;
}

/** First index of an ascending array whose value is past `value`. */
function after(sorted: Float64Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Bytes of each disk in `count` bins of `[from, to)`. */
export function binsOf(pieces: Pieces, from: number, to: number, count: number): Bins {
  const disks = Math.max(1, pieces.disks.length);
  const width = Math.max(1e-9, (to - from) / count);
  const columns: Uint16Array[] = [];
  const lanes = pieces.lanes.map((lane) => {
    const sums = new Float64Array(count * disks);
    const here = new Uint16Array(count * lane.columns);
    const most = new Float64Array(count * lane.columns);
    columns.push(here);
    for (let i = Math.max(0, after(lane.from, from) - 1); i < lane.from.length; i += 1) {
      const start = lane.from[i] as number;
      if (start >= to) break;
      const a = Math.max(from, start);
      const b = Math.min(to, start + (lane.length[i] as number));
      if (b <= a) continue;
      const disk = lane.disk[i] as number;
      const end = Math.min(count - 1, Math.floor((b - from) / width));
      for (let bin = Math.min(count - 1, Math.floor((a - from) / width)); bin <= end; bin += 1) {
        const left = from + bin * width;
        const part = Math.min(b, left + width) - Math.max(a, left);
        if (part <= 0) continue;
        const sum = (sums[bin * disks + disk] as number) + part;
        sums[bin * disks + disk] = sum;
        const cell = bin * lane.columns + (lane.column[i] as number);
        if (sum > (most[cell] as number)) {
          most[cell] = sum;
          here[cell] = disk + 1;
        }
      }
    }
    return sums;
  });
  const starts = new Uint32Array(count);
  for (let i = after(pieces.runs, from - 1); i < pieces.runs.length; i += 1) {
    const at = pieces.runs[i] as number;
    if (at >= to) break;
    const bin = Math.floor((at - from) / width);
    if (bin >= 0 && bin < count) starts[bin] = (starts[bin] as number) + 1;
  }
  return { from, to, count, disks, bytes: lanes, columns, starts };
}

/** What lies at a byte: one place a copy. */
export function placesAt(pieces: Pieces, offset: number): { copy: number; disk: string; disk_offset: number; run: number; column: number; columns: number }[] {
  const run = after(pieces.runs, offset);
  return pieces.lanes.flatMap((lane, copy) => {
    const i = after(lane.from, offset) - 1;
    if (i < 0) return [];
    const into = offset - (lane.from[i] as number);
    if (into >= (lane.length[i] as number)) return [];
    const disk = lane.disk[i] as number;
    return [{ copy, disk: pieces.disks[disk] ?? "", disk_offset: (lane.place[i] as number) + into, run, column: lane.column[i] as number, columns: lane.columns }];
  });
}

/** A window moved or zoomed, kept inside the file and not narrower than `least` bytes. */
export function windowOf(size: number, from: number, to: number, least = 4096): { from: number; to: number } {
  const length = Math.min(size, Math.max(Math.min(least, size), to - from));
  const start = Math.min(Math.max(0, from), size - length);
  return { from: start, to: start + length };
}

/** The layout in one sentence. */
export function layoutSentence(layout: Layout): string {
  const disks = layout.per_disk.filter((d) => d.bytes > 0);
  if (disks.length === 0) return "Which disks hold this file could not be told.";
  const most = Math.max(0, ...layout.extents.map((e) => e.copies.length));
  const pieces = layout.fragments === 1 ? "in one piece" : `in ${layout.fragments.toLocaleString("en")} pieces`;
  const where =
    disks.length === 1
      ? `All of it lies on ${disks[0]?.disk ?? "one disk"}, ${pieces}`
      : `It lies on ${disks.length}${disks.length < layout.per_disk.length ? ` of ${layout.per_disk.length}` : ""} disks, ${pieces}, ${evenWords(layout.evenness)}`;
  return `${where}${most > 1 ? `; each byte has ${most} copies` : ""}.`;
}

function evenWords(evenness: number): string {
  if (evenness >= 0.95) return "spread evenly";
  if (evenness >= 0.75) return "spread almost evenly";
  return "spread unevenly";
}

/** What is special about some of a file's bytes, worst first. */
export function specialWords(layout: Layout): { tone: "bad" | "warn" | "plain"; text: string }[] {
  const s = layout.special;
  const rows: [bytes: number | undefined, tone: "bad" | "warn" | "plain", text: string][] = [
    [s.lost_bytes, "bad", "are lost: no copy is left, and nothing to make them from"],
    [s.rebuilt_bytes, "warn", "have no copy left; each read makes them from what other disks hold"],
    [s.degraded_bytes, "warn", "have a copy on a disk that is gone or being rebuilt"],
    [s.compressed_bytes, "plain", s.stored_bytes ? `are stored compressed, in ${bytes(s.stored_bytes)}` : "are stored compressed: lengths are those of the contents"],
    [s.inline_bytes, "plain", "are small enough to lie within the filesystem's trees"],
    [s.unwritten_bytes, "plain", "are set aside and never written: zeros, read from no disk"],
    [s.pending_bytes, "plain", "are not on a disk yet"],
    [s.shared_bytes, "plain", "are shared with other files"],
    [s.encrypted_bytes, "plain", "are encrypted on the disk"],
  ];
  const words = rows.flatMap(([n, tone, text]) => (n ? [{ tone, text: `${bytes(n)} ${text}.` }] : []));
  if (layout.via) words.push({ tone: "plain", text: `It is read from ${layout.via}.` });
  if (layout.candidates.length > 0) words.push({ tone: "plain", text: `It may be on ${layout.candidates.join(", ")}.` });
  return words;
}
