//! What is told of a simulation: as JSON, and as a table for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use spindle_drive::params::Params;

use crate::error::SimulateError;
use crate::fit::{Fit, LimitedBy, Limits, fit, place};
use crate::layout::Layout;
use crate::replay::{Host, Outcome, Stream, StreamResult, replay};
use crate::session::{RecordedDisk, Session};

/// Where and how sessions are replayed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the disk: a preset or a file.
    pub disk_name: String,
    /// Its figures.
    pub disk: Params,
    /// The machine.
    pub host: Host,
    /// Seconds from the first session's start to each one's; empty: all at once.
    pub starts_s: Vec<f64>,
    /// Bytes of the volume at which the films begin; for those that are not named a place is chosen.
    pub places: Vec<u64>,
    /// Numbers of the reading threads; for those that are not named, the session's.
    pub threads: Vec<u64>,
    /// How many streams fit is looked for as well.
    pub fit: Option<Limits>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The layout.
    pub layout: LayoutReport,
    /// The disks' name: a preset or a file.
    pub disk_model: String,
    /// Seconds of the replay.
    pub elapsed_s: f64,
    /// In the order in which they were named.
    pub sessions: Vec<SessionReport>,
    /// In their order.
    pub disks: Vec<DiskReport>,
    /// How the disks shared it.
    pub striping: StripingReport,
    /// How many such streams fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitReport>,
}

/// The layout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayoutReport {
    /// As it was named.
    pub name: String,
    /// Disks.
    pub disks: usize,
    /// Disks that a large read can use at once.
    pub columns: usize,
    /// Copies of each byte.
    pub copies: usize,
    /// Bytes of data that it holds.
    pub size_bytes: u64,
    /// Which copy is read.
    pub read_policy: &'static str,
}

/// What became of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// Its id, or its file.
    pub session: String,
    /// What was played, and how.
    pub title: String,
    /// Why its requests are not those that were made, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approximate: Option<String>,
    /// Seconds from the start of the replay to its own.
    pub starts_s: f64,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub read_bytes: u64,
    /// Times that its player had nothing left.
    pub stalls: u64,
    /// Seconds that it stood still for them.
    pub stalled_s: f64,
    /// What its player would have had to hold in advance to notice nothing.
    pub buffer_needed_s: f64,
    /// Of a request of the file, from asking to the answer.
    pub latency_ms: Latency,
    /// What its record says of the disks that it was recorded on.
    pub recorded: Vec<RecordedDisk>,
    /// Columns that its volume had, and that it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_columns: Option<(u32, u32)>,
}

/// Of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 95 of 100 are at most this.
    pub p95: f64,
    /// The longest.
    pub max: f64,
}

/// What a disk did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskReport {
    /// `disk0` and so on.
    pub disk: String,
    /// Commands.
    pub requests: u64,
    /// Bytes.
    pub read_bytes: u64,
    /// Share of all bytes.
    pub share: f64,
    /// Seconds that it worked.
    pub busy_s: f64,
    /// Share of the time in which it did.
    pub busy_share: f64,
    /// Of `busy_s`, moving the head.
    pub seek_s: f64,
    /// Of `busy_s`, waiting for the angle.
    pub rotation_s: f64,
    /// Bytes that the drive had read ahead.
    pub cached_bytes: u64,
    /// Mean time that a command waited before it was begun.
    pub mean_wait_ms: f64,
    /// Commands that were there at once, at most.
    pub deepest_queue: usize,
}

/// How the disks shared it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StripingReport {
    /// Disks that a large read can use at once.
    pub columns: usize,
    /// Disks that did a noticeable part of the reading (5 % of the busiest one's).
    pub disks_used: usize,
    /// Mean over maximum of the disks' bytes.
    pub evenness: f64,
}

/// How many such streams fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FitReport {
    /// With the drive as it is.
    #[serde(flatten)]
    pub fit: Fit,
    /// With one whose memory finds nothing read ahead for interleaved readers: real drives lie between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pessimistic: Option<Fit>,
    /// Disks are called too busy beyond this.
    pub busy_limit: f64,
    /// Of each session, the seconds that were repeated.
    pub window_s: f64,
}

