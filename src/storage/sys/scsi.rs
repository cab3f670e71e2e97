//! `SG_IO`: one SCSI command to a disk. include/scsi/sg.h; kernel filter in drivers/scsi/scsi_ioctl.c.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// ATA PASS-THROUGH (16), SAT-3.
pub(super) const ATA_16: u8 = 0x85;

const SG_IO: u32 = 0x2285;
/// A disk that is alive answers these commands in milliseconds.
const TIMEOUT_MS: u32 = 3_000;

/// `struct sg_io_hdr`.
#[repr(C)]
struct Header {
    interface_id: i32,
    direction: i32,
    command_len: u8,
    sense_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration: u32,
    info: u32,
}

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// No data.
    None,
    /// To us.
    In,
}

/// What a command left in the sense buffer (SPC-4, 4.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sense(Vec<u8>);

/// ATA status return (SAT-3, 12.2.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) count: u8,
    pub(super) lba_mid: u8,
    pub(super) lba_high: u8,
}

impl Sense {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    fn is_descriptor(&self) -> bool {
        self.0.first().is_some_and(|c| c & 0x7F >= 0x72)
    }

    /// Additional sense code and its qualifier.
    pub(super) fn additional(&self) -> Option<(u8, u8)> {
        let at = if self.is_descriptor() { 2 } else { 12 };
        Some((*self.0.get(at)?, *self.0.get(at + 1)?)).filter(|a| *a != (0, 0))
    }

    /// The registers that an ATA disk answered with.
    pub(super) fn ata(&self) -> Option<Registers> {
        if self.is_descriptor() {
            // Descriptors from byte 8: type 09h, length 0Ch.
            // A status of 0 is none: a disk that is there says that it is ready, or busy, or wrong.
            let d = self.0.get(8..22).filter(|d| d[0] == 0x09 && d[13] != 0)?;
            return Some(Registers { count: d[5], lba_mid: d[9], lba_high: d[11] });
        }
        // Fixed format: information field 3..7 = error, status, device, count; command-specific 8..12 =
        // flags, LBA low, mid, high.
        let d = self.0.get(0..12).filter(|d| d[0] & 0x7F == 0x70 && d[4] != 0)?;
        Some(Registers { count: d[6], lba_mid: d[10], lba_high: d[11] })
    }
}

/// Carries out one command; `data` receives what the disk sends.
pub(super) fn call(
    fd: BorrowedFd<'_>,
    command: &[u8],
    direction: Direction,
    data: &mut [u8],
) -> io::Result<Sense> {
    let mut sense = [0_u8; 64];
    let mut header = Header {
        interface_id: i32::from(b'S'),
        direction: if direction == Direction::In { -3 } else { -1 },
        command_len: u8::try_from(command.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        sense_max: 64,
        iovec_count: 0,
        data_len: u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        data: data.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_len: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: the header has the kernel's layout; its three pointers are valid for the lengths beside them
    // and live through the call; the kernel keeps none of them, since a command without a file of its own is
    // synchronous.
    // JUSTIFICATION: there is no wrapper for this request in our dependencies.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::Ioctl::from(SG_IO), &raw mut header) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    if header.host_status != 0 {
        return Err(io::Error::other(format!(
            "the disk did not answer (host status {:#x})",
            header.host_status
        )));
    }
    // Status 2, check condition, is how an ATA disk's registers come back.
    if !matches!(header.status, 0 | 2) {
        return Err(io::Error::other(format!("the disk refused the command (status {:#x})", header.status)));
    }
    let sense = Sense::new(&sense[..usize::from(header.sense_len).min(64)]);
    // Sense key 5: illegal request, for one the disk does not know.
    let key = if sense.is_descriptor() { sense.0.get(1) } else { sense.0.get(2) };
    if header.status == 2 && key.is_some_and(|k| k & 0xF == 5) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(sense)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registers_are_found_in_both_formats_of_sense_data() {
        let mut d = [0_u8; 22];
        (d[0], d[7], d[8], d[9]) = (0x72, 14, 0x09, 0x0C);
        (d[13], d[17], d[19], d[21]) = (0xFF, 0x4F, 0xC2, 0x50);
        let want = Registers { count: 0xFF, lba_mid: 0x4F, lba_high: 0xC2 };
        assert_eq!(Sense::new(&d).ata(), Some(want));
        let mut f = [0_u8; 18];
        (f[0], f[4], f[6], f[10], f[11]) = (0x70, 0x50, 0xFF, 0x4F, 0xC2);
        assert_eq!(Sense::new(&f).ata(), Some(want));
        // "Not ready" of a bridge holds no registers: no count of 0, which would be a disk that sleeps.
        f[4] = 0;
        assert_eq!(Sense::new(&f).ata(), None);
        assert_eq!(Sense::new(&[]).ata(), None);
        assert_eq!(Sense::new(&d[..20]).ata(), None);
    }
}
