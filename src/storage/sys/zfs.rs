//! ZFS pools by `zpool status -P -L`: ZFS has no interface of the kernel for this that stays the same between
//! versions, so its own tool is asked (the only program that this room starts besides our own). Its text is the
//! same since 0.7; its JSON (`-j`, since 2.3) is understood as well.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::program::{self, Bounds};

/// Where distributions put it; no search path is trusted.
const PROGRAMS: [&str; 4] = ["/usr/sbin/zpool", "/sbin/zpool", "/usr/local/sbin/zpool", "/usr/bin/zpool"];
/// `zpool` answers within milliseconds; it hangs while a pool is suspended. A pool of a thousand disks takes 100 KiB.
const BOUNDS: Bounds = Bounds { patience: Duration::from_secs(5), max_bytes: 4 << 20 };
/// Nesting and number of vdevs that are believed; ZFS itself nests four deep.
const MAX_DEPTH: usize = 8;
const MAX_VDEVS: usize = 4096;

/// A pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pool {
    pub(crate) name: String,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `SUSPENDED`, ..
    pub(crate) state: String,
    pub(crate) scan: Option<Scan>,
    /// Top-level vdevs of every class.
    pub(crate) vdevs: Vec<Vdev>,
}

/// A scrub or resilver under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scan {
    /// `scrub` or `resilver`.
    pub(crate) action: String,
    /// 0..1.
    pub(crate) done: f64,
    pub(crate) speed_bytes_s: Option<u64>,
    pub(crate) remaining_s: Option<u64>,
}

/// A vdev.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Vdev {
    /// `mirror-0`, `/dev/sda1`, or the number of one that is gone.
    pub(crate) name: String,
    /// `mirror`, `raidz2`, `draid2:4d:11c:1s`, `replacing`, `spare`; `None` for a device.
    pub(crate) level: Option<String>,
    /// `data`, `special`, `log`, `cache`, `spare`, `dedup`.
    pub(crate) class: String,
    pub(crate) state: String,
    /// What stands behind the counts: `was /dev/sdb1`, `(resilvering)`, `too many errors`.
    pub(crate) note: String,
    /// Read, write and checksum errors.
    pub(crate) errors: [u64; 3],
    pub(crate) children: Vec<Vdev>,
}

/// Runs `zpool status -P -L POOL`.
///
/// # Errors
/// Why there is no answer: the tool is not installed, may not ask, or hangs.
pub(crate) fn status(pool: &str) -> Result<String, String> {
    // A pool's name begins with a letter (zpoolconcepts(7)): what does not is no argument for a program.
    let is_name = pool.starts_with(|c: char| c.is_ascii_alphabetic())
        && pool.len() < 256
        && pool.chars().all(|c| c.is_ascii_alphanumeric() || "-_.: ".contains(c));
    if !is_name {
        return Err(format!("`{pool}` is no name of a pool"));
    }
    program::output(&PROGRAMS, &["status", "-P", "-L", pool], BOUNDS).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => e.to_string(),
        _ => format!("zpool status: {e}"),
    })
}

/// Whether anything is in a second cache (L2ARC) of any pool: `l2_size` of `arcstats` (module/zfs/arc.c), bytes.
pub(crate) fn has_second_cache() -> bool {
    let text = std::fs::read_to_string("/proc/spl/kstat/zfs/arcstats").unwrap_or_default();
    let size = text.lines().find_map(|l| l.strip_prefix("l2_size ")?.split_whitespace().last()?.parse().ok());
    size.is_none_or(|n: u64| n > 0)
}

