import { describe, expect, it } from "vitest";
import { commandOf, isElements, type Place } from "./keyboard";

describe("keyboard", () => {
  it("maps the usual keys, in either case", () => {
    expect(commandOf({ key: " " })).toEqual({ do: "toggle" });
    expect(commandOf({ key: "K", shiftKey: true })).toEqual({ do: "toggle" });
    expect(commandOf({ key: "j" })).toEqual({ do: "skip", by_s: -10 });
    expect(commandOf({ key: "ArrowRight" })).toEqual({ do: "skip", by_s: 5 });
    expect(commandOf({ key: "7" })).toEqual({ do: "seek_share", share: 0.7 });
    expect(commandOf({ key: "i" })).toEqual({ do: "io" });
  });

  it("leaves the browser's own shortcuts alone", () => {
    expect(commandOf({ key: "f", ctrlKey: true })).toBeNull();
    expect(commandOf({ key: "ArrowLeft", altKey: true })).toBeNull();
    expect(commandOf({ key: "1", metaKey: true })).toBeNull();
    expect(commandOf({ key: "Tab" })).toBeNull();
  });
});

describe("whose a key is", () => {
  const place = (...matching: string[]): Place => ({
    closest: (selector) => selector.split(", ").some((s) => matching.includes(s)) || null,
  });
  const button = place("button");
  const range = place("input[type=range]");

  it("is a button's when the keyboard went there, and the player's after a click", () => {
    expect(isElements(" ", button, false)).toBe(true);
    expect(isElements(" ", button, true)).toBe(false);
    expect(isElements("Enter", button, true)).toBe(true);
    expect(isElements("k", button, false)).toBe(false);
  });

  it("is a slider's where it moves it, and the player's otherwise", () => {
    expect(isElements("ArrowLeft", range, false)).toBe(true);
    expect(isElements("ArrowLeft", range, true)).toBe(false);
    expect(isElements(" ", range, false)).toBe(false);
    expect(isElements("k", range, false)).toBe(false);
  });

  it("is a field's and a menu's always", () => {
    expect(isElements(" ", place("[role=menu]"), true)).toBe(true);
    expect(isElements("k", place("input:not([type=range])"), true)).toBe(true);
  });
});
