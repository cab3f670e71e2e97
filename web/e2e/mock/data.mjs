/// What the mock server knows: a library, a pool of four disks, a stream's I/O record.

const DAY_MS = 86_400_000;
const WORDS_A = ["Silent", "Long", "Paper", "Northern", "Last", "Glass", "Hollow", "Second", "Burning", "Distant", "Little", "Broken", "Winter", "Open", "Hidden"];
const WORDS_B = ["Harbour", "Orbit", "Meridian", "Garden", "Signal", "Cartographer", "Tide", "Machine", "Letters", "Summer", "Archive", "Parallel", "Compass", "Station", "Echo"];

const state = (more = {}) => ({ position_s: 0, watched: false, favorite: false, plays: 0, ...more });

function item(id, more) {
  return {
    id,
    type: "movie",
    title: id,
    added: new Date(Date.UTC(2026, 10, 28)).toISOString(),
    library: "lib-films",
    available: true,
    state: state(),
    images: [],
    ...more,
  };
}

export function makeItems() {
  const items = new Map();
  const add = (it) => items.set(it.id, it);
  for (let i = 0; i < 1198; i += 1) {
    const a = WORDS_A[i % WORDS_A.length];
    const b = WORDS_B[(i * 7 + Math.floor(i / 15)) % WORDS_B.length];
    const n = Math.floor(i / 225);
    add(
      item(`film-${i}`, {
        title: `${a} ${b}${n > 0 ? ` ${"I".repeat(n + 1)}` : ""}`,
        year: 1950 + ((i * 13) % 76),
        duration_s: 4800 + ((i * 613) % 5400),
        added: new Date(Date.UTC(2026, 10, 29) - i * DAY_MS).toISOString(),
        available: i % 97 !== 41,
        state: state({ watched: i % 5 === 2, favorite: i % 11 === 3, position_s: i % 17 === 1 ? 1900 : 0 }),
      }),
    );
  }
  add(item("plain", { title: "The Long Orbit", year: 2024, duration_s: 40 }));
  add(item("resume", { title: "Glass Meridian", year: 2019, duration_s: 40, state: state({ position_s: 17.5 }) }));
  add(item("hls", { title: "Winter Signal", year: 2021, duration_s: 40 }));
  add(item("hevc", { title: "Unseen Picture", year: 2022, duration_s: 40 }));
  add(item("broken", { title: "Broken Reel", year: 2022, duration_s: 40 }));
  add(item("hopeless", { title: "No Way Out", year: 2022, duration_s: 40 }));
  add(item("eac3", { title: "Unheard Sound", year: 2022, duration_s: 40 }));
  add(item("gone", { title: "Nobody Home", year: 2001, duration_s: 40 }));
  add(item("show", { type: "show", title: "Parallel Tides", year: 2023, library: "lib-shows", leaves: 8, unwatched: 5 }));
  for (const s of [1, 2]) {
    add(item(`season-${s}`, { type: "season", title: `Season ${s}`, season: s, parent: "show", top: "show", top_title: "Parallel Tides", library: "lib-shows", leaves: 4 }));
    for (let e = 1; e <= 4; e += 1) {
      add(
        item(`ep-${s}-${e}`, {
          type: "episode",
          title: ["The Harbour", "Low Water", "What the Map Left Out", "Return"][e - 1],
          season: s,
          episode: e,
          parent: `season-${s}`,
          parent_title: `Season ${s}`,
          top: "show",
          top_title: "Parallel Tides",
          duration_s: 40,
          library: "lib-shows",
          state: state({ watched: s === 1 && e < 4, position_s: s === 1 && e === 4 ? 12 : 0 }),
        }),
      );
    }
  }
  return items;
}

export const libraries = () => [
  { id: "lib-films", name: "Films", kind: "movies", path: "/srv/pool/films", paths: ["/srv/pool/films"], items: 1206, unavailable: 12, failed: 3, unreadable: 3, pending: 0, scanning: false },
  { id: "lib-shows", name: "Shows", kind: "tv", path: "/srv/pool/shows", paths: ["/srv/pool/shows"], items: 8, unavailable: 0, failed: 0, unreadable: 0, pending: 0, scanning: false },
];

export const unreadable = [
  { library: "lib-films", file: "Cut Short (2011)/Cut Short.mkv", size_bytes: 88_211, reason: "the file ends inside its header: 88,211 of 4,212,004,118 bytes are there" },
  { library: "lib-films", file: "Empty (1999).mp4", size_bytes: 0, reason: "the file is empty" },
  { library: "lib-films", file: "notes.mp4", size_bytes: 1200, reason: "a playlist under another name: it is not opened" },
];

