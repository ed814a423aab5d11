//! Places: how many sealed requests the enclave works on at once, shared among sources.
//!
//! A source holds its part at most. When every place is taken, a source with less than a fair portion waits for a while, and
//! the next free place goes to the source that holds the fewest; any other source is refused at once. The fair portion is
//! all places divided by the sources that hold or await one, so as many requests wait as there are places, or sources.

use crate::problem::Problem;
use crate::source::Source;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Gives places.
#[derive(Clone)]
pub(crate) struct Places(Arc<Inner>);

struct Inner {
    total: usize,
    each: usize,
    patience: Duration,
    state: Mutex<State>,
}

struct State {
    free: usize,
    sources: HashMap<Source, Count>,
    waiting: Vec<Waiter>,
    arrivals: u64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    held: usize,
    waiting: usize,
}

struct Waiter {
    source: Source,
    arrival: u64,
    call: oneshot::Sender<Place>,
}

/// One place; free again when dropped.
pub(crate) struct Place {
    /// `None` in one that was handed to a request that is gone.
    places: Option<Places>,
    source: Source,
}

impl Places {
    /// `total` places, of which a source can hold `percent`, and one in any case. A request waits for `patience` at most.
    pub(crate) fn new(total: usize, percent: u8, patience: Duration) -> Self {
        let each = (total as u128 * u128::from(percent) / 100).max(1);
        Self(Arc::new(Inner {
            total,
            each: usize::try_from(each).unwrap_or(total),
            patience,
            state: Mutex::new(State {
                free: total,
                sources: HashMap::new(),
                waiting: Vec::new(),
                arrivals: 0,
            }),
        }))
    }

    /// Takes a place, or waits for one.
    ///
    /// # Errors
    /// [`Problem::SourceBusy`] when the source has its part; [`Problem::Busy`] when every place is taken.
    pub(crate) async fn place(&self, source: Source) -> Result<Place, Problem> {
        let mut waiting = {
            let mut state = self.lock();
            let own = state.sources.get(&source).copied().unwrap_or_default();
            let mine = own.held + own.waiting;
            // Where a source's part is everything, having it means that everything is taken.
            if mine >= self.0.each && self.0.each < self.0.total {
                return Err(Problem::SourceBusy);
            }
            if state.free > 0 {
                state.free -= 1;
                state.sources.entry(source).or_default().held += 1;
                return Ok(Place {
                    places: Some(self.clone()),
                    source,
                });
            }
            let sources = state.sources.len() + usize::from(mine == 0);
            if mine >= (self.0.total / sources).max(1) {
                return Err(Problem::Busy);
            }
            let (call, called) = oneshot::channel();
            state.arrivals += 1;
            let arrival = state.arrivals;
            state.sources.entry(source).or_default().waiting += 1;
            state.waiting.push(Waiter {
                source,
                arrival,
                call,
            });
            Waiting {
                places: self,
                arrival,
                called,
            }
        };
        match tokio::time::timeout(self.0.patience, &mut waiting.called).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Problem::Busy),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in the queue; leaves it when dropped.
struct Waiting<'a> {
    places: &'a Places,
    arrival: u64,
    called: oneshot::Receiver<Place>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        let at = state
            .waiting
            .iter()
            .position(|waiter| waiter.arrival == self.arrival);
        if let Some(at) = at {
            let source = state.waiting.swap_remove(at).source;
            state.change(source, |count| count.waiting -= 1);
        }
    }
}

impl State {
    fn change(&mut self, source: Source, change: impl FnOnce(&mut Count)) {
        let Some(count) = self.sources.get_mut(&source) else {
            return;
        };
        change(count);
        // As many entries as there are sources that hold or wait: an attacker's addresses leave nothing behind.
        if count.held + count.waiting == 0 {
            self.sources.remove(&source);
        }
    }

    fn rank(&self, waiter: &Waiter) -> (usize, u64) {
        let held = self.sources.get(&waiter.source);
        (held.map_or(0, |count| count.held), waiter.arrival)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(places) = self.places.take() else {
            return;
        };
        let mut state = places.lock();
        state.change(self.source, |count| count.held -= 1);
        while let Some(next) =
            (0..state.waiting.len()).min_by_key(|at| state.rank(&state.waiting[*at]))
        {
            let Waiter { source, call, .. } = state.waiting.swap_remove(next);
            let place = Place {
                places: Some(places.clone()),
                source,
            };
            match call.send(place) {
                Ok(()) => {
                    state.change(source, |count| {
                        count.waiting -= 1;
                        count.held += 1;
                    });
                    return;
                }
                // The request is gone. Its place must not end here as one does: the lock is held.
                Err(mut place) => {
                    place.places = None;
                    state.change(source, |count| count.waiting -= 1);
                }
            }
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use tokio::sync::mpsc::unbounded_channel;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn source(last: u8) -> Source {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    async fn fill(places: &Places, by: &[u8]) -> Vec<Place> {
        let mut held = Vec::new();
        for last in by {
            held.push(places.place(source(*last)).await.unwrap());
        }
        held
    }

    #[tokio::test(start_paused = true)]
    async fn the_source_that_holds_the_fewest_is_next() {
        let places = Places::new(8, 100, PATIENCE);
        let mut held = fill(&places, &[1, 1, 1, 1, 1, 1, 2, 3]).await;
        let (told, mut heard) = unbounded_channel();
        // In the order in which they come: one that holds a place, one that holds none, another that holds one.
        for last in [2, 4, 3] {
            let (places, told) = (places.clone(), told.clone());
            tokio::spawn(
                async move { told.send((last, places.place(source(last)).await.unwrap())) },
            );
            tokio::task::yield_now().await;
        }
        assert_eq!(places.place(source(1)).await.err(), Some(Problem::Busy));
        let mut order = Vec::new();
        for _ in 0..3 {
            drop(held.remove(0));
            let (last, place) = heard.recv().await.unwrap();
            order.push(last);
            held.push(place);
        }
        assert_eq!(order, [4, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_has_its_part_and_is_told_so() {
        let places = Places::new(4, 50, PATIENCE);
        let held = fill(&places, &[1, 1]).await;
        let refused = places.place(source(1)).await;
        assert_eq!(refused.err(), Some(Problem::SourceBusy));
        assert!(places.place(source(2)).await.is_ok());
        drop(held);
        assert_eq!(places.lock().free, 4);
        assert!(places.lock().sources.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_or_leaves_leaves_nothing_behind() {
        let places = Places::new(2, 100, PATIENCE);
        let held = fill(&places, &[1, 1]).await;
        let begun = tokio::time::Instant::now();
        assert_eq!(places.place(source(2)).await.err(), Some(Problem::Busy));
        assert_eq!(begun.elapsed(), PATIENCE);
        let left = tokio::spawn({
            let places = places.clone();
            async move { places.place(source(3)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
        assert_eq!(places.lock().sources.len(), 1);
        assert!(places.lock().waiting.is_empty());
        drop(held);
        assert_eq!(places.lock().free, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_wait_as_there_are_places_or_sources() {
        let places = Places::new(4, 100, PATIENCE);
        let _held = fill(&places, &[1, 1, 1, 1]).await;
        let flood: Vec<_> = (0..100)
            .map(|number| {
                let places = places.clone();
                tokio::spawn(async move { places.place(source(2 + number % 2)).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(places.lock().waiting.len() <= 4);
        for one in flood {
            assert_eq!(one.await.unwrap().err(), Some(Problem::Busy));
        }
    }
}
