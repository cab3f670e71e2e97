/**
 * Watches whether what "plays" is seen and heard.
 *
 * Browsers play HEVC without a picture and E-AC-3 without sound and report no error. After two
 * seconds of playing the decoders' own counters tell.
 */

import type { FaultCode } from "./catalogue";

/** Counters of the decoders; `undefined` where the browser has none. */
export interface Counters {
  timeS: number;
  width: number;
  frames?: number;
  audioBytes?: number;
}

export interface Expected {
  video: boolean;
  audio: boolean;
  /** Pictures a second of the file; of a slide show none may come for seconds. */
  fps?: number;
}

/** Slower than this, a picture that stands still proves nothing. */
const SLOWEST_FPS = 4;

/** What the counters say after a stretch of playing. Pure. */
export function judge(before: Counters, after: Counters, expected: Expected): FaultCode | null {
  const played = after.timeS - before.timeS;
  // Time that stands still is a stall, which the element reports by itself.
  if (played < 1) return null;
  if (expected.video) {
    if (after.width === 0) return "no_picture";
    if (before.frames !== undefined && after.frames !== undefined) {
      if (after.frames === 0) return "no_picture";
      if (after.frames <= before.frames && (expected.fps ?? 24) >= SLOWEST_FPS) return "frozen";
    }
  }
  if (expected.audio && after.audioBytes !== undefined && after.audioBytes === 0) return "no_sound";
  return null;
}

interface WebkitVideo {
  webkitDecodedFrameCount?: number;
  webkitAudioDecodedByteCount?: number;
}

/** Reads the counters of an element. */
export function read(video: HTMLVideoElement): Counters {
  const webkit = video as WebkitVideo;
  return {
    timeS: video.currentTime,
    width: video.videoWidth,
    frames: video.getVideoPlaybackQuality?.().totalVideoFrames ?? webkit.webkitDecodedFrameCount,
    audioBytes: webkit.webkitAudioDecodedByteCount,
  };
}

/** Playing time before the counters are judged. */
const AFTER_S = 2;
const LOOK_EVERY_MS = 500;

export class Watchdog {
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(private readonly onFinding: (code: FaultCode) => void) {}

  /** Watches one source until it is judged or `detach` is called. */
  attach(video: HTMLVideoElement, expected: Expected): void {
    this.detach();
    let before: Counters | undefined;
    this.#timer = setInterval(() => {
      const hidden = document.visibilityState === "hidden";
      // A hidden page decodes no pictures; a pause or a seek starts the count anew.
      if (video.paused || video.seeking || hidden || video.readyState < 3) {
        before = undefined;
        return;
      }
      const now = read(video);
      before ??= now;
      if (now.timeS - before.timeS < AFTER_S * Math.max(1, video.playbackRate)) return;
      const finding = judge(before, now, expected);
      this.detach();
      if (finding) this.onFinding(finding);
    }, LOOK_EVERY_MS);
  }

  detach(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  destroy(): void {
    this.detach();
  }
}
