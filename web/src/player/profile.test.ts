import { describe, expect, it } from "vitest";
import { ask, browserName, type Browser } from "./capabilities";
import { profileOf } from "./profile";

/** A browser that plays what the patterns match. */
function browser(file: RegExp, mse: RegExp | null, hdr = false): Browser {
  return {
    name: "a browser",
    canPlayType: (type) => (file.test(type) ? "probably" : ""),
    isTypeSupported: mse ? (type) => mse.test(type) : undefined,
    dynamicRangeHigh: hdr,
    hdrSupported: async (transfer) => transfer === "pq",
  };
}

// The answers measured in the browsers that the project tests with, no hardware decoders.
const CHROMIUM = browser(
  /^(video\/(mp4|webm|x-matroska|quicktime))$|avc1|vp0?[89]|av01|mp4a|Opus|opus|fLaC|flac|mp3|vorbis|audio\/mpeg|mpegurl/,
  /avc1|vp0?9|av01|mp4a|Opus|fLaC/,
);
const FIREFOX = browser(/^(video\/(mp4|webm))$|avc1|hvc1|vp0?[89]|av01|mp4a|[Oo]pus|fLaC|mp3/, /avc1\.(42|4D|64)|hvc1|vp09|av01|mp4a|Opus|fLaC/);

describe("the browser's name", () => {
  it.each([
    ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36", "Chrome on Linux"],
    ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "Edge on Windows"],
    ["Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox on Linux"],
    ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15", "Safari on Mac"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/142.0.0.0 Mobile/15E148 Safari/604.1", "Chrome on iPhone"],
    ["Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36", "Chrome on Android"],
    ["something", "Browser"],
  ])("of %s is %s", (agent, name) => expect(browserName(agent)).toBe(name));
});

describe("profile", () => {
  it("of Chromium names what it plays and nothing it does not", async () => {
    const profile = profileOf(await ask(CHROMIUM));
    const codecs = profile.video.map((v) => v.codec);
    expect(codecs).toEqual(expect.arrayContaining(["h264", "vp9", "av1"]));
    expect(codecs).not.toContain("hevc");
    expect(profile.audio.map((a) => a.codec)).not.toContain("ac3");
    expect(profile.protocols).toEqual(["http", "hls"]);
    const h264 = profile.video.find((v) => v.codec === "h264");
    expect(h264).toMatchObject({ max_level: 52, max_bit_depth: 10, interlaced: false });
    expect(h264?.profiles).toEqual(expect.arrayContaining(["Baseline", "High", "High 10"]));
  });

  it("names Matroska only where the browser says yes to it with codecs", async () => {
    const has = (p: ReturnType<typeof profileOf>) => p.direct_play.map((d) => d.container);
    expect(has(profileOf(await ask(CHROMIUM)))).toContain("mkv");
    expect(has(profileOf(await ask(FIREFOX)))).not.toContain("mkv");
    // Says "maybe" to anything in Matroska: it does not read the codecs, so it is no answer.
    const vague = browser(/x-matroska|avc1|mp4a|^video\/mp4$/, /avc1|mp4a/);
    expect(has(profileOf(await ask(vague)))).not.toContain("mkv");
  });

  it("does not promise 10 bit H.264 where Media Source refuses it", async () => {
    const h264 = profileOf(await ask(FIREFOX)).video.find((v) => v.codec === "h264");
    expect(h264?.profiles).not.toContain("High 10");
    expect(h264?.max_bit_depth).toBe(8);
  });

  it("uses the browser's own HLS where there is no Media Source", async () => {
    const caps = await ask(browser(/^video\/mp4$|avc1|hvc1|mp4a|ac-3|mpegurl/, null));
    expect(caps.hls).toBe("native");
    expect(profileOf(caps).audio.map((a) => a.codec)).toEqual(["aac", "ac3"]);
  });

  it("tells files from segments: MP3 plays from a file, not from Media Source", async () => {
    const profile = profileOf(await ask(CHROMIUM));
    expect(profile.direct_play.find((d) => d.container === "mp4")?.audio).toContain("mp3");
    expect(profile.hls?.audio).toEqual(["aac", "opus", "flac"]);
    expect(profile.hls?.video).toEqual(["h264", "vp9", "av1"]);
  });

  it("leaves out what failed", async () => {
    const caps = await ask(CHROMIUM);
    const without = (e: Partial<Parameters<typeof profileOf>[1]>) =>
      profileOf(caps, { video: new Set(), audio: new Set(), direct: false, safest: false, pictures: false, ...e });
    expect(JSON.stringify(without({ video: new Set(["av1"]) }))).not.toContain("av1");
    const formats = (profile: ReturnType<typeof without>) => profile.subtitles.map((s) => s.format);
    expect(formats(without({}))).toEqual(["ass", "webvtt", "pgs", "vobsub"]);
    expect(formats(without({ pictures: true }))).toEqual(["ass", "webvtt"]);
    expect(JSON.stringify(without({ audio: new Set(["flac"]) }))).not.toContain('"flac"');
    const direct = without({ direct: true });
    expect(direct.direct_play).toEqual([]);
    expect(direct.protocols).toEqual(["hls"]);
    const safest = without({ safest: true });
    expect(safest.video.map((v) => v.codec)).toEqual(["h264"]);
    expect(safest.video[0]?.max_bit_depth).toBe(8);
    expect(safest.audio).toEqual([{ codec: "aac" }]);
  });

  it("declares HDR only for a display that has it, and only for 10 bit codecs", async () => {
    const sdr = profileOf(await ask(CHROMIUM));
    expect(sdr.video.every((v) => v.hdr === undefined)).toBe(true);
    const hdr = profileOf(await ask({ ...CHROMIUM, dynamicRangeHigh: true }));
    expect(hdr.video.find((v) => v.codec === "av1")?.hdr).toEqual(["hdr10"]);
    expect(hdr.video.find((v) => v.codec === "h264")?.hdr).toBeUndefined();
  });

  it("of a browser that plays nothing is empty, not an error", async () => {
    const profile = profileOf(await ask(browser(/^$/, null)));
    expect(profile).toMatchObject({ direct_play: [], video: [], audio: [], protocols: ["http"] });
  });
});
