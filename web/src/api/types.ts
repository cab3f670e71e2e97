/**
 * Shapes of the server's HTTP interface (`/api/openapi.json`), as far as the page reads them.
 *
 * Bytes are integers in `_bytes`, durations are seconds in `_s`, times are RFC 3339 UTC.
 */

/** A page of a list. */
export interface List<T> {
  items: T[];
  total: number;
}

export interface User {
  id: string;
  name: string;
  role?: "admin" | "user";
}

export type ItemType =
  | "movie"
  | "show"
  | "season"
  | "episode"
  | "artist"
  | "album"
  | "track"
  | "photo"
  | "extra";

export type ImageKind = "poster" | "backdrop" | "logo" | "thumb" | "still";

/** A picture that an item has. `tag` changes when the picture does. */
export interface ImageRef {
  kind: ImageKind;
  tag: string;
  width: number;
  height: number;
}

/** What the asking user has done with an item. */
export interface WatchState {
  position_s: number;
  watched: boolean;
  favorite: boolean;
  rating?: number | null;
  last_played?: string | null;
}

export interface Item {
  id: string;
  type: ItemType;
  title: string;
  year?: number | null;
  added: string;
  duration_s?: number | null;
  /** Id of the season of an episode, the show of a season. */
  parent?: string | null;
  library: string;
  available: boolean;
  state: WatchState;
  season?: number | null;
  episode?: number | null;
  /** Last number, where one file holds several episodes. */
  episode_last?: number | null;
  disc?: number | null;
  track?: number | null;
  /** Id and title of the show or artist above it all. */
  top?: string | null;
  top_title?: string | null;
  parent_title?: string | null;
  /** How many episodes or tracks are below it, and how many of them are not watched. */
  leaves?: number | null;
  unwatched?: number | null;
  images?: ImageRef[];
  /** Why none of its files can be played. */
  unreadable?: string | null;
}

export interface ItemDetail extends Item {
  plot?: string | null;
  genres?: string[];
  people?: string[];
  community_rating?: number | null;
  versions: Version[];
  extras?: Item[];
  /** Ids of the episodes before and after it in its series. */
  previous?: string | null;
  next?: string | null;
}

export interface Version {
  id: string;
  file: string;
  size_bytes: number;
  /** Absent until the file was probed. */
  container?: string | null;
  duration_s?: number | null;
  bitrate_bps?: number | null;
  label?: string | null;
  edition?: string | null;
  unreadable?: string | null;
  streams: Stream[];
  chapters: Chapter[];
}

export interface Chapter {
  start_s: number;
  end_s?: number | null;
  title?: string | null;
}

export interface Disposition {
  default: boolean;
  forced: boolean;
  hearing_impaired: boolean;
  visual_impaired: boolean;
  commentary: boolean;
  original: boolean;
  attached_picture: boolean;
}

/** A stream of a file. `kind` tells which of the optional fields are there. */
export interface Stream {
  index: number;
  kind: "video" | "audio" | "subtitle" | "data";
  codec: string;
  codec_string?: string;
  codec_tag?: string;
  profile?: string;
  language?: string;
  title?: string;
  bitrate_bps?: number;
  disposition?: Partial<Disposition>;
  width?: number;
  height?: number;
  level?: number;
  bit_depth?: number;
  fps?: number;
  interlaced?: boolean;
  hdr?: string;
  channels?: number;
  channel_layout?: string;
  sample_rate?: number;
  text?: boolean;
  external?: string;
}

export interface Home {
  continue_watching: Item[];
  next_up: Item[];
  recently_added: Item[];
}

export interface Library {
  id: string;
  name: string;
  kind: string;
  path: string;
  items: number;
  unavailable: number;
  failed: number;
  scanning: boolean;
  /** Whether pictures are being taken from its files, behind the scan. */
  taking_pictures?: boolean;
  /** Whether its folder was there at the last scan, and why not (for the owner). */
  reachable?: boolean;
  unreachable?: string;
  /** How changes of its folders are noticed; for the owner. */
  watching?: { by: "kernel" | "timer" | "nobody"; why?: string };
  /** Files not probed yet. */
  pending?: number;
}

export interface Unreadable {
  path: string;
  reason: string;
}

export type Method = "direct_play" | "direct_stream" | "transcode";

export interface Reason {
  code: string;
  text: string;
}

