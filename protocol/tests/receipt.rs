//! Receipts: the profile's own vectors, every single change refused, and each code exercised.
// A test fails by panicking, and a table of changes reads best with one expression each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned
)]

mod common;

use std::collections::HashSet;

use attestation::cbor::Writer;
use attestation::{HashScheme, Ladder, ReceiptKey, RowState, SecurityMode, UnixMillis, Verdict};
use common::{hex, rng, vectors};
use ed25519_dalek::{Signer, SigningKey};
use proptest::prelude::*;
use protocol::receipt::{
    Expectations, Layer, MAX_RECEIPT, Measurements, Platform, ReceiptClaims, ReceiptCode,
    ReceiptReport, ReceiptSigner, SPECS, Window, verify,
};
use serde_json::Value;

const NOW: u64 = 1_795_183_380;

fn claims() -> ReceiptClaims {
    ReceiptClaims {
        issuer: "clearseal".into(),
        issued_at: NOW,
        id: [9; 16],
        nonce: Some(vec![4; 32]),
        model_id: "all-MiniLM-L6-v2".into(),
        model_version: "1".into(),
        model_hash: [5; 32],
        model_hash_scheme: Some(HashScheme::Sha256Manifest),
        request_hash: [6; 32],
        response_hash: [7; 32],
        document_hash: [8; 32],
        measurements: Measurements {
            platform: Platform::NitroPcr,
            pcr0: [1; 48],
            pcr1: [2; 48],
            pcr2: [3; 48],
            pcr3: None,
            pcr4: Some([4; 48]),
            pcr8: None,
        },
        policy_version: "2026-11-01".into(),
        sequence_number: 41,
        execution_time_ms: 7,
        memory_peak_mb: 300,
        security_mode: SecurityMode::Production,
    }
}

/// Everything that an honest verifier would know about [`claims`].
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
    report
}

fn code(receipt: &[u8], expected: &Expectations) -> String {
    judge(receipt, expected)
        .code
        .unwrap_or_else(|| "accepted".into())
}

#[test]
fn what_was_signed_is_verified_row_by_row() {
    let signer = ReceiptSigner::generate(&mut rng(1));
    let receipt = signer.sign(&claims());
    let (report, verified) = verify(&receipt, &expectations(&signer), None);
    assert_eq!(report.verdict, Verdict::Verified, "{report:?}");
    assert_eq!(verified.unwrap(), claims());
    let not_passed: Vec<_> = report
        .checks
        .iter()
        .filter(|row| row.state != RowState::Passed)
        .collect();
    // The key was named by hand here; everything else was asked.
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
        Verdict::Verified
    );
    assert_eq!(
        code(&signer.sign(&sparse), &expectations(&signer)),
        "NONCE_MISMATCH"
    );
}

#[test]
fn every_flipped_bit_is_refused_before_the_claims_are_believed() {
    let signer = ReceiptSigner::generate(&mut rng(3));
    let receipt = signer.sign(&claims());
    let expected = expectations(&signer);
    for at in 0..receipt.len() * 8 {
        let mut changed = receipt.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let report = judge(&changed, &expected);
        assert_eq!(report.verdict, Verdict::Refused, "bit {at}");
        let layer = ReceiptCode::ALL
            .iter()
            .find(|code| Some(code.as_str()) == report.code.as_deref())
            .unwrap()
            .layer();
        assert!(
            layer <= Layer::Signature,
            "bit {at} got as far as {layer:?}"
        );
        assert!(report.claims.is_none());
    }
}

#[test]
fn every_truncation_and_every_appended_byte_is_refused() {
    let signer = ReceiptSigner::generate(&mut rng(4));
    let receipt = signer.sign(&claims());
    let expected = expectations(&signer);
    for length in 0..receipt.len() {
        assert_eq!(
            judge(&receipt[..length], &expected).verdict,
            Verdict::Refused
        );
    }
    for byte in 0..=u8::MAX {
        let longer = [&receipt[..], &[byte]].concat();
        assert_eq!(code(&longer, &expected), "TRAILING_BYTES");
    }
    assert_eq!(
        code(&vec![0; MAX_RECEIPT + 1], &expected),
        "RECEIPT_TOO_LARGE"
    );
}

