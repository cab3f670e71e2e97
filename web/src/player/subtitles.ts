/** Text subtitles: loads WebVTT into hidden tracks and hands out the cues to draw. */

import { Emitter } from "./emitter";
import type { SubtitleTrack } from "../api/types";

export interface SubtitleEvents {
  /** What is to be seen now; empty for nothing. */
  cues: { texts: DocumentFragment[] };
  failed: { index: number };
}

export class Subtitles {
  readonly events = new Emitter<SubtitleEvents>();
  #element: HTMLTrackElement | undefined;
  #stop = new AbortController();

  /** Shows one track, or none. A track without an address is in the picture already. */
  attach(video: HTMLVideoElement, track: SubtitleTrack | null): void {
    this.detach();
    if (!track?.url) return;
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const element = document.createElement("track");
    element.kind = "subtitles";
    element.label = track.label;
    if (track.language) element.srclang = track.language;
    element.src = track.url;
    video.append(element);
    // Hidden: loaded and timed by the browser, drawn by the page, above its controls.
    element.track.mode = "hidden";
    element.track.addEventListener("cuechange", () => this.#show(element.track), { signal });
    element.addEventListener("error", () => this.events.emit("failed", { index: track.index }), { signal });
    this.#element = element;
  }

  #show(track: TextTrack): void {
    const cues = [...(track.activeCues ?? [])] as VTTCue[];
    this.events.emit("cues", { texts: cues.map((cue) => cue.getCueAsHTML()) });
  }

  detach(): void {
    this.#stop.abort();
    if (!this.#element) return;
    this.#element.track.mode = "disabled";
    this.#element.remove();
    this.#element = undefined;
    this.events.emit("cues", { texts: [] });
  }

  destroy(): void {
    this.detach();
    this.events.clear();
  }
}
