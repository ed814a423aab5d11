//! Attestation documents: as received, and signed with the leaf's key.

use std::sync::OnceLock;

use attestation::cbor::Writer;
use attestation::{Appraisal, AttestationDocument, CheckLog, Claims, Verdict};
use p384::ecdsa::{Signature, SigningKey, signature::hazmat::PrehashSigner};
use sha2::{Digest, Sha384};

use super::check_report;
use crate::fixture::{NOW, fixture};

/// All four stages on a received document.
pub(super) fn document(data: &[u8]) {
    let fixture = fixture();
    let (report, verified) = fixture.verify(data);
    check_report(&report);
    let verified = verified.including_simulated();
    assert_eq!(verified.is_some(), report.verdict == Verdict::Simulated);
    let authentic = report.checks.iter().all(|row| {
        // Row 17 is updated again with the policy, and row 26 never decides.
        row.id > 21 || row.state == attestation::RowState::Passed
    });
    if !authentic {
        return;
    }
    // The signature covers all claims, so a document cannot claim anything that the enclave did not sign. The bytes may differ:
    // tag 18, and a negated ECDSA signature.
    let claims = parse(data).expect("what was authenticated can be parsed");
    assert!(
        signed_claims().contains(&claims),
        "these claims were never signed"
    );
    if let Some(verified) = verified {
        assert!(verified.claims() == &claims);
        assert!(verified.manifest() == fixture.manifest());
        assert!((0..3).all(|index| claims.pcrs.get(&index) == fixture.contents.pcrs.get(&index)));
    }
}

/// All documents of the catalogue, and this enclave's own.
pub(super) fn document_seeds() -> Vec<Vec<u8>> {
    // Cached: each takes six signatures, and several targets use them.
    static SEEDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SEEDS.get_or_init(catalogue).clone()
}

fn catalogue() -> Vec<Vec<u8>> {
    let fixture = fixture();
    let catalogue = forge::vectors().map(|vector| {
        let mut forgery = fixture.forgery();
        (vector.apply)(&mut forgery);
        forgery.build()
    });
    // A document above the size limit only tests that limit.
    let short = |document: &Vec<u8>| document.len() <= attestation::MAX_DOCUMENT + 64;
    [fixture.document.clone()]
        .into_iter()
        .chain(catalogue)
        .filter(short)
        .collect()
}

/// Payloads from the fuzzer, signed, to test the field rules.
pub(super) fn payload(data: &[u8]) {
    let fixture = fixture();
    let unsigned = envelope(data, &[1; 96]);
    let Some(claims) = parse(&unsigned) else {
        check_report(&Appraisal::of(&unsigned).inspect(fixture.anchor(), NOW));
        return;
    };
    check_bounds(&claims);
    // Encoded again by this crate, it has the same claims.
    let again = envelope(&encode(&claims), &[1; 96]);
    if again.len() <= attestation::MAX_DOCUMENT {
        assert!(parse(&again).as_ref() == Some(&claims));
    }
    let leaf = fixture.forgery().links[4].key.clone();
    let report = Appraisal::of(&sign(data, &leaf)).inspect(fixture.anchor(), NOW);
    check_report(&report);
    if report.verdict == Verdict::Authentic {
        assert_eq!(claims.cabundle[0], fixture.anchor().der());
        let view = report.document.expect("what was parsed is shown");
        assert_eq!(view.module_id, claims.module_id);
        assert_eq!(view.pcrs.len(), claims.pcrs.len());
        assert_eq!(report.chain.len(), claims.cabundle.len() + 1);
    }
}

/// All payloads of the catalogue.
pub(super) fn payload_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = document_seeds()
        .iter()
        .filter_map(|document| payload_of(document))
        .collect();
    seeds.sort();
    seeds.dedup();
    seeds
}

/// A COSE_Sign1 (RFC 9052 §4.2) in the hypervisor's form.
pub(super) fn envelope(payload: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer
        .array(4)
        .bytes(&[0xa1, 0x01, 0x38, 0x22])
        .map(0)
        .bytes(payload)
        .bytes(signature);
    writer.finish()
}

/// The same, signed with ES384 (RFC 9053 §2.1).
pub(super) fn sign(payload: &[u8], key: &SigningKey) -> Vec<u8> {
    let mut signed = Writer::new();
    signed
        .array(4)
        .text("Signature1")
        .bytes(&[0xa1, 0x01, 0x38, 0x22])
        .bytes(&[])
        .bytes(payload);
    let signature: Signature = key
        .sign_prehash(&Sha384::digest(signed.finish()))
        .expect("a digest of 48 bytes can be signed");
    envelope(payload, &signature.to_bytes())
}

fn parse(document: &[u8]) -> Option<Claims> {
    let parsed = AttestationDocument::parse(document, &mut CheckLog::new()).ok()?;
    Some(parsed.claims().clone())
}

/// Claims that the fixture's leaf has signed in accepted documents.
fn signed_claims() -> &'static [Claims] {
    static SIGNED: OnceLock<Vec<Claims>> = OnceLock::new();
    SIGNED.get_or_init(|| {
        document_seeds()
            .iter()
            .filter(|document| {
                Appraisal::of(document)
                    .inspect(fixture().anchor(), NOW)
                    .verdict
                    == Verdict::Authentic
            })
            .filter_map(|document| parse(document))
            .collect()
    })
}

/// Checks 6 to 12 hold for all parsed claims.
fn check_bounds(claims: &Claims) {
    assert!(!claims.module_id.is_empty());
    assert!((1..=253_402_300_799_999).contains(&claims.timestamp.0));
    assert!(!claims.pcrs.is_empty() && claims.pcrs.keys().all(|index| *index < 32));
    assert!(!claims.cabundle.is_empty());
    let certificates = claims.cabundle.iter().chain([&claims.certificate]);
    certificates.for_each(|der| assert!((1..=1_024).contains(&der.len())));
    let optional = [&claims.public_key, &claims.user_data, &claims.nonce];
    for value in optional.into_iter().flatten() {
        assert!(value.len() <= 1_024);
    }
}

/// A payload with these claims: a definite-length map with every field.
fn encode(claims: &Claims) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.map(9).text("module_id").text(&claims.module_id);
    writer.text("digest").text("SHA384");
    writer.text("timestamp").uint(claims.timestamp.0);
    writer.text("pcrs").map(claims.pcrs.len() as u64);
    for (index, value) in &claims.pcrs {
        writer.uint((*index).into()).bytes(value);
    }
    writer.text("certificate").bytes(&claims.certificate);
    writer.text("cabundle").array(claims.cabundle.len() as u64);
    for der in &claims.cabundle {
        writer.bytes(der);
    }
    for (name, value) in [
        ("public_key", &claims.public_key),
        ("user_data", &claims.user_data),
        ("nonce", &claims.nonce),
    ] {
        writer.text(name);
        match value {
            Some(value) => writer.bytes(value),
            None => writer.null(),
        };
    }
    writer.finish()
}

/// The third element of an envelope, if there is one.
fn payload_of(document: &[u8]) -> Option<Vec<u8>> {
    use attestation::cbor::{Reader, Rules};
    let mut reader = Reader::new(document, Rules::WellFormed);
    reader.array().ok()?;
    reader.bytes().ok()?;
    reader.skip().ok()?;
    reader.bytes().ok().map(<[u8]>::to_vec)
}
