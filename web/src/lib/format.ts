/** Numbers and times in words a person reads at a glance. */

const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

/** Bytes in decimal units, three significant digits: `4.37 GB`. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let unit = 0;
  let scaled = Math.abs(value);
  while (scaled >= 999.5 && unit < BYTE_UNITS.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${scaled.toFixed(digits)} ${BYTE_UNITS[unit]}`;
}

/** Bytes a second. */
export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${bytes(value)}/s`;
}

/** Bits a second: `8.2 Mbit/s`. */
export function bitrate(value: number | null | undefined): string {
  if (!value) return "–";
  return value >= 1e6
    ? `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)} Mbit/s`
    : `${Math.round(value / 1e3)} kbit/s`;
}

/** A position on a clock: `1:02:09`, `2:09`. */
export function clock(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "0:00";
  const whole = Math.max(0, Math.floor(seconds));
  const h = Math.floor(whole / 3600);
  const m = Math.floor((whole % 3600) / 60);
  const s = String(whole % 60).padStart(2, "0");
  return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
}

/** A length in words: `1 h 52 min`, `24 min`, `38 s`. */
export function duration(seconds: number | null | undefined): string {
  if (!seconds || !Number.isFinite(seconds)) return "";
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  const h = Math.floor(minutes / 60);
  const m = minutes % 60;
  if (h === 0) return `${m} min`;
  return m === 0 ? `${h} h` : `${h} h ${m} min`;
}

/** A share of 1 in per cent; tiny but present shares do not read as nothing. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${value.toFixed(value >= 9.95 ? 0 : 1)} %`;
}

/** Microseconds as `0.4 ms`, `12 ms`, `1.2 s`. */
export function latency(us: number | null | undefined): string {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(1)} s`;
}

/** How long ago, or the date once that says more. */
export function ago(time: string | null | undefined, now: number = Date.now()): string {
  const at = time ? Date.parse(time) : NaN;
  if (Number.isNaN(at)) return "";
  const seconds = (now - at) / 1000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 7 * 86_400) {
    const days = Math.floor(seconds / 86_400);
    return days === 1 ? "yesterday" : `${days} days ago`;
  }
  return new Date(at).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

/** `1 file`, `3 files`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

const METHODS: Record<string, string> = {
  direct_play: "Direct play",
  direct_stream: "Direct stream",
  transcode: "Transcode",
};

/** A method in words. */
export function method(name: string): string {
  return METHODS[name] ?? name;
}

/** What a method does, in one sentence. */
export function methodSentence(name: string): string {
  switch (name) {
    case "direct_play":
      return "The file is sent as it is.";
    case "direct_stream":
      return "The streams are kept as they are and repacked.";
    case "transcode":
      return "The picture or the sound is encoded anew.";
    default:
      return "";
  }
}
