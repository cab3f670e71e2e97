//! The requests of a saved I/O record: those that it lists, or, for records of versions that listed none, what can be told from its series, its
//! jumps and the sizes of its requests. Records are somebody's files: nothing in them is believed unseen.

use serde::Deserialize;

use crate::error::SimulateError;

/// Requests of a session at most: a day at one each 2 MiB and 100 Mbit/s would be half of it.
pub const MAX_REQUESTS: usize = 1 << 20;

/// Bytes of a request at most; a longer one is cut.
const MAX_REQUEST_BYTES: u64 = 64 << 20;

/// The longest session, and the largest file: beyond them a number is damage.
const MAX_S: f64 = 14.0 * 86_400.0;
const MAX_FILE_BYTES: u64 = 1 << 50;

/// One read of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Seconds since the start of the session.
    pub at_s: f64,
    /// First byte in the file.
    pub offset: u64,
    /// How many.
    pub len_bytes: u64,
}

/// What the record says of a disk that it was recorded on.
#[derive(Debug, Clone, PartialEq, serde::Serialize, Deserialize)]
pub struct RecordedDisk {
    /// Its name then.
    pub disk: String,
    /// Requests.
    #[serde(default)]
    pub reads: u64,
    /// Bytes of the file.
    #[serde(default)]
    pub read_bytes: u64,
    /// Share of the time in which it worked for this session.
    #[serde(default)]
    pub busy_share: f64,
    /// Mean size of a request.
    #[serde(default, skip_serializing)]
    mean_request_bytes: u64,
}

/// A session to be replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its id, or the file that it came from.
    pub name: String,
    /// What was played, and how.
    pub title: String,
    /// What tells the file from others: two sessions of one film read the same place.
    pub file: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that it took.
    pub duration_s: f64,
    /// In order of time.
    pub requests: Vec<Request>,
    /// Why the requests are not those that were made, where they are not.
    pub approximate: Option<String>,
    /// The disks that it was recorded on.
    pub recorded: Vec<RecordedDisk>,
    /// Columns that the recorded volume has, and that were used.
    pub recorded_columns: Option<(u32, u32)>,
}

impl Session {
    /// Where its last read ends.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.requests.iter().map(|r| r.offset + r.len_bytes).max().unwrap_or(0)
    }

    /// Bytes that it reads.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.requests.iter().map(|r| r.len_bytes).sum()
    }

    /// From the JSON of a saved record.
    ///
    /// # Errors
    /// No record, one without reads, or one that is too large.
    pub fn from_json(name: &str, text: &str) -> Result<Self, SimulateError> {
        let record = |why: String| SimulateError::NoRecord { name: name.to_owned(), why };
        let saved: Saved = serde_json::from_str(text).map_err(|e| record(e.to_string()))?;
        Self::of(name, saved)
    }

    /// From the value of a stored record.
    ///
    /// # Errors
    /// As [`Session::from_json`].
    pub fn from_value(name: &str, value: serde_json::Value) -> Result<Self, SimulateError> {
        let saved: Saved = serde_json::from_value(value)
            .map_err(|e| SimulateError::NoRecord { name: name.to_owned(), why: e.to_string() })?;
        Self::of(name, saved)
    }

    fn of(name: &str, saved: Saved) -> Result<Self, SimulateError> {
        let wrong = |why: &str| SimulateError::NoRecord { name: name.to_owned(), why: why.to_owned() };
        if saved.requests.as_ref().is_none_or(Vec::is_empty) && saved.series.is_none() {
            return Err(wrong("it has neither `requests` nor a `series`"));
        }
        let series = saved.series.unwrap_or_default();
        let listed = saved.requests.unwrap_or_default();
        let (mut requests, approximate) = if listed.is_empty() {
            let requests = reconstructed(&series, &saved.disks, &saved.seeks, saved.striping.as_ref());
            let why = "it lists no requests (it is of an earlier version, or nothing was traced): they are worked out from its bytes over time, \
                       its jumps and its mean request";
            (requests.map_err(wrong)?, Some(why.to_owned()))
        } else {
            let all: u64 = saved.disks.iter().map(|d| d.read_bytes).fold(0, u64::saturating_add);
            (exact(name, &listed)?, unlisted(&listed, all, saved.requests_left_out))
        };
        if requests.is_empty() {
            let why = match (saved.attribution.as_deref(), saved.why) {
                (_, Some(why)) => why,
                (Some("none"), None) => "nothing was ascribed to disks".to_owned(),
                _ => "everything was in memory".to_owned(),
            };
            return Err(SimulateError::Empty { name: name.to_owned(), why });
        }
        if requests.len() > MAX_REQUESTS {
            return Err(SimulateError::TooMuch {
                what: format!("requests of `{name}`"),
                count: requests.len() as u64,
                limit: MAX_REQUESTS as u64,
            });
        }
        requests.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let last_s = requests.last().map_or(0.0, |r| r.at_s);
        let title = [saved.file.as_deref(), saved.method.as_deref(), saved.client.as_deref()];
        Ok(Self {
            name: name.to_owned(),
            file: saved.file.clone().filter(|f| !f.is_empty()).unwrap_or_else(|| name.to_owned()),
            title: title.into_iter().flatten().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(", "),
            started: saved.started.unwrap_or_default(),
            duration_s: series.duration_s().max(last_s),
            requests,
            approximate,
            recorded: saved.disks,
            recorded_columns: saved.striping.map(|s| (s.columns, s.columns_used)),
        })
    }
}

