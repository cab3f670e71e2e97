/** What this browser remembers: nothing the server needs to know. */

interface Stored {
  volume: number;
  muted: boolean;
  maxBitrate: number | null;
  ioOpen: boolean;
  sort: string;
  theme: "system" | "light" | "dark";
}

const KEY = "spindle.prefs";
const DEFAULTS: Stored = { volume: 1, muted: false, maxBitrate: null, ioOpen: false, sort: "title", theme: "system" };

function load(): Stored {
  try {
    return { ...DEFAULTS, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Stored>) };
  } catch {
    // No storage, or not ours: the defaults do.
    return { ...DEFAULTS };
  }
}

class Prefs {
  #value = $state.raw<Stored>(load());

  get value(): Stored {
    return this.#value;
  }

  set(change: Partial<Stored>): void {
    this.#value = { ...this.#value, ...change };
    try {
      localStorage.setItem(KEY, JSON.stringify(this.#value));
    } catch {
      // A private window without storage keeps it until it closes.
    }
  }
}

export const prefs = new Prefs();
