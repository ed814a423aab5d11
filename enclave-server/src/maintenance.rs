//! Recurring tasks, which run whether requests come or not.

use std::sync::Arc;
use std::time::Duration;

use crate::api::Service;

/// Rotates keys when they are due, retries within seconds after a failure, and removes expired state.
pub struct Maintenance {
    service: Arc<Service>,
    failures: u32,
}

impl Maintenance {
    /// Does nothing before the first [`round`](Self::round).
    pub fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            failures: 0,
        }
    }

    /// Runs forever.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(self.round().await).await;
        }
    }

    /// Runs the tasks that are due by the service's clock; returns the wait until the next round.
    pub async fn round(&mut self) -> Duration {
        self.service.remove_expired();
        if !self.service.keys().is_due(self.service.now()) {
            return TICK;
        }
        // The module may take long, and the runtime has few workers.
        let rotated = tokio::task::spawn_blocking({
            let service = Arc::clone(&self.service);
            move || service.rotate()
        })
        .await;
        match rotated {
            Ok(Ok(())) => {
                self.failures = 0;
                tracing::info!("keys rotated");
                return TICK;
            }
            Ok(Err(error)) => {
                tracing::error!(code = "ROTATION_FAILED", cause = error.code(), %error, remedy = error.remedy(), "keys were not rotated");
            }
            Err(_) => tracing::error!(code = "ROTATION_FAILED", "the rotation panicked"),
        }
        // The old keys are valid for their overlap. Each wait is at most as long as all waits before it, so that a module that
        // recovers within the overlap is asked in time.
        let wait = TICK * (1 << self.failures);
        self.failures = (self.failures + 1).min(MOST_DOUBLINGS);
        wait
    }
}

/// Interval at which due tasks are looked for.
const TICK: Duration = Duration::from_secs(1);
/// Bounds the wait to sixteen seconds.
const MOST_DOUBLINGS: u32 = 4;
