import { describe, expect, it } from "vitest";
import { CATALOGUE, faultOfHls, faultOfMedia, Recovery, reportWord, type FaultCode } from "./catalogue";

describe("error catalogue", () => {
  it("has one full sentence for every fault", () => {
    for (const [code, entry] of Object.entries(CATALOGUE)) {
      expect(entry.text, code).toMatch(/^[A-Z].+\.$/);
      expect(entry.fatal, code).toBe(entry.action !== "wait");
    }
  });

  it("has a word of the server's for every fault that another way answers", () => {
    const answered = (Object.keys(CATALOGUE) as FaultCode[]).filter((code) => ["fall_back", "recover_media"].includes(CATALOGUE[code].action));
    expect(Object.fromEntries(answered.map((code) => [code, reportWord(code)]))).toEqual({
      decode: "decode",
      no_picture: "decode",
      no_sound: "decode",
      frozen: "decode",
      unsupported: "unsupported",
      append: "unsupported",
      unknown: "other",
    });
  });

  it("reads the four codes of a media element", () => {
    expect(faultOfMedia({ code: 1 }).code).toBe("stalled");
    expect(faultOfMedia({ code: 2 }).code).toBe("network");
    expect(faultOfMedia({ code: 3, message: "x" })).toEqual({ code: "decode", detail: "x" });
    expect(faultOfMedia({ code: 4 }).code).toBe("unsupported");
    expect(faultOfMedia({ code: 4, message: "404: Not Found" }).code).toBe("expired");
    expect(faultOfMedia(null).code).toBe("unknown");
  });

  it("asks for a new address when the old one ran out, not for another format", () => {
    const error = { type: "networkError", details: "fragLoadError", fatal: true };
    expect(faultOfHls({ ...error, response: { code: 403 } }).code).toBe("expired");
    expect(faultOfHls({ ...error, response: { code: 404 } }).code).toBe("gone");
    expect(faultOfHls({ ...error, response: { code: 503 } }).code).toBe("server");
    expect(faultOfHls(error).code).toBe("network");
    expect(faultOfHls({ ...error, details: "fragLoadTimeOut" }).code).toBe("timeout");
  });

  it("falls back only for what the browser cannot decode", () => {
    const media = { type: "mediaError", details: "bufferAddCodecError", fatal: true };
    expect(CATALOGUE[faultOfHls(media).code].action).toBe("fall_back");
    expect(CATALOGUE[faultOfHls({ ...media, details: "bufferAppendError" }).code].action).toBe("recover_media");
    expect(faultOfHls({ ...media, fatal: false }).code).toBe("stalled");
  });

  it("tries stronger actions as weaker ones do not help, and ends", () => {
    const recovery = new Recovery();
    const actions = Array.from({ length: 8 }, (_, i) => recovery.decide({ code: "network" }, i * 1000));
    expect(actions).toEqual([
      "restart_loading",
      "restart_loading",
      "restart_loading",
      "renew",
      "renew",
      "give_up",
      "give_up",
      "give_up",
    ]);
  });

  it("forgets old tries: one drop an hour is never the last", () => {
    const recovery = new Recovery();
    for (let hour = 0; hour < 30; hour += 1) {
      expect(recovery.decide({ code: "network" }, hour * 3_600_000)).toBe("restart_loading");
    }
  });
});
