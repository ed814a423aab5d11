//! Whether the enclave takes requests, asked by one caller for all who wait.

use crate::problem::Problem;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a good answer counts for later callers. A bad one does not: who waits for a start should not wait longer.
const FRESH: Duration = Duration::from_millis(200);

/// The newest answer. Anybody may ask, so many callers must not become many questions.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Option<Known>>>);

struct Known {
    at: Instant,
    outcome: Result<Bytes, Problem>,
}

impl Readiness {
    /// The outcome of `probe`, which is what the enclave said, or that of another caller's which ended after this call began, or a moment before.
    pub(crate) async fn learn<F>(&self, probe: impl FnOnce() -> F) -> Result<Bytes, Problem>
    where
        F: Future<Output = Result<Bytes, Problem>>,
    {
        let called = Instant::now();
        let mut newest = self.0.lock().await;
        if let Some(Known { at, outcome }) = &*newest
            && (*at >= called || outcome.is_ok() && at.elapsed() < FRESH)
        {
            return outcome.clone();
        }
        let outcome = probe().await;
        *newest = Some(Known {
            at: Instant::now(),
            outcome: outcome.clone(),
        });
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_good_answer_counts_for_a_moment_and_a_bad_one_for_those_who_waited() {
        let readiness = Readiness::default();
        let unready = || async { Err(Problem::EnclaveNotReady) };
        let slowly = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(Problem::EnclaveTimeout)
        };
        // Both call before the first answer is there.
        let both = tokio::join!(readiness.learn(slowly), readiness.learn(unready));
        let timeout = Err(Problem::EnclaveTimeout);
        let good = || async { Ok(Bytes::from_static(b"ready")) };
        assert_eq!(both, (timeout.clone(), timeout));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(readiness.learn(good).await.unwrap(), "ready");
        tokio::time::advance(FRESH / 2).await;
        assert_eq!(readiness.learn(unready).await.unwrap(), "ready");
        tokio::time::advance(FRESH).await;
        assert_eq!(
            readiness.learn(unready).await,
            Err(Problem::EnclaveNotReady)
        );
    }
}
