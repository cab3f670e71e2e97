/**
 * Scripts of Advanced SubStation Alpha, drawn by libass in a worker of its own, with the film's own fonts.
 *
 * The script and the fonts come from strangers: they are read in WebAssembly, whose memory is its own, in a
 * worker whose policy (`libass/` on the server) lets it ask for nothing but files of this server. One that
 * hangs is ended with its worker; the page stays as it is.
 */

import { bytes, isThere } from "../api/bytes";
import type { OriginalSubtitle } from "../api/types";
import type { SubtitleView } from "./view";

/** Below the limit of the server. */
const MAX_SCRIPT_BYTES = 16 << 20;
/** Mebibytes that libass may keep of what it has drawn. */
const BITMAP_CACHE_MIB = 64;
/** The picture is drawn at most so high, in pixels, and scaled: a screen of 8K costs no more than one of 4K. */
const MAX_HEIGHT = 2160;

type Octopus = InstanceType<typeof import("@jellyfin/libass-wasm").default>;

export class Ass implements SubtitleView {
  readonly #stop = new AbortController();
  #octopus: Octopus | undefined;

  constructor(
    private readonly video: HTMLVideoElement,
    original: OriginalSubtitle,
    private offsetS: number,
    private readonly failed: () => void,
  ) {
    void this.#start(original);
  }

  async #start(original: OriginalSubtitle): Promise<void> {
    const { signal } = this.#stop;
    try {
      const [script, library, fonts] = await Promise.all([
        bytes(original.url, MAX_SCRIPT_BYTES, signal),
        import("@jellyfin/libass-wasm"),
        this.#fonts(original.fonts ?? []),
      ]);
      if (signal.aborted || script.kind === "aborted") return;
      if (script.kind === "problem") {
        this.#fail();
        return;
      }
      this.#octopus = new library.default({
        video: this.video,
        subContent: new TextDecoder().decode(script.value),
        fonts,
        workerUrl: "/libass/subtitles-octopus-worker.js",
        legacyWorkerUrl: "/libass/subtitles-octopus-worker.js",
        fallbackFont: "/libass/default.woff2",
        timeOffset: -this.offsetS,
        libassMemoryLimit: BITMAP_CACHE_MIB,
        maxRenderHeight: MAX_HEIGHT,
        // It disposes of itself then and throws; that ends here.
        onError: () => queueMicrotask(() => this.#fail(true)),
      });
      this.video.parentElement?.querySelector(".libassjs-canvas")?.setAttribute("data-testid", "subtitle-canvas");
    } catch {
      if (!signal.aborted) this.#fail();
    }
  }

  /** Those that can be had: the library waits for ever for one that cannot. One after the other: each makes work for the server. */
  async #fonts(urls: readonly string[]): Promise<string[]> {
    const there: string[] = [];
    for (const url of urls) if (await isThere(url, this.#stop.signal)) there.push(url);
    return there;
  }

  #fail(disposed = false): void {
    if (disposed) this.#octopus = undefined;
    if (!this.#stop.signal.aborted) this.failed();
  }

  shift(offsetS: number): void {
    this.offsetS = offsetS;
    // The library adds it to the film's time.
    if (this.#octopus) this.#octopus.timeOffset = -offsetS;
  }

  destroy(): void {
    this.#stop.abort();
    const octopus = this.#octopus;
    this.#octopus = undefined;
    octopus?.dispose();
  }
}
