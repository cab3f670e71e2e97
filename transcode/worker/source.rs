//! The input: one descriptor, read by large `pread`s, each of them told to the server with what
//! the kernel charged for it. This is how disk reads of transcodes find their disk.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use spindle_transcode::protocol::WorkerRead;

/// First read after a jump. A file is opened by a few short looks at far places.
const FIRST_BYTES: usize = 128 << 10;
/// Reads that follow each other grow up to this: one disk command of the largest usual size.
const MOST_BYTES: usize = 2 << 20;
/// Blocks that are kept, so that a demuxer that goes back and forth between two places (an index
/// at the end, sound away from its picture) does not read twice.
const BLOCKS: usize = 4;

struct Block {
    start: u64,
    data: Vec<u8>,
    used: u64,
}

/// A file with a position, a few blocks of memory and a ledger.
pub(crate) struct Source {
    file: File,
    size: u64,
    position: u64,
    blocks: Vec<Block>,
    clock: u64,
    next_bytes: usize,
    rows: Vec<WorkerRead>,
}

impl Source {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let file = File::from(fd);
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size,
            position: 0,
            blocks: Vec::new(),
            clock: 0,
            next_bytes: FIRST_BYTES,
            rows: Vec::new(),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn set_position(&mut self, to: u64) {
        self.position = to;
    }

    /// The reads since the last call.
    pub(crate) fn take_rows(&mut self) -> Vec<WorkerRead> {
        std::mem::take(&mut self.rows)
    }

    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let at = self.position;
        if at >= self.size {
            return Ok(0);
        }
        self.clock += 1;
        let held = self.blocks.iter().position(|b| b.start <= at && at - b.start < b.data.len() as u64);
        let i = match held {
            Some(i) => i,
            None => match self.load(at)? {
                Some(i) => i,
                None => return Ok(0),
            },
        };
        let block = &mut self.blocks[i];
        block.used = self.clock;
        let from = usize::try_from(at - block.start).map_err(io::Error::other)?;
        let n = buf.len().min(block.data.len() - from);
        buf[..n].copy_from_slice(&block.data[from..from + n]);
        self.position += n as u64;
        Ok(n)
    }

    fn load(&mut self, at: u64) -> io::Result<Option<usize>> {
        let follows = self.blocks.iter().any(|b| b.start + b.data.len() as u64 == at);
        self.next_bytes = if follows { (self.next_bytes * 2).min(MOST_BYTES) } else { FIRST_BYTES };
        // Whole pages: what the kernel reads anyway.
        let start = at & !4095;
        let mut data = if self.blocks.len() < BLOCKS {
            Vec::new()
        } else {
            let oldest = (0..self.blocks.len()).min_by_key(|i| self.blocks[*i].used).unwrap_or(0);
            self.blocks.swap_remove(oldest).data
        };
        let want =
            usize::try_from((self.size - start).min(self.next_bytes as u64)).map_err(io::Error::other)?;
        data.resize(want, 0);
        let n = self.pread(start, &mut data)?;
        data.truncate(n);
        if start + n as u64 <= at {
            return Ok(None);
        }
        self.blocks.push(Block { start, data, used: self.clock });
        Ok(Some(self.blocks.len() - 1))
    }

    fn pread(&mut self, start: u64, data: &mut [u8]) -> io::Result<usize> {
        let before = inblock();
        let start_us = monotonic_us();
        let n = loop {
            match self.file.read_at(data, start) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        let row = WorkerRead {
            tid: u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0),
            offset: start,
            len_bytes: u32::try_from(n).unwrap_or(u32::MAX),
            inblock_bytes: (inblock() - before).max(0) as u64 * 512,
            start_us,
            end_us: monotonic_us(),
        };
        self.rows.push(row);
        Ok(n)
    }
}

/// Blocks of 512 bytes that this thread had read from devices (getrusage(2)).
fn inblock() -> i64 {
    // SAFETY: a zeroed rusage is a valid one, and the call only writes it.
    // JUSTIFICATION: rustix has no getrusage.
    #[expect(unsafe_code, reason = "getrusage has no safe wrapper in our dependencies")]
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_inblock
    }
}

pub(crate) fn monotonic_us() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1_000
}
