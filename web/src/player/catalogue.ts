/**
 * What can go wrong while playing, and what is done about it.
 *
 * Each entry says whether playback is over without help (`fatal`) and the one action that answers
 * it. `Recovery` decides how often an action is tried before the next stronger one.
 */

/**
 * - `wait`: the browser or hls.js goes on by itself
 * - `restart_loading`: ask the same source again from where it stopped
 * - `recover_media`: rebuild the decoder on the same source
 * - `renew`: the address is no longer valid; ask the server for a new one
 * - `fall_back`: tell the server what failed and take what it offers instead
 * - `give_up`: show the sentence
 */
export type Action = "wait" | "restart_loading" | "recover_media" | "renew" | "fall_back" | "give_up";

export type FaultCode =
  | "network"
  | "timeout"
  | "expired"
  | "gone"
  | "server"
  | "decode"
  | "unsupported"
  | "no_picture"
  | "no_sound"
  | "frozen"
  | "append"
  | "playlist"
  | "blocked"
  | "stalled"
  | "unknown";

export interface Entry {
  fatal: boolean;
  action: Action;
  /** One sentence for the person who watches. */
  text: string;
}

export const CATALOGUE: Readonly<Record<FaultCode, Entry>> = {
  network: { fatal: true, action: "restart_loading", text: "The connection to the server broke off." },
  timeout: { fatal: true, action: "restart_loading", text: "The server took too long to answer." },
  expired: { fatal: true, action: "renew", text: "The address of the stream is no longer valid." },
  gone: { fatal: true, action: "renew", text: "The server no longer has this stream." },
  server: { fatal: true, action: "renew", text: "The server could not make this part of the stream." },
  decode: { fatal: true, action: "fall_back", text: "The browser could not decode the stream." },
  unsupported: { fatal: true, action: "fall_back", text: "The browser does not play this kind of file." },
  no_picture: { fatal: true, action: "fall_back", text: "The browser played the sound but no picture." },
  no_sound: { fatal: true, action: "fall_back", text: "The browser played the picture but no sound." },
  frozen: { fatal: true, action: "fall_back", text: "The picture did not move." },
  append: { fatal: true, action: "recover_media", text: "The browser refused a part of the stream." },
  playlist: { fatal: true, action: "renew", text: "The list of parts of the stream could not be read." },
  blocked: { fatal: false, action: "wait", text: "The browser waits for a click before it plays." },
  stalled: { fatal: false, action: "wait", text: "Waiting for the server." },
  unknown: { fatal: true, action: "fall_back", text: "Playback failed." },
};

/** The server's word for a fault that it answers with another way. */
export function reportWord(code: FaultCode): "decode" | "unsupported" | "other" {
  switch (code) {
    case "decode":
    case "no_picture":
    case "no_sound":
    case "frozen":
      return "decode";
    case "unsupported":
    case "append":
      return "unsupported";
    default:
      return "other";
  }
}

export interface Fault {
  code: FaultCode;
  /** What the browser or hls.js said, for those who look closer. */
  detail?: string;
  /** HTTP status, where there was one. */
  status?: number;
}

/** Reads a `MediaError` of `<video>`. Codes: HTML, `MediaError`. */
export function faultOfMedia(error: { code: number; message?: string } | null): Fault {
  const detail = error?.message || undefined;
  switch (error?.code) {
    case 1: // MEDIA_ERR_ABORTED: the page took the source away.
      return { code: "stalled", detail };
    case 2:
      return { code: "network", detail };
    case 3:
      return { code: "decode", detail };
    case 4:
      // Also what a browser says of a source that answers 403 or 404; the message tells.
      return { code: /\b40[134]\b|\b410\b/.test(detail ?? "") ? "expired" : "unsupported", detail };
    default:
      return { code: "unknown", detail };
  }
}

/** The part of an hls.js error that decides. */
export interface HlsErrorLike {
  type: string;
  details: string;
  fatal: boolean;
  response?: { code?: number };
  reason?: string;
}

/** Reads an error of hls.js; one that it mends by itself is `stalled`. */
export function faultOfHls(error: HlsErrorLike): Fault {
  const status = error.response?.code;
  const detail = error.reason ? `${error.details}: ${error.reason}` : error.details;
  if (!error.fatal) return { code: "stalled", detail, status };
  if (status === 401 || status === 403) return { code: "expired", detail, status };
  if (status === 404 || status === 410) return { code: "gone", detail, status };
  if (status !== undefined && status >= 500) return { code: "server", detail, status };
  if (/timeout/i.test(error.details)) return { code: "timeout", detail, status };
  if (/manifestParsing|levelEmpty|levelParsing/i.test(error.details)) return { code: "playlist", detail };
  if (error.type === "networkError") return { code: "network", detail, status };
  if (/incompatibleCodecs|addCodec/i.test(error.details)) return { code: "unsupported", detail };
  if (/append|bufferFull/i.test(error.details)) return { code: "append", detail };
  if (error.type === "mediaError") return { code: "decode", detail };
  return { code: "unknown", detail, status };
}

/** How often each action may be tried within a minute before the next stronger one. */
const TRIES: Readonly<Partial<Record<Action, number>>> = {
  restart_loading: 3,
  recover_media: 1,
  renew: 2,
  fall_back: 4,
};
const STRONGER: Readonly<Record<Action, Action>> = {
  wait: "restart_loading",
  restart_loading: "renew",
  recover_media: "fall_back",
  renew: "give_up",
  fall_back: "give_up",
  give_up: "give_up",
};
const MEMORY_MS = 60_000;

/** Chooses the action for a fault and remembers what was tried. */
export class Recovery {
  readonly #tried: { action: Action; at: number }[] = [];

  decide(fault: Fault, now: number): Action {
    let action = CATALOGUE[fault.code].action;
    if (action === "wait") return action;
    while (action !== "give_up") {
      const recent = this.#tried.filter((t) => t.action === action && now - t.at < MEMORY_MS).length;
      if (recent < (TRIES[action] ?? 0)) break;
      action = STRONGER[action];
    }
    this.#tried.push({ action, at: now });
    if (this.#tried.length > 64) this.#tried.shift();
    return action;
  }
}
