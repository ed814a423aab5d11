//! Faults that only time shows: server, client and auditor are driven through days by one simulated clock.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Attested, MODEL, Options, Rig, code, embeddings};
use attestation::{Policy, SignatureMemory, Verdict};
use axum::http::StatusCode;
use enclave_server::keys::{KeyError, Periods};
use enclave_server::maintenance::Maintenance;
use enclave_server::nsm::{AttestRequest, Nsm, NsmError, Pcr};
use getrandom::SysRng;
use merkle::json::{Leaves, Logs, from_json, hex};
use protocol::bundle::AuditBundle;
use protocol::exchange;
use protocol::inner::InnerRequest;
use rand_core::UnwrapErr;
use serde_json::json;

const HOUR: u64 = 3600;

fn hello() -> InnerRequest {
    embeddings(&json!({"model": MODEL, "input": "hello world"}))
}

/// Judges what the service shows, as an auditor does who comes much later: each as of its own time.
struct Auditor {
    policy: Policy,
    heads: u32,
    receipts: u32,
}

impl Auditor {
    /// Refuses every document and manifest that is not valid at the very second, as a policy without any skew does.
    async fn new(rig: &Rig) -> Self {
        let (_, policy) = rig.get("/v1/development-policy").await;
        let mut policy: serde_json::Value = serde_json::from_slice(&policy).unwrap();
        policy["clock_skew_seconds"] = 0.into();
        Self {
            policy: Policy::with_evidence(policy.to_string().as_bytes()).unwrap(),
            heads: 0,
            receipts: 0,
        }
    }

    /// Every log that the service lists has a head that verifies.
    async fn judge_heads(&mut self, rig: &Rig) {
        let (_, body) = rig.get("/v1/log").await;
        for log in from_json::<Logs>(&body).unwrap().logs {
            let path = format!("/v1/log/leaves?log={}&from=0", hex(&log));
            let (status, body) = rig.get(&path).await;
            assert_eq!(status, StatusCode::OK, "{body:?}");
            let leaves: Leaves = from_json(&body).unwrap();
            let (report, key) = protocol::log::attest(&leaves.head, &[], &self.policy, None);
            assert_eq!(report.verdict, Verdict::Simulated, "{:?}", report.code);
            assert_eq!(key.unwrap().key().bytes(), &log);
            self.heads += 1;
        }
    }

    /// One request, whose bundle verifies.
    async fn judge_receipt(&mut self, rig: &Rig, attested: &Attested) {
        let answer = rig
            .exchange(attested, hello())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.response.status, 200);
        let bundle = AuditBundle::of(
            &answer,
            attested.document.clone(),
            attested.manifest.clone(),
            true,
        )
        .unwrap();
        let report = bundle.verify(&self.policy, || None, &mut SignatureMemory::new());
        let (attestation, receipt) = (report.attestation, report.receipt);
        assert_eq!(
            attestation.verdict,
            Verdict::Simulated,
            "{:?}",
            attestation.code
        );
        assert_eq!(receipt.verdict, Verdict::Simulated, "{:?}", receipt.code);
        self.receipts += 1;
    }
}

/// Lets `seconds` pass as the server sees them, maintenance included.
async fn live(rig: &Rig, maintenance: &mut Maintenance, seconds: u64) {
    let mut left = seconds;
    while left > 0 {
        let wait = maintenance.round().await.as_secs().clamp(1, left);
        rig.advance(wait);
        left -= wait;
    }
}

#[tokio::test]
async fn what_is_signed_over_days_verifies() {
    let rig = Rig::new();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    let mut auditor = Auditor::new(&rig).await;
    let mut client = rig.attest().await;
    // Every few minutes, at no regular distance from rotations (an hour), overlaps (10 minutes) and leaves (3 hours).
    for round in 0..270_u64 {
        live(&rig, &mut maintenance, 480 + (round * 37) % 131).await;
        if rig.now() > client.verified.valid_until() || round % 5 == 0 {
            client = rig.attest().await;
        }
        assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
        auditor.judge_heads(&rig).await;
        if sealed_is_taken(&rig, &client).await {
            auditor.judge_receipt(&rig, &client).await;
        }
    }
    assert!(rig.now().seconds() - crate::common::START > 36 * HOUR);
    assert!(
        auditor.heads > 270 && auditor.receipts > 230,
        "{}",
        auditor.receipts
    );
}

