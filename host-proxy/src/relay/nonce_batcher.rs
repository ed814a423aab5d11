//! Batches nonces: one document serves all clients that wait at a tick of a fixed schedule. Their nonces become leaves of a tree,
//! and the enclave is asked for a document with its root ([`merkle::nonces`]).
//!
//! Receipts name the document that their client verified, so neither document nor proof may distinguish one client from another:
//!
//! - A document is made at a tick and at no other moment, even for one client. So its time, which the enclave signs, does not
//!   reveal when a client came.
//! - A tree has a power of two leaves, at least [`MIN_LEAVES`]. Random nonces fill it, and each client's index is random. So
//!   evidence does not reveal how many other clients wait, and has the same form for a client that waits alone.
//!
//! None of this binds the host: it can make a document for one client, and nothing in the evidence shows that.
//!
//! A flood costs one document a tick. Only clients that send `shared=1` take part: every other one gets a separate document.

mod share;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use bytes::Bytes;
use http::response::Parts;
use merkle::nonces::{MAX_NONCES, NonceTree};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::problem::Problem;
use share::Share;

/// Documents that are made at once, where one takes longer than the schedule's interval.
const AT_ONCE: usize = 2;
/// Leaves of the smallest tree: the size of the set in which a single client hides.
const MIN_LEAVES: usize = 16;

/// Collects nonces of clients that wait for a document. A clone is the same batcher.
#[derive(Clone)]
pub(super) struct NonceBatcher(Arc<Inner>);

struct Inner {
    /// Ticks are whole intervals after this moment.
    begun: Instant,
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiter>,
    /// Documents that are being made.
    in_flight: usize,
    /// Whether a task runs the schedule.
    is_scheduled: bool,
}

struct Waiter {
    nonce: Vec<u8>,
    answer: oneshot::Sender<Result<Share, Problem>>,
}

/// A client that waits for its share of a document.
pub(super) struct Waiting {
    pub(super) share: oneshot::Receiver<Result<Share, Problem>>,
    /// Whether the caller has to run the schedule; see [`NonceBatcher::tick`].
    pub(super) must_run_schedule: bool,
}

/// The step to take at a tick.
pub(super) enum Tick {
    /// Make a document.
    Make(Batch),
    /// Wait for the next tick: the limit on documents in flight is reached.
    Wait,
    /// Stop the schedule: no client waits.
    Stop,
}

/// All clients that wait at a tick, for which one document is made.
pub(super) struct Batch {
    /// Each with the index of its leaf.
    waiters: Vec<(Waiter, u32)>,
    tree: Arc<NonceTree>,
    _in_flight: InFlight,
}

/// Counts a document in flight until it is dropped, however its batch ends.
struct InFlight(NonceBatcher);

/// Returns the nonce of a query that allows sharing: one `nonce` and one `shared=1`, in any order. The enclave judges every other
/// query.
pub(super) fn shareable_nonce(query: Option<&str>) -> Option<Vec<u8>> {
    let (first, second) = query?.split_once('&')?;
    let (nonce, shared) = match first.starts_with("nonce=") {
        true => (first, second),
        false => (second, first),
    };
    if shared != "shared=1" {
        return None;
    }
    let text = nonce.strip_prefix("nonce=")?;
    let nonce = Base64UrlUnpadded::decode_vec(text).ok()?;
    (16..=64).contains(&nonce.len()).then_some(nonce)
}

