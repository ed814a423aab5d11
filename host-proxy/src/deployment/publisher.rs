//! Adds records in batches, has witnesses cosign the new checkpoints, and publishes those that enough of them cosigned.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::StatusCode;
use merkle::Hash;
use merkle::head::TreeHead;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use witness::evidence::manifest;
use witness::note::{Note, Signature};
use witness::record::{Kind, MAX_RECORD, entry, write};

use super::key::LogKey;
use super::store::{Head, empty_head};
use super::submit::{SubmitError, WitnessClient, WitnessPlace};
use super::{DeploymentError, DeploymentStore, files};
use crate::config::Config;
use crate::log::Store;
use crate::relay::Relay;

/// Time in which additions become one batch.
const BATCH: Duration = Duration::from_millis(200);
/// Interval at which the folder of records is read, and failed additions are tried again.
const ROUND: Duration = Duration::from_secs(2);
/// Interval at which the heads of the enclave's logs are added.
const HEADS: Duration = Duration::from_secs(60);
/// Interval at which an enclave is asked for its keys, and the first one after a failure, which is doubled each time.
const PROBE: Duration = Duration::from_secs(60);
const FIRST_PROBE: Duration = Duration::from_secs(2);
/// Age at which a cosignature is replaced.
const REFRESH: Duration = Duration::from_secs(60);
/// Pauses after a failure of a witness, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longest wait of a client for the proof of new keys.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// Records that wait to be added.
const MAX_PENDING: usize = 4096;
/// Entries that are known to be in the log, and proofs that are kept.
const MAX_KNOWN: usize = 4096;
const MAX_PROOFS: usize = 256;
/// A document of which only the manifest is read, so its nonce does not matter.
const OWN_DOCUMENT: &str = "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Enclave logs whose heads are added.
const MAX_LOGS: usize = 64;
/// Longest evidence of an enclave, bytes.
const MAX_EVIDENCE: usize = 64 << 10;

/// The log, where one is kept. A clone is the same one.
#[derive(Clone, Default)]
pub(crate) struct Deployment(Option<Arc<Inner>>);

struct Inner {
    store: Arc<DeploymentStore>,
    key: Arc<LogKey>,
    witnesses: Vec<WitnessPlace>,
    quorum: usize,
    /// The log without entries, for witnesses while the file has no checkpoint.
    empty: Head,
    /// The folder of files has a checkpoint of this log that the log does not extend. Nothing more is signed.
    is_rolled_back: AtomicBool,
    records: Option<PathBuf>,
    files: Option<PathBuf>,
    pending: Mutex<Pending>,
    added: Notify,
    /// Counts publications.
    published: watch::Sender<u64>,
    /// Proofs from the published checkpoint, by entry.
    proofs: Mutex<BTreeMap<Hash, Bytes>>,
}

#[derive(Default)]
struct Pending {
    records: Vec<Vec<u8>>,
    /// Entries that wait or are in the log.
    known: BTreeSet<Hash>,
}

/// News from the task of a witness.
enum News {
    /// It cosigned the checkpoint with this text.
    Cosigned { text: String, signature: Signature },
    /// It claims a tree that this log does not extend.
    Claimed,
}

/// Witnesses, by their numbers, and their answers since the start.
#[derive(Default)]
struct Answers {
    /// They cosigned the newest checkpoint of the file as it was at the start, or a later one.
    confirmed: BTreeSet<usize>,
    /// Their last answers claim a tree that this log does not extend.
    claimed: BTreeSet<usize>,
    /// The claims make a quorum impossible, and that was reported.
    is_halted: bool,
}

/// When an enclave is asked for its keys.
struct Probe {
    due: Instant,
    /// Time until the next request, if the one that is due fails.
    pause: Duration,
}

impl Probe {
    fn new(now: Instant) -> Self {
        Self {
            due: now,
            pause: FIRST_PROBE,
        }
    }

    fn plan_next(&mut self, has_answered: bool, now: Instant) {
        if has_answered {
            *self = Self::new(now + PROBE);
        } else {
            self.due = now + self.pause;
            self.pause = (self.pause * 2).min(PROBE);
        }
    }
}

