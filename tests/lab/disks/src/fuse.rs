//! Devices as files of a FUSE mount, to put loop devices on. The kernel's protocol, as far as a loop device uses it.
//!
//! Structures and numbers: include/uapi/linux/fuse.h. Fields are in the machine's own byte order.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;

use rustix::mount::MountFlags;

use crate::device::{Command, Device};
use crate::drive::Kind;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;

const ENOENT: i32 = 2;
const EINVAL: i32 = 22;
const ENODEV: i32 = 19;
const ENOSYS: i32 = 38;

/// `FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES`: a loop device's requests come whole
/// and several at a time.
const FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
const LARGEST: u32 = 1 << 20;
/// A request of the largest write and its headers.
const BUFFER_BYTES: usize = LARGEST as usize + (64 << 10);
const IN_HEADER: usize = 40;
/// Names and sizes do not change while it is mounted.
const VALID_S: u64 = 3600;
const ROOT: u64 = 1;

/// A mount, served until it is unmounted.
pub struct Mount {
    link: Arc<File>,
    devices: Vec<Arc<Device>>,
}

/// Mounts the devices as files of `folder`. Needs `CAP_SYS_ADMIN`; no helper program is run.
///
/// # Errors
/// If `/dev/fuse` cannot be opened or the mount is refused.
pub fn mount(folder: &Path, devices: Vec<Arc<Device>>) -> io::Result<Mount> {
    let link = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", link.as_raw_fd());
    let options = CString::new(options).map_err(io::Error::other)?;
    rustix::mount::mount(
        "spindle-disks",
        folder,
        "fuse",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )?;
    Ok(Mount { link: Arc::new(link), devices })
}

/// Takes a mount away, also while it is in use: who has a file open keeps it until it is closed.
///
/// # Errors
/// If nothing is mounted there.
pub fn unmount(folder: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(folder, rustix::mount::UnmountFlags::DETACH)?)
}

