//! Asleep or awake, rates, temperature and health of a disk, without waking it and without keeping it awake.
//!
//! What is known, best first: a device that runtime power management has suspended is asleep; one that did something
//! within the last minute is awake; a disk may be asked for its power mode where that is permitted (the question wakes
//! nothing and sets no timer back); failing that, a rotating disk whose counters have not moved for longer than disks
//! usually wait before they stop is *probably* asleep, and named so.
//!
//! A temperature or SMART reading is a command to the disk: it may wake it, and on some drives it sets the standby timer
//! back (Documentation/hwmon/drivetemp.rst). So a rotating disk is read only while others have kept it busy anyway, and a value
//! stays with its age.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::node::{DiskFacts, Node};
use super::stack::is_numbered;
use super::sysfs::{DiskCounters, Sysfs};
use crate::recorder::record::DiskRate;
use crate::sys::power::Power;
use crate::sys::smart::Smart;

/// Who may be asked about a disk.
pub(crate) trait AskDisk: Send + std::marker::Sync {
    /// Its power mode, without waking it.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn power(&self, device: (u32, u32)) -> Result<Power, String>;
    /// Its temperature and health. Only while it is awake.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn smart(&self, device: (u32, u32)) -> Result<Smart, String>;
}

/// A disk that did something within this time is awake: no standby timer is shorter (hdparm's `-S 1` is 5 s, and
/// stopping takes seconds, but nobody plays films from that).
const RECENT_US: u64 = 60_000_000;
/// "Probably asleep" after this much silence. Common timers are 5 to 30 minutes.
const STANDBY_US: u64 = 31 * 60_000_000;
/// How often a disk is asked for its power mode, and one that is awake for its temperature.
const ASK_EVERY_US: u64 = 60_000_000;
/// How often it is asked for its health; also how long a refusal is taken as one.
const SMART_EVERY_US: u64 = 600_000_000;

/// What a disk does at this moment, for a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskFigures {
    /// Rates over the last interval.
    #[serde(flatten)]
    pub rate: DiskRate,
    /// See [`DiskFacts::asleep`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asleep: Option<bool>,
    /// See [`DiskFacts::asleep_source`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asleep_source: Option<String>,
    /// Seconds without a request, as far as it was watched.
    pub quiet_s: u64,
    /// Degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i32>,
    /// Seconds since that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_age_s: Option<u64>,
    /// `ok`, `failing` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// What of, or why unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_why: Option<String>,
    /// Seconds since the counters were read.
    pub age_s: f64,
}

/// What is remembered of one disk.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    name: String,
    is_rotational: bool,
    has_commands: bool,
    is_suspended: bool,
    since_us: u64,
    counters: Option<DiskCounters>,
    sampled_us: u64,
    /// When its counters were last seen to move.
    moved_us: Option<u64>,
    rate: DiskRate,
    power: Option<(u64, Result<Power, String>)>,
    temperature: Option<(u64, i32)>,
    temperature_asked_us: Option<u64>,
    smart: Option<(u64, Result<Smart, String>)>,
    /// A question is under way: a disk that hangs is asked once.
    pub(crate) is_asked: bool,
}

/// What is worth asking now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Questions {
    pub(crate) power: bool,
    pub(crate) temperature: bool,
    pub(crate) smart: bool,
}

/// What was answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    pub(crate) power: Option<Result<Power, String>>,
    pub(crate) temperature: Option<i32>,
    pub(crate) smart: Option<Result<Smart, String>>,
}

impl Watched {
    /// A disk by its sysfs directory.
    pub(crate) fn new(dir: &Path, now_us: u64) -> Self {
        let name = Sysfs::name(dir);
        let mut facts = DiskFacts::default();
        super::disk::facts(dir, &mut facts);
        // Virtual disks say that they turn, for want of a better word.
        let is_virtual = matches!(
            facts.transport.as_deref(),
            Some("virtio" | "loop" | "nbd" | "xen" | "rbd" | "zfs" | "zram" | "ram")
        );
        Self {
            is_rotational: facts.rotational == Some(true) && !is_virtual,
            has_commands: crate::trace::facts::language(dir).is_ok(),
            is_suspended: false,
            since_us: now_us,
            counters: None,
            sampled_us: now_us,
            moved_us: None,
            rate: rate(&name, None, 0),
            power: None,
            temperature: None,
            temperature_asked_us: None,
            smart: None,
            is_asked: false,
            name,
        }
    }

    /// Notes the counters, and what runtime power management says.
    pub(crate) fn sample(&mut self, counters: Option<DiskCounters>, is_suspended: bool, now_us: u64) {
        self.is_suspended = is_suspended;
        if let (Some(old), Some(new)) = (self.counters, counters) {
            if old != new {
                self.moved_us = Some(now_us);
            }
            let since = now_us.saturating_sub(self.sampled_us);
            if since > 0 {
                self.rate = rate(&self.name, Some((&old, &new)), since);
            }
        } else {
            self.rate = rate(&self.name, None, 0);
        }
        self.counters = counters;
        self.sampled_us = now_us;
    }

