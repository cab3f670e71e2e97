import { expect, test } from "vitest";
import { Place } from "./place";

test("playing moves the place, and so does the viewer", () => {
  const place = new Place();
  place.goTo(12, 0);
  place.playedTo(12.25, 1, 250);
  expect(place.atS).toBe(12.25);
  place.goTo(3000, 300);
  place.playedTo(3000.5, 1, 800);
  expect(place.atS).toBe(3000.5);
  place.goTo(5, 900);
  expect(place.atS).toBe(5);
});

test("an element that is at zero or at the end of a sudden is not believed", () => {
  const place = new Place();
  place.goTo(4, 0);
  place.playedTo(0, 1, 100);
  place.playedTo(60, 1, 200);
  expect(place.atS).toBe(4);
  place.playedTo(5.5, 1, 300);
  expect(place.atS).toBe(5.5);
});

test("a page in the background, a high speed and a hole are followed", () => {
  const place = new Place();
  place.goTo(10, 0);
  place.playedTo(70, 1, 60_000);
  expect(place.atS).toBe(70);
  place.playedTo(90, 2, 70_000);
  expect(place.atS).toBe(90);
  place.playedTo(92.1, 1, 70_100);
  expect(place.atS).toBe(92.1);
});
