import { describe, expect, it } from "vitest";
import { languageChoices, placeLanguage } from "./language";

describe("languages", () => {
  it("are sorted by name and hold what was chosen before", () => {
    const names = languageChoices(["que"]).map((c) => c.name);
    expect(names).toContain("German");
    expect(names).toContain("Quechua");
    expect(names).toEqual([...names].sort((a, b) => a.localeCompare(b, "en")));
  });

  it("take a place in the list once, and leave it", () => {
    expect(placeLanguage([], 0, "deu")).toEqual(["deu"]);
    expect(placeLanguage(["deu"], 1, "eng")).toEqual(["deu", "eng"]);
    expect(placeLanguage(["deu", "eng"], 0, "eng")).toEqual(["eng"]);
    expect(placeLanguage(["deu", "eng"], 0, "")).toEqual(["eng"]);
    expect(placeLanguage(["deu"], 2, "fra")).toEqual(["deu", "fra"]);
  });
});
