//! The one clock that everything is told: a wall that may be set, and a steady count that only goes up.
//!
//! Whatever lasts (keys, documents, the replay window) is measured on the steady count. What is stated to others is the Nitro
//! Secure Module's time when the keys were made, plus what the steady count says has passed. The wall clock, which the host can
//! set, decides nothing but this: where it jumps, new keys are made, since the steady count may have stopped; at most once in a
//! minimum interval of the steady count ([`Periods::least`](crate::keys::Periods::least)).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use attestation::UnixMillis;

/// Both readings, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What the wall clock shows; the host can set it.
    pub wall: UnixMillis,
    /// Time since some fixed moment; never goes back.
    pub steady: Duration,
}

impl Moment {
    /// How much more has passed on one clock than on the other since `earlier`.
    pub fn jump_since(&self, earlier: Moment) -> Duration {
        let passed = self.steady.saturating_sub(earlier.steady).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let expected = earlier.wall.0.saturating_add(passed);
        Duration::from_millis(self.wall.0.abs_diff(expected))
    }
}

/// Tells the time; passed in, so that tests can move it.
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
    /// A clock that shows what `read` returns. Waits pass in real time.
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

    /// Waits until the steady count is at least `steady`. The timer counts milliseconds, so the wait ends up to one later.
    pub async fn wait_until(&self, steady: Duration) {
        match &self.wait {
            Some(wait) => wait(steady).await,
            None => tokio::time::sleep(steady.saturating_sub(self.now().steady)).await,
        }
    }
}
