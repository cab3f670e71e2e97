//! What stands between bytes from outside and the parsers: limits, a reader that spends a budget,
//! and a net for panics. The structure walks that run before a parser are in `container`.
//!
//! Unguarded, the `mp4` crate loops for ever on box sizes below eight and the `matroska` crate
//! asserts on what a file says and allocates what it claims; both see only input that was walked,
//! from memory, through [`BudgetReader`], inside [`contain`].

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Asks whether the caller's time is up. This crate reads no clock.
pub type Expired = Box<dyn Fn() -> bool + Send>;

/// What one probe may cost.
pub struct Limits {
    /// Reads and seeks of the file.
    pub max_calls: u64,
    /// Bytes read from the file.
    pub max_bytes: u64,
    /// Size of one index that is taken into memory as a whole: `moov`, `Tracks`, `Cues`.
    pub max_index_bytes: u64,
    /// Whether the time is up; asked on every 64th call.
    pub expired: Expired,
}

impl Default for Limits {
    /// Two hours have an index of 4 MB; 32 MiB are half a day, and some four times that is held while
    /// it is read.
    fn default() -> Self {
        Self {
            max_calls: 100_000,
            max_bytes: 128 << 20,
            max_index_bytes: 32 << 20,
            expired: Box::new(|| false),
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("max_calls", &self.max_calls)
            .field("max_bytes", &self.max_bytes)
            .field("max_index_bytes", &self.max_index_bytes)
            .finish_non_exhaustive()
    }
}

/// Which limit was met first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Too many reads and seeks.
    Calls,
    /// Too many bytes.
    Bytes,
    /// The caller's time is up.
    Time,
}

impl Over {
    /// The limit in words, for an error text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calls => "too many reads",
            Self::Bytes => "too many bytes read",
            Self::Time => "out of time",
        }
    }
}

/// Bytes fetched at once for small reads: headers lie close together, and a disk moves at least
/// this much for one request anyway.
const BUFFER_BYTES: usize = 16 << 10;

/// A reader that spends a budget and keeps its buffer on short seeks forward and back.
///
/// `std::io::BufReader` drops its buffer on every seek, which multiplies what is read from disk
/// when a parser hops from header to header.
pub struct BudgetReader<R> {
    inner: R,
    inner_pos: u64,
    pos: u64,
    size_bytes: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
    calls_left: u64,
    bytes_left: u64,
    expired: Expired,
    over: Option<Over>,
}

impl<R: Read + Seek> BudgetReader<R> {
    /// A reader over `inner`, which holds `size_bytes` and stands anywhere.
    ///
    /// # Errors
    /// When `inner` cannot seek to its start.
    pub fn new(mut inner: R, size_bytes: u64, limits: Limits) -> io::Result<Self> {
        inner.seek(SeekFrom::Start(0))?;
        Ok(Self {
            inner,
            inner_pos: 0,
            pos: 0,
            size_bytes,
            buffer: Vec::new(),
            buffer_at: 0,
            calls_left: limits.max_calls,
            bytes_left: limits.max_bytes,
            expired: limits.expired,
            over: None,
        })
    }

    /// The limit that was met, if one was: a parser may have turned the error into another.
    pub fn over(&self) -> Option<Over> {
        self.over
    }

    /// Size of the file as the caller gave it.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Where the next read starts.
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Reads exactly `len` bytes at `at`; `len` must have been checked against a limit.
    ///
    /// # Errors
    /// Of the file, of the budget, or `UnexpectedEof` when the file ends before that.
    pub fn read_at(&mut self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        if at.checked_add(len).is_none_or(|end| end > self.size_bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.seek(SeekFrom::Start(at))?;
        // Grown by what really arrives: a size that lies costs no memory.
        let mut out = Vec::new();
        self.by_ref().take(len).read_to_end(&mut out)?;
        if out.len() as u64 == len { Ok(out) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn spend_call(&mut self) -> io::Result<()> {
        if self.over.is_none() {
            if self.calls_left == 0 {
                self.over = Some(Over::Calls);
            } else if self.calls_left.is_multiple_of(64) && (self.expired)() {
                self.over = Some(Over::Time);
            }
        }
        self.calls_left = self.calls_left.saturating_sub(1);
        match self.over {
            Some(over) => Err(io::Error::other(over.as_str())),
            None => Ok(()),
        }
    }

    fn spend_bytes(&mut self, wanted: usize) -> io::Result<usize> {
        let allowed = usize::try_from(self.bytes_left).unwrap_or(usize::MAX);
        if allowed == 0 {
            self.over = Some(Over::Bytes);
            return Err(io::Error::other(Over::Bytes.as_str()));
        }
        Ok(wanted.min(allowed))
    }

    fn read_inner(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let allowed = self.spend_bytes(into.len())?;
        if self.inner_pos != self.pos {
            self.inner.seek(SeekFrom::Start(self.pos))?;
            self.inner_pos = self.pos;
        }
        let got = loop {
            match self.inner.read(&mut into[..allowed]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.inner_pos += got as u64;
        self.bytes_left = self.bytes_left.saturating_sub(got as u64);
        Ok(got)
    }

    fn buffered(&self) -> &[u8] {
        self.pos
            .checked_sub(self.buffer_at)
            .and_then(|skip| usize::try_from(skip).ok())
            .and_then(|skip| self.buffer.get(skip..))
            .unwrap_or(&[])
    }
}

impl<R: Read + Seek> Read for BudgetReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.spend_call()?;
        if out.is_empty() {
            return Ok(0);
        }
        if self.buffered().is_empty() {
            if out.len() >= BUFFER_BYTES {
                let got = self.read_inner(out)?;
                self.pos += got as u64;
                return Ok(got);
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.resize(BUFFER_BYTES, 0);
            let got = self.read_inner(&mut buffer)?;
            buffer.truncate(got);
            self.buffer = buffer;
            self.buffer_at = self.pos;
        }
        let from = self.buffered();
        let n = from.len().min(out.len());
        out[..n].copy_from_slice(&from[..n]);
        self.pos += n as u64;
        Ok(n)
    }
}

impl<R: Read + Seek> Seek for BudgetReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.spend_call()?;
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.pos.checked_add_signed(by),
            SeekFrom::End(by) => self.size_bytes.checked_add_signed(by),
        };
        self.pos = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.pos)
    }
}

