/** Records of streams (`spindle bench stream`) as they are drawn. Pure. */

import { recordOf } from "../api/shapes";
import type { IoRecord } from "../api/types";
import type { Experiment } from "./experiment";
import { byDisk } from "./hue";

type Loose = Record<string, unknown>;

const object = (value: unknown): Loose => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Loose) : {});
const rows = (value: unknown): Loose[] => (Array.isArray(value) ? value.map(object) : []);
const number = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const numbers = (value: unknown): number[] => (Array.isArray(value) ? value.map(number) : []);

export interface StreamFilm {
  file: string;
  size_bytes: number;
  duration_s: number;
  bitrate_bps: number;
}

/** One viewer: what was asked, how long it was waited, and what the server recorded. */
export interface StreamPart {
  stream: number;
  film: number;
  converted: boolean;
  received_bytes: number;
  /** Milliseconds until the first byte of each request. */
  firsts_ms: number[];
  /** Seconds of waiting for a picture at the start and after jumps. */
  waited_s: number;
  stalls: number;
  stalled_s: number;
  jumps: { at_s: number; to: number; from: number }[];
  waits: { at_s: number; duration_s: number; stall: boolean }[];
  failed: string;
  record: IoRecord | null;
  why: string;
}

export interface StreamDisk {
  disk: string;
  total_bytes: number;
  stream_bytes: number;
  metadata_bytes: number;
  others_bytes: number;
  written_bytes: number;
  busy_share: number;
}

export interface StreamRun {
  scenario: string;
  about: string;
  seconds: number;
  fullSpeed: boolean;
  films: StreamFilm[];
  streams: StreamPart[];
  disks: StreamDisk[];
  columns: number;
  columnsUsed: number;
  evenness: number;
  system: { disks: string[]; read_bytes: number; write_bytes: number; cpus: number };
}

/** Where a step goes, as a share of the film; nothing for an end. */
function placeOf(action: unknown): { to: number; jump: boolean } | null {
  const { play, jump } = object(action);
  if (typeof jump === "number") return { to: jump, jump: true };
  return typeof play === "number" ? { to: play, jump: false } : null;
}

function partOf(row: Loose): StreamPart {
  const waits = rows(row.waits).map((w) => ({ at_s: number(w.at_ms) / 1000, duration_s: number(w.duration_ms) / 1000, stall: w.why === "stall" }));
  let from = 0;
  const jumps = rows(row.steps).flatMap((step) => {
    const place = placeOf(step.action);
    if (!place) return [];
    const jump = { at_s: number(step.at_ms) / 1000, from, to: place.to };
    from = place.to;
    return place.jump ? [jump] : [];
  });
  return {
    stream: number(row.stream),
    film: number(row.film),
    converted: row.way === "converted",
    received_bytes: number(row.received_bytes),
    firsts_ms: rows(row.asked).flatMap((a) => (typeof a.first_byte_ms === "number" ? [a.first_byte_ms] : [])),
    waited_s: waits.filter((w) => !w.stall).reduce((sum, w) => sum + w.duration_s, 0),
    stalls: number(row.stalls),
    stalled_s: number(row.stalled_ms) / 1000,
    jumps,
    waits,
    failed: text(row.failed),
    record: row.record ? recordOf(row.record) : null,
    why: text(row.no_record),
  };
}

/** What the record of an experiment holds of its streams. What is absent is empty. */
export function streamRun(record: Experiment): StreamRun {
  const all = record as unknown as Loose;
  const striping = object(all.striping);
  const system = object(all.system);
  const cpu = numbers(object(all.counters).cpu_share);
  return {
    scenario: text(all.scenario),
    about: text(all.about),
    seconds: number(all.seconds),
    fullSpeed: all.pace === "full_speed",
    films: rows(all.films).map((f) => ({ file: text(f.file), size_bytes: number(f.size_bytes), duration_s: number(f.duration_s), bitrate_bps: number(f.bitrate_bps) })),
    streams: rows(all.streams).map(partOf),
    disks: rows(all.disks)
      .map((d) => ({
        disk: text(d.disk),
        total_bytes: number(d.total_read_bytes),
        stream_bytes: number(d.stream_bytes),
        metadata_bytes: number(d.metadata_bytes),
        others_bytes: number(d.others_bytes),
        written_bytes: number(d.total_write_bytes),
        busy_share: number(d.busy_share),
      }))
      .sort((a, b) => byDisk(a.disk, b.disk)),
    columns: number(striping.columns),
    columnsUsed: number(striping.columns_used),
    evenness: number(striping.evenness),
    system: {
      disks: (Array.isArray(system.disks) ? system.disks : []).map(text),
      read_bytes: number(system.read_bytes),
      write_bytes: number(system.write_bytes),
      cpus: cpu.length > 0 ? cpu.reduce((a, b) => a + b, 0) / cpu.length : 0,
    },
  };
}

/** Whole disks over time as a record that charts know, with every viewer's jumps and stalls. */
export function wholeRecord(record: Experiment, run: StreamRun): IoRecord {
  const counters = object((record as unknown as Loose).counters);
  const series = object(counters.disks);
  const volume = new Set(run.disks.map((d) => d.disk));
  const disks = Object.fromEntries(
    Object.entries(series)
      .filter(([name]) => volume.has(name))
      .map(([name, d]) => [name, { read_bytes: numbers(object(d).read_bytes), reads: numbers(object(d).reads) }]),
  );
  const sum = (what: string): number[] =>
    numbers(counters.t_s).map((_, i) => run.system.disks.reduce((all, name) => all + (numbers(object(series[name])[what])[i] ?? 0), 0));
  return recordOf({
    session: record.id,
    started: record.started,
    ended: record.ended ?? record.started,
    attribution: "block_trace",
    read_bytes: run.disks.reduce((all, d) => all + d.total_bytes, 0),
    disks: run.disks.map((d) => ({ disk: d.disk, read_bytes: d.total_bytes, share: 0 })),
    seeks: run.streams.flatMap((s) =>
      s.jumps.map((j) => ({ at_s: j.at_s, from_byte: Math.round(j.from * 1e6), to_byte: Math.round(j.to * 1e6), disks_before: [], disks_after: [] })),
    ),
    stalls: run.streams.flatMap((s) => s.waits.filter((w) => w.stall).map((w) => ({ at_s: w.at_s, duration_s: w.duration_s, cause: `stream ${s.stream}` }))),
    series: {
      interval_ms: number(counters.interval_ms) || 1000,
      t_s: numbers(counters.t_s),
      disks,
      cpu_share: numbers(counters.cpu_share),
      system_disk: { read_bytes: sum("read_bytes"), write_bytes: sum("write_bytes") },
    },
  });
}
