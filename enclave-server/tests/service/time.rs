//! Faults that appear only over time: one simulated clock drives server, client and auditor through days.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Attested, Options, Rig, code, hello};
use attestation::{Policy, SignatureMemory, Verdict};
use axum::http::StatusCode;
use enclave_server::keys::{KeyError, Periods};
use enclave_server::maintenance::Maintenance;
use enclave_server::nsm::{AttestRequest, Nsm, NsmError, Pcr};
use getrandom::SysRng;
use protocol::bundle::AuditBundle;
use protocol::exchange;
use rand_core::UnwrapErr;

const HOUR: u64 = 3600;

/// Verifies heads and receipts like an auditor much later: each as of its stated time.
struct Auditor {
    policy: Policy,
    heads: u32,
    receipts: u32,
}

impl Auditor {
    /// An auditor whose policy allows no clock skew.
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

    /// Verifies the head of every log that the service lists.
    async fn audit_heads(&mut self, rig: &Rig) {
        for log in rig.logs().await {
            let leaves = rig.leaves(&log, 0).await;
            let (report, key) = protocol::log::attest(&leaves.head, &[], &self.policy, None);
            assert_eq!(report.verdict, Verdict::Simulated, "{:?}", report.code);
            assert_eq!(key.unwrap().key().bytes(), &log);
            self.heads += 1;
        }
    }

