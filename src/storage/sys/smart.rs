//! Temperature and health of a disk, as it judges itself. Whoever asks makes sure that it is awake first.
//!
//! ATA: SMART RETURN STATUS and READ DATA (ATA8-ACS, 7.52) by pass-through; SCSI: LOG SENSE pages 0Dh and
//! 2Fh (SPC-4, 7.3); NVMe: SMART / Health log page 02h (NVM Express base specification, 5.16.1.3).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use serde::{Deserialize, Serialize};

use super::power::Language;
use super::scsi::{self, Direction};

/// What a disk says of itself; what it does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Smart {
    /// Degrees Celsius.
    pub(crate) temperature_c: Option<i32>,
    /// Whether it expects to go on working.
    pub(crate) is_healthy: Option<bool>,
    /// In words, where it does not.
    pub(crate) why: Option<String>,
    /// What is worth a word all the same: sectors that were replaced or cannot be read, wear.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// Asks the disk that `fd` is open on. ATA needs CAP_SYS_RAWIO, NVMe CAP_SYS_ADMIN.
pub(crate) fn read(fd: BorrowedFd<'_>, language: Language) -> io::Result<Smart> {
    match language {
        Language::Ata => ata(fd),
        Language::Scsi => scsi_pages(fd),
        Language::Nvme => nvme(fd),
    }
}

fn ata_command(feature: u8, protocol: u8, flags: u8, count: u8) -> [u8; 16] {
    let mut c = [0_u8; 16];
    c[0] = scsi::ATA_16;
    c[1] = protocol << 1;
    c[2] = flags;
    c[4] = feature;
    c[6] = count;
    // The signature of SMART: LBA mid 4Fh, high C2h.
    (c[10], c[12]) = (0x4F, 0xC2);
    c[14] = 0xB0;
    c
}

fn ata(fd: BorrowedFd<'_>) -> io::Result<Smart> {
    let sense = scsi::call(fd, &ata_command(0xDA, 3, 0x20, 0), Direction::None, &mut [])?;
    let is_healthy = sense.ata().and_then(|r| match (r.lba_mid, r.lba_high) {
        (0x4F, 0xC2) => Some(true),
        (0xF4, 0x2C) => Some(false),
        _ => None,
    });
    let mut data = [0_u8; 512];
    // PIO in, one block, length in the count field.
    let is_read = scsi::call(fd, &ata_command(0xD0, 4, 0x0E, 1), Direction::In, &mut data).is_ok();
    let (temperature_c, notes) =
        if is_read { (ata_temperature(&data), ata_notes(&data)) } else { (None, Vec::new()) };
    let why = (is_healthy == Some(false))
        .then(|| "an attribute of the disk is below the limit that its maker set".to_owned());
    Ok(Smart { temperature_c, is_healthy, why, notes })
}

/// Thirty attributes of 12 bytes from byte 2: number, flags, value, worst, raw[6]. 194 is the temperature, 190
/// that of the air flow; the lowest byte of the raw value is in degrees on every maker's disks.
fn ata_temperature(data: &[u8]) -> Option<i32> {
    let of = |id: u8| {
        let mut attributes = data.get(2..362)?.chunks_exact(12);
        attributes.find(|a| a[0] == id).map(|a| i32::from(a[5])).filter(|t| *t > 0 && *t < 120)
    };
    of(194).or_else(|| of(190))
}

/// Counts that most makers keep alike: 5 reallocated, 197 pending, 198 uncorrectable sectors.
fn ata_notes(data: &[u8]) -> Vec<String> {
    let rows = data.get(2..362).unwrap_or(&[]).chunks_exact(12);
    let note = |row: &[u8]| {
        let what = match row[0] {
            5 => "reallocated sectors",
            197 => "sectors that cannot be read",
            198 => "uncorrectable sectors",
            _ => return None,
        };
        let count = u32::from_le_bytes([row[5], row[6], row[7], row[8]]);
        (count > 0).then(|| format!("{count} {what}"))
    };
    rows.filter_map(note).collect()
}

fn scsi_pages(fd: BorrowedFd<'_>) -> io::Result<Smart> {
    let page = |page: u8| {
        let mut data = [0_u8; 64];
        // Current cumulative values.
        let command = [0x4D, 0, 0x40 | page, 0, 0, 0, 0, 0, 64, 0];
        scsi::call(fd, &command, Direction::In, &mut data).map(|_| data)
    };
    let exceptions = page(0x2F)?;
    let mut smart = scsi_exceptions(&exceptions);
    if let Ok(data) = page(0x0D)
        && data[0] & 0x3F == 0x0D
        && data[9] != 0xFF
    {
        smart.temperature_c = Some(i32::from(data[9]));
    }
    Ok(smart)
}

