/** Turns an I/O record into what is drawn and said. Pure; the server's figures are not recomputed. */

import type { Attribution, IoRecord, IoSeries } from "../api/types";
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
  const bytes = series.disks[disk]?.read_bytes ?? [];
  return series.t_s.map((_, i) => (bytes[i] ?? 0) * perSecond);
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

/** How the bytes were laid to disks, in words: how sure, and why not surer. */
export function attributionWords(mode: Attribution, why?: string | null): { title: string; text: string } {
  switch (mode) {
    case "block_trace":
      return {
        title: "Exact",
        text: "Every request was traced as it went to a disk.",
      };
    case "sampled_map":
      return {
        title: "From the map",
        text: `Reads were counted and laid on the file's map of disks${why ? `: ${sentence(why)}` : "."}`,
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

/** Ends in a full stop; with `capital` starts with one. */
function sentence(text: string, capital = false): string {
  const trimmed = text.trim();
  const ended = /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return capital ? ended.charAt(0).toUpperCase() + ended.slice(1) : ended;
}

/** Parts of the bytes read for a stream, largest first, for one stacked bar. */
export function sources(record: IoRecord): { name: string; bytes: number; share: number }[] {
  const rows = [
    { name: "disks", bytes: Math.max(0, record.read_bytes) },
    { name: "memory", bytes: Math.max(0, record.cached_bytes) },
    { name: "unattributed", bytes: Math.max(0, record.unattributed_bytes) },
  ];
  const total = rows.reduce((sum, row) => sum + row.bytes, 0);
  return rows.map((row) => ({ ...row, share: total > 0 ? row.bytes / total : 0 }));
}

/** The stretch of time a record covers, for the axis: never empty, follows a live stream. */
export function timeSpan(record: IoRecord, live: boolean): { from: number; to: number } {
  const t = record.series?.t_s ?? [];
  const first = t[0] ?? 0;
  const last = (t[t.length - 1] ?? 0) + (record.series?.interval_ms ?? 1000) / 1000;
  const marks = [...(record.seeks ?? []), ...(record.stalls ?? [])].map((m) => m.at_s);
  const from = Math.min(first, ...marks);
  const to = Math.max(last, ...marks, from + (live ? 30 : 2));
  return { from, to };
}
