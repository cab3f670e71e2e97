/** What a stream read of its file, over time: time goes down, the file goes to the right. Pure. */

import type { IoRecord, IoTrail, TrailRun } from "../api/types";
import type { Bins } from "./band";

/** One mark of the picture, in points of the box it is drawn in. */
export interface Mark {
  x: number;
  y: number;
  width: number;
  height: number;
  run: TrailRun;
}

export interface Box {
  width: number;
  height: number;
  /** Bytes of the file that are seen. */
  from: number;
  to: number;
  /** Seconds that are seen. */
  span: { from: number; to: number };
}

/** Thinner marks are not seen. */
const LEAST = 2;

/** The runs that are seen, as marks. A run that lasts is as tall as its time, and at least as a line. */
export function marksOf(trail: IoTrail, box: Box): Mark[] {
  const length = Math.max(1, box.to - box.from);
  const seconds = Math.max(1e-9, box.span.to - box.span.from);
  const y = (s: number) => ((s - box.span.from) / seconds) * box.height;
  const marks: Mark[] = [];
  for (const run of trail.runs) {
    if (run.to_byte <= box.from || run.from_byte >= box.to) continue;
    const left = Math.max(0, ((run.from_byte - box.from) / length) * box.width);
    const right = Math.min(box.width, ((run.to_byte - box.from) / length) * box.width);
    const width = Math.max(LEAST, right - left);
    const top = Math.min(y(run.from_s), box.height - LEAST);
    marks.push({ x: Math.min(left, box.width - width), y: top, width, height: Math.max(LEAST, Math.min(box.height, y(run.to_s)) - top), run });
  }
  return marks;
}

/**
 * Which disk a point of a mark is drawn as: the one that holds the bytes there, of the copy that gave them. Where several share
 * the point they take turns along it by their part, so that the eye sees all of them. -1: not known.
 */
export function diskAt(bins: Bins, copy: number | undefined, bin: number): number {
  const sums = copy === undefined ? undefined : bins.bytes[copy];
  if (!sums || bin < 0 || bin >= bins.count) return -1;
  let total = 0;
  for (let d = 0; d < bins.disks; d += 1) total += sums[bin * bins.disks + d] as number;
  if (total <= 0) return -1;
  // The golden ratio's multiples are spread evenly whatever the number of disks.
  let left = ((bin * 0.618_033_988_75) % 1) * total;
  for (let d = 0; d < bins.disks; d += 1) {
    left -= sums[bin * bins.disks + d] as number;
    if (left < 0) return d;
  }
  return bins.disks - 1;
}

/**
 * Which bins of a copy were read off disks: 1 for sure, a half where it is not known of which copy. Memory's bytes came from no
 * copy now.
 */
export function readBins(trail: IoTrail, copy: number, copies: number, from: number, to: number, count: number): Float32Array {
  const bins = new Float32Array(count);
  const width = Math.max(1e-9, (to - from) / count);
  for (const run of trail.runs) {
    if (run.memory || run.to_byte <= from || run.from_byte >= to) continue;
    const sure = copies <= 1 || run.copy === copy;
    if (!sure && run.copy !== undefined) continue;
    const first = Math.max(0, Math.floor((run.from_byte - from) / width));
    const last = Math.min(count - 1, Math.ceil((run.to_byte - from) / width) - 1);
    for (let bin = first; bin <= last; bin += 1) bins[bin] = Math.max(bins[bin] as number, sure ? 1 : 0.5);
  }
  return bins;
}

/** Steps of a time axis: about `wanted` of them, at times that a clock has. */
export function timeSteps(span: { from: number; to: number }, wanted: number): number[] {
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
  const length = Math.max(1e-9, span.to - span.from);
  const step = STEPS.find((s) => length / s <= wanted) ?? Math.ceil(length / wanted / 3600) * 3600;
  const out: number[] = [];
  for (let t = Math.ceil(span.from / step) * step; t < span.to; t += step) out.push(t);
  return out;
}

/** The run under a point of the picture, the nearest within `near` points. */
export function runNear(marks: readonly Mark[], x: number, y: number, near = 6): TrailRun | null {
  let best: TrailRun | null = null;
  let least = near;
  for (const mark of marks) {
    const dx = Math.max(0, mark.x - x, x - mark.x - mark.width);
    const dy = Math.max(0, mark.y - y, y - mark.y - mark.height);
    const away = Math.hypot(dx, dy);
    if (away <= least) {
      least = away;
      best = mark.run;
    }
  }
  return best;
}

/** Where in the file the stream was last read before a moment; nothing before its first read. */
export function placeAt(trail: IoTrail, at_s: number): number | null {
  let place: number | null = null;
  for (const run of trail.runs) {
    if (run.from_s > at_s) break;
    const share = run.to_s > run.from_s ? Math.min(1, (at_s - run.from_s) / (run.to_s - run.from_s)) : 1;
    place = run.from_byte + share * (run.to_byte - run.from_byte);
  }
  return place;
}

/** Where a run's bytes came from, in words. */
export function originWords(run: TrailRun, copies: number): string {
  if (run.memory) return "from memory";
  if (run.copy === undefined) return copies > 1 ? "off a disk, it is not known of which copy" : "off disks";
  return copies > 1 ? `of copy ${run.copy + 1}` : "off disks";
}

/** How much of the file was read at all, as a share of it: bytes read twice count once. */
export function covered(trail: IoTrail): number {
  const runs = [...trail.runs].sort((a, b) => a.from_byte - b.from_byte);
  let sum = 0;
  let end = 0;
  for (const run of runs) {
    const from = Math.max(end, run.from_byte);
    if (run.to_byte > from) sum += run.to_byte - from;
    end = Math.max(end, run.to_byte);
  }
  return Math.min(1, sum / Math.max(1, trail.file_bytes));
}

/** The trail of a record in a sentence. */
export function trailSentence(record: IoRecord): string {
  const trail = record.trail;
  if (!trail || trail.runs.length === 0) return "";
  const share = covered(trail) * 100;
  const part = share < 1 ? "Less than 1 %" : `${share.toFixed(0)} %`;
  const jumps = record.seeks.length;
  const how = jumps === 0 ? "without a jump" : jumps === 1 ? "with one jump" : `with ${jumps} jumps`;
  return `${part} of the file was read, ${how}.`;
}
