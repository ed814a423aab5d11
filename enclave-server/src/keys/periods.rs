//! How long keys live.

use std::time::Duration;

use super::KeyError;

/// How long keys live. Each generation is current for `rotate_every`, accepts requests for `overlap` longer, and then has
/// `linger` to answer the last of them and to hand out their receipts. Then its manifest ends. Nothing is signed after that,
/// because no auditor would accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    pub(super) rotate_every: Duration,
    pub(super) overlap: Duration,
    pub(super) linger: Duration,
    pub(super) least: Duration,
}

impl Periods {
    /// Periods for requests that take at most `deadline`.
    ///
    /// # Errors
    /// [`KeyError::TooManyGenerations`] where more generations would be alive at once than are kept.
    pub fn new(rotate_every: Duration, deadline: Duration) -> Result<Self, KeyError> {
        let overlap = rotate_every.min(LONGEST_OVERLAP);
        let linger = LEAST_LINGER.max(deadline.saturating_add(HOST_PERIOD));
        let after = overlap.saturating_add(linger);
        // The newest generation, and those that it and its predecessors replaced.
        let alive = 1 + after.as_millis().div_ceil(rotate_every.as_millis().max(1));
        if alive > MAX_GENERATIONS as u128 {
            return Err(KeyError::TooManyGenerations {
                rotate_every,
                deadline,
                alive,
            });
        }
        // No generation is dropped while its manifest is valid, however often the host sets the clock.
        let kept = rotate_every.saturating_add(after) / (MAX_GENERATIONS as u32 - 1);
        Ok(Self {
            rotate_every,
            overlap,
            linger,
            least: LEAST_ROTATION.max(kept).min(rotate_every),
        })
    }

    /// How often [`Keyring::rotate`](super::Keyring::rotate) is due.
    pub fn rotate_every(&self) -> Duration {
        self.rotate_every
    }

    /// Least time between rotations, even if the wall clock jumps.
    pub fn least(&self) -> Duration {
        self.least
    }

    /// How long one generation accepts requests.
    pub fn longest(&self) -> Duration {
        self.rotate_every.saturating_add(self.overlap)
    }

    /// How long a manifest is valid after its keys accepted their last request.
    pub fn linger(&self) -> Duration {
        self.linger
    }
}

/// Longest overlap. Within it a client that attested just before a rotation is not refused; after it stolen memory does not open
/// old requests.
const LONGEST_OVERLAP: Duration = Duration::from_secs(600);
const LEAST_LINGER: Duration = Duration::from_secs(60);
/// The host can set the wall clock as often as it likes, and each rotation costs a call of the module, memory and a log.
const LEAST_ROTATION: Duration = Duration::from_secs(60);
/// A host whose request for leaves failed asks again within 30 seconds.
const HOST_PERIOD: Duration = Duration::from_secs(30);
/// Generations kept at once: each may hold up to 9 MiB of hashes, and has two of the 256 key identifiers.
pub(super) const MAX_GENERATIONS: usize = 16;
