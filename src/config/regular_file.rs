//! Files that a person names: settings, profiles, films to look at. A pipe holds nobody up, a device fills no memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Largest one that is read whole, in bytes.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// Opens a regular file. Never waits for a pipe's other end.
///
/// # Errors
/// What opening says; `InvalidInput` for anything but a file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    Ok(file)
}

/// The text of a regular file of at most [`MAX_BYTES`].
///
/// # Errors
/// What reading says; `InvalidInput` for anything but a file, `FileTooLarge` for more.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_folders_and_large_files_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "a = 1").unwrap();
        assert_eq!(read(&path).unwrap(), "a = 1");
        std::fs::write(&path, vec![b' '; MAX_BYTES as usize + 1]).unwrap();
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            assert_eq!(read(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
    }
}
