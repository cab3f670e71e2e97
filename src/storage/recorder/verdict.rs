//! The sentence for a person: where the striping went, and what would change it. Pure.

use std::sync::Arc;

use crate::layout::{evenness, ratio};
use crate::topology::LayoutKind;

/// What the sentence, and the advice, are made from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts<'a> {
    /// Kind of the storey that decides: `btrfs`, `md`, ..
    pub(crate) by: &'a str,
    /// Its level: `disk`, `single`, `raid0`, ..
    pub(crate) level: &'a str,
    pub(crate) kind: LayoutKind,
    pub(crate) columns: u32,
    pub(crate) copies: u32,
    /// 0 where nothing is striped.
    pub(crate) chunk_bytes: u64,
    /// File bytes by disk, all disks of the volume.
    pub(crate) bytes: &'a [(Arc<str>, u64)],
    /// File bytes by copy; empty where no copy is known.
    pub(crate) copy_bytes: &'a [u64],
    pub(crate) served_bytes: u64,
    pub(crate) cached_bytes: u64,
    /// What the converter read, and of it what was in memory.
    pub(crate) input_bytes: u64,
    pub(crate) input_cached_bytes: u64,
    pub(crate) unattributed_bytes: u64,
    /// Mean size of a disk request.
    pub(crate) request_bytes: u64,
    /// Read only to compute what a lost disk held.
    pub(crate) computing_bytes: u64,
    /// Disks that answered with errors.
    pub(crate) failed: &'a [&'a str],
    /// Waits that the viewer may have noticed.
    pub(crate) stalls: usize,
    /// The disk that worked the largest part of the time for this stream, and that part.
    pub(crate) busiest: Option<(&'a str, f64)>,
    /// Whether every request is seen by the kernel's trace.
    pub(crate) is_traced: bool,
}

/// How the disks of a volume share the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrangement {
    OneDisk,
    /// One after the other, or each file whole on one.
    InTurn,
    Mirror,
    Striped,
    StripedMirror,
    Parity,
}

impl Facts<'_> {
    pub(crate) fn arrangement(&self) -> Arrangement {
        match (self.kind, self.columns, self.copies) {
            _ if self.bytes.len() <= 1 => Arrangement::OneDisk,
            (LayoutKind::Parity, ..) => Arrangement::Parity,
            (_, 0 | 1, 0 | 1) => Arrangement::InTurn,
            (_, 0 | 1, _) => Arrangement::Mirror,
            (_, _, 0 | 1) => Arrangement::Striped,
            _ => Arrangement::StripedMirror,
        }
    }

    /// Copies that gave a noticeable part; `None` where none is known.
    pub(crate) fn copies_used(&self) -> Option<u32> {
        let most = *self.copy_bytes.iter().max().filter(|n| **n > 0)?;
        let is_used = |n: &&u64| **n > 0 && **n >= most / 20;
        Some(u32::try_from(self.copy_bytes.iter().filter(is_used).count()).unwrap_or(u32::MAX))
    }

    /// Of what was sent, or of what that was made from, the part that was in memory; `None` where nothing was.
    pub(crate) fn cache_share(&self) -> Option<f64> {
        let (part, whole) = if self.input_bytes > 0 {
            (self.input_cached_bytes, self.input_bytes)
        } else {
            (self.cached_bytes, self.served_bytes)
        };
        (whole > 0).then(|| ratio(part, whole).min(1.0))
    }
}

/// Disks that did a noticeable part: a stray request does not make a column.
pub(crate) fn used(bytes: &[(Arc<str>, u64)]) -> Vec<&str> {
    let most = bytes.iter().map(|(_, b)| *b).max().unwrap_or(0);
    bytes.iter().filter(|(_, b)| *b > 0 && *b >= most / 20).map(|(d, _)| &**d).collect()
}

pub(crate) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// See the module.
pub(crate) fn verdict(f: &Facts<'_>) -> String {
    let read: u64 = f.bytes.iter().map(|(_, b)| b).sum();
    // First: nothing else that can be said of the volume is as urgent.
    let mut text = errors(f);
    if read == 0 {
        return text + &nothing_on_disks(f);
    }
    text.push_str(&by_level(f, &used(f.bytes)));
    for (part, whole, what) in [
        (f.cached_bytes, f.served_bytes, "what was sent"),
        (f.input_cached_bytes, f.input_bytes, "what was converted"),
    ] {
        if whole > 0 && ratio(part, whole) >= 0.1 {
            text.push_str(&format!(" {} % of {what} came from memory.", percent(part, whole)));
        }
    }
    if f.computing_bytes > 0 {
        let percent = percent(f.computing_bytes, read);
        text.push_str(&format!(
            " A disk is missing: {percent} % of what the others gave was parity and other columns, read to compute what it held."
        ));
    }
    if ratio(f.unattributed_bytes, read + f.unattributed_bytes) >= 0.02 {
        let percent = percent(f.unattributed_bytes, read + f.unattributed_bytes);
        text.push_str(&format!(" For {percent} % of the bytes it is not known which disk gave them."));
    }
    text
}

