//! The file behind a file: a view of another filesystem's file (mergerfs, Unraid's user shares, overlay) lies where that
//! one does.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::error::StorageError;
use crate::file::FileIdentity;
use crate::reader::{look_at, open_regular};
use crate::storage::mount_of;
use crate::sys::{self, mergerfs};
use crate::topology::mounts::{Mount, split_escaped};

/// Views of views that are followed.
const MAX_VIEWS: usize = 4;

/// Opens `path` and whatever it is a view of, and gives the last one to `then`: its path, mount, descriptor, identity, and
/// whether it is another than `path`. A view that does not say what it is of is given itself.
pub(crate) fn followed<T>(
    path: &Path,
    then: impl FnOnce(&Path, &Mount, BorrowedFd<'_>, FileIdentity, bool) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    let mut at = path.to_owned();
    let (mut fd, mut identity, mut mount) = opened(&at)?;
    let mut views = 0;
    while views < MAX_VIEWS
        && let Some(next) = behind(&mount, fd.as_fd(), &at)
    {
        // The branch may be unreachable for us, or gone since: then the view itself has to do.
        let Ok((next_fd, next_identity, next_mount)) = opened(&next) else { break };
        if next_identity.size_bytes != identity.size_bytes {
            break;
        }
        (fd, identity, mount, at) = (next_fd, next_identity, next_mount, next);
        views += 1;
    }
    if is_view(&mount) {
        // It does not tell, so it is read itself.
        (fd, identity) = open_regular(&at)?;
    }
    then(&at, &mount, fd.as_fd(), identity, views > 0)
}

/// A file and its mount; one of a view is only looked at.
fn opened(path: &Path) -> Result<(OwnedFd, FileIdentity, Mount), StorageError> {
    let (fd, identity) = look_at(path)?;
    let mount = mount_of(fd.as_fd(), path)?;
    if is_view(&mount) {
        return Ok((fd, identity, mount));
    }
    let (fd, identity) = open_regular(path)?;
    Ok((fd, identity, mount))
}

/// Whether files of a mount may be read behind it: pools whose own process would do the reading. An overlay reads in the
/// reader's own thread.
pub(crate) fn is_view(mount: &Mount) -> bool {
    matches!(mount.kind.as_str(), "fuse.mergerfs" | "fuse.shfs")
}

/// What the file `path`, open as `fd`, is a view of.
pub(crate) fn behind(mount: &Mount, fd: BorrowedFd<'_>, path: &Path) -> Option<PathBuf> {
    match mount.kind.as_str() {
        // mergerfs answers for any file with the branch that it would open (its manual, "runtime interface").
        "fuse.mergerfs" => {
            mergerfs::attribute(path, "user.mergerfs.fullpath").ok().and_then(|text| mergerfs::path(&text))
        }
        // Unraid names the disk; the file has the same place on it as in the share (emhttp's own use of it).
        "fuse.shfs" => {
            let text = mergerfs::attribute(path, "system.LOCATION").ok()?;
            let disk = std::str::from_utf8(&text).ok()?.trim_end_matches('\0');
            let disk = Some(disk).filter(|d| is_plain_name(d))?;
            let within = real_path(fd)?.strip_prefix(&mount.mount_point).ok()?.to_owned();
            Some(Path::new("/mnt").join(disk).join(within))
        }
        "overlay" => overlay(mount, fd),
        _ => None,
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

/// Where an open file is, symbolic links resolved.
fn real_path(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// The layer's file. FIEMAP through the overlay is answered by it (fs/overlayfs/inode.c `ovl_fiemap`), so that the right
/// one has the same runs: that tells it from another of the same name in a lower layer.
fn overlay(mount: &Mount, fd: BorrowedFd<'_>) -> Option<PathBuf> {
    let within = real_path(fd)?.strip_prefix(&mount.mount_point).ok()?.to_owned();
    let wanted = sys::fiemap::extents(fd, true).ok()?;
    layers(mount).into_iter().map(|layer| layer.join(&within)).find(|file| {
        open_regular(file)
            .is_ok_and(|(layer, _)| sys::fiemap::extents(layer.as_fd(), false).is_ok_and(|e| e == wanted))
    })
}

/// The layers of an overlay, upper first.
fn layers(mount: &Mount) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = mount.values("upperdir").map(|dir| unescaped(&dir)).collect();
    for list in mount.values("lowerdir").chain(mount.values("lowerdir+")) {
        out.extend(split_escaped(&list, ':').filter(|d| !d.is_empty()).map(unescaped));
    }
    out
}

/// Without overlay's own backslashes.
fn unescaped(text: &str) -> PathBuf {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(if c == '\\' { chars.next().unwrap_or('\\') } else { c });
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_an_overlay_are_listed_from_the_top() {
        let options = "rw,lowerdir=/a\\134:b:/c::/data,upperdir=/up\\040per,workdir=/w,xino=off";
        let mount = Mount { options: options.to_owned(), ..Mount::default() };
        assert_eq!(layers(&mount), ["/up per", "/a:b", "/c", "/data"].map(PathBuf::from));
        assert!(layers(&Mount::default()).is_empty());
    }

    #[test]
    fn a_disk_name_cannot_lead_elsewhere() {
        for (name, fine) in [("disk1", true), ("cache", true), ("..", false), ("a/b", false), ("", false)] {
            assert_eq!(is_plain_name(name), fine, "{name}");
        }
    }
}
