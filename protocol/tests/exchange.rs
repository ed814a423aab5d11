//! A whole exchange against a simulated enclave: sealed, answered, receipted, bundled, and attacked.
// A test fails by panicking, and a table of changes reads best with one expression each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned
)]

mod common;

use std::collections::BTreeMap;

use attestation::{
    Freshness, HashScheme, ModelIdentity, Policy, PolicySource, Question, SecurityMode,
    ServiceManifest, SignatureMemory, TrustAnchor, UnixMillis, Verdict, VerifiedAttestation,
    manifest_binding,
};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};
use common::rng;
use merkle::exchange::{Format, Inclusion, SignedHead};
use merkle::tree::{Frontier, receipt_hash};
use merkle::verify::Tree;
use protocol::bundle::{AuditBundle, BundleContent, BundleError, BundleReport};
use protocol::commitment::{request_hash, response_hash};
use protocol::exchange::{Answer, ExchangeError, PendingExchange, PreparedExchange, begin};
use protocol::inner::{InnerRequest, InnerResponse, unpadded_len};
use protocol::ohttp::{GatewayKeys, SealError};
use protocol::receipt::{Layer, Measurements, Platform, ReceiptClaims, ReceiptCode, ReceiptSigner};
use protocol::terms::{self, Terms};
use rand_chacha::ChaCha20Rng;

const NOW: UnixMillis = UnixMillis(1_795_183_380_000);
const NONCE: [u8; 32] = [0x77; 32];

/// What a gateway does, in a few lines; the real one adds admission, replay protection and a model.
struct Enclave {
    gateway: GatewayKeys,
    signer: ReceiptSigner,
    manifest: Vec<u8>,
    document: Vec<u8>,
    policy: Policy,
    pcrs: BTreeMap<u8, [u8; 48]>,
    rng: ChaCha20Rng,
}

impl Enclave {
    fn start(seed: u64) -> Self {
        let mut rng = rng(seed);
        let gateway = GatewayKeys::generate(1, &mut rng);
        let signer = ReceiptSigner::generate(&mut rng);
        let manifest = ServiceManifest {
            version: 1,
            sealing_keys: gateway.configs(),
            receipt_key: signer.public_key(),
            model: ModelIdentity {
                id: "all-MiniLM-L6-v2".into(),
                version: "1".into(),
                sha256: [5; 32],
                hash_scheme: HashScheme::Sha256Manifest,
                dimension: 384,
                max_tokens: 256,
            },
            policy_version: "2026-11-01".into(),
            security_mode: SecurityMode::Evaluation,
            not_before: NOW.seconds() - 60,
            not_after: NOW.seconds() + 3_600,
        };
        let x25519 = manifest.x25519_key().unwrap().to_vec();
        let bytes = manifest.encode().unwrap();
        let root = forge::DevelopmentRoot::generate(&mut rng, NOW.0);
        let mut issuer = forge::Issuer::new(root, &mut rng, NOW.0);
        let contents = forge::Contents {
            public_key: Some(x25519),
            user_data: Some(manifest_binding(&bytes).to_vec()),
            nonce: Some(NONCE.to_vec()),
            ..forge::Contents::example()
        };
        let document = issuer.document(&contents, NOW.0, &mut rng);
        let pinned = contents
            .pcrs
            .iter()
            .filter(|(index, _)| **index < 3)
            .map(|(index, value)| (*index, *value))
            .collect();
        let root = TrustAnchor::development(issuer.root_der()).unwrap();
        let policy = Policy::for_development(root, pinned, &manifest).unwrap();
        Self {
            gateway,
            signer,
            manifest: bytes,
            document,
            policy,
            pcrs: contents.pcrs,
            rng,
        }
    }

    fn attested(&self) -> VerifiedAttestation {
        let (report, verified) = attestation::verify(Question {
            document: &self.document,
            manifest: Some(&self.manifest),
            policy: &self.policy,
            freshness: Freshness::Live {
                nonce: &NONCE,
                now: NOW,
            },
            stopwatch: None,
        });
        verified.unwrap_or_else(|| panic!("{report:?}"))
    }

    fn begin(&mut self) -> (Vec<u8>, PendingExchange) {
        let attested = self.attested();
        begin(&attested, request(), NOW, &mut self.rng).unwrap()
    }