export interface PlayRequest {
  client: string | { profile: ClientProfile };
  version?: string;
  audio?: number;
  /** A stream index, or `"off"` for none; absent leaves it to the server. */
  subtitle?: number | "off";
  start_s?: number;
  max_bitrate?: number;
}

/** A client that the server knows by name. */
export interface Client {
  name: string;
  title: string;
}

/** How a title would play on a client. */
export interface DryRun {
  client: string;
  versions: DryVersion[];
}

export interface DryVersion {
  version: string;
  /** The one that would play. */
  chosen: boolean;
  decision?: { method: Method };
  /** Absent with `why_not`. */
  sentence?: string;
  reasons: (Reason & { wanted?: string; found?: string })[];
  why_not?: string;
}

/** Which sound and which subtitles come unasked. Languages are ISO 639-2/T, preferred first. */
export interface Preferences {
  audio_languages: string[];
  /** The language that the film was made in goes before them. */
  original_language: boolean;
  described: boolean;
  subtitle_languages: string[];
  subtitle_mode: "forced" | "foreign" | "always" | "off";
  hearing_impaired: boolean;
}

/** What a player reports when it cannot play what it was given. */
export interface FailureReport {
  position_s: number;
  error: "decode" | "unsupported" | "network" | "other";
  detail?: string;
  /** What the browser can after all, where the failure taught that. */
  client?: { profile: ClientProfile };
}

/** A subtitle track as its file has it. */
export interface OriginalSubtitle {
  format: "ass" | "pgs" | "vobsub";
  url: string;
  /** Fonts that come with the film. */
  fonts?: string[];
}

export interface SubtitleTrack {
  index: number;
  label: string;
  language?: string | null;
  /** WebVTT; absent for pictures. */
  url?: string | null;
  /** As the file has it; a track with neither can only be drawn into the picture. */
  original?: OriginalSubtitle | null;
  /** Whether the server chose it. */
  default: boolean;
  forced?: boolean;
}

export interface AudioTrack {
  index: number;
  label: string;
  selected: boolean;
}

export interface PlayResponse {
  session: string;
  method: Method;
  /** How it plays, for people. */
  sentence?: string;
  reasons: Reason[];
  url: string;
  protocol: "http" | "hls";
  start_s: number;
  subtitles: SubtitleTrack[];
  audio: AudioTrack[];
  duration_s?: number | null;
  storage?: { disks: string[]; warning?: string | null };
  /** Which streams go out, and how. */
  decision?: { video?: TrackVerdict | null; audio?: TrackVerdict | null };
}

export interface TrackVerdict {
  /** Index in the file. */
  stream: number;
  action: "copy" | "encode";
  codec: string;
}

/** A client profile as the decision reads it. */
export interface ClientProfile {
  name: string;
  direct_play: { container: string; video: string[]; audio: string[] }[];
  video: VideoLimit[];
  audio: AudioLimit[];
  subtitles: { format: string; delivery: "external" | "hls" | "embedded" }[];
  protocols: ("http" | "hls")[];
  max_bitrate?: number;
  /** What segments may carry, where that differs from files. */
  hls?: { container: "fmp4" | "mpegts"; video: string[]; audio: string[] };
}

export interface VideoLimit {
  codec: string;
  profiles?: string[];
  max_level?: number;
  max_bit_depth?: number;
  hdr?: string[];
  max_width?: number;
  max_height?: number;
  max_fps?: number;
  interlaced?: boolean;
}

export interface AudioLimit {
  codec: string;
  max_channels?: number;
  max_sample_rate?: number;
}

/** A session that plays now. */
export interface Session {
  session: string;
  user: string;
  client: string;
  item: Pick<Item, "id" | "title"> & Partial<Item>;
  method: Method;
  reasons?: Reason[];
  started?: string;
  bitrate_bps?: number | null;
  position_s: number;
  duration_s?: number | null;
  paused: boolean;
  buffered_s?: number | null;
  predicted_stall_s?: number | null;
  /** Bytes a second off each disk for this stream. */
  disks: Record<string, number>;
  /** Where its reads go, in a sentence. */
  verdict?: string;
}

export type Attribution = "block_trace" | "sampled_map" | "none";

export interface IoDisk {
  disk: string;
  reads: number;
  read_bytes: number;
  /** Of `read_bytes`: what the filesystem read for itself. */
  metadata_bytes?: number;
  /** Of `read_bytes`: parity, and other columns of a row, read to make up what could not be read. */
  parity_bytes?: number;
  reconstruct_bytes?: number;
  sequential_share?: number | null;
  mean_request_bytes?: number | null;
  latency_us?: { p50: number; p95: number; p99: number } | null;
  share: number;
  busy_share?: number | null;
}

