/**
 * The page's addresses. They live behind `#`, so that the server serves one page for all of them,
 * whatever a proxy in front does with paths.
 */

export type Route =
  | { view: "home" }
  | { view: "library"; library: string; query: LibraryQuery }
  | { view: "search"; query: LibraryQuery }
  | { view: "item"; id: string }
  | { view: "watch"; id: string; query: WatchQuery }
  | { view: "sessions" }
  | { view: "history"; compare?: string }
  | { view: "compare"; a: string; b: string }
  | { view: "record"; session: string }
  | { view: "storage" }
  | { view: "experiments"; compare?: string }
  | { view: "experiment"; id: string }
  | { view: "experiment-pair"; a: string; b: string }
  | { view: "settings" }
  | { view: "unknown"; path: string };

/** What narrows and orders a grid. */
export interface LibraryQuery {
  search?: string;
  type?: string;
  sort?: string;
  watched?: "yes" | "no";
}

/** How the player starts. */
export interface WatchQuery {
  start_s?: number;
  version?: string;
  audio?: number;
  subtitle?: number | "off";
}

/** Reads `#/library/3?sort=-added`. Anything that does not parse is `unknown`, never an error. */
export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  const params = new URLSearchParams(query);
  let second: string;
  try {
    second = decodeURIComponent(parts[1] ?? "");
  } catch {
    return { view: "unknown", path };
  }
  switch (parts[0]) {
    case undefined:
      return { view: "home" };
    case "library":
      return second === "" ? { view: "home" } : { view: "library", library: second, query: libraryQuery(params) };
    case "search":
      return { view: "search", query: libraryQuery(params) };
    case "item":
      return second === "" ? { view: "home" } : { view: "item", id: second };
    case "watch":
      return second === "" ? { view: "home" } : { view: "watch", id: second, query: watchQuery(params) };
    case "sessions":
      return { view: "sessions" };
    case "history":
      return second === "" ? { view: "history", compare: params.get("compare") ?? undefined } : { view: "record", session: second };
    case "compare":
      return { view: "compare", a: params.get("a") ?? "", b: params.get("b") ?? "" };
    case "storage":
      return { view: "storage" };
    case "experiments":
      if (second === "pair") return { view: "experiment-pair", a: params.get("a") ?? "", b: params.get("b") ?? "" };
      return second === "" ? { view: "experiments", compare: params.get("compare") ?? undefined } : { view: "experiment", id: second };
    case "settings":
      return { view: "settings" };
    default:
      return { view: "unknown", path };
  }
}

function libraryQuery(params: URLSearchParams): LibraryQuery {
  const watched = params.get("watched");
  return {
    search: params.get("search") ?? undefined,
    type: params.get("type") ?? undefined,
    sort: params.get("sort") ?? undefined,
    watched: watched === "yes" || watched === "no" ? watched : undefined,
  };
}

function watchQuery(params: URLSearchParams): WatchQuery {
  const subtitle = params.get("subtitle");
  return {
    start_s: whole(params.get("t")),
    version: params.get("version") ?? undefined,
    audio: whole(params.get("audio")),
    subtitle: subtitle === "off" ? "off" : whole(subtitle),
  };
}

function whole(value: string | null): number | undefined {
  if (value === null || value.trim() === "") return undefined;
  const n = Number(value);
  return Number.isFinite(n) && n >= 0 ? n : undefined;
}

/** Writes an address that `parse` reads. */
export function format(path: string, query: Record<string, string | number | undefined> = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return `#${path}${text === "" ? "" : `?${text}`}`;
}

export const itemHref = (id: string) => format(`/item/${encodeURIComponent(id)}`);
export const libraryHref = (id: string, query: LibraryQuery = {}) =>
  format(`/library/${encodeURIComponent(id)}`, { ...query });
export const recordHref = (session: string) => format(`/history/${encodeURIComponent(session)}`);
/** Where a second session is chosen to stand beside this one; with both, the two. */
export const compareHref = (a: string, b?: string) => (b === undefined ? format("/history", { compare: a }) : format("/compare", { a, b }));
export const experimentHref = (id: string) => format(`/experiments/${encodeURIComponent(id)}`);
/** Where a second record is chosen to stand beside this one; with both, the two. */
export const experimentPairHref = (a: string, b?: string) =>
  b === undefined ? format("/experiments", { compare: a }) : format("/experiments/pair", { a, b });
export const watchHref = (id: string, query: WatchQuery = {}) =>
  format(`/watch/${encodeURIComponent(id)}`, {
    t: query.start_s,
    version: query.version,
    audio: query.audio,
    subtitle: query.subtitle,
  });