    /// Opens, answers, signs, seals. `change` sees claims and response before they are signed and sealed.
    fn answer(
        &mut self,
        sealed: &[u8],
        change: impl FnOnce(&mut ReceiptClaims, &mut InnerResponse),
    ) -> Vec<u8> {
        let (opened, sealer) = self.gateway.open(sealed).unwrap();
        let request = InnerRequest::decode(&opened.inner).unwrap();
        let terms = Terms::read(&request).unwrap();
        let mut response = InnerResponse {
            status: 200,
            headers: vec![("content-type".into(), "application/json".into())],
            content: b"{\"data\":[]}".to_vec(),
        };
        let unpadded = &opened.inner[..unpadded_len(&opened.inner).unwrap()];
        let mut claims = ReceiptClaims {
            issuer: "clearseal".into(),
            issued_at: terms.date.seconds(),
            id: [1; 16],
            nonce: Some(terms.nonce.clone()),
            model_id: "all-MiniLM-L6-v2".into(),
            model_version: "1".into(),
            model_hash: [5; 32],
            model_hash_scheme: Some(HashScheme::Sha256Manifest),
            request_hash: request_hash(unpadded),
            response_hash: response_hash(&terms.salt, &response.content),
            document_hash: terms.document,
            measurements: Measurements {
                platform: Platform::NitroPcr,
                pcr0: self.pcrs[&0],
                pcr1: self.pcrs[&1],
                pcr2: self.pcrs[&2],
                pcr3: None,
                pcr4: Some(self.pcrs[&4]),
                pcr8: None,
            },
            policy_version: "2026-11-01".into(),
            sequence_number: 1,
            execution_time_ms: 5,
            memory_peak_mb: 300,
            security_mode: SecurityMode::Evaluation,
        };
        change(&mut claims, &mut response);
        let receipt = Base64UrlUnpadded::encode_string(&self.signer.sign(&claims));
        if response.header(terms::RECEIPT).is_none() {
            response.headers.push((terms::RECEIPT.into(), receipt));
        }
        response.headers.retain(|(_, value)| value != "absent");
        sealer
            .seal(&response.encode_padded().unwrap(), &mut self.rng)
            .unwrap()
    }

    fn exchange(&mut self) -> Answer {
        let (sealed, pending) = self.begin();
        let answer = self.answer(&sealed, |_, _| ());
        pending.finish(&answer, NOW).unwrap()
    }

    fn bundle(&self, answer: &Answer, with_content: bool) -> AuditBundle {
        let content = with_content.then(|| BundleContent {
            request: answer.inner_request.clone(),
            response: answer.response.content.clone(),
        });
        let (receipt, document, manifest) = (
            answer.receipt.clone(),
            self.document.clone(),
            self.manifest.clone(),
        );
        AuditBundle {
            receipt,
            document,
            manifest,
            content,
        }
    }

    fn judge(&self, json: &str) -> Result<BundleReport, BundleError> {
        Ok(AuditBundle::from_json(json)?.verify(&self.policy, || None))
    }
}

fn request() -> InnerRequest {
    InnerRequest {
        method: "POST".into(),
        path: "/v1/embeddings".into(),
        headers: vec![("content-type".into(), "application/json".into())],
        content: b"{\"input\":\"three short words\"}".to_vec(),
    }
}

fn refusal<T>(result: Result<T, ExchangeError>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => {
            assert!(!error.remedy().is_empty());
            error.code().to_owned()
        }
    }
}

#[test]
fn an_exchange_ends_with_an_answer_and_its_verified_receipt() {
    let mut enclave = Enclave::start(1);
    let answer = enclave.exchange();
    assert_eq!(answer.response.content, b"{\"data\":[]}");
    // A development root can prove nothing: the receipt under it is simulated, never verified.
    assert_eq!(answer.receipt_report.verdict, Verdict::Simulated);
    let states: Vec<_> = answer
        .receipt_report
        .checks
        .iter()
        .map(|row| row.state)
        .collect();
    assert!(
        states
            .iter()
            .all(|state| *state == attestation::RowState::Passed),
        "{states:?}"
    );
}

