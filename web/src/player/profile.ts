/**
 * From what the browser answered to the profile that the server decides by. Pure.
 *
 * Levels: H.264 × 10, HEVC × 30, AV1 `seq_level_idx`; profiles in FFmpeg's words, as the server's
 * probe has them.
 */

import type { AudioLimit, ClientProfile, VideoLimit } from "../api/types";

/** One way a codec comes, and whether a plain file and Media Source take it. */
export interface Support {
  file: boolean;
  mse: boolean;
}

/** Answers to every question of `capabilities.ts`, keyed by `Question.key`. */
export type Answers = Readonly<Record<string, Support>>;

export interface Capabilities {
  /** What people call this browser. */
  name: string;
  answers: Answers;
  /** How HLS can be played: by hls.js, by the browser, or not. */
  hls: "mse" | "native" | "none";
  /** Dynamic ranges that the display path takes. */
  hdr: string[];
}

/** What failed in front of the viewer's eyes, whatever the browser had promised. */
export interface Exclusions {
  video: ReadonlySet<string>;
  audio: ReadonlySet<string>;
  /** No plain file any more: HLS only. */
  direct: boolean;
  /** Only what every browser decodes: H.264, 8 bit, AAC. */
  safest: boolean;
  /** Subtitles that are pictures: in the film's picture only. */
  pictures: boolean;
}

export const NOTHING_EXCLUDED: Exclusions = {
  video: new Set(),
  audio: new Set(),
  direct: false,
  safest: false,
  pictures: false,
};

interface VideoKind {
  codec: string;
  /** Profile in FFmpeg's words. */
  profile: string;
  depth: number;
  /** Keys of the answers for each level, highest level first. */
  levels: { level: number; key: string; width: number; height: number }[];
}

const size = (level: number, width: number, height: number, key: string) => ({ level, width, height, key });

/** Video that is asked about. Keys are RFC 6381 strings. */
export const VIDEO_KINDS: readonly VideoKind[] = [
  {
    codec: "h264",
    profile: "Constrained Baseline",
    depth: 8,
    levels: [size(52, 4096, 2304, "avc1.42E034"), size(41, 2048, 1152, "avc1.42E029")],
  },
  {
    codec: "h264",
    profile: "Main",
    depth: 8,
    levels: [size(52, 4096, 2304, "avc1.4D4034"), size(41, 2048, 1152, "avc1.4D4029")],
  },
  {
    codec: "h264",
    profile: "High",
    depth: 8,
    levels: [size(52, 4096, 2304, "avc1.640034"), size(42, 2048, 1152, "avc1.64002A"), size(41, 2048, 1152, "avc1.640029")],
  },
  {
    codec: "h264",
    profile: "High 10",
    depth: 10,
    levels: [size(52, 4096, 2304, "avc1.6E0034"), size(41, 2048, 1152, "avc1.6E0029")],
  },
  {
    codec: "hevc",
    profile: "Main",
    depth: 8,
    levels: [size(186, 8192, 4320, "hvc1.1.6.L186.B0"), size(153, 4096, 2304, "hvc1.1.6.L153.B0"), size(123, 2048, 1152, "hvc1.1.6.L123.B0")],
  },
  {
    codec: "hevc",
    profile: "Main 10",
    depth: 10,
    levels: [size(186, 8192, 4320, "hvc1.2.4.L186.B0"), size(153, 4096, 2304, "hvc1.2.4.L153.B0"), size(123, 2048, 1152, "hvc1.2.4.L123.B0")],
  },
  {
    codec: "vp9",
    profile: "Profile 0",
    depth: 8,
    levels: [size(61, 8192, 4352, "vp09.00.61.08"), size(51, 4096, 2304, "vp09.00.51.08")],
  },
  {
    codec: "vp9",
    profile: "Profile 2",
    depth: 10,
    levels: [size(61, 8192, 4352, "vp09.02.61.10"), size(51, 4096, 2304, "vp09.02.51.10")],
  },
  {
    codec: "av1",
    profile: "Main",
    depth: 8,
    levels: [size(16, 8192, 4352, "av01.0.16M.08"), size(13, 4096, 2304, "av01.0.13M.08")],
  },
  {
    codec: "av1",
    profile: "Main",
    depth: 10,
    levels: [size(16, 8192, 4352, "av01.0.16M.10"), size(13, 4096, 2304, "av01.0.13M.10")],
  },
  { codec: "vp8", profile: "", depth: 8, levels: [size(0, 4096, 2304, "vp8")] },
];

