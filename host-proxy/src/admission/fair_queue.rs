//! Turns at work of which little is done at once, documents and proofs: a client that asks in a loop waits behind one that
//! asks once.
//!
//! A document carries one nonce, so each costs the enclave a call of its security module, which makes one at a time. Proofs
//! read the log's file. The next permit goes to the source that had the fewest recently, within a source to the connection
//! that had the fewest, and of equals to the request that came first.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::{Permit, Policy, Queue};
use crate::problem::Problem;
use crate::source::{Peer, Source};

/// Interval at which the counts of sources are halved, so that requests of a minute ago hardly count.
const HALF_LIFE: Duration = Duration::from_secs(5);

/// Admits a bounded number of requests at once, sources with few requests first.
#[derive(Clone)]
pub(crate) struct FairQueue {
    queue: Queue<LeastServedFirst>,
    timeout: Duration,
}

/// Admits the source that was admitted least.
pub(crate) struct LeastServedFirst {
    free: usize,
    served: HashMap<Source, u32>,
    halved: Instant,
}

impl FairQueue {
    /// Admits `at_once` requests at a time. A request waits for at most `timeout`.
    pub(crate) fn new(at_once: usize, timeout: Duration) -> Self {
        Self {
            queue: Queue::new(LeastServedFirst {
                free: at_once,
                served: HashMap::new(),
                halved: Instant::now(),
            }),
            timeout,
        }
    }

    /// Waits for a permit, which is released when dropped.
    ///
    /// # Errors
    /// [`Problem::Busy`] where others are admitted first for too long.
    pub(crate) async fn acquire(&self, peer: &Peer) -> Result<Permit<LeastServedFirst>, Problem> {
        tokio::time::timeout(self.timeout, self.queue.acquire(peer.clone()))
            .await
            .unwrap_or(Err(Problem::Busy))
    }
}

impl LeastServedFirst {
    fn halve_counts(&mut self) {
        let now = Instant::now();
        while now.duration_since(self.halved) >= HALF_LIFE {
            self.halved += HALF_LIFE;
            self.served.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            if self.served.is_empty() {
                self.halved = now;
            }
        }
    }
}

impl Policy for LeastServedFirst {
    type Request = Peer;
    type Rank = (u32, u64);

    const MAX_WAITING: usize = 1024;

    fn has_room(&self, _: &Peer) -> bool {
        self.free > 0
    }

    fn admit(&mut self, peer: &Peer) {
        self.halve_counts();
        self.free -= 1;
        *self.served.entry(peer.source).or_insert(0) += 1;
        peer.count_permit();
    }

    fn release(&mut self, _: &Peer) {
        self.free += 1;
    }

    fn rank(&self, peer: &Peer) -> (u32, u64) {
        let served = self.served.get(&peer.source).copied().unwrap_or(0);
        (served, peer.permits())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
    }

    /// Queues a request of every peer in order, then admits one after the other and returns the order.
    async fn admission_order(
        queue: &FairQueue,
        peers: &[(&'static str, Peer)],
    ) -> Vec<&'static str> {
        let held = queue.acquire(&peer(200)).await.unwrap();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for (name, peer) in peers.iter().cloned() {
            let (queue, sender) = (queue.clone(), sender.clone());
            tokio::spawn(async move {
                let permit = queue.acquire(&peer).await.unwrap();
                sender.send(name).unwrap();
                drop(permit);
            });
            tokio::task::yield_now().await;
        }
        drop((held, sender));
        let mut order = Vec::new();
        while let Some(name) = receiver.recv().await {
            order.push(name);
        }
        order
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_once_precedes_one_that_asks_in_a_loop() {
        let queue = FairQueue::new(1, Duration::from_secs(10));
        let looping = peer(1);
        for _ in 0..20 {
            drop(queue.acquire(&looping).await.unwrap());
        }
        // The loop itself, which came first; a fresh connection from the loop's address; another address.
        let order = admission_order(
            &queue,
            &[
                ("loop", looping),
                ("neighbour", peer(1)),
                ("other", peer(2)),
            ],
        )
        .await;
        assert_eq!(order, ["other", "neighbour", "loop"]);
    }

    #[tokio::test(start_paused = true)]
    async fn equals_are_admitted_in_order_and_old_requests_are_forgotten() {
        let queue = FairQueue::new(1, Duration::from_secs(10));
        let looping = peer(1);
        for _ in 0..20 {
            drop(queue.acquire(&looping).await.unwrap());
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        let order = admission_order(
            &queue,
            &[("first", peer(1)), ("second", peer(2)), ("third", peer(3))],
        )
        .await;
        assert_eq!(order, ["first", "second", "third"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_request_is_skipped_and_one_that_waits_too_long_is_refused() {
        let queue = FairQueue::new(1, Duration::from_secs(10));
        let held = queue.acquire(&peer(1)).await.unwrap();
        let dropped = tokio::spawn({
            let queue = queue.clone();
            async move { queue.acquire(&peer(2)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        assert_eq!(queue.acquire(&peer(3)).await.err(), Some(Problem::Busy));
        drop(held);
        assert!(queue.acquire(&peer(4)).await.is_ok());
        assert_eq!(queue.queue.lock().policy.free, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_the_source_that_asked_most() {
        let queue = FairQueue::new(1, Duration::from_secs(10));
        let looping = peer(1);
        drop(queue.acquire(&looping).await.unwrap());
        let held = queue.acquire(&peer(9)).await.unwrap();
        let spawn = |peer: Peer| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.acquire(&peer).await.map(drop) })
        };
        let mut flood: Vec<_> = (0..LeastServedFirst::MAX_WAITING)
            .map(|_| spawn(looping.clone()))
            .collect();
        // The runtime polls this test between some of the other tasks.
        while queue.queue.lock().waiting() < LeastServedFirst::MAX_WAITING {
            tokio::task::yield_now().await;
        }
        let honest = spawn(peer(2));
        let last = flood.pop().unwrap();
        assert_eq!(last.await.unwrap().err(), Some(Problem::Busy));
        assert_eq!(queue.queue.lock().waiting(), LeastServedFirst::MAX_WAITING);
        drop(held);
        assert!(honest.await.unwrap().is_ok());
    }
}