#[test]
fn sealed_to_x_wing_and_no_word_of_the_text_is_in_the_bytes() {
    let mut enclave = Enclave::start(2);
    let (sealed, pending) = enclave.begin();
    assert_eq!(sealed[1..3], 0x647a_u16.to_be_bytes());
    let answer = enclave.answer(&sealed, |_, _| ());
    for bytes in [&sealed, &answer] {
        for word in ["three", "short", "words", "embeddings", "data", "clearseal"] {
            assert!(
                !bytes
                    .windows(word.len())
                    .any(|window| window == word.as_bytes())
            );
        }
    }
    pending.finish(&answer, NOW).unwrap();
}

#[test]
fn two_requests_of_the_same_text_have_nothing_in_common() {
    let mut enclave = Enclave::start(3);
    let (first, second) = (enclave.exchange(), enclave.exchange());
    let [first, second] = [first, second].map(|answer| answer.receipt_report.claims.unwrap());
    assert_ne!(first.request_hash, second.request_hash);
    assert_ne!(first.response_hash, second.response_hash);
    assert_ne!(first.nonce, second.nonce);
}

#[test]
fn guessing_a_three_word_text_from_its_receipt_fails_without_the_salt() {
    let mut enclave = Enclave::start(4);
    let answer = enclave.exchange();
    let claims = answer.receipt_report.claims.clone().unwrap();
    let hex = |hash: [u8; 32]| hex(&hash);
    // The attacker knows everything but the salt: the text by luck, the nonce from the receipt, the date, the document.
    let truth = InnerRequest::decode(&answer.inner_request).unwrap();
    let salt = Terms::read(&truth).unwrap().salt;
    assert_ne!(hex(request_hash(&truth.content)), claims.request_hash);
    assert_ne!(
        hex(request_hash(&answer.response.content)),
        claims.response_hash
    );
    for wrong in [[0; 32], [0xff; 32]] {
        let mut guess = truth.clone();
        guess
            .headers
            .iter_mut()
            .find(|(name, _)| name == terms::SALT)
            .unwrap()
            .1 = Base64UrlUnpadded::encode_string(&wrong);
        let bytes = guess.encode_padded().unwrap();
        assert_ne!(
            hex(request_hash(&bytes[..unpadded_len(&bytes).unwrap()])),
            claims.request_hash
        );
        assert_ne!(
            hex(response_hash(&wrong, &answer.response.content)),
            claims.response_hash
        );
    }
    // With the salt, whoever was given it opens both.
    assert_eq!(
        hex(request_hash(&answer.inner_request)),
        claims.request_hash
    );
    assert_eq!(
        hex(response_hash(&salt, &answer.response.content)),
        claims.response_hash
    );
}

/// Twenty words: eight thousand texts of three, the right one among them.
const WORDS: [&str; 20] = [
    "the", "patient", "has", "no", "cancer", "we", "will", "sell", "buy", "all", "shares", "today",
    "her", "name", "is", "fire", "him", "now", "three", "words",
];

/// The request that a guesser would commit to: everything of the true one, but this text and this salt.
fn guessed(truth: &InnerRequest, text: &str, salt: Option<&str>) -> String {
    let mut guess = truth.clone();
    guess.content = format!("{{\"input\":\"{text}\"}}").into_bytes();
    match salt {
        Some(salt) => {
            let field = guess
                .headers
                .iter_mut()
                .find(|(name, _)| name == terms::SALT);
            salt.clone_into(&mut field.unwrap().1);
        }
        None => guess.headers.retain(|(name, _)| name != terms::SALT),
    }
    let bytes = guess.encode_padded().unwrap();
    hex(&request_hash(&bytes[..unpadded_len(&bytes).unwrap()]))
}

