import { describe, expect, it } from "vitest";
import type { Item, Stream } from "../api/types";
import { badges, episodeCode, languageName, resolution, streamFacts, subtitleOf, trackChoice } from "./item";

describe("items in words", () => {
  it("names a resolution by its lines, also for a picture wider than 16:9", () => {
    expect(resolution(1920, 1080)).toBe("1080p");
    expect(resolution(1920, 800)).toBe("1080p");
    expect(resolution(3840, 1600)).toBe("4K");
    expect(resolution(720, 576)).toBe("576p");
    expect(resolution(320, 180)).toBe("180p");
    expect(resolution()).toBe("");
  });

  it("numbers an episode only as far as the numbers are known", () => {
    expect(episodeCode({ type: "episode", season: 2, episode: 5 })).toBe("S2 E5");
    expect(episodeCode({ type: "episode", episode: 5, episode_last: 6 })).toBe("E5–6");
    expect(episodeCode({ type: "movie" })).toBe("");
    const item = { type: "episode", top_title: "Dark", season: 1, episode: 0 } as Item;
    expect(subtitleOf(item)).toBe("Dark · S1 E0");
  });

  it("leaves out what a stream does not say", () => {
    const bare: Stream = { index: 0, kind: "audio", codec: "weird" };
    expect(streamFacts(bare)).toBe("weird");
    const full: Stream = { index: 0, kind: "video", codec: "hevc", width: 3840, height: 2160, bit_depth: 10, hdr: "hdr10", fps: 23.976 };
    expect(streamFacts(full)).toBe("4K · HEVC · 10 bit · HDR10 · 23.98 fps");
  });

  it("keeps a language code that is none", () => {
    expect(languageName("deu")).toBe("German");
    expect(languageName("und")).toBe("");
    expect(languageName("not a code")).toBe("not a code");
  });

  it("has no badges for an item that was not probed yet", () => {
    expect(badges(undefined)).toEqual([]);
  });
});

describe("a track in a menu", () => {
  const track = (part: Partial<Stream>): Stream => ({ index: 1, kind: "audio", codec: "aac", ...part });

  it("is named by its language, then by what tells it apart", () => {
    expect(trackChoice(track({ language: "eng", channels: 6, codec: "ac3" }), "x")).toEqual({ label: "English", note: "Dolby Digital 5.1" });
    expect(trackChoice(track({ language: "deu", title: "Regiekommentar", disposition: { commentary: true }, channels: 2 }), "x")).toEqual({
      label: "German",
      note: "Regiekommentar · commentary · AAC stereo",
    });
  });

  it("says of subtitles whether they are forced or for the deaf, once", () => {
    const text = (part: Partial<Stream>) => trackChoice(track({ kind: "subtitle", codec: "subrip", language: "eng", ...part }), "x").note;
    expect(text({ disposition: { forced: true } })).toBe("forced · SRT");
    expect(text({ disposition: { hearing_impaired: true } })).toBe("SDH · SRT");
    expect(text({ title: "English [SDH]", disposition: { hearing_impaired: true } })).toBe("English [SDH] · SRT");
    expect(text({ title: "English" })).toBe("SRT");
    expect(text({ external: "film.en.srt" })).toBe("SRT · beside the film");
  });

  it("has a name without a language, and the server's where nothing is known", () => {
    expect(trackChoice(track({ title: "Isolated score" }), "x")).toEqual({ label: "Isolated score", note: "AAC" });
    expect(trackChoice(track({ language: "und" }), "x")).toEqual({ label: "Track 2", note: "AAC" });
    expect(trackChoice(undefined, "eng (aac)")).toEqual({ label: "eng (aac)", note: "" });
  });
});
