/** Colours that follow from a name or an id, the same on every page and day. */

/** FNV-1a over UTF-16 units: spread, not secrecy. */
export function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    h ^= text.charCodeAt(i);
    h = Math.imul(h, 0x01000193) >>> 0;
  }
  // Final mixing: ids that differ in the last digit alone must not share a hue.
  h ^= h >>> 15;
  h = Math.imul(h, 0x2c1b3c6d) >>> 0;
  return (h ^ (h >>> 12)) >>> 0;
}

/** A hue in degrees. */
export const hue = (id: string): number => hash(id) % 360;

/**
 * Line colours on the dark ground: at least 5:1 against it, neighbours told apart also with the
 * common colour blindnesses (light and dark, warm and cold alternate).
 */
const DISK_COLOURS = [
  "#5cc8ff",
  "#ffb454",
  "#7ee2a8",
  "#c59bff",
  "#ff8a80",
  "#f2e368",
  "#4fd8d2",
  "#ff9ecb",
  "#a3b8ff",
  "#c7e08b",
  "#e0b69a",
  "#9fd0e6",
];

/** One colour a disk, by its place among the sorted names of its machine. */
export function diskColours(disks: Iterable<string>): Map<string, string> {
  const names = [...new Set(disks)].sort(byDisk);
  return new Map(names.map((name, i) => [name, DISK_COLOURS[i % DISK_COLOURS.length] as string]));
}

/** `sdb` before `sdaa`, `nvme2n1` before `nvme10n1`. */
export function byDisk(a: string, b: string): number {
  const letters = (name: string) => /^(?:sd|vd|hd|xvd)[a-z]+$/.test(name);
  if (letters(a) && letters(b) && a.length !== b.length) return a.length - b.length;
  return a.localeCompare(b, "en", { numeric: true });
}
