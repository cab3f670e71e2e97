/** A plain address given to `<video>`: files as they are, and HLS where the browser has its own. */

import { faultOfMedia } from "./catalogue";
import { Emitter } from "./emitter";
import type { Engine, EngineEvents } from "./engine";

export class FileEngine implements Engine {
  readonly events = new Emitter<EngineEvents>();
  #video: HTMLVideoElement | undefined;
  #stop = new AbortController();

  constructor(readonly name: "file" | "native hls") {}

  async attach(video: HTMLVideoElement, url: string, startS: number): Promise<void> {
    this.detach();
    this.#stop = new AbortController();
    this.#video = video;
    const { signal } = this.#stop;
    video.addEventListener("error", () => this.events.emit("fault", faultOfMedia(video.error)), { signal });
    if (startS > 0) {
      // Set once the length is known: earlier the browser may forget it.
      video.addEventListener("loadedmetadata", () => (video.currentTime = startS), { signal, once: true });
    }
    video.src = url;
    video.load();
  }

  restartLoading(): void {
    this.#reload();
  }

  recoverMedia(): void {
    this.#reload();
  }

  #reload(): void {
    const video = this.#video;
    if (!video) return;
    const at = video.currentTime;
    const paused = video.paused;
    video.addEventListener("loadedmetadata", () => (video.currentTime = at), {
      signal: this.#stop.signal,
      once: true,
    });
    video.load();
    if (!paused) void video.play().catch(() => undefined);
  }

  detach(): void {
    this.#stop.abort();
    if (!this.#video) return;
    this.#video.removeAttribute("src");
    // Drops the connection; without it the browser may read the file to its end.
    this.#video.load();
    this.#video = undefined;
  }

  destroy(): void {
    this.detach();
    this.events.clear();
  }
}
