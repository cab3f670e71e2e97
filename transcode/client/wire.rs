//! Frames on a Unix stream socket: four bytes of length (little-endian), then JSON. Descriptors
//! travel by `SCM_RIGHTS` with the first byte of their frame (unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest frame. A plan of 24 hours in one-second segments takes 1 MB, a description with
/// thousands of chapters less; 16 MiB is far from both and bounds what a broken peer can cost.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Most descriptors in one frame.
pub const MAX_DESCRIPTORS: usize = 2;

/// Serialises `message` as one frame.
///
/// # Errors
/// If it is over [`MAX_FRAME_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let len = frame.len() - 4;
    let head = u32::try_from(len)
        .ok()
        .filter(|_| len <= MAX_FRAME_BYTES)
        .ok_or_else(|| io::Error::other("frame is over the limit"))?;
    frame[..4].copy_from_slice(&head.to_le_bytes());
    Ok(frame)
}

/// Takes one whole frame off the front of `buffer`, if it is there.
///
/// # Errors
/// If the frame is over the limit or is not a message of this type.
pub fn take_frame<T: DeserializeOwned>(buffer: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((head, rest)) = buffer.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*head) as usize;
    if len > MAX_FRAME_BYTES {
        return Err(io::Error::other("frame is over the limit"));
    }
    let Some(body) = rest.get(..len) else {
        return Ok(None);
    };
    let message = serde_json::from_slice(body)?;
    buffer.drain(..4 + len);
    Ok(Some(message))
}

/// Sends the front of `bytes`, with `fds` if there are any; returns how much went.
///
/// # Errors
/// What `sendmsg` says; `WouldBlock` on a socket that does not block.
pub fn send_some(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one frame"));
    }
    // MSG_NOSIGNAL: a peer that is gone is an error here, never a signal.
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Sends a whole frame on a socket that blocks.
///
/// # Errors
/// What the socket says.
pub fn send<T: Serialize>(socket: impl AsFd, message: &T) -> io::Result<()> {
    let frame = encode(message)?;
    let mut sent = 0;
    while sent < frame.len() {
        match send_some(socket.as_fd(), &frame[sent..], &[]) {
            Ok(n) => sent += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Receives frames with their descriptors on a socket that blocks.
#[derive(Debug, Default)]
pub struct Receiver {
    buffer: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Receiver {
    /// The next message and every descriptor that has come until its end. `None` at the end.
    ///
    /// # Errors
    /// If the peer sends rubbish or more descriptors than a frame may carry.
    pub fn recv<T: DeserializeOwned>(&mut self, socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            let need = match self.buffer.first_chunk::<4>() {
                None => 4 - self.buffer.len(),
                Some(head) => {
                    let len = u32::from_le_bytes(*head) as usize;
                    if len > MAX_FRAME_BYTES {
                        return Err(io::Error::other("frame is over the limit"));
                    }
                    (4 + len).saturating_sub(self.buffer.len())
                }
            };
            if need == 0 {
                let message = take_frame(&mut self.buffer)?;
                if let Some(message) = message {
                    return Ok(Some((message, std::mem::take(&mut self.fds))));
                }
            }
            // Never past the end of this frame: descriptors of the next must stay with it.
            if !self.fill(socket.as_fd(), need.clamp(1, 256 << 10))? {
                return Ok(None);
            }
        }
    }

    fn fill(&mut self, socket: BorrowedFd<'_>, want: usize) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let at = self.buffer.len();
        if at + want > MAX_FRAME_BYTES + 4 {
            return Err(io::Error::other("frame is over the limit"));
        }
        self.buffer.resize(at + want, 0);
        let got = loop {
            let mut parts = [IoSliceMut::new(&mut self.buffer[at..])];
            match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(got) => break got,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        };
        self.buffer.truncate(at + got.bytes);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) || self.fds.len() > MAX_DESCRIPTORS {
            return Err(io::Error::other("more descriptors than a frame may carry"));
        }
        Ok(got.bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_frame_carries_its_descriptors_and_the_next_frame_its_own() {
        let (a, b) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"hello").unwrap();
        for (text, with) in [("one", true), ("two", false)] {
            let frame = encode(&text).unwrap();
            let fds = [file.as_fd()];
            let n = send_some(a.as_fd(), &frame, if with { &fds } else { &[] }).unwrap();
            assert_eq!(n, frame.len());
        }
        let mut receiver = Receiver::default();
        let (text, fds) = receiver.recv::<String>(&b).unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("one", 1));
        let mut same = std::fs::File::from(fds.into_iter().next().unwrap());
        same.rewind().unwrap();
        let mut content = String::new();
        same.read_to_string(&mut content).unwrap();
        assert_eq!(content, "hello");
        let (text, fds) = receiver.recv::<String>(&b).unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("two", 0));
        drop(a);
        assert!(receiver.recv::<String>(&b).unwrap().is_none());
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_allocated() {
        let (mut a, b) = UnixStream::pair().unwrap();
        a.write_all(&u32::MAX.to_le_bytes()).unwrap();
        a.write_all(b"x").unwrap();
        assert!(Receiver::default().recv::<String>(&b).is_err());
    }
}
