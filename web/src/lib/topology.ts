/** From a volume's tree to what is drawn of it and said about it. Pure. */

import type { DiskRate, SyncState, Topology, TopologyNode, Volume } from "../api/types";
import { bytes, count, duration, percent, rate } from "./format";
import { byDisk } from "./hue";

/**
 * A part of the stack: layers that lie on each other, and under them either one disk or several
 * parts side by side.
 */
export interface Block {
  layers: TopologyNode[];
  parts: Block[];
  disk: TopologyNode | null;
}

/** One place of a disk in the stack. A disk cut into slices has several. */
export interface Place {
  disk: TopologyNode;
  /** Layers that this disk alone carries, top first: encryption, partition. */
  sleeves: TopologyNode[];
  /** The nearest layer above that joins it with others. */
  under: TopologyNode | null;
}

const LEAF_KINDS = new Set(["disk", "loop", "nbd", "network", "unknown"]);
/** Filesystems that are their own pool: the top node is the filesystem. */
const POOLS = new Set(["btrfs", "zfs", "mergerfs", "shfs", "overlay", "memory", "network"]);
/** They put whole files on one of their parts. */
const UNIONS = new Set(["mergerfs", "shfs"]);
/** Devices that hold no data of their own which a read could use. */
const HELPERS = new Set(["cache", "log", "special", "spare", "metadata"]);

/** The volume from its filesystem down to its disks. */
export function stackOf(topology: Topology): Block {
  const disks = new Set(topology.disks);
  // A pool without a label goes by its identifier, which no one knows it by and which stands below.
  const nameless = topology.node.name !== "" && topology.node.name === topology.filesystem.uuid;
  const top = blockOf(nameless ? { ...topology.node, name: "" } : topology.node, disks);
  if (POOLS.has(topology.node.kind)) return top;
  const filesystem: TopologyNode = { kind: "filesystem", name: topology.filesystem.kind, path: topology.filesystem.mount, children: [] };
  return { ...top, layers: [filesystem, ...top.layers] };
}

function blockOf(node: TopologyNode, disks: ReadonlySet<string>): Block {
  const layers: TopologyNode[] = [];
  let at = node;
  for (;;) {
    if (isDisk(at, disks)) return { layers, parts: [], disk: at };
    layers.push(at);
    const [only, second] = at.children;
    if (!only || second) break;
    at = only;
  }
  return { layers, parts: at.children.map((child) => blockOf(child, disks)), disk: null };
}

function isDisk(node: TopologyNode, disks: ReadonlySet<string>): boolean {
  return node.children.length === 0 || (LEAF_KINDS.has(node.kind) && disks.has(node.name));
}

/** Every node, top first. */
export function* nodes(node: TopologyNode): Generator<TopologyNode> {
  yield node;
  for (const child of node.children) yield* nodes(child);
}

/** The disks of a stack by name, each with all its places. */
export function placesOf(block: Block): Map<string, Place[]> {
  const found = new Map<string, Place[]>();
  const visit = (at: Block, under: TopologyNode | null): void => {
    if (at.disk) {
      const key = at.disk.name || `(${found.size})`;
      const place = { disk: at.disk, sleeves: under === null ? [] : at.layers, under };
      found.set(key, [...(found.get(key) ?? []), place]);
    }
    const joint = at.layers[at.layers.length - 1] ?? under;
    for (const part of at.parts) visit(part, joint);
  };
  visit(block, null);
  return new Map([...found].sort(([a], [b]) => byDisk(a, b)));
}

const KINDS: Record<string, string> = {
  md: "Linux RAID",
  lvm: "LVM",
  btrfs: "Btrfs",
  zfs: "ZFS",
  crypt: "Encrypted",
  bcache: "bcache",
  mergerfs: "mergerfs",
  partition: "Partition",
  disk: "Disk",
  loop: "A file used as a disk",
  network: "Network",
  unknown: "Not known",
  dm: "Device mapper",
  nbd: "Network disk",
  writecache: "Write cache",
  cache: "Cache",
  thin: "Thin pool",
  filesystem: "Filesystem",
  shfs: "Unraid shares",
  overlay: "Overlay",
  memory: "Memory",
};

