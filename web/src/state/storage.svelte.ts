/**
 * The volumes, and what their disks do: the tree now and then, the rates every second.
 *
 * The tree is asked for rarely, so that looking at the page is no work for the disks; rates come
 * with the event stream.
 */

import { problemText } from "../api/client";
import { events } from "../api/events";
import * as routes from "../api/routes";
import type { DiskRate, StorageReport } from "../api/types";
import { nodes } from "../lib/topology";

const TREE_EVERY_MS = 15_000;
/** A rebuild is followed more closely. */
const TREE_WHILE_SYNC_MS = 5_000;
/** Seconds of rates kept for the small charts. */
export const KEPT_S = 60;

export interface Past {
  read: number[];
  write: number[];
}

export class StorageFollower {
  report = $state.raw<StorageReport | null>(null);
  problem = $state<string | null>(null);
  rates = $state.raw<ReadonlyMap<string, DiskRate>>(new Map());
  past = $state.raw<ReadonlyMap<string, Past>>(new Map());
  #stop: (() => void) | undefined;

  start(): void {
    this.stop();
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async (): Promise<void> => {
      const result = await routes.storage(abort.signal);
      if (abort.signal.aborted) return;
      if (result.kind === "problem") this.problem = problemText(result.problem);
      if (result.kind === "ok") {
        this.problem = null;
        this.report = result.value;
        if (this.rates.size === 0) this.#note(result.value.disks);
      }
      // One timer, however many answers come: a notice asks out of turn.
      clearTimeout(timer);
      timer = setTimeout(() => void load(), this.#syncing() ? TREE_WHILE_SYNC_MS : TREE_EVERY_MS);
    };
    void load();
    const offs = [
      events.on("io", (event) => this.#note(event.disks)),
      // Something happened to a disk: what the tree says may be old.
      events.on("notice", () => void load()),
    ];
    this.#stop = () => {
      abort.abort();
      clearTimeout(timer);
      offs.forEach((off) => off());
    };
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  #syncing(): boolean {
    return (this.report?.volumes ?? []).some((v) => v.topology && [...nodes(v.topology.node)].some((n) => n.sync));
  }

  #note(disks: DiskRate[]): void {
    if (disks.length === 0) return;
    this.rates = new Map(disks.map((disk) => [disk.disk, disk]));
    const past = new Map(this.past);
    for (const disk of disks) {
      const before = past.get(disk.disk) ?? { read: [], write: [] };
      past.set(disk.disk, {
        read: [...before.read, disk.read_bytes_per_s].slice(-KEPT_S),
        write: [...before.write, disk.write_bytes_per_s ?? 0].slice(-KEPT_S),
      });
    }
    this.past = past;
  }
}
