//! What would change how a stream's reads were spread, from its figures alone. Pure. The codes are closed and stay:
//!
//! | code | when |
//! | --- | --- |
//! | `disk_failing` | a disk answered with errors |
//! | `degraded` | what a missing disk held was computed from the others |
//! | `nothing_read` | all came from memory: the layout was not put to the test |
//! | `mostly_memory` | more than half did |
//! | `enough` | nobody waited, and the busiest disk had time to spare |
//! | `saturated` | a disk worked nearly all the time, or viewers waited while all columns worked |
//! | `stripe` | one disk after the other, or each file whole on one |
//! | `stripe_mirrors` | a mirror of one column |
//! | `copies_idle` | copies that gave nothing |
//! | `read_ahead` | requests smaller than a chunk: each kept one column busy |
//! | `chunk` | a stripe over all columns is longer than any read can be |
//! | `uneven` | a striped file that does not lie evenly |
//! | `trace` | it is not known which disk gave a part of the bytes |

use super::verdict::{Arrangement, Facts, list, used};
use crate::layout::{evenness, ratio};
use crate::topology::Advice;

/// A person reads no more.
const MOST: usize = 4;
/// From here on a disk has no time to spare: queueing theory's usual knee, and what a second viewer would feel.
const SATURATED: f64 = 0.8;
/// Below this a second and a third stream of the kind find room.
const SPARE: f64 = 0.3;
/// `storage.read_chunk_bytes` takes no more.
const MAX_READ_BYTES: u64 = 64 << 20;

/// See the module; most urgent first.
pub(crate) fn advice(f: &Facts<'_>) -> Vec<Advice> {
    let mut out = Vec::new();
    let mut say = |code: &str, text: String| out.push(Advice { code: code.to_owned(), text });
    let read: u64 = f.bytes.iter().map(|(_, b)| b).sum();
    let used = used(f.bytes);
    disks(f, &mut say);
    let memory = f.cache_share().unwrap_or(0.0);
    if read == 0 && f.unattributed_bytes == 0 {
        if memory > 0.0 {
            say(
                "nothing_read",
                "All of it was in memory: this says nothing of the disks. A film that nobody has played lately would."
                    .to_owned(),
            );
        }
        out.truncate(MOST);
        return out;
    }
    if memory > 0.5 {
        say(
            "mostly_memory",
            format!("{:.0} % of it was in memory: the disks were hardly put to the test.", memory * 100.0),
        );
    }
    load(f, used.len(), &mut say);
    if read > 0 {
        requests(f, &mut say);
        layout(f, &used, &mut say);
    }
    if !f.is_traced && ratio(f.unattributed_bytes, read.saturating_add(f.unattributed_bytes)) >= 0.02 {
        say(
            "trace",
            "With the storage helper every request is traced, and it is known which disk gave every byte (docs/storage-helper.md)."
                .to_owned(),
        );
    }
    out.truncate(MOST);
    out
}

fn disks(f: &Facts<'_>, say: &mut impl FnMut(&str, String)) {
    if !f.failed.is_empty() {
        let what = if f.copies > 1 { "while another copy is left" } else { "while it can still be read" };
        say("disk_failing", format!("Replace {} {what}.", list(f.failed)));
    }
    if f.computing_bytes > 0 {
        say(
            "degraded",
            "Replace the missing disk and let the array be rebuilt: until then every read of what it held takes the others.".to_owned(),
        );
    }
}

/// Whether anything needs to change at all.
fn load(f: &Facts<'_>, used: usize, say: &mut impl FnMut(&str, String)) {
    let Some((disk, share)) = f.busiest else { return };
    let percent = share * 100.0;
    let all_work = used >= f.columns as usize;
    if share >= SATURATED || (f.stalls > 0 && all_work && share > SPARE) {
        let more = if all_work && f.columns > 1 {
            "All columns work: only more of them, faster disks or fewer viewers at once give more."
        } else if f.columns > 1 {
            "Other columns had time to spare."
        } else {
            "One disk carries it alone."
        };
        say("saturated", format!("{disk} worked {percent:.0} % of the time for this stream. {more}"));
    } else if f.stalls == 0 && share <= SPARE {
        say(
            "enough",
            format!(
                "Nothing has to change for this stream: its busiest disk, {disk}, worked {percent:.0} % of the time, and nobody waited."
            ),
        );
    }
}

