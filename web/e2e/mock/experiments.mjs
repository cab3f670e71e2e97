/// Made-up records of experiments, one of each kind, as `spindle bench` writes them.
import { ioRecord } from "./data.mjs";

const machine = {
  kernel: "6.12.8-amd64",
  cpus: 8,
  memory_bytes: 33_554_432_000,
  before: { load_1m: 0.12, io_pressure_10s: 0.4 },
  after: { load_1m: 1.38, io_pressure_10s: 61.2 },
  others_before: [{ disk: "sdb", read_bytes_per_s: 2_100_000, write_bytes_per_s: 0, requests_per_s: 9 }],
  others_during: [],
};
const pool = (name, disks, columns, copies, level) => ({ filesystem: "btrfs", mount: `/srv/${name}`, kind: "btrfs", level, layout: copies > 1 ? "mirror" : "simple", columns, copies, disks, rotational: true });
const mirror = pool("pool", ["sdb", "sdc", "sdd", "sde"], 2, 2, "raid10");
const ssd = { filesystem: "ext4", mount: "/srv/fast", kind: "disk", layout: "simple", columns: 1, copies: 1, disks: ["nvme0n1"], rotational: false };

const pattern = (name, op, order, block_bytes, depth, figure, per_s) => ({
  pattern: name, op, order, block_bytes, depth, figure, direct: true,
  ops: Math.round(per_s * 5), bytes: Math.round(per_s * 5) * block_bytes, seconds: 5, iops: per_s, bytes_per_s: per_s * block_bytes,
  p50_us: 1e6 / (per_s / depth), p95_us: 1.6e6 / (per_s / depth), p99_us: 2.2e6 / (per_s / depth), max_us: 4e6 / (per_s / depth),
});
const corner = (scale) =>
  [1, 32].flatMap((depth) => [
    pattern("sequential_read_1_block", "read", "sequential", 512, depth, "iops", (depth === 1 ? 4210 : 9120) * scale),
    pattern("random_read_4k", "read", "random", 4096, depth, "iops", (depth === 1 ? 76.4 : 311.2) * scale),
    pattern("random_write_4k", "write", "random", 4096, depth, "iops", (depth === 1 ? 142.6 : 187) * scale),
    pattern("sequential_write_512k", "write", "sequential", 524288, depth, "bytes_per_s", (depth === 1 ? 291 : 334) * scale),
    pattern("sequential_read_512k", "read", "sequential", 524288, depth, "bytes_per_s", (depth === 1 ? 331 : 662) * scale),
  ]);
const sweep = [12, 14, 16, 18, 20, 22, 24].flatMap((e, i) => [
  pattern(`write ${e}`, "write", "sequential", 2 ** e, 1, "bytes_per_s", (172e6 * (1 - 0.9 * 0.38 ** i)) / 2 ** e),
  pattern(`read ${e}`, "read", "sequential", 2 ** e, 1, "bytes_per_s", (318e6 * (1 - 0.8 * 0.42 ** i)) / 2 ** e),
]);

function copy() {
  const t_s = Array.from({ length: 120 }, (_, i) => Number(((i + 1) * 0.25).toFixed(2)));
  const wave = (i) => 1 + 0.04 * Math.sin(i * 1.7) + 0.03 * Math.sin(i * 0.61);
  const rate = t_s.map((t, i) => Math.round((t < 12.25 ? 214e6 : 88e6) * wave(i)));
  const disk = (share, what) => ({ read_bytes_per_s: rate.map((r) => (what === "read" ? Math.round(r * share) : 0)), write_bytes_per_s: rate.map((r, i) => (what === "write" ? Math.round(r * share * wave(i + 9)) : 0)) });
  const sum = rate.reduce((a, b) => a + b / 4, 0);
  const row = (what, name, side, read, write) => ({ what, name, side, read_bytes: Math.round(sum * read), write_bytes: Math.round(sum * write), seconds: 30, bytes_per_s: sum / 30, busy_share: what === "disk" ? 0.2 + 0.6 * Math.max(read, write) : null, per_byte: Math.max(read, write) });
  return {
    rows: [row("total", "copy", "both", 1, 1), row("volume", "/srv/fast", "from", 1, 0), row("volume", "/srv/pool", "to", 0, 2), row("disk", "nvme0n1", "from", 1, 0), ...["sdb", "sdc", "sdd", "sde"].map((d) => row("disk", d, "to", 0, 0.5))],
    series: { interval_ms: 250, t_s, bytes_per_s: rate, disks: { nvme0n1: disk(1, "read"), sdb: disk(0.5, "write"), sdc: disk(0.5, "write"), sdd: disk(0.5, "write"), sde: disk(0.5, "write") } },
    knee: { at_s: 12.25, after_bytes: 2_620_000_000, before_bytes_per_s: 214e6, after_bytes_per_s: 88e6 },
  };
}
const flow = (direction, connections, bytes_per_s) => ({ direction, connections, bytes: bytes_per_s * 5, seconds: 5, bytes_per_s, bits_per_s: bytes_per_s * 8 });