impl Mount {
    /// Serves requests; returns when the mount is gone.
    ///
    /// # Errors
    /// If the kernel's end fails in another way.
    pub fn serve(&self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let n = match (&*self.link).read(&mut buffer) {
                Ok(n) => n,
                Err(e) => match e.raw_os_error() {
                    Some(ENODEV) => return Ok(()),
                    // Interrupted before it was read, or taken back: EINTR, EAGAIN, ENOENT.
                    Some(4 | 11 | ENOENT) => continue,
                    _ => return Err(e),
                },
            };
            if let Some(request) = Request::parse(&buffer[..n]) {
                self.handle(&request);
            }
        }
    }

    fn handle(&self, r: &Request<'_>) {
        match r.opcode {
            // These have no answer.
            FORGET | BATCH_FORGET | INTERRUPT => {}
            INIT => self.reply(r, &init(r)),
            LOOKUP => {
                let name = r.body.split(|b| *b == 0).next().unwrap_or(&[]);
                match self.devices.iter().position(|d| r.node == ROOT && d.name().as_bytes() == name) {
                    Some(i) => self.reply(r, &self.entry(i)),
                    None => self.fail(r, ENOENT),
                }
            }
            GETATTR | SETATTR => {
                let mut out = Out::default();
                out.u64(VALID_S).u32(0).u32(0).bytes(&self.attributes(r.node));
                self.reply(r, &out.0);
            }
            OPEN | OPENDIR => self.reply(r, &[0; 16]),
            READDIR => self.reply(r, &self.list(r)),
            STATFS => self.reply(
                r,
                &Out::default()
                    .u64(0)
                    .u64(0)
                    .u64(0)
                    .u64(0)
                    .u64(0)
                    .u32(4096)
                    .u32(255)
                    .u32(4096)
                    .bytes(&[0; 28])
                    .0,
            ),
            RELEASE | RELEASEDIR | FLUSH | DESTROY => self.reply(r, &[]),
            READ | WRITE | FSYNC | FALLOCATE => match self.device(r.node) {
                Some(device) => self.transfer(r, device),
                None => self.fail(r, ENOENT),
            },
            _ => self.fail(r, ENOSYS),
        }
    }

    fn transfer(&self, r: &Request<'_>, device: &Device) {
        let (at, size) = (r.u64(8), u64::from(r.u32(16)));
        let (link, unique) = (Arc::clone(&self.link), r.unique);
        match r.opcode {
            READ => {
                // Past the end there is nothing, which is no error for a file.
                let len_bytes = size.min(device.size_bytes().saturating_sub(at));
                let answer = Box::new(move |result: Result<Vec<u8>, i32>| send(&link, unique, result));
                device.submit(Command {
                    kind: Kind::Read,
                    at: at.min(device.size_bytes()),
                    len_bytes,
                    data: Vec::new(),
                    answer,
                });
            }
            WRITE => {
                let Some(data) = r.body.get(40..40 + r.u32(16) as usize) else { return self.fail(r, EINVAL) };
                let written = Out::default().u32(r.u32(16)).u32(0).0.clone();
                let answer = Box::new(move |result: Result<Vec<u8>, i32>| {
                    send(&link, unique, result.map(|_| written))
                });
                device.submit(Command {
                    kind: Kind::Write,
                    at,
                    len_bytes: size,
                    data: data.to_vec(),
                    answer,
                });
            }
            FSYNC => {
                let answer = Box::new(move |result: Result<Vec<u8>, i32>| send(&link, unique, result));
                device.submit(Command { kind: Kind::Flush, at: 0, len_bytes: 0, data: Vec::new(), answer });
            }
            _ => match device.allocate(r.u32(24), at, r.u64(16)) {
                Ok(()) => self.reply(r, &[]),
                Err(errno) => self.fail(r, errno),
            },
        }
    }

    fn device(&self, node: u64) -> Option<&Arc<Device>> {
        self.devices.get(usize::try_from(node.checked_sub(ROOT + 1)?).ok()?)
    }

    /// `struct fuse_attr`
    fn attributes(&self, node: u64) -> Vec<u8> {
        let size = self.device(node).map(|d| d.size_bytes());
        let mode = if size.is_some() { 0o100_600 } else { 0o040_755 };
        let size = size.unwrap_or(0);
        let mut out = Out::default();
        out.u64(node).u64(size).u64(size / 512).u64(0).u64(0).u64(0).u32(0).u32(0).u32(0);
        out.u32(mode).u32(1).u32(0).u32(0).u32(0).u32(4096).u32(0);
        out.0
    }

    /// `struct fuse_entry_out`
    fn entry(&self, index: usize) -> Vec<u8> {
        let node = index as u64 + ROOT + 1;
        let mut out = Out::default();
        out.u64(node).u64(0).u64(VALID_S).u64(VALID_S).u32(0).u32(0).bytes(&self.attributes(node));
        out.0
    }

    /// `struct fuse_dirent`s from the wanted place on, as many as fit.
    fn list(&self, r: &Request<'_>) -> Vec<u8> {
        let (from, room) = (usize::try_from(r.u64(8)).unwrap_or(usize::MAX), r.u32(16) as usize);
        let mut out = Out::default();
        for (i, device) in self.devices.iter().enumerate().skip(from) {
            let padded = (24 + device.name().len()).next_multiple_of(8);
            if out.0.len() + padded > room {
                break;
            }
            let end = out.0.len() + padded;
            let regular = 8; // DT_REG
            out.u64(i as u64 + 2)
                .u64(i as u64 + 1)
                .u32(device.name().len() as u32)
                .u32(regular)
                .bytes(device.name().as_bytes());
            out.0.resize(end, 0);
        }
        out.0
    }

    fn reply(&self, r: &Request<'_>, body: &[u8]) {
        send(&self.link, r.unique, Ok(body.to_vec()));
    }

    fn fail(&self, r: &Request<'_>, errno: i32) {
        send(&self.link, r.unique, Err(errno));
    }
}

/// Sends an answer. One that nobody waits for any more (the mount is gone) is dropped.
fn send(link: &File, unique: u64, result: Result<Vec<u8>, i32>) {
    let (errno, body) = match result {
        Ok(body) => (0, body),
        Err(errno) => (-errno, Vec::new()),
    };
    let mut head = Out::default();
    head.u32((16 + body.len()) as u32).u32(errno.cast_unsigned()).u64(unique);
    let mut link = link;
    let _ = link.write_vectored(&[IoSlice::new(&head.0), IoSlice::new(&body)]);
}

/// `struct fuse_init_out`
fn init(r: &Request<'_>) -> Vec<u8> {
    let (minor, offered) = (r.u32(4).min(38), r.u32(12));
    let pages = (LARGEST / 4096) as u16;
    let mut out = Out::default();
    out.u32(7).u32(minor).u32(LARGEST).u32(FLAGS & offered).u16(256).u16(192).u32(LARGEST).u32(1).u16(pages);
    out.0.resize(64, 0);
    out.0
}

struct Request<'a> {
    opcode: u32,
    unique: u64,
    node: u64,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let head = Request { opcode: 0, unique: 0, node: 0, body: bytes.get(..IN_HEADER)? };
        Some(Request {
            opcode: head.u32(4),
            unique: head.u64(8),
            node: head.u64(16),
            body: &bytes[IN_HEADER..],
        })
    }

    /// A field of the body; 0 where it is too short (older kernels send shorter ones).
    fn u32(&self, at: usize) -> u32 {
        self.body.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        self.body.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }
    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }
    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }
}
