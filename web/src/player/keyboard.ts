/** Keys of the player. Pure: what a key asks for, not what happens. */

export type Command =
  | { do: "toggle" }
  | { do: "skip"; by_s: number }
  | { do: "seek_share"; share: number }
  | { do: "volume"; by: number }
  | { do: "mute" }
  | { do: "fullscreen" }
  | { do: "picture_in_picture" }
  | { do: "captions" }
  | { do: "subtitle_offset"; steps: 1 | -1 }
  | { do: "io" }
  | { do: "speed"; by: number }
  | { do: "frame"; by: 1 | -1 }
  | { do: "chapter"; by: 1 | -1 }
  | { do: "help" }
  | { do: "leave" };

export interface Key {
  key: string;
  ctrlKey?: boolean;
  metaKey?: boolean;
  altKey?: boolean;
  shiftKey?: boolean;
}

/** The command of a key, or none: keys with Ctrl, Alt or Meta belong to the browser. */
export function commandOf(key: Key): Command | null {
  if (key.ctrlKey || key.metaKey || key.altKey) return null;
  if (/^[0-9]$/.test(key.key)) return { do: "seek_share", share: Number(key.key) / 10 };
  switch (key.key.length === 1 ? key.key.toLowerCase() : key.key) {
    case " ":
    case "k":
    case "MediaPlayPause":
      return { do: "toggle" };
    case "ArrowLeft":
      return { do: "skip", by_s: -5 };
    case "ArrowRight":
      return { do: "skip", by_s: 5 };
    case "j":
      return { do: "skip", by_s: -10 };
    case "l":
      return { do: "skip", by_s: 10 };
    case "ArrowUp":
      return { do: "volume", by: 0.05 };
    case "ArrowDown":
      return { do: "volume", by: -0.05 };
    case "m":
      return { do: "mute" };
    case "f":
      return { do: "fullscreen" };
    case "p":
      return { do: "picture_in_picture" };
    case "c":
      return { do: "captions" };
    case "g":
      return { do: "subtitle_offset", steps: -1 };
    case "h":
      return { do: "subtitle_offset", steps: 1 };
    case "i":
      return { do: "io" };
    case ">":
      return { do: "speed", by: 1 };
    case "<":
      return { do: "speed", by: -1 };
    case ".":
      return { do: "frame", by: 1 };
    case ",":
      return { do: "frame", by: -1 };
    case "PageUp":
    case "]":
      return { do: "chapter", by: 1 };
    case "PageDown":
    case "[":
      return { do: "chapter", by: -1 };
    case "?":
      return { do: "help" };
    case "Escape":
      return { do: "leave" };
    default:
      return null;
  }
}

/** What a key falls on. */
export interface Place {
  closest(selector: string): unknown;
}

/**
 * Whether a key belongs to the element that has the focus. `pointed`: that got it from a mouse or a finger, whose user did not go
 * there to press keys: Space pauses then, and does not press the button once more.
 */
export function isElements(key: string, at: Place, pointed: boolean): boolean {
  if (at.closest("select, textarea, [role=menu], input:not([type=range])")) return true;
  if (at.closest("input[type=range]")) return /^(Arrow|Home|End|Page)/.test(key) && !pointed;
  return (key === "Enter" || (key === " " && !pointed)) && Boolean(at.closest("button, a"));
}

/** The keys for the help, as people read them. */
export const KEYS: readonly [keys: string, does: string][] = [
  ["Space or K", "play, pause"],
  ["← →", "5 seconds back, on"],
  ["J L", "10 seconds back, on"],
  ["0 – 9", "to a tenth of the length"],
  ["↑ ↓", "volume"],
  ["M", "mute"],
  ["F", "full screen"],
  ["P", "picture in picture"],
  ["C", "subtitles on, off"],
  ["G H", "subtitles earlier, later"],
  ["I", "which disks serve this"],
  ["[ ]", "previous, next chapter"],
  [", .", "one picture back, on (paused)"],
  ["< >", "slower, faster"],
  ["Esc", "close, leave"],
];
