/** Arithmetic of a grid that draws only what is seen. */

export interface GridShape {
  columns: number;
  /** Width of one cell and distance from one row to the next, in CSS pixels. */
  cellWidth: number;
  rowHeight: number;
}

/** Columns that fit `width`, cells stretched to fill it. */
export function shape(
  width: number,
  minCell: number,
  gap: number,
  /** Height of a cell of the given width. */
  heightOf: (cellWidth: number) => number,
): GridShape {
  const columns = Math.max(1, Math.floor((width + gap) / (minCell + gap)));
  const cellWidth = Math.max(1, (width - gap * (columns - 1)) / columns);
  return { columns, cellWidth, rowHeight: heightOf(cellWidth) + gap };
}

/** First and one-past-last item to draw, whole rows, with `spare` rows above and below. */
export function visible(
  total: number,
  { columns, rowHeight }: GridShape,
  /** Pixels of the grid scrolled out above, and pixels seen. */
  scrolled: number,
  seen: number,
  spare = 2,
): { first: number; end: number } {
  const rows = Math.ceil(total / columns);
  const top = Math.min(rows, Math.max(0, Math.floor(scrolled / rowHeight) - spare));
  const bottom = Math.min(rows, Math.max(top, Math.ceil((scrolled + seen) / rowHeight) + spare));
  return { first: Math.min(total, top * columns), end: Math.min(total, bottom * columns) };
}

/** Pages of `size` that hold the items from `first` to `end`. */
export function pages(first: number, end: number, size: number): number[] {
  if (end <= first) return [];
  const from = Math.floor(first / size);
  const to = Math.floor((end - 1) / size);
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/** Where a key moves the focus; the same index when it does not. */
export function move(index: number, key: string, total: number, columns: number, rowsSeen: number): number {
  const last = total - 1;
  const to = (n: number) => Math.min(last, Math.max(0, n));
  switch (key) {
    case "ArrowRight":
      return to(index + 1);
    case "ArrowLeft":
      return to(index - 1);
    case "ArrowDown":
      // From the last full row into a shorter one: to its end.
      return index + columns <= last
        ? index + columns
        : Math.floor(index / columns) < Math.floor(last / columns)
          ? last
          : index;
    case "ArrowUp":
      return index - columns >= 0 ? index - columns : index;
    case "PageDown":
      return to(index + columns * Math.max(1, rowsSeen));
    case "PageUp":
      return to(index - columns * Math.max(1, rowsSeen));
    case "Home":
      return 0;
    case "End":
      return to(last);
    default:
      return index;
  }
}
