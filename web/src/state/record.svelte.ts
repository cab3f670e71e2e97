/** Follows the I/O record of one session, once a second while it runs, and keeps the last one. */

import { problemText } from "../api/client";
import * as routes from "../api/routes";
import type { IoRecord } from "../api/types";

const EVERY_MS = 1_000;
/** After the end the server may still add the last reads. */
const AFTER_END = 2;

export class RecordFollower {
  record = $state.raw<IoRecord | null>(null);
  problem = $state<string | null>(null);
  /** There is none, and there will be none. */
  missing = $state(false);
  #stop: AbortController | undefined;

  get live(): boolean {
    return this.record !== null && !this.record.ended;
  }

  follow(session: string): void {
    this.stop();
    const stop = new AbortController();
    this.#stop = stop;
    void this.#run(session, stop.signal);
  }

  stop(): void {
    this.#stop?.abort();
    this.#stop = undefined;
  }

  async #run(session: string, signal: AbortSignal): Promise<void> {
    let afterEnd = 0;
    while (!signal.aborted && afterEnd < AFTER_END) {
      const result = await routes.io(session, signal);
      if (signal.aborted) return;
      if (result.kind === "ok") {
        this.record = result.value;
        this.problem = null;
        if (result.value.ended) afterEnd += 1;
      } else if (result.kind === "problem") {
        // The last record stays on screen; only a record never seen is a problem to show.
        if (!this.record) {
          this.problem = problemText(result.problem);
          this.missing = result.problem.status === 404;
        }
        if (result.problem.status === 404 && this.record) return;
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }
}
