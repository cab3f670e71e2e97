/** Text subtitles: loads WebVTT into a hidden track and hands out the cues to draw. */

import type { SubtitleTrack } from "../api/types";
import type { SubtitleView } from "./view";

/** The times of a cue as its file has them, moved. A cue that would end before the film begins is never shown. */
export function shifted(cue: { startTime: number; endTime: number }, offsetS: number): { startTime: number; endTime: number } {
  const endTime = Math.max(0, cue.endTime + offsetS);
  return { startTime: Math.min(endTime, Math.max(0, cue.startTime + offsetS)), endTime };
}

export class WebVtt implements SubtitleView {
  readonly #stop = new AbortController();
  readonly #element = document.createElement("track");
  readonly #times = new Map<TextTrackCue, { startTime: number; endTime: number }>();

  constructor(
    video: HTMLVideoElement,
    track: SubtitleTrack,
    url: string,
    private offsetS: number,
    show: (texts: DocumentFragment[]) => void,
    failed: () => void,
  ) {
    const { signal } = this.#stop;
    const element = this.#element;
    element.kind = "subtitles";
    element.label = track.label;
    if (track.language) element.srclang = track.language;
    element.src = url;
    video.append(element);
    // Hidden: loaded and timed by the browser, drawn by the page, above its controls.
    element.track.mode = "hidden";
    element.track.addEventListener("cuechange", () => {
      const cues = [...(element.track.activeCues ?? [])] as VTTCue[];
      show(cues.map((cue) => cue.getCueAsHTML()));
    }, { signal });
    element.addEventListener("load", () => this.#move(), { signal });
    element.addEventListener("error", failed, { signal });
  }

  shift(offsetS: number): void {
    this.offsetS = offsetS;
    this.#move();
  }

  #move(): void {
    // A copy: a cue whose time changes may change its place in the list.
    for (const cue of [...(this.#element.track.cues ?? [])]) {
      const own = this.#times.get(cue) ?? { startTime: cue.startTime, endTime: cue.endTime };
      this.#times.set(cue, own);
      const { startTime, endTime } = shifted(own, this.offsetS);
      if (cue.startTime !== startTime) cue.startTime = startTime;
      if (cue.endTime !== endTime) cue.endTime = endTime;
    }
  }

  destroy(): void {
    this.#stop.abort();
    this.#element.track.mode = "disabled";
    this.#element.remove();
  }
}
