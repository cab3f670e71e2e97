/** Items and streams in words. */

import type { Item, Stream, Version } from "../api/types";
import { bitrate, count, duration } from "./format";

/** `S2 E5`, or nothing where the numbers are not known. */
export function episodeCode(item: Partial<Item>): string {
  const season = item.season ?? null;
  const episode = item.episode ?? null;
  if (episode === null) return "";
  const last = item.episode_last && item.episode_last > episode ? `–${item.episode_last}` : "";
  return season === null ? `E${episode}${last}` : `S${season} E${episode}${last}`;
}

/** The line under a title on a card. */
export function subtitleOf(item: Item): string {
  switch (item.type) {
    case "episode":
      return [item.top_title, episodeCode(item)].filter(Boolean).join(" · ");
    case "season":
      return item.leaves ? count(item.leaves, "episode") : (item.top_title ?? "");
    case "show":
      return [item.year, item.leaves ? count(item.leaves, "episode") : ""].filter(Boolean).join(" · ");
    case "album":
    case "track":
      return [item.top_title, item.year].filter(Boolean).join(" · ");
    default:
      return [item.year, duration(item.duration_s)].filter(Boolean).join(" · ");
  }
}

const CODECS: Readonly<Record<string, string>> = {
  h264: "H.264",
  hevc: "HEVC",
  av1: "AV1",
  vp9: "VP9",
  vp8: "VP8",
  mpeg2video: "MPEG-2",
  mpeg4: "MPEG-4",
  vc1: "VC-1",
  aac: "AAC",
  ac3: "Dolby Digital",
  eac3: "Dolby Digital+",
  truehd: "TrueHD",
  dts: "DTS",
  flac: "FLAC",
  opus: "Opus",
  mp3: "MP3",
  vorbis: "Vorbis",
  alac: "ALAC",
  subrip: "SRT",
  ass: "ASS",
  webvtt: "WebVTT",
  mov_text: "Text",
  hdmv_pgs_subtitle: "PGS",
  dvd_subtitle: "VobSub",
};

export const codecName = (codec: string): string => CODECS[codec] ?? codec;

const HDR: Readonly<Record<string, string>> = {
  hdr10: "HDR10",
  hdr10_plus: "HDR10+",
  hlg: "HLG",
  dv5: "Dolby Vision",
  dv_hdr10: "Dolby Vision",
  dv_hlg: "Dolby Vision",
  dv_sdr: "Dolby Vision",
  dv7: "Dolby Vision",
};

/** `4K`, `1080p`: by height, or by the width of a picture wider than 16:9. */
export function resolution(width = 0, height = 0): string {
  if (width === 0 || height === 0) return "";
  const lines = Math.max(height, Math.round((width * 9) / 16));
  if (lines >= 4000) return "8K";
  if (lines >= 2000) return "4K";
  for (const step of [1440, 1080, 720, 576, 480]) if (lines >= step * 0.97) return `${step}p`;
  return `${height}p`;
}

export function channels(n: number | undefined): string {
  switch (n) {
    case undefined:
    case 0:
      return "";
    case 1:
      return "mono";
    case 2:
      return "stereo";
    case 6:
      return "5.1";
    case 8:
      return "7.1";
    default:
      return `${n} channels`;
  }
}

let languages: Intl.DisplayNames | undefined;

/** `eng` → `English`; what is no language stays as it is. */
export function languageName(code: string | null | undefined): string {
  if (!code || code === "und") return "";
  try {
    languages ??= new Intl.DisplayNames(["en"], { type: "language" });
    return languages.of(code) ?? code;
  } catch {
    return code;
  }
}

/**
 * A track as a menu names it: its language first, then what tells it from others of that language. `fallback` is what the server
 * calls it, for a stream that the title's description does not have.
 */
export function trackChoice(stream: Stream | undefined, fallback: string): { label: string; note: string } {
  if (!stream) return { label: fallback, note: "" };
  const language = languageName(stream.language);
  const title = stream.title?.trim() ?? "";
  // Many files title a track with its language alone.
  const own = title.toLowerCase() === language.toLowerCase() ? "" : title;
  const marks = stream.disposition ?? {};
  const says = (word: string) => own.toLowerCase().includes(word);
  const facts = [
    marks.forced && !says("forced") ? "forced" : "",
    marks.hearing_impaired && !says("sdh") && !says("hearing") ? "SDH" : "",
    marks.commentary && !says("commentary") ? "commentary" : "",
    marks.visual_impaired && !says("descri") ? "audio description" : "",
    stream.kind === "audio" ? [codecName(stream.codec), channels(stream.channels)].filter(Boolean).join(" ") : codecName(stream.codec),
    stream.external ? "beside the film" : "",
  ];
  const label = language === "" ? own || `Track ${stream.index + 1}` : language;
  return { label, note: [language === "" ? "" : own, ...facts].filter(Boolean).join(" · ") };
}

/** One line of facts on a stream. */
export function streamFacts(stream: Stream): string {
  const parts: (string | false | undefined)[] = [];
  switch (stream.kind) {
    case "video":
      parts.push(
        resolution(stream.width, stream.height),
        codecName(stream.codec),
        stream.profile,
        (stream.bit_depth ?? 8) > 8 && `${stream.bit_depth} bit`,
        HDR[stream.hdr ?? ""],
        stream.fps !== undefined && `${Number(stream.fps.toFixed(2))} fps`,
        stream.interlaced === true && "interlaced",
      );
      break;
    case "audio":
      parts.push(
        languageName(stream.language),
        codecName(stream.codec),
        channels(stream.channels),
        stream.disposition?.commentary && "commentary",
      );
      break;
    case "subtitle":
      parts.push(
        languageName(stream.language),
        codecName(stream.codec),
        stream.disposition?.forced && "forced",
        stream.disposition?.hearing_impaired && "SDH",
        stream.external !== undefined && "beside the file",
      );
      break;
    default:
      parts.push(stream.codec);
  }
  if (stream.kind !== "subtitle" && stream.bitrate_bps) parts.push(bitrate(stream.bitrate_bps));
  if (stream.title && stream.kind !== "video") parts.push(`“${stream.title}”`);
  return parts.filter(Boolean).join(" · ");
}

export const streamsOf = (version: Version | undefined, kind: Stream["kind"]): Stream[] =>
  (version?.streams ?? []).filter((s) => s.kind === kind && !s.disposition?.attached_picture);

/** Chips for the head of an item's page. */
export function badges(version: Version | undefined): string[] {
  const video = streamsOf(version, "video")[0];
  const audio = streamsOf(version, "audio")[0];
  return [
    resolution(video?.width, video?.height),
    video ? codecName(video.codec) : "",
    HDR[video?.hdr ?? ""] ?? "",
    audio ? [codecName(audio.codec), channels(audio.channels)].filter(Boolean).join(" ") : "",
    (version?.container ?? "").toUpperCase(),
  ].filter((badge) => badge !== "");
}

/** `Film.mkv` of a path. */
export const fileName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

