//! Assigns threads to calls: all threads to a single call, or one thread each to concurrent calls.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::{EncodeError, Encoder, Head, LoadError, Shape};
use super::isa::Isa;
use super::precision::Precision;
use super::weights::{Weights, unsupported};
use super::worker::Worker;
use crate::weights;

/// Weights and the workers that share them; may be called from several threads at once.
///
/// A call that runs alone uses the team of all threads, until another call starts. Concurrent calls get one thread each; more
/// workers are created as needed and kept. No lock is held during a computation.
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
    /// Checks and packs `weights`, reusing their memory, in the given `precision`, and starts a team of `threads` threads.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub fn new(
        shape: Shape,
        weights: weights::Weights,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        Ok(Self::with_weights(
            Arc::new(Weights::load(weights, shape, precision)?),
            threads,
        )?)
    }

    /// Like [`new`](Self::new), with steps of a model after its encoder.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_head(
        shape: Shape,
        head: Head,
        weights: weights::Weights,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        head.check(shape.hidden)?;
        let weights = Weights::load(weights, shape, precision)?.with_head(head);
        Ok(Self::with_weights(Arc::new(weights), threads)?)
    }

    /// Starts a team of `threads` over loaded weights, and creates the workers for as many concurrent calls.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub fn with_weights(weights: Arc<Weights>, threads: NonZeroUsize) -> std::io::Result<Self> {
        let team = Worker::new(Arc::clone(&weights), threads)?;
        // A team of one thread is already a single worker.
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

    /// Returns why this engine cannot run a model of this shape; `None` if it can.
    #[must_use]
    pub fn unsupported(shape: &Shape) -> Option<&'static str> {
        unsupported(shape)
    }

    /// The weights, for creating further workers.
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

    /// Allocates nothing, unless there are more concurrent calls than threads, a sequence is the longest so far and above 256
    /// tokens, or the model has steps after its pooling.
    fn encode_into(&self, sequences: &[&[u32]], rows: &mut [f32]) -> Result<(), EncodeError> {
        let call = Call::begin(&self.calls);
        let alone = || self.calls.load(Ordering::Relaxed) == 1;
        let team = if call.first { self.take_team() } else { None };
        if let Some(team) = team {
            let work = |team: &mut Worker| team.encode_while(sequences, rows, &alone);
            return with_worker(team, work, |team| self.idle().team = Some(team));
        }
        let single = match self.take_single() {
            Some(single) => single,
            None => Worker::new(Arc::clone(&self.weights), NonZeroUsize::MIN)?,
        };
        let work = |single: &mut Worker| single.encode(sequences, rows);
        with_worker(single, work, |single| self.idle().single.push(single))
    }

    fn cost(&self, tokens: usize) -> usize {
        self.weights.shape().cost(tokens)
    }

    fn dimension(&self) -> usize {
        self.weights.head().dimension()
    }

    fn is_normalised(&self) -> bool {
        self.weights.head().is_normalised()
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

/// Runs `work` with the worker, and gives it `back` even if `work` panics: a panic must not cost the engine its threads.
fn with_worker<T>(
    mut worker: Worker,
    work: impl FnOnce(&mut Worker) -> T,
    back: impl FnOnce(Worker),
) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut worker)));
    back(worker);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Counts a call while it runs, even if it panics.
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
            let work = |_: &mut Worker| panic!("deliberate");
            with_worker(team, work, |team| encoder.idle().team = Some(team));
        }));
        assert!(failed.is_err());
        assert!(encoder.idle().team.is_some());
        assert_eq!(encoder.encode(&[&[1, 2, 3]]).unwrap(), before);
    }
}
