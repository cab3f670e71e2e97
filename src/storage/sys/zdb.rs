//! `zdb`, the one way by which ZFS says where a file's blocks lie. It reads the pool's disks itself.

use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use spindle_base::clock;

/// A file of 60 GiB in records of 128 KiB is 490,000 lines of about 90 bytes.
const MAX_BYTES: u64 = 64 << 20;
/// It walks the file's tree on disk.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where distributions put it; no search path is trusted.
const PROGRAMS: [&str; 4] = ["/usr/sbin/zdb", "/sbin/zdb", "/usr/local/sbin/zdb", "/usr/bin/zdb"];

/// Whether a name may be given to the program: `pool/dataset`, as zfsconcepts(7) has them.
pub(crate) fn is_dataset(name: &str) -> bool {
    let is_part = |p: &str| {
        !p.is_empty()
            && p.starts_with(|c: char| c.is_ascii_alphanumeric())
            && p.chars().all(|c| c.is_ascii_alphanumeric() || "-_.: ".contains(c))
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

/// The text of `zdb -ddddd DATASET INODE`.
pub(crate) fn object(dataset: &str, inode: u64) -> io::Result<String> {
    if !is_dataset(dataset) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no name of a dataset"));
    }
    let program = PROGRAMS.iter().find(|p| std::fs::exists(p).unwrap_or(false));
    let program = program.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "zdb is not installed"))?;
    let mut child = Command::new(program)
        .args(["-ddddd", dataset, &inode.to_string()])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let Some(out) = child.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let reader = std::thread::Builder::new().name("zdb".to_owned()).spawn(move || {
        let mut text = Vec::new();
        out.take(MAX_BYTES).read_to_end(&mut text).map(|_| text)
    })?;
    let deadline = clock::instant() + PATIENCE;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if clock::instant() < deadline => std::thread::sleep(Duration::from_millis(5)),
            None => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "zdb did not end"));
            }
        }
    };
    let text = reader.join().map_err(|_| io::Error::other("the reader of zdb panicked"))??;
    if !status.success() {
        return Err(io::Error::other(format!("zdb failed ({status})")));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_datasets_reach_the_program() {
        for name in ["tank", "tank/media", "tank/My Films.2024", "a-b_c:d"] {
            assert!(is_dataset(name), "{name}");
        }
        for name in ["", "-e", "tank/", "tank//x", "../etc", "tank/-x", "tank;x", "tank\n", "tank@snap"] {
            assert!(!is_dataset(name), "{name}");
        }
    }
}
