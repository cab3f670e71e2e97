//! `/proc/self/mountinfo`: which filesystem a path is on. Format: Documentation/filesystems/proc.rst 3.5.

use std::path::{Path, PathBuf};

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    /// Device of the superblock: the block device itself for ext4 and xfs, anonymous (0:N) for btrfs,
    /// where the `st_dev` of files differs from it per subvolume.
    pub(crate) device: (u32, u32),
    /// Which folder of the filesystem is shown there: `/` unless it is a bind mount or a subvolume.
    pub(crate) root: PathBuf,
    pub(crate) mount_point: PathBuf,
    pub(crate) kind: String,
    pub(crate) source: String,
    /// Options of the superblock, as written, separated by commas.
    pub(crate) options: String,
    /// The owner mounted it for writing (the mount's own options), and the filesystem takes no writes (the superblock's): it
    /// has found an error and stopped them.
    pub(crate) stopped_writes: bool,
}

impl Mount {
    /// The value of an option of the superblock, unescaped.
    pub(crate) fn option(&self, name: &str) -> Option<String> {
        self.values(name).next()
    }

    /// The values of an option that may be given several times.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        // Commas in values are written in octal (seq_show_option in include/linux/seq_file.h).
        self.options.split(',').filter_map(move |o| Some(unescape(o.strip_prefix(name)?.strip_prefix('=')?)))
    }
}

/// Parts between separators that no backslash stands before.
pub(crate) fn split_escaped(text: &str, by: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut is_escaped = false;
        for (at, c) in text.char_indices() {
            if c == by && !is_escaped {
                rest = Some(&text[at + c.len_utf8()..]);
                return Some(&text[..at]);
            }
            is_escaped = c == '\\' && !is_escaped;
        }
        rest = None;
        Some(text)
    })
}

/// Every line that can be understood.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(text: &str) -> Option<Mount> {
    let (left, right) = text.split_once(" - ")?;
    let mut left = left.split(' ');
    let id = left.next()?.parse().ok()?;
    let (major, minor) = left.nth(1)?.split_once(':')?;
    let root = unescape(left.next()?);
    let mount_point = unescape(left.next()?);
    let has = |options: &str, word: &str| options.split(',').any(|o| o == word);
    let is_writable_here = left.next().is_some_and(|o| has(o, "rw"));
    let mut right = right.split(' ');
    let (kind, source) = (right.next()?.to_owned(), unescape(right.next()?));
    let options = right.next().unwrap_or("").to_owned();
    Some(Mount {
        id,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: root.into(),
        mount_point: mount_point.into(),
        stopped_writes: is_writable_here && has(&options, "ro"),
        kind,
        source,
        options,
    })
}

/// Blank, tab, newline and backslash are written as three octal digits.
pub(crate) fn unescape(text: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let code = (bytes[i] == b'\\')
            .then(|| text.get(i + 1..i + 4))
            .flatten()
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        out.push(code.unwrap_or(bytes[i]));
        i += if code.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mount that `path` is on by its name alone, touching no disk. A symbolic link may lead elsewhere:
/// the opened file tells by its mount id.
pub(crate) fn of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Of several on the same point the last one hides the others.
    mounts
        .iter()
        .filter(|m| path.starts_with(&m.mount_point))
        .max_by_key(|m| m.mount_point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 25 0:44 /sub /srv/my\\040films rw - btrfs /dev/loop1 rw,subvol=/sub
41 25 0:45 / /srv rw shared:2 master:3 - xfs /dev/sdb1 rw
nonsense
42 41 0:46 / /srv rw - tmpfs none rw
";

    #[test]
    fn fields_are_found_whatever_the_number_of_tags() {
        let all = parse(TEXT);
        assert_eq!(all.len(), 4);
        assert_eq!(
            all[1],
            Mount {
                id: 40,
                device: (0, 44),
                root: "/sub".into(),
                mount_point: "/srv/my films".into(),
                kind: "btrfs".into(),
                source: "/dev/loop1".into(),
                options: "rw,subvol=/sub".into(),
                stopped_writes: false,
            }
        );
    }

    #[test]
    fn a_filesystem_that_stopped_writes_is_told_from_one_that_was_mounted_without() {
        let stopped = |text: &str| parse(text).remove(0).stopped_writes;
        assert!(stopped("1 0 8:1 / /m rw,relatime - ext4 /dev/sda1 ro,errors=remount-ro"));
        assert!(!stopped("1 0 8:1 / /m ro,relatime - ext4 /dev/sda1 ro"));
        assert!(!stopped("1 0 8:1 / /m rw - ext4 /dev/sda1 rw,errors=remount-ro"));
    }

    #[test]
    fn an_option_with_escaped_commas_is_one_value() {
        let text = "1 0 0:9 / /m rw - overlay overlay rw,lowerdir=/a\\054b\\134:c:/d,upperdir=/u\\040p";
        let mount = parse(text).remove(0);
        assert_eq!(mount.option("upperdir").as_deref(), Some("/u p"));
        // What is left is the overlay's own escape of its separator.
        assert_eq!(mount.option("lowerdir").as_deref(), Some("/a,b\\:c:/d"));
        assert_eq!(mount.option("workdir"), None);
        assert_eq!(split_escaped(r"/a\:x:/b::", ':').collect::<Vec<_>>(), [r"/a\:x", "/b", "", ""]);
    }

    #[test]
    fn the_longest_and_then_the_last_mount_point_wins() {
        let all = parse(TEXT);
        let id = |p: &str| of_path(&all, Path::new(p)).map(|m| m.id);
        assert_eq!(id("/srv/my films/a.mkv"), Some(40));
        assert_eq!(id("/srv/other"), Some(42));
        assert_eq!(id("/srvx"), Some(25));
    }
}