fn requests(f: &Facts<'_>, say: &mut impl FnMut(&str, String)) {
    if f.columns < 2 || f.chunk_bytes == 0 || f.request_bytes == 0 {
        return;
    }
    let stripe = f.chunk_bytes.saturating_mul(u64::from(f.columns));
    if stripe > MAX_READ_BYTES {
        say(
            "chunk",
            format!(
                "{} columns of {} are {}: no read is that long, and each keeps one column busy. A chunk of 64 KiB to 1 MiB would let one read use all of them.",
                f.columns,
                size(f.chunk_bytes),
                size(stripe)
            ),
        );
    } else if f.request_bytes < f.chunk_bytes {
        let (mean, chunk, stripe) = (size(f.request_bytes), size(f.chunk_bytes), size(stripe));
        let how = if f.input_bytes > 0 {
            format!(
                "The converter reads as far ahead as the kernel does: `blockdev --setra` of at least {stripe} on the volume"
            )
        } else {
            format!("Reads of at least {stripe} (setting `storage.read_chunk_bytes`), or a smaller chunk,")
        };
        say(
            "read_ahead",
            format!(
                "The mean request of {mean} is smaller than a chunk of {chunk}. {how} would keep all {} columns busy at once.",
                f.columns
            ),
        );
    }
}

fn layout(f: &Facts<'_>, used: &[&str], say: &mut impl FnMut(&str, String)) {
    match f.arrangement() {
        Arrangement::OneDisk => {}
        Arrangement::InTurn if matches!(f.by, "mergerfs" | "shfs" | "overlay") => say(
            "stripe",
            "A pool of whole files lets the other disks sleep; for one stream to use several disks the files would have to lie in stripes (raid0, raid10, raid5).".to_owned(),
        ),
        Arrangement::InTurn => {
            let how = if f.by == "btrfs" {
                "raid10 (`btrfs balance start -dconvert=raid10`, four disks; half of the space) or raid0"
            } else {
                "Stripes (raid10, raid5, raid0)"
            };
            say("stripe", format!("{how} would let one stream use several disks at once."));
        }
        Arrangement::Mirror => {
            let how = match f.by {
                "btrfs" => "On four disks, raid10 (`btrfs balance start -dconvert=raid10`)",
                "zfs" => "A second mirror in the pool",
                "md" => "raid10 on four disks, or its far layout on these,",
                _ => "Striped mirrors (raid10 on four disks)",
            };
            say("stripe_mirrors", format!("{how} would let one stream use two disks at once; the space stays that of half of the disks."));
        }
        Arrangement::Striped | Arrangement::Parity => uneven(f, used, say),
        Arrangement::StripedMirror => {}
    }
    if let Some(n) = f.copies_used()
        && n < f.copies
        && f.copies > 1
    {
        let why = if f.by == "btrfs" {
            "btrfs chooses the copy by the number of the reading thread; kernels that have `read_policy` below /sys/fs/btrfs can take turns (`round-robin`)"
        } else {
            "a sequential reader stays with the copy that it began with"
        };
        let rest = f.copies - n;
        say(
            "copies_idle",
            format!(
                "{rest} of {} copies gave nothing: they are free for other viewers. One stream seldom gets both: {why}.",
                f.copies
            ),
        );
    }
}

fn uneven(f: &Facts<'_>, used: &[&str], say: &mut impl FnMut(&str, String)) {
    let bytes: Vec<u64> = f.bytes.iter().map(|(_, b)| *b).collect();
    if used.len() >= f.columns as usize && evenness(&bytes, bytes.len()) < 0.8 {
        let how = if f.by == "btrfs" {
            "`btrfs balance`, or copying the file anew,"
        } else {
            "Copying the file anew"
        };
        say("uneven", format!("The file does not lie evenly over the disks. {how} would spread it."));
    }
}

