//! Certificates: alone, and in a chain whose issuers sign arbitrary certificates.

use attestation::{Appraisal, TrustAnchor, Verdict};
use base16ct::lower::encode_string as hex;
use forge::der;
use p384::ecdsa::{DerSignature, Signature, signature::hazmat::PrehashSigner};
use sha2::{Digest, Sha256, Sha384};

use super::{check_report, document};
use crate::fixture::{NOW, fixture};

/// Check 20: a certificate has one encoding, and all its displayed fields can be displayed.
pub(super) fn certificate(data: &[u8]) {
    let Ok(anchor) = TrustAnchor::development(data) else {
        return;
    };
    assert_eq!(anchor.der(), data);
    assert!(TrustAnchor::development(&[data, &[0]].concat()).is_err());
    assert!(TrustAnchor::development(&data[..data.len() - 1]).is_err());
    if data.len() > 1_024 {
        return;
    }
    // As the second certificate of a chain it fails some check, but it is displayed.
    let mut forgery = fixture().forgery();
    let der = data.to_vec();
    forgery.cabundle = Some(Box::new(move |bundle| bundle[1].clone_from(&der)));
    let report = Appraisal::of(&forgery.build()).inspect(fixture().anchor(), NOW);
    check_report(&report);
    let shown = report.chain.iter().find(|view| view.role == "regional");
    let shown = shown.expect("what is canonical is shown");
    assert_eq!(shown.sha256, hex(&Sha256::digest(data)));
}

/// All certificates of the catalogue, without duplicates.
pub(super) fn certificate_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![TrustAnchor::aws_nitro_g1().der().to_vec()];
    for vector in forge::vectors() {
        let mut forgery = fixture().forgery();
        (vector.apply)(&mut forgery);
        seeds.extend(forgery.certificates());
    }
    seeds.retain(|der| der.len() <= 1_088);
    seeds.sort();
    seeds.dedup();
    seeds
}

/// Checks 14 to 20 with valid signatures: the first byte selects the certificate, the rest is its signed part.
pub(super) fn chain(data: &[u8]) {
    let fixture = fixture();
    let Some((position, signed)) = data.split_first() else {
        return;
    };
    let at = 1 + usize::from(position % 4);
    let forgery = fixture.forgery();
    let signature: Signature = forgery.links[at - 1]
        .key
        .sign_prehash(&Sha384::digest(signed))
        .expect("a digest of 48 bytes can be signed");
    let signature = DerSignature::from(signature);
    let certificate = der::sequence(&[
        signed,
        der::ECDSA_SHA384,
        &der::bit_string(signature.as_bytes()),
    ]);
    // Skip the other signatures, which take time, unless the certificate is well-formed.
    if certificate.len() > 1_024 || TrustAnchor::development(&certificate).is_err() {
        return;
    }
    let mut ders = certificates().to_vec();
    ders[at].clone_from(&certificate);
    let report = Appraisal::of(&document_with_chain(&ders)).inspect(fixture.anchor(), NOW);
    check_report(&report);
    if report.verdict != Verdict::Authentic {
        return;
    }
    // An accepted certificate meets every rule, which is checked on the report's fields.
    let view = &report.chain[at];
    assert_eq!(view.sha256, hex(&Sha256::digest(&certificate)));
    assert_eq!(view.ca, at < 4);
    let needed = if at < 4 {
        "keyCertSign"
    } else {
        "digitalSignature"
    };
    assert!(view.key_usage.iter().any(|usage| usage == needed));
    assert!((view.not_before..=view.not_after).contains(&NOW.seconds()));
    assert_eq!(view.issuer, report.chain[at - 1].subject);
    assert!(
        at == 4
            || view
                .path_length
                .is_none_or(|length| usize::from(length) >= 3 - at)
    );
}

/// The signed parts of all certificates of the catalogue, at their positions.
pub(super) fn chain_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for vector in forge::vectors() {
        let mut forgery = fixture().forgery();
        (vector.apply)(&mut forgery);
        for (at, der) in forgery.certificates().iter().enumerate().skip(1) {
            let position = (at.min(4) - 1) as u8;
            seeds.extend(signed_part(der).map(|signed| [&[position], signed].concat()));
        }
    }
    seeds.retain(|seed| seed.len() <= 1_088);
    seeds.sort();
    seeds.dedup();
    seeds
}

/// The fixture's chain, signed once.
fn certificates() -> &'static [Vec<u8>] {
    static CHAIN: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    CHAIN.get_or_init(|| fixture().forgery().certificates())
}

/// A document with this chain, signed by the fixture's leaf.
fn document_with_chain(ders: &[Vec<u8>]) -> Vec<u8> {
    use attestation::cbor::Writer;
    let mut payload = Writer::new();
    payload
        .map(6)
        .text("module_id")
        .text(fixture().issuer().module_id())
        .text("digest")
        .text("SHA384")
        .text("timestamp")
        .uint(NOW.0);
    payload.text("pcrs").map(1).uint(0).bytes(&[1; 48]);
    payload.text("certificate").bytes(&ders[4]);
    payload.text("cabundle").array(4);
    for der in &ders[..4] {
        payload.bytes(der);
    }
    document::sign(&payload.finish(), &fixture().forgery().links[4].key)
}

/// The first element of the outer sequence, for definite lengths of up to two bytes.
fn signed_part(der: &[u8]) -> Option<&[u8]> {
    let (_, content) = header(der)?;
    let (length, rest) = header(content)?;
    let head = content.len() - rest.len();
    content.get(..head + length)
}

/// The length of an element, and the bytes after its head.
fn header(der: &[u8]) -> Option<(usize, &[u8])> {
    match *der.get(1)? {
        short @ 0..=0x7f => Some((short.into(), der.get(2..)?)),
        0x81 => Some(((*der.get(2)?).into(), der.get(3..)?)),
        0x82 => Some((
            u16::from_be_bytes([*der.get(2)?, *der.get(3)?]).into(),
            der.get(4..)?,
        )),
        _ => None,
    }
}
