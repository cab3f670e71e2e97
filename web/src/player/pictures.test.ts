import { expect, it } from "vitest";
import { pictureBox, screenBox } from "./pictures";

it("the film is in the middle of its element", () => {
  expect(pictureBox({ width: 1024, height: 1024 }, { width: 2048, height: 1024 })).toEqual({ left: 0, top: 256, width: 1024, height: 512 });
  expect(pictureBox({ width: 1024, height: 512 }, { width: 256, height: 256 })).toEqual({ left: 256, top: 0, width: 512, height: 512 });
});
it("pictures of square pixels keep their shape about the middle of a film without its bars", () => {
  const film = { left: 0, top: 100, width: 1920, height: 800 };
  expect(screenBox(film, { width: 1920, height: 1080 }, true)).toEqual({ left: 0, top: -40, width: 1920, height: 1080 });
});
it("pictures of a DVD lie on the whole film, whatever its pixels are", () => {
  const film = { left: 5, top: 6, width: 1024, height: 576 };
  expect(screenBox(film, { width: 720, height: 576 }, false)).toEqual(film);
});