#[test]
fn a_signature_of_another_form_is_refused() {
    let signer = ReceiptSigner::generate(&mut rng(5));
    let receipt = signer.sign(&claims());
    // S + L verifies under the same equation; RFC 8032 §5.1.7 demands S < L.
    let order = base16ct::lower::decode_vec(
        b"edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
    )
    .unwrap();
    let mut malleated = receipt.clone();
    let start = receipt.len() - 32;
    let mut carry = 0u16;
    for (byte, add) in malleated[start..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    assert_eq!(code(&malleated, &expectations(&signer)), "SIG_FAILED");
}

#[test]
fn keys_of_small_order_are_no_keys() {
    let signer = ReceiptSigner::generate(&mut rng(6));
    let receipt = signer.sign(&claims());
    let mut identity = [0; 32];
    identity[0] = 1;
    for key in [[0; 32], identity, [0xff; 32]] {
        let expected = Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
        assert_eq!(code(&receipt, &expected), "BAD_KEY");
    }
}

type Change = fn(&mut ReceiptClaims);

#[test]
fn receipts_that_cannot_be_are_refused_although_they_are_signed() {
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
fn receipts_of_something_else_are_refused_although_they_are_signed() {
    let signer = ReceiptSigner::generate(&mut rng(8));
    let elsewhere: [(&str, Change); 14] = [
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
fn a_row_that_never_ran_is_never_counted_as_passed() {
    let signer = ReceiptSigner::generate(&mut rng(9));
    let report = judge(b"no receipt", &expectations(&signer));
    assert_eq!(report.code.as_deref(), Some("NOT_COSE_SIGN1"));
    let states: Vec<_> = report.checks.iter().map(|row| row.state).collect();
    assert_eq!(states[..2], [RowState::Passed, RowState::Failed]);
    assert!(states[2..].iter().all(|state| *state == RowState::NotRun));
}

/// A receipt put together by hand, so that it can break what the signer keeps. Signed properly.
struct Forge {
    key: SigningKey,
    protected: Vec<u8>,
    claims: Vec<(i64, Vec<u8>)>,
}

fn item(write: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.finish()
}

fn registers(change: impl FnOnce(&mut Vec<(&'static str, Vec<u8>)>)) -> Vec<u8> {
    let mut entries: Vec<(&str, Vec<u8>)> = ["pcr0", "pcr1", "pcr2"]
        .map(|name| (name, item(|writer| writer.bytes(&[1; 48]))))
        .into();
    entries.push(("measurement_type", item(|writer| writer.text("nitro-pcr"))));
    change(&mut entries);
    item(|writer| {
        writer.map(entries.len() as u64);
        for (name, value) in entries {
            writer.text(name).raw(&value);
        }
        writer
    })
}

impl Forge {
    fn new() -> Self {
        let text = |value: &str| item(|writer| writer.text(value));
        let bytes = |value: &[u8]| item(|writer| writer.bytes(value));
        let uint = |value: u64| item(|writer| writer.uint(value));
        let claims = vec![
            (1, text("issuer")),
            (6, uint(NOW)),
            (7, bytes(&[1; 16])),
            (265, text("https://spec.cyntrisec.com/air/v1")),
            (-65_537, text("model")),
            (-65_538, text("1")),
            (-65_539, bytes(&[1; 32])),
            (-65_540, bytes(&[2; 32])),
            (-65_541, bytes(&[3; 32])),
            (-65_542, bytes(&[4; 32])),
            (-65_543, registers(|_| ())),
            (-65_544, text("policy")),
            (-65_545, uint(1)),
            (-65_546, uint(2)),
            (-65_547, uint(3)),
            (-65_548, text("production")),
        ];
        let protected = item(|writer| writer.map(2).int(1).int(-8).int(3).uint(61));
        Self {
            key: SigningKey::from_bytes(&[7; 32]),
            protected,
            claims,
        }
    }

    fn set(mut self, claim: i64, value: Vec<u8>) -> Self {
        self.claims.retain(|(name, _)| *name != claim);
        self.claims.push((claim, value));
        self
    }

    fn payload(&self) -> Vec<u8> {
        let mut claims: Vec<_> = self
            .claims
            .iter()
            .map(|(name, value)| (item(|w| w.int(*name)), value))
            .collect();
        claims.sort();
        item(|writer| {
            writer.map(claims.len() as u64);
            for (name, value) in claims {
                writer.raw(&name).raw(value);
            }
            writer
        })
    }

    fn code(&self) -> String {
        self.code_of(&self.payload())
    }

    fn code_of(&self, payload: &[u8]) -> String {
        let signed = item(|w| {
            w.array(4)
                .text("Signature1")
                .bytes(&self.protected)
                .bytes(b"")
                .bytes(payload)
        });
        let signature = self.key.sign(&signed).to_bytes();
        self.judge(&item(|w| {
            w.tag(18)
                .array(4)
                .bytes(&self.protected)
                .map(0)
                .bytes(payload)
                .bytes(&signature)
        }))
    }

    fn judge(&self, receipt: &[u8]) -> String {
        let key = ReceiptKey::dangerous_unattested(self.key.verifying_key().to_bytes());
        code(receipt, &Expectations::dangerous_unattested(key))
    }
}

#[test]
fn each_code_of_the_first_and_third_layer_is_given_by_a_receipt_that_nothing_else_is_wrong_with() {
    let text = |value: &str| item(|writer| writer.text(value));
    let bytes = |value: &[u8]| item(|writer| writer.bytes(value));
    let header = |write: fn(&mut Writer) -> &mut Writer| {
        Forge {
            protected: item(write),
            ..Forge::new()
        }
        .code()
    };
    assert_eq!(Forge::new().code(), "accepted");

    assert_eq!(
        header(|w| w.map(2).int(1).int(-7).int(3).uint(61)),
        "BAD_ALG"
    );
    assert_eq!(
        header(|w| w.map(2).int(1).text("EdDSA").int(3).uint(61)),
        "BAD_ALG"
    );
    assert_eq!(header(|w| w.map(1).int(3).uint(61)), "BAD_ALG");
    assert_eq!(
        header(|w| w.map(2).int(1).int(-8).int(3).uint(60)),
        "BAD_CONTENT_TYPE"
    );
    assert_eq!(header(|w| w.map(1).int(1).int(-8)), "BAD_CONTENT_TYPE");
    assert_eq!(
        header(|w| w.map(3).int(1).int(-8).int(3).uint(61).int(4).bytes(b"kid")),
        "BAD_HEADERS"
    );
    assert_eq!(
        header(|w| w.map(2).int(3).uint(61).int(1).int(-8)),
        "NOT_DETERMINISTIC"
    );

    let set = |claim: i64, value: Vec<u8>| Forge::new().set(claim, value).code();
    assert_eq!(set(2, text("sub")), "UNKNOWN_CLAIM");
    assert_eq!(set(-65_550, text("new")), "UNKNOWN_CLAIM");
    assert_eq!(set(1, bytes(b"issuer")), "BAD_CLAIM_TYPE");
    assert_eq!(set(6, text("now")), "BAD_CLAIM_TYPE");
    assert_eq!(
        set(265, text("https://spec.cyntrisec.com/air/v2")),
        "BAD_PROFILE"
    );
    assert_eq!(set(7, bytes(&[1; 15])), "BAD_CTI_LENGTH");
    for claim in [-65_539, -65_540, -65_541, -65_542] {
        assert_eq!(set(claim, bytes(&[1; 31])), "BAD_HASH_LENGTH");
        assert_eq!(set(claim, bytes(&[1; 33])), "BAD_HASH_LENGTH");
    }
    assert_eq!(set(-65_548, text("Production")), "UNKNOWN_SECURITY_MODE");
    assert_eq!(set(-65_549, text("sha256")), "UNKNOWN_HASH_SCHEME");
    for length in [0, 32, 47, 49, 64] {
        assert_eq!(
            set(
                -65_543,
                registers(|entries| entries[1].1 = item(|w| w.bytes(&vec![1; length])))
            ),
            "BAD_MEASUREMENT_LENGTH"
        );
    }
    assert_eq!(
        set(
            -65_543,
            registers(|entries| entries[3].1 = item(|w| w.text("sgx")))
        ),
        "UNKNOWN_MEASUREMENT_TYPE"
    );
    assert_eq!(
        set(-65_543, registers(|entries| drop(entries.remove(0)))),
        "MISSING_CLAIM"
    );
    assert_eq!(
        set(-65_543, registers(|entries| drop(entries.remove(3)))),
        "MISSING_CLAIM"
    );
    assert_eq!(
        set(
            -65_543,
            registers(|entries| entries.insert(3, ("pcr5", item(|w| w.bytes(&[1; 48])))))
        ),
        "UNKNOWN_CLAIM"
    );
    for absent in 0..16 {
        let mut forge = Forge::new();
        forge.claims.remove(absent);
        assert_eq!(forge.code(), "MISSING_CLAIM");
    }
}

#[test]
fn encodings_that_are_not_the_one_encoding_are_refused() {
    let forge = Forge::new();
    let payload = forge.payload();
    // The same map, with its length in two bytes; with an indefinite length; with its last claim twice.
    let count = payload[0] & 0x1f;
    assert_eq!(
        forge.code_of(&[&[0xb8, count][..], &payload[1..]].concat()),
        "NOT_DETERMINISTIC"
    );
    assert_eq!(
        forge.code_of(&[&[0xbf][..], &payload[1..], &[0xff]].concat()),
        "NOT_DETERMINISTIC"
    );
    let last = [item(|w| w.int(-65_548)), item(|w| w.text("production"))].concat();
    assert_eq!(
        forge.code_of(&[&[payload[0] + 1][..], &payload[1..], &last].concat()),
        "NOT_DETERMINISTIC"
    );
    assert_eq!(
        forge.code_of(&[&payload[..], &[0]].concat()),
        "TRAILING_BYTES"
    );
    assert_eq!(forge.code_of(&[]), "BAD_CBOR");

    let part = |write: fn(&mut Writer) -> &mut Writer| item(write);
    assert_eq!(forge.judge(&part(|w| w.array(4))), "NOT_COSE_SIGN1");
    assert_eq!(forge.judge(&part(|w| w.tag(98).array(4))), "NOT_COSE_SIGN1");
    assert_eq!(
        forge.judge(&part(|w| w.tag(18).array(3).bytes(b"").map(0).bytes(b""))),
        "BAD_CBOR"
    );
    let open = part(|w| {
        w.tag(18)
            .array(4)
            .bytes(b"")
            .map(1)
            .int(1)
            .int(-8)
            .bytes(b"")
            .bytes(&[0; 64])
    });
    assert_eq!(forge.judge(&open), "BAD_HEADERS");
    let short = part(|w| {
        w.tag(18)
            .array(4)
            .bytes(b"")
            .map(0)
            .bytes(b"")
            .bytes(&[0; 63])
    });
    assert_eq!(forge.judge(&short), "BAD_SIGNATURE_LENGTH");
}

#[test]
fn every_code_has_a_test_above_and_codes_are_unique() {
    let source = include_str!("receipt.rs");
    let mut seen = HashSet::new();
    for code in ReceiptCode::ALL {
        assert!(seen.insert(code.as_str()));
        assert!(
            source.contains(&format!("\"{}\"", code.as_str())),
            "{} has no test",
            code.as_str()
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
    assert_eq!(Ladder::new(SPECS).rows().len(), 23);
}

#[test]
fn the_profiles_own_vectors() {
    let mut judged = 0;
    for name in [
        "v1-nitro-no-nonce",
        "v1-nonce-mismatch",
        "v1-stale-iat",
        "v1-wrong-alg",
        "v1-zero-model-hash",
    ] {
        let Some(vector) = vectors(&format!("air-v1/{name}.json")) else {
            return;
        };
        judge_vector(&vector);
        judged += 1;
    }
    assert_eq!(judged, 5);
}

fn judge_vector(vector: &Value) {
    let key = hex(&vector["public_key_hex"]).try_into().unwrap();
    let mut expected = Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(key));
    let policy = &vector["verify_policy"];
    if !policy["expected_nonce_hex"].is_null() {
        expected.nonce = Some(hex(&policy["expected_nonce_hex"]));
    }
    if let Some(max_age_seconds) = policy["max_age_secs"].as_u64() {
        let at = UnixMillis::from_seconds(NOW);
        expected.window = Some(Window {
            at,
            max_age_seconds,
            clock_skew_seconds: 0,
        });
    }
    let receipt = hex(&vector["receipt_hex"]);
    let (report, claims) = verify(&receipt, &expected, None);
    let failure = &vector["expected_failure"];
    assert_eq!(
        report.code.as_deref(),
        failure["code"].as_str(),
        "{}",
        vector["name"]
    );
    match failure["layer"].as_u64() {
        Some(layer) => {
            let code = ReceiptCode::ALL
                .iter()
                .find(|code| Some(code.as_str()) == failure["code"].as_str())
                .unwrap();
            assert_eq!(code.layer() as u64, layer);
        }
        None => {
            // The golden vector: the same claims under the same key sign to the same bytes.
            assert_eq!(report.verdict, Verdict::Verified);
            let seed: [u8; 32] = hex(&vector["signing_key_seed_hex"]).try_into().unwrap();
            let signer = ReceiptSigner::generate(&mut common::Script::new(&seed));
            assert_eq!(signer.sign(&claims.unwrap()), receipt);
        }
    }
}

#[test]
fn wycheproof_ed25519_signatures_are_judged_as_strictly_as_receipts_are() {
    let Some(vectors) = vectors("wycheproof/ed25519_test.json") else {
        return;
    };
    let mut valid = 0;
    for group in vectors["testGroups"].as_array().unwrap() {
        let key = ed25519_dalek::VerifyingKey::from_bytes(
            &hex(&group["publicKey"]["pk"]).try_into().unwrap(),
        )
        .unwrap();
        for test in group["tests"].as_array().unwrap() {
            let accepted = ed25519_dalek::Signature::from_slice(&hex(&test["sig"]))
                .is_ok_and(|signature| key.verify_strict(&hex(&test["msg"]), &signature).is_ok());
            assert_eq!(accepted, test["result"] == "valid", "{}", test["tcId"]);
            valid += usize::from(accepted);
        }
    }
    assert_eq!(valid, 88);
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
        prop_assert_eq!(report.verdict, Verdict::Verified);
        prop_assert_eq!(verified.unwrap(), claims);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let signer = ReceiptSigner::generate(&mut rng(11));
        prop_assert_eq!(judge(&bytes, &expectations(&signer)).verdict, Verdict::Refused);
    }
}