#[test]
fn a_dictionary_finds_the_text_with_the_salt_and_never_without() {
    let mut enclave = Enclave::start(21);
    let attested = enclave.attested();
    let mut request = request();
    request.content = br#"{"input":"three words now"}"#.to_vec();
    let (sealed, pending) = begin(&attested, request, NOW, &mut enclave.rng).unwrap();
    let answer = enclave.answer(&sealed, |_, _| ());
    let answer = pending.finish(&answer, NOW).unwrap();
    let committed = answer.receipt_report.claims.unwrap().request_hash;
    // The guesser has the receipt, and by luck everything else of the request: date, nonce, document, fields.
    let truth = InnerRequest::decode(&answer.inner_request).unwrap();
    let salt = truth.header(terms::SALT).unwrap();
    let zeros = Base64UrlUnpadded::encode_string(&[0; 32]);
    let nonce = truth.header(terms::NONCE).unwrap().to_owned();
    let mut found = Vec::new();
    for (a, b, c) in WORDS
        .iter()
        .flat_map(|a| WORDS.iter().map(move |b| (a, b)))
        .flat_map(|(a, b)| WORDS.iter().map(move |c| (a, b, c)))
    {
        let text = format!("{a} {b} {c}");
        for wrong in [None, Some(zeros.as_str()), Some(nonce.as_str())] {
            assert_ne!(guessed(&truth, &text, wrong), committed, "{text}");
        }
        if guessed(&truth, &text, Some(salt)) == committed {
            found.push(text);
        }
    }
    assert_eq!(found, ["three words now"], "who holds the salt can open it");
}

type Change = fn(&mut ReceiptClaims, &mut InnerResponse);

#[test]
fn an_answer_with_a_receipt_of_something_else_is_refused() {
    let mut enclave = Enclave::start(5);
    let attacks: [(&str, Change); 11] = [
        ("RESPONSE_HASH_MISMATCH", |_, response| {
            response.content.push(b' ')
        }),
        ("REQUEST_HASH_MISMATCH", |claims, _| {
            claims.request_hash = [0; 32]
        }),
        ("NONCE_MISMATCH", |claims, _| claims.nonce = None),
        ("ATTESTATION_DOC_MISMATCH", |claims, _| {
            claims.document_hash = [0; 32]
        }),
        ("MODEL_HASH_MISMATCH", |claims, _| {
            claims.model_hash = [6; 32]
        }),
        ("MEASUREMENT_MISMATCH", |claims, _| {
            claims.measurements.pcr0 = [0; 48]
        }),
        ("POLICY_MISMATCH", |claims, _| {
            claims.policy_version = "another".into()
        }),
        ("SECURITY_MODE_MISMATCH", |claims, _| {
            claims.security_mode = SecurityMode::Production
        }),
        ("TIMESTAMP_STALE", |claims, _| claims.issued_at -= 61),
        ("TIMESTAMP_FUTURE", |claims, _| claims.issued_at += 61),
        ("RECEIPT_MISSING", |_, response| {
            response
                .headers
                .push((terms::RECEIPT.into(), "not base64url!".into()))
        }),
    ];
    for (code, change) in attacks {
        let (sealed, pending) = enclave.begin();
        let answer = enclave.answer(&sealed, change);
        assert_eq!(refusal(pending.finish(&answer, NOW)), code);
    }
}

#[test]
fn a_receipt_under_a_key_that_was_not_attested_is_refused() {
    let mut enclave = Enclave::start(6);
    let (sealed, pending) = enclave.begin();
    enclave.signer = ReceiptSigner::generate(&mut rng(60));
    let answer = enclave.answer(&sealed, |_, _| ());
    assert_eq!(refusal(pending.finish(&answer, NOW)), "SIG_FAILED");
}

#[test]
fn the_receipt_of_another_request_is_refused() {
    let mut enclave = Enclave::start(7);
    let earlier = Base64UrlUnpadded::encode_string(&enclave.exchange().receipt);
    let (sealed, pending) = enclave.begin();
    let answer = enclave.answer(&sealed, |_, response| {
        response.headers.push((terms::RECEIPT.into(), earlier))
    });
    assert_eq!(
        refusal(pending.finish(&answer, NOW)),
        "REQUEST_HASH_MISMATCH"
    );
}

#[test]
fn an_answer_without_a_receipt_is_refused_unless_the_enclave_declines() {
    let mut enclave = Enclave::start(8);
    let (sealed, pending) = enclave.begin();
    let answer = enclave.answer(&sealed, |_, response| {
        response
            .headers
            .push((terms::RECEIPT.into(), "absent".into()))
    });
    assert_eq!(refusal(pending.finish(&answer, NOW)), "RECEIPT_MISSING");

    for (body, code) in [
        (
            "{\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"DOCUMENT_UNKNOWN\"}}",
            "DOCUMENT_UNKNOWN",
        ),
        ("{\"error\":{\"code\":\"<script>\"}}", "DECLINED"),
        ("{\"error\":{\"code\":null}}", "DECLINED"),
        ("not json", "DECLINED"),
    ] {
        let (sealed, pending) = enclave.begin();
        let answer = enclave.answer(&sealed, |_, response| {
            response.status = 400;
            response.content = body.into();
            response
                .headers
                .push((terms::RECEIPT.into(), "absent".into()));
        });
        assert_eq!(refusal(pending.finish(&answer, NOW)), code);
    }
}

