//! Certificate revocation lists with arbitrary contents, signed by their issuer.

use attestation::{Appraisal, RowState, Verdict};
use forge::der;
use p384::ecdsa::{DerSignature, Signature, signature::hazmat::PrehashSigner};
use sha2::{Digest, Sha384};

use super::check_report;
use crate::fixture::{NOW, fixture};

/// Check 27: the signed part of the root's list. The document is authentic, or refused by that check.
pub(super) fn crl(data: &[u8]) {
    let fixture = fixture();
    let signature: Signature = fixture.forgery().links[0]
        .key
        .sign_prehash(&Sha384::digest(data))
        .expect("a digest of 48 bytes can be signed");
    let signature = DerSignature::from(signature);
    let list = der::sequence(&[
        data,
        der::ECDSA_SHA384,
        &der::bit_string(signature.as_bytes()),
    ]);
    let judge = |lists: &[u8]| {
        let report = Appraisal::of(&fixture.document)
            .with_crls(lists)
            .inspect(fixture.anchor(), NOW);
        check_report(&report);
        let row = report.checks.into_iter().find(|row| row.id == 27);
        (report.verdict, row.expect("every row is listed").state)
    };
    let (verdict, state) = judge(&list);
    assert_eq!(verdict == Verdict::Refused, state == RowState::Failed);
    // An accepted list is parsed to its last byte, and may be followed by another list.
    if state != RowState::Failed {
        assert_eq!(judge(&list.repeat(2)), (verdict, state));
        assert_eq!(judge(&list[..list.len() - 1]).1, RowState::Failed);
        assert_eq!(judge(&[&list[..], &[0]].concat()).1, RowState::Failed);
    }
}

/// Signed parts of all short lists of the catalogue.
pub(super) fn crl_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for vector in forge::crl_vectors() {
        let mut forgery = fixture().forgery();
        let lists = (vector.lists)(&mut forgery);
        seeds.extend(signed_part(&lists));
    }
    seeds.retain(|seed| seed.len() <= 1_024);
    seeds.sort();
    seeds.dedup();
    seeds
}

/// The first value inside the first one. All of them have two-byte lengths.
fn signed_part(list: &[u8]) -> Option<Vec<u8>> {
    let inner = list.get(4..)?;
    let length = match inner {
        [0x30, 0x82, high, low, ..] => 4 + (usize::from(*high) << 8 | usize::from(*low)),
        [0x30, 0x81, length, ..] => 3 + usize::from(*length),
        _ => return None,
    };
    inner.get(..length).map(<[u8]>::to_vec)
}
