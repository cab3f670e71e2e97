/** What carries a stream to the `<video>`: a plain address, or HLS by Media Source. */

import type { Emitter } from "./emitter";
import type { Fault } from "./catalogue";

export interface EngineEvents {
  fault: Fault;
  /** Bits a second of the path to the server, as far as the engine measures it. */
  bandwidth: { bps: number };
}

export interface Engine {
  readonly name: "file" | "hls.js" | "native hls";
  readonly events: Emitter<EngineEvents>;
  /** Takes the element, loads the address and stands at `startS`. */
  attach(video: HTMLVideoElement, url: string, startS: number): Promise<void>;
  /** Loads again from where it stopped. */
  restartLoading(): void;
  /** Rebuilds the decoder on the same source. */
  recoverMedia(): void;
  /** Lets the element go; `attach` may follow. */
  detach(): void;
  /** The end: nothing of it runs on. */
  destroy(): void;
}