#[test]
fn what_is_not_sealed_by_this_gateway_is_no_answer() {
    let mut enclave = Enclave::start(9);
    for forged in [&b""[..], b"{\"data\":[]}", &[0; 200]] {
        let (_, pending) = enclave.begin();
        let code = refusal(pending.finish(forged, NOW));
        assert!(
            code == "SEAL_OPEN_FAILED" || code == "SEAL_TRUNCATED",
            "{code}"
        );
    }
    let (first, _) = enclave.begin();
    let (_, second) = enclave.begin();
    let answer = enclave.answer(&first, |_, _| ());
    assert_eq!(
        refusal(second.finish(&answer, NOW)),
        SealError::OpenFailed.code()
    );
}

#[test]
fn nothing_is_sealed_after_the_evidence_has_expired() {
    let mut enclave = Enclave::start(10);
    let attested = enclave.attested();
    let UnixMillis(end) = attested.valid_until();
    assert!(begin(&attested, request(), UnixMillis(end), &mut enclave.rng).is_ok());
    assert_eq!(
        refusal(begin(
            &attested,
            request(),
            UnixMillis(end + 1),
            &mut enclave.rng
        )),
        "ATTESTATION_EXPIRED"
    );
}

#[test]
fn an_exchange_may_be_prepared_long_before_its_request() {
    let mut enclave = Enclave::start(11);
    let attested = enclave.attested();
    let prepared = PreparedExchange::new(&attested, &mut enclave.rng).unwrap();
    // The gateway below answers at NOW, so the key was made before that.
    let (sealed, pending) = prepared.begin(request(), NOW).unwrap();
    let answer = enclave.answer(&sealed, |_, _| {});
    assert!(pending.finish(&answer, NOW).is_ok());

    let UnixMillis(end) = attested.valid_until();
    let prepared = PreparedExchange::new(&attested, &mut enclave.rng).unwrap();
    let late = prepared.begin(request(), UnixMillis(end + 1));
    assert_eq!(refusal(late), "ATTESTATION_EXPIRED");
}

#[test]
fn what_is_prepared_in_a_row_has_nothing_in_common() {
    let mut enclave = Enclave::start(12);
    let attested = enclave.attested();
    let mut prepare = || PreparedExchange::new(&attested, &mut enclave.rng).unwrap();
    let (one, two) = (prepare(), prepare());
    let (one, _) = one.begin(request(), NOW).unwrap();
    let (two, _) = two.begin(request(), NOW).unwrap();
    // Header of 7 bytes, then the encapsulated key.
    assert_eq!(one[..7], two[..7]);
    let [one, two] = [one, two].map(|sealed| enclave.gateway.open(&sealed).unwrap().0);
    assert_ne!(one.enc, two.enc);
    let [one, two] = [one, two].map(|opened| {
        let request = InnerRequest::decode(&opened.inner).unwrap();
        Terms::read(&request).unwrap()
    });
    assert_ne!(one.nonce, two.nonce);
    assert_ne!(one.salt, two.salt);
}

#[test]
fn the_protocols_own_fields_cannot_be_brought_along() {
    let mut enclave = Enclave::start(11);
    let attested = enclave.attested();
    for name in [
        terms::DATE,
        terms::NONCE,
        terms::SALT,
        terms::DOCUMENT,
        terms::RECEIPT,
    ] {
        let mut request = request();
        request.headers.push((name.into(), "x".into()));
        assert_eq!(
            refusal(begin(&attested, request, NOW, &mut enclave.rng)),
            "TERMS_MALFORMED"
        );
    }
}

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
fn a_bundle_without_the_users_choice_shows_neither_text_nor_salt() {
    let mut enclave = Enclave::start(13);
    let answer = enclave.exchange();
    let json = enclave.bundle(&answer, false).to_json().unwrap();
    assert!(!json.contains("request") && !json.contains("response"));
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
    // Evidence that is sound in itself, but not what the receipt rests on.
    bundle.document = there.document.clone();
    let report = AuditBundle::from_json(&bundle.to_json().unwrap())
        .unwrap()
        .verify(&there.policy, || None);
    assert_eq!(report.attestation.verdict, Verdict::Simulated);
    assert_eq!(report.receipt.code.as_deref(), Some("SIG_FAILED"));
}

