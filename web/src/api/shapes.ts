/**
 * Reads answers whose inner names the contract leaves open into the one shape that views use.
 *
 * Absent parts become empty, never a crash in a view: an older or newer server still shows.
 */

import type {
  DiskRate,
  HistoryEntry,
  Home,
  Item,
  List,
  Method,
  Session,
  StorageReport,
  Topology,
  Unreadable,
  User,
  Volume,
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

export function storageOf(value: unknown): StorageReport {
  const report = object(value);
  const rows = listOf<Loose>(report.volumes ?? value).items;
  const volumes: Volume[] = rows.map((row) => {
    const inner = row.topology === undefined ? row : object(row.topology);
    const libraries = Array.isArray(row.libraries) ? row.libraries : [row.name ?? row.library];
    return {
      libraries: libraries.map(nameOf).filter((name) => name !== ""),
      topology: inner.node === undefined ? null : (inner as unknown as Topology),
      error: text(row.why) ?? text(row.error),
    };
  });
  const disks = listOf<DiskRate>(report.disks).items;
  return { volumes, disks };
}
