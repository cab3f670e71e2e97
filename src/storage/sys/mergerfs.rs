//! Pools that tell where a file is by extended attributes: mergerfs (`user.mergerfs.*`, its manual, "RUNTIME CONFIG"
//! and "getfattr") and Unraid's shfs (`system.LOCATION`, as its own web page reads it). The pool's process
//! answers; no file is opened through it.

use std::io;
use std::path::{Path, PathBuf};

/// Bytes of an attribute that are taken: the kernel's own limit (`XATTR_SIZE_MAX`).
const MAX_BYTES: usize = 64 << 10;
/// Branches of a pool that are believed.
const MAX_BRANCHES: usize = 1024;

/// A folder of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) path: PathBuf,
    /// `RW`, `RO` or `NC`.
    pub(crate) mode: String,
}

/// An extended attribute, whole.
///
/// # Errors
/// Whatever the kernel or the pool says; `ENODATA` where there is none.
pub(crate) fn attribute(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0_u8; MAX_BYTES];
    let n = rustix::fs::getxattr(path, name, &mut buffer[..])?;
    buffer.truncate(n);
    Ok(buffer)
}

/// `/a=RW:/b=RO`, or `/a=RW,4294967296:/b=NC` with a least free space of its own.
pub(crate) fn branches(text: &[u8]) -> Vec<Branch> {
    use std::os::unix::ffi::OsStrExt as _;
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    text.split(|c| *c == b':')
        .filter(|b| !b.is_empty())
        .take(MAX_BRANCHES)
        .map(|branch| {
            // A folder's name may hold `=`: the mode is behind the last one.
            let cut = branch.iter().rposition(|c| *c == b'=');
            let (path, mode) = cut.map_or((branch, &[][..]), |at| (&branch[..at], &branch[at + 1..]));
            let mode = String::from_utf8_lossy(mode);
            Branch {
                path: PathBuf::from(std::ffi::OsStr::from_bytes(path)),
                mode: mode.split(',').next().unwrap_or("").to_owned(),
            }
        })
        .collect()
}

/// The name of a policy (`epmfs`, `ff`, ..; its manual, "policies").
pub(crate) fn word(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches(['\0', '\n']);
    let is_word = !text.is_empty() && text.len() <= 32 && text.bytes().all(|c| c.is_ascii_alphanumeric());
    is_word.then(|| text.to_owned())
}

/// A path in an attribute.
pub(crate) fn path(text: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let text = text.split(|c| *c == 0).next().unwrap_or(&[]);
    text.starts_with(b"/").then(|| PathBuf::from(std::ffi::OsStr::from_bytes(text)))
}

/// Names of disks or pools in `system.LOCATION(S)`: `disk3`, or `disk1,disk2,cache`.
pub(crate) fn locations(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    text.trim_matches(['\0', '\n', ' '])
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty() && !n.contains('/') && *n != "." && *n != "..")
        .take(MAX_BRANCHES)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_folders_with_their_modes() {
        let got = branches(b"/mnt/disk1=RW:/mnt/a=b=RO,42949:/mnt/plain\0");
        let want: Vec<(&str, &str)> = vec![("/mnt/disk1", "RW"), ("/mnt/a=b", "RO"), ("/mnt/plain", "")];
        let got: Vec<(&str, &str)> =
            got.iter().map(|b| (b.path.to_str().unwrap(), b.mode.as_str())).collect();
        // The last has no `=` and so no mode.
        assert_eq!(got, want);
    }

    #[test]
    fn locations_name_disks_and_never_paths() {
        assert_eq!(locations(b"disk1, disk12,cache\0"), ["disk1", "disk12", "cache"]);
        assert_eq!(locations(b"../../etc,..,"), Vec::<String>::new());
    }

    #[test]
    fn a_policy_is_a_word() {
        assert_eq!(word(b"epmfs\0").as_deref(), Some("epmfs"));
        for odd in [&b""[..], b"a b", b"\xff", b"x\nwhy", &[b'a'; 40]] {
            assert_eq!(word(odd), None);
        }
    }

    #[test]
    fn a_relative_answer_is_no_place() {
        assert_eq!(path(b"/mnt/disk1/a.mkv\0"), Some(PathBuf::from("/mnt/disk1/a.mkv")));
        assert_eq!(path(b"a.mkv"), None);
    }
}
