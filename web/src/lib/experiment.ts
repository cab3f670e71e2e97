/** Records of experiments as they are drawn: rows, scales and words. Pure. */

import { bytes, latency, rate } from "./format";

export type ExperimentKind = "corners" | "blocks" | "copy" | "net" | "stream";

/** A volume in few words. */
export interface VolumeSummary {
  filesystem: string;
  mount?: string;
  kind: string;
  level?: string;
  layout: string;
  columns: number;
  copies: number;
  disks: string[];
  rotational?: boolean;
}

export interface ExperimentSummary {
  id: string;
  kind?: ExperimentKind;
  started?: string;
  ended?: string;
  interrupted?: string;
  path?: string;
  to?: string;
  topology?: VolumeSummary;
  verdict: string;
  unreadable?: string;
}

export type ExperimentRow = Record<string, unknown>;

interface DiskLoad {
  disk: string;
  read_bytes_per_s: number;
  write_bytes_per_s: number;
  requests_per_s: number;
}

export interface Machine {
  kernel?: string;
  cpus?: number;
  memory_bytes?: number;
  before?: { load_1m?: number; io_pressure_10s?: number };
  after?: { load_1m?: number; io_pressure_10s?: number };
  others_before?: DiskLoad[];
  others_during?: DiskLoad[];
}

/** Rates over time: the whole copy, and what each disk did meanwhile. */
export interface CopySeries {
  t_s: number[];
  bytes_per_s: number[];
  disks: Record<string, { read_bytes_per_s: number[]; write_bytes_per_s: number[] }>;
}

/** Where a rate falls for good. */
export interface Knee {
  at_s: number;
  after_bytes: number;
  before_bytes_per_s: number;
  after_bytes_per_s: number;
}

export interface Experiment extends ExperimentSummary {
  version: number;
  kind: ExperimentKind;
  to_topology?: VolumeSummary;
  machine: Machine;
  notes: string[];
  rows: ExperimentRow[];
  series?: CopySeries;
  knee?: Knee;
}

export const KIND_NAMES: Record<ExperimentKind, string> = {
  corners: "Corners",
  blocks: "Block sizes",
  copy: "Copy",
  net: "Network",
  stream: "Streams",
};

/** What each experiment measures, in a sentence, and the command that runs it. */
export const KIND_TEXTS: Record<ExperimentKind, { text: string; command: string }> = {
  corners: { text: "Small and large requests, in order and anywhere, one at a time and 32 at once.", command: "spindle bench corners PATH" },
  blocks: { text: "One reader and one writer, with blocks from 4 KiB to 16 MiB.", command: "spindle bench blocks PATH" },
  copy: { text: "From one volume to another, with what each disk did meanwhile.", command: "spindle bench copy FROM TO" },
  net: { text: "Between this device and the server, one connection and many, both ways.", command: "spindle bench net URL" },
  stream: { text: "Streams as players ask for them, with the disks that served them.", command: "spindle bench stream PATH" },
};

const PATTERNS: Record<string, string> = {
  sequential_read_1_block: "One block, in order, read",
  random_read_4k: "4 KiB anywhere, read",
  random_write_4k: "4 KiB anywhere, write",
  sequential_read_512k: "512 KiB in order, read",
  sequential_write_512k: "512 KiB in order, write",
};

export const patternName = (name: string): string => PATTERNS[name] ?? name.replaceAll("_", " ");

