import { expect, it } from "vitest";
import { shifted } from "./webvtt";

it("cues are moved from where their file has them", () => {
  const cue = { startTime: 2, endTime: 5 };
  expect(shifted(cue, 1.5)).toEqual({ startTime: 3.5, endTime: 6.5 });
  expect(shifted(cue, -3)).toEqual({ startTime: 0, endTime: 2 });
  expect(shifted(cue, -9)).toEqual({ startTime: 0, endTime: 0 });
});
