//! What is asked about a device besides its trace: tables, power, health, and where ZFS puts a file. Each is
//! one request to the kernel (or, for ZFS, one program), made by the helper or, where it may, by the server.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::sys::dm::{self, Table};
use crate::sys::power::{self, Language, Power};
use crate::sys::smart::{self, Smart};
use crate::topology::sysfs::Sysfs;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The table of a device-mapper volume.
    Dm { device: (u32, u32) },
    /// Whether a disk is asleep.
    Power { device: (u32, u32) },
    /// Temperature and health of a disk that is awake.
    Smart { device: (u32, u32) },
    /// Where the blocks of a file on ZFS lie, as text.
    Zdb { dataset: String, inode: u64 },
    /// What the vdevs of a ZFS pool are made of, as text.
    Zpool { pool: String },
}

/// Its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fact {
    Dm(Table),
    Power(Power),
    Smart(Smart),
    Zdb(String),
}

impl Question {
    /// Asks the kernel with what rights this thread has. `control` is device-mapper's control device, if that was
    /// opened before.
    pub(crate) fn ask(&self, control: Option<BorrowedFd<'_>>) -> Result<Fact, String> {
        match self {
            Self::Dm { device } => {
                is_dm(*device)?;
                let table = match control {
                    Some(control) => dm::table_by(control, *device),
                    None => dm::table(*device),
                };
                table.map(Fact::Dm).map_err(|e| denied("device-mapper table", &e))
            }
            Self::Power { device } => {
                let (fd, language) = open_disk(*device)?;
                power::state(fd.as_fd(), language).map(Fact::Power).map_err(|e| denied("power state", &e))
            }
            Self::Smart { device } => {
                let (fd, language) = open_disk(*device)?;
                // Some disks spin up to answer.
                if power::state(fd.as_fd(), language).is_ok_and(|p| p == Power::Standby) {
                    return Err("the disk is asleep, and is not woken for this".to_owned());
                }
                smart::read(fd.as_fd(), language).map(Fact::Smart).map_err(|e| denied("SMART", &e))
            }
            Self::Zdb { dataset, inode } => crate::sys::zdb::object(dataset, *inode)
                .map(Fact::Zdb)
                .map_err(|e| format!("unable to ask zdb about `{dataset}`: {e}")),
            Self::Zpool { pool } => crate::sys::zdb::config(pool)
                .map(Fact::Zdb)
                .map_err(|e| format!("unable to ask zdb about `{pool}`: {e}")),
        }
    }
}

fn denied(what: &str, e: &io::Error) -> String {
    match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::PermissionDenied, _) => format!("{what}: not permitted"),
        (io::ErrorKind::Unsupported, _) | (_, Some(libc::ENOTTY)) => {
            format!("{what}: the device does not tell it")
        }
        _ => format!("{what}: {e}"),
    }
}

fn directory((major, minor): (u32, u32)) -> Result<std::path::PathBuf, String> {
    Sysfs::system()
        .by_number((major, minor))
        .ok_or_else(|| format!("there is no block device {major}:{minor}"))
}

fn is_dm(device: (u32, u32)) -> Result<(), String> {
    let dir = directory(device)?;
    if dir.join("dm").exists() { Ok(()) } else { Err("it is no device-mapper volume".to_owned()) }
}

/// How the whole disk in `dir` is spoken to; `Err` says why not at all.
pub(crate) fn language(dir: &Path) -> Result<Language, String> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if dir.join("partition").exists() {
        return Err(format!("{name} is a partition"));
    }
    if name.starts_with("nvme") {
        return Ok(Language::Nvme);
    }
    // `scsi_level` is an attribute of SCSI devices alone; libata presents its disks as SCSI with this vendor, and
    // page 89h is what a translating bridge (USB) has.
    if !dir.join("device/scsi_level").exists() {
        return Err(format!("{name} is no disk that knows such commands"));
    }
    let is_ata = Sysfs::text(dir, "device/vendor").is_some_and(|v| v == "ATA");
    // The kernel shows the path with every bus on it.
    let is_usb = dir.to_string_lossy().contains("/usb");
    if dir.join("device/vpd_pg89").exists() || (is_ata && !is_usb) {
        return Ok(Language::Ata);
    }
    if is_usb {
        // It would answer for itself, always awake; and some hang on ATA commands that they do not know.
        return Err(format!("{name} is behind a USB bridge that does not pass such commands on"));
    }
    Ok(Language::Scsi)
}

/// Opens a whole disk for commands. Neither this nor closing it wakes a disk: no data is read, and without
/// `O_NONBLOCK` alone would a removable medium be looked for.
fn open_disk(device: (u32, u32)) -> Result<(OwnedFd, Language), String> {
    let dir = directory(device)?;
    let language = language(&dir)?;
    let name = dir.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
    let path = Path::new("/dev").join(&name);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&path, flags, Mode::empty())
        .map_err(|e| denied(&format!("`{}`", path.display()), &e.into()))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| e.to_string())?;
    let is_it = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device()
        && (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) == device;
    if is_it { Ok((fd, language)) } else { Err(format!("`{}` is another device", path.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn disk(files: &[(&str, &str)], name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(name);
        fs::create_dir_all(dir.join("device")).unwrap();
        for (file, text) in files {
            fs::write(dir.join(file), text).unwrap();
        }
        (root, dir)
    }

    #[test]
    fn a_disk_is_spoken_to_in_its_own_language() {
        let sat = [("device/scsi_level", "6"), ("device/vendor", "ATA     ")];
        let usb = [("device/scsi_level", "7"), ("device/vendor", "WD"), ("device/vpd_pg89", "")];
        let sas = [("device/scsi_level", "7"), ("device/vendor", "SEAGATE")];
        let of = |files: &[(&str, &str)], name: &str| {
            let (_root, dir) = disk(files, name);
            language(&dir)
        };
        assert_eq!(of(&sat, "sda"), Ok(Language::Ata));
        assert_eq!(of(&usb, "sdb"), Ok(Language::Ata));
        assert_eq!(of(&sas, "sdc"), Ok(Language::Scsi));
        assert_eq!(of(&[], "nvme0n1"), Ok(Language::Nvme));
        assert!(of(&[], "vda").is_err());
        assert!(of(&[("device/scsi_level", "7"), ("device/vendor", "WD")], "usb1/sde").is_err());
        assert!(of(&[("partition", "1"), ("device/scsi_level", "6")], "sda1").is_err());
    }

    #[test]
    fn a_device_that_is_not_there_is_said_not_to_be() {
        let question = Question::Power { device: (4095, 1) };
        assert_eq!(question.ask(None), Err("there is no block device 4095:1".to_owned()));
        assert!(Question::Dm { device: (4095, 1) }.ask(None).is_err());
    }
}
