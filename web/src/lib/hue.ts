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

/** How many disk colours there are: the tokens `--disk-0`, `--disk-1`, … of `app.css`. */
export const DISK_COLOURS = 12;

/**
 * One colour a disk. It follows from the name (`sdb` is the second, `nvme3n1` the fourth), so that a
 * disk looks the same in every view; only disks that would share a colour move on to the next free.
 * The colour is a token, so that it follows the theme; a canvas resolves it by `resolveColour`.
 */
export function diskColours(disks: Iterable<string>): Map<string, string> {
  const names = [...new Set(disks)].sort(byDisk);
  const colours = new Map<string, string>();
  const taken = new Set<number>();
  for (const name of names) {
    let slot = slotOf(name) % DISK_COLOURS;
    while (taken.has(slot) && taken.size < DISK_COLOURS) slot = (slot + 1) % DISK_COLOURS;
    taken.add(slot);
    colours.set(name, `var(--disk-${slot})`);
  }
  return colours;
}

function slotOf(name: string): number {
  const letters = /^(?:sd|vd|hd|xvd)([a-z]+)$/.exec(name)?.[1];
  if (letters) return [...letters].reduce((n, c) => n * 26 + c.charCodeAt(0) - 96, 0) - 1;
  const number = /\d+/.exec(name)?.[0];
  return number === undefined ? hash(name) : Number(number) % 1_000_000;
}

/** `sdb` before `sdaa`, `nvme2n1` before `nvme10n1`. */
export function byDisk(a: string, b: string): number {
  const letters = (name: string) => /^(?:sd|vd|hd|xvd)[a-z]+$/.test(name);
  if (letters(a) && letters(b) && a.length !== b.length) return a.length - b.length;
  return a.localeCompare(b, "en", { numeric: true });
}
