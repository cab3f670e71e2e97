/**
 * Reads answers whose inner names the contract leaves open into the one shape that views use.
 *
 * Absent parts become empty, never a crash in a view: an older or newer server still shows.
 */

import type {
  Attribution,
  DiskRate,
  HistoryEntry,
  Home,
  IoRecord,
  IoTrail,
  Item,
  Layout,
  List,
  Method,
  Session,
  StorageReport,
  Striping,
  Topology,
  TopologyNode,
  Unreadable,
  User,
} from "./types";

type Loose = Record<string, unknown>;

const object = (value: unknown): Loose =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Loose) : {};
const text = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;
const number = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined;

/** `{items, total}`, or a bare array. */
export function listOf<T>(value: unknown): List<T> {
  if (Array.isArray(value)) return { items: value as T[], total: value.length };
  const { items, total } = object(value);
  const rows = Array.isArray(items) ? (items as T[]) : [];
  return { items: rows, total: number(total) ?? rows.length };
}

export function homeOf(value: unknown): Home {
  const home = object(value);
  return {
    continue_watching: listOf<Item>(home.continue_watching).items,
    next_up: listOf<Item>(home.next_up).items,
    recently_added: listOf<Item>(home.recently_added).items,
  };
}

/** The item of a session: an object, or an id with a title beside it. */
function itemRef(row: Loose): Session["item"] {
  const inner = object(row.item);
  const itemId = text(inner.id) ?? text(row.item) ?? "";
  return {
    ...(inner as Partial<Item>),
    id: itemId,
    title: text(inner.title) ?? text(row.title) ?? "Untitled",
  };
}

/** A name given as text or as an object with one. */
function nameOf(value: unknown): string {
  const inner = object(value);
  return text(value) ?? text(inner.name) ?? text(inner.username) ?? "";
}

/** Per-disk rates: `{sda: n}`, `{sda: {read_bytes_per_s: n}}` or a list of rows. */
export function ratesOf(value: unknown): Record<string, number> {
  const rates: Record<string, number> = {};
  if (Array.isArray(value)) {
    for (const entry of value) {
      const row = object(entry);
      const disk = text(row.disk);
      if (disk) rates[disk] = number(row.read_bytes_per_s) ?? 0;
    }
    return rates;
  }
  for (const [disk, rate] of Object.entries(object(value))) {
    rates[disk] = number(rate) ?? number(object(rate).read_bytes_per_s) ?? 0;
  }
  return rates;
}

export function sessionsOf(value: unknown): Session[] {
  return listOf<Loose>(value).items.map((row) => ({
    session: text(row.session) ?? text(row.id) ?? "",
    user: nameOf(row.user),
    client: nameOf(row.client),
    item: itemRef(row),
    method: (text(row.method) ?? "direct_play") as Method,
    reasons: Array.isArray(row.reasons) ? (row.reasons as Session["reasons"]) : [],
    started: text(row.started),
    bitrate_bps: number(row.bitrate_bps) ?? number(row.bitrate),
    position_s: number(row.position_s) ?? 0,
    duration_s: number(row.duration_s),
    paused: row.paused === true,
    buffered_s: number(row.buffered_s),
    predicted_stall_s: number(row.predicted_stall_s),
    disks: ratesOf(row.disks),
    verdict: text(object(row.io).verdict),
  }));
}

export function historyOf(value: unknown): List<HistoryEntry> {
  const { items, total } = listOf<Loose>(value);
  return {
    total,
    items: items.map((row) => {
      const summary = row.summary ?? row.io;
      const io = object(summary);
      const striping = object(io.striping);
      return {
        session: text(row.session) ?? text(row.id) ?? "",
        item: itemRef(row),
        user: text(row.user_name) ?? nameOf(row.user),
        client: nameOf(row.client),
        method: (text(row.method) ?? "direct_play") as Method,
        started: text(row.started) ?? "",
        ended: text(row.ended),
        position_s: number(row.position_s),
        io:
          summary === undefined || summary === null
            ? null
            : ({
                ...io,
                verdict: text(io.verdict) ?? text(striping.verdict),
                columns: number(io.columns) ?? number(striping.columns),
                columns_used: number(io.columns_used) ?? number(striping.columns_used),
              } as HistoryEntry["io"]),
      };
    }),
  };
}

/** A user as the server gives it, alone or inside an answer. */
export function userOf(value: unknown): User {
  const outer = object(value);
  const user = outer.user === undefined ? outer : object(outer.user);
  return { id: text(user.id) ?? "", name: nameOf(user), role: user.role === "user" ? "user" : "admin" };
}

