//! A receipt's claims, compared with its verifier's expectations.

use attestation::{HashScheme, ReceiptKey, RowState, SecurityMode, Verdict};
use proptest::prelude::*;
use protocol::receipt::{
    Expectations, Measurements, Platform, ReceiptClaims, ReceiptSigner, verify,
};

use super::{code, expectations, judge};
use fixtures::receipt::{NOW, claims};
use fixtures::rng;

#[test]
fn a_signed_receipt_is_verified_row_by_row() {
    let signer = ReceiptSigner::generate(&mut rng(1));
    let receipt = signer.sign(&claims());
    let (report, verified) = verify(&receipt, &expectations(&signer), None);
    assert_eq!(report.verdict, Verdict::Signed, "{report:?}");
    assert_eq!(verified.unwrap(), claims());
    let not_passed: Vec<_> = report
        .checks
        .iter()
        .filter(|row| row.state != RowState::Passed)
        .collect();
    // The key was named by hand; all other rows were checked.
    assert_eq!(
        not_passed
            .iter()
            .map(|row| row.name.as_str())
            .collect::<Vec<_>>(),
        ["key-attested"]
    );
    let shown = report.claims.unwrap();
    assert_eq!(shown.sequence_number, 41);
    assert_eq!(
        shown.measurements.pcr4.as_deref(),
        Some("04".repeat(48).as_str())
    );
    assert_eq!(shown.measurements.pcr3, None);
}

#[test]
fn optional_claims_may_be_absent() {
    let signer = ReceiptSigner::generate(&mut rng(2));
    let mut expected = expectations(&signer);
    expected.nonce = None;
    let mut sparse = claims();
    (
        sparse.nonce,
        sparse.model_hash_scheme,
        sparse.measurements.pcr4,
    ) = (None, None, None);
    assert_eq!(
        judge(&signer.sign(&sparse), &expected).verdict,
        Verdict::Signed
    );
    assert_eq!(
        code(&signer.sign(&sparse), &expectations(&signer)),
        "NONCE_MISMATCH"
    );
}

type Change = fn(&mut ReceiptClaims);

#[test]
fn signed_receipts_with_impossible_claims_are_refused() {
    let signer = ReceiptSigner::generate(&mut rng(7));
    let impossible: [(&str, Change); 9] = [
        ("ZERO_MODEL_HASH", |claims| claims.model_hash = [0; 32]),
        ("BAD_TIMESTAMP", |claims| claims.issued_at = 0),
        ("BAD_TIMESTAMP", |claims| claims.issued_at = u64::MAX),
        ("BAD_NONCE_LENGTH", |claims| claims.nonce = Some(vec![1; 7])),
        ("BAD_NONCE_LENGTH", |claims| {
            claims.nonce = Some(vec![1; 65])
        }),
        ("NUMBER_TOO_LARGE", |claims| {
            claims.sequence_number = 1 << 53
        }),
        ("NUMBER_TOO_LARGE", |claims| {
            claims.memory_peak_mb = u64::MAX
        }),
        ("NUMBER_TOO_LARGE", |claims| {
            claims.execution_time_ms = u64::MAX
        }),
        ("UNEXPECTED_MEASUREMENT", |claims| {
            claims.measurements.platform = Platform::TdxMrtdRtmr;
            claims.measurements.pcr8 = Some([8; 48]);
        }),
    ];
    for (expected, change) in impossible {
        let mut claims = claims();
        change(&mut claims);
        assert_eq!(
            code(&signer.sign(&claims), &expectations(&signer)),
            expected
        );
    }
}

