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

/// Answers in all. Most hold at most some 0.4 MiB: a send buffer, what compresses it, and a text of the API; a large picture or record
/// is held whole.
const MOST: usize = 384;
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
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A place among the open answers, given back when it is dropped.
#[derive(Debug)]
pub struct Answering {
    address: IpAddr,
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
        if open.all >= MOST || open.by_address.get(&address).is_some_and(|n| *n >= most) {
            return None;
        }
        open.all += 1;
        *open.by_address.entry(address).or_default() += 1;
        drop(open);
        Some(Answering { address, inner: Arc::clone(&self.0) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut open = self.inner.open.lock();
        open.all = open.all.saturating_sub(1);
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

impl Answering {
    /// Keeps the place until the answer's last byte was taken, or the client gave it up.
    #[must_use]
    pub fn held_by(self, response: Response<Body>) -> Response<Body> {
        response.map(|body| Body::new(Held { body, _place: self }))
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
        let answer = take("192.0.2.2").expect("room again").held_by(Response::new(Body::from("x")));
        let rest: Vec<_> = std::iter::from_fn(|| take("127.0.0.1")).take(MOST).collect();
        assert_eq!(rest.len(), MOST_OF_ADDRESS - 1, "an answer that nobody has read holds its place");
        drop(answer);
        assert!(take("192.0.2.2").is_some());
    }
}
