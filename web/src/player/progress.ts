/** Tells the server where the viewer is: every 5 s, on pause, after a seek, and when the page goes. */

import { endSession, progress } from "../api/routes";

const EVERY_MS = 5_000;

/** Seconds buffered ahead of the position. */
export function bufferedAhead(video: Pick<HTMLVideoElement, "buffered" | "currentTime">): number {
  const { buffered, currentTime } = video;
  for (let i = 0; i < buffered.length; i += 1) {
    // Half a second of tolerance: after a seek the range starts at the next picture.
    if (buffered.start(i) <= currentTime + 0.5 && buffered.end(i) > currentTime) {
      return buffered.end(i) - currentTime;
    }
  }
  return 0;
}

/** Positions that are on their way to the server. */
const saving = new Set<Promise<void>>();

/** Resolves when what players have last said is saved, or after `atMostMs`: a page that shows it then shows the truth. */
export function saved(atMostMs = 2_000): Promise<void> {
  if (saving.size === 0) return Promise.resolve();
  return Promise.race([Promise.all(saving).then(() => undefined), new Promise<void>((resolve) => setTimeout(resolve, atMostMs))]);
}

export class ProgressReporter {
  #video: HTMLVideoElement | undefined;
  #session: string | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #stop = new AbortController();
  #onLost: () => void = () => undefined;
  #onEnded: () => void = () => undefined;

  /** `onLost` is called when the server no longer knows the session, `onEnded` when somebody ended it. */
  attach(video: HTMLVideoElement, session: string, onLost: () => void, onEnded: () => void): void {
    this.detach();
    this.#onLost = onLost;
    this.#onEnded = onEnded;
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    this.#video = video;
    this.#session = session;
    // While it is paused too: a session that says nothing is ended by the server.
    this.#timer = setInterval(() => void this.report(), EVERY_MS);
    video.addEventListener("pause", () => void this.report(), { signal });
    video.addEventListener("seeked", () => void this.report(), { signal });
    document.addEventListener(
      "visibilitychange",
      () => {
        if (document.visibilityState === "hidden") void this.report(true);
      },
      { signal },
    );
  }

  report(keepalive = false): Promise<void> {
    const video = this.#video;
    // Before the first picture the position is the browser's zero, not the viewer's.
    if (!video || !this.#session || video.readyState === 0) return Promise.resolve();
    const session = this.#session;
    const told = progress(
      session,
      {
        position_s: Math.round(video.currentTime * 1000) / 1000,
        paused: video.paused,
        buffered_s: Math.round(bufferedAhead(video) * 10) / 10,
      },
      keepalive,
    ).then((result) => {
      if (result.kind !== "problem" || session !== this.#session) return;
      if (result.problem.status === 404) this.#onLost();
      if (result.problem.status === 409) this.#onEnded();
    });
    saving.add(told);
    void told.finally(() => saving.delete(told));
    return told;
  }

  /**
   * Last position, then the end of the session. One after the other, or the end overtakes the position, which is
   * then lost; only a page that goes away (`leaving`) must send both at once.
   */
  end(leaving = false): void {
    const session = this.#session;
    if (!session) return;
    const told = this.report(true);
    this.detach();
    let ended = false;
    const finish = (): void => {
      if (!ended) void endSession(session, true);
      ended = true;
    };
    if (leaving) return finish();
    // The page may go while the position is still on its way.
    addEventListener("pagehide", finish, { once: true });
    void told.then(() => {
      removeEventListener("pagehide", finish);
      finish();
    });
  }

  /** Stops reporting; the session goes on. */
  detach(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
    this.#video = undefined;
    this.#session = undefined;
  }

  destroy(): void {
    this.detach();
  }
}
