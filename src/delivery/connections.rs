//! The connections that are open: how many, from whom, and which of them wait for a client that takes nothing.
//!
//! A stop waits for answers that are being sent, not for players that stand still: a paused film leaves its connection full
//! for hours.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use spindle_base::sync::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How often a stop looks which connections stand still.
const LOOK: Duration = Duration::from_millis(250);
/// Looks in a row at which a connection could not write a byte, after which a stop closes it: three quarters of a second at
/// least. A player that reads at all empties a socket's buffer faster; one that does not is paused.
const STILL_LOOKS: u32 = 3;

/// How many connections there may be.
#[derive(Debug, Clone)]
pub struct Limits {
    /// In all. Each waiting one holds a few KiB.
    pub total: usize,
    /// From one address (of IPv6 one /64, which is one customer); 0: as many as there are.
    pub per_address: usize,
    /// Addresses that many people come from: reverse proxies. This machine itself is always one.
    pub proxies: Vec<IpAddr>,
}

/// What a connection tells of its writing, read by a stop alone. Odd: it waits for the client to take bytes.
#[derive(Debug, Default)]
pub struct Flow(AtomicU32);

impl Flow {
    /// The socket is full.
    pub fn waits(&self) {
        let n = self.0.load(Ordering::Relaxed);
        if n & 1 == 0 {
            self.0.store(n.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The socket took bytes. Written by its own connection alone: a load is all that it costs where nothing waited.
    pub fn moves(&self) {
        let n = self.0.load(Ordering::Relaxed);
        if n & 1 == 1 {
            self.0.store(n.wrapping_add(1), Ordering::Relaxed);
        }
    }

    fn look(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Every open connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    room: Arc<Semaphore>,
    open: Mutex<Open, 60>,
    /// Told when one ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_id: HashMap<u64, Entry>,
    by_address: HashMap<IpAddr, Count>,
}

#[derive(Debug)]
struct Entry {
    flow: Arc<Flow>,
    task: Option<AbortHandle>,
}

#[derive(Debug, Default)]
struct Count {
    open: usize,
    /// Said in the log that the next one was refused.
    told: bool,
}

/// A place among the open connections, given back when it is dropped.
struct Place {
    id: u64,
    address: IpAddr,
    inner: Arc<Inner>,
    _room: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.inner.open.lock();
        open.by_id.remove(&self.id);
        if let Some(count) = open.by_address.get_mut(&self.address) {
            count.open = count.open.saturating_sub(1);
            if count.open == 0 {
                open.by_address.remove(&self.address);
            }
        }
        drop(open);
        self.inner.ended.notify_waiters();
    }
}

/// A connection that may be served.
pub struct Admitted {
    place: Place,
    flow: Arc<Flow>,
}

impl Admitted {
    /// Serves it as a task of its own.
    pub fn run<F>(self, serve: impl FnOnce(Arc<Flow>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { place, flow } = self;
        let (id, inner) = (place.id, Arc::clone(&place.inner));
        let work = serve(flow);
        let task = tokio::spawn(async move {
            work.await;
            drop(place);
        });
        // It may have ended already: then there is nothing to note.
        if let Some(entry) = inner.open.lock().by_id.get_mut(&id) {
            entry.task = Some(task.abort_handle());
        }
    }
}

/// Who is counted together: an IPv4 address also when it comes mapped into IPv6, and of IPv6 the first 64 bits, as whoever
/// has one address there has all of these (RFC 6177).
#[must_use]
pub fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

impl Connections {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let room = Arc::new(Semaphore::new(limits.total));
        Self(Arc::new(Inner { limits, room, open: Mutex::default(), ended: Notify::new() }))
    }

    /// Waits until there is room for one more.
    pub async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.room).acquire_owned().await.ok()
    }

    /// Counts one from `peer` in; `None`: that address has as many as it may.
    #[must_use]
    pub fn admit(&self, room: OwnedSemaphorePermit, peer: IpAddr) -> Option<Admitted> {
        let limits = &self.0.limits;
        let address = counted(peer);
        let own = peer.to_canonical();
        let exempt = own.is_loopback() || limits.proxies.iter().any(|p| p.to_canonical() == own);
        let mut open = self.0.open.lock();
        let count = open.by_address.entry(address).or_default();
        if !exempt && limits.per_address > 0 && count.open >= limits.per_address {
            if !std::mem::replace(&mut count.told, true) {
                tracing::warn!(
                    address = %own,
                    connections = count.open,
                    "an address has as many connections as it may; more are refused \
                     (settings `connections.per_address` and, for a reverse proxy, `connections.proxies`)"
                );
            }
            return None;
        }
        count.open += 1;
        let id = open.next;
        open.next += 1;
        let flow = Arc::new(Flow::default());
        open.by_id.insert(id, Entry { flow: Arc::clone(&flow), task: None });
        drop(open);
        Some(Admitted { place: Place { id, address, inner: Arc::clone(&self.0), _room: room }, flow })
    }

    /// How many are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.open.lock().by_id.len()
    }

