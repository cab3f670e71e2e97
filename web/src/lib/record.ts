/** Turns an I/O record into what is drawn and said. Pure; the server's figures are not recomputed. */

import type { Attribution, IoFault, IoRecord, IoSeries } from "../api/types";
import { bytes, count, latency, percent } from "./format";
import { byDisk, diskColours } from "./hue";

/** Every physical disk the record names, sorted. */
export function diskNames(record: IoRecord): string[] {
  const names = new Set(record.disks.map((d) => d.disk));
  for (const name of Object.keys(record.series?.disks ?? {})) names.add(name);
  for (const seek of record.seeks ?? []) {
    for (const name of [...seek.disks_before, ...seek.disks_after]) names.add(name);
  }
  return [...names].sort(byDisk);
}

/** Colours for the record's disks. */
export function recordColours(record: IoRecord): Map<string, string> {
  return diskColours(diskNames(record));
}

/** Bytes a second of one disk at each time of the series. */
export function ratesOfDisk(series: IoSeries, disk: string): number[] {
  const perSecond = 1000 / Math.max(1, series.interval_ms);
  const read = series.disks[disk]?.read_bytes ?? [];
  return series.t_s.map((_, i) => (read[i] ?? 0) * perSecond);
}

export interface PlotData {
  disks: string[];
  /** `[t_s, MB/s of disk 0, MB/s of disk 1, …]`, equal lengths, times ascending. */
  rows: number[][];
  /** Highest rate in MB/s. */
  peak: number;
}

/** At most `points` columns: sums of neighbours, so that the bytes under the line stay true. */
export function plotData(record: IoRecord, points = 900): PlotData {
  const disks = diskNames(record);
  const series = record.series;
  const t = series?.t_s ?? [];
  const step = Math.max(1, Math.ceil(t.length / points));
  const rows: number[][] = [[], ...disks.map(() => [])];
  let peak = 0;
  const rates = disks.map((disk) => (series ? ratesOfDisk(series, disk) : []));
  for (let i = 0; i < t.length; i += step) {
    const end = Math.min(t.length, i + step);
    rows[0]?.push(t[i] as number);
    rates.forEach((values, d) => {
      let sum = 0;
      for (let k = i; k < end; k += 1) sum += values[k] ?? 0;
      const mb = sum / (end - i) / 1e6;
      peak = Math.max(peak, mb);
      rows[d + 1]?.push(mb);
    });
  }
  return { disks, rows, peak };
}

/** An SVG path of a filled line, `width` × `height`, for one disk's small chart. */
export function areaPath(
  t: number[],
  values: number[],
  span: { from: number; to: number },
  peak: number,
  width: number,
  height: number,
): string {
  if (t.length === 0) return "";
  const x = (s: number) => ((s - span.from) / Math.max(1e-9, span.to - span.from)) * width;
  const y = (v: number) => height - (peak > 0 ? Math.min(1, v / peak) : 0) * height;
  const points = t.map((s, i) => `${x(s).toFixed(1)} ${y(values[i] ?? 0).toFixed(1)}`);
  return `M${x(t[0] as number).toFixed(1)} ${height}L${points.join("L")}L${x(t[t.length - 1] as number).toFixed(1)} ${height}Z`;
}

/** As `areaPath`, the line alone. */
export function linePath(t: number[], values: number[], span: { from: number; to: number }, peak: number, width: number, height: number): string {
  const x = (s: number) => ((s - span.from) / Math.max(1e-9, span.to - span.from)) * width;
  const y = (v: number) => height - (peak > 0 ? Math.min(1, v / peak) : 0) * height;
  return t.map((s, i) => `${i === 0 ? "M" : "L"}${x(s).toFixed(1)} ${y(values[i] ?? 0).toFixed(1)}`).join("");
}

/** The interval of a series that a moment falls into; -1 outside it. */
export function indexAt(series: IoSeries | undefined, at_s: number | null): number {
  if (!series || at_s === null || series.t_s.length === 0) return -1;
  const step = series.interval_ms / 1000;
  const i = Math.floor((at_s - (series.t_s[0] as number)) / step);
  return i >= 0 && i < series.t_s.length ? i : -1;
}

/** How the bytes were laid to disks, in words: how sure, and why not surer. */
export function attributionWords(mode: Attribution, why?: string | null, error?: number | null): { title: string; text: string } {
  switch (mode) {
    case "block_trace":
      return {
        title: "Exact",
        text: "Every request was traced as it went to a disk.",
      };
    case "sampled_map":
      return {
        title: "From the map",
        text: `Reads were counted and laid on the file's map of disks${why ? `: ${sentence(why)}` : "."}${errorWords(error)}`,
      };
    case "none":
      return {
        title: "Not known",
        text: why ? sentence(why, true) : "The server could not tell which disks were read.",
      };
    default:
      return { title: String(mode), text: why ? sentence(why, true) : "" };
  }
}

