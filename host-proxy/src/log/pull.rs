//! Pulls the log from the enclave: at start, after sealed traffic, at intervals, and once more before the proxy stops.
//!
//! A request for leaves from N on, where N is the size of the tree, tells the enclave that all earlier leaves are on this disk. So a
//! pull that stored leaves is followed by another one. Until it has stored what it holds, it asks only from numbers below the head's
//! size: such a request acknowledges nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding};
use http::StatusCode;
use merkle::Hash;
use merkle::head::TreeHead;
use merkle::json::{Leaves, Logs, Message, from_json, hex};
use tokio::sync::Notify;

use super::{Batch, LogError, Store};
use crate::metrics::Metrics;
use crate::relay::Relay;

/// Interval of pulls without traffic. They find receipts whose answers were lost, keep heads recent, and store the last leaves of a
/// log that ends. Well below the time for which a stopping enclave waits for its host (`--drain`).
const INTERVAL: Duration = Duration::from_secs(5);
/// Shortest pause between two pulls, which bounds the writes a second that traffic causes.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause after a history was refused: it will be refused again, and each refusal is a long log line.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// Pulls until `finish`, and then to the end of every log. `traffic` reports that the enclave may have issued a receipt. Pulled leaves
/// are published every `publish_every`, under heads that are signed at that time, so neither reveals when requests came.
pub(crate) async fn follow(
    relay: Relay,
    store: Arc<Store>,
    traffic: Arc<Notify>,
    metrics: Metrics,
    publish_every: Duration,
    finish: impl Future<Output = ()>,
) {
    let mut puller = Puller {
        relay,
        store,
        metrics,
        incomplete: BTreeSet::new(),
    };
    let mut finish = std::pin::pin!(finish);
    let mut thinned: Option<Instant> = None;
    let mut publication = Instant::now();
    loop {
        // At start too: a proxy that is restarted often would otherwise never thin its heads.
        if thinned.is_none_or(|last| last.elapsed() >= THINNING) {
            thinned = Some(Instant::now());
            puller.thin().await;
        }
        let due = publication <= Instant::now();
        let pulled = puller.pull().await;
        if due {
            puller.store.publish();
            while publication <= Instant::now() {
                publication += publish_every;
            }
        }
        let wait = match &pulled {
            // The next request tells the enclave that these leaves are stored.
            Pulled::Grown => Duration::ZERO,
            Pulled::Complete => INTERVAL.min(publication.saturating_duration_since(Instant::now())),
            Pulled::Failed(error) if error.is_misbehaviour() => REFUSED_PAUSE,
            Pulled::Failed(_) => INTERVAL,
        };
        let has_failed = matches!(pulled, Pulled::Failed(_));
        let pause = async {
            tokio::time::sleep(PAUSE).await;
            // Traffic does not shorten the pause after a failure: clients would choose how often it is reported.
            match has_failed {
                true => tokio::time::sleep(wait).await,
                // The timeout and a notification both mean to pull.
                false => tokio::time::timeout(wait, traffic.notified())
                    .await
                    .unwrap_or(()),
            }
        };
        tokio::select! {
            () = pause => {}
            () = &mut finish => break,
        }
    }
    puller.finish().await;
}

/// Interval at which old heads are thinned.
const THINNING: Duration = Duration::from_secs(3600);

/// Upper bound on leaves in memory: 32 MiB, more than an enclave keeps for its host.
const MAX_LEAVES_AT_ONCE: usize = 1 << 20;

struct Puller {
    relay: Relay,
    store: Arc<Store>,
    metrics: Metrics,
    /// Logs that can never be completed: reported once, then skipped.
    incomplete: BTreeSet<Hash>,
}

/// A failed pull.
struct PullError {
    error: LogError,
    /// The refused head, where the error is about one.
    head: Option<Vec<u8>>,
}

impl From<LogError> for PullError {
    fn from(error: LogError) -> Self {
        Self { error, head: None }
    }
}

/// The outcome of pulling every log.
enum Pulled {
    /// Leaves were stored, which the enclave does not know yet.
    Grown,
    /// All leaves were stored before, and the request has told the enclave so.
    Complete,
    /// The first failure, which was reported. Other logs may have grown.
    Failed(LogError),
}

impl Puller {
    async fn thin(&self) {
        let store = Arc::clone(&self.store);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        match tokio::task::spawn_blocking(move || store.thin(now)).await {
            Ok(Ok(0)) => {}
            Ok(Ok(heads)) => tracing::info!(heads, "old tree heads were thinned"),
            Ok(Err(error)) => {
                tracing::warn!(code = error.code(), %error, remedy = error.remedy(), "old tree heads were not thinned");
            }
            Err(_) => tracing::error!("thinning panicked"),
        }
    }

