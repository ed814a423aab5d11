//! A whole exchange with a simulated enclave: sealed, answered, receipted, and attacked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "a test fails by panicking, and a table of changes reads best with one expression each"
)]

use attestation::{SecurityMode, UnixMillis, Verdict};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};
use fixtures::enclave::{Enclave, NOW, request};
use fixtures::rng;
use protocol::bundle::AuditBundle;
use protocol::commitment::{request_hash, response_hash};
use protocol::exchange::{ExchangeError, PreparedExchange, begin};
use protocol::inner::{InnerRequest, InnerResponse, unpadded_len};
use protocol::ohttp::SealError;
use protocol::receipt::{ReceiptClaims, ReceiptSigner};
use protocol::terms::{self, Terms};

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
    // A development root proves nothing: the receipt under it is simulated, never verified.
    assert_eq!(
        answer.receipt.as_ref().unwrap().report.verdict,
        Verdict::Simulated
    );
    let report = answer.receipt.unwrap().report;
    let states: Vec<_> = report.checks.iter().map(|row| row.state).collect();
    assert!(
        states
            .iter()
            .all(|state| *state == attestation::RowState::Passed),
        "{states:?}"
    );
}

#[test]
fn sealed_to_x_wing_and_no_part_of_the_text_is_in_the_bytes() {
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
    let [first, second] =
        [first, second].map(|answer| answer.receipt.unwrap().report.claims.unwrap());
    assert_ne!(first.request_hash, second.request_hash);
    assert_ne!(first.response_hash, second.response_hash);
    assert_ne!(first.nonce, second.nonce);
}

#[test]
fn guessing_a_three_word_text_from_its_receipt_fails_without_the_salt() {
    let mut enclave = Enclave::start(4);
    let answer = enclave.exchange();
    let claims = answer
        .receipt
        .as_ref()
        .and_then(|receipt| receipt.report.claims.clone())
        .unwrap();
    let hex = |hash: [u8; 32]| hex(&hash);
    // The attacker knows everything but the salt: a lucky guess of the text, the nonce from the receipt, the date, the document.
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
    // With the salt, its holder opens both.
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

/// The request that a guesser would commit to: the true one with this text and this salt.
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
    let committed = answer.receipt.unwrap().report.claims.unwrap().request_hash;
    // The guesser has the receipt and, by luck, all other parts of the request: date, nonce, document, fields.
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
    let earlier = Base64UrlUnpadded::encode_string(&enclave.exchange().receipt.unwrap().bytes);
    let (sealed, pending) = enclave.begin();
    let answer = enclave.answer(&sealed, |_, response| {
        response.headers.push((terms::RECEIPT.into(), earlier))
    });
    assert_eq!(
        refusal(pending.finish(&answer, NOW)),
        "REQUEST_HASH_MISMATCH"
    );
}

fn absent(response: &mut InnerResponse) {
    response
        .headers
        .push((terms::RECEIPT.into(), "absent".into()));
}

#[test]
fn a_success_without_a_receipt_is_refused() {
    let mut enclave = Enclave::start(8);
    let (sealed, pending) = enclave.begin();
    let answer = enclave.answer(&sealed, |_, response| absent(response));
    assert_eq!(refusal(pending.finish(&answer, NOW)), "RECEIPT_MISSING");
}

#[test]
fn a_declined_request_is_an_error_with_its_code() {
    let mut enclave = Enclave::start(8);
    for code in ["DOCUMENT_UNKNOWN", "DATE_OUT_OF_WINDOW", "INNER_BAD_FIELD"] {
        let (sealed, pending) = enclave.begin();
        let answer = enclave.answer(&sealed, |_, response| {
            response.status = 400;
            response.content = format!(
                "{{\"error\":{{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"{code}\"}}}}"
            )
            .into();
            absent(response);
        });
        assert_eq!(refusal(pending.finish(&answer, NOW)), code);
    }
}

#[test]
fn a_refusal_is_an_answer_whose_receipt_is_ignored() {
    let mut enclave = Enclave::start(8);
    for body in [
        "{\"error\":{\"code\":\"ENGINE_BUSY\"}}",
        "{\"error\":{\"code\":null}}",
        "not json",
    ] {
        for has_receipt in [false, true] {
            let (sealed, pending) = enclave.begin();
            let answer = enclave.answer(&sealed, |_, response| {
                response.status = 429;
                response.content = body.into();
                if !has_receipt {
                    absent(response);
                }
            });
            let answer = pending.finish(&answer, NOW).unwrap();
            assert!(answer.receipt.is_none());
            assert!(AuditBundle::of(&answer, vec![1], vec![1], true).is_none());
            assert_eq!(answer.response.status, 429);
            assert_eq!(answer.response.content, body.as_bytes());
        }
    }
}

#[test]
fn read_only_requests_need_no_receipt() {
    let mut enclave = Enclave::start(8);
    let attested = enclave.attested();
    let mut request = request();
    request.method = "GET".into();
    request.content.clear();
    let (sealed, pending) = begin(&attested, request, NOW, &mut enclave.rng).unwrap();
    let answer = enclave.answer(&sealed, |_, response| absent(response));
    assert!(pending.finish(&answer, NOW).unwrap().receipt.is_none());
}

#[test]
fn answers_that_this_gateway_did_not_seal_are_refused() {
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
fn consecutive_prepared_exchanges_have_nothing_in_common() {
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
fn requests_with_the_protocols_own_fields_are_refused() {
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
