//! The I/O record of a stream: the `io` JSON of the contract, without what sessions add
//! (`session`, `item`, `file`, `method`, `client`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::topology::Advice;

/// How bytes were ascribed to disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributionMode {
    /// The kernel's block trace, thread by thread: exact.
    BlockTrace,
    /// What each read made the kernel fetch, placed on the file's map: exact where the map is.
    SampledMap,
    /// Totals only.
    None,
}

impl AttributionMode {
    /// The word of the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::BlockTrace => "block_trace",
            Self::SampledMap => "sampled_map",
            Self::None => "none",
        }
    }
}

/// How bytes are ascribed at the moment, and why not better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// See [`AttributionMode`].
    pub mode: AttributionMode,
    /// Plain words, where it is not the best there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoRecord {
    /// RFC 3339.
    pub started: String,
    /// RFC 3339; absent while the stream runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The weakest that was used for any byte of it.
    pub attribution: AttributionMode,
    /// Why not exact, or what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was in force when; absent where it was one thing throughout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attribution_spans: Vec<AttributionSpan>,
    /// With `sampled_map`: how far a disk's bytes may be from the truth, as a share of them, as it was measured
    /// against the block trace (docs/storage-helper.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_share: Option<f64>,
    /// Bytes handed to the client.
    pub served_bytes: u64,
    /// Bytes of files that came off disks for this stream, read-ahead included.
    pub read_bytes: u64,
    /// Bytes handed out that this stream had not fetched itself.
    pub cached_bytes: u64,
    /// Bytes of files that the converter read for this stream; absent where nothing is converted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_bytes: u64,
    /// Of `input_bytes`, those that did not come off disks for this stream: they were in memory.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_cached_bytes: u64,
    /// Bytes that came off disks and could not be ascribed to one.
    pub unattributed_bytes: u64,
    /// By physical disk, all disks of the volume.
    pub disks: Vec<DiskIo>,
    /// Where the striping went.
    pub striping: Striping,
    /// Jumps.
    pub seeks: Vec<Seek>,
    /// Reads that kept the viewer waiting.
    pub stalls: Vec<Stall>,
    /// Disks that failed while it played.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<DiskFault>,
    /// Over time.
    pub series: SeriesJson,
    /// What of the file was read when, and from which copy; absent in records of older versions, and where nothing was
    /// read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trail: Option<Trail>,
    /// Size of the file, the largest where there were several; 0 where none was read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub file_bytes: u64,
    /// What was read of the file, in the order of asking, so that it can be asked of another layout; only what did not
    /// come from memory. Only in the record of a stream that has ended, and at most so many (see `requests_left_out`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<FileRequest>,
    /// Requests after the last one that is kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests_left_out: u64,
}

/// One read of a file that went to its disks, as the server asked for it; how the kernel cut it is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRequest {
    /// When it was asked for: milliseconds since the start of the record.
    pub at_ms: u64,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length_bytes: u64,
}

/// One disk's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskIo {
    /// Name in `/sys/block`.
    pub disk: String,
    /// Requests; with `sampled_map` runs in one piece of the disk, as computed from the map.
    pub reads: u64,
    /// Bytes of files.
    pub read_bytes: u64,
    /// Bytes of extent trees, checksums and the like.
    pub metadata_bytes: u64,
    /// Of `read_bytes`, parity that was read to compute what could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parity_bytes: u64,
    /// Of `read_bytes`, other columns of a row, read for the same reason and not asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reconstruct_bytes: u64,
    /// Submitted pieces that the kernel merged into a request with others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub merged: u64,
    /// What the disk read in all since the record began, by its own counter, whoever asked: never less than what is
    /// ascribed here to all streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_total_bytes: Option<u64>,
    /// Share of the requests that began where the disk's last one ended.
    pub sequential_share: f64,
    /// Mean size of a request.
    pub mean_request_bytes: u64,
    /// Issue to completion; with `sampled_map` the time of the whole read call. Within 6 %.
    pub latency_us: Percentiles,
    /// Share of this stream's bytes.
    pub share: f64,
    /// Share of the time in which the disk worked for this stream.
    pub busy_share: f64,
    /// Requests that the disk answered with an error; absent where there were none, or none could be seen
    /// (`sampled_map`). On a mirror another copy then gave the bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_reads: u64,
}

/// Of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: u64,
    /// 95 of 100 are at most this.
    pub p95: u64,
    /// 99 of 100 are at most this.
    pub p99: u64,
}

/// How the volume's disks shared the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Striping {
    /// Disks that a large sequential read can use at once.
    pub columns: u32,
    /// Disks that did a noticeable part of the reading (5 % of the busiest one's).
    pub columns_used: u32,
    /// Mean over maximum of the disks' bytes: 1 = all alike, 1/n = one of n did everything.
    pub evenness: f64,
    /// For a person.
    pub verdict: String,
    /// Level of the storey that decides: `raid10`, `raid1`, `single`, ..; `disk` where there is only one. This and all below:
    /// absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Copies that each byte has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Copies that gave a noticeable part (5 % of what the busiest one gave). Absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies_used: Option<u32>,
    /// By copy, as `spindle layout` numbers them: its share of the file's bytes that came off disks. What is missing to 1
    /// came off disks, too, and it is not known from which copy. Absent where no copy is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_shares: Option<Vec<f64>>,
    /// What lies on one disk before the next one's turn comes. Absent where nothing is striped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// Mean size of the requests that the disks got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_request_bytes: Option<u64>,
    /// Of what was sent (of what was read for it, where it was converted), the part that was in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_share: Option<f64>,
    /// What would change it, most urgent first; the codes are in `recorder::advice`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
}

