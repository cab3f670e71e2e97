//! Phase 2: what changed since the last scan. Pure.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::missing::Why;
use super::walk::{Class, Seen};

/// A file as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) pk: i64,
    pub(super) root: i64,
    pub(super) path: PathBuf,
    pub(super) class: Class,
    pub(super) size_bytes: u64,
    pub(super) mtime_ns: i64,
    pub(super) ino: u64,
    /// Why it was not there at the last scan.
    pub(super) missing: Option<Why>,
    pub(super) fingerprint: Option<Vec<u8>>,
}

/// What to do; indices into the list of seen files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Diff {
    /// Same size, time and inode: nothing of it is touched.
    pub(super) unchanged: usize,
    /// Was missing and is there again, as it was.
    pub(super) back: Vec<i64>,
    /// Same size and time under another inode: a remounted pool, or a copy put in its place. Its
    /// fingerprint tells.
    pub(super) suspect: Vec<(i64, usize)>,
    /// Another size or time.
    pub(super) changed: Vec<(i64, usize)>,
    /// Not known.
    pub(super) new: Vec<usize>,
    /// Known and not found; indices into the list of known files.
    pub(super) gone: Vec<usize>,
}

/// Compares what is known with what was seen.
pub(super) fn diff(known: &[Known], seen: &[Seen]) -> Diff {
    let mut by_path: HashMap<(i64, &Path), usize> =
        known.iter().enumerate().map(|(i, k)| ((k.root, k.path.as_path()), i)).collect();
    let mut out = Diff::default();
    for (at, s) in seen.iter().enumerate() {
        let Some(i) = by_path.remove(&(s.root, s.path.as_path())) else {
            out.new.push(at);
            continue;
        };
        let k = &known[i];
        let same = k.size_bytes == s.size_bytes && k.mtime_ns == s.mtime_ns && k.class == s.class;
        if !same {
            out.changed.push((k.pk, at));
        } else if k.ino != s.ino {
            out.suspect.push((k.pk, at));
        } else if k.missing.is_some() {
            out.back.push(k.pk);
        } else {
            out.unchanged += 1;
        }
    }
    out.gone = by_path.into_values().collect();
    out.gone.sort_unstable();
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(path: &str, size_bytes: u64, ino: u64) -> Seen {
        Seen { root: 1, path: path.into(), class: Class::Video, size_bytes, mtime_ns: 5, ino, dev: 1 }
    }

    fn known(pk: i64, path: &str, size_bytes: u64, ino: u64) -> Known {
        Known {
            pk,
            root: 1,
            path: path.into(),
            class: Class::Video,
            size_bytes,
            mtime_ns: 5,
            ino,
            missing: None,
            fingerprint: None,
        }
    }

    #[test]
    fn each_file_gets_the_one_verdict_that_fits() {
        let mut back = known(4, "back", 1, 4);
        back.missing = Some(Why::Root);
        let was = [
            known(1, "same", 1, 1),
            known(2, "grew", 1, 2),
            known(3, "copied", 1, 3),
            back,
            known(5, "gone", 1, 5),
        ];
        let is = [
            seen("new", 9, 9),
            seen("same", 1, 1),
            seen("grew", 2, 2),
            seen("copied", 1, 33),
            seen("back", 1, 4),
        ];
        assert_eq!(
            diff(&was, &is),
            Diff {
                unchanged: 1,
                back: vec![4],
                suspect: vec![(3, 3)],
                changed: vec![(2, 2)],
                new: vec![0],
                gone: vec![4],
            }
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_counted_twice(
            was in proptest::collection::btree_map("[a-f]{1,2}", (0_u64..3, 0_u64..3), 0..20),
            is in proptest::collection::btree_map("[a-f]{1,2}", (0_u64..3, 0_u64..3), 0..20),
        ) {
            let k: Vec<Known> = (0_i64..).zip(&was).map(|(pk, (p, (s, i)))| known(pk, p, *s, *i)).collect();
            let s: Vec<Seen> = is.iter().map(|(p, (s, i))| seen(p, *s, *i)).collect();
            let d = diff(&k, &s);
            let met = d.unchanged + d.back.len() + d.suspect.len() + d.changed.len();
            prop_assert_eq!(met + d.new.len(), s.len());
            prop_assert_eq!(met + d.gone.len(), k.len());
        }
    }
}
