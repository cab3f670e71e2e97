//! What the helper may do, kept as small as each request needs: nothing is in force but while it is used.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sys;

/// User and group without rights of their own on every distribution.
const NOBODY: u32 = 65534;

/// What the helper is asked to keep rights for, besides the trace and the maps of volumes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HelperRights {
    /// Power state, temperature and health of disks: CAP_SYS_RAWIO for the commands, CAP_DAC_READ_SEARCH to open
    /// the devices, CAP_SYS_ADMIN for NVMe.
    pub disks: bool,
    /// Where ZFS puts files: `zdb` is run with CAP_DAC_READ_SEARCH, because it reads the disks itself.
    pub zfs: bool,
    /// Answers questions and traces nothing: for a command that is over in a tenth of a second, where the kernel takes longer than
    /// that to let go of events that were opened (it waits until no processor can be inside the tracepoint).
    pub no_trace: bool,
}

impl HelperRights {
    /// For perf events of disks that are named later: CAP_PERFMON, and CAP_SYS_ADMIN where the kernel is stricter than
    /// upstream's. Debian's and Ubuntu's kernels carry a patch with `perf_event_paranoid` above 2, at which
    /// `perf_event_open(2)` asks for CAP_SYS_ADMIN alone; upstream's highest is 2.
    pub(super) fn of_trace() -> CapabilitySet {
        Self::of_trace_at(std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok().as_deref())
    }

    fn of_trace_at(paranoid: Option<&str>) -> CapabilitySet {
        let is_strict = paranoid.and_then(|p| p.trim().parse::<i32>().ok()).is_some_and(|p| p > 2);
        if is_strict { CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN } else { CapabilitySet::PERFMON }
    }

    /// For chunk trees and device-mapper tables; the control device is opened before rights are dropped.
    pub(super) const MAPS: CapabilitySet = CapabilitySet::SYS_ADMIN;

    /// For questions to a disk itself.
    pub(super) fn of_disks(self) -> CapabilitySet {
        let mut set = CapabilitySet::empty();
        if self.disks {
            set |= CapabilitySet::SYS_RAWIO | CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_READ_SEARCH;
        }
        if self.zfs {
            set |= CapabilitySet::DAC_READ_SEARCH;
        }
        set
    }
}

/// Becomes nobody, where this is root, and keeps of `keep` what is there; none of it in force. All threads that
/// exist must be this one.
pub(super) fn drop_all_but(keep: CapabilitySet) -> io::Result<()> {
    let has = rustix::thread::capabilities(None)?;
    let keep = has.permitted & keep;
    if has.effective.contains(CapabilitySet::SETPCAP) {
        for one in CapabilitySet::all().iter().filter(|c| !keep.contains(*c)) {
            // A number that this kernel does not know yet is not there either.
            let _ = rustix::thread::remove_capability_from_bounding_set(one);
        }
    }
    if rustix::process::geteuid().is_root() {
        rustix::thread::set_keep_capabilities(true)?;
        sys::become_user(NOBODY, NOBODY)?;
        rustix::thread::set_keep_capabilities(false)?;
    }
    set(CapabilitySet::empty(), keep, CapabilitySet::empty())?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Gives up everything but `keep` in this thread.
pub(super) fn narrow(keep: CapabilitySet) -> io::Result<()> {
    let has = rustix::thread::capabilities(None)?;
    set(CapabilitySet::empty(), has.permitted & keep, CapabilitySet::empty())
}

fn set(effective: CapabilitySet, permitted: CapabilitySet, inheritable: CapabilitySet) -> io::Result<()> {
    Ok(rustix::thread::set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

/// Does `work` with `rights` in force, as far as they are there, and puts them away again.
pub(super) fn with<T>(rights: CapabilitySet, work: impl FnOnce() -> T) -> io::Result<T> {
    let permitted = rustix::thread::capabilities(None)?.permitted;
    set(permitted & rights, permitted, CapabilitySet::empty())?;
    let out = work();
    set(CapabilitySet::empty(), permitted, CapabilitySet::empty())?;
    Ok(out)
}

/// As [`with`], for a program that is started meanwhile: it has them, too.
pub(super) fn lending<T>(rights: CapabilitySet, work: impl FnOnce() -> T) -> io::Result<T> {
    use rustix::thread::{clear_ambient_capability_set, configure_capability_in_ambient_set};
    let permitted = rustix::thread::capabilities(None)?.permitted;
    let lent = permitted & rights;
    set(lent, permitted, lent)?;
    for one in lent.iter() {
        configure_capability_in_ambient_set(one, true)?;
    }
    let out = work();
    clear_ambient_capability_set()?;
    set(CapabilitySet::empty(), permitted, CapabilitySet::empty())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_stricter_than_upstream_costs_the_trace_one_right_more() {
        let of = |p| HelperRights::of_trace_at(p);
        for p in [Some("-1\n"), Some("2\n"), None, Some("what?")] {
            assert_eq!(of(p), CapabilitySet::PERFMON, "{p:?}");
        }
        for p in [Some("3\n"), Some("4\n")] {
            assert_eq!(of(p), CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN, "{p:?}");
        }
    }
}