/// Whether the enclave still takes requests under this attestation; it says by code where it does not.
async fn sealed_is_taken(rig: &Rig, client: &Attested) -> bool {
    let (sealed, pending) =
        exchange::begin(&client.verified, hello(), rig.now(), &mut UnwrapErr(SysRng)).unwrap();
    let (status, answer) = rig.post(sealed).await;
    if status != StatusCode::OK {
        assert_eq!(code(&answer), "KEY_UNKNOWN");
        return false;
    }
    match pending.finish(&answer, rig.now()) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), exchange::DOCUMENT_UNKNOWN);
            false
        }
    }
}

/// Each second around the ends: of a request's time, of a manifest, of a leaf.
#[tokio::test]
async fn heads_and_receipts_at_the_very_end_verify_or_are_not_made() {
    let rig = Rig::new();
    let mut auditor = Auditor::new(&rig).await;
    let client = rig.attest().await;
    rig.advance(HOUR);
    rig.service.rotate().unwrap();
    rig.advance(540);
    for _ in 0..180 {
        rig.advance(1);
        auditor.judge_heads(&rig).await;
        if rig.now() <= client.verified.valid_until() && sealed_is_taken(&rig, &client).await {
            auditor.judge_receipt(&rig, &client).await;
        }
    }
    assert_eq!(auditor.receipts, 60, "to the last second of the overlap");
    // Two logs to the last second of the old manifest, then one.
    assert_eq!(auditor.heads, 120 * 2 + 60);
}

#[tokio::test]
async fn a_document_is_not_kept_beyond_its_certificates() {
    let rig = Rig::new();
    let mut auditor = Auditor::new(&rig).await;
    // A document made now has half an hour left at the least; heads go on through that and beyond.
    rig.advance(2 * HOUR + 29 * 60);
    rig.service.rotate().unwrap();
    let client = rig.attest().await;
    for _ in 0..40 {
        auditor.judge_heads(&rig).await;
        if rig.now() <= client.verified.valid_until() && sealed_is_taken(&rig, &client).await {
            auditor.judge_receipt(&rig, &client).await;
        }
        rig.advance(60);
    }
    assert!(
        (28..=31).contains(&auditor.receipts),
        "{}",
        auditor.receipts
    );
}

/// Fails as often as it is told to.
struct Failing {
    nsm: Arc<dyn Nsm>,
    failures: Arc<AtomicU32>,
}

impl Failing {
    fn fail(&self) -> Result<(), NsmError> {
        let left = |failures: u32| failures.checked_sub(1);
        match self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
        {
            Ok(_) => Err(NsmError::Refused { code: "Internal" }),
            Err(_) => Ok(()),
        }
    }
}

impl Nsm for Failing {
    fn attest(&self, request: &AttestRequest<'_>) -> Result<Vec<u8>, NsmError> {
        self.fail()?;
        self.nsm.attest(request)
    }

    fn random(&self) -> Result<[u8; 32], NsmError> {
        self.fail()?;
        self.nsm.random()
    }

    fn pcrs(&self) -> &BTreeMap<u8, Pcr> {
        self.nsm.pcrs()
    }

    fn development_root(&self) -> Option<&[u8]> {
        self.nsm.development_root()
    }
}

fn failing() -> (Rig, Arc<AtomicU32>) {
    let failures = Arc::new(AtomicU32::new(0));
    let rig = Rig::with(Options {
        nsm: {
            let failures = Arc::clone(&failures);
            Box::new(|nsm| Arc::new(Failing { nsm, failures }))
        },
        ..Options::default()
    });
    (rig, failures)
}

#[tokio::test]
async fn a_rotation_that_failed_is_tried_again_within_seconds() {
    let (rig, failures) = failing();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    let old = rig.attest().await;
    live(&rig, &mut maintenance, HOUR - 1).await;
    failures.store(3, Ordering::SeqCst);
    // 1, 2 and 4 seconds after the first try, the fourth one succeeds.
    live(&rig, &mut maintenance, 10).await;
    let new = rig.attest().await;
    assert_ne!(old.manifest, new.manifest);
    assert!(sealed_is_taken(&rig, &old).await && sealed_is_taken(&rig, &new).await);
}