function errorWords(error: number | null | undefined): string {
  if (error === null || error === undefined) return "";
  if (error <= 0) return " Measured against the trace, such figures were the same.";
  return ` Measured against the trace, a disk's bytes were within ${percent(error)} of the truth.`;
}

/** Ends in a full stop; with `capital` starts with one. */
function sentence(text: string, capital = false): string {
  const trimmed = text.trim();
  const ended = /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return capital ? ended.charAt(0).toUpperCase() + ended.slice(1) : ended;
}

/** Bytes that were read only because others could not be: parity, and other columns of a row. */
export const makeUpBytes = (record: IoRecord): number => record.disks.reduce((sum, d) => sum + (d.parity_bytes ?? 0) + (d.reconstruct_bytes ?? 0), 0);

/** What the filesystem read for itself beside the file. */
export const metadataBytes = (record: IoRecord): number => record.disks.reduce((sum, d) => sum + (d.metadata_bytes ?? 0), 0);

export type Source = "disks" | "make_up" | "metadata" | "memory" | "unattributed";

/**
 * Parts of the bytes moved for a stream, in a fixed order, for one stacked bar. What came off disks and is not attributed is in the
 * record's `read_bytes` too: each byte is in one part alone.
 */
export function sources(record: IoRecord): { name: Source; bytes: number; share: number }[] {
  const placed = Math.max(0, record.read_bytes - Math.max(0, record.unattributed_bytes));
  const extra = Math.min(makeUpBytes(record), placed);
  const rows: { name: Source; bytes: number }[] = [
    { name: "disks", bytes: placed - extra },
    { name: "make_up", bytes: extra },
    { name: "metadata", bytes: metadataBytes(record) },
    { name: "memory", bytes: Math.max(0, record.cached_bytes) + record.input_cached_bytes },
    { name: "unattributed", bytes: Math.max(0, record.unattributed_bytes) },
  ];
  const total = rows.reduce((sum, row) => sum + row.bytes, 0);
  return rows.map((row) => ({ ...row, share: total > 0 ? row.bytes / total : 0 }));
}

/**
 * What stands between the parts and what was sent, where the file itself is sent: bytes that were read ahead and not sent, or that
 * were sent again after a jump back. What a converter made has another size: nothing is to be compared then.
 */
export function rest(record: IoRecord): { ahead: number; again: number } | null {
  if (record.input_bytes > 0 || (record.method && record.method !== "direct_play")) return null;
  const wanted = new Set<Source>(["disks", "memory", "unattributed"]);
  const moved = sources(record).reduce((sum, part) => sum + (wanted.has(part.name) ? part.bytes : 0), 0);
  return { ahead: Math.max(0, moved - record.served_bytes), again: Math.max(0, record.served_bytes - moved) };
}

/** Whether bytes were still read after a moment: a fault that playback survived. */
export function wentOn(record: IoRecord, at_s: number): boolean {
  const { t_s, disks } = record.series;
  return t_s.some((t, i) => t > at_s && Object.values(disks).some((d) => (d.read_bytes[i] ?? 0) > 0));
}

/** A fault in a sentence. */
export function faultWords(record: IoRecord, fault: IoFault): string {
  const what = sentence(`${fault.disk ? `${fault.disk}: ` : ""}${fault.what}`, false);
  if (wentOn(record, fault.at_s)) return `${what} Playback went on from the other disks.`;
  return record.ended ? `${what} Nothing was read after it.` : what;
}

/** Mean size of a disk request, over all disks; of older records, from what they have. */
export function meanRequest(record: IoRecord): number | null {
  if (record.striping?.mean_request_bytes !== undefined) return record.striping.mean_request_bytes;
  const reads = record.disks.reduce((sum, d) => sum + d.reads, 0);
  const read = record.disks.reduce((sum, d) => sum + d.read_bytes, 0);
  return reads > 0 ? read / reads : null;
}

/** Which share of what was sent, or of what it was made from, was in memory. */
function fromMemory(record: IoRecord): number | null {
  if (record.input_bytes > 0) return record.input_cached_bytes / record.input_bytes;
  return record.served_bytes > 0 ? record.cached_bytes / record.served_bytes : null;
}

