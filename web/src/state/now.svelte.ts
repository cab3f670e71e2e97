/** How much plays at this moment, and the disks' rates per stream, from the event stream. */

import { events } from "../api/events";
import type { IoEvent } from "../api/types";

class Now {
  /** By session; a session that plays is in it also when nothing is read. */
  sessions = $state.raw<IoEvent["sessions"]>({});
  /** Grows when a session starts, changes or ends. */
  revision = $state(0);

  constructor() {
    events.on("io", (event) => {
      const before = Object.keys(this.sessions).length;
      this.sessions = event.sessions;
      if (Object.keys(event.sessions).length !== before) this.revision += 1;
    });
    events.on("session", () => (this.revision += 1));
  }

  get count(): number {
    return Object.keys(this.sessions).length;
  }
}

export const now = new Now();