/// Runs a parser that may panic on what it reads; a panic comes back as its message.
///
/// # Errors
/// The panic's message, when `parse` panicked.
pub fn contain<T>(parse: impl FnOnce() -> T) -> Result<T, String> {
    // The closure's state is dropped with the panic and nothing of it is looked at afterwards.
    catch_unwind(AssertUnwindSafe(parse)).map_err(|panic| {
        panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without words".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::Cursor;
    use std::rc::Rc;

    /// Counts reads of the file underneath.
    struct Counting(Cursor<Vec<u8>>, Rc<Cell<u32>>);
    impl Read for Counting {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1.set(self.1.get() + 1);
            self.0.read(out)
        }
    }
    impl Seek for Counting {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    fn limits(max_calls: u64, max_bytes: u64) -> Limits {
        Limits { max_calls, max_bytes, ..Limits::default() }
    }

    #[test]
    fn short_seeks_forward_do_not_read_the_disk_again() {
        let data: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
        let reads = Rc::new(Cell::new(0));
        let file = Counting(Cursor::new(data.clone()), Rc::clone(&reads));
        let mut r = BudgetReader::new(file, 40_000, Limits::default()).unwrap();
        let mut four = [0; 4];
        for at in [0_u64, 100, 5_000, 16_000, 50] {
            r.seek(SeekFrom::Start(at)).unwrap();
            r.read_exact(&mut four).unwrap();
            let at = usize::try_from(at).unwrap();
            assert_eq!(four, data[at..at + 4]);
        }
        assert_eq!(reads.get(), 1);
        assert_eq!(r.read_at(30_000, 20).unwrap(), data[30_000..30_020]);
        assert_eq!(reads.get(), 2);
    }

    #[test]
    fn the_budget_ends_a_loop_that_would_not_end() {
        let mut r = BudgetReader::new(Cursor::new(vec![0; 64]), 64, limits(500, 1 << 20)).unwrap();
        let mut rounds = 0;
        let end = loop {
            rounds += 1;
            assert!(rounds < 1_000);
            if let Err(e) = r.seek(SeekFrom::Start(0)) {
                break e;
            }
            if let Err(e) = r.read_exact(&mut [0; 8]) {
                break e;
            }
        };
        assert_eq!(end.to_string(), "too many reads");
        assert_eq!(r.over(), Some(Over::Calls));
    }

    #[test]
    fn bytes_are_counted_as_they_come_off_the_file() {
        let mut r = BudgetReader::new(Cursor::new(vec![0; 100_000]), 100_000, limits(500, 40_000)).unwrap();
        let mut all = Vec::new();
        assert!(r.read_to_end(&mut all).is_err());
        assert_eq!((all.len(), r.over()), (40_000, Some(Over::Bytes)));
    }

    #[test]
    fn the_callers_time_ends_the_reading() {
        let limits = Limits { expired: Box::new(|| true), ..limits(128, 1 << 20) };
        let mut r = BudgetReader::new(Cursor::new(vec![0; 9]), 9, limits).unwrap();
        assert!(r.read(&mut [0; 1]).is_err());
        assert_eq!(r.over(), Some(Over::Time));
    }

    #[test]
    fn a_length_past_the_end_allocates_nothing() {
        let mut r = BudgetReader::new(Cursor::new(vec![0; 9]), 9, Limits::default()).unwrap();
        let e = r.read_at(4, u64::MAX - 8).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_panic_comes_back_as_its_message() {
        assert_eq!(contain(|| 7), Ok(7));
        let caught = contain(|| -> u8 { panic!("box {} is odd", 3) });
        assert_eq!(caught, Err("box 3 is odd".to_owned()));
    }
}
