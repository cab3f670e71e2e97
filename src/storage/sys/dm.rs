//! Device-mapper tables: what a dm device is made of. `DM_TABLE_STATUS` on `/dev/mapper/control`, which takes
//! CAP_SYS_ADMIN. Numbers and structs: include/uapi/linux/dm-ioctl.h. What the kernel answers is bounded, its
//! texts are parsed by [`target`].
//!
//! A table of dm-crypt holds the key: the buffers are wiped, and no key leaves this module.

pub(crate) mod target;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use serde::{Deserialize, Serialize};

use super::{field_u32, field_u64, ioctl_buffer};
pub(crate) use target::{Kind, Raid, Region};

/// `DM_TABLE_STATUS`: `_IOWR(0xfd, 12, struct dm_ioctl)`.
const TABLE_STATUS: u32 = 0xC138_FD0C;
const HEADER_BYTES: usize = 312;
const SPEC_BYTES: usize = 40;
/// The interface has been at 4.x since 2003; the kernel checks the major number alone.
const VERSION: u32 = 4;
const STATUS_TABLE: u32 = 1 << 4;
const BUFFER_FULL: u32 = 1 << 8;
/// Asks without committing a thin pool's metadata first.
const NO_FLUSH: u32 = 1 << 11;
/// The kernel wipes its own copy of the buffer.
const SECURE_DATA: u32 = 1 << 15;
/// First buffer; it is doubled until the answer fits, up to the limit.
const FIRST_BYTES: usize = 16 << 10;
/// LVM makes a target per extent of a fragmented volume: 4 MiB hold some 40,000.
const MAX_BYTES: usize = 4 << 20;
/// Of one target's status.
const MAX_STATUS_CHARS: usize = 1024;

/// A dm device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// Its prefix tells who made it: `LVM-`, `CRYPT-`, `mpath-`.
    pub(crate) uuid: String,
    /// In order of their place in the device.
    pub(crate) targets: Vec<Target>,
}

/// One run of a dm device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) start_bytes: u64,
    pub(crate) len_bytes: u64,
    pub(crate) kind: Kind,
    /// The target's own account of how it does (`dmsetup status`), where it gives one.
    pub(crate) status: Option<String>,
}

/// The table of device `major:minor`.
///
/// # Errors
/// `NotFound` where device-mapper is not there (or no such device: `ENXIO`), `PermissionDenied` without CAP_SYS_ADMIN.
pub(crate) fn table(device: (u32, u32)) -> io::Result<Table> {
    table_by(control()?.as_fd(), device)
}

/// The control device, which only root's rights to files open.
///
/// # Errors
/// `NotFound` where device-mapper is not there.
pub(crate) fn control() -> io::Result<std::fs::File> {
    std::fs::File::options().read(true).write(true).open("/dev/mapper/control")
}

/// As [`table`], over a control device that was opened before.
///
/// # Errors
/// As [`table`].
pub(crate) fn table_by(control: BorrowedFd<'_>, device: (u32, u32)) -> io::Result<Table> {
    let (name, uuid, mut targets) = ask(control, device, STATUS_TABLE, |b| {
        let text = |at: usize, len: usize| c_text(b.get(at..at + len).unwrap_or(&[]), 160);
        Some((text(48, 128), text(176, 129), tables(b)))
    })?;
    // A second question; the table stands without it.
    let statuses = ask(control, device, 0, |b| Some(statuses(b))).unwrap_or_default();
    for target in &mut targets {
        let its = statuses.iter().find(|(start, text)| *start == target.start_bytes && !text.is_empty());
        target.status = its.map(|(_, text)| text.clone());
    }
    Ok(Table { name, uuid, targets })
}

