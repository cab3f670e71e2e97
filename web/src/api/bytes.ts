/** A file of the server as bytes, no more than are asked for. */

import type { Result } from "./client";

/** Fetches `url`; a file of more than `maxBytes` is a problem, and is not read to its end. */
export async function bytes(url: string, maxBytes: number, signal: AbortSignal): Promise<Result<Uint8Array<ArrayBuffer>>> {
  try {
    const response = await fetch(url, { credentials: "same-origin", signal });
    if (!response.ok || !response.body) return { kind: "problem", problem: { status: response.status, title: "The file cannot be had." } };
    const pieces: Uint8Array[] = [];
    let length = 0;
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      length += value.byteLength;
      if (length > maxBytes) {
        await reader.cancel();
        return { kind: "problem", problem: { status: 0, title: "The file is too large.", local: true } };
      }
      pieces.push(value);
    }
    const whole = new Uint8Array(length);
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.byteLength;
    }
    return { kind: "ok", value: whole };
  } catch {
    if (signal.aborted) return { kind: "aborted" };
    return { kind: "problem", problem: { status: 0, title: "The server does not answer." } };
  }
}

/** Whether the server has the file; it has it at hand then, for who fetches it next. */
export async function isThere(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await fetch(url, { method: "HEAD", credentials: "same-origin", signal })).ok;
  } catch {
    return false;
  }
}
