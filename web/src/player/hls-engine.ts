/** HLS by Media Source. The only file that knows hls.js; loaded when a stream first needs it. */

import Hls, { type ErrorData, type HlsConfig } from "hls.js";
import { faultOfHls } from "./catalogue";
import { Emitter } from "./emitter";
import type { Engine, EngineEvents } from "./engine";

const CONFIG: Partial<HlsConfig> = {
  // The policy of the page allows scripts of its own origin only, not of a blob.
  enableWorker: false,
  // Enough to ride out a disk that spins up (about 10 s), little enough that a seek wastes little.
  maxBufferLength: 40,
  maxMaxBufferLength: 60,
  backBufferLength: 30,
  // The server makes segments on demand and answers within 15 s, with an error if need be.
  fragLoadPolicy: {
    default: {
      maxTimeToFirstByteMs: 20_000,
      maxLoadTimeMs: 60_000,
      timeoutRetry: { maxNumRetry: 2, retryDelayMs: 500, maxRetryDelayMs: 2_000 },
      errorRetry: { maxNumRetry: 4, retryDelayMs: 500, maxRetryDelayMs: 4_000, backoff: "exponential" },
    },
  },
  // Text comes as WebVTT beside the stream; the page draws it.
  enableWebVTT: false,
  enableIMSC1: false,
  enableCEA708Captions: false,
};

export class HlsEngine implements Engine {
  readonly name = "hls.js" as const;
  readonly events = new Emitter<EngineEvents>();
  #hls: Hls | undefined;

  static supported(): boolean {
    return Hls.isSupported();
  }

  async attach(video: HTMLVideoElement, url: string, startS: number): Promise<void> {
    this.detach();
    const hls = new Hls({ ...CONFIG, startPosition: startS > 0 ? startS : -1 });
    this.#hls = hls;
    hls.on(Hls.Events.ERROR, (_, data: ErrorData) => {
      this.events.emit(
        "fault",
        faultOfHls({
          type: data.type,
          details: data.details,
          fatal: data.fatal,
          response: data.response,
          reason: data.reason ?? data.error?.message,
        }),
      );
    });
    hls.on(Hls.Events.FRAG_LOADED, () => {
      if (hls.bandwidthEstimate > 0) this.events.emit("bandwidth", { bps: hls.bandwidthEstimate });
    });
    hls.loadSource(url);
    hls.attachMedia(video);
  }

  restartLoading(): void {
    this.#hls?.startLoad();
  }

  recoverMedia(): void {
    this.#hls?.recoverMediaError();
  }

  detach(): void {
    this.#hls?.destroy();
    this.#hls = undefined;
  }

  destroy(): void {
    this.detach();
    this.events.clear();
  }
}
