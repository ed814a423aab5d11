//! The clock of this process: a wall clock, which may be set, and a steady count, which never goes back.
//!
//! Lifetimes (of keys, documents, replay entries) are measured by the steady count. Times stated to others are the Nitro Secure
//! Module's time when the keys were made, plus the time that has passed since by the steady count. The host can set the wall
//! clock, so it decides only one thing: when it jumps, new keys are made, because the steady count may have stopped. That happens
//! at most once in a minimum interval of the steady count ([`Periods::least`](crate::keys::Periods::least)).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use attestation::UnixMillis;

/// Both readings, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock; the host can set it.
    pub wall: UnixMillis,
    /// Time since a fixed moment; never goes back.
    pub steady: Duration,
}

impl Moment {
    /// Difference between the times that have passed on the two clocks since `earlier`.
    pub fn jump_since(&self, earlier: Moment) -> Duration {
        let passed = self.steady.saturating_sub(earlier.steady).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let expected = earlier.wall.0.saturating_add(passed);
        Duration::from_millis(self.wall.0.abs_diff(expected))
    }
}

/// The clock, injected so that tests can move it.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Moment + Send + Sync>,
    wait: Option<Arc<WaitUntil>>,
}

/// Waits until the steady count has reached a value.
pub type WaitUntil = dyn Fn(Duration) -> Waiting + Send + Sync;
/// See [`WaitUntil`].
pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Clock {
    /// A clock that returns the result of `read`. Waits take real time.
    pub fn new(read: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self {
            read: Arc::new(read),
            wait: None,
        }
    }

    /// The same clock with other waits, so that tests decide when one ends.
    #[must_use]
    pub fn with_waits(self, wait: Arc<WaitUntil>) -> Self {
        Self {
            wait: Some(wait),
            ..self
        }
    }

    /// The clock of the machine.
    pub fn system() -> Self {
        let started = Instant::now();
        Self::new(move || {
            let since = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            Moment {
                wall: UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
                steady: started.elapsed(),
            }
        })
    }

    /// Both readings.
    pub fn now(&self) -> Moment {
        (self.read)()
    }

    /// Waits until the steady count is at least `steady`. The timer has a resolution of a millisecond, so the wait may end one later.
    pub async fn wait_until(&self, steady: Duration) {
        match &self.wait {
            Some(wait) => wait(steady).await,
            None => tokio::time::sleep(steady.saturating_sub(self.now().steady)).await,
        }
    }
}