/// What of a file was read when. It is that of the largest file that the stream read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trail {
    /// Size of the file.
    pub file_bytes: u64,
    /// Runs of one interval are joined.
    pub interval_ms: u64,
    /// Where no more than this lies between them.
    pub gap_bytes: u64,
    /// By time.
    pub runs: Vec<TrailRun>,
}

/// A part of a file, and when it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrailRun {
    /// Seconds since the start of the record.
    pub from_s: f64,
    /// Seconds since the start of the record, of its last read.
    pub to_s: f64,
    /// First byte of the file.
    pub from_byte: u64,
    /// One past its last.
    pub to_byte: u64,
    /// Bytes of it that were read: less than its length where there are gaps, more where some were read again.
    pub read_bytes: u64,
    /// The copy that gave them, as `spindle layout` numbers them from 0. Absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
    /// They were in memory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub memory: bool,
}

/// A jump of the viewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seek {
    /// Seconds since the start of the record.
    pub at_s: f64,
    /// Where it was in the file.
    pub from_byte: u64,
    /// Where it went.
    pub to_byte: u64,
    /// Disks that served the 16 MiB before the jump; empty if memory did.
    pub disks_before: Vec<String>,
    /// Disks that served the 16 MiB after it.
    pub disks_after: Vec<String>,
}

/// A wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Seconds since the start of the record.
    pub at_s: f64,
    /// Seconds.
    pub duration_s: f64,
    /// For a person.
    pub cause: String,
}

/// A way of attribution and when it was in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributionSpan {
    /// Seconds since the start of the record.
    pub from_s: f64,
    /// Seconds since the start of the record.
    pub to_s: f64,
    /// What was in force.
    pub attribution: AttributionMode,
    /// Why nothing better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Something that a disk did not survive, or the stream did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskFault {
    /// Seconds since the start of the record.
    pub at_s: f64,
    /// Name in `/sys/block`.
    pub disk: String,
    /// For a person.
    pub what: String,
}

/// The same, for whoever watches the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Microseconds since the Unix epoch.
    pub at_unix_us: i64,
    /// Name in `/sys/block`; empty where it is about a whole volume.
    pub disk: String,
    /// For a person.
    pub what: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(b: &bool) -> bool {
    !*b
}

/// Values per interval; every list has the length of `t_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesJson {
    /// Length of an interval.
    pub interval_ms: u64,
    /// Where each interval begins, seconds since the start of the record.
    pub t_s: Vec<f64>,
    /// By disk.
    pub disks: BTreeMap<String, DiskSeries>,
    /// CPU time of the server per second of wall time: 1 = one core.
    pub cpu_share: Vec<f64>,
    /// The disk that the system itself is on.
    pub system_disk: SystemDiskSeries,
}

/// Of one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSeries {
    /// Bytes of files read in each interval.
    pub read_bytes: Vec<u64>,
    /// Requests in each interval.
    pub reads: Vec<u64>,
}

/// Of the system's disk: what everything on the machine did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemDiskSeries {
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
}

/// What a disk does right now, by its own counters, whoever asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskRate {
    /// Name in `/sys/block`.
    pub disk: String,
    /// Requests a second.
    pub reads_per_s: f64,
    /// Bytes a second.
    pub read_bytes_per_s: f64,
    /// Bytes a second.
    pub write_bytes_per_s: f64,
    /// Share of the time in which it had something to do.
    pub busy_share: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields that a record had from the first version on, and one that no version knows.
    const FIRST: &str = r#"{"started":"2026-11-01T00:00:00Z","ended":"2026-11-01T00:01:00Z","attribution":"sampled_map",
        "served_bytes":30,"read_bytes":20,"cached_bytes":10,"unattributed_bytes":0,"of_another_version":{"x":1},
        "disks":[{"disk":"sda","reads":2,"read_bytes":20,"metadata_bytes":0,"sequential_share":0.5,"mean_request_bytes":10,
            "latency_us":{"p50":1,"p95":2,"p99":3},"share":1.0,"busy_share":0.1}],
        "striping":{"columns":2,"columns_used":1,"evenness":0.5,"verdict":"Only sda worked."},
        "seeks":[{"at_s":1.0,"from_byte":1,"to_byte":2,"disks_before":[],"disks_after":["sda"]}],
        "stalls":[{"at_s":1.0,"duration_s":2.0,"cause":"slow"}],
        "series":{"interval_ms":1000,"t_s":[0.0],"disks":{"sda":{"read_bytes":[20],"reads":[2]}},"cpu_share":[0.1],
            "system_disk":{"read_bytes":[0],"write_bytes":[0]}}}"#;

    #[test]
    fn a_record_of_the_first_version_reads_and_what_it_lacks_stays_absent() {
        let record: IoRecord = serde_json::from_str(FIRST).unwrap();
        assert_eq!((record.read_bytes, record.striping.columns_used), (20, 1));
        assert_eq!((record.trail.as_ref(), record.striping.copy_shares.as_ref()), (None, None));
        let again = serde_json::to_value(&record).unwrap();
        for absent in
            ["level", "copies", "copies_used", "copy_shares", "chunk_bytes", "cache_share", "advice"]
        {
            assert!(again["striping"].get(absent).is_none(), "{absent} is not 0: nobody knows");
        }
        assert!(again.get("trail").is_none() && again.get("faults").is_none());
    }
}