/** Audio that is asked about, with the key in MP4 and the one in WebM or Matroska. */
export const AUDIO_KINDS: readonly { codec: string; key: string }[] = [
  { codec: "aac", key: "mp4a.40.2" },
  { codec: "opus", key: "opus" },
  { codec: "flac", key: "flac" },
  { codec: "mp3", key: "mp3" },
  { codec: "vorbis", key: "vorbis" },
  { codec: "ac3", key: "ac-3" },
  { codec: "eac3", key: "ec-3" },
  { codec: "dts", key: "dtsc" },
  { codec: "alac", key: "alac" },
];

/** Every question there is, by kind of stream. */
export const QUESTIONS: Readonly<Record<"video" | "audio", readonly string[]>> = {
  video: VIDEO_KINDS.flatMap((kind) => kind.levels.map((level) => level.key)),
  audio: AUDIO_KINDS.map((kind) => kind.key),
};

/** The questions that a codec has; one codec may come at several levels. */
const KEYS: ReadonlyMap<string, readonly string[]> = new Map([
  ...VIDEO_KINDS.map(({ codec }): [string, string[]] => [codec, VIDEO_KINDS.filter((k) => k.codec === codec).flatMap((k) => k.levels.map((l) => l.key))]),
  ...AUDIO_KINDS.map(({ codec, key }): [string, string[]] => [codec, [key]]),
]);

/** Containers of plain files: what each may hold, and the key of its own question. */
const CONTAINERS = [
  {
    container: "mp4",
    video: ["h264", "hevc", "vp9", "av1"],
    audio: ["aac", "opus", "flac", "mp3", "ac3", "eac3", "dts", "alac"],
  },
  { container: "mov", video: ["h264"], audio: ["aac", "mp3"] },
  { container: "webm", video: ["vp8", "vp9", "av1"], audio: ["opus", "vorbis"] },
  {
    container: "mkv",
    video: ["h264", "hevc", "vp8", "vp9", "av1"],
    audio: ["aac", "opus", "flac", "mp3", "vorbis", "ac3", "eac3", "dts"],
  },
] as const;

/** Key of the answer for a codec in a container. */
export const inContainer = (container: string, key: string) => `${container}/${key}`;

/** Music files: container and codec in one. */
const AUDIO_FILES = [
  { container: "mp3", audio: "mp3" },
  { container: "flac", audio: "flac" },
  { container: "ogg", audio: "vorbis" },
  { container: "ogg", audio: "opus" },
  { container: "wav", audio: "pcm_s16le" },
] as const;

/** Subtitles that are pictures, which the page draws itself. */
const PICTURES: ClientProfile["subtitles"] = [
  { format: "pgs", delivery: "external" },
  { format: "vobsub", delivery: "external" },
];

const no: Support = { file: false, mse: false };

