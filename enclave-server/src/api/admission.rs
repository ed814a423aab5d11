//! Limits of the outer endpoints, and the slots and memory that enforce them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::{Budget, Exhausted, Reservation};

/// Limits of the outer endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest sealed request in bytes.
    pub max_request_bytes: usize,
    /// Most sealed requests processed at once.
    pub max_in_flight: usize,
    /// Longest wait of a request for a slot and, where it is large, for memory; then it is refused.
    pub max_wait: Duration,
    /// Bytes of large requests that are being received or wait to be opened.
    pub arriving_bytes: usize,
    /// Memory in bytes to open large requests in.
    pub opening_bytes: usize,
    /// Most requests remembered against replay.
    pub max_replay_entries: usize,
}

/// Slots and memory for requests in flight.
pub(super) struct Admission {
    pub(super) limits: Limits,
    pub(super) arrivals: Budget,
    openings: Budget,
    slots: Arc<Semaphore>,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            arrivals: Budget::new(limits.arriving_bytes, limits.max_wait),
            openings: Budget::new(limits.opening_bytes, limits.max_wait),
            slots: Arc::new(Semaphore::new(limits.max_in_flight)),
        }
    }

    /// Reserves memory to open a request of `length` bytes.
    ///
    /// # Errors
    /// [`Exhausted`] where none is free within [`Limits::max_wait`].
    pub(super) async fn reserve_opening(&self, length: usize) -> Result<Reservation, Exhausted> {
        self.openings
            .reserve(length.saturating_mul(OPENING_COPIES))
            .await
    }

    /// Waits for a slot; `None` after [`Limits::max_wait`].
    pub(super) async fn acquire_slot(&self) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.slots).acquire_owned();
        let slot = tokio::time::timeout(self.limits.max_wait, slot).await;
        slot.ok()?.ok()
    }
}

/// A request is in memory as received, opened, decoded and parsed; token ids take up to twice the size of their JSON.
const OPENING_COPIES: usize = 4;