/** A layer's kind in words. */
export const kindWords = (kind: string): string => KINDS[kind] ?? kind;

const LEVELS: Record<string, string> = {
  raid0: "striped",
  stripe: "striped",
  striped: "striped",
  raid1: "mirrored",
  raid1c3: "three copies",
  raid1c4: "four copies",
  mirror: "mirrored",
  raid10: "mirrored and striped",
  raid4: "striped, one parity disk",
  raid5: "striped with parity",
  raid6: "striped with double parity",
  raidz: "striped with parity",
  raidz1: "striped with parity",
  raidz2: "striped with double parity",
  raidz3: "striped with triple parity",
  linear: "one after the other",
  single: "one after the other",
  dup: "two copies on one disk",
};

/** What a level does, in words; nothing for one that is not known. */
export function levelWords(level: string | null | undefined): string {
  const key = (level ?? "").toLowerCase();
  return LEVELS[key] ?? LEVELS[/^(raidz?\d+)/.exec(key)?.[1] ?? ""] ?? "";
}

/** The line under a layer's name: what it is and how it lays bytes out. */
export function layerWords(node: TopologyNode, parts: number): string {
  const words = [node.kind === "filesystem" || node.name === "" ? "" : kindWords(node.kind)];
  if (node.level && node.level !== "disk") {
    const means = levelWords(node.level);
    // "mirror, mirrored" says one thing twice.
    words.push(means && !means.startsWith(node.level.slice(0, 6)) ? `${node.level}, ${means}` : node.level);
  }
  if (node.arrangement) words.push(node.arrangement);
  if (node.chunk_bytes && (node.columns ?? 0) > 1) words.push(`pieces of ${binary(node.chunk_bytes)}`);
  if (parts > 1) words.push(`${parts} parts`);
  if (node.role && node.role !== "data") words.push(roleWords(node.role));
  return words.filter((word) => word !== "").join(" · ");
}

const ROLES: Record<string, string> = {
  data: "data",
  parity: "parity",
  mirror: "mirror",
  cache: "cache: keeps what was read last",
  log: "log: takes writes first",
  special: "special: small blocks and metadata",
  spare: "spare: waits for a failure",
  origin: "origin: all the data",
  metadata: "metadata",
};
export const roleWords = (role: string): string => ROLES[role] ?? role;

/** A role in one word, where there is no room. */
export const roleTag = (role: string): string => (role in ROLES ? role : role.slice(0, 12));

const TRANSPORTS: Record<string, string> = {
  nvme: "NVMe",
  sata: "SATA",
  ata: "SATA",
  sas: "SAS",
  scsi: "SCSI",
  usb: "USB",
  virtio: "virtio",
  mmc: "MMC",
  loop: "loop",
  iscsi: "iSCSI",
};
export const transportWords = (transport: string): string => TRANSPORTS[transport.toLowerCase()] ?? transport;

