//! The `Range` header of RFC 9110 section 14, resolved against a size. Pure.

use spindle_base::units::ByteRange;

/// More ranges than this in one header are ignored, so that the whole entity is sent: RFC 9110
/// section 14.2 allows it, and no player asks for more than a handful.
const MAX_RANGES: usize = 32;

/// What a `Range` header comes to for an entity of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// No range, an unknown unit, a malformed or an excessive one: send everything (section 14.2).
    Whole,
    /// Satisfiable ranges in the order asked; those that cannot be satisfied are left out, those
    /// that overlap or touch are joined where they follow each other.
    Ranges(Vec<ByteRange>),
    /// A well-formed header of which nothing can be satisfied: 416.
    Unsatisfiable,
}

/// Resolves the value of a `Range` header for an entity of `size_bytes`.
///
/// Grammar, RFC 9110 section 14.1.1: `bytes=` then a comma-separated list of `first-last`,
/// `first-` and `-suffix`. Section 14.1.2: a last position at or past the end means the end; a
/// suffix longer than the entity means all of it; a suffix of 0 is unsatisfiable.
#[must_use]
pub fn resolve(header: &str, size_bytes: u64) -> Resolved {
    let Some((unit, set)) = header.split_once('=') else {
        return Resolved::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Resolved::Whole;
    }
    let mut ranges: Vec<ByteRange> = Vec::new();
    let mut seen = 0_usize;
    for spec in set.split(',') {
        let spec = spec.trim_matches([' ', '\t']);
        if spec.is_empty() {
            // Section 5.6.1.2: a recipient accepts empty list elements.
            continue;
        }
        seen += 1;
        if seen > MAX_RANGES {
            return Resolved::Whole;
        }
        match one(spec, size_bytes) {
            Spec::Malformed => return Resolved::Whole,
            Spec::Unsatisfiable => {}
            Spec::Range(range) => push_joined(&mut ranges, range),
        }
    }
    if seen == 0 {
        Resolved::Whole
    } else if ranges.is_empty() {
        Resolved::Unsatisfiable
    } else if total(&ranges) > size_bytes.saturating_mul(2) {
        // Overlaps out of order that add up to more than the entity twice: an amplification.
        Resolved::Whole
    } else {
        Resolved::Ranges(ranges)
    }
}

enum Spec {
    Malformed,
    Unsatisfiable,
    Range(ByteRange),
}

fn one(spec: &str, size_bytes: u64) -> Spec {
    let Some((first, last)) = spec.split_once('-') else {
        return Spec::Malformed;
    };
    match (position(first), position(last)) {
        (Position::Absent, Position::At(suffix)) => {
            if suffix == 0 || size_bytes == 0 {
                return Spec::Unsatisfiable;
            }
            range(size_bytes.saturating_sub(suffix), size_bytes)
        }
        (Position::At(first), Position::Absent) => {
            if first >= size_bytes {
                return Spec::Unsatisfiable;
            }
            range(first, size_bytes)
        }
        (Position::At(first), Position::At(last)) => {
            if last < first {
                return Spec::Malformed;
            }
            if first >= size_bytes {
                return Spec::Unsatisfiable;
            }
            range(first, last.saturating_add(1).min(size_bytes))
        }
        _ => Spec::Malformed,
    }
}

fn range(start: u64, end: u64) -> Spec {
    ByteRange::new(start, end).map_or(Spec::Malformed, Spec::Range)
}

enum Position {
    Absent,
    At(u64),
    Bad,
}

fn position(text: &str) -> Position {
    if text.is_empty() {
        return Position::Absent;
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Position::Bad;
    }
    // A number past 64 bits is a valid position far behind every end.
    Position::At(text.parse().unwrap_or(u64::MAX))
}