/// The pools of an answer, text or JSON. What is not understood is left out.
pub(crate) fn parse(answer: &str) -> Vec<Pool> {
    if answer.trim_start().starts_with('{') {
        return serde_json::from_str(answer).map(|v| parse_json(&v)).unwrap_or_default();
    }
    let mut out: Vec<Pool> = Vec::new();
    let mut is_config = false;
    let mut is_scan = false;
    let mut class = "data".to_owned();
    // Names of the vdevs that are open, by depth.
    let mut path: Vec<usize> = Vec::new();
    let mut count = 0;
    for line in answer.lines() {
        if let Some((key, value)) = header(line) {
            is_config = key == "config";
            is_scan = key == "scan" || key == "scrub";
            match (key, out.last_mut()) {
                ("pool", _) => {
                    out.push(Pool { name: value.to_owned(), ..Pool::default() });
                    path.clear();
                    "data".clone_into(&mut class);
                }
                ("state", Some(pool)) => value.clone_into(&mut pool.state),
                ("scan" | "scrub", Some(pool)) => pool.scan = scan_begins(value),
                _ => {}
            }
            continue;
        }
        let Some(pool) = out.last_mut() else { continue };
        if is_scan && let Some(scan) = &mut pool.scan {
            scan_goes_on(scan, line);
        }
        if !is_config || count >= MAX_VDEVS {
            continue;
        }
        let Some((depth, name, state, rest)) = row(line) else { continue };
        if name == "NAME" {
            continue;
        }
        if depth == 0 {
            path.clear();
            if let Some(found) = class_of(&name).filter(|_| state.is_empty()) {
                found.clone_into(&mut class);
            } else {
                // The pool itself.
                "data".clone_into(&mut class);
            }
            continue;
        }
        count += 1;
        let vdev = Vdev { class: class.clone(), ..vdev(name, state, rest) };
        path.truncate(depth - 1);
        if depth > MAX_DEPTH {
            continue;
        }
        let mut list = &mut pool.vdevs;
        let mut open = Vec::new();
        for at in path.iter().copied() {
            if at >= list.len() {
                break;
            }
            open.push(at);
            list = &mut list[at].children;
        }
        list.push(vdev);
        open.push(list.len() - 1);
        path = open;
    }
    out
}

/// The devices of pools, as far as they are there, by path.
pub(crate) fn leaves(pools: &[Pool]) -> Vec<String> {
    fn collect(vdevs: &[Vdev], out: &mut Vec<String>) {
        for v in vdevs {
            if v.level.is_none() && v.name.starts_with('/') {
                out.push(v.name.clone());
            }
            collect(&v.children, out);
        }
    }
    let mut out = Vec::new();
    pools.iter().for_each(|p| collect(&p.vdevs, &mut out));
    out
}

/// `  pool: tank`: a word of letters at the start, then a colon. A row of the table begins with a tab.
fn header(line: &str) -> Option<(&str, &str)> {
    if line.starts_with('\t') {
        return None;
    }
    let (key, value) = line.trim_start().split_once(':')?;
    let is_word = !key.is_empty() && key.bytes().all(|c| c.is_ascii_lowercase());
    is_word.then(|| (key, value.trim()))
}

const STATES: [&str; 11] = [
    "ONLINE",
    "DEGRADED",
    "FAULTED",
    "OFFLINE",
    "UNAVAIL",
    "REMOVED",
    "AVAIL",
    "INUSE",
    "SPLIT",
    "CANT_OPEN",
    "SUSPENDED",
];

/// Depth (two blanks each, behind the tab), name, state and what follows.
fn row(line: &str) -> Option<(usize, String, String, Vec<String>)> {
    let rest = line.strip_prefix('\t')?;
    let indent = rest.len() - rest.trim_start_matches(' ').len();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let at = words.iter().skip(1).position(|w| STATES.contains(w)).map(|i| i + 1);
    let end = at.unwrap_or(words.len());
    let name = words.get(..end)?.join(" ");
    if name.is_empty() {
        return None;
    }
    let state = at.map_or(String::new(), |i| words[i].to_owned());
    let rest = words.get(end + 1..).unwrap_or(&[]).iter().map(|w| (*w).to_owned()).collect();
    Some((indent / 2, name, state, rest))
}