fn errors(f: &Facts<'_>) -> String {
    if f.failed.is_empty() {
        return String::new();
    }
    let rest = if f.copies > 1 { "another copy gave those bytes" } else { "there is no other copy" };
    format!("{} answered reads with errors: {rest}. ", list(f.failed))
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

fn nothing_on_disks(f: &Facts<'_>) -> String {
    if f.unattributed_bytes > 0 {
        "Bytes came off disks, but it is not known which: see why.".to_owned()
    } else if f.served_bytes > 0 {
        "Everything came from memory: no disk was needed.".to_owned()
    } else {
        "Nothing has been read yet.".to_owned()
    }
}

fn by_level(f: &Facts<'_>, used: &[&str]) -> String {
    let names = list(used);
    let bytes: Vec<u64> = f.bytes.iter().map(|(_, b)| *b).collect();
    match f.arrangement() {
        Arrangement::OneDisk => format!("All reads came from {names}, the only disk under this volume."),
        Arrangement::Mirror if used.len() == 1 => {
            let (whose, other) = (if f.by == "btrfs" { "a btrfs mirror" } else { "a mirror" }, others(f));
            format!(
                "All reads came from one of the {} copies, on {names}: {whose} serves one reader from one disk. A second viewer may use {other}; raid10 on four disks would let one stream use two at once.",
                f.copies
            )
        }
        Arrangement::Mirror => format!(
            "Reads came from {names}, one after the other: in a mirror each read is served by one copy, so a stream is never faster than one disk. raid10 would let it use several at once."
        ),
        Arrangement::Striped | Arrangement::StripedMirror | Arrangement::Parity
            if used.len() < f.columns as usize =>
        {
            format!(
                "Only {names} worked, of {} disks that one read can use: too little was read to reach the others.",
                f.columns
            )
        }
        Arrangement::Striped | Arrangement::StripedMirror | Arrangement::Parity => {
            striped(f, &names, &bytes, used.len())
        }
        Arrangement::InTurn if used.len() > 1 => format!("Reads came from {names}, one disk at a time."),
        Arrangement::InTurn if matches!(f.by, "mergerfs" | "shfs" | "overlay") => format!(
            "All reads came from {names}: each file of this pool is whole on one disk, and a stream is as fast as that one."
        ),
        Arrangement::InTurn if f.by == "btrfs" => format!(
            "All reads came from {names}: this file lies there as a whole, and the profile `{}` puts about 1 GiB on one disk before it takes the next. raid0 or raid10 would let one stream use several disks.",
            f.level
        ),
        Arrangement::InTurn => format!(
            "All reads came from {names}: this volume is one disk after the other, and what was read lies on that one. Stripes would let one stream use several disks."
        ),
    }
}

fn others(f: &Facts<'_>) -> &'static str {
    if f.copies > 2 { "another" } else { "the other" }
}

fn striped(f: &Facts<'_>, names: &str, bytes: &[u64], used: usize) -> String {
    let is_mirrored = f.arrangement() == Arrangement::StripedMirror;
    if is_mirrored && used > f.columns as usize {
        // Which copy a read is given has nothing to do with the stripes: those are judged by the disks that gave most.
        let mut most = bytes.to_vec();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most.truncate(f.columns as usize);
        if evenness(bytes, bytes.len()) < 0.8 && evenness(&most, most.len()) >= 0.8 {
            let rest = bytes.iter().sum::<u64>() - most.iter().sum::<u64>();
            let percent = percent(rest, bytes.iter().sum());
            return format!(
                "The striping worked: {} columns shared the reads evenly. Most came from one copy of each; {percent} % from others.",
                f.columns
            );
        }
    }
    let rests = is_mirrored && used <= f.columns as usize;
    // The disks of copies that rest are no unevenness of the stripes.
    let even = evenness(bytes, if rests { f.columns as usize } else { bytes.len() });
    let mut text = if even >= 0.8 {
        format!("The striping worked: {names} shared the reads evenly.")
    } else {
        format!(
            "The stripes lie on {names}, and they did not share evenly: the busiest did {:.1} times the mean.",
            1.0 / even.max(0.01)
        )
    };
    if rests {
        text.push_str(" One copy of each pair did it all; a second viewer may use the other copies.");
    }
    if f.request_bytes > 0 && f.request_bytes < f.chunk_bytes {
        text.push_str(&format!(
            " The disks got requests of {} KiB, less than a stripe of {} KiB: larger reads would make them work together.",
            f.request_bytes >> 10,
            f.chunk_bytes >> 10
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[(&str, u64)]) -> Vec<(Arc<str>, u64)> {
        bytes.iter().map(|(n, b)| (Arc::from(*n), *b)).collect()
    }

    fn facts<'a>(level: &'a str, columns: u32, copies: u32, bytes: &'a [(Arc<str>, u64)]) -> Facts<'a> {
        Facts {
            by: "btrfs",
            level,
            kind: match level {
                "raid5" => LayoutKind::Parity,
                _ if copies > 1 => LayoutKind::Mirror,
                _ => LayoutKind::Simple,
            },
            columns,
            copies,
            chunk_bytes: 65536,
            bytes,
            copy_bytes: &[],
            served_bytes: 1 << 30,
            cached_bytes: 0,
            input_bytes: 0,
            input_cached_bytes: 0,
            unattributed_bytes: 0,
            request_bytes: 512 << 10,
            computing_bytes: 0,
            failed: &[],
            stalls: 0,
            busiest: None,
            is_traced: false,
        }
    }

    #[test]
    fn a_mirror_with_one_reader_names_the_copy_and_the_remedy() {
        let bytes = names(&[("sda", 0), ("sdb", 1 << 30)]);
        assert_eq!(
            verdict(&facts("raid1", 1, 2, &bytes)),
            "All reads came from one of the 2 copies, on sdb: a btrfs mirror serves one reader from one disk. A second viewer may use the other; raid10 on four disks would let one stream use two at once."
        );
    }

    #[test]
    fn a_disk_that_fails_is_named_before_anything_else() {
        let bytes = names(&[("sda", 1 << 20), ("sdb", 1 << 30)]);
        let text = verdict(&Facts { failed: &["sda"], ..facts("raid1", 1, 2, &bytes) });
        assert!(
            text.starts_with("sda answered reads with errors: another copy gave those bytes. "),
            "{text}"
        );
        let text = verdict(&Facts { failed: &["sda", "sdb"], ..facts("raid0", 2, 1, &bytes) });
        assert!(
            text.starts_with("sda and sdb answered reads with errors: there is no other copy. "),
            "{text}"
        );
    }

    #[test]
    fn an_even_raid0_worked() {
        let bytes = names(&[("sda", 100), ("sdb", 100), ("sdc", 98)]);
        assert_eq!(
            verdict(&facts("raid0", 3, 1, &bytes)),
            "The striping worked: sda, sdb and sdc shared the reads evenly."
        );
    }

    #[test]
    fn a_raid10_on_half_its_disks_says_that_the_copies_rest() {
        let bytes = names(&[("sda", 100), ("sdb", 0), ("sdc", 100), ("sdd", 0)]);
        let text = verdict(&facts("raid10", 2, 2, &bytes));
        assert!(
            text.ends_with("One copy of each pair did it all; a second viewer may use the other copies."),
            "{text}"
        );
    }

    #[test]
    fn copies_that_rest_are_no_unevenness_of_the_stripes() {
        let bytes = names(&[("sda", 100), ("sdb", 0), ("sdc", 96), ("sdd", 0)]);
        let text = verdict(&facts("raid10", 2, 2, &bytes));
        assert!(text.starts_with("The striping worked: sda and sdc shared the reads evenly."), "{text}");
    }

    #[test]
    fn a_copy_that_gave_a_little_makes_the_stripes_no_less_even() {
        let bytes = names(&[("sda", 100), ("sdb", 8), ("sdc", 98), ("sdd", 8)]);
        assert_eq!(
            verdict(&facts("raid10", 2, 2, &bytes)),
            "The striping worked: 2 columns shared the reads evenly. Most came from one copy of each; 7 % from others."
        );
        let uneven = names(&[("sda", 100), ("sdb", 8), ("sdc", 30), ("sdd", 8)]);
        assert!(verdict(&facts("raid10", 2, 2, &uneven)).contains("did not share evenly"));
    }

    #[test]
    fn every_stack_is_told_in_its_own_words() {
        let one = names(&[("sda", 0), ("sdb", 1 << 30)]);
        let of = |by, level, columns, copies| verdict(&Facts { by, ..facts(level, columns, copies, &one) });
        let md = of("md", "raid1", 1, 2);
        assert!(md.contains(": a mirror serves one reader from one disk") && !md.contains("btrfs"), "{md}");
        assert!(of("zfs", "mirror", 1, 3).contains("A second viewer may use another;"));
        assert!(of("mergerfs", "mergerfs", 1, 1).contains("each file of this pool is whole on one disk"));
        assert!(of("lvm", "linear", 1, 1).contains("one disk after the other"));
        assert!(of("btrfs", "single", 1, 1).contains("the profile `single` puts about 1 GiB"));
        // A pool of two mirrors in ZFS, an LVM stripe over md mirrors: striped mirrors whatever their level is called.
        let two = names(&[("sda", 100), ("sdb", 0), ("sdc", 100), ("sdd", 0)]);
        for (by, level) in [("zfs", "pool"), ("lvm", "striped"), ("md", "raid10")] {
            let text = verdict(&Facts { by, ..facts(level, 2, 2, &two) });
            assert!(text.contains("One copy of each pair did it all"), "{by}: {text}");
        }
        let three = names(&[("sda", 100), ("sdb", 100), ("sdc", 100)]);
        let raidz = Facts { by: "zfs", kind: LayoutKind::Parity, ..facts("pool", 2, 1, &three) };
        assert!(verdict(&raidz).starts_with("The striping worked: sda, sdb and sdc"));
    }

    #[test]
    fn copies_and_memory_are_shares_only_where_they_are_known() {
        let bytes = names(&[("sda", 100), ("sdb", 3)]);
        let f = facts("raid1", 1, 2, &bytes);
        assert_eq!((f.copies_used(), Facts { copy_bytes: &[0, 0], ..f.clone() }.copies_used()), (None, None));
        assert_eq!(Facts { copy_bytes: &[100, 3], ..f.clone() }.copies_used(), Some(1));
        assert_eq!(Facts { copy_bytes: &[100, 90], ..f.clone() }.copies_used(), Some(2));
        assert_eq!(Facts { cached_bytes: 1 << 28, ..f.clone() }.cache_share(), Some(0.25));
        assert_eq!(Facts { served_bytes: 0, ..f.clone() }.cache_share(), None);
        let converted = Facts { input_bytes: 1000, input_cached_bytes: 500, ..f };
        assert_eq!(converted.cache_share(), Some(0.5));
    }

    #[test]
    fn small_requests_memory_and_doubt_are_told() {
        let bytes = names(&[("sda", 1000), ("sdb", 1000)]);
        let f = Facts {
            request_bytes: 16 << 10,
            cached_bytes: 1 << 29,
            unattributed_bytes: 500,
            ..facts("raid0", 2, 1, &bytes)
        };
        let text = verdict(&f);
        assert!(text.contains("requests of 16 KiB, less than a stripe of 64 KiB"), "{text}");
        assert!(text.contains("50 % of what was sent came from memory"), "{text}");
        assert!(text.contains("For 20 % of the bytes"), "{text}");
        let f = Facts { input_bytes: 1 << 30, input_cached_bytes: 1 << 28, cached_bytes: 0, ..f };
        let text = verdict(&f);
        assert!(
            text.contains("25 % of what was converted came from memory") && !text.contains("what was sent"),
            "{text}"
        );
    }

    #[test]
    fn what_a_lost_disk_costs_is_told() {
        let bytes = names(&[("sda", 1000), ("sdb", 1000)]);
        let text = verdict(&Facts { computing_bytes: 500, ..facts("raid5", 2, 1, &bytes) });
        assert!(text.contains("A disk is missing: 25 %"), "{text}");
    }

    #[test]
    fn nothing_read_is_three_different_things() {
        let bytes = names(&[("sda", 0)]);
        let f = facts("disk", 1, 1, &bytes);
        assert_eq!(verdict(&f), "Everything came from memory: no disk was needed.");
        assert_eq!(verdict(&Facts { served_bytes: 0, ..f.clone() }), "Nothing has been read yet.");
        assert_eq!(
            verdict(&Facts { unattributed_bytes: 5, ..f }),
            "Bytes came off disks, but it is not known which: see why."
        );
    }
}
