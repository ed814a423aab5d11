//! Receipts: the profile's own vectors, every single change refused, and each code exercised.
// A test fails by panicking, and a table of changes reads best with one expression each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned
)]

mod claims;
mod encoding;
mod signature;
mod vectors;

use std::collections::HashSet;

use attestation::{CheckLog, ReceiptKey, RowState, UnixMillis, Verdict};
use fixtures::receipt::{NOW, claims};
use protocol::receipt::{
    Expectations, Platform, ReceiptCheck, ReceiptCode, ReceiptReport, ReceiptSigner, SPECS, Window,
    verify,
};

/// All knowledge of an honest verifier about [`claims`].
fn expectations(signer: &ReceiptSigner) -> Expectations {
    let claims = claims();
    let mut expected =
        Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(signer.public_key()));
    expected.platform = Some(Platform::NitroPcr);
    expected.document_hash = Some(claims.document_hash);
    expected.registers = Some(
        (0..16)
            .map(|index| (index, if index == 4 { [4; 48] } else { [index + 1; 48] }))
            .collect(),
    );
    expected.model_id = Some(claims.model_id);
    expected.model_version = Some(claims.model_version);
    expected.model_hash = Some(claims.model_hash);
    expected.model_hash_scheme = claims.model_hash_scheme;
    expected.policy_version = Some(claims.policy_version);
    expected.security_mode = Some(claims.security_mode);
    expected.request_hash = Some(claims.request_hash);
    expected.response_hash = Some(claims.response_hash);
    expected.nonce = claims.nonce;
    expected.window = Some(Window {
        at: UnixMillis::from_seconds(NOW + 2),
        max_age_seconds: 60,
        clock_skew_seconds: 30,
    });
    expected
}

fn judge(receipt: &[u8], expected: &Expectations) -> ReceiptReport {
    let (report, claims) = verify(receipt, expected, None);
    assert_eq!(claims.is_some(), report.verdict != Verdict::Refused);
    assert_eq!(report.code.is_some(), report.verdict == Verdict::Refused);
    assert_in_run_order(&report);
    report
}

/// Asserts that rows are in the order in which they ran: every row before the failed one has run, and no row after it.
fn assert_in_run_order(report: &ReceiptReport) {
    let failed = (report.checks.iter()).position(|row| row.state == RowState::Failed);
    assert_eq!(failed.is_some(), report.verdict == Verdict::Refused);
    for (index, row) in report.checks.iter().enumerate() {
        let settled = failed.is_none_or(|failed| index <= failed);
        assert_eq!(row.state != RowState::NotRun, settled, "{row:?}");
    }
}

fn code(receipt: &[u8], expected: &Expectations) -> String {
    judge(receipt, expected)
        .code
        .unwrap_or_else(|| "accepted".into())
}

#[test]
fn every_code_has_a_test_and_codes_are_unique() {
    let source = [
        include_str!("claims.rs"),
        include_str!("encoding.rs"),
        include_str!("signature.rs"),
        include_str!("vectors.rs"),
    ]
    .concat();
    let mut seen = HashSet::new();
    for code in ReceiptCode::ALL {
        assert!(seen.insert(code.code()));
        assert!(
            source.contains(&format!("\"{}\"", code.code())),
            "{} has no test",
            code.code()
        );
        assert!(code.remedy().ends_with('.'));
    }
}

#[test]
fn rows_count_from_one_and_are_named_once() {
    let mut names = HashSet::new();
    for (index, spec) in SPECS.iter().enumerate() {
        assert_eq!(usize::from(spec.id), index + 1);
        assert!(names.insert(spec.name));
    }
    assert_eq!(CheckLog::<ReceiptCheck>::new().rows().len(), 23);
}