fn vdev(name: String, state: String, rest: Vec<String>) -> Vdev {
    let is_count = |w: &String| w.starts_with(|c: char| c.is_ascii_digit()) || w == "-";
    let counts = rest.iter().take(3).take_while(|w| is_count(w)).count();
    let mut errors = [0_u64; 3];
    for (slot, word) in errors.iter_mut().zip(&rest[..counts]) {
        *slot = bytes(word).unwrap_or(0);
    }
    let note = rest[counts..].join(" ");
    Vdev { level: level_of(&name), name, state, note, errors, ..Vdev::default() }
}

/// `raidz2-0` is a raidz2; a path or a number is a device.
fn level_of(name: &str) -> Option<String> {
    let (word, number) = name.rsplit_once('-')?;
    if number.is_empty() || !number.bytes().all(|c| c.is_ascii_digit()) || word.contains('/') {
        return None;
    }
    let is_level = matches!(
        word,
        "mirror"
            | "raidz"
            | "raidz1"
            | "raidz2"
            | "raidz3"
            | "replacing"
            | "spare"
            | "indirect"
            | "hole"
            | "missing"
            | "root"
    ) || is_draid(word);
    // `draid1-0-0` is a distributed spare, a place on the disks of draid1-0.
    is_level.then(|| word.to_owned())
}

/// `draid`, `draid2`, `draid2:4d:11c:1s`.
fn is_draid(word: &str) -> bool {
    word.strip_prefix("draid").is_some_and(|rest| {
        let mut parts = rest.split(':');
        parts.next().is_some_and(|p| p.bytes().all(|c| c.is_ascii_digit()))
            && parts.all(|p| p.len() > 1 && p.ends_with(['d', 'c', 's']))
    })
}

fn class_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "logs" => "log",
        "cache" | "l2cache" => "cache",
        "spares" => "spare",
        "special" => "special",
        "dedup" => "dedup",
        _ => return None,
    })
}

/// `resilver in progress since ..`; anything that has ended is none.
fn scan_begins(value: &str) -> Option<Scan> {
    let action = value.split_whitespace().next()?;
    let is_running = value.contains("in progress") || value.contains("paused");
    let action = if value.contains("paused") { format!("{action} (paused)") } else { action.to_owned() };
    is_running.then(|| Scan { action, ..Scan::default() })
}

/// `1.2T / 3.4T scanned at 500M/s, 300G / 3.4T issued at 100M/s` and `100G resilvered, 9.03% done, 05:10:20 to go`;
/// before 0.8 `300G issued at 100M/s, 3.4T total`.
fn scan_goes_on(scan: &mut Scan, line: &str) {
    for part in line.split(',').map(str::trim) {
        if let Some(percent) = part.strip_suffix("% done").and_then(|p| p.trim().parse::<f64>().ok()) {
            scan.done = (percent / 100.0).clamp(0.0, 1.0);
        }
        if let Some((what, speed)) = part.split_once(" at ")
            && (what.ends_with("issued") || (scan.speed_bytes_s.is_none() && what.ends_with("scanned")))
        {
            scan.speed_bytes_s = speed.trim_end_matches("/s").split_whitespace().next().and_then(bytes);
        }
        if let Some(left) = part.strip_suffix(" to go") {
            scan.remaining_s = duration_s(left);
        }
    }
}

/// `05:10:20`, `1 days 05:10:20`, `2h13m`.
fn duration_s(text: &str) -> Option<u64> {
    let text = text.trim();
    let (days, clock) = match text.split_once(" day") {
        Some((days, rest)) => (days.trim().parse::<u64>().ok()?, rest.trim_start_matches('s').trim()),
        None => (0, text),
    };
    let parts: Option<Vec<u64>> = clock.split(':').map(|p| p.trim().parse().ok()).collect();
    let seconds = match parts?.as_slice() {
        [h, m, s] => h.checked_mul(3600)?.checked_add(m.checked_mul(60)?)?.checked_add(*s)?,
        _ => return None,
    };
    days.checked_mul(86_400)?.checked_add(seconds)
}