    /// Pulls until every leaf is stored and the enclave knows it. Returns early where that cannot be reached: the enclave does not
    /// answer, or its history is refused. The caller bounds the time, in which an operator may free space on a full disk.
    async fn finish(&mut self) {
        let mut unreachable = 0;
        loop {
            match self.pull().await {
                Pulled::Complete => {
                    tracing::info!("the log is stored to its end");
                    return;
                }
                Pulled::Grown => continue,
                Pulled::Failed(LogError::Pull(code)) if code == UNREACHABLE => {
                    unreachable += 1;
                    if unreachable == 2 {
                        return;
                    }
                }
                Pulled::Failed(LogError::Pull(_) | LogError::Unavailable(_)) => {}
                // This log is skipped from now on.
                Pulled::Failed(LogError::Incomplete { .. }) => continue,
                Pulled::Failed(_) => return,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn pull(&mut self) -> Pulled {
        let before = self.store.leaves();
        let pulled = self.pull_all().await;
        let leaves = self.store.leaves();
        self.metrics.log_stored(leaves);
        match pulled {
            Ok(()) if leaves > before => Pulled::Grown,
            Ok(()) => Pulled::Complete,
            Err(PullError { error, head }) => {
                self.report(&error, head);
                Pulled::Failed(error)
            }
        }
    }

    fn report(&self, error: &LogError, head: Option<Vec<u8>>) {
        self.metrics.log_failed(error);
        if error.is_misbehaviour() {
            // The signed head is evidence, and contains only hashes.
            let head = head.map(|head| Base64UrlUnpadded::encode_string(&head));
            tracing::error!(code = error.code(), %error, remedy = error.remedy(), head, "a tree head is refused");
        } else {
            tracing::warn!(code = error.code(), %error, remedy = error.remedy(), "the log was not pulled");
        }
    }

    async fn pull_all(&mut self) -> Result<(), PullError> {
        let no_log = LogError::Pull("the enclave keeps no log");
        let logs: Logs = self.ask("/v1/log").await?.ok_or(no_log)?;
        let mut outcome = Ok(());
        // A log that fails does not keep the others from being pulled.
        for log in logs.logs {
            if self.incomplete.contains(&log) {
                continue;
            }
            let pulled = self.pull_one(log).await;
            if let Err(PullError {
                error: LogError::Incomplete { .. },
                ..
            }) = &pulled
            {
                self.incomplete.insert(log);
            }
            outcome = outcome.and(pulled);
        }
        outcome
    }

    async fn pull_one(&self, log: Hash) -> Result<(), PullError> {
        let stored = self.store.size(&log);
        let mut leaves = Vec::new();
        loop {
            let from = stored + leaves.len() as u64;
            let path = format!("/v1/log/leaves?log={}&from={from}", hex(&log));
            let part = self.ask::<Leaves>(&path).await;
            let Some(part) = part.map_err(|failed| with_first_missing(failed, from))? else {
                return match leaves.is_empty() {
                    // The log ended before this request: an earlier pull stored its last leaves.
                    true => Ok(()),
                    // It ended between two requests, and its head named more leaves than have arrived. None can be stored without a
                    // head of their number.
                    false => Err(LogError::Incomplete { from: stored }.into()),
                };
            };
            if part.from != from || leaves.len() > MAX_LEAVES_AT_ONCE {
                let error = LogError::Pull("leaves of another position, or too many");
                return Err(error.into());
            }
            let (head, _) = TreeHead::parse(&part.head.head).map_err(|error| PullError {
                error: error.into(),
                head: Some(part.head.head.clone()),
            })?;
            let has_leaves = !part.leaves.is_empty();
            leaves.extend(part.leaves);
            // Stores once all leaves have arrived. An enclave that announces leaves and sends none fails the check of the root.
            if has_leaves && stored + (leaves.len() as u64) < head.size {
                continue;
            }
            let batch = Batch {
                log,
                leaves,
                head: part.head,
            };
            let signed = batch.head.head.clone();
            let store = Arc::clone(&self.store);
            return match tokio::task::spawn_blocking(move || store.extend(&batch)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(PullError {
                    error,
                    head: Some(signed),
                }),
                Err(_) => Err(LogError::Unavailable("writing panicked".to_owned()).into()),
            };
        }
    }

    /// Requests a message of the enclave; `None` where it does not have the log, or has it no longer.
    async fn ask<T: Message>(&self, path: &str) -> Result<Option<T>, PullError> {
        let failed = |reason| PullError::from(LogError::Pull(reason));
        let (status, body) = self
            .relay
            .fetch(path, T::LIMIT)
            .await
            .map_err(|problem| failed(problem.code()))?;
        match status {
            StatusCode::OK => from_json(&body)
                .map(Some)
                .map_err(|error| failed(error.code())),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::GONE => Err(LogError::Incomplete { from: 0 }.into()),
            _ => Err(failed("the enclave refused")),
        }
    }
}

/// Completes the error of leaves that the enclave no longer has.
fn with_first_missing(failed: PullError, from: u64) -> PullError {
    match failed.error {
        LogError::Incomplete { .. } => LogError::Incomplete { from }.into(),
        error => PullError {
            error,
            head: failed.head,
        },
    }
}

const UNREACHABLE: &str = "ENCLAVE_UNREACHABLE";
