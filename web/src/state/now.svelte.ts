/** How much plays at this moment, and the disks' rates per stream, from the event stream. */

import { events } from "../api/events";
import type { IoEvent } from "../api/types";
import { toasts } from "./toasts.svelte";

/** Seconds that are kept. */
const KEPT = 60;

/** Something that happened to a disk while the page was open. */
export interface Happened {
  at: string;
  disk?: string;
  text: string;
}

class Now {
  /** By session; a session that plays is in it also when nothing is read. */
  sessions = $state.raw<IoEvent["sessions"]>({});
  /** The last minute, a second each, oldest first. */
  recent = $state.raw<IoEvent[]>([]);
  /** Newest first. */
  happened = $state.raw<Happened[]>([]);
  /** Grows when a session starts, changes or ends. */
  revision = $state(0);

  constructor() {
    events.on("io", (event) => {
      const before = Object.keys(this.sessions).length;
      this.sessions = event.sessions;
      this.recent = [...this.recent, event].slice(-KEPT);
      if (Object.keys(event.sessions).length !== before) this.revision += 1;
    });
    events.on("session", () => (this.revision += 1));
    events.on("notice", (notice) => {
      if (notice.code !== "disk" || !notice.text) return;
      toasts.say(notice.text, "bad");
      this.happened = [{ at: notice.at ?? new Date().toISOString(), disk: notice.disk, text: notice.text }, ...this.happened].slice(0, 20);
    });
  }

  get count(): number {
    return Object.keys(this.sessions).length;
  }
}

export const now = new Now();
