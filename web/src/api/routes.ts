/** The server's routes, one function each. */

import type { NetRow } from "./net";
import { apiUrl, call, type CallOptions, type Result } from "./client";
import { historyOf, homeOf, layoutOf, listOf, recordOf, sessionsOf, storageOf, unreadableOf, userOf } from "./shapes";
import { experimentOf, type Experiment, type ExperimentSummary } from "../lib/experiment";
import type {
  Client,
  DryRun,
  FailureReport,
  HistoryEntry,
  Home,
  Item,
  ItemDetail,
  Library,
  List,
  PlayRequest,
  PlayResponse,
  Preferences,
  Session,
  StorageReport,
  WatchState,
} from "./types";

type Signal = AbortSignal | undefined;

async function shaped<T>(
  path: string,
  shape: (value: unknown) => T,
  options?: CallOptions,
): Promise<Result<T>> {
  const result = await call<unknown>(path, options);
  return result.kind === "ok" ? { kind: "ok", value: shape(result.value) } : result;
}

const id = encodeURIComponent;

export interface Credentials {
  username: string;
  password: string;
}

export const setupNeeded = () => call<{ needed: boolean }>("/setup");
export const setup = (body: Credentials) =>
  shaped("/setup", userOf, { method: "POST", body });
export const login = (body: Credentials & { device?: string }) =>
  shaped("/auth/login", userOf, { method: "POST", body });
export const logout = () => call<void>("/auth/logout", { method: "POST" });
export const me = () => shaped("/auth/me", userOf);

export const libraries = (signal?: Signal) =>
  shaped("/libraries", (v) => listOf<Library>(v), { signal });
export const addLibrary = (body: { name: string; kind: string; path: string }) =>
  call<Library>("/libraries", { method: "POST", body });
export const renameLibrary = (library: string, name: string) =>
  call<Library>(`/libraries/${id(library)}`, { method: "PATCH", body: { name } });
export const removeLibrary = (library: string) =>
  call<void>(`/libraries/${id(library)}`, { method: "DELETE" });
export const scanLibrary = (library: string) =>
  call<void>(`/libraries/${id(library)}/scan`, { method: "POST" });
export const unreadable = (library: string, signal?: Signal) =>
  shaped(`/libraries/${id(library)}/unreadable`, unreadableOf, { query: { limit: 1000 }, signal });

/** The filters and order of `GET /items`. */
export interface ItemQuery {
  type?: string;
  library?: string;
  parent?: string;
  search?: string;
  genre?: string;
  watched?: boolean;
  year?: number;
  sort?: string;
  limit?: number;
  offset?: number;
}

export const items = (query: ItemQuery, signal?: Signal): Promise<Result<List<Item>>> =>
  shaped("/items", (v) => listOf<Item>(v), { query: { ...query }, signal });
export const item = (itemId: string, signal?: Signal) =>
  call<ItemDetail>(`/items/${id(itemId)}`, { signal });
export const layout = (itemId: string, version?: string, signal?: Signal) =>
  shaped(`/items/${id(itemId)}/layout`, layoutOf, { query: { version }, signal });
export const setState = (itemId: string, body: Partial<WatchState>) =>
  call<void>(`/items/${id(itemId)}/state`, { method: "PUT", body });
export const home = (signal?: Signal): Promise<Result<Home>> => shaped("/home", homeOf, { signal });

export const preferences = (signal?: Signal) => call<Preferences>("/preferences", { signal });
export const setPreferences = (body: Preferences) => call<Preferences>("/preferences", { method: "PUT", body });

export const play = (itemId: string, body: PlayRequest, signal?: Signal) =>
  call<PlayResponse>(`/items/${id(itemId)}/play`, { method: "POST", body, signal });
/** How an item would play on a client; nothing is opened. */
export const decide = (itemId: string, body: PlayRequest, signal?: Signal) =>
  call<DryRun>(`/items/${id(itemId)}/decide`, { method: "POST", body, signal });
/** The clients that are known by name. */
export const clients = (signal?: Signal): Promise<Result<List<Client>>> =>
  shaped("/clients", (v) => listOf<Client>(v), { signal });
/** Tells that a session could not be played; the answer is one that goes another way. */
export const failed = (session: string, body: FailureReport, signal?: Signal) =>
  call<PlayResponse>(`/sessions/${id(session)}/failed`, { method: "POST", body, signal });
export const progress = (
  session: string,
  body: { position_s: number; paused: boolean; buffered_s?: number },
  keepalive = false,
) => call<void>(`/sessions/${id(session)}/progress`, { method: "POST", body, keepalive });
export const endSession = (session: string, keepalive = false) =>
  call<void>(`/sessions/${id(session)}`, { method: "DELETE", keepalive });

export const sessions = (signal?: Signal): Promise<Result<Session[]>> =>
  shaped("/sessions", sessionsOf, { signal });
export const io = (session: string, signal?: Signal) =>
  shaped(`/sessions/${id(session)}/io`, recordOf, { signal });
export const history = (
  query: { limit?: number; offset?: number },
  signal?: Signal,
): Promise<Result<List<HistoryEntry>>> => shaped("/history", historyOf, { query, signal });
export const storage = (signal?: Signal): Promise<Result<StorageReport>> =>
  shaped("/storage", storageOf, { signal });

export const experiments = (signal?: Signal): Promise<Result<List<ExperimentSummary>>> =>
  shaped("/experiments", (v) => listOf<ExperimentSummary>(v), { signal });
export const experiment = (record: string, signal?: Signal): Promise<Result<Experiment>> =>
  shaped(`/experiments/${id(record)}`, experimentOf, { signal });
/** Keeps what this page has measured between itself and the server. */
export const keepNet = (rows: readonly NetRow[]) => call<ExperimentSummary>("/experiments", { method: "POST", body: { kind: "net", rows } });
export const removeExperiment = (record: string) => call<void>(`/experiments/${id(record)}`, { method: "DELETE" });

/** Address of an experiment's record to save: its rows as a table, or all of it. */
export const experimentUrl = (record: string, format: "csv" | "json") =>
  apiUrl(`/experiments/${id(record)}`, { format: format === "csv" ? "csv" : undefined });
/** The tables of a record. */
export type IoTable = "series" | "disks" | "events" | "trail";
/** Address of a session's I/O record to save: a table, or all of it. */
export const ioUrl = (session: string, format: "csv" | "json", table?: IoTable) =>
  apiUrl(`/sessions/${id(session)}/io`, { format: format === "csv" ? "csv" : undefined, table });
/** Address of an item's picture, resized by the server. */
export const imageUrl = (itemId: string, kind: string, width: number, tag?: string) =>
  apiUrl(`/items/${id(itemId)}/images/${kind}`, { width, tag });
