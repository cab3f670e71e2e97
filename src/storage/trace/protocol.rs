//! What server and helper say to each other: datagrams on a `SOCK_SEQPACKET` socket, little-endian.
//! Whatever cannot be understood is `None`; nothing is allocated from a number before it is checked
//! against the length of the datagram.

use super::facts::Question;
use super::{Batch, BlockEvent, BlockOp};
use crate::layout::chunks::{Chunk, Stripe};

/// Largest datagram: below the default socket buffer (208 KiB).
pub(super) const MAX_BYTES: usize = 64 << 10;
/// Events a datagram.
pub(super) const MAX_EVENTS: usize = 1024;
const EVENT_BYTES: usize = 36;

/// From the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Trace reads of these disks, and no others.
    Watch { id: u32, devices: Vec<u32> },
    /// Send what is in the rings now.
    Flush { id: u32 },
    /// The chunk tree of the btrfs that the attached descriptor is on.
    Chunks { id: u32 },
    /// Anything else about a device, see [`Question`].
    Ask { id: u32, question: Question },
}

/// From the helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// First: the trace is ready, or why not. `pid_namespace` must be ours, or thread ids mean nothing.
    Hello {
        trouble: Option<String>,
        pid_namespace: String,
    },
    Events(Batch),
    /// Done, or why not.
    Done {
        id: u32,
        trouble: Option<String>,
    },
    /// Part of a chunk tree; `Done` follows the last.
    Chunks {
        id: u32,
        chunks: Vec<Chunk>,
    },
    /// Part of a [`super::facts::Fact`] as JSON; `Done` follows the last.
    Part {
        id: u32,
        bytes: Vec<u8>,
    },
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn u8(mut self, v: u8) -> Self {
        self.0.push(v);
        self
    }
    fn u16(mut self, v: u16) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn u32(mut self, v: u32) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    fn u64(mut self, v: u64) -> Self {
        self.0.extend(v.to_le_bytes());
        self
    }
    /// Text after its length; cut at 1 KiB.
    fn text(self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let n = bytes.len().min(1024);
        let mut out = self.u16(u16::try_from(n).unwrap_or(0));
        out.0.extend(&bytes[..n]);
        out
    }
}

struct In<'a>(&'a [u8]);

impl In<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
    fn u8(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.take()?))
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take()?))
    }
    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }
    fn text(&mut self) -> Option<String> {
        let n = usize::from(self.u16()?);
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(head).into_owned())
    }
    /// A count of things of at least `size` bytes that must still fit.
    fn count(&mut self, size: usize) -> Option<usize> {
        let n = self.u32()? as usize;
        (n.checked_mul(size)? <= self.0.len()).then_some(n)
    }
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let out = Out::default();
        match self {
            Self::Watch { id, devices } => {
                let out = out.u8(b'W').u32(*id).u32(u32::try_from(devices.len()).unwrap_or(0));
                devices.iter().fold(out, |o, d| o.u32(*d)).0
            }
            Self::Flush { id } => out.u8(b'F').u32(*id).0,
            Self::Chunks { id } => out.u8(b'C').u32(*id).0,
            Self::Ask { id, question } => {
                let mut out = out.u8(b'Q').u32(*id).0;
                // Numbers and a name: this cannot fail, and an empty question is not understood.
                out.extend(serde_json::to_vec(question).unwrap_or_default());
                out
            }
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut i = In(bytes);
        let (kind, id) = (i.u8()?, i.u32()?);
        match kind {
            b'W' => {
                let n = i.count(4)?;
                Some(Self::Watch { id, devices: (0..n).map(|_| i.u32()).collect::<Option<_>>()? })
            }
            b'F' => Some(Self::Flush { id }),
            b'C' => Some(Self::Chunks { id }),
            b'Q' => Some(Self::Ask { id, question: serde_json::from_slice(i.0).ok()? }),
            _ => None,
        }
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        let out = Out::default();
        match self {
            Self::Hello { trouble, pid_namespace } => {
                out.u8(b'H')
                    .u8(u8::from(trouble.is_none()))
                    .text(trouble.as_deref().unwrap_or(""))
                    .text(pid_namespace)
                    .0
            }
            Self::Events(batch) => {
                let n = u32::try_from(batch.events.len()).unwrap_or(0);
                let out = out.u8(b'E').u64(batch.drained_us).u64(batch.lost).u32(n);
                batch.events.iter().fold(out, put_event).0
            }
            Self::Done { id, trouble } => {
                out.u8(b'A').u32(*id).u8(u8::from(trouble.is_none())).text(trouble.as_deref().unwrap_or("")).0
            }
            Self::Chunks { id, chunks } => {
                let out = out.u8(b'T').u32(*id).u32(u32::try_from(chunks.len()).unwrap_or(0));
                chunks.iter().fold(out, put_chunk).0
            }
            Self::Part { id, bytes } => {
                let mut out = out.u8(b'P').u32(*id).0;
                out.extend(bytes);
                out
            }
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut i = In(bytes);
        match i.u8()? {
            b'H' => {
                let (ok, text) = (i.u8()?, i.text()?);
                Some(Self::Hello { trouble: (ok == 0).then_some(text), pid_namespace: i.text()? })
            }
            b'E' => {
                let (drained_us, lost) = (i.u64()?, i.u64()?);
                let n = i.count(EVENT_BYTES)?;
                let events = (0..n).map(|_| get_event(&mut i)).collect::<Option<_>>()?;
                Some(Self::Events(Batch { drained_us, lost, events }))
            }
            b'A' => {
                let (id, ok, text) = (i.u32()?, i.u8()?, i.text()?);
                Some(Self::Done { id, trouble: (ok == 0).then_some(text) })
            }
            b'T' => {
                let id = i.u32()?;
                let n = i.count(36)?;
                Some(Self::Chunks { id, chunks: (0..n).map(|_| get_chunk(&mut i)).collect::<Option<_>>()? })
            }
            b'P' => Some(Self::Part { id: i.u32()?, bytes: i.0.to_vec() }),
            _ => None,
        }
    }
}

