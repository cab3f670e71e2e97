/** What every disk card needs of this second, shared down the stack without a row of props. */

import { getContext, setContext } from "svelte";
import type { DiskRate } from "../../api/types";
import type { Past } from "../../state/storage.svelte";

/** A stream that reads from a disk now. */
export interface StreamOn {
  session: string;
  title: string;
  bytes_per_s: number;
}

export interface Live {
  readonly rates: ReadonlyMap<string, DiskRate>;
  /** Of the last answer of the storage route: sleep, temperature, health. */
  readonly figures: ReadonlyMap<string, DiskRate>;
  readonly past: ReadonlyMap<string, Past>;
  readonly colours: ReadonlyMap<string, string>;
  readonly streams: ReadonlyMap<string, StreamOn[]>;
  /** Top of all small charts, so that they can be compared. */
  readonly top: number;
  /** Disk that is pointed at in one place and shown in all. */
  highlight: string | null;
}

const KEY = Symbol("live");

export const provideLive = (live: Live): Live => setContext(KEY, live);
export const useLive = (): Live => getContext<Live>(KEY);