/// Told now and then what is being done, and how far it is, of how much. `false`: it is enough.
pub type Progress<'a> = dyn FnMut(&str, u64, u64) -> bool + 'a;

/// Replays sessions on a layout.
///
/// # Errors
/// As [`replay`].
pub fn simulate(
    layout: &Layout,
    plan: &Plan,
    sessions: &[Session],
    progress: &mut Progress<'_>,
) -> Result<Report, SimulateError> {
    let mut films: BTreeMap<&str, u64> = BTreeMap::new();
    let mut streams = Vec::with_capacity(sessions.len());
    for (number, session) in sessions.iter().enumerate() {
        let film = (films.len(), session.file.as_str());
        let place = match (plan.places.get(number), films.get(film.1)) {
            (Some(place), _) | (None, Some(place)) => *place,
            (None, None) => {
                // Whoever reads the same film reads the same place: the longest of them must fit.
                let all = sessions.iter().filter(|s| s.file == session.file);
                let end_bytes = all.map(Session::end_bytes).max().unwrap_or(0);
                place(layout, film.0, &session.name, end_bytes)?
            }
        };
        films.insert(film.1, place);
        let starts_s = plan.starts_s.get(number).copied().unwrap_or(0.0);
        let thread = plan.threads.get(number).copied().unwrap_or(number as u64);
        streams.push(Stream::whole(&session.requests, place, starts_s, thread));
    }
    let outcome =
        replay(layout, &plan.disk, &plan.host, &streams, &mut |done, all| progress("replaying", done, all))?;
    let fit = match &plan.fit {
        Some(limits) => Some(fits(layout, plan, sessions, limits, progress)?),
        None => None,
    };
    Ok(told(layout, plan, sessions, &streams, &outcome, fit))
}

fn fits(
    layout: &Layout,
    plan: &Plan,
    sessions: &[Session],
    limits: &Limits,
    progress: &mut Progress<'_>,
) -> Result<FitReport, SimulateError> {
    let most = limits.most as u64;
    let mut look = |disk: &Params, what: &str| {
        fit(layout, disk, &plan.host, sessions, limits, &mut |count| progress(what, count as u64, most))
    };
    let with = look(&plan.disk, "looking for the most streams")?;
    let pessimistic = if plan.disk.is_rotating() {
        Some(look(&plan.disk.clone().pessimistic(), "the same with drives that read nothing ahead")?)
    } else {
        None
    };
    Ok(FitReport { fit: with, pessimistic, busy_limit: limits.busy_share, window_s: limits.window_s })
}

