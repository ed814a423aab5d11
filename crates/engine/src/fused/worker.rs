//! A team of threads with its memory, which computes one forward pass at a time.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::super::{EncodeError, check_sequences};
use super::bands::ThreadIndex;
use super::forward::forward;
use super::memory::{GROUP, Memory, ThreadMemory};
use super::team::Team;
use super::weights::Weights;

/// Threads and memory for encoding; any number of workers share one set of [`Weights`].
///
/// Memory for sequences of 256 tokens is allocated on creation, and grows with the first longer one: most texts are short, and
/// a model for long ones would reserve gigabytes.
pub struct Worker {
    weights: Arc<Weights>,
    team: Team<ThreadMemory>,
    memory: Memory,
}

impl Worker {
    /// Creates a worker of `threads` threads: the one that calls [`encode`](Self::encode), and helpers that sleep between calls.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub fn new(weights: Arc<Weights>, threads: NonZeroUsize) -> std::io::Result<Self> {
        let of = threads.get();
        let own = |number| ThreadMemory::new(ThreadIndex { number, of }, &weights);
        Ok(Self {
            team: Team::new(own(0), (1..of).map(own))?,
            memory: Memory::new(&weights, of, GROUP),
            weights,
        })
    }

    /// Encodes each sequence of token ids, special tokens included, into one row of `out`, which has
    /// `sequences.len() × dimension` floats. Rows are pooled, and of length one unless the model's head says otherwise.
    ///
    /// A row depends only on its sequence: not on the other sequences, their order, the number of threads or earlier calls.
    /// Rounding differs between instruction sets.
    ///
    /// # Errors
    /// [`EncodeError`]; then `out` is unspecified.
    pub fn encode(&mut self, sequences: &[&[u32]], out: &mut [f32]) -> Result<(), EncodeError> {
        self.encode_while(sequences, out, &|| true)
    }

    /// Like [`encode`](Self::encode), but uses the helpers only while `alone` returns true; it is called several times per layer.
    pub(super) fn encode_while(
        &mut self,
        sequences: &[&[u32]],
        out: &mut [f32],
        alone: &dyn Fn() -> bool,
    ) -> Result<(), EncodeError> {
        let dimension = self.weights.head().dimension();
        check(&self.weights, sequences, out.len())?;
        let longest = sequences.iter().map(|sequence| sequence.len()).max();
        if let Some(longest) = longest.filter(|longest| *longest > self.memory.longest()) {
            let longest = longest.next_power_of_two();
            let longest = longest.min(self.weights.shape().max_tokens);
            self.memory = Memory::new(&self.weights, self.team.threads(), longest);
        }
        let (mut rest, mut out_rest) = (sequences, &mut *out);
        while !rest.is_empty() {
            let (group, others) = rest.split_at(Memory::next_group_len(rest));
            let (out_group, out_others) = out_rest.split_at_mut(group.len() * dimension);
            let (memory, team) = (&mut self.memory, &mut self.team);
            forward(&self.weights, team, memory, group, out_group, alone);
            (rest, out_rest) = (others, out_others);
        }
        self.team.rest();
        let broken = out.iter().position(|value| !value.is_finite());
        match broken {
            None => Ok(()),
            Some(at) => Err(EncodeError::NotFinite {
                index: at / dimension,
            }),
        }
    }
}

/// Refuses sequences that the forward pass could not index.
fn check(weights: &Weights, sequences: &[&[u32]], room: usize) -> Result<(), EncodeError> {
    let shape = weights.shape();
    check_sequences(shape, sequences)?;
    let expected = sequences.len() * weights.head().dimension();
    if room == expected {
        Ok(())
    } else {
        Err(EncodeError::Output {
            expected,
            found: room,
        })
    }
}