export function detail(it, items) {
  const episodes = [...items.values()].filter((i) => i.type === "episode");
  const at = episodes.findIndex((e) => e.id === it.id);
  const leaf = it.type === "movie" || it.type === "episode";
  const streams = [
    { index: 0, kind: "video", codec: it.id === "hevc" ? "hevc" : "h264", profile: it.id === "hevc" ? "Main" : "High", width: 1920, height: 1080, level: 41, bit_depth: 8, fps: 24, hdr: "sdr", interlaced: false, bitrate_bps: 7_900_000, disposition: { default: true } },
    { index: 1, kind: "audio", codec: it.id === "eac3" ? "eac3" : "aac", language: "eng", channels: 6, sample_rate: 48_000, bitrate_bps: 384_000, disposition: { default: true } },
    { index: 2, kind: "audio", codec: "aac", language: "deu", channels: 2, sample_rate: 48_000, title: "Commentary", disposition: { commentary: true } },
    { index: 3, kind: "subtitle", codec: "subrip", language: "eng", text: true, disposition: {} },
    { index: 4, kind: "subtitle", codec: "hdmv_pgs_subtitle", language: "fra", text: false, disposition: {} },
  ];
  return {
    ...it,
    plot: leaf
      ? "A surveyor charts a coast that moves a little every night. The further she walks, the less the old map agrees with the ground, and the more with her."
      : "Two harbour towns share one tide table. It has been wrong for eleven days.",
    genres: ["Drama", "Mystery"],
    people: ["Ines Vale", "Tomas Okoye", "Mira Lindqvist"],
    extras: [],
    previous: at > 0 ? episodes[at - 1].id : undefined,
    next: at >= 0 && at + 1 < episodes.length ? episodes[at + 1].id : undefined,
    versions: leaf
      ? [
          {
            id: `v-${it.id}`,
            label: "1080p",
            file: `${it.title} (${it.year ?? 2023})/${it.title}.mkv`,
            size_bytes: 4_212_004_118,
            container: it.id === "hls" ? "mkv" : "mp4",
            duration_s: it.duration_s,
            bitrate_bps: 8_300_000,
            parts: 1,
            available: it.available,
            probed: true,
            streams,
            chapters: [
              { start_s: 0, end_s: 9, title: "Opening" },
              { start_s: 9, end_s: 24, title: "The coast" },
              { start_s: 24, end_s: 40, title: "What moved" },
            ],
          },
        ]
      : [],
  };
}

/** A file's map made from a rule: `place(i, offset)` gives the pieces of each copy of run `i`. */
function layoutOf(runs, all, place, more = {}) {
  const bytes = Object.fromEntries(all.map((d) => [d, 0]));
  let offset = 0;
  const extents = runs.map((length_bytes, i) => {
    const copies = place(i, offset, length_bytes);
    for (const copy of copies) for (const piece of copy) bytes[piece.disk] += piece.length_bytes;
    offset += length_bytes;
    return { offset: offset - length_bytes, length_bytes, copies };
  });
  const total = Object.values(bytes).reduce((a, b) => a + b, 0);
  const most = Math.max(...Object.values(bytes));
  return {
    file: "The Long Orbit.mkv",
    size_bytes: offset,
    exact: true,
    extents,
    per_disk: all.map((disk) => ({ disk, bytes: bytes[disk], share: bytes[disk] / total })),
    fragments: runs.length,
    evenness: total / (most * all.length),
    ...more,
  };
}

/** Stripes of `chunk` bytes over `disks`, beginning with disk `first`. */
function striped(disks, chunk, offset, length, first) {
  const out = [];
  for (let at = 0, k = first; at < length; at += chunk, k += 1) {
    out.push({ disk: disks[k % disks.length], disk_offset: 9e10 + Math.floor((offset + at) / disks.length), length_bytes: Math.min(chunk, length - at) });
  }
  return out;
}