fn told(
    layout: &Layout,
    plan: &Plan,
    sessions: &[Session],
    streams: &[Stream<'_>],
    outcome: &Outcome,
    fit: Option<FitReport>,
) -> Report {
    let total: u64 = outcome.disks.iter().map(|d| d.bytes).sum();
    let most = outcome.disks.iter().map(|d| d.bytes).max().unwrap_or(0);
    let disks: Vec<DiskReport> = outcome
        .disks
        .iter()
        .enumerate()
        .map(|(number, d)| DiskReport {
            disk: format!("disk{number}"),
            requests: d.requests,
            read_bytes: d.bytes,
            share: ratio(d.bytes as f64, total as f64),
            busy_s: d.busy_s,
            busy_share: outcome.busy_share(number),
            seek_s: d.seek_s,
            rotation_s: d.rotation_s,
            cached_bytes: d.cached_bytes,
            mean_wait_ms: ratio(d.waited_s * 1e3, d.requests as f64),
            deepest_queue: d.deepest,
        })
        .collect();
    let session = |((s, stream), r): ((&Session, &Stream<'_>), &StreamResult)| SessionReport {
        session: s.name.clone(),
        title: s.title.clone(),
        approximate: s.approximate.clone(),
        starts_s: stream.starts_s,
        requests: r.requests,
        read_bytes: r.bytes,
        stalls: r.stalls,
        stalled_s: r.stalled_s,
        buffer_needed_s: r.buffer_needed_s,
        latency_ms: latency(&r.latency_s),
        recorded: s.recorded.clone(),
        recorded_columns: s.recorded_columns,
    };
    Report {
        layout: LayoutReport {
            name: layout.text().to_owned(),
            disks: layout.disks(),
            columns: layout.columns(),
            copies: layout.copies(),
            size_bytes: layout.size_bytes(),
            read_policy: layout.policy().about(),
        },
        disk_model: plan.disk_name.clone(),
        elapsed_s: outcome.elapsed_s,
        sessions: sessions.iter().zip(streams).zip(&outcome.streams).map(session).collect(),
        striping: StripingReport {
            columns: layout.columns(),
            disks_used: outcome.disks.iter().filter(|d| d.bytes > 0 && d.bytes >= most / 20).count(),
            evenness: ratio(total as f64, most as f64 * disks.len() as f64),
        },
        disks,
        fit,
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn latency(all: &[f32]) -> Latency {
    let mut sorted = all.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let at = |percent: usize| {
        let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(place).map_or(0.0, |s| f64::from(*s) * 1e3)
    };
    Latency { p50: at(50), p95: at(95), max: at(100) }
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            let _infallible = writeln!(out, "{text}");
        };
        let l = &self.layout;
        line(format!(
            "{} on {}: {}, {}, {}; which one is read: {}",
            l.name,
            self.disk_model,
            counted(l.disks, "disk", "disks"),
            counted(l.columns, "column", "columns"),
            counted(l.copies, "copy", "copies"),
            l.read_policy
        ));
        line(format!(
            "  {:<8} {:>9} {:>9} {:>6} {:>7} {:>7} {:>9} {:>6}",
            "disk", "MiB", "requests", "share", "busy", "seeks", "wait ms", "queue"
        ));
        for d in &self.disks {
            line(format!(
                "  {:<8} {:>9.1} {:>9} {:>5.0}% {:>6.1}% {:>6.1}% {:>9.1} {:>6}",
                d.disk,
                d.read_bytes as f64 / f64::from(1 << 20),
                d.requests,
                d.share * 100.0,
                d.busy_share * 100.0,
                ratio(d.seek_s + d.rotation_s, self.elapsed_s) * 100.0,
                d.mean_wait_ms,
                d.deepest_queue
            ));
        }
        for s in &self.sessions {
            let smooth = if s.stalls == 0 {
                format!("no stall; a buffer of {:.1} s is enough", s.buffer_needed_s)
            } else {
                format!(
                    "{} stall{}, {:.1} s in all; needs a buffer of {:.1} s",
                    s.stalls,
                    if s.stalls == 1 { "" } else { "s" },
                    s.stalled_s,
                    s.buffer_needed_s
                )
            };
            let title =
                if s.title.is_empty() { String::new() } else { format!(" ({})", printable(&s.title)) };
            line(format!(
                "  {}{title}: {} requests, half of them within {:.0} ms, 95 % within {:.0} ms; {smooth}",
                printable(&s.session),
                s.requests,
                s.latency_ms.p50,
                s.latency_ms.p95
            ));
            if let Some(why) = &s.approximate {
                line(format!("    approximate: {}", printable(why)));
            }
            let was: Vec<String> = s
                .recorded
                .iter()
                .map(|d| {
                    let (mib, busy) = (d.read_bytes as f64 / f64::from(1 << 20), d.busy_share * 100.0);
                    format!("{} {mib:.1} MiB, {busy:.1} % busy", printable(&d.disk))
                })
                .collect();
            if !was.is_empty() {
                let columns = s
                    .recorded_columns
                    .map_or(String::new(), |(c, used)| format!(" ({used} of {c} columns used)"));
                line(format!("    recorded{columns}: {}", was.join("; ")));
            }
        }
        if let Some(f) = &self.fit {
            let limit = |f: &Fit| match f.limited_by {
                LimitedBy::Stalls => "one more and a player stands still".to_owned(),
                LimitedBy::Busy => "one more and a disk is too busy".to_owned(),
                LimitedBy::NotReached => "more were not tried".to_owned(),
            };
            line(format!(
                "  such streams that fit: {} ({}, busiest disk {:.0} %)",
                f.fit.streams,
                limit(&f.fit),
                f.fit.busiest_share * 100.0
            ));
            if let Some(p) = f.pessimistic.as_ref().filter(|p| p.streams != f.fit.streams) {
                line(format!("  with drives that read nothing ahead: {} ({})", p.streams, limit(p)));
            }
        }
        out
    }
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Names come from records, which are files of others: what a terminal would obey is shown as it is written.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn session(name: &str, file: &str, client: &str) -> Session {
        let rows: Vec<_> =
            (0..20).map(|i| json!({"at_ms": i * 500, "offset": i << 21, "length_bytes": 1 << 21})).collect();
        let disks = json!([{"disk": "sda", "reads": 20, "read_bytes": 41_943_040, "busy_share": 0.25}]);
        let striping = json!({"columns": 2, "columns_used": 1});
        let record = json!({"file": file, "method": "direct_play", "client": client, "requests": rows, "disks": disks, "striping": striping});
        Session::from_value(name, record).unwrap()
    }

    fn plan(fit: Option<Limits>) -> Plan {
        Plan {
            disk_name: "hdd7200".into(),
            disk: Params::preset("hdd7200", 8 << 40).unwrap(),
            host: Host::default(),
            starts_s: Vec::new(),
            places: Vec::new(),
            threads: Vec::new(),
            fit,
        }
    }

    #[test]
    fn sessions_of_one_film_read_one_place_and_of_several_films_several() {
        let layout = Layout::parse("simple,disks=2,columns=1", 8 << 40).unwrap();
        let disks_used = |files: [&str; 3]| {
            let sessions = files.map(|file| session(file, file, "tv"));
            let report = simulate(&layout, &plan(None), &sessions, &mut |_, _, _| true).unwrap();
            assert_eq!(report.fit, None);
            report.striping.disks_used
        };
        // Slabs are on one disk and the other in turn; the third film's place is on the other.
        assert_eq!((disks_used(["one", "one", "one"]), disks_used(["one", "two", "three"])), (1, 2));
    }

    #[test]
    fn what_is_told_adds_up_and_shows_what_was_recorded_beside_it() {
        let layout = Layout::parse("mirror,disks=3,columns=1", 8 << 40).unwrap();
        let sessions = [session("a", "one\u{1b}[2J", "tv")];
        let limits = Limits { most: 4, ..Limits::default() };
        let mut seen = Vec::new();
        let report = simulate(&layout, &plan(Some(limits)), &sessions, &mut |what, _, _| {
            seen.push(what.to_owned());
            true
        });
        let report = report.unwrap();
        assert_eq!(report.disks.iter().map(|d| d.read_bytes).sum::<u64>(), 20 << 21);
        assert_eq!((report.striping.disks_used, report.striping.columns), (1, 1));
        assert!((report.striping.evenness - 1.0 / 3.0).abs() < 1e-9);
        let fit = report.fit.as_ref().unwrap();
        assert_eq!((fit.fit.streams, fit.fit.limited_by), (4, LimitedBy::NotReached));
        assert!(fit.pessimistic.is_some());
        assert!(seen.iter().any(|w| w == "replaying") && seen.iter().any(|w| w.contains("most streams")));
        let text = report.text();
        assert!(text.contains("sda 40.0 MiB, 25.0 % busy") && text.contains("1 of 2 columns used"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["sessions"][0]["recorded"][0]["disk"], "sda");
        assert_eq!(value["fit"]["limited_by"], "not_reached");
    }

    #[test]
    fn latencies_are_told_by_their_rank() {
        let all: Vec<f32> = (1..=100).rev().map(|i| i as f32 / 1e3).collect();
        let told = latency(&all);
        assert!(
            (told.p50 - 50.0).abs() < 0.01
                && (told.p95 - 95.0).abs() < 0.01
                && (told.max - 100.0).abs() < 0.01
        );
        assert_eq!(latency(&[]), Latency::default());
    }
}