/** Streams on a pool whose columns work alike: the lines of its disks lie on each other. */
function streams(scenario, about, ways) {
  const names = mirror.disks;
  const seconds = 30;
  const t_s = Array.from({ length: 60 }, (_, i) => i / 2);
  const even = t_s.map((t, i) => Math.round((t < 3 ? 9e6 : i % 4 === 0 ? 4.2e6 : 0.6e6) * (1 + 0.1 * Math.sin(i))));
  const disk = (i) => (i % 2 === 0 ? even : even.map((v, k) => (ways.length > 1 && k > 20 ? Math.round(v * 0.4) : 0)));
  const sums = names.map((_, i) => disk(i).reduce((a, b) => a + b, 0));
  const part = (way, n) => {
    const io = ioRecord({ session: `stream${n}`, item: "", method: way === "converted" ? "transcode" : "direct_play", seconds, ended: "2026-11-30T21:10:30Z" });
    // A recording of its own: one that began with the scenario.
    return {
      stream: n, film: n, way, method: io.method, session: io.session,
      steps: [{ at_ms: 0, action: { play: 0 } }, ...(scenario === "skip-around" ? [0.6, 0.2, 0.85, 0.4].map((jump, k) => ({ at_ms: 6000 * (k + 1), action: { jump } })) : []), { at_ms: seconds * 1000, action: "stop" }],
      received_bytes: 38_000_000 + n * 1_700_000,
      asked: [{ at_ms: 3, from: 0, first_byte_ms: 19, received_bytes: 9_000_000 }, { at_ms: 6004, from: 700_000_000, first_byte_ms: 41, received_bytes: 8_400_000 }],
      waits: [{ at_ms: 0, duration_ms: 24, why: "start" }, ...(n === 3 ? [{ at_ms: 14_200, duration_ms: 1300, why: "stall" }] : [])],
      stalls: n === 3 ? 1 : 0, stalled_ms: n === 3 ? 1300 : 0,
      ...(n === 2 ? { no_record: "the session ended before anything was read", failed: "the server answered 404 to a range" } : { record: io }),
    };
  };
  return {
    scenario, about, seconds, pace: "paced", began: "2026-11-30T21:10:00Z", clock: { began_us: 1, ended_us: 30_000_001 },
    films: ways.map((_, i) => ({ file: `/srv/pool/films/${["The Long Orbit (2024)/The Long Orbit.mkv", "Harbour Lights (2019)/Harbour Lights.mp4", "Nine Rooms (2021)/Nine Rooms.mp4"][i]}`, size_bytes: 4_240_441_344, duration_s: 5400, bitrate_bps: 6_280_000 })),
    streams: ways.map((way, i) => part(way, i + 1)),
    disks: names.map((name, i) => ({ disk: name, total_read_bytes: sums[i] + 90_000, total_write_bytes: 0, stream_bytes: sums[i], metadata_bytes: i === 0 ? 65_536 : 0, others_bytes: i === 1 ? 4_100_000 : 0, busy_share: 0.1 + 0.02 * i })),
    unattributed_bytes: 0, striping: { columns: 2, copies: 2, columns_used: 2, disks_used: ways.length > 1 ? 4 : 2, evenness: 0.97 },
    system: { disks: ["nvme0n1"], read_bytes: 1_200_000, write_bytes: 34_000_000 },
    counters: {
      interval_ms: 500, t_s, cpu_share: t_s.map((_, i) => (ways.includes("converted") ? 1.6 : 0.05) * (1 + 0.1 * Math.sin(i))),
      disks: { ...Object.fromEntries(names.map((name, i) => [name, { read_bytes: disk(i), reads: disk(i).map((b) => Math.ceil(b / 524_288)), write_bytes: t_s.map(() => 0) }])), nvme0n1: { read_bytes: t_s.map(() => 20_000), write_bytes: t_s.map((_, i) => (i % 4 === 0 ? 2_200_000 : 0)), reads: t_s.map(() => 1) } },
    },
    rows: names.map((name, i) => ({ scenario, stream: 1, film: 1, method: "direct_play", disk: name, read_bytes: sums[i], metadata_bytes: 0, share: sums[i] / sums.reduce((a, b) => a + b, 1), reads: 80, mean_request_bytes: 509_000, sequential_share: 0.9, p50_us: 4100, p95_us: 14_200, p99_us: 31_000, busy_share: 0.1 })),
  };
}

