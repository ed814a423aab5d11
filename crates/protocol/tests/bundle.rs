//! Audit bundles of exchanges with a simulated enclave: verified, changed byte by byte, and recombined.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use attestation::{Policy, SignatureMemory, Verdict};
use fixtures::enclave::{Enclave, NOW};
use fixtures::rng;
use merkle::json::{Format, Inclusion, SignedHead};
use merkle::tree::{Frontier, keys_hash, receipt_hash};
use merkle::verify::Tree;
use protocol::bundle::{AuditBundle, BundleError, BundleReport};
use protocol::receipt::{Layer, ReceiptCode, ReceiptSigner};

#[test]
fn a_bundle_is_judged_as_one_chain_at_the_receipts_time() {
    let mut enclave = Enclave::start(12);
    let answer = enclave.exchange();
    for with_content in [false, true] {
        let json = enclave.bundle(&answer, with_content).to_json().unwrap();
        let report = enclave.judge(&json).unwrap();
        assert_eq!(
            report.attestation.verdict,
            Verdict::Simulated,
            "{:?}",
            report.attestation.code
        );
        assert_eq!(
            report.receipt.verdict,
            Verdict::Simulated,
            "{:?}",
            report.receipt.code
        );
        assert_eq!(report.receipt.judged_at_ms, NOW.0);
        assert_eq!(report.attestation.judged_at_ms, NOW.0);
        let row = report
            .receipt
            .checks
            .iter()
            .find(|row| row.name == "response")
            .unwrap();
        assert_eq!(row.state == attestation::RowState::Passed, with_content);
    }
}

#[test]
fn a_receipt_that_cannot_be_read_is_refused_as_one() {
    let mut enclave = Enclave::start(12);
    let answer = enclave.exchange();
    for change in [
        (|receipt: &mut Vec<u8>| receipt.truncate(40)) as fn(&mut Vec<u8>),
        |receipt| receipt.push(0),
        Vec::clear,
    ] {
        let mut bundle = enclave.bundle(&answer, true);
        change(&mut bundle.receipt);
        let report = bundle.verify(&enclave.policy, || None, &mut SignatureMemory::new());
        assert_eq!(report.attestation.verdict, Verdict::Simulated);
        let code = report.receipt.code.unwrap();
        let known = ReceiptCode::ALL.iter().find(|known| known.code() == code);
        assert_eq!(known.unwrap().layer(), Layer::Parse, "{code}");
    }
}

#[test]
fn a_bundle_without_the_users_consent_holds_neither_text_nor_salt() {
    let mut enclave = Enclave::start(13);
    let answer = enclave.exchange();
    let json = enclave.bundle(&answer, false).to_json().unwrap();
    assert!(!json.contains("request") && !json.contains("response"));
}

#[test]
fn a_bundle_with_the_salt_alone_allows_comparing_but_not_reading_a_text() {
    let mut enclave = Enclave::start(17);
    let answer = enclave.exchange();
    let with_salt = enclave.bundle(&answer, false);
    let with_salt = with_salt.with_salt_of(&answer.inner_request).unwrap();
    let json = with_salt.to_json().unwrap();
    assert!(!json.contains("request") && !json.contains("response"));
    let read = AuditBundle::from_json(&json).unwrap();
    assert_eq!(read.salt, with_salt.salt);
    let salt = read.salt.unwrap();
    let report = read.verify(&enclave.policy, || None, &mut SignatureMemory::new());
    assert_eq!(report.receipt.verdict, Verdict::Simulated);
    let committed = protocol::commitment::response_hash(&salt, &answer.response.content);
    let claims = report.receipt.claims.unwrap();
    assert_eq!(
        claims.response_hash,
        base16ct::lower::encode_string(&committed)
    );

    assert!(
        enclave
            .bundle(&answer, false)
            .with_salt_of(b"no request")
            .is_none()
    );
    // Next to the content it would be a second, unchecked copy of the request's salt.
    let full = enclave.bundle(&answer, true).to_json().unwrap();
    let salt = json.lines().find(|line| line.contains("\"salt\"")).unwrap();
    let both = full.replacen('{', &format!("{{{salt},"), 1);
    assert_eq!(enclave.judge(&both).err(), Some(BundleError::Malformed));
    let short = json.replace("\"salt\": \"", "\"salt\": \"AA");
    assert!(enclave.judge(&short).is_err());
}

