import { describe, expect, it } from "vitest";
import { experimentHref, experimentPairHref, itemHref, libraryHref, parse, recordHref, watchHref } from "./route";

describe("route", () => {
  it("reads the addresses of experiments", () => {
    expect(parse(experimentHref("ab_1"))).toEqual({ view: "experiment", id: "ab_1" });
    expect(parse(experimentPairHref("a"))).toEqual({ view: "experiments", compare: "a" });
    expect(parse(experimentPairHref("a", "b"))).toEqual({ view: "experiment-pair", a: "a", b: "b" });
    expect(parse("#/experiments")).toEqual({ view: "experiments", compare: undefined });
  });

  it("reads what it writes", () => {
    expect(parse(itemHref("a/b c?#"))).toEqual({ view: "item", id: "a/b c?#" });
    expect(parse(libraryHref("7", { sort: "-added", search: "ö & x" }))).toEqual({
      view: "library",
      library: "7",
      query: { sort: "-added", search: "ö & x", type: undefined, watched: undefined },
    });
    expect(parse(watchHref("9", { start_s: 0, audio: 2, subtitle: "off" }))).toEqual({
      view: "watch",
      id: "9",
      query: { start_s: 0, audio: 2, subtitle: "off", version: undefined },
    });
    expect(parse(recordHref("s1"))).toEqual({ view: "record", session: "s1" });
  });

  it("takes an empty address as home", () => {
    expect(parse("")).toEqual({ view: "home" });
    expect(parse("#/")).toEqual({ view: "home" });
    expect(parse("#/item/")).toEqual({ view: "home" });
  });

  it("drops numbers that are none instead of passing them on", () => {
    expect(parse("#/watch/9?t=abc&audio=-1")).toMatchObject({
      query: { start_s: undefined, audio: undefined },
    });
    expect(parse("#/library/1?watched=maybe")).toMatchObject({ query: { watched: undefined } });
  });

  it("never throws on a broken address", () => {
    expect(parse("#/item/%E0%A4%A")).toMatchObject({ view: "unknown" });
    expect(parse("#/nowhere")).toMatchObject({ view: "unknown" });
  });
});
