//! Where the kernel's trees are: parameters, so that tests run over recorded ones.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::mounts::{self, Mount};
use super::sysfs::Sysfs;

/// How a path may be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Fully, which may read directories: what a command does.
    Open,
    /// As far as it is in memory (`RESOLVE_CACHED`), else by its name: what a page view does. Wakes no disk.
    Cached,
    /// By its name alone: recorded trees.
    ByName,
}

/// The kernel's trees.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    sys: PathBuf,
    proc: PathBuf,
    dev: PathBuf,
    run: PathBuf,
    pub(crate) look: Look,
}

/// What a path was found to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Without symbolic links, where it could be looked up.
    pub(crate) path: PathBuf,
    /// Mount id, where it could be looked up.
    pub(crate) mount_id: Option<u64>,
    /// Whether it is a regular file; `None` where it was not looked at.
    pub(crate) is_file: Option<bool>,
}

impl Roots {
    /// This machine's.
    pub(crate) fn system(look: Look) -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into(), dev: "/dev".into(), run: "/run".into(), look }
    }

    /// This machine's, with another `/sys`.
    pub(crate) fn with_sys(sys: &Sysfs, look: Look) -> Self {
        Self { sys: sys.root().to_owned(), ..Self::system(look) }
    }

    /// A recorded machine: `sys`, `proc`, `dev`, `run` below `root`.
    #[cfg(test)]
    pub(crate) fn recorded(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            proc: root.join("proc"),
            dev: root.join("dev"),
            run: root.join("run"),
            look: Look::ByName,
        }
    }

    pub(crate) fn sysfs(&self) -> Sysfs {
        Sysfs::new(&self.sys)
    }

    /// A file of `/proc`, `/run` or `/sys`; `None` where it is not there or not text.
    pub(crate) fn proc_text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.proc.join(name)).ok()
    }

    pub(crate) fn mounts(&self) -> Option<Vec<Mount>> {
        self.proc_text("self/mountinfo").map(|t| mounts::parse(&t))
    }

    /// What udev found out about a block device: the value of `E:KEY=` in its database.
    pub(crate) fn udev(&self, (major, minor): (u32, u32), key: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.run.join(format!("udev/data/b{major}:{minor}"))).ok()?;
        let value = text.lines().find_map(|l| l.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='))?;
        Some(value.to_owned()).filter(|v| !v.is_empty())
    }

    /// The identifier under which `/dev/disk/by-uuid` lists a device.
    pub(crate) fn uuid_of(&self, device_name: &str) -> Option<String> {
        let entries = std::fs::read_dir(self.dev.join("disk/by-uuid")).ok()?;
        entries.flatten().take(4096).find_map(|e| {
            let target = std::fs::read_link(e.path()).ok()?;
            let is_it = target.file_name()?.to_str()? == device_name;
            is_it.then(|| e.file_name().to_string_lossy().into_owned())
        })
    }

    /// The ZFS volume (`pool/name`) that a device `zdN` is, by the links in `/dev/zvol`.
    pub(crate) fn zvol(&self, device_name: &str) -> Option<String> {
        let top = self.dev.join("zvol");
        let mut folders = vec![top.clone()];
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).ok()?.flatten() {
                looked_at += 1;
                if looked_at > 16_384 {
                    return None;
                }
                let path = entry.path();
                match std::fs::read_link(&path) {
                    Ok(target) if target.file_name().is_some_and(|n| n == device_name) => {
                        return Some(path.strip_prefix(&top).ok()?.display().to_string());
                    }
                    Ok(_) => {}
                    Err(_) => folders.push(path),
                }
            }
        }
        None
    }

    /// The sysfs directory of a block device by the name that a filesystem, pool or person uses for it:
    /// `/dev/sda1`, `/dev/mapper/NAME`, `/dev/VG/LV`, a link of `/dev/disk`, or a bare kernel name.
    pub(crate) fn block_device(&self, name: &str) -> Option<PathBuf> {
        let sys = self.sysfs();
        let Some(rest) = name.strip_prefix("/dev/") else {
            return sys.by_name(name);
        };
        if let Some(dir) = sys.by_name(&rest.replace('/', "!")) {
            return Some(dir);
        }
        let on_disk = self.dev.join(rest);
        // devtmpfs is in memory: neither call waits for a disk.
        if let Some(target) = std::fs::canonicalize(&on_disk).ok().as_deref().and_then(Path::file_name)
            && let Some(dir) = sys.by_name(&target.to_string_lossy())
        {
            return Some(dir);
        }
        if self.look != Look::ByName
            && let Ok(stat) = rustix::fs::stat(&on_disk)
            && let Some(dir) =
                sys.by_number((rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)))
        {
            return Some(dir);
        }
        let mapped = match rest.strip_prefix("mapper/") {
            Some(mapped) => mapped.to_owned(),
            // LVM doubles the hyphens within its names and joins them by one.
            None => rest
                .split_once('/')
                .map(|(vg, lv)| format!("{}-{}", vg.replace('-', "--"), lv.replace('-', "--")))?,
        };
        sys.mapped(&mapped)
    }

    /// A descriptor that stands for the name (`O_PATH`), as far as it may be looked up.
    fn open(&self, path: &Path) -> std::io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(match self.look {
            Look::ByName => None,
            Look::Open => Some(rustix::fs::open(path, flags, Mode::empty())?),
            // Not in memory, or a kernel before 5.12: by its name, then.
            Look::Cached => rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok(),
        })
    }

    /// The mount of a path that the table does not list (below a changed root), by what the file itself tells.
    pub(crate) fn unlisted(&self, path: &Path) -> Option<Mount> {
        let fd = self.open(path).ok()??;
        crate::storage::mount_of_unlisted(fd.as_fd(), path).ok()
    }

    /// Looks a path up as far as is allowed.
    ///
    /// # Errors
    /// Where it is allowed in full and fails.
    pub(crate) fn find(&self, path: &Path) -> std::io::Result<Found> {
        let Some(fd) = self.open(path)? else {
            return Ok(Found { path: by_name(path), mount_id: None, is_file: None });
        };
        let raw = fd.as_raw_fd();
        let info = self.proc_text(&format!("self/fdinfo/{raw}")).unwrap_or_default();
        let mount_id = info.lines().find_map(|l| l.strip_prefix("mnt_id:")?.trim().parse().ok());
        let real =
            std::fs::read_link(self.proc.join(format!("self/fd/{raw}"))).unwrap_or_else(|_| by_name(path));
        let mode =
            if self.look == Look::Open { rustix::fs::fstat(&fd).ok().map(|s| s.st_mode) } else { None };
        let is_file = mode.map(|m| rustix::fs::FileType::from_raw_mode(m).is_file());
        Ok(Found { path: real, mount_id, is_file })
    }
}

/// The path without `.` and `..`, by its name alone.
fn by_name(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}
