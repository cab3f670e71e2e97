//! The input: one descriptor, read by large `pread`s, each of them told to the server with what
//! the kernel charged for it. This is how disk reads of transcodes find their disk.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use spindle_media::info::ClockRestart;
use spindle_transcode::protocol::WorkerRead;
use spindle_transcode::restart::{self, Grid};

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
    /// How the packets of a transport stream lie, and where its clock begins anew.
    restarts: Option<(Grid, Vec<ClockRestart>)>,
    /// Why bytes that were there when it was opened could not be had.
    loss: Option<String>,
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
            restarts: None,
            loss: None,
        })
    }

    /// Looks for places at which the clock of a transport stream begins anew; they are mended in all that
    /// is read from here on.
    pub(crate) fn find_restarts(&mut self) -> Vec<ClockRestart> {
        let size = self.size;
        let found = restart::find(size, |at, len| {
            let mut data = vec![0; len.min(usize::try_from(size.checked_sub(at)?).ok()?)];
            let n = self.pread(at, &mut data).ok()?;
            data.truncate(n);
            Some(data)
        });
        self.mend(&found);
        found
    }

    /// Mends the times of what is read from here on.
    pub(crate) fn mend(&mut self, restarts: &[ClockRestart]) {
        if restarts.is_empty() {
            return;
        }
        let mut head = vec![0; 4096.min(usize::try_from(self.size).unwrap_or(4096))];
        let read = self.pread(0, &mut head).unwrap_or(0);
        if let Some(grid) = Grid::of(&head[..read]) {
            self.blocks.clear();
            self.restarts = Some((grid, restarts.to_vec()));
        }
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

    /// Why bytes that were there when it was opened could not be had, told once. Demuxers take that for the end of the film, and
    /// what is made of it would be kept as a film that ends there.
    pub(crate) fn take_loss(&mut self) -> Option<String> {
        self.loss.take()
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
            None => match self.load(at) {
                Ok(Some(i)) => i,
                Ok(None) => {
                    self.loss = Some("the file has become shorter since it was opened".to_owned());
                    return Ok(0);
                }
                Err(error) => {
                    self.loss = Some(format!("the disk cannot read the file here: {error}"));
                    return Err(error);
                }
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
        // Whole pages: what the kernel reads anyway. Whole packets, where their times are mended.
        let start = match &self.restarts {
            Some((grid, _)) => packet_start(*grid, at),
            None => at & !4095,
        };
        let mut data = if self.blocks.len() < BLOCKS {
            Vec::new()
        } else {
            let oldest = (0..self.blocks.len()).min_by_key(|i| self.blocks[*i].used).unwrap_or(0);
            self.blocks.swap_remove(oldest).data
        };
        let want =
            usize::try_from((self.size - start).min(self.next_bytes as u64)).map_err(io::Error::other)?;
        let want = match &self.restarts {
            Some((grid, _)) if start + (want as u64) < self.size => {
                // From `start`, which is a packet or the bytes before the first.
                let lead = if start == 0 { grid.first } else { 0 };
                lead + (want - lead) / grid.step * grid.step
            }
            _ => want,
        };
        data.resize(want, 0);
        let n = self.pread(start, &mut data)?;
        data.truncate(n);
        if start + n as u64 <= at {
            return Ok(None);
        }
        if let Some((grid, restarts)) = &self.restarts {
            restart::mend(&mut data, start, *grid, restarts);
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

/// The beginning of the packet that holds `at`; of the file for what is before the first.
fn packet_start(grid: Grid, at: u64) -> u64 {
    let (first, step) = (grid.first as u64, grid.step as u64);
    if at < first + step { 0 } else { first + (at - first) / step * step }
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

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn file(bytes: usize) -> File {
        let mut file = File::from(rustix::fs::memfd_create("film", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        file.write_all(&vec![7; bytes]).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn the_end_of_a_file_is_no_loss_and_a_file_that_became_shorter_is() {
        let film = file(3 << 20);
        let mut source = Source::new(film.try_clone().unwrap().into()).unwrap();
        let mut buf = [0; 16];
        assert_eq!(source.read(&mut buf).unwrap(), 16);
        source.set_position((3 << 20) - 16);
        assert_eq!(source.read(&mut buf).unwrap(), 16);
        assert_eq!(source.read(&mut buf).unwrap(), 0);
        assert_eq!(source.take_loss(), None);
        film.set_len(1 << 20).unwrap();
        source.set_position(2 << 20);
        assert_eq!(source.read(&mut buf).unwrap(), 0);
        assert!(source.take_loss().unwrap().contains("shorter"));
        assert_eq!(source.take_loss(), None, "told once");
    }
}
