import { describe, expect, it } from "vitest";
import { move, pages, shape, visible } from "./window";

describe("grid window", () => {
  const grid = shape(1000, 150, 20, (w) => w * 1.5);

  it("fits as many columns as the width takes and fills it", () => {
    expect(grid.columns).toBe(6);
    expect(grid.cellWidth * 6 + 20 * 5).toBeCloseTo(1000);
    expect(shape(80, 150, 20, (w) => w).columns).toBe(1);
    expect(shape(0, 150, 20, (w) => w).cellWidth).toBeGreaterThan(0);
  });

  it("draws a few rows of ten thousand", () => {
    const { first, end } = visible(10_000, grid, 50_000, 900);
    expect(end - first).toBeLessThan(60);
    expect(first % grid.columns).toBe(0);
    expect(first).toBeLessThanOrEqual(Math.floor(50_000 / grid.rowHeight) * grid.columns);
  });

  it("stays inside the list at both ends", () => {
    expect(visible(0, grid, 0, 900)).toEqual({ first: 0, end: 0 });
    expect(visible(5, grid, -400, 900)).toEqual({ first: 0, end: 5 });
    const past = visible(5, grid, 90_000, 900);
    expect(past.first).toBeLessThanOrEqual(past.end);
    expect(past.end).toBeLessThanOrEqual(5);
  });

  it("asks for the pages that hold what is seen", () => {
    expect(pages(0, 0, 100)).toEqual([]);
    expect(pages(0, 100, 100)).toEqual([0]);
    expect(pages(99, 101, 100)).toEqual([0, 1]);
    expect(pages(250, 450, 100)).toEqual([2, 3, 4]);
  });

  it("moves the focus by keys and stops at the edges", () => {
    expect(move(0, "ArrowLeft", 10, 4, 2)).toBe(0);
    expect(move(9, "ArrowRight", 10, 4, 2)).toBe(9);
    expect(move(5, "ArrowDown", 10, 4, 2)).toBe(9);
    expect(move(7, "ArrowDown", 10, 4, 2)).toBe(9);
    expect(move(8, "ArrowDown", 10, 4, 2)).toBe(8);
    expect(move(2, "ArrowUp", 10, 4, 2)).toBe(2);
    expect(move(0, "PageDown", 100, 4, 2)).toBe(8);
    expect(move(9, "End", 100, 4, 2)).toBe(99);
    expect(move(9, "x", 100, 4, 2)).toBe(9);
  });
});