/** A row of the comparison of two records. */
export interface Compared {
  label: string;
  a: number | null;
  b: number | null;
  /** Which way is better; absent where it is neither. */
  better?: "more" | "less";
  show: (value: number) => string;
}

/** The figures of two sessions next to each other. */
export function compareRows(a: IoRecord, b: IoRecord): Compared[] {
  const row = (label: string, of: (r: IoRecord) => number | null | undefined, show: Compared["show"], better?: Compared["better"]): Compared => ({
    label,
    a: of(a) ?? null,
    b: of(b) ?? null,
    better,
    show,
  });
  const worst = (r: IoRecord) => Math.max(0, ...r.disks.map((d) => d.latency_us?.p95 ?? 0)) || null;
  const busiest = (r: IoRecord) => (r.disks.some((d) => d.busy_share != null) ? Math.max(...r.disks.map((d) => d.busy_share ?? 0)) : null);
  const whole = (n: number) => String(n);
  return [
    row("Sent to the player", (r) => r.served_bytes, bytes),
    row("Read from disks", (r) => r.read_bytes, bytes, "less"),
    row("From memory", fromMemory, percent, "more"),
    row("Metadata", metadataBytes, bytes, "less"),
    row("Read to make up lost bytes", makeUpBytes, bytes, "less"),
    row("Columns used", (r) => r.striping?.columns_used, (n) => String(Number(n.toFixed(1))), "more"),
    row("Columns there are", (r) => r.striping?.columns, whole),
    row("Copies used", (r) => r.striping?.copies_used, whole),
    row("Evenness", (r) => r.striping?.evenness, percent, "more"),
    row("Mean request", meanRequest, bytes, "more"),
    row("Latency of the slowest disk, p95", worst, latency, "less"),
    row("Busiest disk", busiest, percent, "less"),
    row("Jumps", (r) => r.seeks.length, whole),
    row("Stalls", (r) => r.stalls.length, whole, "less"),
    row("Not attributed", (r) => r.unattributed_bytes, bytes, "less"),
  ];
}

/** Which of two is better in a row; nothing where they are alike or it does not matter. */
export function betterOf(row: Compared): "a" | "b" | null {
  if (!row.better || row.a === null || row.b === null) return null;
  if (Math.abs(row.a - row.b) <= 0.02 * Math.max(Math.abs(row.a), Math.abs(row.b))) return null;
  return row.a > row.b === (row.better === "more") ? "a" : "b";
}

/** Seconds that the viewer may have waited. */
export const stalled = (record: IoRecord): number => record.stalls.reduce((sum, s) => sum + s.duration_s, 0);

const namesOf = (disks: readonly string[]): string => (disks.length <= 1 ? (disks[0] ?? "") : `${disks.slice(0, -1).join(", ")} and ${disks[disks.length - 1]}`);

/** Disks that did a noticeable part, as the server counts them: 5 % of the busiest one's. */
export function usedDisks(record: IoRecord): string[] {
  const most = Math.max(0, ...record.disks.map((d) => d.read_bytes));
  return record.disks.filter((d) => d.read_bytes > 0 && d.read_bytes >= most / 20).map((d) => d.disk).sort(byDisk);
}