#[tokio::test]
async fn readiness_means_that_keys_are_valid() {
    let (rig, failures) = failing();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    failures.store(u32::MAX, Ordering::SeqCst);
    // The overlap is there for this.
    live(&rig, &mut maintenance, HOUR + 600).await;
    assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
    live(&rig, &mut maintenance, 20).await;
    for path in ["/readyz", "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA"] {
        let (status, problem) = rig.get(path).await;
        assert_eq!(
            (status, code(&problem).as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "KEYS_EXPIRED"),
            "{path}"
        );
    }
    failures.store(0, Ordering::SeqCst);
    live(&rig, &mut maintenance, 20).await;
    assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
    let fresh = rig.attest().await;
    assert!(sealed_is_taken(&rig, &fresh).await);
}

#[tokio::test]
async fn the_last_receipts_can_be_fetched_however_often_keys_are_made() {
    for every in [10, 25, 90, 600, 5000, 86_400] {
        let periods = Periods::new(Duration::from_secs(every), Duration::from_secs(30)).unwrap();
        let rig = Rig::with(Options {
            periods,
            ..Options::default()
        });
        let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
        let mut auditor = Auditor::new(&rig).await;
        live(&rig, &mut maintenance, every - 1).await;
        let client = rig.attest().await;
        let log = *client.verified.receipt_key().bytes();
        // To the last second in which the keys take requests.
        live(&rig, &mut maintenance, 1 + every.min(600)).await;
        auditor.judge_receipt(&rig, &client).await;
        // Whoever asks every half a minute finds it, twice.
        for _ in 0..2 {
            live(&rig, &mut maintenance, 29).await;
            let (_, body) = rig.get("/v1/log").await;
            let logs = from_json::<Logs>(&body).unwrap().logs;
            assert!(logs.contains(&log) && logs.len() <= 16, "{every}");
            auditor.judge_heads(&rig).await;
        }
    }
}