type Part = fn(&mut AuditBundle) -> &mut Vec<u8>;

/// The layer that has to refuse a bundle one byte of whose part was changed.
fn right_layer(part: &str, report: &BundleReport) -> bool {
    let attested = report.attestation.verdict != Verdict::Refused;
    let code = report.receipt.code.as_deref().unwrap_or("accepted");
    let layer = ReceiptCode::ALL
        .iter()
        .find(|known| known.as_str() == code)
        .map(|code| code.layer());
    match part {
        // Its time may move out of the certificates' lives; otherwise nothing of it is believed.
        "receipt" => !attested || layer.is_some_and(|layer| layer <= Layer::Signature),
        // What is not signed in it is in its hash.
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
    // A judgement costs a P-384 signature, and one more for each certificate that was changed.
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for share in all.chunks(all.len().div_ceil(workers)) {
            let (policy, bundle) = (&enclave.policy, &bundle);
            scope.spawn(move || {
                let mut memory = SignatureMemory::new();
                for &(name, part, at) in share {
                    let mut bundle = bundle();
                    part(&mut bundle)[at] ^= 1 << (at % 8);
                    let report = bundle.verify_with(policy, || None, &mut memory);
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
fn every_changed_character_of_a_bundles_json_is_seen() {
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
                // Then other bytes were read, and those are judged.
                assert_ne!(parts(&bundle), original, "character {at}");
            }
        }
    }
}

#[test]
fn bundles_are_what_their_schema_says() {
    let schema = include_str!("../../docs/bundle.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let mut enclave = Enclave::start(23);
    let answer = enclave.exchange();
    let members = |with_content| {
        let json = enclave.bundle(&answer, with_content).to_json().unwrap();
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
        names(schema["properties"].as_object().unwrap())
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
    // Request without response, and the reverse, are refused, as `dependentRequired` says.
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
    let answer = enclave.answer(&sealed, |claims, _| claims.sequence_number = 0);
    let answer = pending.finish(&answer, NOW).unwrap();
    let bundle = enclave.bundle(&answer, true);
    let mut frontier = Frontier::new();
    frontier.append(&receipt_hash(&bundle.receipt), |_, _| ());
    let tree = Tree {
        size: 1,
        root: frontier.root(),
    };
    let document = receipt_hash(&bundle.document);
    let inclusion = Inclusion {
        format: Format::new(),
        index: 0,
        path: vec![],
        head: enclave.signer.sign_head(tree, NOW.seconds() + 1, document),
    };
    // What an earlier question left behind changes no answer.
    let mut memory = SignatureMemory::new();
    let (report, log) =
        bundle.verify_logged(&enclave.policy, &inclusion, None, || None, &mut memory);
    assert_eq!(report.receipt.verdict, Verdict::Simulated);
    // The attestation's verdict is the best that the log's can be.
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

    // The key out of the evidence beside the head, without any receipt.
    let head = SignedHead {
        format: Format::new(),
        head: inclusion.head.clone(),
        document: enclave.document.clone(),
        manifest: enclave.manifest.clone(),
    };
    let (report, found) = protocol::log::attest(&head, &enclave.policy, None);
    assert_eq!(report.verdict, Verdict::Simulated);
    assert_eq!(found.unwrap().key().bytes(), &enclave.signer.public_key());
}

#[test]
fn json_that_is_no_bundle_is_refused() {
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
    for source in [
        PolicySource::Build,
        PolicySource::File,
        PolicySource::Server,
    ] {
        let policy = Policy::from_json(enclave.policy.to_json().as_bytes(), source).unwrap();
        assert_eq!(
            bundle.verify(&policy, || None).receipt.verdict,
            Verdict::Simulated
        );
    }
}
