//! Memory that requests in flight may use together: weighed and taken before it is needed, given back when it is free.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

use super::error::ApiError;

/// A bound in bytes, of which each large request takes its part and waits for it in the order of arrival.
///
/// What is small takes nothing. It is bounded by how many requests are worked on at once, and no number of large requests
/// shuts it out. Very large ones wait for each other first, and then, one at a time, with the others: no number of them keeps those
/// waiting for longer than one takes.
pub struct Budget {
    kib: Arc<Semaphore>,
    /// What very large ones take first.
    lane: Arc<Semaphore>,
    total: usize,
    wait: Duration,
}

/// A part of a [`Budget`], given back when the last clone is dropped. Nothing for what is small.
#[derive(Clone, Debug, Default)]
pub struct Share(Option<Arc<Permits>>);

#[derive(Debug)]
struct Permits {
    kib: OwnedSemaphorePermit,
    #[allow(dead_code, reason = "held, never read")]
    lane: Option<OwnedSemaphorePermit>,
}

/// There was no room for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// Up to here a request is small.
pub const SMALL_BYTES: usize = 64 * 1024;

impl Budget {
    /// `bytes` in all; whoever finds no room waits for at most `wait`.
    pub fn new(bytes: usize, wait: Duration) -> Self {
        let total = (bytes / 1024).min(Semaphore::MAX_PERMITS);
        Self {
            kib: Arc::new(Semaphore::new(total)),
            lane: Arc::new(Semaphore::new(in_lane(total))),
            total,
            wait,
        }
    }

    /// Takes `bytes`. What exceeds the whole budget waits until it is alone.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub async fn take(&self, bytes: usize) -> Result<Share, Exhausted> {
        if bytes <= SMALL_BYTES {
            return Ok(Share::default());
        }
        let kib = u32::try_from(bytes.div_ceil(1024).min(self.total)).map_err(|_| Exhausted)?;
        let permits = async {
            let lane = match kib as usize > self.total / 8 {
                true => {
                    let part = kib.min(u32::try_from(in_lane(self.total)).unwrap_or(u32::MAX));
                    Some(Arc::clone(&self.lane).acquire_many_owned(part).await?)
                }
                false => None,
            };
            let kib = Arc::clone(&self.kib).acquire_many_owned(kib).await?;
            Ok::<_, AcquireError>(Permits { kib, lane })
        };
        match tokio::time::timeout(self.wait, permits).await {
            Ok(Ok(permits)) => Ok(Share(Some(Arc::new(permits)))),
            _ => Err(Exhausted),
        }
    }

    /// Whether nothing of it is taken.
    pub fn is_free(&self) -> bool {
        self.kib.available_permits() == self.total
    }

    /// How much of it is taken, bytes.
    pub fn taken(&self) -> usize {
        (self.total - self.kib.available_permits()) * 1024
    }
}

/// What very large requests may have of a budget of `total`, in the same unit.
const fn in_lane(total: usize) -> usize {
    total - total / 4
}

impl Share {
    /// Whether it is of anything.
    pub fn is_large(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps `bytes` of it, for what is left of a request, and gives the rest back; keeps all where others hold it too.
    #[must_use]
    pub fn reduced_to(self, bytes: usize) -> Self {
        let permits = match self.0.map(Arc::try_unwrap) {
            Some(Ok(permits)) => permits,
            held => return Self(held.and_then(Result::err)),
        };
        let kept = |mut permit: OwnedSemaphorePermit| {
            let part = permit.split(bytes.div_ceil(1024));
            part.unwrap_or(permit)
        };
        Self(Some(Arc::new(Permits {
            kib: kept(permits.kib),
            lane: permits.lane.map(kept),
        })))
    }
}

impl From<Exhausted> for ApiError {
    fn from(_: Exhausted) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "MEMORY_BUSY",
            "large requests use all memory that there is for them; ask for fewer or shorter texts at once, or try again",
        )
        .retry_after(2)
    }
}

/// A body as it arrives. What exceeds [`SMALL_BYTES`] is taken from the budget as it comes, so that announcing a large body
/// costs others nothing, and sending it slowly costs as much as was sent.
pub struct Arriving<'a> {
    budget: &'a Budget,
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
    taken: usize,
}

impl<'a> Arriving<'a> {
    /// Nothing came yet.
    pub fn new(budget: &'a Budget) -> Self {
        Self {
            budget,
            bytes: Vec::new(),
            permit: None,
            taken: SMALL_BYTES,
        }
    }

    /// How many bytes came.
    pub fn received(&self) -> usize {
        self.bytes.len()
    }