/// `1.20T`, `512K`, `300`: powers of 1024, as ZFS writes them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded figures of a program, not negative"
)]
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches('B');
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok()?;
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        "E" => 60,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then(|| (number * 2_f64.powi(shift)) as u64)
}

// ---- zpool status -j

fn parse_json(answer: &Value) -> Vec<Pool> {
    let Some(pools) = answer.get("pools").and_then(Value::as_object) else { return Vec::new() };
    let mut count = 0;
    pools
        .iter()
        .take(256)
        .map(|(name, pool)| {
            let text = |key: &str| pool.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
            let mut vdevs = Vec::new();
            // The root holds the top-level vdevs; the other classes stand beside it.
            for root in pool.get("vdevs").and_then(Value::as_object).into_iter().flat_map(|m| m.values()) {
                vdevs.extend(json_vdevs(root.get("vdevs"), "data", 0, &mut count));
            }
            for class in ["special", "dedup", "logs", "l2cache", "spares"] {
                let label = class_of(class).unwrap_or(class);
                vdevs.extend(json_vdevs(pool.get(class), label, 0, &mut count));
            }
            Pool { name: name.clone(), state: text("state"), scan: json_scan(pool.get("scan_stats")), vdevs }
        })
        .collect()
}

fn json_vdevs(list: Option<&Value>, class: &str, depth: usize, count: &mut usize) -> Vec<Vdev> {
    let mut out = Vec::new();
    for (name, v) in list.and_then(Value::as_object).into_iter().flatten() {
        *count += 1;
        if depth >= MAX_DEPTH || *count > MAX_VDEVS {
            break;
        }
        let text = |key: &str| v.get(key).and_then(Value::as_str);
        let kind = text("vdev_type").unwrap_or("");
        let own_name = text("path").or_else(|| text("name")).unwrap_or(name).to_owned();
        let is_device = matches!(kind, "disk" | "file" | "l2cache" | "dspare");
        let level = if is_device {
            None
        } else {
            level_of(name).or_else(|| Some(kind.to_owned()).filter(|k| !k.is_empty()))
        };
        let note = match text("was") {
            Some(was) => format!("was {was}"),
            None if v.get("resilvering").is_some_and(|r| r != &Value::Bool(false)) => {
                "(resilvering)".to_owned()
            }
            None => text("aux").unwrap_or("").to_owned(),
        };
        let number = |key: &str| v.get(key).and_then(json_number).unwrap_or(0);
        out.push(Vdev {
            name: if level.is_some() { name.clone() } else { own_name },
            level,
            class: class.to_owned(),
            state: text("state").unwrap_or("").to_owned(),
            note,
            errors: [number("read_errors"), number("write_errors"), number("checksum_errors")],
            children: json_vdevs(v.get("vdevs"), class, depth + 1, count),
        });
    }
    out
}

fn json_number(v: &Value) -> Option<u64> {
    v.as_u64().or_else(|| bytes(v.as_str()?))
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn json_scan(scan: Option<&Value>) -> Option<Scan> {
    let scan = scan?;
    let text = |key: &str| scan.get(key).and_then(Value::as_str).unwrap_or("");
    if text("state") != "SCANNING" {
        return None;
    }
    let number = |key: &str| scan.get(key).and_then(json_number);
    let (issued, all) = (number("issued").unwrap_or(0), number("to_examine").unwrap_or(0));
    let done = if all == 0 { 0.0 } else { (issued as f64 / all as f64).clamp(0.0, 1.0) };
    Some(Scan {
        action: text("function").to_lowercase(),
        done,
        speed_bytes_s: number("issued_bytes_per_scan").filter(|n| *n > 0),
        remaining_s: None,
    })
}
