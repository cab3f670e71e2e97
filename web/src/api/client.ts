/**
 * One request to the server and what can come of it.
 *
 * A caller gets `ok`, `aborted` or `problem` and has to handle each: nothing is thrown, so that a
 * dropped connection is shown where it matters, never as an unhandled rejection.
 */

/** RFC 9457, plus `status: 0` for "no answer at all". */
export interface Problem {
  status: number;
  title: string;
  detail?: string;
  type?: string;
  /** Made here, not by the server: the title is the sentence, the detail is for who mends it. */
  local?: true;
}

export type Result<T> =
  | { kind: "ok"; value: T }
  | { kind: "aborted" }
  | { kind: "problem"; problem: Problem };

export interface CallOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;
  query?: Record<string, string | number | boolean | null | undefined>;
  signal?: AbortSignal;
  /** Lets the request outlive the page: last progress report, end of a session. */
  keepalive?: boolean;
}

const API = "/api/v1";

let onUnauthorised: () => void = () => undefined;

/** Called whenever the server says 401: the session is over. */
export function whenUnauthorised(handler: () => void): void {
  onUnauthorised = handler;
}

/** Path and query under `/api/v1`; absent values are left out. */
export function apiUrl(path: string, query?: CallOptions["query"]): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return API + path + (text === "" ? "" : `?${text}`);
}

/** Asks the server. An empty answer (204) gives `undefined`. */
export async function call<T>(path: string, options: CallOptions = {}): Promise<Result<T>> {
  const method = options.method ?? "GET";
  const headers: Record<string, string> = { Accept: "application/json" };
  // A page of another origin cannot set this header without asking first, so the cookie alone
  // changes nothing.
  if (method !== "GET") headers["X-Spindle"] = "1";
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(apiUrl(path, options.query), {
      method,
      headers,
      credentials: "same-origin",
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      keepalive: options.keepalive,
    });
  } catch (error) {
    return failure(error);
  }
  if (!response.ok) {
    const problem = await problemOf(response);
    if (response.status === 401 && !path.startsWith("/auth/")) onUnauthorised();
    return { kind: "problem", problem };
  }
  try {
    const text = await response.text();
    return { kind: "ok", value: (text === "" ? undefined : JSON.parse(text)) as T };
  } catch (error) {
    if (error instanceof SyntaxError) {
      return {
        kind: "problem",
        problem: {
          status: response.status,
          title: "The server's answer could not be read",
          detail: error.message,
          local: true,
        },
      };
    }
    return failure(error);
  }
}

function failure(error: unknown): Result<never> {
  if (error instanceof DOMException && error.name === "AbortError") return { kind: "aborted" };
  return {
    kind: "problem",
    problem: {
      status: 0,
      title: "The server does not answer",
      detail: error instanceof Error ? error.message : undefined,
      local: true,
    },
  };
}

async function problemOf(response: Response): Promise<Problem> {
  const fallback: Problem = {
    status: response.status,
    title: response.statusText || `Status ${response.status}`,
  };
  if (!(response.headers.get("content-type") ?? "").includes("json")) return fallback;
  try {
    const body: unknown = await response.json();
    if (typeof body !== "object" || body === null) return fallback;
    const { title, detail, type } = body as Record<string, unknown>;
    return {
      status: response.status,
      title: typeof title === "string" && title !== "" ? title : fallback.title,
      detail: typeof detail === "string" ? detail : undefined,
      type: typeof type === "string" ? type : undefined,
    };
  } catch {
    // A body that breaks off says no more than the status does.
    return fallback;
  }
}

/** A problem in one line for a person: the server's sentence, without the word of HTTP for its kind. */
export function problemText(problem: Problem): string {
  if (problem.local) return problem.title;
  const sentence = problem.detail?.trim();
  return sentence ? sentence.charAt(0).toUpperCase() + sentence.slice(1) : `The server answered: ${problem.title} (${problem.status})`;
}
