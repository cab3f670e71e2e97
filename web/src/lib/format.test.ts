import { describe, expect, it } from "vitest";
import { ago, bitrate, bytes, clock, count, duration, latency, percent, rate } from "./format";

describe("format", () => {
  it("shows bytes with three significant digits and never as 1000 of a unit", () => {
    expect(bytes(0)).toBe("0 B");
    expect(bytes(999)).toBe("999 B");
    expect(bytes(999_600)).toBe("1.00 MB");
    expect(bytes(4_370_000_000)).toBe("4.37 GB");
    expect(bytes(43_700_000)).toBe("43.7 MB");
    expect(bytes(437_000_000)).toBe("437 MB");
    expect(bytes(-2000)).toBe("−2.00 KB");
    expect(bytes(undefined)).toBe("–");
    expect(bytes(Number.NaN)).toBe("–");
  });

  it("tells bits from bytes", () => {
    expect(rate(12_500_000)).toBe("12.5 MB/s");
    expect(bitrate(8_200_000)).toBe("8.2 Mbit/s");
    expect(bitrate(640_000)).toBe("640 kbit/s");
    expect(bitrate(undefined)).toBe("–");
  });

  it("shows a position as a clock, hours only when there are some", () => {
    expect(clock(0)).toBe("0:00");
    expect(clock(129.9)).toBe("2:09");
    expect(clock(3729)).toBe("1:02:09");
    expect(clock(-3)).toBe("0:00");
    expect(clock(Number.POSITIVE_INFINITY)).toBe("0:00");
  });

  it("shows a length in words and carries minutes over to hours", () => {
    expect(duration(38)).toBe("38 s");
    expect(duration(24 * 60)).toBe("24 min");
    expect(duration(3599)).toBe("1 h");
    expect(duration(6720)).toBe("1 h 52 min");
    expect(duration(null)).toBe("");
  });

  it("does not show a small share as nothing", () => {
    expect(percent(0)).toBe("0.0 %");
    expect(percent(0.0004)).toBe("<0.1 %");
    expect(percent(0.254)).toBe("25 %");
    expect(percent(undefined)).toBe("–");
  });

  it("scales latencies", () => {
    expect(latency(412)).toBe("412 µs");
    expect(latency(4120)).toBe("4.1 ms");
    expect(latency(41_200)).toBe("41 ms");
    expect(latency(1_240_000)).toBe("1.2 s");
  });

  it("says how long ago, then the date", () => {
    const now = Date.parse("2026-11-30T12:00:00Z");
    expect(ago("2026-11-30T11:59:30Z", now)).toBe("just now");
    expect(ago("2026-11-30T11:20:00Z", now)).toBe("40 min ago");
    expect(ago("2026-11-29T11:00:00Z", now)).toBe("yesterday");
    expect(ago("2026-01-02T11:00:00Z", now)).toContain("2026");
    expect(ago("nonsense", now)).toBe("");
  });

  it("counts in the right number", () => {
    expect(count(1, "file")).toBe("1 file");
    expect(count(1200, "file")).toBe("1,200 files");
  });
});