    /// Sends one request, and verifies its bundle.
    async fn audit_receipt(&mut self, rig: &Rig, attested: &Attested) {
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

/// Advances the clock by `seconds`, and runs maintenance in between.
async fn run_for(rig: &Rig, maintenance: &mut Maintenance, seconds: u64) {
    let mut left = seconds;
    while left > 0 {
        let wait = maintenance.round().await.as_secs().clamp(1, left);
        rig.advance(wait);
        left -= wait;
    }
}

#[tokio::test]
async fn heads_and_receipts_of_several_days_verify() {
    let rig = Rig::new();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    let mut auditor = Auditor::new(&rig).await;
    let mut client = rig.attest().await;
    // Every few minutes, not aligned with rotations (an hour), overlaps (10 minutes) and leaf certificates (3 hours).
    for round in 0..270_u64 {
        run_for(&rig, &mut maintenance, 480 + (round * 37) % 131).await;
        if rig.now() > client.verified.valid_until() || round % 5 == 0 {
            client = rig.attest().await;
        }
        assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
        auditor.audit_heads(&rig).await;
        if accepts_sealed(&rig, &client).await {
            auditor.audit_receipt(&rig, &client).await;
        }
    }
    assert!(rig.now().seconds() - crate::common::START > 36 * HOUR);
    assert!(
        auditor.heads > 270 && auditor.receipts > 230,
        "{}",
        auditor.receipts
    );
}

/// Whether the enclave still accepts requests under this attestation. Where it does not, checks the code.
async fn accepts_sealed(rig: &Rig, client: &Attested) -> bool {
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

/// Each second around the end of the overlap, of the manifest, and of the leaf certificate.
#[tokio::test]
async fn heads_and_receipts_in_the_last_seconds_verify_or_are_not_made() {
    let rig = Rig::new();
    let mut auditor = Auditor::new(&rig).await;
    let client = rig.attest().await;
    rig.advance(HOUR);
    rig.service.rotate().unwrap();
    rig.advance(540);
    for _ in 0..180 {
        rig.advance(1);
        auditor.audit_heads(&rig).await;
        if rig.now() <= client.verified.valid_until() && accepts_sealed(&rig, &client).await {
            auditor.audit_receipt(&rig, &client).await;
        }
    }
    assert_eq!(auditor.receipts, 60, "until the last second of the overlap");
    // Two logs until the last second of the old manifest, then one.
    assert_eq!(auditor.heads, 120 * 2 + 60);
}

#[tokio::test]
async fn a_document_is_not_used_beyond_its_certificates() {
    let rig = Rig::new();
    let mut auditor = Auditor::new(&rig).await;
    // A document made now is valid for at least half an hour; heads continue beyond that.
    rig.advance(2 * HOUR + 29 * 60);
    rig.service.rotate().unwrap();
    let client = rig.attest().await;
    for _ in 0..40 {
        auditor.audit_heads(&rig).await;
        if rig.now() <= client.verified.valid_until() && accepts_sealed(&rig, &client).await {
            auditor.audit_receipt(&rig, &client).await;
        }
        rig.advance(60);
    }
    assert!(
        (28..=31).contains(&auditor.receipts),
        "{}",
        auditor.receipts
    );
}

/// A module that fails a given number of times.
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
async fn a_failed_rotation_is_retried_within_seconds() {
    let (rig, failures) = failing();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    let old = rig.attest().await;
    run_for(&rig, &mut maintenance, HOUR - 1).await;
    failures.store(3, Ordering::SeqCst);
    // Retries follow after 1, 2 and 4 seconds; the fourth attempt succeeds.
    run_for(&rig, &mut maintenance, 10).await;
    let new = rig.attest().await;
    assert_ne!(old.manifest, new.manifest);
    assert!(accepts_sealed(&rig, &old).await && accepts_sealed(&rig, &new).await);
}

#[tokio::test]
async fn readiness_means_that_keys_are_valid() {
    let (rig, failures) = failing();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    failures.store(u32::MAX, Ordering::SeqCst);
    // The overlap covers this time.
    run_for(&rig, &mut maintenance, HOUR + 600).await;
    assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
    run_for(&rig, &mut maintenance, 20).await;
    for path in ["/readyz", "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAA"] {
        let (status, problem) = rig.get(path).await;
        assert_eq!(
            (status, code(&problem).as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, "KEYS_EXPIRED"),
            "{path}"
        );
    }
    failures.store(0, Ordering::SeqCst);
    run_for(&rig, &mut maintenance, 20).await;
    assert_eq!(rig.get("/readyz").await.0, StatusCode::OK);
    let fresh = rig.attest().await;
    assert!(accepts_sealed(&rig, &fresh).await);
}

#[tokio::test]
async fn the_last_receipts_can_be_fetched_even_with_frequent_rotations() {
    for every in [10, 25, 90, 600, 5000, 86_400] {
        let periods = Periods::new(Duration::from_secs(every), Duration::from_secs(30)).unwrap();
        let rig = Rig::with(Options {
            periods,
            ..Options::default()
        });
        let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
        let mut auditor = Auditor::new(&rig).await;
        run_for(&rig, &mut maintenance, every - 1).await;
        let client = rig.attest().await;
        let log = *client.verified.receipt_key().bytes();
        // Until the last second in which the keys accept requests.
        run_for(&rig, &mut maintenance, 1 + every.min(600)).await;
        auditor.audit_receipt(&rig, &client).await;
        // A host that asks every half minute finds it twice.
        for _ in 0..2 {
            run_for(&rig, &mut maintenance, 29).await;
            let logs = rig.logs().await;
            assert!(logs.contains(&log) && logs.len() <= 16, "{every}");
            auditor.audit_heads(&rig).await;
        }
    }
}

#[test]
fn rotations_that_would_drop_valid_keys_are_refused_at_start() {
    let seconds = Duration::from_secs;
    assert!(Periods::new(seconds(10), seconds(30)).is_ok());
    assert!(Periods::new(seconds(300), seconds(3600)).is_ok());
    let Err(error) = Periods::new(seconds(10), seconds(3600)) else {
        panic!("accepted")
    };
    assert!(matches!(error, KeyError::TooManyGenerations { .. }));
    assert_eq!(error.code(), "ROTATION_TOO_OFTEN");
    let text = format!("{error} {}", error.remedy());
    for part in ["--rotate-every", "--deadline"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn setting_the_wall_clock_admits_no_replay_and_uses_no_memory() {
    let rig = Rig::new();
    let client = rig.attest().await;
    let (sealed, _) =
        exchange::begin(&client.verified, hello(), rig.now(), &mut UnwrapErr(SysRng)).unwrap();
    assert_eq!(rig.post(sealed.clone()).await.0, StatusCode::OK);
    // Forward past the date's end, where the entry could be removed, and back.
    for set in [3600, -3600, -86_400, 86_400, 7200, -7200] {
        rig.set_wall(set);
        rig.service.remove_expired();
        assert_eq!(rig.service.replay_entries(), 1, "{set}");
        let answer = rig.post(sealed.clone()).await;
        assert_eq!(
            answer.0,
            StatusCode::OK,
            "a sealed answer without a receipt"
        );
        assert_eq!(receipts(&rig).await, 1);
    }
    // An expired entry is removed even if the wall clock is set.
    rig.set_wall(-86_400);
    rig.advance(311);
    rig.service.remove_expired();
    assert_eq!(rig.service.replay_entries(), 0);
    rig.set_wall(86_400);
    rig.post(sealed).await;
    assert_eq!((receipts(&rig).await, rig.service.replay_entries()), (1, 0));
}

/// Number of receipts of the newest key; its first leaf is the key itself.
async fn receipts(rig: &Rig) -> u64 {
    rig.leaves(&rig.logs().await[0], 0).await.leaves.len() as u64 - 1
}

#[tokio::test]
async fn evidence_verifies_for_any_wall_clock() {
    let rig = Rig::new();
    let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
    let mut auditor = Auditor::new(&rig).await;
    for set in [-86_400, -600, 600, 86_400, 1_000_000, -2_000_000] {
        let before = rig.attest().await;
        rig.set_wall(set);
        for client in [&before, &rig.attest().await] {
            auditor.audit_receipt(&rig, client).await;
        }
        // A jump may mean that the steady count had stopped, so new keys are made with the module's time.
        let least = rig.service.keys().periods().least().as_secs();
        run_for(&rig, &mut maintenance, least + 1).await;
        let after = rig.attest().await;
        assert_ne!(before.manifest, after.manifest);
        for client in [&before, &after] {
            auditor.audit_receipt(&rig, client).await;
        }
        auditor.audit_heads(&rig).await;
    }
}

/// The host sets the clock every second, for a day.
#[tokio::test]
async fn a_wall_clock_that_jumps_all_day_makes_few_keys_and_refuses_no_client() {
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
            // Back and forth in one minute, further each time in the next.
            if second / 60 % 2 == 0 {
                jump = -jump;
            }
            maintenance.round().await;
            rig.advance(1);
            let current = rig.service.keys().current();
            keys.insert(current.receipts.public_key());
            // The keys of an attestation nine minutes ago still accept requests.
            if clients.len() > 9 && second % 600 == 0 {
                let client: &Attested = &clients[0];
                assert!(accepts_sealed(&rig, client).await, "{second}");
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
async fn no_log_is_dropped_early_even_if_the_wall_clock_is_set_often() {
    for (every, deadline) in [(10, 30), (300, 3600), (3600, 30), (86_400, 3600)] {
        let seconds = Duration::from_secs;
        let periods = Periods::new(seconds(every), seconds(deadline)).unwrap();
        let rig = Rig::with(Options {
            periods,
            ..Options::default()
        });
        let mut maintenance = Maintenance::new(Arc::clone(&rig.service));
        let first = rig.service.keys().current();
        // Although replaced at once, it accepts requests and serves its log for as long as any other.
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
        assert!(!accepts_sealed(&rig, &client).await);
        client = rig.attest().await;
        assert!(accepts_sealed(&rig, &client).await);
    }
}