const MB = 1 << 20;
export const layouts = {
  /** Two copies, each striped over two disks by 256 KiB, in 34 runs. */
  raid10: () => layoutOf(Array.from({ length: 34 }, (_, i) => (i === 33 ? 84 : 120) * MB), ["sdb", "sdc", "sdd", "sde"], (i, at, len) => [striped(["sdb", "sdc"], MB / 4, at, len, i), striped(["sdd", "sde"], MB / 4, at, len, i)]),
  /** One disk after the other, about a gigabyte each, unevenly. */
  single: () => layoutOf([1024, 1024, 700, 1024, 300].map((n) => n * MB), ["sdb", "sdc", "sdd"], (i, at, len) => [[{ disk: ["sdb", "sdc", "sdb", "sdd", "sdb"][i], disk_offset: 5e11 + at, length_bytes: len }]]),
  /** Written while the disk was nearly full: 50,000 pieces. */
  shattered: () => layoutOf(Array.from({ length: 50_000 }, (_, i) => 4096 * (60 + ((i * 7919) % 480))), ["sdb", "sdc", "sdd", "sde"], (i, at, len) => [[{ disk: ["sdb", "sdc", "sdd", "sde"][Math.floor(((i * 31) % 997) / 250) % 4], disk_offset: ((i * 104_729) % 7_000_000) * 1e6, length_bytes: len }]]),
  /** The disks are told, the places are not. */
  inexact: () => ({ ...layouts.raid10(), exact: false, why_inexact: "the btrfs chunk tree is not readable without CAP_SYS_ADMIN: the disks are known, the places on them are not", extents: [] }),
};

const disk = (name, model) => ({ kind: "disk", name, size_bytes: 8_001_563_222_016, rotational: true, model, asleep: false, children: [] });

export const topology = {
  path: "/srv/pool/films",
  filesystem: { kind: "btrfs", uuid: "6f0c3b9e-55a1-4b4e-9d1c-0f31a2c5d7aa", mount: "/srv/pool" },
  node: {
    kind: "btrfs",
    name: "pool",
    level: "raid10",
    columns: 2,
    copies: 2,
    chunk_bytes: 65_536,
    size_bytes: 16_003_126_444_032,
    children: [
      disk("sdb", "WDC WD80EFZX"),
      disk("sdc", "WDC WD80EFZX"),
      { kind: "crypt", name: "luks-sdd", size_bytes: 8_001_563_222_016, children: [disk("sdd", "TOSHIBA HDWG480")] },
      { ...disk("sde", "TOSHIBA HDWG480"), asleep: true },
    ],
  },
  columns: 2,
  copies: 2,
  disks: ["sdb", "sdc", "sdd", "sde"],
  layout: "mirror",
  advice: [
    { code: "mirror_reads_one_copy", text: "btrfs chooses the copy by process number, so that one stream reads from half of the disks. A kernel with read_policy=round-robin spreads it over all four." },
  ],
};

const NAMES = ["sdb", "sdc", "sdd", "sde"];

/**
 * A record that grows with time: even reads, a jump at 12 s and one at 27 s, a short stall. `old`: as the first version kept it.
 */
