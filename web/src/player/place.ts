/** Seconds that a player may be ahead of the clock: a hole in a stream that is jumped over, a late event. */
const SLACK_S = 2;

/**
 * Where the viewer is: moved by playing and by the viewer's own jumps. What the element says is not always that: while a player
 * that failed is rebuilt it is at zero, and a decoder that ends at a bad picture may put it at the film's end.
 */
export class Place {
  #atS = 0;
  #sinceMs = 0;

  /** Seconds from the start of the film. */
  get atS(): number {
    return this.#atS;
  }

  /** The film begins here, or the viewer has jumped here. */
  goTo(atS: number, nowMs: number): void {
    this.#atS = atS;
    this.#sinceMs = nowMs;
  }

  /** The element says so; believed as far as it can have played since the last time, at this speed. */
  playedTo(atS: number, speed: number, nowMs: number): void {
    const most = this.#atS + ((nowMs - this.#sinceMs) / 1000) * Math.max(1, speed) + SLACK_S;
    if (atS >= this.#atS && atS <= most) this.goTo(atS, nowMs);
  }
}