impl Deployment {
    /// Opens the log that the flags name.
    ///
    /// # Errors
    /// Where a flag or a file is unusable.
    pub(crate) fn open(config: &Config) -> anyhow::Result<Self> {
        let Some((log, key)) = config
            .deployment_log
            .as_ref()
            .zip(config.deployment_key.as_ref())
        else {
            return Ok(Self::default());
        };
        let known: BTreeSet<_> = config
            .witnesses
            .iter()
            .map(|place| place.key.public_key())
            .collect();
        ensure!(
            known.len() == config.witnesses.len(),
            "--witness names a key twice"
        );
        let count = config.witnesses.len();
        let quorum = config.witness_quorum.unwrap_or(match count {
            0 => 0,
            count => count / 2 + 1,
        });
        ensure!(
            (count.min(1)..=count).contains(&quorum),
            "--witness-quorum {quorum} is not between 1 and the number of witnesses, {count}"
        );
        if let Some(folder) = &config.deployment_records {
            files::read_records(folder).with_context(|| {
                format!("--deployment-records {} cannot be read", folder.display())
            })?;
        }
        let describe =
            |error: DeploymentError| anyhow::anyhow!("{}", error_codes::ErrorLine(&error));
        let key = LogKey::read(key).map_err(describe)?;
        let store = DeploymentStore::open(log, &key).map_err(describe)?;
        Ok(Self(Some(Arc::new(Inner {
            store: Arc::new(store),
            empty: empty_head(&key.signer).map_err(describe)?,
            is_rolled_back: AtomicBool::new(false),
            key: Arc::new(key),
            witnesses: config.witnesses.clone(),
            quorum,
            records: config.deployment_records.clone(),
            files: config.deployment_files.clone(),
            pending: Mutex::default(),
            added: Notify::new(),
            published: watch::Sender::new(0),
            proofs: Mutex::default(),
        }))))
    }

    /// The log's file.
    pub(crate) fn store(&self) -> Option<Arc<DeploymentStore>> {
        self.0.as_ref().map(|inner| Arc::clone(&inner.store))
    }

    /// Adds the keys of the enclave that sent this evidence.
    pub(crate) fn notice(&self, evidence: &[u8]) {
        if let Some((inner, manifest)) = self.0.as_ref().zip(manifest(evidence)) {
            inner.add(write(Kind::Keys, manifest));
        }
    }

    /// Proves that the keys in this evidence are in the published log. Waits where they were added a moment ago. Empty where the log does not
    /// have them.
    pub(crate) async fn prove(&self, evidence: &[u8], deadline: Instant) -> Bytes {
        let Some((inner, manifest)) = self.0.as_ref().zip(manifest(evidence)) else {
            return Bytes::new();
        };
        let entry = entry(&write(Kind::Keys, manifest));
        let mut published = inner.published.subscribe();
        let deadline = deadline.min(Instant::now() + PROOF_TIMEOUT);
        loop {
            if let Some(proof) = inner.proofs().get(&entry) {
                return proof.clone();
            }
            let count = *published.borrow_and_update();
            let store = Arc::clone(&inner.store);
            let found = tokio::task::spawn_blocking(move || store.proof(&entry)).await;
            match found {
                Ok(Ok(Some(proof))) => {
                    let proof = Bytes::from(proof.to_string());
                    let mut proofs = inner.proofs();
                    // A publication since then has emptied the map, and this proof is older.
                    if *inner.published.borrow() == count && proofs.len() < MAX_PROOFS {
                        proofs.insert(entry, proof.clone());
                    }
                    return proof;
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    report(&error);
                    return Bytes::new();
                }
                Err(_) => return Bytes::new(),
            }
            match tokio::time::timeout_at(deadline, published.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Bytes::new(),
            }
        }
    }