export function ioRecord({ session, item: itemId, method = "direct_play", seconds, ended, hurt = false, old = false }) {
  const t_s = [];
  const series = Object.fromEntries(NAMES.map((n) => [n, { read_bytes: [], reads: [] }]));
  const cpu = [];
  const system = { read_bytes: [], write_bytes: [] };
  const runs = [];
  const jumps = [];
  const copies = [0, 0];
  let place = 0;
  let x = 7;
  const random = () => (x = (x * 16_807) % 2_147_483_647) / 2_147_483_647;
  for (let t = 0; t < Math.max(1, seconds); t += 1) {
    t_s.push(t);
    cpu.push(0.02 + 0.01 * random());
    system.read_bytes.push(0);
    system.write_bytes.push(Math.round(20_000 * random()));
    if (t === 12 || t === 27) {
      const to = t === 12 ? 2_410_000_000 : 402_000_000;
      jumps.push({ at_s: t, from_byte: place, to_byte: to });
      place = to;
    }
    const burst = t < 4 ? 3.4 : t % 5 === 0 ? 1.9 : t % 5 === 1 ? 0.9 : 0.12;
    NAMES.forEach((n, i) => {
      // After the first jump the other copies serve: the pair of disks changes.
      const pair = t < 12 || t >= 27 ? [1, 1, 0.06, 0.05] : [0.05, 0.06, 1, 0.94];
      const bytes = Math.round(burst * pair[i] * (0.85 + 0.3 * random()) * 9e6);
      series[n].read_bytes.push(bytes);
      series[n].reads.push(Math.ceil(bytes / 524_288));
    });
    const read = NAMES.reduce((sum, n) => sum + series[n].read_bytes.at(-1), 0);
    const copy = t < 12 || t >= 27 ? 0 : 1;
    copies[copy] += read;
    runs.push({ from_s: t + 0.1, to_s: t + 0.8, from_byte: place, to_byte: place + read, read_bytes: read, copy });
    if (t === 31) runs.push({ from_s: 31.2, to_s: 31.9, from_byte: place - 90e6, to_byte: place - 30e6, read_bytes: 60e6, memory: true });
    place += read;
  }
  const sums = NAMES.map((n) => series[n].read_bytes.reduce((a, b) => a + b, 0));
  const total = sums.reduce((a, b) => a + b, 0);
  return {
    session,
    item: itemId,
    file: "/srv/pool/films/The Long Orbit (2024)/The Long Orbit.mkv",
    method,
    client: "browser",
    started: new Date(Date.now() - seconds * 1000).toISOString(),
    ...(ended ? { ended } : {}),
    attribution: hurt ? "sampled_map" : "block_trace",
    ...(hurt && seconds > 20
      ? {
          why: "the tracing helper ended at 0:20 and was started again",
          error_share: 0.03,
          attribution_spans: [
            { from_s: 0, to_s: 20, attribution: "block_trace" },
            { from_s: 20, to_s: 26, attribution: "sampled_map", why: "the helper was being started again" },
            { from_s: 26, to_s: seconds, attribution: "block_trace" },
          ],
          faults: [{ at_s: 18, disk: "sdc", what: "it was taken out while it was read; the mirror has the same bytes" }],
        }
      : {}),
    served_bytes: Math.round(total * 0.93),
    read_bytes: total,
    cached_bytes: Math.round(total * 0.06),
    unattributed_bytes: 0,
    disks: NAMES.map((n, i) => ({
      disk: n,
      reads: series[n].reads.reduce((a, b) => a + b, 0),
      read_bytes: sums[i],
      metadata_bytes: i === 0 ? 147_456 : 0,
      ...(hurt && i > 0 ? { parity_bytes: Math.round(sums[i] * 0.11), reconstruct_bytes: Math.round(sums[i] * 0.2) } : {}),
      sequential_share: 0.91 - i * 0.02,
      mean_request_bytes: 509_000 - i * 9000,
      latency_us: { p50: 4100 + i * 300, p95: 14_200 + i * 800, p99: 31_000 + i * 4000 },
      share: total > 0 ? sums[i] / total : 0,
      busy_share: 0.08 + 0.01 * i,
    })),
    striping: {
      columns: 2,
      columns_used: 2,
      evenness: 0.83,
      verdict: "Two disks at a time served this stream; the jump at 0:12 moved it to the other copy, which lies on the other two.",
      ...(old
        ? {}
        : {
            level: "raid10",
            copies: 2,
            copies_used: copies[1] > copies[0] / 20 ? 2 : 1,
            copy_shares: copies.map((n) => (total > 0 ? n / total : 0)),
            chunk_bytes: 262_144,
            mean_request_bytes: 498_000,
            cache_share: 0.06,
            advice: [
              ...(hurt ? [{ code: "degraded", text: "Replace the missing disk and let the array be rebuilt: until then every read of what it held takes the others." }] : []),
              { code: "enough", text: "Nothing has to change for this stream: its busiest disk, sde, worked 11 % of the time, and nobody waited." },
              ...(copies[1] > 0 ? [] : [{ code: "copies_idle", text: "1 of 2 copies gave nothing: they are free for other viewers. One stream seldom gets both: a sequential reader stays with the copy that it began with." }]),
            ],
          }),
    },
    seeks: jumps.map((jump, i) => ({ ...jump, disks_before: i === 0 ? ["sdb", "sdc"] : ["sdd", "sde"], disks_after: i === 0 ? ["sdd", "sde"] : ["sdb", "sdc"] })),
    ...(old ? {} : { trail: { file_bytes: 4_240_441_344, interval_ms: 1000, gap_bytes: 1_048_576, runs } }),
    stalls: [{ at_s: 12.4, duration_s: 0.9, cause: "sde was asleep and took 0.9 s to answer" }].filter((s) => s.at_s < seconds),
    series: { interval_ms: 1000, t_s, disks: series, cpu_share: cpu, system_disk: system },
  };
}

/** Where the disks stand at a second: for live rates. */
export function ratesNow(seconds) {
  const r = ioRecord({ session: "", item: "", seconds: Math.max(1, seconds) });
  return Object.fromEntries(NAMES.map((n) => [n, r.series.disks[n].read_bytes.at(-1) ?? 0]));
}
