/** Subtitles that are pictures, drawn over the film by the page. */

import { bytes } from "../api/bytes";
import type { OriginalSubtitle } from "../api/types";
import { pgs } from "./pgs";
import { changeAt, type PictureTrack, type Screen } from "./picture";
import type { SubtitleView } from "./view";
import { vobsub } from "./vobsub";

/** The server's limit. */
const MAX_BYTES = 96 << 20;

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Where the film is in its element, which shows it whole. */
export function pictureBox(element: { width: number; height: number }, film: { width: number; height: number }): Box {
  const scale = Math.min(element.width / film.width, element.height / film.height);
  const width = film.width * scale, height = film.height * scale;
  return { left: (element.width - width) / 2, top: (element.height - height) / 2, width, height };
}

/**
 * Where the screen of the subtitles goes: over the film, and as wide. One of square pixels keeps its shape about the film's
 * middle: a film whose bars were cut off has subtitles that were made for it with them.
 */
export function screenBox(film: Box, screen: { width: number; height: number }, squarePixels: boolean): Box {
  if (!squarePixels) return film;
  const height = (film.width * screen.height) / screen.width;
  return { ...film, top: film.top + (film.height - height) / 2, height };
}

export class Pictures implements SubtitleView {
  readonly #stop = new AbortController();
  readonly #canvas = document.createElement("canvas");
  #track: PictureTrack | undefined;
  #shown = -1;
  #screen: Screen | undefined;
  #frame = 0;
  #placed = "";

  constructor(
    private readonly video: HTMLVideoElement,
    original: OriginalSubtitle,
    private offsetS: number,
    private readonly failed: () => void,
  ) {
    const { style, dataset } = this.#canvas;
    style.position = "absolute";
    style.pointerEvents = "none";
    dataset["testid"] = "subtitle-canvas";
    video.after(this.#canvas);
    void this.#start(original);
  }

  async #start(original: OriginalSubtitle): Promise<void> {
    const { signal } = this.#stop;
    const file = await bytes(original.url, MAX_BYTES, signal);
    if (signal.aborted || file.kind === "aborted") return;
    if (file.kind === "ok") this.#track = original.format === "pgs" ? pgs(file.value) : vobsub(file.value);
    if (!this.#track || this.#track.times.length === 0) {
      this.failed();
      return;
    }
    const step = () => {
      this.#frame = requestAnimationFrame(step);
      this.#show();
    };
    step();
  }

  #show(): void {
    const track = this.#track;
    if (!track) return;
    const n = changeAt(track.times, this.video.currentTime - this.offsetS);
    if (n !== this.#shown) {
      this.#shown = n;
      this.#draw(n < 0 ? undefined : track.screen(n));
    }
    this.#place(track.squarePixels);
  }

  #draw(screen: Screen | undefined): void {
    const canvas = this.#canvas;
    if (screen && (canvas.width !== screen.width || canvas.height !== screen.height)) {
      canvas.width = screen.width;
      canvas.height = screen.height;
    }
    if (screen) this.#screen = screen;
    const pen = canvas.getContext("2d");
    pen?.clearRect(0, 0, canvas.width, canvas.height);
    for (const one of screen?.pictures ?? []) {
      pen?.putImageData(new ImageData(one.rgba, one.width, one.height), one.x, one.y);
    }
  }

  /** Over the film, wherever that is now. */
  #place(squarePixels: boolean): void {
    const { video } = this;
    const screen = this.#screen;
    if (!screen || video.videoWidth === 0) return;
    const facts = [video.offsetLeft, video.offsetTop, video.clientWidth, video.clientHeight, video.videoWidth, video.videoHeight, screen.width, screen.height].join();
    if (facts === this.#placed) return;
    this.#placed = facts;
    const film = pictureBox({ width: video.clientWidth, height: video.clientHeight }, { width: video.videoWidth, height: video.videoHeight });
    const box = screenBox(film, screen, squarePixels);
    const { style } = this.#canvas;
    style.left = `${video.offsetLeft + box.left}px`;
    style.top = `${video.offsetTop + box.top}px`;
    style.width = `${box.width}px`;
    style.height = `${box.height}px`;
  }

  shift(offsetS: number): void {
    this.offsetS = offsetS;
  }

  destroy(): void {
    this.#stop.abort();
    cancelAnimationFrame(this.#frame);
    this.#canvas.remove();
  }
}
