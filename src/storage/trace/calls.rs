//! The system calls that the helper's threads keep: what their requests need, and nothing that starts a program,
//! reaches the network, changes a file, a process or a mount. Anything else fails with EPERM.

use std::collections::BTreeMap;

/// Memory, threads that exist, time, and leaving.
const OF_ALL: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_prctl,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // The socket of the server, and the log.
    libc::SYS_ppoll,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    // sysfs, /proc/self, and a disk's device: reading only, as nobody.
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    // Putting a right into force and away again.
    libc::SYS_capget,
    libc::SYS_capset,
];

/// Of the thread that traces.
const OF_TRACE: &[libc::c_long] = &[libc::SYS_perf_event_open];

/// Older names of the same calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLD: &[libc::c_long] =
    &[libc::SYS_poll, libc::SYS_readlink, libc::SYS_open, libc::SYS_stat, libc::SYS_lstat];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[libc::c_long] = &[];

/// Keeps this thread to its calls. Needs `no_new_privs`, which the helper has set by then.
pub(super) fn keep(is_trace: bool) -> Result<(), String> {
    use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter};
    let more = if is_trace { OF_TRACE } else { &[] };
    let rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>> =
        OF_ALL.iter().chain(more).chain(OLD).map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().map_err(|e: BackendError| e.to_string())?;
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, denied, SeccompAction::Allow, arch).map_err(|e| e.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|e: BackendError| e.to_string())?;
    seccompiler::apply_filter(&program).map_err(|e| e.to_string())
}
