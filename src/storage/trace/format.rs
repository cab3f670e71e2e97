//! The tracepoints' own description of their fields: `events/block/*/format` in tracefs. Offsets differ
//! between kernels (newer `block_rq_issue` has an ioprio), so none is taken for granted.

use std::fs;
use std::path::{Path, PathBuf};

use super::{BlockEvent, BlockOp};
use crate::sys::{field_u32, field_u64};

/// The tracepoints that are read, in the order of the ring's events.
pub(super) const EVENTS: [(&str, BlockOp); 4] = [
    ("block_bio_queue", BlockOp::Queue),
    ("block_rq_issue", BlockOp::Issue),
    ("block_rq_complete", BlockOp::Complete),
    ("block_rq_error", BlockOp::Error),
];

/// One tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) id: u16,
    pub(super) op: BlockOp,
    dev: usize,
    sector: usize,
    sectors: usize,
    rwbs: usize,
    rwbs_len: usize,
    /// Of completions alone, and not of every kernel's.
    error: Option<usize>,
}

/// Where tracefs may be mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A mounted tracefs whose block events this process may read.
pub(super) fn find() -> Result<PathBuf, String> {
    let mut why = "tracefs is not mounted".to_owned();
    for place in PLACES {
        match fs::read_to_string(Path::new(place).join("events/block/block_bio_queue/id")) {
            Ok(_) => return Ok(place.into()),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                why = "the tracepoints may be read by root alone (CAP_DAC_READ_SEARCH)".to_owned();
            }
            Err(_) => {}
        }
    }
    Err(why)
}

/// Reads the formats under a tracefs.
pub(super) fn read(tracefs: &Path) -> Result<Vec<Format>, String> {
    EVENTS
        .iter()
        // Kernels before 5.18 do not tell of errors; everything else is there since 2.6.
        .filter(|(name, op)| *op != BlockOp::Error || tracefs.join("events/block").join(name).exists())
        .map(|(name, op)| {
            let dir = tracefs.join("events/block").join(name);
            let text = |file: &str| {
                fs::read_to_string(dir.join(file)).map_err(|e| format!("tracepoint {name}: {e}"))
            };
            let id = text("id")?.trim().parse().map_err(|_| format!("tracepoint {name} has no number"))?;
            parse(&text("format")?, id, *op)
                .ok_or_else(|| format!("tracepoint {name} has other fields than expected"))
        })
        .collect()
}

/// Lines like `field:dev_t dev; offset:8; size:4; signed:0;`, with tabs.
fn parse(text: &str, id: u16, op: BlockOp) -> Option<Format> {
    let field = |name: &str| {
        text.lines().find_map(|line| {
            let rest = line.trim().strip_prefix("field:")?;
            let declared = rest.split(';').next()?.rsplit(' ').next()?.split('[').next()?;
            let number = |key: &str| rest.split_once(key)?.1.split(';').next()?.parse::<usize>().ok();
            (declared == name).then(|| Some((number("offset:")?, number("size:")?)))?
        })
    };
    let (rwbs, rwbs_len) = field("rwbs")?;
    let wide = |name: &str, size: usize| field(name).filter(|f| f.1 == size).map(|f| f.0);
    Some(Format {
        id,
        op,
        dev: wide("dev", 4)?,
        sector: wide("sector", 8)?,
        sectors: wide("nr_sector", 4)?,
        rwbs,
        rwbs_len,
        error: wide("error", 4),
    })
}

impl Format {
    /// Reads the raw data of one sample.
    pub(super) fn event(&self, raw: &[u8], tid: u32, pid: u32, time_ns: u64) -> Option<BlockEvent> {
        let rwbs = raw.get(self.rwbs..self.rwbs.checked_add(self.rwbs_len)?)?;
        let rwbs = rwbs.split(|c| *c == 0).next()?;
        Some(BlockEvent {
            op: self.op,
            time_us: time_ns / 1_000,
            tid,
            pid,
            device: field_u32(raw, self.dev)?,
            sector: field_u64(raw, self.sector)?,
            sectors: field_u32(raw, self.sectors)?,
            is_metadata: rwbs.contains(&b'M'),
            is_failed: self.error.and_then(|at| field_u32(raw, at)).is_some_and(|errno| errno != 0),
        })
    }
}

/// The kernel-side filter: reads of these whole disks (partitions are remapped before the event).
pub(super) fn filter(devices: &[u32]) -> String {
    let any: Vec<String> = devices.iter().map(|d| format!("dev == {d}")).collect();
    if any.is_empty() {
        // No block device has number 0.
        return "dev == 0".to_owned();
    }
    format!("({}) && rwbs ~ \"R*\"", any.join(" || "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a 6.18 kernel.
    const ISSUE: &str = "\
name: block_rq_issue
ID: 1204
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:unsigned int bytes;	offset:28;	size:4;	signed:0;
	field:unsigned short ioprio;	offset:32;	size:2;	signed:0;
	field:char rwbs[10];	offset:34;	size:10;	signed:0;
	field:char comm[16];	offset:44;	size:16;	signed:0;
";

    #[test]
    fn fields_are_taken_from_where_the_kernel_says() {
        let f = parse(ISSUE, 1204, BlockOp::Issue).unwrap();
        let mut raw = vec![0_u8; 64];
        raw[8..12].copy_from_slice(&7_340_033_u32.to_ne_bytes());
        raw[16..24].copy_from_slice(&2048_u64.to_ne_bytes());
        raw[24..28].copy_from_slice(&256_u32.to_ne_bytes());
        raw[34..37].copy_from_slice(b"RAM");
        let want = BlockEvent {
            op: BlockOp::Issue,
            time_us: 5,
            tid: 11,
            pid: 10,
            device: 7_340_033,
            sector: 2048,
            sectors: 256,
            is_metadata: true,
            is_failed: false,
        };
        assert_eq!(f.event(&raw, 11, 10, 5_999), Some(want));
        assert_eq!(f.event(&raw[..40], 11, 10, 5_999), None);
    }

    #[test]
    fn a_completion_with_an_error_is_a_failed_one() {
        let text = ISSUE.replace("unsigned int bytes;", "int error;");
        let f = parse(&text, 1204, BlockOp::Complete).unwrap();
        let mut raw = vec![0_u8; 64];
        raw[34] = b'R';
        assert_eq!(f.event(&raw, 1, 1, 0).map(|e| e.is_failed), Some(false));
        raw[28..32].copy_from_slice(&(-5_i32).to_ne_bytes());
        assert_eq!(f.event(&raw, 1, 1, 0).map(|e| e.is_failed), Some(true));
    }

    #[test]
    fn a_format_without_a_field_or_with_another_width_is_refused() {
        assert_eq!(parse(&ISSUE.replace(" sector;", " place;"), 1, BlockOp::Issue), None);
        assert_eq!(parse(&ISSUE.replace("offset:16;	size:8", "offset:16;	size:4"), 1, BlockOp::Issue), None);
        assert_eq!(parse("", 1, BlockOp::Issue), None);
    }

    #[test]
    fn a_filter_names_every_disk() {
        assert_eq!(filter(&[1, 2]), "(dev == 1 || dev == 2) && rwbs ~ \"R*\"");
        assert_eq!(filter(&[]), "dev == 0");
    }
}
