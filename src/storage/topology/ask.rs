//! What sysfs does not tell and privilege or a program does. A parameter: tests answer from recordings.

use std::path::Path;

use super::figures::AskDisk;
use crate::sys::dm::Table;
use crate::sys::power::Power;
use crate::sys::smart::Smart;
use crate::trace::Trace;

/// Who may be asked. Every answer may be a reason why there is none.
pub(crate) trait Ask {
    /// The table of a device-mapper device. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn dm_table(&self, device: (u32, u32)) -> Result<Table, String>;
    /// `zpool status -P -L POOL`.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn zpool_status(&self, pool: &str) -> Result<String, String>;
    /// An extended attribute.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn attribute(&self, path: &Path, name: &str) -> Result<Vec<u8>, String>;
}

/// Nobody with privilege: sysfs, attributes and ZFS's own tool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unprivileged;

impl Ask for Unprivileged {
    fn dm_table(&self, _device: (u32, u32)) -> Result<Table, String> {
        Err("the table of a device-mapper device was not asked for".to_owned())
    }

    fn zpool_status(&self, pool: &str) -> Result<String, String> {
        crate::sys::zfs::status(pool)
    }

    fn attribute(&self, path: &Path, name: &str) -> Result<Vec<u8>, String> {
        crate::sys::mergerfs::attribute(path, name).map_err(|e| e.to_string())
    }
}

/// The helper, and where there is none this process with what it may.
#[derive(Debug, Clone)]
pub(crate) struct ByTrace(pub(crate) Trace);

impl Ask for ByTrace {
    fn dm_table(&self, device: (u32, u32)) -> Result<Table, String> {
        self.0.dm_table(device)
    }

    fn zpool_status(&self, pool: &str) -> Result<String, String> {
        Unprivileged.zpool_status(pool)
    }

    fn attribute(&self, path: &Path, name: &str) -> Result<Vec<u8>, String> {
        Unprivileged.attribute(path, name)
    }
}

impl AskDisk for ByTrace {
    fn power(&self, device: (u32, u32)) -> Result<Power, String> {
        self.0.power(device)
    }

    fn smart(&self, device: (u32, u32)) -> Result<Smart, String> {
        self.0.smart(device)
    }
}
