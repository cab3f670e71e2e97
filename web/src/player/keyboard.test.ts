import { describe, expect, it } from "vitest";
import { commandOf } from "./keyboard";

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
