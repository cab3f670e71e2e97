/** A long list fetched in pages as they come into view. */

import { problemText } from "../api/client";
import * as routes from "../api/routes";
import type { Item } from "../api/types";
import { pages } from "../lib/window";

const PAGE = 100;

export class PagedItems {
  total = $state<number | null>(null);
  problem = $state<string | null>(null);
  /** By place in the list; holes are not fetched yet. */
  items = $state.raw<ReadonlyMap<number, Item>>(new Map());
  #query: routes.ItemQuery = {};
  #asked = new Set<number>();
  #stop = new AbortController();
  #seen: [number, number] = [0, PAGE];

  /** Another list: what was fetched goes once the first page of the new one is here. */
  set(query: routes.ItemQuery): void {
    this.#query = query;
    this.#seen = [0, PAGE];
    this.#restart(true);
  }

  /** The same list, changed on the server: refetched where it is seen, without a blank. */
  refresh(): void {
    this.#restart(false);
  }

  /** Fetches what is missing between `first` and `end`. */
  see(first: number, end: number): void {
    this.#seen = [first, end];
    for (const page of pages(first, end, PAGE)) {
      if (!this.#asked.has(page)) void this.#fetch(page, false);
    }
  }

  stop(): void {
    this.#stop.abort();
  }

  #restart(fresh: boolean): void {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.#asked = new Set();
    const wanted = pages(this.#seen[0], Math.max(this.#seen[1], this.#seen[0] + 1), PAGE);
    let first = true;
    for (const page of wanted) {
      void this.#fetch(page, fresh && first);
      first = false;
    }
  }

  async #fetch(page: number, clear: boolean): Promise<void> {
    this.#asked.add(page);
    const { signal } = this.#stop;
    const result = await routes.items({ ...this.#query, limit: PAGE, offset: page * PAGE }, signal);
    if (signal.aborted || result.kind === "aborted") return;
    if (result.kind === "problem") {
      this.#asked.delete(page);
      this.problem = problemText(result.problem);
      return;
    }
    this.problem = null;
    this.total = result.value.total;
    const next = clear ? new Map<number, Item>() : new Map(this.items);
    for (const place of next.keys()) if (place >= result.value.total) next.delete(place);
    result.value.items.forEach((item, i) => next.set(page * PAGE + i, item));
    this.items = next;
  }
}
