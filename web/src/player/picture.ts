/** Subtitles that are pictures, whatever format they come in. */

/** Pixels of a screen or a picture: one of 4K is below it, and no more is ever made room for. */
export const MAX_PIXELS = 4096 * 2304;
/** Pictures on screen at once: Blu-ray has two. */
export const MAX_PICTURES = 16;

/** Straight RGBA at its place on the screen. */
export interface Picture {
  x: number;
  y: number;
  width: number;
  height: number;
  rgba: Uint8ClampedArray<ArrayBuffer>;
}

/** All that is to be seen; no picture clears what was. */
export interface Screen {
  width: number;
  height: number;
  pictures: Picture[];
}

export interface PictureTrack {
  /** When what is on screen changes, in seconds, in order. */
  times: readonly number[];
  /** Whether the screen has square pixels, or is as wide and high as the film's picture, whatever that is shown as. */
  squarePixels: boolean;
  /** What is on screen from `times[n]`; `undefined` for what cannot be read. */
  screen(n: number): Screen | undefined;
}

/** The last change at or before a time; -1 before the first. */
export function changeAt(times: readonly number[], atS: number): number {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) <= atS) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
