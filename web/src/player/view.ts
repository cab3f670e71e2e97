/** What shows the subtitles of one track over the picture. */

export interface SubtitleView {
  /** Shows everything so many seconds later than the file says; negative is earlier. */
  shift(offsetS: number): void;
  destroy(): void;
}
