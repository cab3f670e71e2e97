/** The server's event stream, typed and reconnecting. */

import { apiUrl } from "./client";
import { diskRatesOf, ratesOf } from "./shapes";
import type { IoEvent, ScanEvent } from "./types";

export interface EventMap {
  scan: ScanEvent;
  library: { revision: number };
  session: Record<string, unknown>;
  io: IoEvent;
  notice: { code?: string; text?: string; disk?: string; at?: string };
  /** Not of the server: whether the stream is up. */
  connection: { up: boolean };
}

type Handler<K extends keyof EventMap> = (event: EventMap[K]) => void;

const NAMES = ["scan", "library", "session", "io", "notice"] as const;
/** First and longest wait before a broken stream is opened again, in milliseconds. */
const RETRY_FIRST_MS = 1_000;
const RETRY_LONGEST_MS = 30_000;

export class Events {
  readonly #handlers = new Map<keyof EventMap, Set<Handler<never>>>();
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #waitMs = RETRY_FIRST_MS;

  on<K extends keyof EventMap>(name: K, handler: Handler<K>): () => void {
    let set = this.#handlers.get(name);
    if (!set) this.#handlers.set(name, (set = new Set()));
    set.add(handler as Handler<never>);
    return () => set.delete(handler as Handler<never>);
  }

  open(): void {
    if (this.#source) return;
    const source = new EventSource(apiUrl("/events"));
    this.#source = source;
    source.onopen = () => {
      this.#waitMs = RETRY_FIRST_MS;
      this.#emit("connection", { up: true });
    };
    source.onerror = () => {
      this.#emit("connection", { up: false });
      // The browser retries by itself unless the server refused; then it is up to us.
      if (source.readyState !== EventSource.CLOSED) return;
      this.#source = undefined;
      this.#retry = setTimeout(() => this.open(), this.#waitMs);
      this.#waitMs = Math.min(this.#waitMs * 2, RETRY_LONGEST_MS);
    };
    for (const name of NAMES) {
      source.addEventListener(name, (event: MessageEvent<string>) => this.#receive(name, event.data));
    }
  }

  close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
  }

  #receive(name: (typeof NAMES)[number], data: string): void {
    let value: unknown;
    try {
      value = JSON.parse(data);
    } catch {
      // One broken event is not worth a broken page; the next one or a reload brings the state.
      return;
    }
    if (typeof value !== "object" || value === null) return;
    if (name === "io") {
      const sessions: IoEvent["sessions"] = {};
      const told = value as { sessions?: Record<string, { disks?: unknown }>; rates?: unknown; disks?: unknown };
      const rows = told.sessions ?? {};
      for (const [session, row] of Object.entries(rows)) sessions[session] = { disks: ratesOf(row.disks) };
      const disks = Array.isArray(told.rates)
        ? diskRatesOf(told.rates)
        : Object.entries(ratesOf(told.disks)).map(([disk, read_bytes_per_s]) => ({ disk, read_bytes_per_s }));
      this.#emit("io", { sessions, disks });
      return;
    }
    this.#emit(name, value as never);
  }

  #emit<K extends keyof EventMap>(name: K, event: EventMap[K]): void {
    for (const handler of this.#handlers.get(name) ?? []) (handler as Handler<K>)(event);
  }
}

/** The page's one stream. */
export const events = new Events();
