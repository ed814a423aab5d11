//! Times: the appraised moment, ages, clock differences, and the earliest end.

use crate::common;
use attestation::{ErrorCode, Freshness, Observed, RowState, UnixMillis, Verdict};
use base64ct::{Base64, Encoding as _};
use fixtures::{Fixture, NOW, assert_in_run_order, row};

#[test]
fn a_chain_judged_at_another_moment_is_refused() {
    let (error, rows) = common::judged_at_another_moment();
    assert_eq!(error.code(), ErrorCode::JudgedTimeMismatch);
    let moments = Observed::JudgedTimes {
        chain: NOW,
        freshness: UnixMillis(NOW.0 + 1),
    };
    assert_eq!(error.observed(), &moments);
    assert_eq!(row(&rows, 17).state, RowState::Failed);
    assert_in_run_order(&rows, "judged at another moment");
}

#[test]
fn keys_end_with_the_leaf_where_the_manifest_lives_longer() {
    let mut fixture = Fixture::new();
    fixture.manifest.not_after = NOW.seconds() + 1_000_000;
    let (_, verified) = fixture.judge();
    assert_eq!(
        verified.unwrap().valid_until(),
        UnixMillis::from_seconds(NOW.seconds() + 3 * 3600)
    );
}

/// A proof ends with the first of the things that it rests on.
#[test]
fn keys_end_with_the_earliest_end() {
    const HOUR: u64 = 3600;
    let second = |hours: u64| NOW.seconds() + hours * HOUR;
    let at = |hours: u64| UnixMillis::from_seconds(second(hours)).to_string();
    // Hours until the end of manifest, certificates (root to leaf), release, policy.
    for (manifest, chain, release, policy) in [
        (1, [9, 9, 9, 9, 9], 9, 9),
        (9, [1, 9, 9, 9, 9], 9, 9),
        (9, [9, 1, 9, 9, 9], 9, 9),
        (9, [9, 9, 1, 9, 9], 9, 9),
        (9, [9, 9, 9, 1, 9], 9, 9),
        (9, [9, 9, 9, 9, 1], 9, 9),
        (9, [9, 9, 9, 9, 9], 1, 9),
        (9, [9, 9, 9, 9, 9], 9, 1),
    ] {
        let mut fixture = Fixture::new();
        fixture.manifest.not_after = second(manifest);
        fixture.edit_policy(|json| {
            json["releases"][0]["not_after"] = at(release).into();
            json["not_after"] = at(policy).into();
        });
        let mut root = String::new();
        let document = fixture.forged(|forgery| {
            for (link, hours) in forgery.links.iter_mut().zip(chain) {
                link.spec.not_after = forge::der::time(second(hours));
            }
            root = Base64::encode_string(&forgery.certificates()[0]);
        });
        // A root with another end is another root.
        fixture.edit_policy(|json| json["root"] = serde_json::json!({ "development": root }));
        let bytes = fixture.manifest.encode().unwrap();
        let (report, concluded) = fixture.verify(&document, &bytes);
        let enclave = concluded
            .including_simulated()
            .unwrap_or_else(|| panic!("{:?}", report.message));
        assert_eq!(enclave.valid_until(), UnixMillis::from_seconds(second(1)));
    }
}

/// The document's time is the enclave's. An error of a client's clock appears in the offset, and cancels out.
#[test]
fn the_document_gives_the_clock_offset() {
    for fast in [-60_i64, -1, 0, 1, 61, 180, 299, 300] {
        let mut fixture = Fixture::new();
        fixture.now = UnixMillis(NOW.0.strict_add_signed(fast * 1000));
        fixture.manifest.not_before = NOW.seconds() - 600;
        // Certificates have no tolerance: a clock that is behind refuses an enclave that started in this second.
        let document = fixture.forged(|forgery| {
            for link in &mut forgery.links[1..] {
                link.spec.not_before = forge::der::time(NOW.seconds() - 600);
            }
        });
        let bytes = fixture.manifest.encode().unwrap();
        let (report, concluded) = fixture.verify(&document, &bytes);
        let offset = concluded
            .including_simulated()
            .unwrap_or_else(|| panic!("{fast} s: {:?}", report.message))
            .clock_offset();
        assert_eq!(offset.to_enclave(fixture.now), NOW, "{fast} s");
        assert_eq!(offset.to_local(NOW), fixture.now, "{fast} s");
    }
    // Appraised later, a document does not reveal a clock's error.
    let fixture = Fixture::new();
    let (document, manifest) = (fixture.document(), fixture.manifest.encode().unwrap());
    let later = UnixMillis(NOW.0 + 60_000);
    let (_, concluded) =
        fixture.verify_as_of(Freshness::Audit { time: later }, &document, &manifest);
    let audited = concluded.including_simulated().unwrap();
    assert_eq!(audited.clock_offset().to_enclave(later), later);
}

#[test]
fn an_audit_without_a_nonce_skips_freshness_and_names_its_moment() {
    let fixture = Fixture::new();
    let (document, manifest) = (fixture.document(), fixture.manifest.encode().unwrap());
    let later = UnixMillis(NOW.0 + 1_800_000);
    let (report, verified) =
        fixture.verify_as_of(Freshness::Audit { time: later }, &document, &manifest);
    assert_eq!(report.verdict, Verdict::Simulated, "{:?}", report.message);
    assert_eq!(row(&report.checks, 24).state, RowState::Skipped);
    assert!(
        row(&report.checks, 17)
            .observed
            .contains(&later.to_string())
    );
    let audited = verified.including_simulated().unwrap();
    assert_eq!(audited.judged_at(), later);
}

#[test]
fn a_document_has_to_be_young_at_the_judged_moment_whether_or_not_its_nonce_is_known() {
    let fixture = Fixture::new();
    let (document, manifest) = (fixture.document(), fixture.manifest.encode().unwrap());
    let nonce = fixture.contents.nonce.clone();
    for nonce in [None, nonce.as_deref()] {
        for (age, code) in [(300_000, None), (300_001, Some("DOCUMENT_STALE"))] {
            let time = UnixMillis(NOW.0 + age);
            let (report, _) =
                fixture.verify_as_of(Freshness::At { time, nonce }, &document, &manifest);
            assert_eq!(report.code.as_deref(), code, "{age}");
        }
    }
}

#[test]
fn ages_and_skews_are_accepted_up_to_their_very_end() {
    let mut fixture = Fixture::new();
    for (offset, code) in [
        (300_000, None),
        (300_001, Some("DOCUMENT_STALE")),
        (-60_000, None),
        (-60_001, Some("DOCUMENT_FROM_FUTURE")),
    ] {
        fixture.now = UnixMillis(NOW.0.checked_add_signed(offset).unwrap());
        // The leaf starts when the document is made; it needs a margin, so that only freshness is tested.
        let document = fixture
            .forged(|f| f.links[4].spec.not_before = forge::der::time(f.timestamp / 1000 - 120));
        let manifest = fixture.manifest.encode().unwrap();
        let (report, _) = fixture.verify(&document, &manifest);
        assert_eq!(report.code.as_deref(), code, "{offset}");
    }
}