/// In binary units, as chunks are counted.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} MiB", bytes >> 20, ((bytes & 0xF_FFFF) * 10) >> 20),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::topology::{LayoutKind, Shape};

    type Bytes = Vec<(Arc<str>, u64)>;

    fn names(bytes: &[u64]) -> Bytes {
        ('a'..).zip(bytes).map(|(c, b)| (Arc::from(format!("sd{c}")), *b)).collect()
    }

    /// A direct play of 1 GiB, half a megabyte a request, the busiest disk at a twentieth of its time.
    fn facts<'a>(shape: &'a Shape, bytes: &'a Bytes) -> Facts<'a> {
        Facts {
            by: &shape.by,
            level: &shape.level,
            kind: shape.kind,
            columns: shape.columns,
            copies: shape.copies,
            chunk_bytes: shape.chunk_bytes,
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
            busiest: Some(("sda", 0.05)),
            is_traced: false,
        }
    }

    fn shape(by: &str, level: &str, kind: LayoutKind, columns: u32, copies: u32, chunk_kib: u64) -> Shape {
        Shape { by: by.into(), level: level.into(), columns, copies, chunk_bytes: chunk_kib << 10, kind }
    }

    fn codes(f: &Facts<'_>) -> Vec<String> {
        advice(f).into_iter().map(|a| a.code).collect()
    }

    #[test]
    fn each_layout_gets_the_advice_that_fits_it() {
        use LayoutKind::{Mirror, Parity, Simple};
        let one = names(&[1 << 30]);
        let first = names(&[1 << 30, 0, 0, 0]);
        let pair = names(&[1 << 29, 0, 1 << 29, 0]);
        let all = names(&[1 << 28; 4]);
        for (shape, bytes, want) in [
            (Shape::one_disk(), &one, vec!["enough"]),
            (Shape::btrfs("single", 4), &first, vec!["enough", "stripe"]),
            (Shape::btrfs("raid0", 4), &all, vec!["enough"]),
            (Shape::btrfs("raid1", 4), &first, vec!["enough", "stripe_mirrors"]),
            (Shape::btrfs("raid1c3", 4), &first, vec!["enough", "stripe_mirrors"]),
            (Shape::btrfs("raid10", 4), &pair, vec!["enough"]),
            (Shape::btrfs("raid5", 4), &all, vec!["enough"]),
            (Shape::btrfs("raid6", 4), &all, vec!["enough"]),
            (shape("md", "raid1", Mirror, 1, 2, 0), &first, vec!["enough", "stripe_mirrors"]),
            (shape("md", "raid10", Mirror, 2, 2, 512), &pair, vec!["enough"]),
            (shape("md", "raid5", Parity, 3, 1, 512), &all, vec!["enough"]),
            (shape("md", "linear", Simple, 1, 1, 0), &first, vec!["enough", "stripe"]),
            (shape("lvm", "striped", Simple, 4, 1, 64), &all, vec!["enough"]),
            (shape("zfs", "mirror", Mirror, 1, 2, 0), &first, vec!["enough", "stripe_mirrors"]),
            (shape("zfs", "pool", Parity, 6, 1, 0), &all, vec!["enough"]),
            (shape("mergerfs", "mergerfs", Simple, 1, 1, 0), &first, vec!["enough", "stripe"]),
        ] {
            assert_eq!(codes(&facts(&shape, bytes)), want, "{} {}", shape.by, shape.level);
        }
    }

    #[test]
    fn each_stack_is_told_how_in_its_own_words() {
        use LayoutKind::{Mirror, Simple};
        let first = names(&[1 << 30, 0]);
        for (by, kind, copies, words) in [
            ("btrfs", Mirror, 2, "btrfs balance start -dconvert=raid10"),
            ("md", Mirror, 2, "its far layout on these"),
            ("zfs", Mirror, 2, "A second mirror in the pool"),
            ("lvm", Mirror, 2, "Striped mirrors"),
            ("btrfs", Simple, 1, "btrfs balance start -dconvert=raid10"),
            ("md", Simple, 1, "Stripes (raid10, raid5, raid0)"),
            ("mergerfs", Simple, 1, "lets the other disks sleep"),
        ] {
            let shape = shape(by, "x", kind, 1, copies, 0);
            let texts: Vec<String> = advice(&facts(&shape, &first)).into_iter().map(|a| a.text).collect();
            assert!(texts.iter().any(|t| t.contains(words)), "{by}: {texts:?}");
        }
    }

    #[test]
    fn requests_smaller_than_a_chunk_ask_for_larger_reads_of_who_makes_them() {
        let shape = shape("md", "raid0", LayoutKind::Simple, 4, 1, 512);
        let bytes = names(&[1 << 28; 4]);
        let direct = Facts { request_bytes: 128 << 10, ..facts(&shape, &bytes) };
        let of = |f: &Facts<'_>| advice(f).into_iter().find(|a| a.code == "read_ahead").map(|a| a.text);
        let text = of(&direct).unwrap();
        assert!(text.contains("128 KiB is smaller than a chunk of 512 KiB"), "{text}");
        assert!(text.contains("at least 2 MiB (setting `storage.read_chunk_bytes`)"), "{text}");
        let converted = Facts { input_bytes: 1 << 30, ..direct.clone() };
        assert!(of(&converted).unwrap().contains("`blockdev --setra` of at least 2 MiB"));
        assert_eq!(of(&Facts { request_bytes: 512 << 10, ..direct.clone() }), None);
        // One column has no chunks to fill, and without stripes there are none.
        assert_eq!(of(&Facts { columns: 1, ..direct.clone() }), None);
        assert_eq!(of(&Facts { chunk_bytes: 0, ..direct }), None);
    }

    #[test]
    fn a_stripe_that_no_read_spans_asks_for_a_smaller_chunk() {
        let shape = shape("lvm", "striped", LayoutKind::Simple, 4, 1, 32 << 10);
        let bytes = names(&[1 << 28; 4]);
        let texts = advice(&facts(&shape, &bytes));
        assert_eq!(texts[1].code, "chunk");
        assert!(texts[1].text.contains("4 columns of 32 MiB are 128 MiB"), "{}", texts[1].text);
    }

    #[test]
    fn a_disk_without_time_to_spare_is_named_and_what_the_others_did() {
        let raid0 = Shape::btrfs("raid0", 2);
        let (all, first) = (names(&[1 << 29, 1 << 29]), names(&[1 << 30, 0]));
        let full = |share| Some(("sdb", share));
        let of = |f: &Facts<'_>| advice(f).into_iter().next().map(|a| (a.code, a.text)).unwrap();
        let (code, text) = of(&Facts { busiest: full(0.93), ..facts(&raid0, &all) });
        assert!(code == "saturated" && text.contains("sdb worked 93 %") && text.contains("All columns work"));
        assert!(
            of(&Facts { busiest: full(0.93), ..facts(&raid0, &first) }).1.contains("Other columns had time")
        );
        let single = Shape::btrfs("single", 2);
        assert!(
            of(&Facts { busiest: full(0.9), ..facts(&single, &first) })
                .1
                .contains("One disk carries it alone")
        );
        // Somebody waited though the disks had time: neither is said.
        let waited = Facts { stalls: 2, ..facts(&raid0, &all) };
        assert_eq!(codes(&waited), Vec::<String>::new());
        assert_eq!(codes(&Facts { busiest: full(0.5), ..facts(&raid0, &all) }), Vec::<String>::new());
        assert_eq!(codes(&Facts { busiest: None, ..facts(&raid0, &all) }), Vec::<String>::new());
    }

    #[test]
    fn copies_that_rest_are_told_only_where_it_is_known_which_gave() {
        let raid10 = Shape::btrfs("raid10", 4);
        let bytes = names(&[1 << 29, 0, 1 << 29, 0]);
        let f = Facts { copy_bytes: &[1 << 30, 0], ..facts(&raid10, &bytes) };
        let texts = advice(&f);
        assert_eq!(texts[1].code, "copies_idle");
        assert!(
            texts[1].text.contains("1 of 2 copies gave nothing") && texts[1].text.contains("read_policy")
        );
        assert_eq!(codes(&Facts { copy_bytes: &[1 << 29, 1 << 29], ..f.clone() }), ["enough"]);
        assert_eq!(codes(&Facts { copy_bytes: &[], ..f }), ["enough"]);
    }

    #[test]
    fn memory_and_what_was_not_seen_are_told() {
        let raid0 = Shape::btrfs("raid0", 2);
        let (none, all) = (names(&[0, 0]), names(&[1 << 29, 1 << 29]));
        let idle = Facts { busiest: None, ..facts(&raid0, &none) };
        assert_eq!(codes(&Facts { cached_bytes: 1 << 30, ..idle.clone() }), ["nothing_read"]);
        assert_eq!(codes(&Facts { served_bytes: 0, ..idle.clone() }), Vec::<String>::new());
        assert_eq!(codes(&Facts { unattributed_bytes: 1 << 30, ..idle.clone() }), ["trace"]);
        assert_eq!(
            codes(&Facts { unattributed_bytes: 1 << 30, is_traced: true, ..idle }),
            Vec::<String>::new()
        );
        let f = Facts { cached_bytes: 700 << 20, unattributed_bytes: 1 << 27, ..facts(&raid0, &all) };
        assert_eq!(codes(&f), ["mostly_memory", "enough", "trace"]);
    }

    #[test]
    fn trouble_comes_first_and_no_more_is_said_than_is_read() {
        let raid5 = shape("md", "raid5", LayoutKind::Parity, 3, 1, 512);
        let bytes = names(&[1 << 30, 1 << 28, 1 << 28, 1 << 28]);
        let f = Facts {
            failed: &["sdb"],
            computing_bytes: 1 << 28,
            cached_bytes: 600 << 20,
            request_bytes: 64 << 10,
            unattributed_bytes: 1 << 28,
            ..facts(&raid5, &bytes)
        };
        assert_eq!(codes(&f), ["disk_failing", "degraded", "mostly_memory", "enough"]);
        assert_eq!(advice(&f)[0].text, "Replace sdb while it can still be read.");
        let f = Facts { failed: &[], computing_bytes: 0, cached_bytes: 0, ..f };
        assert_eq!(codes(&f), ["enough", "read_ahead", "uneven", "trace"]);
    }

    #[test]
    fn sizes_are_binary() {
        let all = [512, 65536, 1 << 20, (1 << 20) + (1 << 19)].map(size);
        assert_eq!(all, ["512 B", "64 KiB", "1 MiB", "1.5 MiB"]);
    }
}