    /// Waits until every connection has ended; closes those whose clients take nothing, and all that are left after
    /// `patience`. The number of these: answers that were cut off while a client was reading.
    pub async fn drain(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        let mut still = Still::default();
        loop {
            // Listens before it looks: what ends in between is heard.
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.count() == 0 {
                return 0;
            }
            if Instant::now() >= deadline {
                return self.close_all();
            }
            self.close_still(&mut still);
            let next_look = Instant::now() + LOOK;
            while self.count() > 0 && tokio::time::timeout_at(next_look, ended.as_mut()).await.is_ok() {
                ended.set(self.0.ended.notified());
                ended.as_mut().enable();
            }
        }
    }

    fn close_still(&self, still: &mut Still) {
        let open = self.0.open.lock();
        let is_still = still.look(open.by_id.iter().map(|(id, entry)| (*id, entry.flow.look())));
        let tasks = is_still.iter().filter_map(|id| open.by_id.get(id)?.task.as_ref());
        tasks.for_each(AbortHandle::abort);
    }

    fn close_all(&self) -> usize {
        let open = self.0.open.lock();
        open.by_id.values().filter_map(|e| e.task.as_ref()).for_each(AbortHandle::abort);
        open.by_id.len()
    }
}

/// By connection: what its flow showed at the last look, and at how many looks in a row it waited with the same bytes.
#[derive(Debug, Default)]
struct Still(HashMap<u64, (u32, u32)>);

impl Still {
    /// One look at all; those that have stood still for long enough.
    fn look(&mut self, flows: impl Iterator<Item = (u64, u32)>) -> Vec<u64> {
        let mut now = HashMap::new();
        for (id, flow) in flows {
            let before = self.0.get(&id).copied();
            let waits_on = flow & 1 == 1 && before.is_some_and(|(was, _)| was == flow);
            let looks = if waits_on { before.map_or(0, |(_, looks)| looks) + 1 } else { 0 };
            now.insert(id, (flow, looks));
        }
        self.0 = now;
        self.0.iter().filter(|(_, (_, looks))| *looks >= STILL_LOOKS).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(per_address: usize) -> Limits {
        Limits { total: 100, per_address, proxies: vec!["192.0.2.9".parse().expect("an address")] }
    }

    async fn admit(connections: &Connections, from: &str) -> Option<Admitted> {
        let room = connections.room().await.expect("not closed");
        connections.admit(room, from.parse().expect("an address"))
    }

    async fn opens(connections: &Connections, from: &str) -> bool {
        let admitted = admit(connections, from).await;
        admitted.map(|a| a.run(|_| std::future::pending())).is_some()
    }

    #[tokio::test]
    async fn one_address_has_its_share_and_this_machine_and_proxies_as_many_as_they_need() {
        let connections = Connections::new(limits(2));
        for (from, allowed) in [
            ("198.51.100.1", 2),
            ("::ffff:198.51.100.1", 0),
            ("198.51.100.2", 2),
            ("2001:db8::1", 2),
            ("2001:db8::ffff", 0),
            ("2001:db8:0:1::1", 2),
            ("127.0.0.1", 5),
            ("192.0.2.9", 5),
        ] {
            let mut open = 0;
            for _ in 0..5 {
                open += usize::from(opens(&connections, from).await);
            }
            assert_eq!(open, allowed, "{from}");
        }
        assert_eq!(connections.count(), 18);
        assert_eq!(connections.0.room.available_permits(), 82, "what was refused holds no room");
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_has_ended() {
        let connections = Connections::new(limits(1));
        for _ in 0..3 {
            let admitted = admit(&connections, "198.51.100.1").await.expect("the only one");
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            admitted.run(|_| async move { drop(ended.await) });
            assert!(!opens(&connections, "198.51.100.1").await);
            drop(end);
            assert_eq!(connections.drain(Duration::from_secs(60)).await, 0);
        }
    }

    #[test]
    fn a_client_stands_still_when_it_took_nothing_from_look_to_look() {
        let (paused, paced, busy) = (Flow::default(), Flow::default(), Flow::default());
        paused.waits();
        let mut still = Still::default();
        let mut closed = Vec::new();
        for _ in 0..=STILL_LOOKS {
            paced.moves();
            paced.waits();
            closed = still.look([(1, paused.look()), (2, paced.look()), (3, busy.look())].into_iter());
        }
        assert_eq!(closed, [1]);
        paused.moves();
        assert_eq!(still.look([(1, paused.look())].into_iter()), [0_u64; 0]);
    }

    #[tokio::test]
    async fn a_stop_closes_a_client_that_takes_nothing_and_cuts_off_what_is_left_when_its_time_is_over() {
        let connections = Connections::new(limits(0));
        admit(&connections, "198.51.100.1").await.expect("there is room").run(|flow| async move {
            flow.waits();
            std::future::pending::<()>().await;
        });
        assert_eq!(connections.drain(Duration::from_secs(60)).await, 0);
        // One that waits for something else than its client is given its time.
        assert!(opens(&connections, "198.51.100.1").await);
        assert_eq!(connections.drain(Duration::from_millis(300)).await, 1);
    }
}
