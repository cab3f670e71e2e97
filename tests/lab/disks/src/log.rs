//! The log of a device: one line a request, and sums. The ground truth of a test.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use crate::drive::{Kind, Service};

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A header line, then values.
    Csv,
    /// An object a line.
    Json,
}

/// One request, served or failed.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// When the drive took it up: microseconds of `CLOCK_MONOTONIC`, which traces can use, too.
    pub time_us: u64,
    /// What it did.
    pub kind: Kind,
    /// First byte.
    pub at: u64,
    /// Length.
    pub len_bytes: u64,
    /// Time in the queue before.
    pub queue_us: u64,
    /// What it took; all zero while delays are off.
    pub service: Service,
    /// From being taken up to the answer.
    pub service_us: u64,
    /// 0, or the error that it got.
    pub errno: i32,
}

/// Names of a line's values.
pub const COLUMNS: &str = "time_us,op,offset,len_bytes,queue_us,seek_us,rotation_us,transfer_us,cached_bytes,distance_bytes,service_us,errno";

impl Row {
    /// The line, without its end.
    #[must_use]
    pub fn line(&self, format: Format) -> String {
        let us = |s: f64| (s * 1e6).round() as u64;
        let op = match self.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Flush => "flush",
        };
        let s = &self.service;
        let values = [
            self.at,
            self.len_bytes,
            self.queue_us,
            us(s.seek_s),
            us(s.rotation_s),
            us(s.transfer_s),
            s.cached_bytes,
            s.distance_bytes,
            self.service_us,
        ];
        let mut out = String::with_capacity(160);
        // Writing to a String cannot fail.
        match format {
            Format::Csv => {
                let _ = write!(out, "{},{op}", self.time_us);
                for value in values {
                    let _ = write!(out, ",{value}");
                }
                let _ = write!(out, ",{}", self.errno);
            }
            Format::Json => {
                let _ = write!(out, "{{\"time_us\":{},\"op\":\"{op}\"", self.time_us);
                for (name, value) in COLUMNS.split(',').skip(2).zip(values) {
                    let _ = write!(out, ",\"{name}\":{value}");
                }
                let _ = write!(out, ",\"errno\":{}}}", self.errno);
            }
        }
        out
    }
}

/// Sums since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Reads that were served.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that were served.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
    /// Requests that got an error.
    pub failed: u64,
    /// Read bytes that the drive had in its memory.
    pub cached_bytes: u64,
    /// Time that the mechanism was busy, in microseconds.
    pub busy_us: u64,
}

impl Totals {
    /// Counts a request.
    pub fn add(&mut self, row: &Row) {
        self.busy_us += row.service_us;
        match (row.errno, row.kind) {
            (0, Kind::Read) => {
                self.reads += 1;
                self.read_bytes += row.len_bytes;
                self.cached_bytes += row.service.cached_bytes;
            }
            (0, Kind::Write) => {
                self.writes += 1;
                self.written_bytes += row.len_bytes;
            }
            (0, Kind::Flush) => {}
            _ => self.failed += 1,
        }
    }

    /// As a JSON object.
    #[must_use]
    pub fn json(&self, waiting: usize) -> String {
        format!(
            "{{\"reads\":{},\"read_bytes\":{},\"writes\":{},\"written_bytes\":{},\"failed\":{},\"cached_bytes\":{},\"busy_us\":{},\"waiting\":{waiting}}}",
            self.reads,
            self.read_bytes,
            self.writes,
            self.written_bytes,
            self.failed,
            self.cached_bytes,
            self.busy_us
        )
    }
}

/// Where lines go.
#[derive(Debug)]
pub struct Log {
    out: Option<BufWriter<File>>,
    format: Format,
    /// The sums.
    pub totals: Totals,
}

impl Log {
    /// A log into `file`, or only sums.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(file: Option<File>, format: Format) -> std::io::Result<Self> {
        let mut out = file.map(BufWriter::new);
        if let (Some(out), Format::Csv) = (out.as_mut(), format) {
            writeln!(out, "{COLUMNS}")?;
        }
        Ok(Self { out, format, totals: Totals::default() })
    }

    /// One more request. A log that cannot be written ends the program: a test must not go on without its truth.
    pub fn row(&mut self, row: &Row) -> std::io::Result<()> {
        self.totals.add(row);
        match self.out.as_mut() {
            Some(out) => writeln!(out, "{}", row.line(self.format)),
            None => Ok(()),
        }
    }

    /// Everything so far is in the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.as_mut().map_or(Ok(()), |out| out.flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_value_for_every_column_in_both_formats() {
        let row = Row {
            time_us: 7,
            kind: Kind::Read,
            at: 4096,
            len_bytes: 512,
            queue_us: 3,
            service: Service {
                seek_s: 0.001,
                rotation_s: 0.002,
                transfer_s: 0.0005,
                distance_bytes: 9,
                ..Service::default()
            },
            service_us: 3500,
            errno: 0,
        };
        let csv = row.line(Format::Csv);
        assert_eq!(csv, "7,read,4096,512,3,1000,2000,500,0,9,3500,0");
        assert_eq!(csv.split(',').count(), COLUMNS.split(',').count());
        let json = row.line(Format::Json);
        assert!(COLUMNS.split(',').all(|name| json.contains(&format!("\"{name}\":"))), "{json}");
    }
}
