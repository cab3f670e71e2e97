/**
 * One item from `/play` to the end of its session: picks the engine, follows the error catalogue,
 * and asks the server again when tracks, quality or what the browser can do change.
 */

import { problemText, type Problem } from "../api/client";
import { endSession, failed, play } from "../api/routes";
import type { PlayRequest, PlayResponse, Stream, SubtitleTrack, Version } from "../api/types";
import { capabilities } from "./capabilities";
import { CATALOGUE, Recovery, reportWord, type Fault, type FaultCode } from "./catalogue";
import { Emitter } from "./emitter";
import type { Engine } from "./engine";
import { FileEngine } from "./file-engine";
import { profileOf, type Capabilities } from "./profile";
import { rememberedOffset, rememberOffset, stepped } from "./offset";
import { Place } from "./place";
import { ProgressReporter } from "./progress";
import { Subtitles } from "./subtitles";
import { Watchdog, type Expected } from "./watchdog";

export interface PlayerEvents {
  /** The server answered `/play`: a new session, or the same item on other terms. */
  playing: { play: PlayResponse; engine: Engine["name"] };
  /** What the subtitle menu shows: an index, or `null` for none. */
  subtitle: { index: number | null };
  cues: { texts: DocumentFragment[] };
  /** Subtitles are shown so many seconds later than their file says. */
  offset: { offsetS: number };
  /** Something went wrong and is being mended; `null` once it is. */
  trouble: { text: string } | null;
  /** Playback is over and why. */
  failed: { text: string; detail?: string };
  busy: { busy: boolean };
}

export interface Choice {
  version?: string;
  audio?: number;
  subtitle?: number | "off";
  maxBitrate?: number;
}

/**
 * Codecs that this browser claimed and then did not show, for as long as the page lives: the next title
 * is not begun in a way that is known to fail. A reload asks the browser anew.
 */
const LEARNT = { video: new Set<string>(), audio: new Set<string>() };