/** The profile of this browser, less what failed. */
export function profileOf(caps: Capabilities, without: Exclusions = NOTHING_EXCLUDED): ClientProfile {
  const ask = (key: string): Support => caps.answers[key] ?? no;
  const video = videoLimits(caps, without);
  const audio = audioLimits(caps, without);
  const allowed = {
    video: new Set(video.map((v) => v.codec)),
    audio: new Set(audio.map((a) => a.codec)),
  };
  const protocols: ClientProfile["protocols"] = [];
  const plainFiles = !without.direct && !without.safest;
  if (plainFiles) protocols.push("http");
  if (caps.hls !== "none") protocols.push("hls");
  const direct: ClientProfile["direct_play"] = [];
  if (plainFiles) {
    for (const { container, video: videos, audio: audios } of CONTAINERS) {
      const taken = (codecs: readonly string[], of: Set<string>) => codecs.filter((codec) => of.has(codec) && fileTakes(caps, container, codec));
      const v = taken(videos, allowed.video);
      const a = taken(audios, allowed.audio);
      if (v.length > 0 && a.length > 0) direct.push({ container, video: v, audio: a });
    }
    for (const { container, audio: codec } of AUDIO_FILES) {
      if (!without.audio.has(codec) && ask(inContainer(container, codec)).file) {
        direct.push({ container, video: [], audio: [codec] });
      }
    }
  }
  const profile: ClientProfile = {
    name: caps.name,
    direct_play: direct,
    video,
    audio,
    // In this order: a script is more than its words.
    subtitles: [
      { format: "ass", delivery: "external" },
      { format: "webvtt", delivery: "external" },
      ...(without.pictures ? [] : PICTURES),
    ],
    protocols,
  };
  if (caps.hls !== "none") {
    const segment = (key: string) => (caps.hls === "mse" ? ask(key).mse : ask(inContainer("mp4", key)).file);
    const inSegments = (limits: { codec: string }[]) => limits.map((limit) => limit.codec).filter((codec) => KEYS.get(codec)?.some(segment));
    profile.hls = { container: "fmp4", video: inSegments(video), audio: inSegments(audio) };
  }
  return profile;
}

/** Played from a file, where files are still asked for, or from segments. */
function usable(caps: Capabilities, support: Support, direct: boolean): boolean {
  return (caps.hls === "mse" && support.mse) || ((direct || caps.hls === "native") && support.file);
}

function videoLimits(caps: Capabilities, without: Exclusions): VideoLimit[] {
  const limits: VideoLimit[] = [];
  const codecs = [...new Set(VIDEO_KINDS.map((k) => k.codec))];
  for (const codec of codecs) {
    if (without.video.has(codec)) continue;
    if (without.safest && codec !== "h264") continue;
    const profiles = new Set<string>();
    let level = 0;
    let depth = 0;
    let width = 0;
    let height = 0;
    for (const kind of VIDEO_KINDS.filter((k) => k.codec === codec)) {
      if (without.safest && kind.depth > 8) continue;
      const best = kind.levels.find((l) => usable(caps, caps.answers[l.key] ?? no, !without.direct));
      if (!best) continue;
      // Limits of a codec hold for files and for segments alike. Where Media Source refuses what a
      // file may be (H.264 10 bit in Firefox), they cannot say both; the safe half is told.
      if (caps.hls === "mse" && !(caps.answers[best.key] ?? no).mse && profiles.size > 0) continue;
      if (kind.profile !== "") profiles.add(kind.profile);
      level = Math.max(level, best.level);
      depth = Math.max(depth, kind.depth);
      width = Math.max(width, best.width);
      height = Math.max(height, best.height);
    }
    if (depth === 0) continue;
    // Constrained Baseline is a part of Baseline that every decoder means by it.
    if (profiles.has("Constrained Baseline")) profiles.add("Baseline");
    const limit: VideoLimit = { codec, max_bit_depth: depth, max_width: width, max_height: height };
    if (profiles.size > 0) limit.profiles = [...profiles];
    if (level > 0) limit.max_level = level;
    if (depth > 8 && caps.hdr.length > 0 && codec !== "h264") limit.hdr = [...caps.hdr];
    // Browsers show both fields of an interlaced frame at once.
    limit.interlaced = false;
    limits.push(limit);
  }
  return limits;
}

function audioLimits(caps: Capabilities, without: Exclusions): AudioLimit[] {
  const limits: AudioLimit[] = [];
  for (const { codec, key } of AUDIO_KINDS) {
    if (without.audio.has(codec)) continue;
    if (without.safest && codec !== "aac") continue;
    const inFiles = CONTAINERS.some((c) => fileTakes(caps, c.container, codec));
    const support = caps.answers[key] ?? no;
    if (usable(caps, { file: support.file || inFiles, mse: support.mse }, !without.direct)) {
      limits.push({ codec });
    }
  }
  return limits;
}

function fileTakes(caps: Capabilities, container: string, codec: string): boolean {
  return KEYS.get(codec)?.some((key) => (caps.answers[inContainer(container, key)] ?? no).file) ?? false;
}
