//! Who computes for whom: the whole team for one request, one thread each for many.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::{EncodeError, Encoder, LoadError, Shape};
use super::isa::Isa;
use super::precision::Precision;
use super::weights::{Weights, unsupported};
use super::worker::Worker;
use crate::weights;

/// Weights and the workers that share them; may be called from several threads at once.
///
/// A call that finds no other one gets the team of all threads, for as long as it stays alone. Calls
/// at the same time get one thread each, their own: more workers are made as more calls meet, and
/// kept. No lock is held while anything is computed.
pub struct FusedEncoder {
    weights: Arc<Weights>,
    /// Calls in progress.
    calls: AtomicUsize,
    idle: Mutex<Idle>,
}

struct Idle {
    team: Option<Worker>,
    single: Vec<Worker>,
}

impl FusedEncoder {
    /// Checks and packs `weights`, whose memory it takes over, as exactly as `precision` says, and starts a team of
    /// `threads`.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub fn new(
        shape: Shape,
        weights: weights::Weights,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        Ok(Self::over(
            Arc::new(Weights::load(weights, shape, precision)?),
            threads,
        )?)
    }

    /// Starts a team of `threads` over weights already loaded, and makes the workers that as many calls at once need.
    ///
    /// # Errors
    /// Whatever the system says where a thread cannot be started.
    pub fn over(weights: Arc<Weights>, threads: NonZeroUsize) -> std::io::Result<Self> {
        let team = Worker::new(Arc::clone(&weights), threads)?;
        // A single thread's team is a single worker already.
        let others = if threads.get() > 1 { threads.get() } else { 0 };
        let single = (0..others)
            .map(|_| Worker::new(Arc::clone(&weights), NonZeroUsize::MIN))
            .collect::<std::io::Result<_>>()?;
        Ok(Self {
            weights,
            calls: AtomicUsize::new(0),
            idle: Mutex::new(Idle {
                team: Some(team),
                single,
            }),
        })
    }

    /// Why this engine cannot run a model of this shape; `None` if it can.
    #[must_use]
    pub fn unsupported(shape: &Shape) -> Option<&'static str> {
        unsupported(shape)
    }

    /// The weights, to make workers of one's own from.
    #[must_use]
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.weights.isa()
    }

    fn take_team(&self) -> Option<Worker> {
        self.idle().team.take()
    }

    fn take_single(&self) -> Option<Worker> {
        self.idle().single.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encoder for FusedEncoder {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        let mut rows = vec![0.0; sequences.len() * self.dimension()];
        self.encode_into(sequences, &mut rows)?;
        Ok(rows)
    }

    /// Allocates nothing while no more calls meet than there are threads.
    fn encode_into(&self, sequences: &[&[u32]], rows: &mut [f32]) -> Result<(), EncodeError> {
        let call = Call::begin(&self.calls);
        let alone = || self.calls.load(Ordering::Relaxed) == 1;
        let team = if call.first { self.take_team() } else { None };
        if let Some(team) = team {
            let work = |team: &mut Worker| team.encode_while(sequences, rows, &alone);
            return lend(team, work, |team| self.idle().team = Some(team));
        }
        let single = match self.take_single() {
            Some(single) => single,
            None => Worker::new(Arc::clone(&self.weights), NonZeroUsize::MIN)?,
        };
        let work = |single: &mut Worker| single.encode(sequences, rows);
        lend(single, work, |single| self.idle().single.push(single))
    }

    fn cost(&self, tokens: usize) -> usize {
        self.weights.shape().cost(tokens)
    }

    fn dimension(&self) -> usize {
        self.weights.shape().hidden
    }

    fn max_tokens(&self) -> usize {
        self.weights.shape().max_tokens
    }

    fn vocabulary(&self) -> usize {
        self.weights.shape().vocabulary
    }

    fn name(&self) -> &'static str {
        self.weights.isa().engine(self.weights.precision())
    }
}

/// Lets `work` have the worker, and gives it `back` however the work ends: a panic must not cost the engine its threads.
fn lend<T>(
    mut worker: Worker,
    work: impl FnOnce(&mut Worker) -> T,
    back: impl FnOnce(Worker),
) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut worker)));
    back(worker);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Counts a call for as long as it runs, however it ends.
struct Call<'a> {
    calls: &'a AtomicUsize,
    first: bool,
}

impl<'a> Call<'a> {
    fn begin(calls: &'a AtomicUsize) -> Self {
        let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        Self { calls, first }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TINY, random_model, weights};
    use super::*;

    #[test]
    fn a_panic_gives_the_worker_back() {
        let weights = weights(&random_model(&TINY, 1), "");
        let threads = NonZeroUsize::new(2).unwrap();
        let encoder = FusedEncoder::new(TINY, weights, Precision::F32, threads).unwrap();
        let before = encoder.encode(&[&[1, 2, 3]]).unwrap();
        let team = encoder.take_team().unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let work = |_: &mut Worker| panic!("on purpose");
            lend(team, work, |team| encoder.idle().team = Some(team));
        }));
        assert!(failed.is_err());
        assert!(encoder.idle().team.is_some());
        assert_eq!(encoder.encode(&[&[1, 2, 3]]).unwrap(), before);
    }
}
