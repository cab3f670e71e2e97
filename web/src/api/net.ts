/**
 * Bytes between this page and the server, both ways: the server's side is `GET` and `POST /experiments/net`.
 *
 * Here and not in a view, because nothing else asks the network for anything.
 */

import { apiUrl } from "./client";

export type Direction = "down" | "up";

/** As the server keeps it. */
export interface NetRow extends Record<string, unknown> {
  direction: Direction;
  connections: number;
  bytes: number;
  seconds: number;
  bytes_per_s: number;
  bits_per_s: number;
}

/** What one request carries up: acknowledged as a whole, so small enough for a slow network and large enough for a fast one. */
const UP_BYTES = 4 << 20;

/**
 * Runs one direction over so many connections for so long. `told` gets bytes a second so far. A browser opens six connections to
 * a server at most, and the event stream holds one.
 */
export async function measure(
  direction: Direction,
  connections: number,
  seconds: number,
  signal: AbortSignal,
  told: (bytes_per_s: number) => void,
): Promise<NetRow> {
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  let bytes = 0;
  let began = 0;
  const count = (n: number) => {
    // From the first byte on: how long a connection takes to open is another question.
    if (began === 0) began = performance.now();
    else bytes += n;
    told((bytes * 1000) / Math.max(1, performance.now() - began));
  };
  const ends = () => began > 0 && performance.now() - began >= seconds * 1000;
  const one = direction === "down" ? () => down(seconds, both, count, ends) : () => up(both, count, ends);
  const timer = setTimeout(() => stop.abort(), seconds * 1000 + 10_000);
  try {
    await Promise.all(Array.from({ length: connections }, one));
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
  signal.throwIfAborted();
  const took = Math.max(0.001, (performance.now() - began) / 1000);
  const bytes_per_s = bytes / took;
  return { direction, connections, bytes, seconds: took, bytes_per_s, bits_per_s: bytes_per_s * 8 };
}

async function down(seconds: number, signal: AbortSignal, count: (n: number) => void, ends: () => boolean): Promise<void> {
  const response = await fetch(apiUrl("/experiments/net", { seconds: Math.ceil(seconds) + 5 }), { credentials: "same-origin", signal, cache: "no-store" });
  if (!response.ok || !response.body) throw new Error(await said(response));
  const reader = response.body.getReader();
  while (!ends()) {
    const { done, value } = await reader.read();
    if (done) break;
    count(value.byteLength);
  }
  await reader.cancel();
}

async function up(signal: AbortSignal, count: (n: number) => void, ends: () => boolean): Promise<void> {
  const noise = new Uint8Array(UP_BYTES);
  for (let at = 0; at < UP_BYTES; at += 65_536) crypto.getRandomValues(noise.subarray(at, at + 65_536));
  const body = new Blob([noise]);
  while (!ends()) {
    const response = await fetch(apiUrl("/experiments/net"), {
      method: "POST",
      credentials: "same-origin",
      headers: { "X-Spindle": "1", "Content-Type": "application/octet-stream" },
      body,
      signal,
    });
    if (!response.ok) throw new Error(await said(response));
    await response.json();
    count(UP_BYTES);
  }
}

/** The server's own words, where it has some. */
async function said(response: Response): Promise<string> {
  try {
    const { detail } = (await response.json()) as { detail?: unknown };
    if (typeof detail === "string") return detail;
  } catch {
    // A body that is none says no more than the status does.
  }
  return `the server answered ${response.status}`;
}