/// Parameter 0 from byte 4: code, control, length, sense code, qualifier, temperature.
fn scsi_exceptions(data: &[u8]) -> Smart {
    match data {
        [page, _, _, _, 0, 0, _, n, asc, ascq, t, ..] if page & 0x3F == 0x2F && *n >= 3 => Smart {
            temperature_c: (*t != 0xFF && *t != 0).then_some(i32::from(*t)),
            // 5Dh: failure prediction threshold exceeded.
            is_healthy: Some(*asc != 0x5D),
            why: (*asc == 0x5D).then(|| format!("the disk predicts its failure (5Dh/{ascq:02X}h)")),
            notes: Vec::new(),
        },
        _ => Smart::default(),
    }
}

/// `struct nvme_passthru_cmd`, include/uapi/linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct NvmeCommand {
    opcode: u8,
    flags: u8,
    reserved1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const NVME_ADMIN: u32 = 0xC048_4E41;

fn nvme(fd: BorrowedFd<'_>) -> io::Result<Smart> {
    let mut log = [0_u8; 512];
    let mut command = NvmeCommand {
        // Get Log Page.
        opcode: 0x02,
        nsid: u32::MAX,
        addr: log.as_mut_ptr() as u64,
        data_len: 512,
        // 128 words of page 02h.
        cdw10: (127 << 16) | 0x02,
        timeout_ms: 3_000,
        ..NvmeCommand::default()
    };
    // SAFETY: the command has the kernel's layout; `addr` points at 512 writable bytes that live through the
    // call, as `data_len` says. JUSTIFICATION: there is no wrapper for this request in our dependencies.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::Ioctl::from(NVME_ADMIN), &raw mut command) };
    match done {
        0 => Ok(nvme_log(&log)),
        n if n < 0 => Err(io::Error::last_os_error()),
        n => Err(io::Error::other(format!("the device refused its health log (status {n:#x})"))),
    }
}

/// Byte 0: warnings; bytes 1 and 2: kelvins.
fn nvme_log(log: &[u8; 512]) -> Smart {
    let warnings = [
        (1, "its spare blocks run out"),
        (2, "it is too hot or too cold"),
        (4, "it has become unreliable"),
        (8, "it takes no more writes"),
        (16, "its buffer can no longer be saved"),
    ];
    let said: Vec<&str> = warnings.iter().filter(|(bit, _)| log[0] & bit != 0).map(|w| w.1).collect();
    let kelvin = i32::from(u16::from_le_bytes([log[1], log[2]]));
    Smart {
        temperature_c: (kelvin > 200 && kelvin < 450).then_some(kelvin - 273),
        // Warmth passes.
        is_healthy: Some(log[0] & !2 == 0),
        why: (!said.is_empty()).then(|| format!("the device says that {}", said.join(", and that "))),
        // Byte 5: percentage of the rated life that is used.
        notes: if log[5] >= 100 {
            vec![format!("{} % of its rated life is used", log[5])]
        } else {
            Vec::new()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temperature_is_the_lowest_byte_of_attribute_194_or_else_190() {
        let mut data = [0_u8; 512];
        data[2] = 190;
        data[7] = 41;
        assert_eq!(ata_temperature(&data), Some(41));
        data[14] = 194;
        data[19] = 38;
        assert_eq!(ata_temperature(&data), Some(38));
        assert_eq!(ata_temperature(&[]), None);
    }

    #[test]
    fn sectors_that_were_replaced_are_worth_a_word() {
        let mut data = [0_u8; 512];
        data[2..14].copy_from_slice(&[5, 0x33, 0, 100, 100, 8, 1, 0, 0, 0, 0, 0]);
        data[14..26].copy_from_slice(&[197, 0x32, 0, 100, 100, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ata_notes(&data), ["264 reallocated sectors"]);
        assert_eq!(ata_notes(&[]), Vec::<String>::new());
    }

    #[test]
    fn an_nvme_that_warns_is_not_healthy_unless_it_is_only_hot() {
        let mut log = [0_u8; 512];
        (log[1], log[2]) = (310_u16.to_le_bytes()[0], 310_u16.to_le_bytes()[1]);
        assert_eq!(
            nvme_log(&log),
            Smart { temperature_c: Some(37), is_healthy: Some(true), ..Smart::default() }
        );
        log[0] = 2;
        assert_eq!(nvme_log(&log).is_healthy, Some(true));
        log[0] = 4;
        let smart = nvme_log(&log);
        assert_eq!(smart.is_healthy, Some(false));
        assert_eq!(smart.why.as_deref(), Some("the device says that it has become unreliable"));
    }

    #[test]
    fn a_scsi_disk_that_predicts_its_failure_is_believed() {
        let mut page = [0_u8; 64];
        (page[0], page[7], page[8], page[9], page[10]) = (0x2F, 4, 0x5D, 0x10, 30);
        let smart = scsi_exceptions(&page);
        assert_eq!((smart.is_healthy, smart.temperature_c), (Some(false), Some(30)));
        page[8] = 0;
        assert_eq!(scsi_exceptions(&page).is_healthy, Some(true));
        assert_eq!(scsi_exceptions(&[0; 4]), Smart::default());
    }

    #[test]
    fn the_command_has_the_size_that_its_number_states() {
        assert_eq!(size_of::<NvmeCommand>(), ((NVME_ADMIN >> 16) & 0x3FFF) as usize);
    }
}
