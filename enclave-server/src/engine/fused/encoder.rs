//! Who computes for whom: the whole team for one request, one thread each for many.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use safetensors::SafeTensors;

use super::error::{FusedError, LoadError};
use super::shape::Shape;
use super::weights::Weights;
use super::worker::Worker;

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
    /// Checks and packs the weights and starts a team of `threads`.
    ///
    /// # Errors
    /// [`LoadError`] names the tensor, what was expected and what was found.
    pub fn load(
        tensors: &SafeTensors<'_>,
        shape: Shape,
        threads: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        Self::new(Arc::new(Weights::load(tensors, shape)?), threads).map_err(LoadError::Threads)
    }

    /// Starts a team of `threads` over weights already loaded.
    ///
    /// # Errors
    /// Whatever the system says where a thread cannot be started.
    pub fn new(weights: Arc<Weights>, threads: NonZeroUsize) -> std::io::Result<Self> {
        let team = Worker::new(Arc::clone(&weights), threads)?;
        Ok(Self {
            weights,
            calls: AtomicUsize::new(0),
            idle: Mutex::new(Idle {
                team: Some(team),
                single: Vec::new(),
            }),
        })
    }

    /// Encodes each sequence of token ids, special tokens included, into one row of
    /// [`hidden`](Shape::hidden) floats: pooled, of length one. See [`Worker::encode`].
    ///
    /// # Errors
    /// [`FusedError`]
    pub fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, FusedError> {
        let mut out = vec![0.0; sequences.len() * self.weights.shape().hidden];
        self.encode_into(sequences, &mut out)?;
        Ok(out)
    }

    /// As [`encode`](Self::encode), into memory of the caller's; allocates nothing once as many
    /// calls have met as ever will.
    ///
    /// # Errors
    /// [`FusedError`]; then `out` is unspecified.
    pub fn encode_into(&self, sequences: &[&[u32]], out: &mut [f32]) -> Result<(), FusedError> {
        let call = Call::begin(&self.calls);
        let alone = || self.calls.load(Ordering::Relaxed) == 1;
        let team = if call.first { self.take_team() } else { None };
        if let Some(mut team) = team {
            let result = team.encode_while(sequences, out, &alone);
            self.idle().team = Some(team);
            return result;
        }
        let mut single = match self.take_single() {
            Some(single) => single,
            None => Worker::new(Arc::clone(&self.weights), NonZeroUsize::MIN)?,
        };
        let result = single.encode(sequences, out);
        self.idle().single.push(single);
        result
    }

    /// The weights, to make workers of one's own from.
    #[must_use]
    pub fn weights(&self) -> &Arc<Weights> {
        &self.weights
    }

    /// Name of the instruction set in use: `avx512`, `avx2` or `portable`.
    #[must_use]
    pub fn isa(&self) -> &'static str {
        self.weights.isa().name()
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
