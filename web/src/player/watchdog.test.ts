import { describe, expect, it } from "vitest";
import { judge, type Counters } from "./watchdog";

const at = (timeS: number, more: Partial<Counters> = {}): Counters => ({
  timeS,
  width: 1920,
  frames: Math.round(timeS * 24),
  audioBytes: Math.round(timeS * 16_000),
  ...more,
});
const both = { video: true, audio: true };

describe("watchdog", () => {
  it("finds nothing wrong with a picture that moves and sound that is decoded", () => {
    expect(judge(at(0), at(2), both)).toBeNull();
  });

  it("finds sound without a picture, as Chromium plays HEVC", () => {
    expect(judge(at(0), at(2, { width: 0, frames: 0 }), both)).toBe("no_picture");
    expect(judge(at(0, { frames: 0 }), at(2, { frames: 0 }), both)).toBe("no_picture");
  });

  it("finds a picture without sound, as Chromium plays E-AC-3", () => {
    expect(judge(at(0), at(2, { audioBytes: 0 }), both)).toBe("no_sound");
    expect(judge(at(0), at(2, { audioBytes: 0 }), { video: true, audio: false })).toBeNull();
  });

  it("finds a picture that stands still while time runs", () => {
    expect(judge(at(10), at(12, { frames: 240 }), both)).toBe("frozen");
    expect(judge(at(10), at(12, { frames: 240 }), { ...both, fps: 0.2 })).toBeNull();
  });

  it("does not judge time that stands still, nor counters that are not there", () => {
    expect(judge(at(5), at(5.2, { width: 0 }), both)).toBeNull();
    const bare = { frames: undefined, audioBytes: undefined };
    expect(judge(at(0, bare), at(2, bare), both)).toBeNull();
  });
});