    /// Adds what came.
    ///
    /// # Errors
    /// [`Exhausted`], at once: who sends is told to come again instead of being left to wait in the middle.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        let length = self.bytes.len() + bytes.len();
        if length > self.bytes.capacity() {
            let capacity = length.max(self.bytes.capacity() * 2).max(4096);
            if capacity > self.taken {
                let more = (capacity - self.taken).div_ceil(1024);
                let more_kib = u32::try_from(more).map_err(|_| Exhausted)?;
                let permit = Arc::clone(&self.budget.kib)
                    .try_acquire_many_owned(more_kib)
                    .map_err(|_| Exhausted)?;
                match &mut self.permit {
                    Some(held) => held.merge(permit),
                    none => *none = Some(permit),
                }
                self.taken += more * 1024;
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// All of it, and its part of the budget.
    pub fn finish(self) -> (Vec<u8>, Share) {
        let permits = self.permit.map(|kib| Permits { kib, lane: None });
        (self.bytes, Share(permits.map(Arc::new)))
    }
}

/// Bytes that keep their share until they are written to the socket, not only until they are handed over.
pub fn hold(bytes: Vec<u8>, share: Share) -> Bytes {
    struct Held {
        bytes: Vec<u8>,
        _share: Share,
    }
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    if share.is_large() {
        Bytes::from_owner(Held {
            bytes,
            _share: share,
        })
    } else {
        bytes.into()
    }
}

/// Bytes that are wiped when the last user is done.
pub fn wiped(bytes: Vec<u8>) -> Bytes {
    Bytes::from_owner(Zeroizing::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn large_requests_share_and_small_ones_pass() {
        let budget = Budget::new(1 << 20, WAIT);
        let first = budget.take(600 << 10).await.unwrap();
        assert_eq!(budget.take(600 << 10).await.err(), Some(Exhausted));
        assert!(!budget.take(SMALL_BYTES).await.unwrap().is_large());
        let held = hold(vec![1; 10], first.clone());
        drop(first);
        assert!(!budget.is_free());
        let part = held.slice(3..4);
        drop(held);
        assert!(!budget.is_free(), "a part of it is not written yet");
        drop(part);
        assert!(budget.is_free());
        assert!(budget.take(usize::MAX / 2).await.is_ok(), "alone");
    }

    #[tokio::test]
    async fn very_large_requests_wait_for_each_other_alone() {
        let budget = Budget::new(1 << 20, Duration::from_secs(5));
        let first = budget.take(900 << 10).await.unwrap();
        let others = async {
            // Each takes all that is left, and would shut out whoever comes after it.
            tokio::join!(budget.take(900 << 10), budget.take(800 << 10))
        };
        let medium = async {
            tokio::task::yield_now().await;
            let medium = budget.take(100 << 10).await;
            drop(first);
            medium
        };
        let (medium, (second, third)) = tokio::join!(medium, async {
            let others = std::pin::pin!(others);
            tokio::time::timeout(Duration::from_millis(50), others)
                .await
                .unwrap_or((Err(Exhausted), Err(Exhausted)))
        });
        assert!(medium.is_ok());
        assert!(
            second.is_err() && third.is_err(),
            "one of them waits for the other"
        );
        drop(medium);
        assert!(budget.is_free());
    }

    #[tokio::test]
    async fn what_is_left_of_a_share_is_what_was_kept() {
        let budget = Budget::new(1 << 20, WAIT);
        let share = budget.take(800 << 10).await.unwrap();
        let share = share.reduced_to(150_000);
        assert_eq!(budget.taken(), 147 << 10);
        assert_eq!(budget.lane.available_permits(), 768 - 147);
        let shared = share.clone();
        assert_eq!(shared.reduced_to(1).is_large(), share.is_large());
        assert_eq!(budget.taken(), 147 << 10);
        drop(share);
        assert!(budget.is_free());
        assert!(!Share::default().reduced_to(7).is_large());
    }

    #[test]
    fn a_body_costs_what_came_of_it() {
        let budget = Budget::new(1 << 20, WAIT);
        let mut body = Arriving::new(&budget);
        body.push(&[0; SMALL_BYTES]).unwrap();
        assert!(budget.is_free());
        body.push(&[0; 100]).unwrap();
        assert!(!budget.is_free());
        let mut other = Arriving::new(&budget);
        let refused = (0..100).find_map(|_| other.push(&[0; 32 << 10]).err());
        assert_eq!(refused, Some(Exhausted));
        drop((body.finish(), other));
        assert!(budget.is_free());
    }
}