fn push_joined(ranges: &mut Vec<ByteRange>, next: ByteRange) {
    if let Some(last) = ranges.last_mut()
        && next.start() <= last.end()
        && next.end() >= last.start()
        && let Some(joined) = ByteRange::new(last.start().min(next.start()), last.end().max(next.end()))
    {
        *last = joined;
        return;
    }
    ranges.push(next);
}

fn total(ranges: &[ByteRange]) -> u64 {
    ranges.iter().fold(0_u64, |sum, r| sum.saturating_add(r.len_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(list: &[(u64, u64)]) -> Resolved {
        Resolved::Ranges(
            list.iter()
                .map(|(a, b)| ByteRange::new(*a, *b).expect("a test's range is not inverted"))
                .collect(),
        )
    }

    #[test]
    fn the_examples_of_rfc_9110_section_14_1_2_resolve_as_it_says() {
        // "The first 500 bytes", "the second 500 bytes", "the final 500 bytes" twice, "the first
        // and last bytes only", "the first, middle, and last 1000 bytes", and the two "other
        // valid (but not canonical)" forms, of a representation of 10,000 bytes.
        for (header, want) in [
            ("bytes=0-499", ranges(&[(0, 500)])),
            ("bytes=500-999", ranges(&[(500, 1000)])),
            ("bytes=-500", ranges(&[(9500, 10_000)])),
            ("bytes=9500-", ranges(&[(9500, 10_000)])),
            ("bytes=0-0,-1", ranges(&[(0, 1), (9999, 10_000)])),
            ("bytes= 0-999, 4500-5499, -1000", ranges(&[(0, 1000), (4500, 5500), (9000, 10_000)])),
            ("bytes=500-600,601-999", ranges(&[(500, 1000)])),
            ("bytes=500-700,601-999", ranges(&[(500, 1000)])),
        ] {
            assert_eq!(resolve(header, 10_000), want, "{header}");
        }
    }

    #[test]
    fn ends_past_the_entity_are_its_end() {
        assert_eq!(resolve("bytes=0-99999999999999999999999", 10), ranges(&[(0, 10)]));
        assert_eq!(resolve("bytes=-99999999999999999999999", 10), ranges(&[(0, 10)]));
        assert_eq!(resolve("bytes=9-18446744073709551615", 10), ranges(&[(9, 10)]));
    }

    #[test]
    fn nothing_satisfiable_is_unsatisfiable_and_one_satisfiable_is_enough() {
        for header in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-11,-0"] {
            assert_eq!(resolve(header, 10), Resolved::Unsatisfiable, "{header}");
        }
        assert_eq!(resolve("bytes=0-", 0), Resolved::Unsatisfiable);
        assert_eq!(resolve("bytes=-5", 0), Resolved::Unsatisfiable);
        assert_eq!(resolve("bytes=99-,0-1", 10), ranges(&[(0, 2)]));
    }

    #[test]
    fn malformed_and_foreign_headers_are_ignored() {
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=+1-2",
            "items=0-1",
            "bytes=0x1-2",
            "bytes=1",
            "bytes=1-2;3-4",
            "bytes=-",
        ] {
            assert_eq!(resolve(header, 10), Resolved::Whole, "{header}");
        }
    }

    #[test]
    fn too_many_or_overlapping_ranges_are_ignored() {
        let many: Vec<String> = (0..40).map(|n| format!("{n}-{n}")).collect();
        assert_eq!(resolve(&format!("bytes={}", many.join(",")), 1000), Resolved::Whole);
        assert_eq!(
            resolve("bytes=0-,5-6,0-,7-8,0-", 1000),
            ranges(&[(0, 1000)]),
            "overlaps that follow each other are joined"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_asked_stays_inside_the_entity(header in "bytes=[0-9,\\- ]{0,60}", size in 0_u64..10_000) {
            if let Resolved::Ranges(list) = resolve(&header, size) {
                prop_assert!(!list.is_empty());
                for r in list {
                    prop_assert!(r.start() < r.end() && r.end() <= size);
                }
            }
        }
    }
}
