/** Streams × disks of the last minute: who reads from where, and how much of a disk's work is not ours. Pure. */

import type { IoEvent } from "../api/types";
import { byDisk } from "./hue";

export interface Matrix {
  /** Disks that were read in the time shown. */
  disks: string[];
  /** By session id, then by disk: bytes a second of each second shown. */
  streams: { session: string; cells: number[][] }[];
  /** What each disk read that no stream asked for. */
  others: number[][];
  peak: number;
}

/** From the seconds kept; sessions that have ended meanwhile are left out. */
export function matrixOf(recent: readonly IoEvent[], sessions: readonly string[]): Matrix {
  const wanted = new Set(sessions);
  const names = new Set<string>();
  for (const second of recent) {
    for (const [session, row] of Object.entries(second.sessions)) {
      if (wanted.has(session)) for (const [disk, rate] of Object.entries(row.disks)) if (rate > 0) names.add(disk);
    }
  }
  const disks = [...names].sort(byDisk);
  const streams = sessions.map((session) => ({
    session,
    cells: disks.map((disk) => recent.map((second) => second.sessions[session]?.disks[disk] ?? 0)),
  }));
  const others = disks.map((disk) =>
    recent.map((second) => {
      const all = second.disks.find((d) => d.disk === disk)?.read_bytes_per_s ?? 0;
      const ours = Object.values(second.sessions).reduce((sum, row) => sum + (row.disks[disk] ?? 0), 0);
      return Math.max(0, all - ours);
    }),
  );
  const peak = Math.max(1e6, ...streams.flatMap((s) => s.cells.flat()), ...others.flat());
  return { disks, streams, others, peak };
}

/** Mean of the last `n` seconds: a figure that can be read while it moves. */
export function lately(values: readonly number[], n = 5): number {
  const last = values.slice(-n);
  return last.length === 0 ? 0 : last.reduce((a, b) => a + b, 0) / last.length;
}
