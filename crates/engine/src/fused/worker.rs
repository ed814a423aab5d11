//! One forward pass at a time: a team of threads and the memory it computes in.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::super::{EncodeError, check_sequences};
use super::bands::Seat;
use super::forward::{Memory, Own, forward};
use super::team::Team;
use super::weights::Weights;

/// Threads and memory to encode with; any number of workers share one set of [`Weights`].
///
/// Everything it will ever need is allocated when it is made: `encode` allocates nothing.
pub struct Worker {
    weights: Arc<Weights>,
    team: Team<Own>,
    memory: Memory,
}

impl Worker {
    /// A worker of `threads` threads: the one that calls [`encode`](Self::encode), and helpers that
    /// sleep in between.
    ///
    /// # Errors
    /// Whatever the system says where a thread cannot be started.
    pub fn new(weights: Arc<Weights>, threads: NonZeroUsize) -> std::io::Result<Self> {
        let of = threads.get();
        let own = |number| Own::new(Seat { number, of }, &weights);
        Ok(Self {
            team: Team::new(own(0), (1..of).map(own))?,
            memory: Memory::new(&weights, of),
            weights,
        })
    }

    /// Encodes each sequence of token ids, special tokens included, into one row of `out`, which is
    /// `sequences.len() × hidden` floats: pooled, of length one.
    ///
    /// A row depends on its sequence alone: not on the others, their order, the number of threads
    /// or earlier calls. Between instruction sets rounding differs.
    ///
    /// # Errors
    /// [`EncodeError`]; then `out` is unspecified.
    pub fn encode(&mut self, sequences: &[&[u32]], out: &mut [f32]) -> Result<(), EncodeError> {
        self.encode_while(sequences, out, &|| true)
    }

    /// As [`encode`](Self::encode), with the helpers' help only while `alone` says so: it is asked
    /// several times a layer.
    pub(super) fn encode_while(
        &mut self,
        sequences: &[&[u32]],
        out: &mut [f32],
        alone: &dyn Fn() -> bool,
    ) -> Result<(), EncodeError> {
        let hidden = self.weights.shape().hidden;
        check(&self.weights, sequences, out.len())?;
        let (mut rest, mut out_rest) = (sequences, &mut *out);
        while !rest.is_empty() {
            let (group, others) = rest.split_at(self.memory.fitting(rest));
            let (out_group, out_others) = out_rest.split_at_mut(group.len() * hidden);
            let (memory, team) = (&mut self.memory, &mut self.team);
            forward(&self.weights, team, memory, group, out_group, alone);
            (rest, out_rest) = (others, out_others);
        }
        self.team.rest();
        let broken = out.iter().position(|value| !value.is_finite());
        match broken {
            None => Ok(()),
            Some(at) => Err(EncodeError::NotFinite { index: at / hidden }),
        }
    }
}

/// Refuses what the forward pass could not index.
fn check(weights: &Weights, sequences: &[&[u32]], room: usize) -> Result<(), EncodeError> {
    let shape = weights.shape();
    check_sequences(shape, sequences)?;
    let expected = sequences.len() * shape.hidden;
    if room == expected {
        Ok(())
    } else {
        Err(EncodeError::Output {
            expected,
            found: room,
        })
    }
}