    fn is_recent(&self, now_us: u64) -> bool {
        self.moved_us.is_some_and(|m| now_us.saturating_sub(m) < RECENT_US)
    }

    /// Whether it is asleep, and how that is known.
    pub(crate) fn asleep(&self, now_us: u64) -> (Option<bool>, Option<&'static str>) {
        if self.is_suspended {
            return (Some(true), Some("runtime_pm"));
        }
        if !self.is_rotational {
            return (None, None);
        }
        if self.is_recent(now_us) {
            return (Some(false), Some("recent_io"));
        }
        if let Some((at, Ok(mode))) = &self.power
            && now_us.saturating_sub(*at) < 3 * ASK_EVERY_US
        {
            return (Some(*mode == Power::Standby), Some("power_mode"));
        }
        let quiet = now_us.saturating_sub(self.moved_us.unwrap_or(self.since_us));
        if quiet >= STANDBY_US { (Some(true), Some("probably")) } else { (None, None) }
    }

    /// What may be asked now without waking it or keeping it awake.
    pub(crate) fn questions(&self, now_us: u64) -> Questions {
        let is_due = |at: Option<u64>, every: u64| at.is_none_or(|at| now_us.saturating_sub(at) >= every);
        if self.is_asked || self.is_suspended {
            return Questions::default();
        }
        let is_busy = self.is_recent(now_us);
        let power_every = match &self.power {
            Some((_, Err(_))) => SMART_EVERY_US,
            _ => ASK_EVERY_US,
        };
        let is_readable = is_busy || !self.is_rotational;
        Questions {
            power: self.has_commands
                && self.is_rotational
                && !is_busy
                && is_due(self.power.as_ref().map(|p| p.0), power_every),
            temperature: is_readable && is_due(self.temperature_asked_us, ASK_EVERY_US),
            smart: self.has_commands
                && is_readable
                && is_due(self.smart.as_ref().map(|s| s.0), SMART_EVERY_US),
        }
    }

    /// Notes what was answered.
    pub(crate) fn answered(&mut self, asked: Questions, answers: Answers, now_us: u64) {
        self.is_asked = false;
        if let Some(power) = answers.power {
            self.power = Some((now_us, power));
        }
        if asked.temperature || asked.smart {
            self.temperature_asked_us = Some(now_us);
        }
        let by_smart = answers.smart.as_ref().and_then(|s| s.as_ref().ok()?.temperature_c);
        if let Some(t) = answers.temperature.or(by_smart) {
            self.temperature = Some((now_us, t));
        }
        if let Some(smart) = answers.smart {
            self.smart = Some((now_us, smart));
        }
    }

    pub(crate) fn figures(&self, now_us: u64) -> DiskFigures {
        let mut facts = DiskFacts::default();
        self.add_to(&mut facts, now_us);
        let quiet_us = now_us.saturating_sub(self.moved_us.unwrap_or(self.since_us));
        DiskFigures {
            rate: self.rate.clone(),
            asleep: facts.asleep,
            asleep_source: facts.asleep_source,
            quiet_s: quiet_us / 1_000_000,
            temperature_c: facts.temperature_c,
            temperature_age_s: facts.temperature_age_s,
            health: facts.health,
            health_why: facts.health_why,
            age_s: seconds(now_us.saturating_sub(self.sampled_us)),
        }
    }

    /// Adds what is known to a node's facts. What the kernel has against the disk stays.
    pub(crate) fn add_to(&self, facts: &mut DiskFacts, now_us: u64) {
        let (asleep, source) = self.asleep(now_us);
        facts.asleep = asleep;
        facts.asleep_source = source.map(str::to_owned);
        if let Some((at, celsius)) = self.temperature {
            facts.temperature_c = Some(celsius);
            facts.temperature_age_s = Some(now_us.saturating_sub(at) / 1_000_000);
        }
        if facts.health.is_some() {
            return;
        }
        let (health, why) = match &self.smart {
            Some((_, Ok(smart))) => {
                let words: Vec<String> = smart.why.iter().chain(&smart.notes).cloned().collect();
                let notes = (!words.is_empty()).then(|| words.join(", "));
                match smart.is_healthy {
                    Some(false) => ("failing", notes),
                    Some(true) => ("ok", notes),
                    None => ("unknown", notes.or_else(|| Some("it does not say".to_owned()))),
                }
            }
            Some((_, Err(why))) => ("unknown", Some(why.clone())),
            None if self.has_commands && self.is_rotational => (
                "unknown",
                Some("it is asked when it is at work anyway: a question could wake it".to_owned()),
            ),
            None => return,
        };
        facts.health = Some(health.to_owned());
        facts.health_why = why;
    }
}