/** A number of a row; absent and odd ones are nothing. */
export function num(row: ExperimentRow, name: string): number | undefined {
  const value = row[name];
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

export function str(row: ExperimentRow, name: string): string {
  const value = row[name];
  return typeof value === "string" ? value : "";
}

/** A block size as people write it: binary units, whole where they are. */
export function blockSize(value: number): string {
  if (value >= 1 << 20) return `${trim(value / (1 << 20))} MiB`;
  if (value >= 1024) return `${trim(value / 1024)} KiB`;
  return `${value} B`;
}

const trim = (value: number): string => String(Math.round(value * 10) / 10);

/** Requests a second. */
export function iops(value: number | undefined): string {
  if (value === undefined) return "–";
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

/** One cell of the corners' table: the figure of its pattern, and what stands beside it. */
export interface Corner {
  value: number;
  text: string;
  unit: string;
  more: string;
}

export interface CornerLine {
  pattern: string;
  /** By queue depth. */
  cells: Map<number, Corner>;
}

/** The corners as a table: a line a pattern, a column a depth. */
export function cornerTable(rows: ExperimentRow[]): { depths: number[]; lines: CornerLine[] } {
  const lines = new Map<string, CornerLine>();
  const depths = new Set<number>();
  for (const row of rows) {
    const pattern = str(row, "pattern");
    const depth = num(row, "depth");
    if (pattern === "" || depth === undefined) continue;
    depths.add(depth);
    const byBytes = str(row, "figure") === "bytes_per_s";
    const value = num(row, byBytes ? "bytes_per_s" : "iops") ?? 0;
    const line = lines.get(pattern) ?? { pattern, cells: new Map<number, Corner>() };
    line.cells.set(depth, {
      value,
      text: byBytes ? (value / 1e6).toFixed(value >= 1e8 ? 0 : 1) : iops(value),
      unit: byBytes ? "MB/s" : "IOPS",
      more: `half within ${latency(num(row, "p50_us"))}, 99 of 100 within ${latency(num(row, "p99_us"))}`,
    });
    lines.set(pattern, line);
  }
  return { depths: [...depths].sort((a, b) => a - b), lines: [...lines.values()] };
}

/** A line of a chart. */
export interface Line {
  label: string;
  colour: string;
  dashed?: boolean;
  points: { x: number; y: number }[];
}

/** The sweep over block sizes: a line a direction, x is the size's exponent of two. */
export function blockLines(rows: ExperimentRow[], prefix = ""): Line[] {
  const lines: Line[] = [];
  for (const [op, colour] of [["read", "var(--disk-0)"], ["write", "var(--disk-1)"]] as const) {
    const points = rows
      .filter((row) => str(row, "op") === op && (num(row, "block_bytes") ?? 0) > 0)
      .map((row) => ({ x: Math.log2(num(row, "block_bytes") ?? 1), y: (num(row, "bytes_per_s") ?? 0) / 1e6 }))
      .sort((a, b) => a.x - b.x);
    if (points.length > 0) lines.push({ label: prefix + op, colour, points });
  }
  return lines;
}

/** Whether a copy took long enough to be a line: one point is none. */
export function isCurve(series: CopySeries | undefined): series is CopySeries {
  return Array.isArray(series?.t_s) && series.t_s.length >= 2;
}

/** A copy over time in MB/s: the copy itself. */
export function copyLine(series: CopySeries | undefined, colour = "var(--text)"): Line[] {
  if (!series || !Array.isArray(series.t_s)) return [];
  return [{ label: "the copy", colour, points: series.t_s.map((x, i) => ({ x, y: (series.bytes_per_s?.[i] ?? 0) / 1e6 })) }];
}

/** And each disk's reads (dashed) and writes; lines that never rise are left out. */
export function diskLines(series: CopySeries | undefined, colours: ReadonlyMap<string, string>): Line[] {
  const lines: Line[] = [];
  for (const [disk, row] of Object.entries(series?.disks ?? {})) {
    for (const [what, values] of [["reads", row.read_bytes_per_s], ["writes", row.write_bytes_per_s]] as const) {
      if (!Array.isArray(values) || !values.some((v) => v > 0)) continue;
      lines.push({
        label: `${disk} ${what}`,
        colour: colours.get(disk) ?? "var(--soft)",
        dashed: what === "reads",
        points: values.map((v, i) => ({ x: series?.t_s[i] ?? i, y: v / 1e6 })),
      });
    }
  }
  return lines;
}

/** Round steps from 0 to at least `max`, at most `most` of them. */
export function ticks(max: number, most = 5): number[] {
  if (!(max > 0) || !Number.isFinite(max)) return [0, 1];
  const rough = max / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const out: number[] = [];
  for (let i = 0; i <= Math.ceil(max / step - 1e-9); i += 1) out.push(Number((i * step).toPrecision(12)));
  return out;
}

/** A text in lines of at most so many characters, broken between words; a word that is longer stays whole. */
export function wrapped(text: string, most: number): string[] {
  const out: string[] = [];
  for (const word of text.split(" ")) {
    const last = out.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= most) out[out.length - 1] = `${last} ${word}`;
    else out.push(word);
  }
  return out;
}

/** A cell of the plain table under every picture. */
export function cellText(name: string, value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") {
    if (name.endsWith("bytes_per_s")) return rate(value);
    if (name === "block_bytes") return blockSize(value);
    if (name.endsWith("_bytes") || name === "bytes") return bytes(value);
    if (name.endsWith("_us")) return latency(value);
    if (name.endsWith("_share")) return `${Math.round(value * 100)} %`;
    if (name === "iops") return iops(value);
    return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(2);
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** The columns of rows, each once, in the order in which they appear. */
export function columnsOf(rows: ExperimentRow[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

/** `btrfs raid1, 2 columns, 2 copies`. */
export function volumeText(volume: VolumeSummary | undefined): string {
  if (!volume) return "";
  const on = volume.kind === volume.filesystem || volume.kind === "" ? "" : ` on ${volume.kind}`;
  const level = volume.level ? ` ${volume.level}` : "";
  const many = (n: number, one: string, more: string) => `${n} ${n === 1 ? one : more}`;
  return `${volume.filesystem}${on}${level}, ${many(volume.columns, "column", "columns")}, ${many(volume.copies, "copy", "copies")}`;
}

/** The highest values of records that stand side by side: of lines and flows, and of each pattern's bars. */
export function topsOf(records: readonly Experiment[]): { top?: number; tops: Map<string, number> } {
  const tops = new Map<string, number>();
  let top = 0;
  for (const record of records) {
    for (const line of cornerTable(record.rows).lines) {
      for (const cell of line.cells.values()) tops.set(line.pattern, Math.max(tops.get(line.pattern) ?? 0, cell.value));
    }
    const lines = record.kind === "copy" ? [...copyLine(record.series), ...diskLines(record.series, new Map())] : record.kind === "blocks" ? blockLines(record.rows) : [];
    for (const point of lines.flatMap((l) => l.points)) top = Math.max(top, point.y);
    if (record.kind === "net") for (const row of record.rows) top = Math.max(top, num(row, "bytes_per_s") ?? 0);
  }
  return { top: top > 0 ? top : undefined, tops };
}

const loose = (value: unknown): Record<string, unknown> => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {});

/** An answer as a record: absent parts become empty, never a crash in the view. */
export function experimentOf(value: unknown): Experiment {
  const row = loose(value);
  return {
    ...(row as unknown as Experiment),
    kind: (typeof row.kind === "string" && row.kind in KIND_NAMES ? row.kind : "stream") as ExperimentKind,
    verdict: typeof row.verdict === "string" ? row.verdict : "",
    machine: loose(row.machine) as Machine,
    notes: Array.isArray(row.notes) ? row.notes.map(String) : [],
    rows: Array.isArray(row.rows) ? row.rows.map(loose) : [],
  };
}