    /// Keeps the log while it is polled. `heads` is the log of the enclave's receipts.
    pub(crate) async fn run(self, relay: Relay, heads: Option<Arc<Store>>) {
        let Some(inner) = self.0 else { return };
        let (signed, changes) = watch::channel(());
        let (news, told) = mpsc::channel(16);
        // Dropped with this future, which ends them.
        let mut tasks = tokio::task::JoinSet::new();
        for (number, place) in inner.witnesses.iter().enumerate() {
            match WitnessClient::new(place.clone()) {
                Ok(client) => {
                    let news = (number, news.clone());
                    tasks.spawn(ask_witness(
                        client,
                        Arc::clone(&inner),
                        changes.clone(),
                        news,
                    ));
                }
                Err(error) => tracing::error!(%error, "a witness cannot be asked"),
            }
        }
        drop(news);
        tokio::join!(
            inner.probe(&relay),
            inner.add_heads(heads),
            inner.publish(signed, told)
        );
    }
}

impl Inner {
    fn proofs(&self) -> MutexGuard<'_, BTreeMap<Hash, Bytes>> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `false` where too many records wait: then this one must come again.
    fn add(&self, record: Vec<u8>) -> bool {
        let entry = entry(&record);
        let mut pending = self.pending();
        if pending.known.contains(&entry) {
            return true;
        }
        if pending.records.len() >= MAX_PENDING {
            return false;
        }
        if pending.known.len() >= MAX_KNOWN {
            pending.known.clear();
        }
        pending.known.insert(entry);
        // It would fail its whole batch.
        if record.len() > MAX_RECORD {
            report(&DeploymentError::TooLong(record.len()));
            return true;
        }
        pending.records.push(record);
        drop(pending);
        self.added.notify_one();
        true
    }

    /// Asks each enclave for its keys, so that they are in the log before a client needs their proof.
    async fn probe(&self, relay: &Relay) {
        let count = relay.fleet().len();
        let mut probes: Vec<_> = (0..count).map(|_| Probe::new(Instant::now())).collect();
        while let Some(due) = probes.iter().map(|probe| probe.due).min() {
            tokio::time::sleep_until(due).await;
            for (enclave, probe) in probes.iter_mut().enumerate() {
                if probe.due > Instant::now() {
                    continue;
                }
                let answer = relay.fetch_from(enclave, OWN_DOCUMENT, MAX_EVIDENCE).await;
                let has_answered = matches!(answer, Ok((StatusCode::OK, _)));
                if let Ok((StatusCode::OK, evidence)) = answer
                    && let Some(manifest) = manifest(&evidence)
                {
                    self.add(write(Kind::Keys, manifest));
                }
                probe.plan_next(has_answered, Instant::now());
            }
        }
    }

    async fn add_heads(&self, heads: Option<Arc<Store>>) {
        let Some(store) = heads else { return };
        let mut sizes = BTreeMap::new();
        loop {
            tokio::time::sleep(HEADS).await;
            for TreeHead { log, size, .. } in store.summaries(None, MAX_LOGS).unwrap_or_default() {
                if sizes.get(&log) == Some(&size) {
                    continue;
                }
                let reader = Arc::clone(&store);
                let head = tokio::task::spawn_blocking(move || reader.head(&log, Some(size))).await;
                if let Ok(Ok(Some(head))) = head
                    && self.add(write(Kind::Head, &head.head))
                {
                    sizes.insert(log, size);
                }
            }
        }
    }

    /// Adds batches, and publishes what witnesses cosigned.
    async fn publish(&self, signed: watch::Sender<()>, mut told: mpsc::Receiver<(usize, News)>) {
        let needs_witnesses = !self.witnesses.is_empty();
        let mut answers = Answers::default();
        // The files may be older than the log.
        self.export().await;
        let mut next_round = Instant::now();
        loop {
            if next_round <= Instant::now() {
                next_round = Instant::now() + ROUND;
                self.read_folder().await;
            }
            if self.may_sign(&answers) && self.append(!needs_witnesses).await {
                signed.send_replace(());
                if !needs_witnesses {
                    self.announce().await;
                }
            }
            let added = async {
                self.added.notified().await;
                tokio::time::sleep(BATCH).await;
            };
            tokio::select! {
                () = added => {}
                () = tokio::time::sleep_until(next_round) => {}
                Some((witness, news)) = told.recv() => match news {
                    News::Cosigned { text, signature } => {
                        answers.confirmed.insert(witness);
                        answers.claimed.remove(&witness);
                        answers.is_halted &= !self.has_quorum_without(&answers.claimed);
                        // More additions may wait for this answer, or for this batch.
                        self.added.notify_one();
                        self.keep(&text, signature).await;
                    }
                    News::Claimed => {
                        answers.claimed.insert(witness);
                        if !self.has_quorum_without(&answers.claimed) && !answers.is_halted {
                            answers.is_halted = true;
                            let names = answers.claimed.iter().filter_map(|witness| {
                                Some(self.witnesses.get(*witness)?.key.name())
                            });
                            let holder = names.collect::<Vec<_>>().join(", ");
                            report(&DeploymentError::RolledBack { holder });
                        }
                    }
                },
            }
        }
    }