/// Asks a disk. Blocks as long as the disk does.
pub(crate) fn ask(dir: &Path, asker: &dyn AskDisk, wanted: Questions) -> Answers {
    let device = Sysfs::device_number(dir).ok_or_else(|| "sysfs does not show its number".to_owned());
    let mut out = Answers::default();
    if wanted.power {
        out.power = Some(device.clone().and_then(|d| asker.power(d)));
    }
    if wanted.temperature {
        out.temperature = hwmon(dir);
    }
    if wanted.smart {
        out.smart = Some(device.and_then(|d| asker.smart(d)));
    }
    out
}

/// Whether runtime power management has put it to sleep.
pub(crate) fn is_suspended(dir: &Path) -> bool {
    Sysfs::text(dir, "device/power/runtime_status").as_deref() == Some("suspended")
}

/// Degrees by hwmon: `drivetemp` beside a SCSI device, `nvme` beside a controller. World-readable.
fn hwmon(dir: &Path) -> Option<i32> {
    let device = dir.join("device");
    let mut places = vec![device.clone(), device.join("hwmon")];
    // With native multipath the namespace hangs on the subsystem, whose controllers are beside it.
    if let Some(controller) = Sysfs::names(&device).into_iter().find(|n| is_numbered(n, "nvme")) {
        places.push(device.join(&controller));
        places.push(device.join(controller).join("hwmon"));
    }
    for place in places {
        for name in Sysfs::names(&place).into_iter().filter(|n| is_numbered(n, "hwmon")) {
            let at = place.join(name);
            if matches!(Sysfs::text(&at, "name").as_deref(), Some("drivetemp" | "nvme"))
                && let Some(milli) = Sysfs::text(&at, "temp1_input").and_then(|t| t.parse::<i32>().ok())
            {
                return Some(milli / 1000);
            }
        }
    }
    None
}

/// One look at the disks of a tree, for a command: a disk that stands still or may do so is not read.
pub(crate) fn look_once(sys: &Sysfs, node: &mut Node, asker: &std::sync::Arc<dyn AskDisk>) {
    /// A disk that hangs keeps no command waiting for longer.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(4);
    let mut names = Vec::new();
    super::leaves(node, &mut names);
    let (tx, rx) = std::sync::mpsc::channel();
    let mut waiting = 0;
    for name in names.into_iter().take(1024) {
        let Some(dir) = sys.by_name(&name) else { continue };
        let (tx, asker) = (tx.clone(), std::sync::Arc::clone(asker));
        let look = move || {
            // Whoever waited may have gone.
            let _ = tx.send((name, look_at(&dir, asker.as_ref())));
        };
        if std::thread::Builder::new().name("disk-ask".to_owned()).spawn(look).is_ok() {
            waiting += 1;
        }
    }
    let deadline = spindle_base::clock::instant() + PATIENCE;
    let mut found = std::collections::HashMap::new();
    while found.len() < waiting {
        let left = deadline.saturating_duration_since(spindle_base::clock::instant());
        let Ok((name, watched)) = rx.recv_timeout(left) else { break };
        found.insert(name, watched);
    }
    node.visit_mut(&mut |n| {
        if let Some(watched) = found.get(&n.name).filter(|_| n.is_disk()) {
            watched.add_to(&mut n.disk, 0);
        }
    });
}

fn look_at(dir: &Path, asker: &dyn AskDisk) -> Watched {
    let mut watched = Watched::new(dir, 0);
    watched.sample(None, is_suspended(dir), 0);
    let first = Questions { temperature: !watched.is_rotational, ..watched.questions(0) };
    watched.answered(first, ask(dir, asker, first), 0);
    // One reading of a disk that is awake by its own account sets its timer back once.
    if watched.is_rotational && watched.asleep(0).0 == Some(false) {
        let second = Questions { power: false, temperature: true, smart: true };
        watched.answered(second, ask(dir, asker, second), 0);
    }
    watched
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn rate(disk: &str, counters: Option<(&DiskCounters, &DiskCounters)>, elapsed_us: u64) -> DiskRate {
    let per_s = |of: fn(&DiskCounters) -> u64| {
        counters.map_or(0.0, |(a, b)| of(b).saturating_sub(of(a)) as f64 * 1e6 / elapsed_us.max(1) as f64)
    };
    DiskRate {
        disk: disk.to_owned(),
        reads_per_s: per_s(|c| c.reads),
        read_bytes_per_s: per_s(|c| c.read_bytes),
        write_bytes_per_s: per_s(|c| c.write_bytes),
        busy_share: (per_s(|c| c.busy_ms) / 1000.0).min(1.0),
    }
}