export interface IoSeek {
  at_s: number;
  from_byte: number;
  to_byte: number;
  disks_before: string[];
  disks_after: string[];
}

export interface IoStall {
  at_s: number;
  duration_s: number;
  cause: string;
}

export interface IoSeries {
  interval_ms: number;
  t_s: number[];
  disks: Record<string, { read_bytes: number[]; reads: number[] }>;
  cpu_share?: number[];
  system_disk?: { read_bytes: number[]; write_bytes: number[] };
}

/** Something that went wrong with a disk while it was read. */
export interface IoFault {
  at_s: number;
  disk: string;
  what: string;
}

/** A stretch of time that was attributed in another way than the rest. */
export interface IoSpan {
  from_s: number;
  to_s: number;
  attribution: Attribution;
  why?: string | null;
}

/** Where the striping went. What is absent was not kept by the version that recorded it, or is not known. */
export interface Striping {
  columns: number;
  columns_used: number;
  evenness: number;
  verdict: string;
  level?: string;
  copies?: number;
  copies_used?: number;
  /** By copy: its share of the file's bytes that came off disks. What is missing to 1 is of a copy that is not known. */
  copy_shares?: number[];
  chunk_bytes?: number;
  mean_request_bytes?: number;
  cache_share?: number;
  /** What would change it, most urgent first. */
  advice?: Reason[];
}

/** A part of a file, and when it was read. */
export interface TrailRun {
  from_s: number;
  to_s: number;
  from_byte: number;
  /** One past its last. */
  to_byte: number;
  read_bytes: number;
  /** As the layout numbers them, from 0; absent where it is not known. */
  copy?: number;
  memory?: boolean;
}

/** What of a file was read when. */
export interface IoTrail {
  file_bytes: number;
  interval_ms: number;
  gap_bytes: number;
  runs: TrailRun[];
}

/** Which disks served a stream, and when. */
export interface IoRecord {
  session: string;
  item?: string;
  file?: string;
  method?: Method;
  client?: string;
  started: string;
  ended?: string | null;
  attribution: Attribution;
  why?: string | null;
  /** How far the figures may be off, as a share; 0 is exact. */
  error_share?: number;
  served_bytes: number;
  read_bytes: number;
  cached_bytes: number;
  /** What the converter read of the file, and of that what was in memory. */
  input_bytes: number;
  input_cached_bytes: number;
  unattributed_bytes: number;
  disks: IoDisk[];
  striping?: Striping | null;
  seeks: IoSeek[];
  stalls: IoStall[];
  faults: IoFault[];
  attribution_spans: IoSpan[];
  series: IoSeries;
  /** What of the file was read when; records of older versions have none. */
  trail?: IoTrail;
}

/** A finished session with the short form of its I/O record. */
export interface HistoryEntry {
  session: string;
  item: Pick<Item, "id" | "title"> & Partial<Item>;
  user?: string;
  client: string;
  method: Method;
  started: string;
  ended?: string | null;
  position_s?: number | null;
  io?: {
    attribution?: Attribution;
    served_bytes?: number;
    read_bytes?: number;
    cached_bytes?: number;
    columns?: number;
    columns_used?: number;
    verdict?: string;
    disks?: { disk: string; read_bytes: number; share: number }[];
  } | null;
}

export type MemberState = "in_sync" | "spare" | "faulty" | "rebuilding" | "missing" | "write_mostly";

