//! What the worker takes from itself before it touches a byte of input: capabilities, the user
//! id if it is root, resources, the file system and most system calls.

use std::collections::BTreeMap;

use rustix::process::{Resource, Rlimit, Signal};
use spindle_transcode::protocol::Sandbox;

/// Address space. Frame threads of a 4K HEVC decoder with filters and x264 stay below 4 GiB.
const ADDRESS_SPACE_BYTES: u64 = 8 << 30;
/// Largest file it can write: one segment.
const FILE_BYTES: u64 = 4 << 30;
const NOBODY: u32 = 65_534;

/// Ends this process when the server does, even by `kill -9`.
pub(crate) fn follow_parent(parent: i32) -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| format!("unable to tie the worker to its server: {e}"))?;
    // If it died before that call, nobody will tell us any more.
    match rustix::process::getppid() {
        Some(now) if now.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err("the server that started this worker is gone".to_owned()),
    }
}

/// Locks the process in as far as this kernel allows, and says how far that is.
pub(crate) fn enter() -> Sandbox {
    let mut out = Sandbox { landlock: "none".to_owned(), ..Sandbox::default() };
    let mut missing = Vec::new();
    let mut step = |name: &str, result: Result<(), String>| match result {
        Ok(()) => true,
        Err(why) => {
            missing.push(format!("{name}: {why}"));
            false
        }
    };
    step("oom_score_adj", first_to_die());
    out.rlimits = step("rlimits", rlimits());
    out.capabilities_dropped = step("capabilities", drop_privileges());
    out.no_new_privs =
        step("no_new_privs", rustix::thread::set_no_new_privs(true).map_err(|e| e.to_string()));
    let (level, abi, result) = landlock();
    out.landlock = level;
    out.landlock_abi = abi;
    step("landlock", result);
    out.seccomp = step("seccomp", seccomp());
    out.uid = rustix::process::getuid().as_raw();
    out.missing = missing;
    out
}

/// Where memory runs out the kernel ends a worker, never the server (proc(5), `oom_score_adj`). Needs no privilege.
fn first_to_die() -> Result<(), String> {
    std::fs::write("/proc/self/oom_score_adj", "1000").map_err(|e| e.to_string())
}

fn rlimits() -> Result<(), String> {
    for (what, most) in [
        (Resource::As, ADDRESS_SPACE_BYTES),
        (Resource::Nofile, 64),
        (Resource::Fsize, FILE_BYTES),
        (Resource::Core, 0),
    ] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        rustix::process::setrlimit(what, limit).map_err(|e| format!("{what:?}: {e}"))?;
    }
    Ok(())
}

/// Gives up root and every capability. An unprivileged worker has none to give.
fn drop_privileges() -> Result<(), String> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    if rustix::process::geteuid().is_root() {
        // Per thread, and there is only this one yet.
        use rustix::fs::{Gid, Uid};
        rustix::thread::set_thread_groups(&[]).map_err(|e| format!("groups: {e}"))?;
        let gid = Gid::from_raw(NOBODY);
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(|e| format!("group: {e}"))?;
        let uid = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(|e| format!("user: {e}"))?;
        // Changing the user id clears the request to die with the parent (prctl(2)).
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| e.to_string())?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(|e| e.to_string())
}

/// No path may be opened at all: everything comes as a descriptor.
fn landlock() -> (String, u32, Result<(), String>) {
    use landlock::{ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetStatus};
    let locked = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V3))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.restrict_self());
    match locked {
        Ok(status) => {
            let (level, result) = match status.ruleset {
                RulesetStatus::FullyEnforced => ("full", Ok(())),
                // Older kernels lack the right to refuse truncation; opening is refused all the same.
                RulesetStatus::PartiallyEnforced => ("partial", Ok(())),
                RulesetStatus::NotEnforced => {
                    ("none", Err("this kernel does not have it, or has it off".to_owned()))
                }
            };
            (level.to_owned(), landlock_abi(), result)
        }
        Err(e) => ("none".to_owned(), 0, Err(e.to_string())),
    }
}

fn landlock_abi() -> u32 {
    // SAFETY: with a null pointer, size 0 and flag VERSION the call only returns a number
    // (landlock_create_ruleset(2)).
    #[expect(unsafe_code, reason = "the version query has no wrapper")]
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, 1) };
    u32::try_from(abi).unwrap_or(0)
}

/// Allow-list of system calls; anything else fails with EPERM.
fn seccomp() -> Result<(), String> {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };
    let allowed = [
        // Memory and threads: the allocator, codecs' thread pools, libnuma inside x265.
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_mlock,
        libc::SYS_futex,
        libc::SYS_rseq,
        libc::SYS_set_robust_list,
        libc::SYS_get_robust_list,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
        libc::SYS_get_mempolicy,
        libc::SYS_set_mempolicy,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        // Signals, identity, time.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_tgkill,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_getrusage,
        libc::SYS_getrandom,
        libc::SYS_sysinfo,
        libc::SYS_uname,
        libc::SYS_getcpu,
        libc::SYS_prctl,
        libc::SYS_restart_syscall,
        // Descriptors that we were given.
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_lseek,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_close,
        libc::SYS_dup,
        libc::SYS_fcntl,
        libc::SYS_ftruncate,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_recvmsg,
        libc::SYS_sendmsg,
        libc::SYS_recvfrom,
        libc::SYS_sendto,
        libc::SYS_fadvise64,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_seccomp,
        libc::SYS_clone3,
    ];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        allowed.into_iter().map(|call| (call, Vec::new())).collect();
    // Threads, no processes.
    let thread = u64::try_from(libc::CLONE_THREAD).unwrap_or(0);
    let is_thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), thread)
        .and_then(|c| SeccompRule::new(vec![c]))
        .map_err(|e| e.to_string())?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    // Opening for reading is left to Landlock where it is whole; here it always fails: no entry
    // for open, openat, socket, connect, execve, ptrace.
    let arch = std::env::consts::ARCH.try_into().map_err(|e: seccompiler::BackendError| e.to_string())?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow, arch)
            .map_err(|e| e.to_string())?;
    let program: BpfProgram = filter.try_into().map_err(|e: seccompiler::BackendError| e.to_string())?;
    // glibc tries clone3 first, whose flags lie in memory that a filter cannot see; ENOSYS makes it
    // fall back to clone.
    let only_clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let fall_back = SeccompFilter::new(
        only_clone3,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        arch,
    )
    .map_err(|e| e.to_string())?;
    let fall_back: BpfProgram = fall_back.try_into().map_err(|e: seccompiler::BackendError| e.to_string())?;
    // Of two filters that both answer an error, the one that was added last is heard. The first
    // therefore lets clone3 pass, and the call that adds the second, which can only take more away.
    seccompiler::apply_filter(&program).map_err(|e| e.to_string())?;
    seccompiler::apply_filter(&fall_back).map_err(|e| e.to_string())?;
    Ok(())
}
