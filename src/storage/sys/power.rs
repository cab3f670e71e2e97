//! Whether a disk is asleep, asked so that it stays so.
//!
//! ATA: CHECK POWER MODE (ACS-3, 7.3) inside a SCSI pass-through (SAT-3, 12.2); it does not spin a disk up.
//! SCSI: REQUEST SENSE (SPC-4, 6.39), which tells the power condition and starts nothing. NVMe has no state
//! from which it would need seconds to come back, and is not asked.

use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use super::scsi::{self, Direction, Sense};

/// What a disk said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Power {
    /// Spinning.
    Active,
    /// Spinning, heads perhaps parked: reads need no spin-up.
    Idle,
    /// Not spinning: the next read waits for it.
    Standby,
}

/// How a disk is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Language {
    /// ATA, directly or behind a translating bridge.
    Ata,
    /// SCSI's own.
    Scsi,
    /// NVMe.
    Nvme,
}

/// The state of the disk that `fd` is open on. ATA needs CAP_SYS_RAWIO.
pub(crate) fn state(fd: BorrowedFd<'_>, language: Language) -> io::Result<Power> {
    match language {
        Language::Nvme => Ok(Power::Active),
        Language::Ata => {
            // CK_COND: the answer is in the sense data, whatever came of it.
            let mut command = [0_u8; 16];
            command[0] = scsi::ATA_16;
            // Protocol 3: no data.
            command[1] = 3 << 1;
            command[2] = 0x20;
            command[14] = 0xE5;
            let sense = scsi::call(fd, &command, Direction::None, &mut [])?;
            let registers = sense.ata().ok_or_else(|| io::Error::other("no ATA registers in the answer"))?;
            Ok(ata_mode(registers.count))
        }
        Language::Scsi => {
            let mut answer = [0_u8; 96];
            scsi::call(fd, &[0x03, 1, 0, 0, 96, 0], Direction::In, &mut answer)?;
            Ok(scsi_condition(&Sense::new(&answer)))
        }
    }
}

/// Table "CHECK POWER MODE normal outputs" of ACS-3.
fn ata_mode(count: u8) -> Power {
    match count {
        // Standby, and its variants y and z (ACS-3: 00h, 01h).
        0x00 | 0x01 => Power::Standby,
        // NV cache power mode, spun down.
        0x40 => Power::Standby,
        0x41 | 0x80..=0x83 => Power::Idle,
        _ => Power::Active,
    }
}

/// Additional sense 5E: low power conditions (SPC-4, annex F); 04/02: stopped, to be started by a command.
fn scsi_condition(sense: &Sense) -> Power {
    match sense.additional() {
        Some((0x5E, 0x02 | 0x04 | 0x09 | 0x0A | 0x43)) | Some((0x04, 0x02)) => Power::Standby,
        Some((0x5E, _)) => Power::Idle,
        _ => Power::Active,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_the_standard_are_told_apart() {
        for (count, want) in [
            (0x00, Power::Standby),
            (0x40, Power::Standby),
            (0x80, Power::Idle),
            (0x83, Power::Idle),
            (0xFF, Power::Active),
        ] {
            assert_eq!(ata_mode(count), want, "{count:x}");
        }
    }

    #[test]
    fn a_stopped_scsi_disk_is_asleep_and_one_without_a_condition_is_not() {
        // Fixed format: additional sense at 12 and 13.
        let mut b = [0_u8; 18];
        b[0] = 0x70;
        assert_eq!(scsi_condition(&Sense::new(&b)), Power::Active);
        (b[12], b[13]) = (0x04, 0x02);
        assert_eq!(scsi_condition(&Sense::new(&b)), Power::Standby);
        (b[12], b[13]) = (0x5E, 0x03);
        assert_eq!(scsi_condition(&Sense::new(&b)), Power::Idle);
    }
}