fn put_event(out: Out, e: &BlockEvent) -> Out {
    let op = match e.op {
        BlockOp::Queue => 0,
        BlockOp::Issue => 1,
        BlockOp::Complete => 2,
        BlockOp::Error => 3,
    };
    out.u8(op)
        .u8(u8::from(e.is_metadata))
        .u16(u16::from(e.is_failed))
        .u32(e.tid)
        .u32(e.pid)
        .u32(e.device)
        .u64(e.sector)
        .u64(e.time_us)
        .u32(e.sectors)
}

fn get_event(i: &mut In<'_>) -> Option<BlockEvent> {
    let op = match i.u8()? {
        0 => BlockOp::Queue,
        1 => BlockOp::Issue,
        2 => BlockOp::Complete,
        3 => BlockOp::Error,
        _ => return None,
    };
    let is_metadata = i.u8()? != 0;
    let is_failed = i.u16()? != 0;
    let (tid, pid, device) = (i.u32()?, i.u32()?, i.u32()?);
    let (sector, time_us) = (i.u64()?, i.u64()?);
    Some(BlockEvent { op, time_us, tid, pid, device, sector, sectors: i.u32()?, is_metadata, is_failed })
}

fn put_chunk(out: Out, c: &Chunk) -> Out {
    let n = u16::try_from(c.stripes.len()).unwrap_or(0);
    let out = out.u64(c.logical).u64(c.len_bytes).u64(c.stripe_bytes).u64(c.kind).u16(c.sub_stripes).u16(n);
    c.stripes.iter().fold(out, |o, s| o.u64(s.devid).u64(s.offset))
}

fn get_chunk(i: &mut In<'_>) -> Option<Chunk> {
    let (logical, len_bytes, stripe_bytes, kind) = (i.u64()?, i.u64()?, i.u64()?, i.u64()?);
    let (sub_stripes, n) = (i.u16()?, i.u16()?);
    let stripe = |_| Some(Stripe { devid: i.u64()?, offset: i.u64()? });
    let stripes = (0..n).map(stripe).collect::<Option<_>>()?;
    Some(Chunk { logical, len_bytes, stripe_bytes, kind, sub_stripes, stripes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> BlockEvent {
        BlockEvent {
            op: BlockOp::Complete,
            time_us: u64::MAX,
            tid: 1,
            pid: 2,
            device: 3,
            sector: 4,
            sectors: 5,
            is_metadata: true,
            is_failed: true,
        }
    }

    fn replies() -> Vec<Reply> {
        let chunk = Chunk {
            logical: 1,
            len_bytes: 2,
            stripe_bytes: 3,
            kind: 4,
            sub_stripes: 5,
            stripes: vec![Stripe { devid: 6, offset: 7 }; 2],
        };
        vec![
            Reply::Hello { trouble: None, pid_namespace: "pid:[1]".into() },
            Reply::Hello { trouble: Some("no".into()), pid_namespace: String::new() },
            Reply::Events(Batch { drained_us: 9, lost: 8, events: vec![event(); 3] }),
            Reply::Done { id: 3, trouble: Some("why".into()) },
            Reply::Chunks { id: 4, chunks: vec![chunk; 2] },
        ]
    }

    #[test]
    fn every_message_survives_the_way() {
        for r in replies() {
            assert_eq!(Reply::decode(&r.encode()), Some(r));
        }
        let part = Reply::Part { id: 1, bytes: b"{}".to_vec() };
        assert_eq!(Reply::decode(&part.encode()), Some(part));
        for r in [
            Request::Watch { id: 1, devices: vec![7, 8] },
            Request::Flush { id: 2 },
            Request::Chunks { id: 3 },
            Request::Ask { id: 4, question: Question::Power { device: (8, 0) } },
            Request::Ask { id: 5, question: Question::Dm { device: (254, 1) } },
            Request::Ask { id: 6, question: Question::Zdb { dataset: "tank/a b".into(), inode: 7 } },
        ] {
            assert_eq!(Request::decode(&r.encode()), Some(r));
        }
    }

    #[test]
    fn a_message_cut_anywhere_is_no_message() {
        for r in replies() {
            let bytes = r.encode();
            for n in 0..bytes.len() {
                assert_eq!(Reply::decode(&bytes[..n]), None, "{r:?} cut at {n}");
            }
        }
    }

    #[test]
    fn counts_larger_than_the_message_are_refused_before_anything_is_allocated() {
        let mut bytes = Request::Watch { id: 1, devices: vec![1] }.encode();
        bytes[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn a_full_datagram_stays_below_the_limit() {
        let full = Batch { events: vec![event(); MAX_EVENTS], ..Batch::default() };
        assert!(Reply::Events(full).encode().len() < MAX_BYTES);
    }
}
