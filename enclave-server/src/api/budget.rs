//! Memory shared by large requests in flight: reserved before it is allocated, released when it is free.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;

/// A bound in bytes. Each large request reserves its part, in the order of arrival.
///
/// Small requests bypass the budget: their number is bounded by the slots, and large requests cannot exclude them. Very large
/// requests first queue among themselves and then, one at a time, with the others. So however many there are, the others wait
/// no longer than for one of them.
pub struct Budget {
    kib: Arc<Semaphore>,
    /// The part of the budget that very large requests may use; they acquire from here first.
    large_requests: Arc<Semaphore>,
    total: usize,
    wait: Duration,
}

/// A part of a [`Budget`], released when the last clone is dropped. Empty for a small request.
#[derive(Clone, Debug, Default)]
pub struct Reservation(Option<Arc<Permits>>);

#[derive(Debug)]
struct Permits {
    kib: OwnedSemaphorePermit,
    #[allow(dead_code, reason = "held, never read")]
    large_requests: Option<OwnedSemaphorePermit>,
}

/// Timed out waiting for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

/// Largest size of a small request in bytes.
pub const SMALL_BYTES: usize = 64 * 1024;

impl Budget {
    /// A budget of `bytes`, in which a request waits for at most `wait`.
    pub fn new(bytes: usize, wait: Duration) -> Self {
        let total = (bytes / 1024).min(Semaphore::MAX_PERMITS);
        Self {
            kib: Arc::new(Semaphore::new(total)),
            large_requests: Arc::new(Semaphore::new(large_request_part(total))),
            total,
            wait,
        }
    }

    /// Reserves `bytes`. A request for more than the whole budget waits until it has all of it.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub async fn reserve(&self, bytes: usize) -> Result<Reservation, Exhausted> {
        if bytes <= SMALL_BYTES {
            return Ok(Reservation::default());
        }
        let kib = u32::try_from(bytes.div_ceil(1024).min(self.total)).map_err(|_| Exhausted)?;
        let permits = async {
            let large_requests = match kib as usize > self.total / 8 {
                true => {
                    let most = u32::try_from(large_request_part(self.total)).unwrap_or(u32::MAX);
                    let permits = Arc::clone(&self.large_requests);
                    Some(permits.acquire_many_owned(kib.min(most)).await?)
                }
                false => None,
            };
            let kib = Arc::clone(&self.kib).acquire_many_owned(kib).await?;
            Ok::<_, AcquireError>(Permits {
                kib,
                large_requests,
            })
        };
        match tokio::time::timeout(self.wait, permits).await {
            Ok(Ok(permits)) => Ok(Reservation(Some(Arc::new(permits)))),
            _ => Err(Exhausted),
        }
    }

    /// Acquires `kib` KiB without waiting.
    pub(super) fn try_acquire_kib(&self, kib: usize) -> Result<OwnedSemaphorePermit, Exhausted> {
        let kib = u32::try_from(kib).map_err(|_| Exhausted)?;
        let permits = Arc::clone(&self.kib).try_acquire_many_owned(kib);
        permits.map_err(|_| Exhausted)
    }

    /// Whether nothing is reserved.
    pub fn is_free(&self) -> bool {
        self.kib.available_permits() == self.total
    }

    /// Bytes reserved.
    pub fn reserved(&self) -> usize {
        (self.total - self.kib.available_permits()) * 1024
    }
}

/// Part of a budget of `total` that very large requests may use, in the same unit.
const fn large_request_part(total: usize) -> usize {
    total - total / 4
}

impl Reservation {
    pub(super) fn from_kib(kib: Option<OwnedSemaphorePermit>) -> Self {
        Self(kib.map(|kib| {
            Arc::new(Permits {
                kib,
                large_requests: None,
            })
        }))
    }

    /// Whether any memory is reserved.
    pub fn is_large(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps `bytes` for the rest of a request and releases the others. Keeps everything where a clone exists.
    #[must_use]
    pub fn reduce_to(self, bytes: usize) -> Self {
        let permits = match self.0.map(Arc::try_unwrap) {
            Some(Ok(permits)) => permits,
            held => return Self(held.and_then(Result::err)),
        };
        let reduce = |mut permit: OwnedSemaphorePermit| {
            let part = permit.split(bytes.div_ceil(1024));
            part.unwrap_or(permit)
        };
        Self(Some(Arc::new(Permits {
            kib: reduce(permits.kib),
            large_requests: permits.large_requests.map(reduce),
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

#[cfg(test)]
mod tests {
    use super::super::body::with_reservation;
    use super::*;

    const WAIT: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn large_requests_share_the_budget_and_small_ones_bypass_it() {
        let budget = Budget::new(1 << 20, WAIT);
        let first = budget.reserve(600 << 10).await.unwrap();
        assert_eq!(budget.reserve(600 << 10).await.err(), Some(Exhausted));
        assert!(!budget.reserve(SMALL_BYTES).await.unwrap().is_large());
        let held = with_reservation(vec![1; 10], first.clone());
        drop(first);
        assert!(!budget.is_free());
        let part = held.slice(3..4);
        drop(held);
        assert!(!budget.is_free(), "a slice of it is not written yet");
        drop(part);
        assert!(budget.is_free());
        assert!(budget.reserve(usize::MAX / 2).await.is_ok(), "alone");
    }

    #[tokio::test]
    async fn very_large_requests_wait_for_each_other_and_block_no_other() {
        let budget = Budget::new(1 << 20, Duration::from_secs(5));
        let first = budget.reserve(900 << 10).await.unwrap();
        let others = async {
            // Each reserves all that is left, and would block every later request.
            tokio::join!(budget.reserve(900 << 10), budget.reserve(800 << 10))
        };
        let medium = async {
            tokio::task::yield_now().await;
            let medium = budget.reserve(100 << 10).await;
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
    async fn a_reduced_reservation_holds_what_was_kept() {
        let budget = Budget::new(1 << 20, WAIT);
        let reservation = budget.reserve(800 << 10).await.unwrap();
        let reservation = reservation.reduce_to(150_000);
        assert_eq!(budget.reserved(), 147 << 10);
        assert_eq!(budget.large_requests.available_permits(), 768 - 147);
        let shared = reservation.clone();
        assert_eq!(shared.reduce_to(1).is_large(), reservation.is_large());
        assert_eq!(budget.reserved(), 147 << 10);
        drop(reservation);
        assert!(budget.is_free());
        assert!(!Reservation::default().reduce_to(7).is_large());
    }
}