export class Player {
  readonly events = new Emitter<PlayerEvents>();
  readonly #progress = new ProgressReporter();
  readonly #subtitles = new Subtitles();
  readonly #watchdog = new Watchdog((code) => void this.#recover({ code }));
  readonly #recovery = new Recovery();
  readonly #stop = new AbortController();
  #engine: Engine | undefined;
  #current: PlayResponse | undefined;
  #asking: AbortController | undefined;
  /** What is being mended. A new stream begins with nothing, so that a fault of its own is heard at once. */
  #mending: object | undefined;
  #lost = false;
  /** What the viewer wants. The element's own flag is also set by a failure, which must not stop what follows it. */
  #paused = false;
  #choice: Choice = {};
  readonly #place = new Place();
  readonly #without = { ...LEARNT, direct: false, safest: false, pictures: false };

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly itemId: string,
    private readonly versions: readonly Version[],
  ) {
    this.#subtitles.offsetS = rememberedOffset(sessionStorage, itemId);
    this.#subtitles.events.on("cues", (cues) => this.events.emit("cues", cues));
    this.#subtitles.events.on("failed", ({ drawn }) => {
      // What the page cannot draw after all is asked for in the picture.
      if (drawn && !this.#without.pictures) {
        this.#without.pictures = true;
        void this.#again(this.#choice);
      } else {
        this.events.emit("subtitle", { index: null });
      }
    });
    video.addEventListener("playing", () => this.events.emit("trouble", null), { signal: this.#stop.signal });
    video.addEventListener("timeupdate", () => this.#position(), { signal: this.#stop.signal });
    video.addEventListener("play", () => (this.#paused = false), { signal: this.#stop.signal });
    video.addEventListener("pause", () => (this.#paused ||= video.error === null && !video.ended), { signal: this.#stop.signal });
    addEventListener("pagehide", () => this.#progress.end(true), { signal: this.#stop.signal });
  }

  get session(): string | undefined {
    return this.#current?.session;
  }

  /** Starts, or starts again on other terms, at `startS`; absent leaves it to the server. */
  async load(choice: Choice, startS?: number, paused = false): Promise<void> {
    const asking = this.#ask();
    this.#choice = choice;
    this.#paused = paused;
    const caps = await capabilities();
    const request: PlayRequest = {
      client: { profile: profileOf(caps, this.#without) },
      version: choice.version,
      audio: choice.audio,
      subtitle: choice.subtitle,
      start_s: startS,
      max_bitrate: choice.maxBitrate,
    };
    const previous = this.#current?.session;
    const result = await play(this.itemId, request, asking.signal);
    if (result.kind === "aborted") return;
    if (asking.signal.aborted) {
      // Overtaken while the answer was on its way: that session is nobody's.
      if (result.kind === "ok") void endSession(result.value.session, true);
      return;
    }
    if (result.kind === "problem") {
      this.#giveUp(problemText(result.problem), detailOf(result.problem));
      return;
    }
    if (previous && previous !== result.value.session) this.#progress.end();
    await this.#attach(result.value, startS, paused, caps);
  }

  /** A new question to the server; what was asked before is no longer of interest. */
  #ask(): AbortController {
    this.#asking?.abort();
    this.#asking = new AbortController();
    this.events.emit("busy", { busy: true });
    return this.#asking;
  }

  async #attach(answer: PlayResponse, askedS: number | undefined, paused: boolean, caps: Capabilities): Promise<void> {
    this.#release();
    this.#current = answer;
    this.#place.goTo(answer.start_s ?? askedS ?? 0, performance.now());
    const engine = await pickEngine(answer, caps);
    if (this.#stop.signal.aborted) {
      engine.destroy();
      return;
    }
    this.#engine = engine;
    this.#mending = undefined;
    engine.events.on("fault", (fault) => void this.#recover(fault));
    this.events.emit("playing", { play: answer, engine: engine.name });
    this.#chooseSubtitle(answer);
    await engine.attach(this.video, answer.url, answer.start_s ?? askedS ?? 0);
    this.#lost = false;
    this.#progress.attach(
      this.video,
      answer.session,
      () => this.#sessionLost(),
      () => this.#giveUp("This stream was ended by somebody else."),
    );
    this.#watchdog.attach(this.video, this.#expected());
    this.events.emit("busy", { busy: false });
    if (!paused) await this.start();
  }

  /** Plays; a browser that wants a click first is told to the viewer, not an error. */
  async start(): Promise<void> {
    if (this.#lost) return this.load(this.#choice, this.#position());
    try {
      await this.video.play();
    } catch (error) {
      if (error instanceof DOMException && error.name === "NotAllowedError") {
        this.events.emit("trouble", { text: CATALOGUE.blocked.text });
      }
      // AbortError: overtaken by another load. Everything else arrives as an `error` event.
    }
  }

  /** The server ended the session, after a long pause say: a new one when it is needed. */
  #sessionLost(): void {
    this.#lost = true;
    if (!this.video.paused && !this.#mending) void this.#again(this.#choice);
  }

  /** Another sound track: the server sends another stream. */
  setAudio(index: number): void {
    void this.#again({ ...this.#choice, audio: index });
  }

  setVersion(version: string): void {
    void this.#again({ ...this.#choice, version, audio: undefined, subtitle: undefined });
  }

  /** Bits a second, or no limit. */
  setMaxBitrate(bps: number | undefined): void {
    void this.#again({ ...this.#choice, maxBitrate: bps });
  }

  /** Shows subtitles so many steps later; 0 sets them back. */
  shiftSubtitles(steps: number): void {
    const offsetS = steps === 0 ? 0 : stepped(this.#subtitles.offsetS, steps);
    this.#subtitles.offsetS = offsetS;
    rememberOffset(sessionStorage, this.itemId, offsetS);
    this.events.emit("offset", { offsetS });
  }

  get subtitleOffsetS(): number {
    return this.#subtitles.offsetS;
  }

  /** What the page draws is switched on the spot; what is drawn into the picture needs another stream. */
  setSubtitle(index: number | null): void {
    const tracks = this.#current?.subtitles ?? [];
    const wanted = index === null ? null : (tracks.find((t) => t.index === index) ?? null);
    const burnt = this.#burntIn();
    this.#choice = { ...this.#choice, subtitle: index ?? "off" };
    if (burnt || (wanted && inPicture(wanted))) {
      void this.#again(this.#choice);
      return;
    }
    this.#subtitles.attach(this.video, wanted);
    this.events.emit("subtitle", { index: wanted?.index ?? null });
  }

  /** Whether the chosen subtitle is part of the picture now. */
  #burntIn(): boolean {
    const chosen = this.#choice.subtitle;
    const tracks = this.#current?.subtitles ?? [];
    if (chosen === "off") return false;
    const track =
      chosen === undefined ? tracks.find((t) => t.default) : tracks.find((t) => t.index === chosen);
    return track !== undefined && inPicture(track);
  }

  #chooseSubtitle(answer: PlayResponse): void {
    const { subtitle } = this.#choice;
    const track =
      subtitle === "off"
        ? null
        : subtitle === undefined
          ? (answer.subtitles.find((t) => t.default) ?? null)
          : (answer.subtitles.find((t) => t.index === subtitle) ?? null);
    this.#subtitles.attach(this.video, track);
    this.events.emit("subtitle", { index: track?.index ?? null });
  }

  #again(choice: Choice): Promise<void> {
    return this.load(choice, this.#position(), this.#paused);
  }

  #position(): number {
    if (this.video.readyState > 0) this.#place.playedTo(this.video.currentTime, this.video.playbackRate, performance.now());
    return this.#place.atS;
  }

  /** Jumps, as the viewer asks. */
  seek(seconds: number): void {
    this.#place.goTo(seconds, performance.now());
    this.video.currentTime = seconds;
  }

  async #recover(fault: Fault): Promise<void> {
    const entry = CATALOGUE[fault.code];
    const action = this.#recovery.decide(fault, performance.now());
    if (action === "wait" || this.#mending) return;
    const mending = {};
    this.#mending = mending;
    const text = action === "fall_back" ? `${entry.text} Trying another way.` : entry.text;
    this.events.emit("trouble", { text });
    try {
      switch (action) {
        case "restart_loading":
          this.#engine?.restartLoading();
          break;
        case "recover_media":
          this.#engine?.recoverMedia();
          break;
        case "renew":
          await this.#again(this.#choice);
          break;
        case "fall_back":
          await this.#fallBack(fault);
          break;
        case "give_up":
          this.#nothingLeft(fault);
      }
    } finally {
      if (this.#mending === mending) this.#mending = undefined;
    }
  }

  /**
   * Tells the server what failed and plays what it gives instead, from the same place: the file itself, its streams in
   * segments, a conversion. Where a codec is at fault, the server is told that the browser does not play it after all.
   */
  async #fallBack(fault: Fault): Promise<void> {
    const session = this.#current?.session;
    const learnt = this.#learn(fault.code);
    // Half a stream is better than the word that nothing is left.
    if (!session || (!learnt && this.#current?.method === "transcode" && isHalf(fault.code))) {
      this.#nothingLeft(fault);
      return;
    }
    const position = this.#position();
    const paused = this.#paused;
    const asking = this.#ask();
    // The server ends the session; a report that comes later would find none.
    this.#progress.detach();
    this.#watchdog.detach();
    const caps = await capabilities();
    const result = await failed(
      session,
      {
        position_s: position,
        error: reportWord(fault.code),
        detail: [fault.code, fault.detail].filter(Boolean).join(": ").slice(0, 200),
        client: learnt ? { profile: profileOf(caps, this.#without) } : undefined,
      },
      asking.signal,
    );
    if (result.kind === "aborted") return;
    if (asking.signal.aborted) {
      if (result.kind === "ok") void endSession(result.value.session, true);
      return;
    }
    if (result.kind === "ok") {
      await this.#attach(result.value, position, paused, caps);
      return;
    }
    if (result.problem.status !== 404) {
      this.#giveUp(problemText(result.problem), fault.detail ?? detailOf(result.problem));
      return;
    }
    // The session had ended before: the server cannot know what failed in it.
    if (this.#current?.protocol === "http") this.#without.direct = true;
    else this.#without.safest = true;
    await this.load(this.#choice, position, paused);
  }

  /** Takes what the failure shows of the browser out of its profile; false when it shows nothing new. */
  #learn(code: FaultCode): boolean {
    const without = this.#without;
    const { video, audio } = this.#streams();
    if (code === "no_picture" && video && !without.video.has(video.codec) && this.#copies("video")) {
      without.video.add(video.codec);
      return true;
    }
    if (code === "no_sound" && audio && !without.audio.has(audio.codec) && this.#copies("audio")) {
      without.audio.add(audio.codec);
      return true;
    }
    // A conversion that is not played: once more into what every browser decodes.
    if (this.#current?.method === "transcode" && !without.safest) {
      without.safest = true;
      return true;
    }
    return false;
  }

  /** Whether the stream goes out as the file has it. */
  #copies(kind: "video" | "audio"): boolean {
    const verdict = this.#current?.decision?.[kind];
    return verdict ? verdict.action === "copy" : this.#current?.method !== "transcode";
  }

  /** The streams that play now, as the item's page knows them. */
  #streams(): { video?: Stream; audio?: Stream } {
    const version = this.versions.find((v) => v.id === this.#choice.version) ?? this.versions[0];
    const streams = version?.streams ?? [];
    const { decision } = this.#current ?? {};
    const sound = decision?.audio?.stream ?? this.#current?.audio?.find((t) => t.selected)?.index;
    const picture = decision?.video?.stream;
    return {
      video: streams.find(
        (s) => s.kind === "video" && !s.disposition?.attached_picture && (picture === undefined || s.index === picture),
      ),
      audio: streams.find((s) => s.kind === "audio" && (sound === undefined || s.index === sound)),
    };
  }

  #expected(): Expected {
    const { video, audio } = this.#streams();
    return { video: video !== undefined, audio: audio !== undefined, fps: video?.fps };
  }

  /** Half a stream is better than none: only what stands still for good is given up. */
  #nothingLeft(fault: Fault): void {
    const { text } = CATALOGUE[fault.code];
    if (isHalf(fault.code)) this.events.emit("trouble", { text });
    else this.#giveUp(text, fault.detail);
  }

  #giveUp(text: string, detail?: string): void {
    this.#progress.end();
    this.#release();
    this.events.emit("busy", { busy: false });
    this.events.emit("failed", { text, detail });
  }

  #release(): void {
    this.#watchdog.detach();
    this.#subtitles.detach();
    this.#progress.detach();
    this.#engine?.destroy();
    this.#engine = undefined;
  }

  /** The item was played to its end: the session is over, its last picture stays. */
  finish(): void {
    this.#watchdog.detach();
    this.#progress.end();
  }

  /** Ends the session on the server and lets the element go. */
  destroy(): void {
    this.#stop.abort();
    this.#asking?.abort();
    this.#progress.end();
    this.#release();
    this.#watchdog.destroy();
    this.#subtitles.destroy();
    this.events.clear();
  }
}

/** Whether a track can only be part of the picture. */
const inPicture = (track: SubtitleTrack): boolean => !track.url && !track.original;

/** Whether something is still seen or heard. */
const isHalf = (code: FaultCode): boolean => code === "no_picture" || code === "no_sound" || code === "frozen";

async function pickEngine(answer: PlayResponse, caps: Capabilities): Promise<Engine> {
  if (answer.protocol !== "hls") return new FileEngine("file");
  if (caps.hls === "native") return new FileEngine("native hls");
  const { HlsEngine } = await import("./hls-engine");
  return HlsEngine.supported() ? new HlsEngine() : new FileEngine("native hls");
}

function detailOf(problem: Problem): string | undefined {
  return problem.status > 0 ? `Status ${problem.status}` : undefined;
}