impl NonceBatcher {
    /// Begins a schedule with a tick every `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            interval,
            state: Mutex::default(),
        }))
    }

    /// Adds a client to those that wait.
    ///
    /// # Errors
    /// [`Problem::Busy`] where [`MAX_NONCES`] clients wait.
    pub(super) fn join(&self, nonce: Vec<u8>) -> Result<Waiting, Problem> {
        let (answer, share) = oneshot::channel();
        let mut state = self.state();
        if state.waiting.len() >= MAX_NONCES {
            // Clients that have left count no longer.
            state.waiting.retain(|waiter| !waiter.answer.is_closed());
            if state.waiting.len() >= MAX_NONCES {
                return Err(Problem::Busy);
            }
        }
        state.waiting.push(Waiter { nonce, answer });
        let must_run_schedule = !state.is_scheduled;
        state.is_scheduled = true;
        Ok(Waiting {
            share,
            must_run_schedule,
        })
    }

    /// Returns the first tick after now.
    pub(super) fn next_tick(&self) -> Instant {
        let now = Instant::now();
        let interval = self.0.interval.as_nanos().max(1);
        let since_tick = now.duration_since(self.0.begun).as_nanos() % interval;
        now + Duration::from_nanos(u64::try_from(interval - since_tick).unwrap_or(u64::MAX))
    }

    /// Takes all clients that wait now. The task that runs the schedule calls this at every tick, until [`Tick::Stop`].
    pub(super) fn tick(&self) -> Tick {
        let waiters = {
            let mut state = self.state();
            state.waiting.retain(|waiter| !waiter.answer.is_closed());
            if state.waiting.is_empty() {
                state.is_scheduled = false;
                return Tick::Stop;
            }
            if state.in_flight >= AT_ONCE {
                return Tick::Wait;
            }
            state.in_flight += 1;
            std::mem::take(&mut state.waiting)
        };
        let in_flight = InFlight(self.clone());
        let Some((tree, indices)) = build_tree(&waiters) else {
            for waiter in waiters {
                // A client that has left needs no answer.
                waiter.answer.send(Err(Problem::Busy)).ok();
            }
            return Tick::Wait;
        };
        Tick::Make(Batch {
            waiters: waiters.into_iter().zip(indices).collect(),
            tree: Arc::new(tree),
            _in_flight: in_flight,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.state().in_flight -= 1;
    }
}

/// Builds a tree over the nonces of `waiters` and random ones, and returns it with the index of each waiter's leaf. `None` where
/// the kernel gives no random bytes.
fn build_tree(waiters: &[Waiter]) -> Option<(NonceTree, Vec<u32>)> {
    let count = waiters.len().next_power_of_two().max(MIN_LEAVES);
    let mut random = vec![0; count * size_of::<[u8; 32]>()];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(%error, "the kernel gave no random bytes, so no document can be shared");
        return None;
    }
    let (padding, _) = random.as_chunks::<32>();
    let mut leaves: Vec<&[u8]> = padding.iter().map(|nonce| &nonce[..]).collect();
    let indices = random_permutation(count)?;
    for (waiter, index) in waiters.iter().zip(&indices) {
        *leaves.get_mut(*index as usize)? = &waiter.nonce;
    }
    Some((NonceTree::over(leaves)?, indices))
}

/// Returns the numbers below `count` in random order (Fisher and Yates).
fn random_permutation(count: usize) -> Option<Vec<u32>> {
    let mut numbers: Vec<u32> = (0..u32::try_from(count).ok()?).collect();
    let mut random = vec![0; count * size_of::<u64>()];
    getrandom::fill(&mut random).ok()?;
    let (random, _) = random.as_chunks::<8>();
    for (last, random) in (1..count).rev().zip(random) {
        // The remainder's bias is below 2⁻⁵⁰: at most 2¹⁴ of 2⁶⁴ values.
        let other = u64::from_le_bytes(*random) % (last as u64 + 1);
        numbers.swap(last, other as usize);
    }
    Some(numbers)
}

impl Batch {
    /// Number of clients that share the document.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns path and query of the request for the document.
    pub(super) fn path(&self) -> String {
        let nonce = Base64UrlUnpadded::encode_string(&self.tree.document_nonce());
        format!("/v1/attestation?nonce={nonce}")
    }

    /// Gives each client its share, or the problem.
    pub(super) fn answer(self, document: &Result<(Parts, Bytes), Problem>) {
        for (waiter, index) in self.waiters {
            let share = document.as_ref().map_err(|problem| *problem);
            let share =
                share.map(|(head, body)| Share::new(head, body, Arc::clone(&self.tree), index));
            // A client that has left needs no answer.
            waiter.answer.send(share).ok();
        }
    }
}

#[cfg(test)]
mod tests;