const record = (id, kind, started, more) => ({ version: 1, id: id.padEnd(26, "0"), kind, started, ended: started, machine, notes: [], rows: [], verdict: "", ...more });

/** Fresh copies, so that a test may remove some. */
export const experiments = () => [
  record("corners_b", "corners", "2026-11-30T20:10:00Z", { path: "/srv/pool", topology: mirror, rows: corner(1), verdict: "4 KiB anywhere: 76 reads a second one at a time, 311 with 32 at once; 512 KiB in order: 174 MB/s read, 153 MB/s written.", notes: ["others read 2.1 MB/s from sdb before it began: figures may be low"] }),
  record("corners_a", "corners", "2026-11-29T20:10:00Z", { path: "/srv/fast", topology: ssd, rows: corner(2.4), verdict: "4 KiB anywhere: 183 reads a second one at a time, 747 with 32 at once." }),
  record("blocks", "blocks", "2026-11-29T19:10:00Z", { path: "/srv/pool", topology: mirror, rows: sweep, verdict: "Reading is within a tenth of its best from 256 KiB on, writing from 1 MiB on." }),
  record("copy", "copy", "2026-11-29T18:10:00Z", { path: "/srv/fast", topology: ssd, to: "/srv/pool", to_topology: mirror, ...copy(), verdict: "139 MB/s on the whole; each byte copied was written 2.0 times; from 12 s on, after 2.6 GB, it goes at 88 MB/s instead of 214 MB/s: a cache was full." }),
  record("net", "net", "2026-11-28T18:10:00Z", { to: "http://media.local:8096", rows: [flow("down", 1, 93e6), flow("down", 8, 116e6), flow("up", 1, 88e6), flow("up", 8, 114e6)], verdict: "From the server 93 MB/s by one connection, 116 MB/s by 8; to it 88 and 114 MB/s." }),
  record("skip", "stream", "2026-11-30T21:10:00Z", { path: "/srv/pool", topology: mirror, ...streams("skip-around", "one film, and four jumps in it", ["as_it_is"]), verdict: "skip-around: sdb and sdd served it, 2 of 2 columns; the second copy rested" }),
  record("three", "stream", "2026-11-30T21:00:00Z", { path: "/srv/pool", topology: mirror, ...streams("three-files-one-transcode", "three films; the third is converted", ["as_it_is", "as_it_is", "converted"]), verdict: "three-files-one-transcode: four disks served three streams; one stall of 1.3 s", notes: ["others read 4.1 MB from these disks meanwhile, 3 % of all", "stream 2 has no record: the session ended before anything was read"] }),
  // As the first version might have been cut short: what is absent is empty.
  record("bare", "stream", "2026-11-20T21:00:00Z", { path: "/srv/pool", interrupted: "it was stopped after 0.2 s" }),
  record("stopped", "blocks", "2026-11-27T18:10:00Z", { path: "/srv/pool", topology: mirror, rows: sweep.slice(0, 6), interrupted: "stopped by a signal", verdict: "" }),
  { id: "newer".padEnd(26, "0"), verdict: "", unreadable: "it is of version 9, this program reads up to 1" },
];