fn ask<T>(
    control: BorrowedFd<'_>,
    device: (u32, u32),
    flags: u32,
    read: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<T> {
    let mut bytes = FIRST_BYTES;
    loop {
        let mut b = vec![0_u8; bytes];
        put_u32(&mut b, 0, VERSION);
        put_u32(&mut b, 12, u32::try_from(bytes).unwrap_or(u32::MAX));
        put_u32(&mut b, 16, u32::try_from(HEADER_BYTES).unwrap_or(0));
        put_u32(&mut b, 28, flags | NO_FLUSH | SECURE_DATA);
        b[40..48].copy_from_slice(&encode(device).to_ne_bytes());
        ioctl_buffer(control, TABLE_STATUS, &mut b, HEADER_BYTES)?;
        let is_full = field_u32(&b, 28).unwrap_or(0) & BUFFER_FULL != 0;
        let out = if is_full { None } else { read(&b) };
        b.fill(0);
        // So that the wiping is not dropped as dead.
        std::hint::black_box(&b);
        match out {
            Some(out) => return Ok(out),
            None if is_full && bytes < MAX_BYTES => bytes *= 2,
            None => return Err(io::Error::other("the table is larger than is read here")),
        }
    }
}

/// `huge_encode_dev` (include/linux/kdev_t.h).
fn encode((major, minor): (u32, u32)) -> u64 {
    u64::from((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

fn put_u32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_ne_bytes());
}

/// The specs of an answer: (start and length in bytes, type, text).
fn specs(b: &[u8]) -> Vec<(u64, u64, String, &[u8])> {
    let mut out = Vec::new();
    let count = field_u32(b, 20).unwrap_or(0);
    let Some(first) = field_u32(b, 16).map(|n| n as usize).filter(|n| *n >= HEADER_BYTES) else { return out };
    let mut at = first;
    for _ in 0..count {
        let (Some(start), Some(len), Some(next)) =
            (field_u64(b, at), field_u64(b, at + 8), field_u32(b, at + 20))
        else {
            break;
        };
        let Some(word) = b.get(at + 24..at + SPEC_BYTES) else { break };
        // From the first spec, and only ever forward: an answer that points back would never end.
        let end = first.saturating_add(next as usize);
        let text_end = if end > at { end.min(b.len()) } else { b.len() };
        let text = b.get(at + SPEC_BYTES..text_end).unwrap_or(&[]);
        let text = text.split(|c| *c == 0).next().unwrap_or(&[]);
        out.push((start.saturating_mul(512), len.saturating_mul(512), c_text(word, 16), text));
        if end <= at {
            break;
        }
        at = end;
    }
    out
}

fn tables(b: &[u8]) -> Vec<Target> {
    let of = |(start_bytes, len_bytes, word, text): (u64, u64, String, &[u8])| Target {
        start_bytes,
        len_bytes,
        kind: target::parse(&word, &String::from_utf8_lossy(text)),
        status: None,
    };
    specs(b).into_iter().map(of).collect()
}

fn statuses(b: &[u8]) -> Vec<(u64, String)> {
    specs(b).into_iter().map(|(start, _, _, text)| (start, c_text(text, MAX_STATUS_CHARS))).collect()
}

/// Up to the first zero byte, at most `max` characters, control characters as blanks.
fn c_text(b: &[u8], max: usize) -> String {
    let b = b.split(|c| *c == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(b).chars().take(max).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer as the kernel lays it out: header, then specs, each with its text, padded to 8 bytes.
    fn answer(specs: &[(u64, u64, &str, &str)]) -> Vec<u8> {
        let mut b = vec![0_u8; HEADER_BYTES];
        put_u32(&mut b, 16, 312);
        put_u32(&mut b, 20, u32::try_from(specs.len()).unwrap());
        for (start, len, word, text) in specs {
            let at = b.len();
            let mut spec = vec![0_u8; SPEC_BYTES];
            spec[0..8].copy_from_slice(&start.to_ne_bytes());
            spec[8..16].copy_from_slice(&len.to_ne_bytes());
            spec[24..24 + word.len()].copy_from_slice(word.as_bytes());
            b.extend(&spec);
            b.extend(text.as_bytes());
            b.push(0);
            while !b.len().is_multiple_of(8) {
                b.push(0);
            }
            let next = u32::try_from(b.len() - HEADER_BYTES).unwrap();
            put_u32(&mut b, at + 20, next);
        }
        b
    }

    #[test]
    fn the_targets_of_a_volume_follow_each_other() {
        let b = answer(&[
            (0, 100, "linear", "254:32 2048"),
            (100, 50, "linear", "254:48 0"),
            (150, 8, "zero", ""),
        ]);
        let got = tables(&b);
        assert_eq!(got.len(), 3);
        assert_eq!((got[1].start_bytes, got[1].len_bytes), (51_200, 25_600));
        assert_eq!(got[0].kind, Kind::Linear(Region { device: (254, 32), offset_bytes: 1 << 20 }));
        assert_eq!(got[2].kind, Kind::Zero);
        assert_eq!(statuses(&b)[0], (0, "254:32 2048".to_owned()));
    }

    #[test]
    fn an_answer_cut_or_changed_anywhere_is_never_a_panic_nor_endless() {
        let whole = answer(&[(0, 100, "linear", "254:32 2048"), (100, 50, "striped", "2 128 1:2 3 4:5 6")]);
        for n in 0..whole.len() {
            assert!(tables(&whole[..n]).len() <= 2);
            for value in [0_u8, 1, 0x7f, 0xff] {
                let mut b = whole.clone();
                b[n] = value;
                assert!(tables(&b).len() <= 64, "byte {n} = {value}");
            }
        }
        let mut b = whole;
        put_u32(&mut b, 20, u32::MAX);
        assert_eq!(tables(&b).len(), 2);
    }

    #[test]
    fn device_numbers_are_encoded_as_the_kernel_does() {
        assert_eq!(encode((254, 3)), 0xfe03);
        assert_eq!(encode((259, 0x123)), 0x11_0323);
    }

    #[test]
    fn without_device_mapper_or_privilege_the_reason_is_an_error() {
        if !std::path::Path::new("/dev/mapper/control").exists() {
            assert_eq!(table((254, 0)).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