/** Files that could not be read, with why. */
export function unreadableOf(value: unknown): List<Unreadable> {
  const { items, total } = listOf<Loose>(value);
  return {
    total,
    items: items.map((row) => ({ path: text(row.file) ?? text(row.path) ?? "", reason: text(row.reason) ?? "" })),
  };
}

/** Deeper than any stack that can be built; a cycle in an answer must not hang the page. */
const DEEPEST = 64;

function nodeOf(value: unknown, depth = 0): TopologyNode {
  const node = object(value);
  const children = Array.isArray(node.children) && depth < DEEPEST ? node.children : [];
  const sync = object(node.sync);
  const action = text(sync.action);
  return {
    ...(node as unknown as TopologyNode),
    kind: text(node.kind) ?? "unknown",
    name: text(node.name) ?? "",
    sync: action
      ? { action, done: number(sync.done) ?? 0, speed_bytes_s: number(sync.speed_bytes_s), remaining_s: number(sync.remaining_s) }
      : null,
    children: children.map((child) => nodeOf(child, depth + 1)),
  };
}

function tierOf(value: unknown): Topology["tier"] {
  const tier = object(value);
  const names = (of: unknown): string[] => (Array.isArray(of) ? of.filter((n): n is string => typeof n === "string") : []);
  const kind = text(tier.kind);
  return kind ? { kind, fast: names(tier.fast), slow: names(tier.slow), mode: text(tier.mode), state: text(tier.state) } : null;
}

function topologyOf(value: Loose): Topology | null {
  if (value.node === undefined || value.node === null) return null;
  const filesystem = object(value.filesystem);
  return {
    path: text(value.path) ?? "",
    filesystem: {
      kind: text(filesystem.kind) ?? "unknown",
      uuid: text(filesystem.uuid),
      mount: text(filesystem.mount) ?? "",
    },
    node: nodeOf(value.node),
    columns: number(value.columns) ?? 0,
    copies: number(value.copies) ?? 0,
    disks: Array.isArray(value.disks) ? value.disks.filter((d): d is string => typeof d === "string") : [],
    layout: text(value.layout) ?? "unknown",
    tier: tierOf(value.tier),
    advice: Array.isArray(value.advice) ? (value.advice as Topology["advice"]) : [],
  };
}

/** What each disk does: rows of the storage answer, or of the `io` event. */
export function diskRatesOf(value: unknown): DiskRate[] {
  return listOf<Loose>(value).items.flatMap((row) => {
    const disk = text(row.disk);
    if (!disk) return [];
    return [
      {
        disk,
        read_bytes_per_s: number(row.read_bytes_per_s) ?? 0,
        write_bytes_per_s: number(row.write_bytes_per_s),
        reads_per_s: number(row.reads_per_s),
        busy_share: number(row.busy_share),
        asleep: typeof row.asleep === "boolean" ? row.asleep : undefined,
        asleep_source: text(row.asleep_source),
        quiet_s: number(row.quiet_s),
        temperature_c: number(row.temperature_c),
        temperature_age_s: number(row.temperature_age_s),
        health: row.health === "ok" || row.health === "failing" || row.health === "unknown" ? row.health : undefined,
        health_why: text(row.health_why),
      },
    ];
  });
}

export function storageOf(value: unknown): StorageReport {
  const report = object(value);
  const rows = listOf<Loose>(report.volumes ?? value).items;
  const attribution = object(report.attribution);
  const mode = text(attribution.mode);
  return {
    volumes: rows.flatMap((row) => {
      const inner = row.topology === undefined ? row : object(row.topology);
      const topology = topologyOf(inner);
      const error = text(row.why) ?? text(row.error);
      const libraries = Array.isArray(row.libraries) ? row.libraries : [row.name ?? row.library];
      return libraries.map((library) => ({
        library: text(object(library).id) ?? text(row.library) ?? nameOf(library),
        name: nameOf(library),
        path: text(object(library).path) ?? topology?.path ?? "",
        topology,
        error,
        age_s: number(row.age_s),
      }));
    }),
    disks: diskRatesOf(report.disks),
    attribution: mode ? { mode: mode as Attribution, why: text(attribution.why) } : undefined,
  };
}

const rowsOf = (value: unknown): Loose[] => (Array.isArray(value) ? value.map(object) : []);