/// The list of a record is bounded: what was read and is not in it is said.
fn unlisted(listed: &[Listed], read_bytes: u64, left_out: u64) -> Option<String> {
    if left_out > 0 {
        return Some(format!("{left_out} requests after the last one of its list were not kept"));
    }
    let bytes = listed.iter().map(|r| r.length_bytes).fold(0, u64::saturating_add);
    // Metadata and the kernel's own read-ahead are in the one and not in the other.
    (read_bytes > bytes.saturating_add(bytes / 8).saturating_add(1 << 20)).then(|| {
        format!("its list of requests has {} of the {} MiB that were read", bytes >> 20, read_bytes >> 20)
    })
}

fn exact(name: &str, listed: &[Listed]) -> Result<Vec<Request>, SimulateError> {
    let mut out = Vec::with_capacity(listed.len().min(MAX_REQUESTS + 1));
    for row in listed {
        let at_s = row.at_ms / 1e3;
        let is_sane = at_s.is_finite()
            && (0.0..=MAX_S).contains(&at_s)
            && row.offset.checked_add(row.length_bytes).is_some_and(|end| end <= MAX_FILE_BYTES);
        if !is_sane {
            return Err(SimulateError::NoRecord {
                name: name.to_owned(),
                why: format!(
                    "a request of {} bytes at byte {} after {at_s} s cannot be",
                    row.length_bytes, row.offset
                ),
            });
        }
        let (mut offset, end) = (row.offset, row.offset + row.length_bytes);
        while offset < end && out.len() <= MAX_REQUESTS {
            let len_bytes = (end - offset).min(MAX_REQUEST_BYTES);
            out.push(Request { at_s, offset, len_bytes });
            offset += len_bytes;
        }
    }
    Ok(out)
}

/// Requests that would have left such a record.
fn reconstructed(
    series: &Series,
    disks: &[RecordedDisk],
    seeks: &[Seek],
    striping: Option<&Striping>,
) -> Result<Vec<Request>, &'static str> {
    let interval_s = series.interval_ms / 1e3;
    if !interval_s.is_finite() || interval_s <= 0.0 || interval_s > MAX_S {
        return Err("its series has no sensible interval");
    }
    let read: Vec<u64> = (0..series.t_s.len())
        .map(|i| {
            series.disks.values().filter_map(|d| d.read_bytes.get(i)).fold(0_u64, |a, b| a.saturating_add(*b))
        })
        .collect();
    if series.t_s.iter().any(|t| !t.is_finite() || !(0.0..=MAX_S).contains(t))
        || read.iter().fold(0_u64, |a, b| a.saturating_add(*b)) > MAX_FILE_BYTES
    {
        return Err("its series has numbers that cannot be");
    }
    let mut seeks: Vec<&Seek> =
        seeks.iter().filter(|s| s.at_s.is_finite() && s.to_byte < MAX_FILE_BYTES / 2).collect();
    seeks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let request = request_bytes(disks, striping);
    // It began so that it stood where its first jump left.
    let first = seeks.first().map_or(0, |seek| {
        let before = series.t_s.iter().zip(&read).filter(|(t, _)| **t < seek.at_s).map(|(_, b)| *b);
        seek.from_byte.min(MAX_FILE_BYTES / 2).saturating_sub(before.sum())
    });
    let (mut at, mut jumps, mut out) = (first, seeks.into_iter().peekable(), Vec::new());
    for (t_s, bytes) in series.t_s.iter().zip(read) {
        let count = bytes.div_ceil(request);
        let mut left = bytes;
        for number in 0..count {
            let at_s = t_s + interval_s * number as f64 / count as f64;
            while let Some(seek) = jumps.next_if(|seek| seek.at_s <= at_s) {
                at = seek.to_byte;
            }
            let len_bytes = left.min(request);
            out.push(Request { at_s, offset: at, len_bytes });
            (at, left) = (at + len_bytes, left - len_bytes);
            if out.len() > MAX_REQUESTS {
                return Ok(out);
            }
        }
    }
    Ok(out)
}

