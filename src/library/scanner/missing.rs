//! What becomes of files that were not found. Nothing is ever removed for being absent once.

use rusqlite::Connection;

use crate::db::uint;
use crate::error::Result;

/// Why a file was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its root is not there: a mount is gone, a disk is away.
    Root,
    /// A folder above it cannot be read.
    Folder,
    /// Its folder was read and it is not in it. Only these ever leave the index, after the grace.
    File,
}

impl Why {
    fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Folder => "folder",
            Self::File => "file",
        }
    }

    pub(super) fn parse(word: &str) -> Self {
        match word {
            "root" => Self::Root,
            "folder" => Self::Folder,
            _ => Self::File,
        }
    }
}

/// A root that lost its files by the look of it: what it had, what of it was found, and whether
/// it is the same file system as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) known: usize,
    pub(super) found: usize,
    pub(super) entries: usize,
    pub(super) same_dev: bool,
}

/// Whether the root is to be taken as absent although its folder is there: the mount point
/// without the mount. An empty folder always; another file system when most files are not on it.
pub(super) fn vanished(look: Look) -> bool {
    look.known > 0 && look.found == 0 && (look.entries == 0 || !look.same_dev)
        || !look.same_dev && look.known >= 10 && look.found * 2 < look.known
}

/// Marks one file. The clock of its grace starts when its folder is first seen without it.
pub(super) fn mark(db: &Connection, file: i64, why: Why, now_us: i64) -> Result<()> {
    db.prepare_cached(
        "UPDATE files SET missing_since = CASE WHEN missing_why = ?2 THEN coalesce(missing_since, ?3) ELSE ?3 END,
         missing_why = ?2 WHERE pk = ?1 AND (missing_why IS NULL OR missing_why <> ?2)",
    )?
    .execute((file, why.as_str(), now_us))?;
    Ok(())
}

/// Takes files out of the index that have been gone from a healthy root since before `before_us`.
/// The number of films, episodes, tracks and pictures among them.
pub(super) fn purge(db: &Connection, root: i64, before_us: i64) -> Result<u64> {
    let media: i64 = db
        .prepare_cached(
            "SELECT count(*) FROM files WHERE root = ?1 AND missing_why = 'file' AND missing_since < ?2
             AND class IN ('video', 'audio', 'photo')",
        )?
        .query_row((root, before_us), |r| r.get(0))?;
    db.prepare_cached("DELETE FROM files WHERE root = ?1 AND missing_why = 'file' AND missing_since < ?2")?
        .execute((root, before_us))?;
    // Side files come back with a scan; nothing hangs on them.
    db.prepare_cached(
        "DELETE FROM files WHERE root = ?1 AND missing_why = 'file' AND class IN ('subtitle', 'picture', 'nfo')",
    )?
    .execute([root])?;
    Ok(uint(media))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_without_its_mount_is_no_deletion() {
        let look = |known, found, entries, same_dev| vanished(Look { known, found, entries, same_dev });
        assert!(look(5, 0, 0, true), "empty where there was something");
        assert!(look(5, 0, 3, false), "another file system, nothing of ours on it");
        assert!(look(100, 30, 40, false), "another file system, most gone");
        assert!(!look(5, 0, 3, true), "all deleted, other things are there");
        assert!(!look(100, 90, 40, false), "a new device number after a reboot");
        assert!(!look(0, 0, 0, true), "a new library");
    }
}
