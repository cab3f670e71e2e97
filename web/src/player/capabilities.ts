/** Asks the browser what it plays, once a page load. The answers go to `profile.ts`. */

import { inContainer, QUESTIONS, type Capabilities, type Support } from "./profile";

/** The browser's own functions, named so that tests can stand in for them. */
export interface Browser {
  /** What people call it, for the lists of what played where. */
  name: string;
  canPlayType(type: string): string;
  isTypeSupported?: (type: string) => boolean;
  dynamicRangeHigh: boolean;
  /** `MediaCapabilities.decodingInfo`, where there is one. */
  hdrSupported?: (transfer: "pq" | "hlg", contentType: string) => Promise<boolean>;
}

const MIME: Readonly<Record<string, { video: string; audio: string }>> = {
  mp4: { video: "video/mp4", audio: "audio/mp4" },
  mov: { video: "video/quicktime", audio: "video/quicktime" },
  webm: { video: "video/webm", audio: "audio/webm" },
  mkv: { video: "video/x-matroska", audio: "video/x-matroska" },
};

/** Codec strings that a container spells differently. */
const SPELLING: Readonly<Record<string, string>> = {
  "mkv/flac": "flac",
  "mp4/flac": "fLaC",
  "mp4/opus": "Opus",
};

const AUDIO_FILES: readonly [container: string, codec: string, type: string][] = [
  ["mp3", "mp3", "audio/mpeg"],
  ["flac", "flac", "audio/flac"],
  ["ogg", "vorbis", 'audio/ogg; codecs="vorbis"'],
  ["ogg", "opus", 'audio/ogg; codecs="opus"'],
  ["wav", "pcm_s16le", 'audio/wav; codecs="1"'],
];

/** Puts every question. `""` is no; `maybe` and `probably` are yes only with a codec named. */
export async function ask(browser: Browser): Promise<Capabilities> {
  const answers: Record<string, Support> = {};
  const plays = (type: string) => {
    const answer = browser.canPlayType(type);
    return answer === "probably" || answer === "maybe";
  };
  const streams = (type: string) => browser.isTypeSupported?.(type) ?? false;

  for (const [container, mime] of Object.entries(MIME)) {
    // A browser that does not know the container at all answers "" to the bare type too; one that
    // answers "maybe" to a codec that no one has does not read the codecs of this container.
    const known = plays(mime.video);
    const readsCodecs = !plays(`${mime.video}; codecs="nope.0"`);
    const codecType = (kind: "video" | "audio", key: string) =>
      `${mime[kind]}; codecs="${SPELLING[inContainer(container, key)] ?? key}"`;
    for (const kind of ["video", "audio"] as const) {
      for (const key of QUESTIONS[kind]) {
        const type = codecType(kind, key);
        note(answers, container, key, { file: known && readsCodecs && plays(type), mse: streams(type) });
      }
    }
  }
  for (const [container, codec, type] of AUDIO_FILES) {
    answers[inContainer(container, codec)] = { file: plays(type), mse: false };
  }

  const mse = streams('video/mp4; codecs="avc1.640029,mp4a.40.2"');
  const native = plays("application/vnd.apple.mpegurl") || plays("application/x-mpegurl");
  return { name: browser.name, answers, hls: mse ? "mse" : native ? "native" : "none", hdr: await dynamicRanges(browser) };
}

/** The answer in a container, and the sum over MP4 (what HLS carries) and files of any kind. */
function note(answers: Record<string, Support>, container: string, key: string, support: Support): void {
  answers[inContainer(container, key)] = support;
  const sum = answers[key] ?? { file: false, mse: false };
  answers[key] = {
    file: sum.file || support.file,
    mse: sum.mse || (container === "mp4" && support.mse),
  };
}

async function dynamicRanges(browser: Browser): Promise<string[]> {
  if (!browser.dynamicRangeHigh || !browser.hdrSupported) return [];
  const type = 'video/mp4; codecs="av01.0.13M.10"';
  const ranges: string[] = [];
  if (await browser.hdrSupported("pq", type)) ranges.push("hdr10");
  if (await browser.hdrSupported("hlg", type)) ranges.push("hlg");
  return ranges;
}

/** "Firefox on Linux", from a user agent string; "Browser" for what is not known. The order tells those that pose as others. */
export function browserName(agent: string): string {
  const first = (known: readonly (readonly [RegExp, string])[]): string | undefined => known.find(([pattern]) => pattern.test(agent))?.[1];
  const name = first([
    [/Edg(e|A|iOS)?\//, "Edge"],
    [/OPR\//, "Opera"],
    [/SamsungBrowser\//, "Samsung Internet"],
    [/(Firefox|FxiOS)\//, "Firefox"],
    [/(Chrome|CriOS|HeadlessChrome)\//, "Chrome"],
    [/Version\/.*Safari\//, "Safari"],
  ]);
  const system = first([
    [/Android/, "Android"],
    [/iPhone/, "iPhone"],
    [/iPad/, "iPad"],
    [/Windows/, "Windows"],
    [/Macintosh|Mac OS X/, "Mac"],
    [/CrOS/, "ChromeOS"],
    [/Linux|X11/, "Linux"],
  ]);
  return `${name ?? "Browser"}${system ? ` on ${system}` : ""}`;
}

/** This browser. */
export function thisBrowser(): Browser {
  const video = document.createElement("video");
  const source = globalThis.MediaSource ?? (globalThis as { ManagedMediaSource?: typeof MediaSource }).ManagedMediaSource;
  return {
    name: browserName(navigator.userAgent),
    canPlayType: (type) => video.canPlayType(type),
    isTypeSupported: source ? (type) => source.isTypeSupported(type) : undefined,
    dynamicRangeHigh: matchMedia("(dynamic-range: high)").matches,
    hdrSupported: navigator.mediaCapabilities ? hdrByMediaCapabilities : undefined,
  };
}

async function hdrByMediaCapabilities(transfer: "pq" | "hlg", contentType: string): Promise<boolean> {
  try {
    const info = await navigator.mediaCapabilities.decodingInfo({
      type: "media-source",
      video: {
        contentType,
        width: 3840,
        height: 2160,
        bitrate: 20_000_000,
        framerate: 24,
        colorGamut: "rec2020",
        transferFunction: transfer,
      },
    });
    return info.supported;
  } catch {
    // A browser that does not know the members says so by a TypeError: no HDR to speak of.
    return false;
  }
}

let asked: Promise<Capabilities> | undefined;

/** The answers of this browser, asked once. */
export function capabilities(): Promise<Capabilities> {
  asked ??= ask(thisBrowser());
  return asked;
}
