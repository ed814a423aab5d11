//! What has to be done from time to time, whether requests come or not.

use std::sync::Arc;
use std::time::Duration;

use crate::api::Service;

/// Makes new keys when they are due, tries again in seconds where that fails, and forgets what is over.
pub struct Maintenance {
    service: Arc<Service>,
    failures: u32,
}

impl Maintenance {
    /// Nothing is done before the first [`round`](Self::round).
    pub fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            failures: 0,
        }
    }

    /// Goes round for good.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(self.round().await).await;
        }
    }

    /// Does what is due by the service's clock; returns how long to wait until the next round.
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
        // The old keys go on for their overlap. Each wait is at most as long as all before it, so that a module that comes
        // back within the overlap is always asked in time.
        let wait = TICK * (1 << self.failures);
        self.failures = (self.failures + 1).min(MOST_DOUBLINGS);
        wait
    }
}

/// How often is looked whether something is due.
const TICK: Duration = Duration::from_secs(1);
/// From one second to sixteen.
const MOST_DOUBLINGS: u32 = 4;
