//! The sentence at the end of a scenario: how the disks shared the work, and whether anybody waited.

/// What the sentence is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts<'a> {
    /// Viewers.
    pub streams: usize,
    /// Disks of the volume with the bytes that they read of films for the streams.
    pub disks: &'a [(String, u64)],
    /// Bytes of the streams that are on no known disk.
    pub unattributed_bytes: u64,
    /// Bytes handed to the viewers.
    pub served_bytes: u64,
    /// Disks that a large sequential read can use at once.
    pub columns: u32,
    /// Copies of each byte.
    pub copies: u32,
    /// Stalls, and their sum in milliseconds.
    pub stalls: (usize, u64),
    /// What the disks read for others, as a share of all that they read, 0 to 1.
    pub others_share: f64,
}

/// How the disks shared the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sharing {
    /// Disks with at least a twentieth of the busiest one's bytes.
    pub disks_used: usize,
    /// Of the columns.
    pub columns_used: u32,
    /// Mean over maximum: 1 = all alike, 1/n = one of n did everything; 0 where nothing was read.
    pub evenness: f64,
}

/// See [`Sharing`].
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "shares for people")]
pub fn sharing(disks: &[(String, u64)], columns: u32) -> Sharing {
    let most = disks.iter().map(|(_, b)| *b).max().unwrap_or(0);
    let total: u64 = disks.iter().map(|(_, b)| *b).sum();
    if most == 0 {
        return Sharing { disks_used: 0, columns_used: 0, evenness: 0.0 };
    }
    let disks_used = disks.iter().filter(|(_, b)| b.saturating_mul(20) >= most).count();
    Sharing {
        disks_used,
        columns_used: u32::try_from(disks_used).unwrap_or(u32::MAX).min(columns),
        evenness: total as f64 / disks.len() as f64 / most as f64,
    }
}

/// The sentence.
#[must_use]
pub fn verdict(facts: &Facts<'_>) -> String {
    let mut out = shares(facts);
    let (stalls, stalled_ms) = facts.stalls;
    out.push_str(&match stalls {
        0 if facts.served_bytes == 0 => " Nothing reached a viewer.".to_owned(),
        0 => " Nobody's buffer ran dry.".to_owned(),
        1 => format!(" A buffer ran dry once, for {}.", seconds(stalled_ms)),
        n => format!(" Buffers ran dry {n} times, for {} together.", seconds(stalled_ms)),
    });
    if facts.others_share >= 0.05 {
        out.push_str(&format!(
            " Others read too: {} of what these disks gave was not for the streams.",
            percent(facts.others_share)
        ));
    }
    out
}

fn shares(facts: &Facts<'_>) -> String {
    let who = match facts.streams {
        1 => "One stream".to_owned(),
        2 => "Two streams".to_owned(),
        3 => "Three streams".to_owned(),
        n => format!("{n} streams"),
    };
    let total: u64 = facts.disks.iter().map(|(_, b)| *b).sum();
    if total == 0 {
        return match facts.unattributed_bytes {
            0 if facts.served_bytes == 0 => format!("{who} had nothing read."),
            0 => format!("{who} needed no disk: everything came from memory."),
            bytes => format!("{who} had {} read, and no disk can be named for it.", human(bytes)),
        };
    }
    let s = sharing(facts.disks, facts.columns);
    let mut disks: Vec<&(String, u64)> = facts.disks.iter().filter(|(_, b)| *b > 0).collect();
    disks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    #[expect(clippy::cast_precision_loss, reason = "shares for people")]
    let share = |bytes: u64| percent(bytes as f64 / total as f64);
    let named: Vec<String> = disks.iter().take(4).map(|(d, b)| format!("{d} {}", share(*b))).collect();
    let more = disks.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let columns = match (facts.columns, s.columns_used) {
        (0 | 1, _) => format!(
            "a read of this volume is one disk's work, and {}",
            of_disks(s.disks_used, facts.disks.len())
        ),
        (all, used) => format!("{used} of {all} columns were used"),
    };
    let mut out = format!(
        "{who} had {} read: {}{more}; {columns}, evenness {:.2}.",
        human(total),
        named.join(", "),
        s.evenness
    );
    if facts.disks.len() > 1 && s.evenness < 0.6 && facts.copies > 1 && facts.streams > 1 {
        out.push_str(
            " Copies were there to share the work, and the filesystem's choice of copy did not share it.",
        );
    }
    out
}

fn of_disks(used: usize, all: usize) -> String {
    if all == 1 { "there is one".to_owned() } else { format!("{used} of {all} disks took part") }
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1000.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn human(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks(bytes: &[u64]) -> Vec<(String, u64)> {
        bytes.iter().zip('a'..).map(|(b, n)| (format!("sd{n}"), *b << 20)).collect()
    }

    fn facts(disks: &[(String, u64)]) -> Facts<'_> {
        Facts {
            streams: 3,
            disks,
            unattributed_bytes: 0,
            served_bytes: 1 << 20,
            columns: 2,
            copies: 2,
            stalls: (0, 0),
            others_share: 0.0,
        }
    }

    #[test]
    fn shares_columns_and_evenness_are_told() {
        let disks = disks(&[30, 10, 30, 10]);
        assert_eq!(
            verdict(&facts(&disks)),
            "Three streams had 80.0 MiB read: sda 38 %, sdc 38 %, sdb 12 %, sdd 12 %; 2 of 2 columns were used, evenness 0.67. \
             Nobody's buffer ran dry."
        );
    }

    #[test]
    fn one_copy_that_does_all_the_work_of_a_mirror_is_named() {
        let disks = disks(&[64, 0]);
        let text = verdict(&Facts { columns: 1, ..facts(&disks) });
        assert!(text.contains("1 of 2 disks took part, evenness 0.50. Copies were there"), "{text}");
        let text = verdict(&Facts { columns: 1, streams: 1, ..facts(&disks) });
        assert!(!text.contains("Copies"), "one stream can use one copy: {text}");
    }

    #[test]
    fn stalls_others_memory_and_what_no_disk_is_known_of_are_told() {
        let some = disks(&[64, 64]);
        let text = verdict(&Facts { stalls: (2, 3400), others_share: 0.3, ..facts(&some) });
        assert!(
            text.contains("ran dry 2 times, for 3.4 s together. Others read too: 30 % of what"),
            "{text}"
        );
        let none = disks(&[0, 0]);
        assert!(verdict(&facts(&none)).contains("everything came from memory"));
        let text = verdict(&Facts { served_bytes: 0, ..facts(&none) });
        assert_eq!(text, "Three streams had nothing read. Nothing reached a viewer.");
        let text = verdict(&Facts { unattributed_bytes: 5 << 20, ..facts(&none) });
        assert!(text.contains("5.0 MiB read, and no disk can be named"), "{text}");
    }

    #[test]
    fn evenness_and_columns_follow_from_the_bytes() {
        let one = sharing(&disks(&[100, 0, 0, 0]), 2);
        assert_eq!((one.disks_used, one.columns_used, one.evenness), (1, 1, 0.25));
        let all = sharing(&disks(&[100, 100, 100, 4]), 2);
        assert_eq!((all.disks_used, all.columns_used), (3, 2));
        assert_eq!(sharing(&disks(&[]), 2), Sharing { disks_used: 0, columns_used: 0, evenness: 0.0 });
    }
}