/** What was different between two sessions, most telling first: full sentences, none where they were alike. */
export function differences(a: IoRecord, b: IoRecord): string[] {
  const out: string[] = [];
  const [sa, sb] = [a.striping, b.striping];
  if (sa && sb && (sa.columns !== sb.columns || sa.columns_used !== sb.columns_used)) {
    out.push(`The first used ${sa.columns_used} of ${count(sa.columns, "column")}, the second ${sb.columns_used} of ${sb.columns}.`);
  }
  const [da, db] = [usedDisks(a), usedDisks(b)];
  if (da.join() !== db.join()) {
    if (da.length === 0 || db.length === 0) {
      const [which, other, disks] = da.length === 0 ? ["first", "second", db] : ["second", "first", da];
      out.push(`The ${which} needed no disk; the ${other} read from ${namesOf(disks)}.`);
    } else out.push(`The first read from ${namesOf(da)}, the second from ${namesOf(db)}.`);
  }
  if (sa?.copies_used !== undefined && sb?.copies_used !== undefined && sa.copies_used !== sb.copies_used) {
    out.push(`${sa.copies_used > sb.copies_used ? "The first" : "The second"} was served by ${count(Math.max(sa.copies_used, sb.copies_used), "copy", "copies")}, the other by ${count(Math.min(sa.copies_used, sb.copies_used), "copy", "copies")}.`);
  }
  const [wa, wb] = [stalled(a), stalled(b)];
  if (Math.abs(wa - wb) >= 0.5) {
    const worse = wa > wb ? "first" : "second";
    const least = Math.min(wa, wb);
    out.push(`The ${worse} waited ${Math.max(wa, wb).toFixed(1)} s for its disks${least > 0 ? `, the other ${least.toFixed(1)} s` : ", the other not at all"}.`);
  }
  const [ma, mb] = [fromMemory(a), fromMemory(b)];
  if (ma !== null && mb !== null && Math.abs(ma - mb) >= 0.1) {
    out.push(`${percent(ma)} of the first came from memory, ${percent(mb)} of the second: the one that found more there asked less of the disks.`);
  }
  const [ra, rb] = [meanRequest(a), meanRequest(b)];
  if (ra && rb && Math.max(ra, rb) / Math.min(ra, rb) >= 1.5) {
    out.push(`The disks' mean request was ${bytes(ra)} in the first and ${bytes(rb)} in the second.`);
  }
  const worst = (r: IoRecord) => Math.max(0, ...r.disks.map((d) => d.latency_us?.p95 ?? 0));
  const [la, lb] = [worst(a), worst(b)];
  if (la > 0 && lb > 0 && Math.max(la, lb) / Math.min(la, lb) >= 1.5 && Math.max(la, lb) >= 5000) {
    out.push(`19 of 20 requests were answered within ${latency(la)} in the first and ${latency(lb)} in the second.`);
  }
  const [ua, ub] = [makeUpBytes(a), makeUpBytes(b)];
  if (ua > 0 !== ub > 0) out.push(`The ${ua > 0 ? "first" : "second"} read ${bytes(Math.max(ua, ub))} only to make up what a lost disk held.`);
  if (a.attribution !== b.attribution) {
    out.push(`They are not known in the same way: the first ${attributionWords(a.attribution).title.toLowerCase()}, the second ${attributionWords(b.attribution).title.toLowerCase()}.`);
  }
  return out;
}

/** How a chunk and a request compare, in words. */
export function requestWords(mean: number | undefined, chunk: number | undefined, columns: number): string {
  if (mean === undefined) return "";
  if (!chunk) return "nothing is striped";
  const chunks = mean / chunk;
  if (chunks < 1) return `less than a chunk of ${kib(chunk)}: it keeps one column busy`;
  const many = chunks < 1.05 ? "one chunk" : `${chunks.toFixed(chunks < 10 ? 1 : 0)} chunks`;
  return `${many} of ${kib(chunk)}${columns > 1 ? ", each column at work" : ""}`;
}

/** Binary units, as chunks are set up. */
export function kib(value: number): string {
  if (value < 1024) return `${value} B`;
  if (value < 1 << 20) return `${Number((value / 1024).toFixed(value % 1024 ? 1 : 0))} KiB`;
  return `${Number((value / (1 << 20)).toFixed(value % (1 << 20) ? 1 : 0))} MiB`;
}

/** What a record of an older version has not kept, in words; empty where it has all. */
export function lacks(record: IoRecord): string {
  const missing: string[] = [];
  if (record.striping && record.striping.level === undefined) missing.push("which copy served, and request against chunk");
  if (!record.trail && record.read_bytes > 0 && record.striping?.level === undefined) missing.push("what of the file was read when");
  return missing.length === 0 ? "" : `An older version of Spindle made this record; it did not keep ${missing.join(", nor ")}.`;
}

/** Streams on one axis: seconds since the earliest of them began. */
export function together(records: readonly IoRecord[]): { offsets: number[]; span: { from: number; to: number } } {
  const starts = records.map((r) => Date.parse(r.started));
  const first = Math.min(...starts.filter(Number.isFinite));
  const offsets = starts.map((s) => (Number.isFinite(s) && Number.isFinite(first) ? (s - first) / 1000 : 0));
  const ends = records.map((r, i) => timeSpan(r, !r.ended).to + (offsets[i] ?? 0));
  return { offsets, span: { from: 0, to: Math.max(2, ...ends) } };
}

/** The stretch of time a record covers, for the axis: never empty, follows a live stream. */
export function timeSpan(record: IoRecord, live: boolean): { from: number; to: number } {
  const t = record.series?.t_s ?? [];
  const first = t[0] ?? 0;
  const last = (t[t.length - 1] ?? 0) + (record.series?.interval_ms ?? 1000) / 1000;
  const marks = [...(record.seeks ?? []), ...(record.stalls ?? []), ...(record.faults ?? [])].map((m) => m.at_s);
  const from = Math.min(first, ...marks);
  const to = Math.max(last, ...marks, from + (live ? 30 : 2));
  return { from, to };
}