/// What one read of the file had: a disk's mean request, times the disks that shared it.
fn request_bytes(disks: &[RecordedDisk], striping: Option<&Striping>) -> u64 {
    let sums = disks.iter().fold((0_u64, 0_u64), |(reads, bytes), d| {
        (reads.saturating_add(d.reads), bytes.saturating_add(d.mean_request_bytes.saturating_mul(d.reads)))
    });
    let mean = sums.1.checked_div(sums.0).unwrap_or(1 << 20);
    let columns = striping.map_or(1, |s| u64::from(s.columns.clamp(1, 16)));
    // Pages, and no more than the largest read that can be set.
    (mean.saturating_mul(columns) / 4096 * 4096).clamp(64 << 10, 16 << 20)
}

#[derive(Debug, Default, Deserialize)]
struct Saved {
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    client: Option<String>,
    #[serde(default)]
    started: Option<String>,
    #[serde(default)]
    attribution: Option<String>,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    disks: Vec<RecordedDisk>,
    #[serde(default)]
    striping: Option<Striping>,
    #[serde(default)]
    seeks: Vec<Seek>,
    #[serde(default)]
    series: Option<Series>,
    #[serde(default)]
    requests: Option<Vec<Listed>>,
    #[serde(default)]
    requests_left_out: u64,
}

#[derive(Debug, Deserialize)]
struct Listed {
    at_ms: f64,
    offset: u64,
    length_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Striping {
    #[serde(default)]
    columns: u32,
    #[serde(default)]
    columns_used: u32,
}

#[derive(Debug, Deserialize)]
struct Seek {
    at_s: f64,
    from_byte: u64,
    to_byte: u64,
}

#[derive(Debug, Default, Deserialize)]
struct Series {
    #[serde(default)]
    interval_ms: f64,
    #[serde(default)]
    t_s: Vec<f64>,
    #[serde(default)]
    disks: std::collections::BTreeMap<String, DiskSeries>,
}

impl Series {
    fn duration_s(&self) -> f64 {
        let end = self.t_s.last().map_or(0.0, |t| t + self.interval_ms / 1e3);
        if end.is_finite() { end.clamp(0.0, MAX_S) } else { 0.0 }
    }
}

#[derive(Debug, Default, Deserialize)]
struct DiskSeries {
    #[serde(default)]
    read_bytes: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn old() -> serde_json::Value {
        json!({
            "session": "s", "item": "i", "file": "Film.mp4", "method": "direct_play", "client": "tv", "started": "2026-01-01T00:00:00Z",
            "attribution": "block_trace",
            "disks": [
                {"disk": "sda", "reads": 6, "read_bytes": 6_291_456, "mean_request_bytes": 1_048_576, "busy_share": 0.1},
                {"disk": "sdb", "reads": 2, "read_bytes": 2_097_152, "mean_request_bytes": 1_048_576}
            ],
            "striping": {"columns": 1, "columns_used": 1, "evenness": 0.5, "verdict": ""},
            "seeks": [{"at_s": 2.0, "from_byte": 14_194_304, "to_byte": 100_000_000, "disks_before": [], "disks_after": []}],
            "stalls": [],
            "series": {"interval_ms": 1000, "t_s": [0.0, 1.0, 2.0], "disks": {
                "sda": {"read_bytes": [2_097_152, 0, 4_194_304], "reads": [2, 0, 4]},
                "sdb": {"read_bytes": [2_097_152, 0, 0], "reads": [2, 0, 0]}}, "cpu_share": [], "system_disk": {"read_bytes": [], "write_bytes": []}}
        })
    }

