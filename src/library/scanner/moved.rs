//! Phase 3: files that are gone under one name and there under another.
//!
//! Told by inode with size and time (a rename), else by fingerprint (another disk, another
//! branch of a pool). At most 192 KiB of a file are read, and only of one whose size fits.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::diff::Known;
use super::fingerprint::fingerprint;
use super::scan::Context;
use super::walk::Seen;
use crate::db::{int, uint};
use crate::error::Result;
use crate::repo::libraries::path_of;

/// Files of other libraries with the same size that are looked at for one new file.
const ELSEWHERE: i64 = 8;

/// The pairs (key of the file that was, index of the new file).
pub(super) fn find(
    context: &Context,
    roots: &HashMap<i64, PathBuf>,
    gone: &[&Known],
    seen: &[Seen],
    new: &[usize],
) -> Result<Vec<(i64, usize)>> {
    let mut by_size: HashMap<u64, Vec<&Known>> = HashMap::new();
    for known in gone.iter().filter(|k| k.class.is_media()) {
        by_size.entry(known.size_bytes).or_default().push(known);
    }
    let mut taken: HashSet<i64> = HashSet::new();
    let mut out = Vec::new();
    let own: Vec<i64> = roots.keys().copied().collect();
    // One question for all: of the files of a first scan none is looked up one by one.
    let sizes = if new.is_empty() { HashSet::new() } else { sizes_elsewhere(context, &own)? };
    for at in new {
        let file = &seen[*at];
        if !file.class.is_media() {
            continue;
        }
        let Some(path) = roots.get(&file.root).map(|root| root.join(&file.path)) else { continue };
        let here: Vec<&Known> = by_size
            .get(&file.size_bytes)
            .into_iter()
            .flatten()
            .copied()
            .filter(|k| k.class == file.class && !taken.contains(&k.pk))
            .collect();
        let found = match renamed(&here, file) {
            Some(pk) => Some(pk),
            None => {
                let elsewhere = if sizes.contains(&file.size_bytes) {
                    elsewhere(context, file, &own)?
                } else {
                    Vec::new()
                };
                by_content(context, &path, file, &here, &elsewhere, &taken)
            }
        };
        if let Some(pk) = found {
            taken.insert(pk);
            out.push((pk, *at));
        }
    }
    Ok(out)
}

fn renamed(here: &[&Known], file: &Seen) -> Option<i64> {
    here.iter().find(|k| k.ino == file.ino && k.mtime_ns == file.mtime_ns).map(|k| k.pk)
}

fn by_content(
    context: &Context,
    path: &Path,
    file: &Seen,
    here: &[&Known],
    elsewhere: &[(i64, Vec<u8>, PathBuf)],
    taken: &HashSet<i64>,
) -> Option<i64> {
    // Empty files are all alike.
    if file.size_bytes == 0 {
        return None;
    }
    let candidates: Vec<(i64, &[u8], &Path)> = here
        .iter()
        .filter_map(|k| Some((k.pk, k.fingerprint.as_deref()?, k.path.as_path())))
        .chain(elsewhere.iter().map(|(pk, sum, p)| (*pk, sum.as_slice(), p.as_path())))
        .filter(|(pk, ..)| !taken.contains(pk))
        .collect();
    if candidates.is_empty() {
        return None;
    }
    // Unreadable now: the probe phase will say so; here it is simply not known.
    let mut opened = context.backend.open(path).ok()?;
    let sum = fingerprint(&mut *opened, file.size_bytes).ok()?;
    let same: Vec<_> = candidates.iter().filter(|(_, other, _)| *other == sum).collect();
    // Of several copies the one of the same name.
    let name = file.path.file_name();
    same.iter().find(|(_, _, p)| p.file_name() == name).or(same.first()).map(|(pk, ..)| *pk)
}

/// Sizes that files outside these roots have.
fn sizes_elsewhere(context: &Context, own: &[i64]) -> Result<HashSet<u64>> {
    let own = own.to_vec();
    context.library.read_blocking(move |db| {
        let mut statement =
            db.prepare_cached("SELECT DISTINCT size_bytes, root FROM files WHERE fingerprint IS NOT NULL")?;
        let rows = statement
            .query_map([], |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(rows.into_iter().filter(|(_, root)| !own.contains(root)).map(|(size, _)| uint(size)).collect())
    })
}

/// Files of other libraries that have the size and are not where they were.
fn elsewhere(context: &Context, file: &Seen, own: &[i64]) -> Result<Vec<(i64, Vec<u8>, PathBuf)>> {
    let (size, class, own) = (int(file.size_bytes), file.class.as_str(), own.to_vec());
    let found = context.library.read_blocking(move |db| {
        let mut statement = db.prepare_cached(
            "SELECT f.pk, f.fingerprint, r.path, f.path, f.root FROM files f JOIN roots r ON r.pk = f.root
             WHERE f.size_bytes = ?1 AND f.class = ?2 AND f.fingerprint IS NOT NULL LIMIT 64",
        )?;
        let rows = statement
            .query_map((size, class), |r| {
                let path = path_of(r.get_ref(2)?.as_blob()?).join(path_of(r.get_ref(3)?.as_blob()?));
                Ok((r.get::<_, i64>(0)?, r.get::<_, Vec<u8>>(1)?, path, r.get::<_, i64>(4)?))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(rows
            .into_iter()
            .filter(|row| !own.contains(&row.3))
            .map(|(pk, sum, p, _)| (pk, sum, p))
            .collect::<Vec<_>>())
    })?;
    Ok(found
        .into_iter()
        .filter(|(_, _, path)| std::fs::symlink_metadata(path).is_err())
        .take(usize::try_from(ELSEWHERE).unwrap_or(0))
        .collect())
}
