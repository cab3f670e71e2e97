//! bcache by sysfs: Documentation/admin-guide/bcache.rst, drivers/md/bcache/sysfs.c. World-readable, wakes nothing.

use std::path::{Path, PathBuf};

use crate::topology::sysfs::Sysfs;

/// What a `bcacheN` device is made of and how it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bcache {
    /// sysfs directories of the slow side; none for a volume that lives on the cache set alone.
    pub(crate) backing: Vec<PathBuf>,
    /// sysfs directories of the cache devices.
    pub(crate) caches: Vec<PathBuf>,
    /// `writethrough`, `writeback`, `writearound` or `none`.
    pub(crate) mode: Option<String>,
    /// `no cache`, `clean`, `dirty` or `inconsistent`.
    pub(crate) state: Option<String>,
    /// What is on the cache alone, as the kernel words it (`1.2M`).
    pub(crate) dirty: Option<String>,
    /// Errors that the cache set has counted.
    pub(crate) io_errors: u64,
    pub(crate) why: Option<String>,
}

impl Bcache {
    /// For a person.
    pub(crate) fn state_text(&self) -> Option<String> {
        let dirty = self.dirty.as_ref().filter(|d| !matches!(d.as_str(), "0" | "0.0k"));
        let dirty = dirty.map(|d| format!("{d} on the cache alone"));
        let errors = (self.io_errors > 0).then(|| format!("{} cache errors", self.io_errors));
        crate::topology::md::join([self.mode.clone(), self.state.clone(), dirty, errors])
    }

    /// The cache set was lost while it held data, or counts errors.
    pub(crate) fn is_failing(&self) -> bool {
        self.state.as_deref() == Some("inconsistent") || self.io_errors > 0
    }
}

/// Reads the device whose directory is `dir` (`/sys/…/block/bcache0`), given the devices that sysfs lists below it.
pub(crate) fn read(dir: &Path, slaves: &[PathBuf]) -> Bcache {
    // `bcache0/bcache` leads to the backing device's own folder.
    let own = std::fs::canonicalize(dir.join("bcache")).unwrap_or_else(|_| dir.join("bcache"));
    let mut out = Bcache {
        mode: Sysfs::text(&own, "cache_mode").map(|t| chosen(&t)).filter(|m| !m.is_empty()),
        state: Sysfs::text(&own, "state").filter(|s| !s.is_empty()),
        dirty: Sysfs::text(&own, "dirty_data").filter(|d| !d.is_empty()),
        io_errors: Sysfs::number(&own, "io_errors").unwrap_or(0),
        ..Bcache::default()
    };
    let mut add = |list: fn(&mut Bcache) -> &mut Vec<PathBuf>, device: PathBuf| {
        if !list(&mut out).contains(&device) {
            list(&mut out).push(device);
        }
    };
    for device in slaves {
        let at = device.join("bcache");
        if at.join("set").exists() || at.join("bucket_size").exists() {
            add(|b| &mut b.caches, device.clone());
        } else {
            add(|b| &mut b.backing, device.clone());
        }
    }
    // `cache` leads to the cache set (/sys/fs/bcache/UUID), whose `cache0`.. lead to `…/sdX/bcache`.
    let set = own.join("cache");
    for name in Sysfs::names(&set) {
        if crate::topology::stack::is_numbered(&name, "cache")
            && let Ok(cache) = std::fs::canonicalize(set.join(&name))
            && let Some(device) = cache.parent()
        {
            add(|b| &mut b.caches, device.to_owned());
        }
    }
    for cache in &out.caches {
        let errors = Sysfs::number(&cache.join("bcache"), "io_errors").unwrap_or(0);
        out.io_errors = out.io_errors.saturating_add(errors);
    }
    if out.backing.is_empty() && out.caches.is_empty() {
        out.why = Some("sysfs shows nothing below it".to_owned());
    }
    out
}

/// The word in brackets: `writethrough [writeback] writearound none`.
fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    inner.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_mode_is_the_one_in_brackets() {
        assert_eq!(chosen("writethrough [writeback] writearound none"), "writeback");
        assert_eq!(chosen("none"), "none");
    }
}