/** One storey of a volume. Absent facts are unknown, which is not the same as "no". */
export interface TopologyNode {
  /** `btrfs`, `md`, `lvm`, `crypt`, `partition`, `disk`, …; anything else is shown by its name. */
  kind: string;
  name: string;
  level?: string | null;
  /** How copies or parity are arranged in it: `near=2`, `left-symmetric`. */
  arrangement?: string | null;
  columns?: number | null;
  copies?: number | null;
  chunk_bytes?: number | null;
  state?: string | null;
  sync?: SyncState | null;
  size_bytes?: number | null;
  /** First byte on the whole disk, of a partition. */
  start_bytes?: number | null;
  rotational?: boolean | null;
  model?: string | null;
  serial?: string | null;
  wwid?: string | null;
  /** `nvme`, `sata`, `usb`, `virtio`, `scsi`, `mmc`, `loop`, … */
  transport?: string | null;
  queue_depth?: number | null;
  asleep?: boolean | null;
  /** How it is known whether it sleeps, without waking it. */
  asleep_source?: string | null;
  temperature_c?: number | null;
  /** Seconds since that was read: a sleeping disk is not asked. */
  temperature_age_s?: number | null;
  health?: "ok" | "failing" | "unknown" | null;
  health_why?: string | null;
  /** `data`, `parity`, `mirror`, `cache`, `log`, `special`, `spare`, `origin`, `metadata`. */
  role?: string | null;
  member_state?: MemberState | null;
  degraded?: boolean | null;
  /** Where it is mounted, or the device file. */
  path?: string | null;
  backing_file?: string | null;
  server?: string | null;
  export?: string | null;
  /** Why it is not known further. */
  why?: string | null;
  children: TopologyNode[];
}

/** A rebuild, check or reshape under way. */
export interface SyncState {
  action: string;
  /** 0 to 1. */
  done: number;
  speed_bytes_s?: number | null;
  remaining_s?: number | null;
}

export interface Topology {
  path: string;
  filesystem: { kind: string; uuid?: string | null; mount: string };
  node: TopologyNode;
  columns: number;
  copies: number;
  disks: string[];
  layout: string;
  /** Fast disks before slow ones. */
  tier?: { kind: string; fast: string[]; slow: string[]; mode?: string | null; state?: string | null } | null;
  advice: Reason[];
}

/** What a disk does at this moment. */
export interface DiskRate {
  disk: string;
  read_bytes_per_s: number;
  write_bytes_per_s?: number;
  reads_per_s?: number;
  busy_share?: number | null;
  /** Newer than the tree's, where the answer has them: see `TopologyNode`. */
  asleep?: boolean;
  asleep_source?: string;
  /** Seconds without a request. */
  quiet_s?: number;
  temperature_c?: number;
  temperature_age_s?: number;
  health?: "ok" | "failing" | "unknown";
  health_why?: string;
}

/** A folder of a library on its volume. */
export interface Volume {
  /** Id and name of the library. */
  library: string;
  name: string;
  path: string;
  topology: Topology | null;
  /** Why it could not be told, or not be read anew. */
  error?: string;
  /** Seconds since it was read. */
  age_s?: number;
}

export interface StorageReport {
  volumes: Volume[];
  disks: DiskRate[];
  attribution?: { mode: Attribution; why?: string | null };
}

/** Bytes in one piece on a disk. */
export interface DiskPiece {
  disk: string;
  disk_offset: number;
  length_bytes: number;
}

/** A run of a file, with the pieces of each of its copies. */
export interface LayoutExtent {
  offset: number;
  length_bytes: number;
  copies: DiskPiece[][];
}

export interface Layout {
  file: string;
  size_bytes: number;
  exact: boolean;
  why_inexact?: string | null;
  extents: LayoutExtent[];
  per_disk: { disk: string; bytes: number; share: number; missing?: boolean }[];
  fragments: number;
  evenness: number;
  /** The file that is read in its place: a branch of a union. */
  via?: string;
  /** Where the list of runs ends before the file does. */
  truncated?: { listed_extents: number; from_byte: number };
  /** Disks that it may be on, where no more is known. */
  candidates: string[];
  special: LayoutSpecial;
}

/** Bytes of a file that are not simply somewhere. */
export interface LayoutSpecial {
  unwritten_bytes?: number;
  shared_bytes?: number;
  compressed_bytes?: number;
  /** Of those, where their places are known: what one copy takes on disks. */
  stored_bytes?: number;
  inline_bytes?: number;
  pending_bytes?: number;
  encrypted_bytes?: number;
  degraded_bytes?: number;
  rebuilt_bytes?: number;
  lost_bytes?: number;
}

export interface ScanReport {
  files: number;
  added: number;
  updated: number;
  removed: number;
  unchanged: number;
  failed: number;
  seconds: number;
}

/** The `scan` event. */
export interface ScanEvent {
  library: string;
  phase: string;
  done?: number;
  total?: number | null;
  file?: string | null;
  report?: ScanReport | null;
  reason?: string | null;
}

/** The `io` event: rates of every stream that plays. */
export interface IoEvent {
  sessions: Record<string, { disks: Record<string, number> }>;
  /** Every disk of the machine, by whomever it is used. */
  disks: DiskRate[];
}
