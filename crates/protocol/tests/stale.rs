//! The attestations that a request may rest on, and the errors that a fresh one fixes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use attestation::{Appraisal, Freshness, UnixMillis, VerifiedAttestation};
use fixtures::enclave::{Enclave, NOW, request};
use fixtures::rng;
use protocol::channel::{ClientOptions, ReceivedHello, preferred_aeads};
use protocol::exchange::{
    ExchangeError, PendingResponse, PreparedExchange, begin, begin_with_candidates,
};
use protocol::terms;

fn judged(enclave: &Enclave, freshness: Freshness<'_>) -> VerifiedAttestation {
    let (_, concluded) = Appraisal::of(&enclave.document)
        .with_manifest(&enclave.manifest)
        .verify(&enclave.policy, freshness);
    concluded.including_simulated().unwrap()
}

#[test]
fn nothing_is_sealed_under_an_appraisal_of_another_moment() {
    let enclave = Enclave::start(1);
    let nonce = fixtures::NONCE;
    for freshness in [
        Freshness::Audit { time: NOW },
        Freshness::At {
            time: NOW,
            nonce: Some(&nonce),
        },
    ] {
        let old = judged(&enclave, freshness);
        assert!(!old.is_live());
        let rng = &mut rng(2);
        let refused = [
            begin(&old, request(), NOW, rng).err(),
            PreparedExchange::new(&old, rng).err(),
            begin_with_candidates(&[&old], &request(), NOW, rng).err(),
            PendingResponse::new(&old, request(), NOW, rng).err(),
        ];
        for error in refused {
            assert_eq!(error.unwrap().code(), "ATTESTATION_EXPIRED");
        }
        // The channel treats the client as one that has verified nothing: the server must present a document.
        let options = ClientOptions {
            known: Some(&old),
            ..ClientOptions::default()
        };
        let (hello, _) = protocol::channel::begin(options, rng).unwrap();
        let arrival = ReceivedHello::read(&hello, preferred_aeads()).unwrap();
        assert!(arrival.known().is_none());
    }
    let live = enclave.attested();
    assert!(live.is_live());
    assert!(begin(&live, request(), NOW, &mut rng(2)).is_ok());
}

/// The error of an exchange whose answer arrives by a clock that is `moved` seconds off the one of the appraisal.
fn answered_at(moved: i64, declined: Option<&str>) -> Option<ExchangeError> {
    let mut enclave = Enclave::start(3);
    let (sealed, pending) = enclave.begin();
    let answer = enclave.answer(&sealed, |_, response| {
        if let Some(code) = declined {
            response.status = 400;
            response.content = format!("{{\"error\":{{\"code\":\"{code}\"}}}}").into();
            let absent = (terms::RECEIPT.to_owned(), "absent".to_owned());
            response.headers.push(absent);
        }
    });
    let now = UnixMillis(NOW.0.saturating_add_signed(moved * 1_000));
    pending.finish(&answer, now).err()
}

#[test]
fn a_clock_that_was_set_makes_the_evidence_stale() {
    assert!(answered_at(0, None).is_none());
    for (moved, declined, code) in [
        (-120, None, "TIMESTAMP_FUTURE"),
        (0, Some("DATE_OUT_OF_WINDOW"), "DATE_OUT_OF_WINDOW"),
    ] {
        let error = answered_at(moved, declined).unwrap();
        assert_eq!(error.code(), code);
        assert!(error.is_misdated() && error.is_stale(), "{code}");
    }
    for code in ["DOCUMENT_UNKNOWN", "KEYS_EXPIRED"] {
        let error = answered_at(0, Some(code)).unwrap();
        assert!(error.is_stale() && !error.is_misdated(), "{code}");
    }
    let error = answered_at(0, Some("INNER_MALFORMED")).unwrap();
    assert!(!error.is_stale());
}

#[test]
fn a_receipt_of_something_else_is_not_stale() {
    let mut enclave = Enclave::start(4);
    for (issued, stale) in [(-61, true), (61, true), (0, false)] {
        let (sealed, pending) = enclave.begin();
        let answer = enclave.answer(&sealed, |claims, _| {
            claims.issued_at = claims.issued_at.saturating_add_signed(issued);
            if issued == 0 {
                claims.model_hash = [6; 32];
            }
        });
        let error = pending.finish(&answer, NOW).err().unwrap();
        assert_eq!(error.is_stale(), stale, "{}", error.code());
    }
}
