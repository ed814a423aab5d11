//! Whether the enclave takes requests. One caller asks for all that wait.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Relay;
use crate::body::collect;
use crate::problem::Problem;

/// Longest body of `/readyz`, bytes.
const READY_MAX: u64 = 4096;
/// Longest wait for an answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which later callers get the same answer, where it is a good one. A bad one is not reused: a caller that waits for
/// a start should not wait longer.
const FRESH: Duration = Duration::from_millis(200);

impl Relay {
    /// Returns the enclave's report on its start, once it takes requests.
    pub(crate) async fn ready(&self) -> Result<Bytes, Problem> {
        self.readiness.learn(|| self.probe()).await
    }

    async fn probe(&self) -> Result<Bytes, Problem> {
        let probe = Request::builder()
            .uri("/readyz")
            .body(Bytes::new())
            .map_err(|_| Problem::EnclaveInvalidAnswer)?;
        let deadline = self.probe_deadline(PROBE_TIMEOUT);
        let answer = self.ask(probe, deadline).await?;
        match answer.status() {
            StatusCode::OK => collect(answer.into_body(), READY_MAX, deadline).await,
            status => {
                // The code is only logged, so a missing one changes nothing.
                let body = collect(answer.into_body(), READY_MAX, deadline).await;
                let code = body.ok().and_then(|body| parse_code(&body));
                tracing::warn!(
                    status = status.as_u16(),
                    code = code.as_deref(),
                    "the enclave takes no requests"
                );
                Err(Problem::EnclaveNotReady)
            }
        }
    }
}

/// The newest answer. Anyone may ask, so many callers must not cause many probes.
#[derive(Clone, Default)]
pub(super) struct Readiness(Arc<Mutex<Option<Known>>>);

struct Known {
    at: Instant,
    outcome: Result<Bytes, Problem>,
}

impl Readiness {
    /// Returns the outcome of `probe`, which is the enclave's report, or that of another caller's probe which ended after
    /// this call began, or within [`FRESH`] before it.
    async fn learn<F>(&self, probe: impl FnOnce() -> F) -> Result<Bytes, Problem>
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

/// Reads the code of the enclave's problem for the log; `None` where it does not have the form of one.
fn parse_code(problem: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Coded {
        code: String,
    }
    let Coded { code } = serde_json::from_slice(problem).ok()?;
    let is_valid = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (code.len() <= 64 && code.bytes().all(is_valid)).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_good_answer_is_reused_for_a_moment_and_a_bad_one_only_by_callers_that_waited() {
        let readiness = Readiness::default();
        let unready = || async { Err(Problem::EnclaveNotReady) };
        let slowly = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(Problem::EnclaveTimeout)
        };
        // Both call before the first answer arrives.
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

    #[test]
    fn only_text_in_the_form_of_a_code_reaches_the_log() {
        let codes = [
            (r#"{"code":"DRAINING","detail":"x"}"#, Some("DRAINING")),
            (r#"{"code":"draining\nby no one"}"#, None),
            (r#"{"code":7}"#, None),
            ("DRAINING", None),
        ];
        for (problem, code) in codes {
            assert_eq!(parse_code(problem.as_bytes()).as_deref(), code, "{problem}");
        }
        let long = format!(r#"{{"code":"{}"}}"#, "A".repeat(65));
        assert_eq!(parse_code(long.as_bytes()), None);
    }
}