#[test]
fn a_bundle_with_the_content_of_another_exchange_is_refused() {
    let mut enclave = Enclave::start(14);
    let (first, second) = (enclave.exchange(), enclave.exchange());
    let mut bundle = enclave.bundle(&first, true);
    bundle.content.as_mut().unwrap().request = second.inner_request.clone();
    let report = enclave.judge(&bundle.to_json().unwrap()).unwrap();
    assert_eq!(
        report.receipt.code.as_deref(),
        Some("REQUEST_HASH_MISMATCH")
    );

    let mut bundle = enclave.bundle(&first, true);
    bundle.content.as_mut().unwrap().response.push(b' ');
    let report = enclave.judge(&bundle.to_json().unwrap()).unwrap();
    assert_eq!(
        report.receipt.code.as_deref(),
        Some("RESPONSE_HASH_MISMATCH")
    );
}

#[test]
fn a_receipt_with_the_evidence_of_another_enclave_is_refused() {
    let (mut here, there) = (Enclave::start(15), Enclave::start(16));
    let answer = here.exchange();
    let mut bundle = here.bundle(&answer, false);
    bundle.manifest = there.manifest.clone();
    let report = here.judge(&bundle.to_json().unwrap()).unwrap();
    assert_eq!(report.attestation.verdict, Verdict::Refused);
    assert_eq!(report.receipt.code, report.attestation.code);
    // Evidence that is valid in itself, but not what the receipt rests on.
    bundle.document = there.document.clone();
    let report = AuditBundle::from_json(&bundle.to_json().unwrap())
        .unwrap()
        .verify(&there.policy, || None, &mut SignatureMemory::new());
    assert_eq!(report.attestation.verdict, Verdict::Simulated);
    assert_eq!(report.receipt.code.as_deref(), Some("SIG_FAILED"));
}

type Part = fn(&mut AuditBundle) -> &mut Vec<u8>;

/// The layer that must refuse a bundle after a change of one byte in `part`.
fn right_layer(part: &str, report: &BundleReport) -> bool {
    let attested = report.attestation.verdict != Verdict::Refused;
    let code = report.receipt.code.as_deref().unwrap_or("accepted");
    let layer = ReceiptCode::ALL
        .iter()
        .find(|known| known.code() == code)
        .map(|code| code.layer());
    match part {
        // Its time may move outside the certificates' validity; otherwise it is refused.
        "receipt" => !attested || layer.is_some_and(|layer| layer <= Layer::Signature),
        // The unsigned parts are covered by its hash.
        "document" => !attested || code == "ATTESTATION_DOC_MISMATCH",
        "manifest" => !attested,
        "request" => attested && code == "REQUEST_HASH_MISMATCH",
        "response" => attested && code == "RESPONSE_HASH_MISMATCH",
        _ => false,
    }
}

#[test]
fn every_changed_byte_of_a_bundles_parts_is_refused_by_the_right_layer() {
    let mut enclave = Enclave::start(17);
    let answer = enclave.exchange();
    let bundle = || enclave.bundle(&answer, true);
    let parts: [(&str, Part); 5] = [
        ("receipt", |bundle| &mut bundle.receipt),
        ("document", |bundle| &mut bundle.document),
        ("manifest", |bundle| &mut bundle.manifest),
        ("request", |bundle| {
            &mut bundle.content.as_mut().unwrap().request
        }),
        ("response", |bundle| {
            &mut bundle.content.as_mut().unwrap().response
        }),
    ];
    let all: Vec<_> = parts
        .into_iter()
        .flat_map(|(name, part)| {
            let length = part(&mut bundle()).len();
            (0..length).map(move |at| (name, part, at))
        })
        .collect();
    // An appraisal costs a P-384 signature, and one more for each changed certificate.
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for share in all.chunks(all.len().div_ceil(workers)) {
            let (policy, bundle) = (&enclave.policy, &bundle);
            scope.spawn(move || {
                let mut memory = SignatureMemory::new();
                for &(name, part, at) in share {
                    let mut bundle = bundle();
                    part(&mut bundle)[at] ^= 1 << (at % 8);
                    let report = bundle.verify(policy, || None, &mut memory);
                    assert_eq!(
                        report.receipt.verdict,
                        Verdict::Refused,
                        "{name}, byte {at}"
                    );
                    assert!(
                        right_layer(name, &report),
                        "{name}, byte {at}: {:?}, {:?}",
                        report.attestation.code,
                        report.receipt.code
                    );
                }
            });
        }
    });
}

