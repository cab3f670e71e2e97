//! How many answers HTTP/2 may have open. One connection carries many, and what a client does not read of one stays in
//! memory: connections alone, of which `connections` counts, do not bound that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use spindle_base::sync::Mutex;

use super::connections::counted;

/// Answers in all. Each holds at most some 0.4 MiB, a send buffer and what compresses it, and its body where that is whole in memory.
const MOST: usize = 384;
/// Bytes of such bodies, of pictures mostly. A single one may be larger.
const MOST_BYTES: u64 = 128 << 20;
/// The same for one address that is neither this machine nor a reverse proxy.
const MOST_BYTES_OF_ADDRESS: u64 = 32 << 20;
/// Answers to one address that is neither this machine nor a reverse proxy: one that reads none leaves room for others.
const MOST_OF_ADDRESS: usize = 96;

/// The open answers of every HTTP/2 connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Answers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    proxies: Vec<IpAddr>,
    open: Mutex<Open, 61>,
}

#[derive(Debug, Default)]
struct Open {
    all: Sum,
    by_address: HashMap<IpAddr, Sum>,
}

/// Open answers and the bytes of their bodies.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    answers: usize,
    bytes: u64,
}

impl Sum {
    fn has_room_for(self, bytes: u64, most: u64) -> bool {
        bytes == 0 || self.bytes == 0 || self.bytes.saturating_add(bytes) <= most
    }
}

/// A place among the open answers, given back when it is dropped.
#[derive(Debug)]
pub struct Answering {
    address: IpAddr,
    /// This machine or a reverse proxy.
    is_many: bool,
    bytes: u64,
    inner: Arc<Inner>,
}

impl Answers {
    /// None yet. `proxies` are addresses that many people come from; this machine itself is always one.
    #[must_use]
    pub fn new(proxies: Vec<IpAddr>) -> Self {
        Self(Arc::new(Inner { proxies, open: Mutex::default() }))
    }

    /// A place for an answer to `peer`; `None`: there are as many as there may be.
    #[must_use]
    pub fn take(&self, peer: IpAddr) -> Option<Answering> {
        let own = peer.to_canonical();
        let is_many = own.is_loopback() || self.0.proxies.iter().any(|p| p.to_canonical() == own);
        let most = if is_many { MOST } else { MOST_OF_ADDRESS };
        let address = counted(peer);
        let mut open = self.0.open.lock();
        if open.all.answers >= MOST || open.by_address.get(&address).is_some_and(|n| n.answers >= most) {
            return None;
        }
        open.all.answers += 1;
        open.by_address.entry(address).or_default().answers += 1;
        drop(open);
        Some(Answering { address, is_many, bytes: 0, inner: Arc::clone(&self.0) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut open = self.inner.open.lock();
        open.all.answers = open.all.answers.saturating_sub(1);
        open.all.bytes = open.all.bytes.saturating_sub(self.bytes);
        if let Some(its) = open.by_address.get_mut(&self.address) {
            its.answers = its.answers.saturating_sub(1);
            its.bytes = its.bytes.saturating_sub(self.bytes);
            if its.answers == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

impl Answering {
    /// Keeps the place until the answer's last byte was taken, or the client gave it up. A body whose size is known is whole in
    /// memory: what is read on the way has none. `None`: bodies hold as many bytes as they may.
    #[must_use]
    pub fn held_by(mut self, response: Response<Body>) -> Option<Response<Body>> {
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        let of_address = if self.is_many { MOST_BYTES } else { MOST_BYTES_OF_ADDRESS };
        let mut open = self.inner.open.lock();
        let its = open.by_address.get(&self.address).copied().unwrap_or_default();
        if !open.all.has_room_for(bytes, MOST_BYTES) || !its.has_room_for(bytes, of_address) {
            return None;
        }
        open.all.bytes += bytes;
        open.by_address.entry(self.address).or_default().bytes += bytes;
        drop(open);
        self.bytes = bytes;
        Some(response.map(|body| Body::new(Held { body, _place: self })))
    }
}

struct Held {
    body: Body,
    _place: Answering,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_leaves_room_for_others_and_all_together_are_bounded() {
        let answers = Answers::new(vec![address("192.0.2.9")]);
        let take = |from: &str| answers.take(address(from));
        let one: Vec<_> = std::iter::from_fn(|| take("192.0.2.1")).take(MOST).collect();
        assert_eq!(one.len(), MOST_OF_ADDRESS);
        let proxy: Vec<_> = std::iter::from_fn(|| take("192.0.2.9")).take(MOST).collect();
        assert_eq!(one.len() + proxy.len(), MOST, "a proxy is many people");
        assert!(take("192.0.2.2").is_none() && take("127.0.0.1").is_none());
        drop(one);
        let answer =
            take("192.0.2.2").expect("room again").held_by(Response::new(Body::from("x"))).expect("one byte");
        let rest: Vec<_> = std::iter::from_fn(|| take("127.0.0.1")).take(MOST).collect();
        assert_eq!(rest.len(), MOST_OF_ADDRESS - 1, "an answer that nobody has read holds its place");
        drop(answer);
        assert!(take("192.0.2.2").is_some());
    }

    #[test]
    fn bodies_in_memory_are_bounded_in_bytes_and_one_that_is_larger_goes_alone() {
        let answers = Answers::new(Vec::new());
        let picture = |bytes: u64| {
            let body = vec![0; usize::try_from(bytes).expect("small")];
            answers.take(address("192.0.2.1")).expect("a place").held_by(Response::new(Body::from(body)))
        };
        let mib = 8 << 20;
        let held: Vec<_> = std::iter::from_fn(|| picture(mib)).take(100).collect();
        assert_eq!(held.len() as u64, MOST_BYTES_OF_ADDRESS / mib);
        assert!(picture(0).is_some(), "what holds nothing has room");
        let others = answers.take(address("192.0.2.2")).expect("a place");
        assert!(others.held_by(Response::new(Body::from(vec![0; 1 << 20]))).is_some());
        drop(held);
        let large = picture(MOST_BYTES_OF_ADDRESS + 1);
        assert!(large.is_some() && picture(1).is_none());
        drop(large);
        assert!(picture(mib).is_some(), "what was given up is free again");
        let open = answers.0.open.lock();
        assert_eq!((open.all.answers, open.all.bytes, open.by_address.len()), (0, 0, 0));
    }
}
