/** How much later than their file says subtitles are shown. Pure but for the store that is handed in. */

/** One step, in seconds: less is not seen, more is noticed. */
export const OFFSET_STEP_S = 0.1;
/** Further apart than this, the subtitles are of another cut. */
export const OFFSET_MAX_S = 60;

/** `offsetS` moved by so many steps: whole steps, within the limits. Positive is later. */
export function stepped(offsetS: number, steps: number): number {
  const wanted = Math.round(offsetS / OFFSET_STEP_S) + steps;
  const most = Math.round(OFFSET_MAX_S / OFFSET_STEP_S);
  // Through whole numbers: tenths that are added up drift.
  return Math.min(most, Math.max(-most, wanted)) / Math.round(1 / OFFSET_STEP_S);
}

/** In words, for the menu and for who listens. */
export function offsetText(offsetS: number): string {
  if (offsetS === 0) return "as in the file";
  return `${Math.abs(offsetS).toFixed(1)} s ${offsetS > 0 ? "later" : "earlier"}`;
}

/** What is needed of `sessionStorage`. */
export interface Store {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const key = (item: string) => `spindle.subtitle-offset.${item}`;

/** The offset of an item for as long as this tab lives: another copy of it may be in step. */
export function rememberedOffset(store: Store, item: string): number {
  try {
    const value = Number(store.getItem(key(item)) ?? 0);
    return Number.isFinite(value) ? stepped(value, 0) : 0;
  } catch {
    return 0;
  }
}

export function rememberOffset(store: Store, item: string, offsetS: number): void {
  try {
    if (offsetS === 0) store.removeItem(key(item));
    else store.setItem(key(item), String(offsetS));
  } catch {
    // A browser that keeps nothing: it holds for this page.
  }
}