#[test]
fn every_changed_character_of_a_bundles_json_is_detected() {
    let mut enclave = Enclave::start(22);
    let answer = enclave.exchange();
    let good = enclave.bundle(&answer, true).to_json().unwrap();
    let parts = |bundle: &AuditBundle| {
        let content = bundle.content.as_ref().unwrap();
        [
            &bundle.receipt,
            &bundle.document,
            &bundle.manifest,
            &content.request,
            &content.response,
        ]
        .map(Clone::clone)
    };
    let original = parts(&AuditBundle::from_json(&good).unwrap());
    for at in 0..good.len() {
        for other in [b'A', b'"', b' '] {
            let mut changed = good.clone().into_bytes();
            let blank = changed[at].is_ascii_whitespace() && other == b' ';
            if changed[at] == other || blank {
                continue;
            }
            changed[at] = other;
            let changed = String::from_utf8(changed).unwrap();
            if let Ok(bundle) = AuditBundle::from_json(&changed) {
                // Then the decoder read other bytes, and those are checked.
                assert_ne!(parts(&bundle), original, "character {at}");
            }
        }
    }
}

#[test]
fn bundles_conform_to_their_schema() {
    let schema = include_str!("../../../docs/bundle.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let mut enclave = Enclave::start(23);
    let answer = enclave.exchange();
    let members = |full: bool| {
        let bundle = enclave.bundle(&answer, full);
        let crls = if full { vec![0x30, 0] } else { Vec::new() };
        let json = bundle.with_crls(crls).to_json().unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        json.as_object().unwrap().clone()
    };
    let names = |map: &serde_json::Map<String, serde_json::Value>| {
        map.keys()
            .cloned()
            .collect::<std::collections::BTreeSet<_>>()
    };
    let full = members(true);
    assert_eq!(
        names(&full),
        &names(schema["properties"].as_object().unwrap()) - &["salt".to_owned()].into()
    );
    let required: std::collections::BTreeSet<_> = schema["required"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names(&members(false)), required);
    assert_eq!(schema["additionalProperties"], false);
    for (name, value) in &full {
        let rule = &schema["properties"][name];
        if name == "format" {
            assert_eq!(value, &rule["const"]);
            continue;
        }
        assert_eq!(rule["$ref"], "#/$defs/bytes");
        // The pattern of the schema, by hand.
        let text = value.as_str().unwrap();
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
    }
    // Request without response, and the reverse, are refused, as `dependentRequired` specifies.
    for (present, absent) in [("request", "response"), ("response", "request")] {
        assert_eq!(schema["dependentRequired"][present][0], absent);
        let mut half = full.clone();
        half.remove(absent);
        let json = serde_json::Value::from(half).to_string();
        assert_eq!(enclave.judge(&json).err(), Some(BundleError::Malformed));
    }
}

#[test]
fn a_bundle_is_found_in_the_log_of_its_enclave() {
    let mut enclave = Enclave::start(20);
    let (sealed, pending) = enclave.begin();
    let answer = enclave.answer(&sealed, |claims, _| claims.sequence_number = 1);
    let answer = pending.finish(&answer, NOW).unwrap();
    let bundle = enclave.bundle(&answer, true);
    let keys = keys_hash(&enclave.manifest);
    let mut frontier = Frontier::new();
    frontier.append(&keys, |_, _| ());
    let first = frontier.root();
    frontier.append(&receipt_hash(&bundle.receipt), |_, _| ());
    let tree = Tree {
        size: 2,
        root: frontier.root(),
    };
    let document = receipt_hash(&bundle.document);
    let inclusion = Inclusion {
        format: Format::new(),
        index: 1,
        path: vec![first],
        head: enclave.signer.sign_head(tree, NOW.seconds() + 1, document),
    };
    // Signatures remembered from an earlier call change no answer.
    let mut memory = SignatureMemory::new();
    let (report, log) =
        bundle.verify_logged(&enclave.policy, &inclusion, None, || None, &mut memory);
    assert_eq!(report.receipt.verdict, Verdict::Simulated);
    // The log's verdict is at most the attestation's.
    assert_eq!(log.verdict, Verdict::Simulated, "{log:?}");

    let stranger = ReceiptSigner::generate(&mut rng(99));
    let forged = Inclusion {
        format: Format::new(),
        head: stranger.sign_head(tree, NOW.seconds() + 1, document),
        ..inclusion.clone()
    };
    let (_, log) = bundle.verify_logged(&enclave.policy, &forged, None, || None, &mut memory);
    assert_eq!(log.code.as_deref(), Some("HEAD_OTHER_LOG"));

    let mut changed = bundle;
    changed.receipt[20] ^= 1;
    let (_, log) = changed.verify_logged(&enclave.policy, &inclusion, None, || None, &mut memory);
    assert_eq!(log.code.as_deref(), Some("RECEIPT_REFUSED"));

    // The key from the evidence that came with the head, without any receipt.
    let head = SignedHead {
        format: Format::new(),
        head: inclusion.head.clone(),
        document: enclave.document.clone(),
        manifest: enclave.manifest.clone(),
    };
    let (report, found) = protocol::log::attest(&head, &[], &enclave.policy, None);
    assert_eq!(report.verdict, Verdict::Simulated);
    assert_eq!(found.unwrap().key().bytes(), &enclave.signer.public_key());
    // Signed by the log's key, over another document than the one that came with it.
    let other = SignedHead {
        head: enclave.signer.sign_head(tree, NOW.seconds() + 1, [8; 32]),
        ..head
    };
    let (report, found) = protocol::log::attest(&other, &[], &enclave.policy, None);
    assert_eq!(report.verdict, Verdict::Refused);
    assert_eq!(report.code.as_deref(), Some("HEAD_EVIDENCE_MISMATCH"));
    assert!(found.is_none());
}

#[test]
fn json_escapes_are_equivalent_and_null_is_absent() {
    let mut enclave = Enclave::start(24);
    let answer = enclave.exchange();
    let bare = enclave.bundle(&answer, false).to_json().unwrap();
    let escaped = bare.replacen("audit-bundle/1", r"audit-bundle\/1", 1);
    assert_ne!(escaped, bare);
    let report = enclave.judge(&escaped).unwrap();
    assert_eq!(report.receipt.code, None);
    // The schema demands strings.
    for name in ["request", "response", "salt"] {
        let json = bare.replacen('{', &format!("{{\"{name}\": null,"), 1);
        assert_eq!(enclave.judge(&json).err(), Some(BundleError::Malformed));
    }
    let both = bare.replacen('{', "{\"request\": null, \"response\": null,", 1);
    assert_eq!(enclave.judge(&both).err(), Some(BundleError::Malformed));
}

#[test]
fn json_of_another_format_is_refused() {
    let mut enclave = Enclave::start(18);
    let answer = enclave.exchange();
    let good = enclave.bundle(&answer, true).to_json().unwrap();
    let malformed = [
        String::new(),
        "{}".into(),
        "[]".into(),
        good.replace("bundle/1", "bundle/2"),
        good.replace("\"receipt\"", "\"extra\": 1, \"receipt\""),
        good.replace("\"request\"", "\"requests\""),
        format!("{good} x"),
    ];
    for json in malformed {
        assert_eq!(
            enclave.judge(&json).err(),
            Some(BundleError::Malformed),
            "{json}"
        );
    }
    let padded = good.replacen("\",\n  \"document\"", "==\",\n  \"document\"", 1);
    assert_eq!(
        enclave.judge(&padded).err(),
        Some(BundleError::Encoding("receipt"))
    );
    let long = format!(
        "{{\"format\":\"{}\"}}",
        "x".repeat(protocol::bundle::MAX_BUNDLE)
    );
    assert_eq!(
        enclave.judge(&long).err(),
        Some(BundleError::TooLarge("size"))
    );
}

#[test]
fn a_policy_of_the_server_never_leads_to_verified() {
    let mut enclave = Enclave::start(19);
    let answer = enclave.exchange();
    let bundle = enclave.bundle(&answer, false);
    let json: &'static str = enclave.policy.to_json().leak();
    for policy in [
        Policy::built_in(json),
        Policy::chosen_by_hand(json.as_bytes()),
        Policy::with_evidence(json.as_bytes()),
    ] {
        let policy = policy.unwrap();
        assert_eq!(
            bundle
                .verify(&policy, || None, &mut SignatureMemory::new())
                .receipt
                .verdict,
            Verdict::Simulated
        );
    }
}