#[test]
fn signed_receipts_of_something_else_are_refused() {
    let signer = ReceiptSigner::generate(&mut rng(8));
    let elsewhere: [(&str, Change); 15] = [
        ("PLATFORM_MISMATCH", |claims| {
            claims.measurements.platform = Platform::TdxMrtdRtmr
        }),
        ("ATTESTATION_DOC_MISMATCH", |claims| {
            claims.document_hash[31] ^= 1
        }),
        ("MEASUREMENT_MISMATCH", |claims| {
            claims.measurements.pcr2[0] ^= 1
        }),
        ("MEASUREMENT_MISMATCH", |claims| {
            claims.measurements.pcr8 = Some([1; 48])
        }),
        ("MODEL_HASH_MISMATCH", |claims| claims.model_hash[0] ^= 1),
        ("MODEL_HASH_MISMATCH", |claims| {
            claims.model_hash_scheme = Some(HashScheme::Sha256Single)
        }),
        ("MODEL_ID_MISMATCH", |claims| claims.model_id.push('x')),
        ("MODEL_ID_MISMATCH", |claims| claims.model_version.push('x')),
        ("POLICY_MISMATCH", |claims| claims.policy_version.push('x')),
        ("SECURITY_MODE_MISMATCH", |claims| {
            claims.security_mode = SecurityMode::Evaluation
        }),
        ("REQUEST_HASH_MISMATCH", |claims| {
            claims.request_hash[0] ^= 1
        }),
        ("RESPONSE_HASH_MISMATCH", |claims| {
            claims.response_hash[0] ^= 1
        }),
        ("NONCE_MISMATCH", |claims| claims.nonce = Some(vec![5; 32])),
        ("TIMESTAMP_STALE", |claims| claims.issued_at = NOW - 59),
        ("TIMESTAMP_FUTURE", |claims| claims.issued_at = NOW + 33),
    ];
    for (expected, change) in elsewhere {
        let mut claims = claims();
        change(&mut claims);
        let report = judge(&signer.sign(&claims), &expectations(&signer));
        assert_eq!(report.code.as_deref(), Some(expected));
        assert!(
            report.claims.is_some(),
            "signed and possible claims are shown, for what they are worth"
        );
    }
}

#[test]
fn a_receipt_need_not_state_the_hash_scheme() {
    let signer = ReceiptSigner::generate(&mut rng(8));
    let mut claims = claims();
    claims.model_hash_scheme = None;
    let report = judge(&signer.sign(&claims), &expectations(&signer));
    assert_eq!(report.code, None);
}

#[test]
fn a_row_that_never_ran_is_never_counted_as_passed() {
    let signer = ReceiptSigner::generate(&mut rng(9));
    let report = judge(b"no receipt", &expectations(&signer));
    assert_eq!(report.code.as_deref(), Some("NOT_COSE_SIGN1"));
    let states: Vec<_> = report.checks.iter().map(|row| row.state).collect();
    assert_eq!(states[..2], [RowState::Passed, RowState::Failed]);
    assert!(states[2..].iter().all(|state| *state == RowState::NotRun));
}

proptest! {
    #[test]
    fn any_possible_claims_survive(
        issuer in "\\PC{0,40}",
        model_id in "\\PC{0,40}",
        issued_at in 1u64..253_402_300_799,
        nonce in proptest::option::of(proptest::collection::vec(any::<u8>(), 8..=64)),
        sequence_number in 0u64..1 << 53,
        pcr3 in proptest::option::of(any::<[u8; 32]>()),
        hash in any::<[u8; 32]>(),
    ) {
        prop_assume!(hash != [0; 32]);
        let signer = ReceiptSigner::generate(&mut rng(10));
        let pcr3 = pcr3.map(|half| [&half[..], &half[..16]].concat().try_into().unwrap());
        let base = claims();
        let measurements = Measurements { pcr3, ..base.measurements };
        let claims =
            ReceiptClaims { issuer, model_id, issued_at, nonce, sequence_number, measurements, model_hash: hash, ..base };
        let key = ReceiptKey::dangerous_unattested(signer.public_key());
        let (report, verified) = verify(&signer.sign(&claims), &Expectations::dangerous_unattested(key), None);
        prop_assert_eq!(report.verdict, Verdict::Signed);
        prop_assert_eq!(verified.unwrap(), claims);
    }
}
