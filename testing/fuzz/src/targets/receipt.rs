//! Receipts: as received, and claims signed with the receipt key.

use std::sync::OnceLock;

use attestation::cbor::Writer;
use attestation::{RowState, SecurityMode, UnixMillis, Verdict};
use ed25519_dalek::Signer;
use fixtures::enclave::request;
use protocol::inner::unpadded_len;
use protocol::receipt::{
    Expectations, Measurements, Platform, ReceiptClaims, ReceiptReport, Window, verify,
};
use protocol::terms::Terms;

use super::near_misses;
use crate::fixture::{NOW, fixture, receipt_key};

/// An answered request.
pub(super) struct Exchange {
    pub(super) receipt: Vec<u8>,
    pub(super) claims: ReceiptClaims,
    /// Inner request without padding.
    pub(super) request: Vec<u8>,
    /// Content of the response.
    pub(super) response: Vec<u8>,
}

pub(super) fn exchange() -> &'static Exchange {
    static EXCHANGE: OnceLock<Exchange> = OnceLock::new();
    EXCHANGE.get_or_init(|| {
        let mut request = request();
        let terms = Terms {
            date: UnixMillis::from_seconds(NOW.seconds()),
            nonce: vec![6; 32],
            salt: [8; 32],
            document: fixture().attested.document_sha256(),
        };
        terms.write(&mut request).unwrap();
        let mut request = request.encode_padded().unwrap();
        request.truncate(unpadded_len(&request).unwrap());
        let response = b"{\"data\":[]}".to_vec();
        let claims = claims_of(&terms, &request, &response);
        Exchange {
            receipt: fixture().signer.sign(&claims),
            claims,
            request,
            response,
        }
    })
}

/// The enclave's claims about an exchange on these terms.
pub(super) fn claims_of(terms: &Terms, request: &[u8], response: &[u8]) -> ReceiptClaims {
    fixtures::receipt::claims_of(terms, request, response, &fixture().contents.pcrs)
}

/// Strict Ed25519 over deterministic CBOR: a receipt has one form, and no other bytes are accepted.
pub(super) fn receipt(data: &[u8]) {
    let (report, claims) = verify(data, &expectations(), None);
    check(&report);
    assert_eq!(claims.is_some(), report.verdict != Verdict::Refused);
    if let Some(claims) = claims {
        assert_eq!(claims, exchange().claims);
        assert_eq!(data, exchange().receipt);
    }
}

pub(super) fn receipt_seeds() -> Vec<Vec<u8>> {
    let mut seeds = near_misses(&exchange().receipt);
    seeds.extend(claims_seeds().iter().map(|claims| sign(claims)));
    seeds
}

/// Accepted claims have a single encoding.
pub(super) fn claims(data: &[u8]) {
    let receipt = sign(data);
    // Only the rules for every receipt are checked, so that any possible value is accepted.
    let mut anything = Expectations::of(&fixture().attested);
    anything.platform = None;
    anything.document_hash = None;
    anything.registers = None;
    anything.model_id = None;
    anything.model_version = None;
    anything.model_hash = None;
    anything.policy_version = None;
    anything.security_mode = None;
    let (report, claims) = verify(&receipt, &anything, None);
    check(&report);
    if let Some(claims) = claims {
        assert_eq!(fixture().signer.sign(&claims), receipt);
        assert_ne!(claims.issued_at, 0);
        assert_ne!(claims.model_hash, [0; 32]);
    }
    // With all expectations, only this exchange's claims are accepted.
    let (report, claims) = verify(&receipt, &expectations(), None);
    check(&report);
    if let Some(claims) = claims {
        assert_eq!(claims.request_hash, exchange().claims.request_hash);
        assert_eq!(claims.response_hash, exchange().claims.response_hash);
        assert_eq!(claims.document_hash, exchange().claims.document_hash);
        assert_eq!(
            claims.measurements.pcr0,
            exchange().claims.measurements.pcr0
        );
    }
}

pub(super) fn claims_seeds() -> Vec<Vec<u8>> {
    let good = &exchange().claims;
    let bare = ReceiptClaims {
        nonce: None,
        model_hash_scheme: None,
        measurements: Measurements {
            pcr4: None,
            ..good.measurements.clone()
        },
        ..good.clone()
    };
    let full = ReceiptClaims {
        measurements: Measurements {
            platform: Platform::TdxMrtdRtmr,
            pcr3: Some([3; 48]),
            ..good.measurements.clone()
        },
        security_mode: SecurityMode::Production,
        sequence_number: u64::MAX,
        ..good.clone()
    };
    let zero = ReceiptClaims {
        issued_at: 0,
        model_hash: [0; 32],
        ..good.clone()
    };
    [good, &bare, &full, &zero]
        .into_iter()
        .filter_map(|claims| payload_of(&fixture().signer.sign(claims)))
        .collect()
}

/// The client's knowledge of the exchange.
fn expectations() -> Expectations {
    let exchange = exchange();
    let mut expected = Expectations::of(&fixture().attested);
    expected.request_hash = Some(exchange.claims.request_hash);
    expected.response_hash = Some(exchange.claims.response_hash);
    expected.nonce.clone_from(&exchange.claims.nonce);
    expected.window = Some(Window {
        at: NOW,
        max_age_seconds: 60,
        clock_skew_seconds: 60,
    });
    expected
}

fn check(report: &ReceiptReport) {
    let refused = report.verdict == Verdict::Refused;
    let failed = report
        .checks
        .iter()
        .filter(|row| row.state == RowState::Failed)
        .count();
    assert_eq!(report.code.is_some(), refused);
    assert_eq!(failed, usize::from(refused));
    // The key was attested under a development root.
    assert!(!matches!(report.verdict, Verdict::Verified(_)));
    serde_json::to_string(report).expect("a report is JSON");
}

/// A signed receipt with any payload (RFC 9052 §4.2).
fn sign(payload: &[u8]) -> Vec<u8> {
    // {1: -8, 3: 61}
    const PROTECTED: &[u8] = &[0xa2, 0x01, 0x27, 0x03, 0x18, 0x3d];
    let mut signed = Writer::new();
    signed
        .array(4)
        .text("Signature1")
        .bytes(PROTECTED)
        .bytes(&[])
        .bytes(payload);
    let signature = receipt_key().sign(&signed.finish()).to_bytes();
    let mut receipt = Writer::new();
    receipt
        .tag(18)
        .array(4)
        .bytes(PROTECTED)
        .map(0)
        .bytes(payload)
        .bytes(&signature);
    receipt.finish()
}

fn payload_of(receipt: &[u8]) -> Option<Vec<u8>> {
    use attestation::cbor::{Reader, Rules};
    let mut reader = Reader::new(receipt, Rules::Deterministic);
    reader.tag().ok()?;
    reader.array().ok()?;
    reader.bytes().ok()?;
    reader.skip().ok()?;
    reader.bytes().ok().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fuzzers_receipt_key_is_the_enclaves() {
        let exchange = super::exchange();
        let payload = super::payload_of(&exchange.receipt).unwrap();
        assert_eq!(super::sign(&payload), exchange.receipt);
        // Otherwise the other targets would only see refusals.
        let (report, _) = super::verify(&exchange.receipt, &super::expectations(), None);
        assert_eq!(report.verdict, super::Verdict::Simulated, "{report:?}");
    }
}