    /// Nothing is signed before enough witnesses have confirmed that this file is the newest one: each quorum that may have cosigned a
    /// newer checkpoint has one of them. A claim of a witness is not proven, so it matters only where no quorum is left without it.
    fn may_sign(&self, answers: &Answers) -> bool {
        let count = self.witnesses.len();
        let needed = match count {
            0 => 0,
            _ => self.quorum.max(count - self.quorum + 1),
        };
        answers.confirmed.len() >= needed
            && self.has_quorum_without(&answers.claimed)
            && !self.is_rolled_back.load(Ordering::Relaxed)
    }

    fn has_quorum_without(&self, claimed: &BTreeSet<usize>) -> bool {
        self.witnesses.len() - claimed.len() >= self.quorum
    }

    async fn read_folder(&self) {
        let Some(folder) = self.records.clone() else {
            return;
        };
        let shown = folder.display().to_string();
        match tokio::task::spawn_blocking(move || files::read_records(&folder)).await {
            Ok(Ok(records)) => {
                for record in records {
                    self.add(record);
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(folder = shown, %error, "the folder of records cannot be read");
            }
            Err(_) => {}
        }
    }

    /// Appends what waits; returns whether the tree has grown.
    async fn append(&self, publish: bool) -> bool {
        let records = std::mem::take(&mut self.pending().records);
        if records.is_empty() {
            return false;
        }
        let (store, key) = (Arc::clone(&self.store), Arc::clone(&self.key));
        let records = Arc::new(records);
        let batch = Arc::clone(&records);
        let appended =
            tokio::task::spawn_blocking(move || store.append(&batch, &key.signer, publish));
        match appended.await {
            Ok(Ok(has_grown)) => has_grown,
            outcome => {
                if let Ok(Err(error)) = outcome {
                    report(&error);
                }
                // An enclave that has ended does not send its last head again.
                let mut pending = self.pending();
                let later = std::mem::replace(&mut pending.records, Arc::unwrap_or_clone(records));
                pending.records.extend(later);
                false
            }
        }
    }

    /// Adds a cosignature to the newest checkpoint, and publishes it where enough witnesses cosigned it.
    async fn keep(&self, text: &str, signature: Signature) {
        let newest = match self.store.signed() {
            Ok(newest) => newest.filter(|head| head.note.text() == text),
            Err(error) => return report(&error),
        };
        let Some(head) = newest else { return };
        let mut note = head.note;
        note.sign(signature);
        let is_published = self.count(&note) >= self.quorum;
        let store = Arc::clone(&self.store);
        let kept = tokio::task::spawn_blocking(move || store.keep(&note, is_published)).await;
        match kept {
            Ok(Ok(())) if is_published => self.announce().await,
            Ok(Err(error)) => report(&error),
            _ => {}
        }
    }

    /// Witnesses that cosigned.
    fn count(&self, note: &Note) -> usize {
        let cosigned = |place: &&WitnessPlace| place.key.verify(note).is_ok();
        self.witnesses.iter().filter(cosigned).count()
    }

    async fn announce(&self) {
        self.published.send_modify(|count| *count += 1);
        self.proofs().clear();
        self.export().await;
    }

    async fn export(&self) {
        let Some(folder) = self.files.clone() else {
            return;
        };
        let store = Arc::clone(&self.store);
        if let Ok(Err(error)) =
            tokio::task::spawn_blocking(move || files::export(&store, &folder)).await
        {
            let is_rolled_back = matches!(error, DeploymentError::RolledBack { .. });
            // Once: a witness's cosignature of each minute is exported too.
            if !is_rolled_back || !self.is_rolled_back.swap(true, Ordering::Relaxed) {
                report(&error);
            }
        }
    }
}

/// Has one witness cosign each new checkpoint, and the newest one again before its cosignature is old.
async fn ask_witness(
    mut client: WitnessClient,
    log: Arc<Inner>,
    mut changes: watch::Receiver<()>,
    (number, news): (usize, mpsc::Sender<(usize, News)>),
) {
    let store = &log.store;
    let mut pause = FIRST_PAUSE;
    loop {
        changes.borrow_and_update();
        let head = match store.signed() {
            Ok(head) => head,
            Err(error) => {
                report(&error);
                tokio::time::sleep(LONGEST_PAUSE).await;
                continue;
            }
        };
        // A witness that has a tree answers the empty one with its size: then this file is a copy from before the first entry.
        let head = head.unwrap_or_else(|| log.empty.clone());
        let told = match client.cosign(store, &head).await {
            Ok(signature) => {
                pause = FIRST_PAUSE;
                let text = head.note.text().to_owned();
                Some(News::Cosigned { text, signature })
            }
            Err(SubmitError::Claimed(tree)) => {
                tracing::error!(
                    code = "WITNESS_CONTRADICTS",
                    witness = client.name(),
                    tree,
                    "a witness claims a tree that the log does not extend"
                );
                Some(News::Claimed)
            }
            Err(SubmitError::Log(error)) => {
                report(&error);
                None
            }
            Err(SubmitError::Later(reason)) => {
                tracing::warn!(
                    code = "WITNESS_UNAVAILABLE",
                    witness = client.name(),
                    reason,
                    "a witness did not cosign"
                );
                None
            }
        };
        let is_cosigned = matches!(told, Some(News::Cosigned { .. }));
        if let Some(told) = told
            && news.send((number, told)).await.is_err()
        {
            return;
        }
        if is_cosigned {
            // The end of the timeout means to ask for a younger cosignature.
            if let Ok(Err(_)) = tokio::time::timeout(REFRESH, changes.changed()).await {
                return;
            }
        } else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn report(error: &DeploymentError) {
    tracing::error!(code = error.code(), %error, remedy = error.remedy(), "the deployment's log failed");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[tokio::test]
    async fn records_of_a_failed_batch_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let [log, key] = ["log", "key"].map(|name| folder.path().join(name));
        super::super::init("log.example", &log, &key).unwrap();
        let key = LogKey::read(&key).unwrap();
        let inner = Inner {
            store: Arc::new(DeploymentStore::open(&log, &key).unwrap()),
            witnesses: Vec::new(),
            quorum: 0,
            empty: empty_head(&key.signer).unwrap(),
            key: Arc::new(key),
            is_rolled_back: AtomicBool::new(false),
            records: None,
            files: None,
            pending: Mutex::default(),
            added: Notify::new(),
            published: watch::Sender::new(0),
            proofs: Mutex::default(),
        };
        assert!(inner.add(b"the last head of an enclave".to_vec()));
        // The store refuses this one, and with it the batch.
        inner.pending().records.push(vec![0; MAX_RECORD + 1]);
        assert!(!inner.append(true).await);
        assert!(inner.pending().records.pop().unwrap().len() > MAX_RECORD);
        assert!(inner.append(true).await);
        // Such a record of an enclave holds nothing back.
        assert!(inner.add(vec![0; MAX_RECORD + 1]));
        assert!(inner.add(b"another".to_vec()));
        assert!(inner.append(true).await);
        assert_eq!(inner.store.signed().unwrap().unwrap().tree.size, 2);
    }

    #[test]
    fn an_enclave_that_fails_is_asked_less_often() {
        let now = Instant::now();
        let mut probe = Probe::new(now);
        let mut plan = |has_answered| {
            probe.plan_next(has_answered, now);
            (probe.due - now).as_secs()
        };
        assert_eq!([false; 7].map(&mut plan), [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!([true, false].map(&mut plan), [60, 2]);
    }
}
