//! Pulling: after sealed traffic, at start, at intervals in between, and once more before the end.
//!
//! A question from leaf N, where N is the size of the tree, tells the enclave that everything is on this disk. So a pull that stored
//! leaves is followed by another one, and leaves that are not yet stored are asked for only where the head says that more come.

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

/// How often the log is looked at without any traffic: receipts whose answers were lost are found, heads stay young, and a log that
/// ends is seen to its end. Well within the time that an enclave waits for its host when it stops (`--drain`).
const INTERVAL: Duration = Duration::from_secs(5);
/// Between two pulls, so that traffic costs no more than these few writes a second.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the log is left alone after a history was refused: it will be refused again, and each refusal is a long line of the log.
const REFUSED: Duration = Duration::from_secs(30);

/// Pulls until `finish`, and then to the end of every log. `traffic` tells that the enclave may have issued a receipt. What is pulled
/// is published every so often, under heads that are signed then: when requests came shows in neither.
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
        // At start too: a proxy that is restarted often would otherwise never do it.
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
        let wait = match pulled {
            // The next question tells the enclave that these leaves are stored.
            Pulled::Grown => Duration::ZERO,
            Pulled::Whole => INTERVAL.min(publication.saturating_duration_since(Instant::now())),
            Pulled::Failed(error) if error.is_misbehaviour() => REFUSED,
            Pulled::Failed(_) => INTERVAL,
        };
        let rest = async {
            tokio::time::sleep(PAUSE).await;
            // Either the wait is over or it was told; both mean that it is time to look.
            tokio::time::timeout(wait, traffic.notified())
                .await
                .unwrap_or(());
        };
        tokio::select! {
            () = rest => {}
            () = &mut finish => break,
        }
    }
    puller.finish().await;
}

/// How often old heads are thinned.
const THINNING: Duration = Duration::from_secs(3600);

/// More than an enclave keeps for its host: 32 MiB.
const MAX_LEAVES_AT_ONCE: usize = 1 << 20;

struct Puller {
    relay: Relay,
    store: Arc<Store>,
    metrics: Metrics,
    /// Logs that can never be completed: said once, and left alone.
    incomplete: BTreeSet<Hash>,
}

/// A failure, with the head that is refused, where it is about one.
type Refused = (LogError, Option<Vec<u8>>);

/// How a pull of every log ended.
enum Pulled {
    /// Leaves were stored. The enclave does not know it yet.
    Grown,
    /// Everything was stored before, and the enclave has been told so by the question itself.
    Whole,
    /// The first failure; it was reported. Other logs may have grown.
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

    /// Pulls until every leaf is stored and the enclave knows it. Fails where that is not to be had: the enclave is gone, or shows a
    /// history that is refused. The caller bounds the time, in which a full disk may be emptied.
    async fn finish(&mut self) {
        let mut unreachable = 0;
        loop {
            match self.pull().await {
                Pulled::Whole => {
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
                // From now on this log is left out.
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
            Ok(()) => Pulled::Whole,
            Err((error, head)) => {
                self.report(&error, head);
                Pulled::Failed(error)
            }
        }
    }

    fn report(&self, error: &LogError, head: Option<Vec<u8>>) {
        self.metrics.log_refused(error.code());
        if error.is_misbehaviour() {
            // The head is signed: it is the proof, and holds nothing but hashes.
            let head = head.map(|head| Base64UrlUnpadded::encode_string(&head));
            tracing::error!(code = error.code(), %error, remedy = error.remedy(), head, "a tree head is refused");
        } else {
            tracing::warn!(code = error.code(), %error, remedy = error.remedy(), "the log was not pulled");
        }
    }

    async fn pull_all(&mut self) -> Result<(), Refused> {
        let logs: Logs = self.ask("/v1/log").await?.ok_or(unreadable())?;
        let mut outcome = Ok(());
        // A log that fails does not keep the others from being pulled.
        for log in logs.logs {
            if self.incomplete.contains(&log) {
                continue;
            }
            let pulled = self.pull_one(log).await;
            if let Err((LogError::Incomplete { .. }, _)) = &pulled {
                self.incomplete.insert(log);
            }
            outcome = outcome.and(pulled);
        }
        outcome
    }

    async fn pull_one(&self, log: Hash) -> Result<(), Refused> {
        let stored = self.store.size(&log);
        let mut leaves = Vec::new();
        loop {
            let from = stored + leaves.len() as u64;
            let path = format!("/v1/log/leaves?log={}&from={from}", hex(&log));
            // A log that ended between two questions is no failure: its last leaves came with an earlier pull.
            let Some(part) = self
                .ask::<Leaves>(&path)
                .await
                .map_err(|refused| gone(refused, from))?
            else {
                return Ok(());
            };
            if part.from != from || leaves.len() > MAX_LEAVES_AT_ONCE {
                return Err((LogError::Pull("leaves of another place, or too many"), None));
            }
            let (head, _) = TreeHead::parse(&part.head.head)
                .map_err(|error| (error.into(), Some(part.head.head.clone())))?;
            let some = !part.leaves.is_empty();
            leaves.extend(part.leaves);
            // Until all leaves are here, or, from an enclave that promises leaves and gives none, at once: the root says it.
            if some && stored + (leaves.len() as u64) < head.size {
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
                Ok(Err(error)) => Err((error, Some(signed))),
                Err(_) => Err((LogError::Unavailable("writing panicked".to_owned()), None)),
            };
        }
    }

    /// A message of the enclave; `None` where it has no such log, or none any more.
    async fn ask<T: Message>(&self, path: &str) -> Result<Option<T>, Refused> {
        let failed = |why| (LogError::Pull(why), None);
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
            StatusCode::GONE => Err((LogError::Incomplete { from: 0 }, None)),
            _ => Err(failed("the enclave refused")),
        }
    }
}

fn gone((error, head): Refused, from: u64) -> Refused {
    match error {
        LogError::Incomplete { .. } => (LogError::Incomplete { from }, head),
        other => (other, head),
    }
}

const UNREACHABLE: &str = "ENCLAVE_UNREACHABLE";

fn unreadable() -> Refused {
    (LogError::Pull("the enclave keeps no log"), None)
}