    #[test]
    fn an_older_record_is_replayed_from_its_series_its_jumps_and_its_mean_request_and_says_so() {
        let session = Session::from_value("s", old()).unwrap();
        assert!(session.approximate.as_deref().unwrap().contains("lists no requests"));
        let rows: Vec<(f64, u64, u64)> =
            session.requests.iter().map(|r| (r.at_s, r.offset, r.len_bytes)).collect();
        const M: u64 = 1 << 20;
        assert_eq!(
            rows,
            [
                (0.0, 10_000_000, M),
                (0.25, 10_000_000 + M, M),
                (0.5, 10_000_000 + 2 * M, M),
                (0.75, 10_000_000 + 3 * M, M),
                (2.0, 100_000_000, M),
                (2.25, 100_000_000 + M, M),
                (2.5, 100_000_000 + 2 * M, M),
                (2.75, 100_000_000 + 3 * M, M)
            ]
        );
        assert_eq!((session.duration_s, session.title.as_str()), (3.0, "Film.mp4, direct_play, tv"));
    }

    #[test]
    fn listed_requests_are_taken_as_they_are_and_a_list_that_is_cut_off_says_so() {
        let mut record = old();
        record["requests"] = json!([
            {"at_ms": 1500, "offset": 2_097_152, "length_bytes": 4_194_304},
            {"at_ms": 10.5, "offset": 0, "length_bytes": 4_194_304}
        ]);
        let session = Session::from_value("s", record.clone()).unwrap();
        assert_eq!(session.approximate, None);
        assert_eq!(session.requests[0], Request { at_s: 0.0105, offset: 0, len_bytes: 4 << 20 });
        record["requests"].as_array_mut().unwrap().truncate(1);
        let cut = Session::from_value("s", record).unwrap();
        assert!(cut.approximate.unwrap().contains("4 of the 8 MiB"));
    }

    #[test]
    fn what_is_no_record_or_an_empty_one_is_told_apart() {
        let no = |text: &str| Session::from_json("x.json", text).unwrap_err().to_string();
        assert!(no("{").contains("`x.json` is no I/O record"), "{}", no("{"));
        assert!(no("[]").contains("no I/O record"));
        assert!(no("{\"items\":[]}").contains("neither `requests` nor a `series`"));
        let mut record = old();
        for disk in ["sda", "sdb"] {
            record["series"]["disks"][disk]["read_bytes"] = json!([0, 0, 0]);
        }
        let told = Session::from_value("s", record.clone()).unwrap_err();
        assert_eq!(told.to_string(), "the record of `s` holds no reads: everything was in memory");
        record["attribution"] = json!("none");
        assert!(Session::from_value("s", record).unwrap_err().to_string().contains("ascribed"));
    }

    #[test]
    fn damaged_and_huge_records_are_errors_and_take_no_memory() {
        for (at_ms, offset, length) in [(-1.0, 0, 1), (1e300, 0, 1), (0.0, u64::MAX, 1), (0.0, 1, u64::MAX)] {
            let record = json!({"requests": [{"at_ms": at_ms, "offset": offset, "length_bytes": length}]});
            let told = Session::from_value("s", record).unwrap_err();
            assert!(matches!(told, SimulateError::NoRecord { .. }), "{told}");
        }
        let huge = json!({"requests": [{"at_ms": 0, "offset": 0, "length_bytes": 1_u64 << 50}]});
        let told = Session::from_value("s", huge).unwrap_err();
        assert!(matches!(told, SimulateError::TooMuch { .. }), "{told}");
        let mut endless = old();
        endless["series"]["interval_ms"] = json!(0);
        assert!(Session::from_value("s", endless.clone()).unwrap_err().to_string().contains("interval"));
        endless["series"]["interval_ms"] = json!(1000);
        endless["series"]["disks"]["sda"]["read_bytes"] = json!([u64::MAX, u64::MAX, 0]);
        assert!(Session::from_value("s", endless).unwrap_err().to_string().contains("cannot be"));
        let negative = json!({"requests": [{"at_ms": 0, "offset": -1, "length_bytes": 1}]});
        assert!(matches!(Session::from_value("s", negative), Err(SimulateError::NoRecord { .. })));
    }
}
