//! Turns at what is done a few at a time, documents and proofs: a client that asks in a loop waits behind one that asks once.
//!
//! A document carries one nonce, so each costs the enclave a call of its security module, and the module makes one at a
//! time. Proofs read the log's file. The next turn goes to the source that had the fewest of late, within a source to the connection that had the
//! fewest, and between equals to the one that came first.

use crate::problem::Problem;
use crate::source::{Peer, Source};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Most requests that wait. Beyond, the one whose turn would come last is refused.
const MAX_WAITING: usize = 1024;
/// How often the counts of sources are halved: what somebody did a minute ago hardly counts.
const HALF_LIFE: Duration = Duration::from_secs(5);

/// Gives turns.
#[derive(Clone)]
pub(crate) struct Turns {
    state: Arc<Mutex<State>>,
    patience: Duration,
}

struct State {
    free: usize,
    waiting: Vec<Waiter>,
    served: HashMap<Source, u32>,
    halved: Instant,
    arrivals: u64,
}

struct Waiter {
    peer: Peer,
    arrival: u64,
    call: oneshot::Sender<Turn>,
}

/// One turn; ends when dropped.
pub(crate) struct Turn {
    /// `None` in a turn that is being handed over.
    turns: Option<Turns>,
}

impl Turns {
    /// `at_once` turns at a time, each waited for no longer than `patience`.
    pub(crate) fn new(at_once: usize, patience: Duration) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                free: at_once,
                waiting: Vec::new(),
                served: HashMap::new(),
                halved: Instant::now(),
                arrivals: 0,
            })),
            patience,
        }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`Problem::Busy`] when others go first for too long.
    pub(crate) async fn turn(&self, peer: &Peer) -> Result<Turn, Problem> {
        let called = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                state.serve(peer);
                return Ok(Turn {
                    turns: Some(self.clone()),
                });
            }
            state.enqueue(peer)
        };
        match tokio::time::timeout(self.patience, called).await {
            Ok(Ok(turn)) => Ok(turn),
            // Out of patience, or refused in favour of somebody who asked less.
            _ => Err(Problem::Busy),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enqueue(&mut self, peer: &Peer) -> oneshot::Receiver<Turn> {
        let (call, called) = oneshot::channel();
        self.arrivals += 1;
        self.waiting.push(Waiter {
            peer: peer.clone(),
            arrival: self.arrivals,
            call,
        });
        if self.waiting.len() > MAX_WAITING {
            self.waiting.retain(|waiter| !waiter.call.is_closed());
        }
        if self.waiting.len() > MAX_WAITING
            && let Some(last) = (0..self.waiting.len()).max_by_key(|at| self.rank(*at))
        {
            // Dropping the waiter tells it.
            self.waiting.swap_remove(last);
        }
        called
    }

    fn rank(&self, at: usize) -> (u32, u64, u64) {
        let Waiter { peer, arrival, .. } = &self.waiting[at];
        let served = self.served.get(&peer.source).copied().unwrap_or(0);
        (served, peer.turns(), *arrival)
    }

    fn serve(&mut self, peer: &Peer) {
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
        *self.served.entry(peer.source).or_insert(0) += 1;
        peer.count_turn();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.turns.take() else {
            return;
        };
        let mut state = turns.lock();
        while let Some(next) = (0..state.waiting.len()).min_by_key(|at| state.rank(*at)) {
            let Waiter { peer, call, .. } = state.waiting.swap_remove(next);
            let turn = Turn {
                turns: Some(turns.clone()),
            };
            match call.send(turn) {
                Ok(()) => {
                    state.serve(&peer);
                    return;
                }
                // It gave up. Its turn must not end here as a turn does: the lock is held.
                Err(mut turn) => turn.turns = None,
            }
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn peer(last: u8) -> Peer {
        Peer::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
    }

    /// Asks for a turn with every peer in order, lets them queue, then serves one by one and notes who was called.
    async fn order(turns: &Turns, peers: &[(&'static str, Peer)]) -> Vec<&'static str> {
        let held = turns.turn(&peer(200)).await.unwrap();
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        for (name, peer) in peers.iter().cloned() {
            let (turns, told) = (turns.clone(), told.clone());
            tokio::spawn(async move {
                let turn = turns.turn(&peer).await.unwrap();
                told.send(name).unwrap();
                drop(turn);
            });
            tokio::task::yield_now().await;
        }
        drop((held, told));
        let mut called = Vec::new();
        while let Some(name) = heard.recv().await {
            called.push(name);
        }
        called
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_once_goes_before_who_asks_in_a_loop() {
        let turns = Turns::new(1, Duration::from_secs(10));
        let looping = peer(1);
        for _ in 0..20 {
            drop(turns.turn(&looping).await.unwrap());
        }
        // Another address; a fresh connection from the loop's own address; the loop itself, which came first.
        let called = order(
            &turns,
            &[
                ("loop", looping),
                ("neighbour", peer(1)),
                ("other", peer(2)),
            ],
        )
        .await;
        assert_eq!(called, ["other", "neighbour", "loop"]);
    }

    #[tokio::test(start_paused = true)]
    async fn equals_are_served_in_order_and_old_deeds_are_forgotten() {
        let turns = Turns::new(1, Duration::from_secs(10));
        let looping = peer(1);
        for _ in 0..20 {
            drop(turns.turn(&looping).await.unwrap());
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        let called = order(
            &turns,
            &[("first", peer(1)), ("second", peer(2)), ("third", peer(3))],
        )
        .await;
        assert_eq!(called, ["first", "second", "third"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_left_gets_no_turn_and_who_waits_too_long_is_told() {
        let turns = Turns::new(1, Duration::from_secs(10));
        let held = turns.turn(&peer(1)).await.unwrap();
        let left = tokio::spawn({
            let turns = turns.clone();
            async move { turns.turn(&peer(2)).await.map(drop) }
        });
        tokio::task::yield_now().await;
        left.abort();
        let _ = left.await;
        assert_eq!(turns.turn(&peer(3)).await.err(), Some(Problem::Busy));
        drop(held);
        assert!(turns.turn(&peer(4)).await.is_ok());
        assert_eq!(turns.lock().free, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_drops_who_asked_most() {
        let turns = Turns::new(1, Duration::from_secs(10));
        let looping = peer(1);
        drop(turns.turn(&looping).await.unwrap());
        let held = turns.turn(&peer(9)).await.unwrap();
        let mut flood = Vec::new();
        for _ in 0..MAX_WAITING {
            let called = turns.lock().enqueue(&looping);
            flood.push(called);
        }
        let mut honest = turns.lock().enqueue(&peer(2));
        assert_eq!(turns.lock().waiting.len(), MAX_WAITING);
        drop(held);
        assert!(honest.try_recv().is_ok());
    }
}
