/** The subtitles that are shown over the picture: as the file has them where that works, else as text. */

import type { SubtitleTrack } from "../api/types";
import { Ass } from "./ass";
import { Emitter } from "./emitter";
import { Pictures } from "./pictures";
import type { SubtitleView } from "./view";
import { WebVtt } from "./webvtt";

export interface SubtitleEvents {
  /** What is to be seen now; empty for nothing. */
  cues: { texts: DocumentFragment[] };
  /** The track cannot be shown by the page. `drawn`: it was to be drawn from its pictures. */
  failed: { index: number; drawn: boolean };
}

export class Subtitles {
  readonly events = new Emitter<SubtitleEvents>();
  #view: SubtitleView | undefined;
  #offsetS = 0;

  get offsetS(): number {
    return this.#offsetS;
  }

  /** Positive is later. Holds for whatever is shown from now on. */
  set offsetS(offsetS: number) {
    this.#offsetS = offsetS;
    this.#view?.shift(offsetS);
  }

  /** Shows one track, or none. A track without an address is in the picture already. */
  attach(video: HTMLVideoElement, track: SubtitleTrack | null): void {
    this.detach();
    if (!track) return;
    if (track.original?.format === "ass") {
      this.#view = new Ass(video, track.original, this.#offsetS, () => {
        this.detach();
        this.#text(video, track);
      });
    } else if (track.original) {
      this.#view = new Pictures(video, track.original, this.#offsetS, () => {
        this.detach();
        this.events.emit("failed", { index: track.index, drawn: true });
      });
    } else {
      this.#text(video, track);
    }
  }

  #text(video: HTMLVideoElement, track: SubtitleTrack): void {
    if (!track.url) return;
    const failed = () => this.events.emit("failed", { index: track.index, drawn: false });
    this.#view = new WebVtt(video, track, track.url, this.#offsetS, (texts) => this.events.emit("cues", { texts }), failed);
  }

  detach(): void {
    if (!this.#view) return;
    this.#view.destroy();
    this.#view = undefined;
    this.events.emit("cues", { texts: [] });
  }

  destroy(): void {
    this.detach();
    this.events.clear();
  }
}