/** Powers of two, as chunks are given: `64 KiB`. */
export function binary(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let scaled = value;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${Number(scaled.toFixed(1))} ${units[unit]}`;
}

/** How many disks may be lost, from the name of the level. */
function parityOf(level: string): number {
  const key = level.toLowerCase();
  if (/^raidz[23]/.test(key)) return Number(key[5]);
  if (/^(raidz1?|raid4|raid5)/.test(key)) return 1;
  return key.startsWith("raid6") ? 2 : 0;
}

export interface Reading {
  text: string;
  /** Distinct data at once; 0 where it is not known. */
  columns: number;
  copies: number;
  /** Disks' worth of parity beside the columns. */
  parity: number;
}

/** Columns and copies of a volume in words. */
export function readingOf(topology: Topology): Reading {
  const disks = dataDisks(topology.node, topology.disks).length;
  const all = [...nodes(topology.node)];
  const sets = topology.layout === "parity" || topology.layout === "mixed" ? all.map((n) => parityOf(n.level ?? "")).filter((p) => p > 0) : [];
  const parity = Math.max(0, ...sets);
  const { columns, copies } = topology;
  const shape = { columns, copies, parity };
  const far = all.find((n) => n.kind === "network");
  if (far && topology.disks.length === 0) {
    const server = far.server ?? far.name;
    return { ...shape, columns: 0, text: `The files are on ${server || "another machine"}. Which disks it has cannot be seen from here.` };
  }
  if (topology.node.kind === "memory") return { ...shape, columns: 0, text: "It is in memory: no disk is read for it." };
  if (disks === 0) return { ...shape, columns: 0, text: "Which disks are under this could not be told." };
  if (columns < 1) return { ...shape, text: `How many of its ${count(disks, "disk")} a read can use is not known.` };
  return { ...shape, text: `${readWords(topology, disks, columns)}; ${copyWords(copies, parity, sets.length)}.` };
}

function readWords(topology: Topology, disks: number, columns: number): string {
  if (disks === 1) return "Everything lies on one disk, and a read is as fast as that disk";
  if (UNIONS.has(topology.node.kind)) return `Each file lies whole on one of ${disks} disks, and a read uses that disk alone`;
  if (columns === 1) return `A large read uses one disk at a time, of ${disks}`;
  return columns >= disks ? `A large read can use all ${disks} disks at once` : `A large read can use ${columns} of ${disks} disks at once`;
}

function copyWords(copies: number, parity: number, sets: number): string {
  if (copies > 1) return `each byte has ${copies} copies`;
  if (parity > 0) {
    const lost = parity === 1 ? "one lost disk" : `${parity === 2 ? "two" : parity} lost disks`;
    return `each byte has one copy, and parity makes up for ${lost}${sets > 1 ? ` in each of ${sets} sets` : ""}`;
  }
  return "each byte has one copy";
}

/** Disks that hold file data: caches, logs and spares left out. */
function dataDisks(node: TopologyNode, disks: string[]): string[] {
  const wanted = new Set(disks);
  const found = new Set<string>();
  const visit = (at: TopologyNode): void => {
    if (HELPERS.has(at.role ?? "")) return;
    if (isDisk(at, wanted)) {
      // A member that is gone still counts: the level is of that many.
      if (wanted.has(at.name) || at.member_state) found.add(at.name);
    }
    else at.children.forEach(visit);
  };
  visit(node);
  return [...found];
}

export type Tone = "bad" | "warn" | "work";

/** Something about a volume that its owner should see at once. */
export interface Trouble {
  tone: Tone;
  text: string;
  sync?: SyncState;
}

const USUAL = new Set(
  "clean dirty active active-idle write-pending read-auto online ok healthy idle in_sync running live mounted rw none writeback writethrough writearound passthrough metadata2".split(" "),
);

/** What of a layer's state is worth a word. */
export function unusualState(node: TopologyNode): string | null {
  if (node.kind === "unknown") return null;
  const odd = (node.state ?? "").split(",").map((word) => word.trim()).filter((word) => word !== "" && !USUAL.has(word.toLowerCase()));
  return odd.length > 0 ? odd.join(", ") : null;
}

/** Whether a disk or member is gone or going. */
export const isLost = (node: TopologyNode): boolean => node.member_state === "missing" || node.member_state === "faulty";

/** What is wrong with a volume, worst first. */
export function troublesOf(topology: Topology): Trouble[] {
  const found: Trouble[] = [];
  const seen = new Set<string>();
  const add = (trouble: Trouble): void => {
    if (seen.has(trouble.text)) return;
    seen.add(trouble.text);
    found.push(trouble);
  };
  for (const node of nodes(topology.node)) {
    const lost = node.children.filter((child) => [...nodes(child)].some(isLost));
    if (node.degraded && !node.children.some((child) => child.degraded)) add({ tone: "bad", text: degradedText(node, lost) });
    if (node.health === "failing") add({ tone: "bad", text: `${node.name} says that it is failing${node.health_why ? `: ${node.health_why}` : ""}.` });
    if (isLost(node) && !coveredBy(topology.node, node)) add({ tone: "bad", text: `${label(node)} is ${node.member_state}.` });
    if (node.sync) add({ tone: "work", text: syncText(node, node.sync), sync: node.sync });
    if (node.kind === "unknown" && !isLost(node)) {
      add({ tone: "warn", text: `${node.name ? `${node.name}: ` : ""}${node.why ?? node.state ?? "what this is could not be told"}.` });
    }
    const state = unusualState(node);
    if (state && !node.degraded) add({ tone: /fail|fault|offline|unavail|suspended|missing/i.test(state) ? "bad" : "warn", text: `${label(node)}: ${state}.` });
  }
  const order: Record<Tone, number> = { bad: 0, work: 1, warn: 2 };
  return found.sort((a, b) => order[a.tone] - order[b.tone]);
}

/** Whether a lost member is told already by the degraded layer above it. */
function coveredBy(top: TopologyNode, lost: TopologyNode): boolean {
  return [...nodes(top)].some((node) => node.degraded && [...nodes(node)].includes(lost));
}

const label = (node: TopologyNode): string => node.name || `A ${kindWords(node.kind).toLowerCase()}`;

function degradedText(node: TopologyNode, lost: TopologyNode[]): string {
  const names = lost.map((child) => [...nodes(child)].find(isLost)?.name).filter((name) => name);
  const without = lost.length === 0 ? "a member is gone" : `${count(lost.length, "member")} of ${node.children.length} ${lost.length === 1 ? "is" : "are"} gone${names.length > 0 ? ` (${names.join(", ")})` : ""}`;
  return `${label(node)} is degraded: ${without}. Reads go on from what is left; until it is whole again, another failure may lose data.`;
}

const SYNCS: Record<string, string> = {
  resync: "is being brought in step",
  recover: "is being rebuilt",
  recovery: "is being rebuilt",
  rebuild: "is being rebuilt",
  resilver: "is being rebuilt",
  check: "is being checked",
  repair: "is being repaired",
  scrub: "is being checked",
  reshape: "is being reshaped",
  balance: "is being rebalanced",
  replace: "gets a disk replaced",
};

/** A rebuild in words: `md0 is being rebuilt: 42 %, 1 h 12 min left at 118 MB/s`. */
export function syncText(node: TopologyNode, sync: SyncState): string {
  const left = sync.remaining_s ? `, ${duration(sync.remaining_s)} left` : "";
  const speed = sync.speed_bytes_s ? ` at ${rate(sync.speed_bytes_s)}` : "";
  return `${label(node)} ${SYNCS[sync.action] ?? `runs "${sync.action}"`}: ${percent(sync.done)} done${left}${speed}. Streams share the disks with it.`;
}

/** Volumes of one pool together, with the folders of all libraries on it. */
export interface PoolView {
  key: string;
  topology: Topology | null;
  error?: string;
  age_s?: number;
  folders: { library: string; name: string; path: string }[];
}

export function poolsOf(volumes: Volume[]): PoolView[] {
  const pools = new Map<string, PoolView>();
  volumes.forEach((volume, i) => {
    const t = volume.topology;
    const key = t ? [t.filesystem.kind, t.filesystem.uuid ?? t.filesystem.mount, t.node.name, t.disks.join()].join("|") : `?${volume.error ?? i}`;
    const folder = { library: volume.library, name: volume.name, path: volume.path };
    const pool = pools.get(key);
    if (pool) pool.folders.push(folder);
    else pools.set(key, { key, topology: t, error: volume.error, age_s: volume.age_s, folders: [folder] });
  });
  return [...pools.values()];
}

const SLEEP_SOURCES: Record<string, string> = {
  power_mode: "the drive was asked, which does not wake it",
  runtime_pm: "the kernel suspended it",
  recent_io: "it was read or written a moment ago",
  probably: "it has had no request for so long that such disks usually stop",
};
/** How it is known whether a disk sleeps. */
export const sleepSource = (source: string): string => SLEEP_SOURCES[source] ?? source;

const TIERS: Record<string, string> = {
  bcache: "bcache",
  "dm-cache": "a cache",
  "dm-writecache": "a write cache",
  "zfs-cache": "a read cache",
  "zfs-special": "the place of small blocks and metadata",
};

/** What fast disks do before slow ones, in a sentence; nothing where there are none. */
export function tierWords(topology: Topology): string {
  const tier = topology.tier;
  if (!tier || tier.fast.length === 0) return "";
  const mode = tier.mode ? ` (${tier.mode})` : "";
  return `${tier.fast.join(" and ")} ${tier.fast.length === 1 ? "is" : "are"} ${TIERS[tier.kind] ?? tier.kind}${mode} before ${tier.slow.length > 4 ? count(tier.slow.length, "slower disk") : tier.slow.join(", ") || "slower disks"}.`;
}

/**
 * A disk with how it stands in the layer above it: that is told of the member, which may be a partition or a
 * mapping that the disk alone carries.
 */
export function withStanding(node: TopologyNode, places: Place[]): TopologyNode {
  const sleeves = places.flatMap((place) => place.sleeves);
  const standing = sleeves.map((n) => n.member_state).filter((s) => s);
  return {
    ...node,
    member_state: node.member_state ?? standing.find((s) => s !== "in_sync") ?? standing[0],
    role: node.role ?? sleeves.find((n) => n.role)?.role,
  };
}

/** A disk with what was learnt of it since its tree was read. */
export function withFigures(node: TopologyNode, figures: DiskRate | undefined): TopologyNode {
  if (!figures) return node;
  return {
    ...node,
    asleep: figures.asleep ?? node.asleep,
    asleep_source: figures.asleep_source ?? node.asleep_source,
    temperature_c: figures.temperature_c ?? node.temperature_c,
    temperature_age_s: figures.temperature_age_s ?? node.temperature_age_s,
    health: figures.health ?? node.health,
    health_why: figures.health_why ?? node.health_why,
  };
}

/** What is below a disk that is itself a file or a network device. */
export const belowDisk = (node: TopologyNode): string[] => [...nodes(node)].filter((n) => n !== node && n.children.length === 0).map((n) => n.name);

/** Facts of a disk for its card, each a few characters. */
export function diskFacts(node: TopologyNode): string[] {
  const facts: string[] = [];
  if (node.rotational != null) facts.push(node.rotational ? "rotating" : "solid state");
  if (node.transport) facts.push(transportWords(node.transport));
  return facts;
}

/** A partition of nearly all of a disk is the disk: not worth a drawing. */
const WHOLE = 0.97;

/** Where on the disk the slices lie, as shares of it; nothing for one slice that is all of it. */
export function slicesOf(places: Place[]): { from: number; length: number; label: string }[] {
  const slices = places.flatMap((place) => {
    const size = place.disk.size_bytes ?? 0;
    const partition = place.sleeves.find((node) => node.kind === "partition");
    if (!partition || size <= 0 || !partition.size_bytes || partition.start_bytes == null) return [];
    const from = Math.min(1, Math.max(0, partition.start_bytes / size));
    return [{ from, length: Math.min(1 - from, partition.size_bytes / size), label: `${partition.name}, ${bytes(partition.size_bytes)}${place.under ? `, for ${place.under.name}` : ""}` }];
  });
  return slices.length === 1 && (slices[0]?.length ?? 0) > WHOLE ? [] : slices;
}

/** Columns of a grid of `n` cells at least `least` wide in `room`, so that its rows are alike. */
export function balanced(n: number, room: number, least: number, gap: number): number {
  const most = Math.max(1, Math.floor((room + gap) / (least + gap)));
  return Math.max(1, Math.ceil(n / Math.ceil(n / most)));
}

/** How many disks are under a block. */
export const leavesOf = (block: Block): number => (block.disk ? 1 : block.parts.reduce((sum, part) => sum + leavesOf(part), 0));

/** Role of a part, where it is one that has to be told. */
export function partRole(part: Block): string | null {
  const role = part.layers.find((node) => node.role)?.role ?? part.disk?.role;
  return role && role !== "data" && role !== "mirror" ? role : null;
}

/** Layers that every disk of a block carries in the same way, by kind: told once for a wall of disks. */
export function commonSleeves(block: Block): string[] {
  const kinds = block.parts.map((part) => (part.disk ? part.layers.map((node) => node.kind) : null));
  const [first] = kinds;
  return first && first.length > 0 && kinds.every((k) => k?.join() === first.join()) ? first : [];
}
