//! Upper bound on the sealed requests that the enclave works on at once, shared among sources.
//!
//! A source holds at most its share of the permits. When all permits are taken, a source with less than a fair portion waits
//! for a while, and the next free permit goes to the source that holds the fewest; any other source is refused at once. The
//! fair portion is all permits divided by the sources that hold or await one, so the number of waiting requests never exceeds the
//! larger of the two counts, permits and sources.

use std::collections::HashMap;
use std::time::Duration;

use super::queue::{Permit, Policy, Queue};
use crate::problem::Problem;
use crate::source::Source;

/// Admits a bounded number of requests at once.
#[derive(Clone)]
pub(crate) struct ConcurrencyLimit {
    queue: Queue<FewestFirst>,
    timeout: Duration,
}

/// Admits one request; released when dropped.
pub(crate) type ConcurrencyPermit = Permit<FewestFirst>;

/// Admits the source that holds the fewest permits.
pub(crate) struct FewestFirst {
    total: usize,
    per_source: usize,
    free: usize,
    sources: HashMap<Source, Count>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    held: usize,
    waiting: usize,
}

impl ConcurrencyLimit {
    /// `total` permits, of which a source can hold `percent`, but at least one. A request waits for at most `timeout`.
    pub(crate) fn new(total: usize, percent: u8, timeout: Duration) -> Self {
        let per_source = (total as u128 * u128::from(percent) / 100).max(1);
        Self {
            queue: Queue::new(FewestFirst {
                total,
                per_source: usize::try_from(per_source).unwrap_or(total),
                free: total,
                sources: HashMap::new(),
            }),
            timeout,
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// [`Problem::SourceBusy`] where the source has its share; [`Problem::Busy`] where every permit is taken.
    pub(crate) async fn acquire(&self, source: Source) -> Result<ConcurrencyPermit, Problem> {
        tokio::time::timeout(self.timeout, self.queue.acquire(source))
            .await
            .unwrap_or(Err(Problem::Busy))
    }
}

impl FewestFirst {
    fn held_or_awaited(&self, source: Source) -> usize {
        self.sources
            .get(&source)
            .map_or(0, |count| count.held + count.waiting)
    }

    fn change(&mut self, source: Source, change: impl FnOnce(&mut Count)) {
        let count = self.sources.entry(source).or_default();
        change(count);
        // Only sources that hold or await a permit have an entry, so an attacker's addresses use no memory later.
        if count.held + count.waiting == 0 {
            self.sources.remove(&source);
        }
    }
}

impl Policy for FewestFirst {
    type Request = Source;
    type Rank = usize;

    fn has_room(&self, _: &Source) -> bool {
        self.free > 0
    }

    fn admit(&mut self, source: &Source) {
        self.free -= 1;
        self.change(*source, |count| count.held += 1);
    }

    fn release(&mut self, source: &Source) {
        self.free += 1;
        self.change(*source, |count| count.held -= 1);
    }

    fn rank(&self, source: &Source) -> usize {
        self.sources.get(source).map_or(0, |count| count.held)
    }

    fn check(&self, source: &Source) -> Result<(), Problem> {
        // Where a source's share is all permits, reaching it means that all are taken: `Busy`.
        match self.per_source < self.total && self.held_or_awaited(*source) >= self.per_source {
            true => Err(Problem::SourceBusy),
            false => Ok(()),
        }
    }

    fn check_wait(&self, source: &Source) -> Result<(), Problem> {
        let amount = self.held_or_awaited(*source);
        let sources = self.sources.len() + usize::from(amount == 0);
        match amount >= (self.total / sources).max(1) {
            true => Err(Problem::Busy),
            false => Ok(()),
        }
    }

    fn begin_wait(&mut self, source: &Source) {
        self.change(*source, |count| count.waiting += 1);
    }

    fn end_wait(&mut self, source: &Source) {
        self.change(*source, |count| count.waiting -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn source(last: u8) -> Source {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    async fn fill(limit: &ConcurrencyLimit, by: &[u8]) -> Vec<ConcurrencyPermit> {
        let mut held = Vec::new();
        for last in by {
            held.push(limit.acquire(source(*last)).await.unwrap());
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn the_source_that_holds_the_fewest_is_next() {
        let limit = ConcurrencyLimit::new(8, 100, TIMEOUT);
        let mut held = fill(&limit, &[1, 1, 1, 1, 1, 1, 2, 3]).await;
        let (sender, mut receiver) = unbounded_channel();
        // In the order of arrival: a source that holds a permit, one that holds none, another that holds one.
        for last in [2, 4, 3] {
            let (limit, sender) = (limit.clone(), sender.clone());
            tokio::spawn(
                async move { sender.send((last, limit.acquire(source(last)).await.unwrap())) },
            );
            tokio::task::yield_now().await;
        }
        assert_eq!(limit.acquire(source(1)).await.err(), Some(Problem::Busy));
        let mut order = Vec::new();
        for _ in 0..3 {
            drop(held.remove(0));
            let (last, permit) = receiver.recv().await.unwrap();
            order.push(last);
            held.push(permit);
        }
        assert_eq!(order, [4, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_beyond_its_share_is_refused_as_busy_itself() {
        let limit = ConcurrencyLimit::new(4, 50, TIMEOUT);
        let held = fill(&limit, &[1, 1]).await;
        let refused = limit.acquire(source(1)).await;
        assert_eq!(refused.err(), Some(Problem::SourceBusy));
        assert!(limit.acquire(source(2)).await.is_ok());
        drop(held);
        let state = limit.queue.lock();
        assert_eq!(state.policy.free, 4);
        assert!(state.policy.sources.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_times_out_or_is_dropped_leaves_no_state() {
        let limit = ConcurrencyLimit::new(2, 100, TIMEOUT);
        let held = fill(&limit, &[1, 1]).await;
        let begun = tokio::time::Instant::now();
        assert_eq!(limit.acquire(source(2)).await.err(), Some(Problem::Busy));
        assert_eq!(begun.elapsed(), TIMEOUT);
        let dropped = tokio::spawn({
            let limit = limit.clone();
            async move { limit.acquire(source(3)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        assert_eq!(limit.queue.lock().policy.sources.len(), 1);
        assert_eq!(limit.queue.lock().waiting(), 0);
        drop(held);
        assert_eq!(limit.queue.lock().policy.free, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn at_most_as_many_requests_wait_as_there_are_permits_or_sources() {
        let limit = ConcurrencyLimit::new(4, 100, TIMEOUT);
        let _held = fill(&limit, &[1, 1, 1, 1]).await;
        let flood: Vec<_> = (0..100)
            .map(|number| {
                let limit = limit.clone();
                tokio::spawn(async move { limit.acquire(source(2 + number % 2)).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(limit.queue.lock().waiting() <= 4);
        for request in flood {
            assert_eq!(request.await.unwrap().err(), Some(Problem::Busy));
        }
    }
}
