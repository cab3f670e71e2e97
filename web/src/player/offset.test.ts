import { describe, expect, it } from "vitest";
import { offsetText, rememberedOffset, rememberOffset, stepped, type Store } from "./offset";

function store(): Store & { all: Map<string, string> } {
  const all = new Map<string, string>();
  return { all, getItem: (k) => all.get(k) ?? null, setItem: (k, v) => void all.set(k, v), removeItem: (k) => void all.delete(k) };
}

describe("the offset of subtitles", () => {
  it("moves in whole steps and never drifts", () => {
    let offset = 0;
    for (let i = 0; i < 37; i += 1) offset = stepped(offset, 1);
    expect(offset).toBe(3.7);
    for (let i = 0; i < 37; i += 1) offset = stepped(offset, -1);
    expect(offset).toBe(0);
  });
  it("has limits", () => {
    expect(stepped(59.95, 9)).toBe(60);
    expect(stepped(-60, -1)).toBe(-60);
  });
  it("is said in words", () => {
    expect([offsetText(0), offsetText(0.3), offsetText(-2)]).toEqual(["as in the file", "0.3 s later", "2.0 s earlier"]);
  });
  it("is kept for each item", () => {
    const kept = store();
    rememberOffset(kept, "a", 1.5);
    expect([rememberedOffset(kept, "a"), rememberedOffset(kept, "b")]).toEqual([1.5, 0]);
    rememberOffset(kept, "a", 0);
    expect(kept.all.size).toBe(0);
  });
  it("bears a store that refuses or holds nonsense", () => {
    const broken: Store = {
      getItem: () => "much",
      setItem: () => { throw new Error("full"); },
      removeItem: () => undefined,
    };
    expect(rememberedOffset(broken, "a")).toBe(0);
    expect(() => rememberOffset(broken, "a", 1)).not.toThrow();
    expect(rememberedOffset({ ...broken, getItem: () => "9999" }, "a")).toBe(60);
  });
});
