/** Lines that lie on each other, told apart: where several run together, each shows through in turn. Pure. */

/** How far apart two lines may be, as a share of the chart's height, and still look like one. */
const APART = 0.012;
/** The share of the points at which they have to be so near. */
const ALIKE = 0.8;
/** Length of a piece of one line before the next one shows, in the unit of the drawing. */
const PIECE = 9;

/** A line's place among those that it lies on: the `at`th of `of`. */
export interface Twin {
  of: number;
  at: number;
}

/** For each line: among how many it lies, and as which. Lines without a value above 0 are alone: they lie on the axis. */
export function twins(lines: readonly (readonly number[])[], peak?: number): Twin[] {
  const high = peak ?? Math.max(0, ...lines.flat());
  const groups: number[][] = [];
  lines.forEach((line, i) => {
    const rises = line.some((v) => v > high * APART);
    const group = rises ? groups.find((g) => areAlike(lines[g[0] ?? 0] ?? [], line, high * APART)) : undefined;
    if (group) group.push(i);
    else groups.push([i]);
  });
  const out: Twin[] = lines.map(() => ({ of: 1, at: 0 }));
  for (const group of groups) group.forEach((i, at) => (out[i] = { of: group.length, at }));
  return out;
}

/** Whether two lines look like one where either of them rises. */
function areAlike(a: readonly number[], b: readonly number[], apart: number): boolean {
  let near = 0;
  let all = 0;
  for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
    const [x, y] = [a[i] ?? 0, b[i] ?? 0];
    if (Math.max(x, y) <= apart) continue;
    all += 1;
    if (Math.abs(x - y) <= apart) near += 1;
  }
  return all > 0 && near >= ALIKE * all;
}

/** How a twin is stroked, as a dash array: pieces of its own, in the gaps of the others; empty for a line that is alone. */
export function pieces(twin: Twin | undefined, scale = 1): number[] {
  if (!twin || twin.of < 2) return [];
  const piece = PIECE * scale;
  // A dash of no length, then a gap, puts the first piece where it belongs: a canvas' dashes begin with a dash.
  return twin.at === 0 ? [piece, piece * (twin.of - 1)] : [0, piece * twin.at, piece, piece * (twin.of - 1 - twin.at)];
}