#[test]
fn keys_that_would_have_to_be_forgotten_early_are_refused_at_start() {
    let seconds = Duration::from_secs;
    assert!(Periods::new(seconds(10), seconds(30)).is_ok());
    assert!(Periods::new(seconds(300), seconds(3600)).is_ok());
    let Err(error) = Periods::new(seconds(10), seconds(3600)) else {
        panic!("accepted")
    };
    assert!(matches!(error, KeyError::TooManyGenerations { .. }));
    assert_eq!(error.code(), "ROTATION_TOO_OFTEN");
    let said = format!("{error} {}", error.remedy());
    for part in ["--rotate-every", "--deadline"] {
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn setting_the_wall_clock_admits_no_replay_and_costs_no_memory() {
    let rig = Rig::new();
    let client = rig.attest().await;
    let (sealed, _) =
        exchange::begin(&client.verified, hello(), rig.now(), &mut UnwrapErr(SysRng)).unwrap();
    assert_eq!(rig.post(sealed.clone()).await.0, StatusCode::OK);
    // Forward past the date's end, where it could be forgotten, and back.
    for set in [3600, -3600, -86_400, 86_400, 7200, -7200] {
        rig.set_wall(set);
        rig.service.remove_expired();
        assert_eq!(rig.service.replay_entries(), 1, "{set}");
        let answer = rig.post(sealed.clone()).await;
        assert_eq!(answer.0, StatusCode::OK, "sealed, and without a receipt");
        assert_eq!(receipts(&rig).await, 1);
    }
    // What has run out is forgotten however the wall clock is set.
    rig.set_wall(-86_400);
    rig.advance(311);
    rig.service.remove_expired();
    assert_eq!(rig.service.replay_entries(), 0);
    rig.set_wall(86_400);
    rig.post(sealed).await;
    assert_eq!((receipts(&rig).await, rig.service.replay_entries()), (1, 0));
}

/// Receipts of the newest key: the first leaf is the key itself.
async fn receipts(rig: &Rig) -> u64 {
    let (_, body) = rig.get("/v1/log").await;
    let log = from_json::<Logs>(&body).unwrap().logs[0];
    let (status, body) = rig
        .get(&format!("/v1/log/leaves?log={}&from=0", hex(&log)))
        .await;
    assert_eq!(status, StatusCode::OK);
    from_json::<Leaves>(&body).unwrap().leaves.len() as u64 - 1
}

#[tokio::test]
async fn whatever_the_wall_clock_shows_evidence_verifies() {
    let rig = Rig::new();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    let mut auditor = Auditor::new(&rig).await;
    for set in [-86_400, -600, 600, 86_400, 1_000_000, -2_000_000] {
        let before = rig.attest().await;
        rig.set_wall(set);
        for client in [&before, &rig.attest().await] {
            auditor.judge_receipt(&rig, client).await;
        }
        // It may mean that the steady count had stopped, so new keys are made, by the module's time.
        let least = rig.service.keys().periods().least().as_secs();
        live(&rig, &mut maintenance, least + 1).await;
        let after = rig.attest().await;
        assert_ne!(before.manifest, after.manifest);
        for client in [&before, &after] {
            auditor.judge_receipt(&rig, client).await;
        }
        auditor.judge_heads(&rig).await;
    }
}

/// The host sets the clock every second, for a day.
#[tokio::test]
async fn a_wall_clock_that_jumps_all_day_makes_few_keys_and_turns_no_client_away() {
    const DAY: u64 = 24 * HOUR;
    const LEAST: u64 = 284;
    for set in [86_400_i64, -86_400] {
        let rig = Rig::new();
        assert_eq!(rig.service.keys().periods().least().as_secs(), LEAST);
        let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
        let mut clients = VecDeque::new();
        let (mut keys, mut jump) = (HashSet::new(), set);
        for second in 0..DAY {
            if second % 60 == 0 {
                clients.push_back(rig.attest().await);
            }
            rig.set_wall(jump);
            // Forth and back in one minute, further and further in the next.
            if second / 60 % 2 == 0 {
                jump = -jump;
            }
            maintenance.round().await;
            rig.advance(1);
            let current = rig.service.keys().current();
            keys.insert(current.receipts.public_key());
            // Keys that a client was given nine minutes ago still take its requests.
            if clients.len() > 9 && second % 600 == 0 {
                let client: &Attested = &clients[0];
                assert!(sealed_is_taken(&rig, client).await, "{second}");
            }
            clients.drain(..clients.len().saturating_sub(9));
        }
        let most = DAY / LEAST + 1;
        assert!(
            (most / 2..=most).contains(&(keys.len() as u64)),
            "{}",
            keys.len()
        );
    }
}

#[tokio::test]
async fn no_log_is_forgotten_early_however_often_the_wall_clock_is_set() {
    for (every, deadline) in [(10, 30), (300, 3600), (3600, 30), (86_400, 3600)] {
        let seconds = Duration::from_secs;
        let periods = Periods::new(seconds(every), seconds(deadline)).unwrap();
        let rig = Rig::with(Options {
            periods,
            ..Options::default()
        });
        let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
        let first = rig.service.keys().current();
        // Replaced at once, it takes requests and shows its log for as long as any other.
        let until = periods.longest() + periods.linger();
        let mut age = Duration::ZERO;
        while age <= until {
            rig.set_wall(3600);
            maintenance.round().await;
            let logs = rig.service.keys().generations(rig.service.now());
            let first = first.receipts.public_key();
            let mut logs = logs.iter().map(|log| log.receipts.public_key());
            assert!(logs.any(|log| log == first), "{every}: {age:?}");
            rig.advance(5);
            age += seconds(5);
        }
    }
}

#[tokio::test]
async fn a_restart_leads_back_to_the_key_problem_and_new_evidence() {
    let mut client = Rig::new().attest().await;
    for _ in 0..3 {
        let rig = Rig::new();
        assert!(!sealed_is_taken(&rig, &client).await);
        client = rig.attest().await;
        assert!(sealed_is_taken(&rig, &client).await);
    }
}
