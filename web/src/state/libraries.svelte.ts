/** The libraries and what is being scanned, kept fresh by the event stream. */

import { events } from "../api/events";
import * as routes from "../api/routes";
import type { Library, ScanEvent } from "../api/types";
import { toasts } from "./toasts.svelte";

/** Phases after which nothing more comes. */
const ENDED = new Set(["finished", "failed"]);

class Libraries {
  list = $state.raw<Library[]>([]);
  loaded = $state(false);
  /** By library id, while it is scanned. */
  scans = $state.raw<Record<string, ScanEvent>>({});
  /** Grows whenever items may have changed; views that list items follow it. */
  revision = $state(0);
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    events.on("scan", (event) => this.#scan(event));
    events.on("library", () => this.#changed());
    // Some events were lost: what they said has to be fetched.
    events.on("notice", () => this.#changed());
    events.on("connection", ({ up }) => {
      // What happened while the stream was down is not told again.
      if (up && this.loaded) this.#changed();
    });
  }

  async load(): Promise<void> {
    const result = await routes.libraries();
    if (result.kind !== "ok") return;
    this.list = result.value.items;
    this.loaded = true;
  }

  byId(id: string): Library | undefined {
    return this.list.find((library) => library.id === id);
  }

  scanning(id: string): boolean {
    return id in this.scans || (this.byId(id)?.scanning ?? false);
  }

  #scan(event: ScanEvent): void {
    const ended = ENDED.has(event.phase) || Boolean(event.report);
    const rest = { ...this.scans };
    if (ended) delete rest[event.library];
    else rest[event.library] = event;
    this.scans = rest;
    if (event.phase === "failed") {
      toasts.say(`The scan of ${this.byId(event.library)?.name ?? "a library"} failed. ${event.reason ?? ""}`, "bad");
    }
    this.#changed();
  }

  /** At most once a second: a scan reports far more often than a person reads. */
  #changed(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.revision += 1;
      void this.load();
    }, 1_000);
  }
}

export const libraries = new Libraries();