/** A file's map; one without its runs still has its sums. */
export function layoutOf(value: unknown): Layout {
  const layout = object(value);
  return {
    file: text(layout.file) ?? "",
    size_bytes: number(layout.size_bytes) ?? 0,
    exact: layout.exact === true,
    why_inexact: text(layout.why_inexact),
    extents: Array.isArray(layout.extents) ? (layout.extents as Layout["extents"]) : [],
    per_disk: Array.isArray(layout.per_disk) ? (layout.per_disk as Layout["per_disk"]) : [],
    fragments: number(layout.fragments) ?? 0,
    evenness: number(layout.evenness) ?? 0,
    via: text(layout.via),
    truncated: layout.truncated ? (layout.truncated as Layout["truncated"]) : undefined,
    candidates: Array.isArray(layout.candidates) ? (layout.candidates as string[]) : [],
    special: object(layout.special) as Layout["special"],
  };
}

/** An I/O record; parts that a server of another age does not send are empty. */
export function recordOf(value: unknown): IoRecord {
  const record = object(value);
  const series = object(record.series);
  return {
    ...(record as unknown as IoRecord),
    session: text(record.session) ?? "",
    attribution: (text(record.attribution) ?? "none") as Attribution,
    served_bytes: number(record.served_bytes) ?? 0,
    read_bytes: number(record.read_bytes) ?? 0,
    cached_bytes: number(record.cached_bytes) ?? 0,
    input_bytes: number(record.input_bytes) ?? 0,
    input_cached_bytes: number(record.input_cached_bytes) ?? 0,
    unattributed_bytes: number(record.unattributed_bytes) ?? 0,
    disks: Array.isArray(record.disks) ? (record.disks as IoRecord["disks"]) : [],
    seeks: Array.isArray(record.seeks) ? (record.seeks as IoRecord["seeks"]) : [],
    stalls: Array.isArray(record.stalls) ? (record.stalls as IoRecord["stalls"]) : [],
    faults: rowsOf(record.faults).map((row) => ({
      at_s: number(row.at_s) ?? 0,
      disk: text(row.disk) ?? "",
      what: text(row.what) ?? "it failed",
    })),
    attribution_spans: rowsOf(record.attribution_spans).flatMap((row) => {
      const attribution = text(row.attribution);
      const from = number(row.from_s);
      return attribution && from !== undefined
        ? [{ from_s: from, to_s: number(row.to_s) ?? from, attribution: attribution as Attribution, why: text(row.why) }]
        : [];
    }),
    series: {
      interval_ms: number(series.interval_ms) ?? 1000,
      t_s: Array.isArray(series.t_s) ? (series.t_s as number[]) : [],
      disks: object(series.disks) as IoRecord["series"]["disks"],
      cpu_share: Array.isArray(series.cpu_share) ? (series.cpu_share as number[]) : undefined,
      system_disk: series.system_disk ? (series.system_disk as IoRecord["series"]["system_disk"]) : undefined,
    },
    striping: stripingOf(record.striping),
    trail: trailOf(record.trail),
  };
}

function stripingOf(value: unknown): Striping | null {
  const striping = object(value);
  const columns = number(striping.columns);
  if (columns === undefined) return null;
  const shares = Array.isArray(striping.copy_shares) ? striping.copy_shares.filter((n): n is number => typeof n === "number") : undefined;
  return {
    columns,
    columns_used: number(striping.columns_used) ?? 0,
    evenness: number(striping.evenness) ?? 0,
    verdict: text(striping.verdict) ?? "",
    level: text(striping.level),
    copies: number(striping.copies),
    copies_used: number(striping.copies_used),
    copy_shares: shares,
    chunk_bytes: number(striping.chunk_bytes),
    mean_request_bytes: number(striping.mean_request_bytes),
    cache_share: number(striping.cache_share),
    advice: Array.isArray(striping.advice)
      ? rowsOf(striping.advice).flatMap((row) => {
          const words = text(row.text);
          return words ? [{ code: text(row.code) ?? "", text: words }] : [];
        })
      : undefined,
  };
}

function trailOf(value: unknown): IoTrail | undefined {
  const trail = object(value);
  const size = number(trail.file_bytes);
  if (size === undefined || size <= 0) return undefined;
  const runs = rowsOf(trail.runs).flatMap((row) => {
    const at = number(row.from_s);
    const from = number(row.from_byte);
    const to = number(row.to_byte);
    if (at === undefined || from === undefined || to === undefined || to <= from) return [];
    return [{ from_s: at, to_s: number(row.to_s) ?? at, from_byte: from, to_byte: to, read_bytes: number(row.read_bytes) ?? to - from, copy: number(row.copy), memory: row.memory === true }];
  });
  runs.sort((a, b) => a.from_s - b.from_s);
  return { file_bytes: size, interval_ms: number(trail.interval_ms) ?? 1000, gap_bytes: number(trail.gap_bytes) ?? 0, runs };
}
