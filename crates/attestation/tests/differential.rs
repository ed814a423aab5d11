//! Verifies each chain a second time with `rustls-webpki`. Where both have the same rule they must agree; every
//! difference has a name and a reason. A difference that no longer occurs also fails.
//!
//! webpki verifies web servers: it gets the pinned root as trust anchor, the rest of the bundle as
//! intermediates, the leaf as end entity, and ECDSA on P-384 with SHA-384 as the only algorithm, for the chain and for the
//! document. It uses ring for signatures, so that neither parser nor arithmetic is shared.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use crate::common::differences::{DIFFERENCES, Difference};
use attestation::cbor::{Kind, Reader, Rules};
use attestation::{Appraisal, AttestationDocument, CheckLog, Claims, TrustAnchor, UnixMillis};
use fixtures::{Fixture, NOW};
use forge::Forgery;
use proptest::prelude::*;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::collections::BTreeSet;
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// webpki's error for chain or signature; `None` if it accepts.
fn theirs(
    document: &[u8],
    claims: &Claims,
    anchor: &TrustAnchor,
    at: UnixMillis,
) -> Option<String> {
    let der = |bytes: &[u8]| CertificateDer::from(bytes.to_vec());
    let root = der(anchor.der());
    let root = match anchor_from_trusted_cert(&root) {
        Ok(root) => root,
        Err(error) => return Some(format!("{error:?}")),
    };
    let between: Vec<_> = claims.cabundle.iter().skip(1).map(|it| der(it)).collect();
    let leaf = der(&claims.certificate);
    let outcome = EndEntityCert::try_from(&leaf).and_then(|leaf| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(at.seconds()));
        leaf.verify_for_usage(
            &[webpki::ring::ECDSA_P384_SHA384],
            &[root],
            &between,
            time,
            // webpki checks only a leaf that has extended key usages; a Nitro leaf has none.
            KeyUsage::server_auth(),
            None,
            None,
        )
        .map(|_| ())?;
        let (message, signature) = signed(document);
        leaf.verify_signature(webpki::ring::ECDSA_P384_SHA384, &message, &signature)
    });
    outcome.err().map(|error| format!("{error:?}"))
}

/// The Sig_structure (RFC 9052 §4.4) of a parsable document, and its signature as DER, which is empty if r or
/// s is out of range.
fn signed(document: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut reader = Reader::new(document, Rules::Shortest);
    if reader.peek() == Ok(Kind::Tag) {
        reader.tag().unwrap();
    }
    reader.array().unwrap();
    let protected = reader.bytes().unwrap();
    reader.skip().unwrap();
    let payload = reader.bytes().unwrap();
    let signature = p384::ecdsa::Signature::from_slice(reader.bytes().unwrap());
    let message = [
        forge::cbor::head(4, 4),
        forge::cbor::text("Signature1"),
        forge::cbor::bytes(protected),
        forge::cbor::bytes(&[]),
        forge::cbor::bytes(payload),
    ];
    let der = signature.map_or(Vec::new(), |it| it.to_der().as_bytes().to_vec());
    (message.concat(), der)
}

/// This crate's verdict: the code of the refusal and the observed value; `None` if the document is authentic.
fn ours(document: &[u8], anchor: &TrustAnchor, at: UnixMillis) -> Option<(String, String)> {
    let report = Appraisal::of(document).inspect(anchor, at);
    let failed = report.checks.into_iter().find(|row| row.code.is_some())?;
    Some((failed.code.unwrap(), failed.observed))
}

/// Both verdicts, and the name of the difference that explains them. `Err` if none does.
fn compare(
    document: &[u8],
    anchor: &TrustAnchor,
    at: UnixMillis,
) -> Result<Option<&'static Difference>, String> {
    let Ok(parsed) = AttestationDocument::parse(document, &mut CheckLog::new()) else {
        return Ok(None);
    };
    let (ours, theirs) = (
        ours(document, anchor, at),
        theirs(document, parsed.claims(), anchor, at),
    );
    if ours.is_none() == theirs.is_none() {
        return Ok(None);
    }
    let difference = DIFFERENCES
        .iter()
        .find(|it| it.explains(ours.as_ref(), theirs.as_deref()));
    difference
        .map(Some)
        .ok_or_else(|| format!("ours {ours:?}, webpki {theirs:?}"))
}

#[test]
fn forged_chains_are_judged_alike_or_differ_for_a_named_reason() {
    let fixture = Fixture::new();
    let mut unexplained = Vec::new();
    let mut found = BTreeSet::new();
    let mut compared = 0;
    for vector in forge::vectors() {
        let document = fixture.forged(vector.apply);
        match compare(&document, &fixture.anchor, NOW) {
            Ok(None) => {}
            Ok(Some(difference)) => {
                found.insert((difference.name, vector.name));
            }
            Err(difference) => unexplained.push(format!("{}: {difference}", vector.name)),
        }
        compared += 1;
    }
    for case in common::appraisal_cases() {
        let (document, anchor, at) = case.document();
        match compare(&document, &anchor, at) {
            Ok(None) => {}
            Ok(Some(difference)) => {
                found.insert((difference.name, case.name));
            }
            Err(difference) => unexplained.push(format!("{}: {difference}", case.name)),
        }
        compared += 1;
    }
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    assert!(compared > 200, "{compared} documents");
    let listed: BTreeSet<_> = DIFFERENCES
        .iter()
        .flat_map(|it| it.vectors.iter().map(|vector| (it.name, *vector)))
        .collect();
    assert_eq!(found, listed, "found, and listed in the table");
    for difference in DIFFERENCES {
        assert!(
            !difference.vectors.is_empty(),
            "{} never occurs",
            difference.name
        );
    }
}

#[test]
fn shared_vectors_are_judged_alike_or_differ_for_a_named_reason() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let mut unexplained = Vec::new();
    let mut genuine = 0;
    for (file, document, anchor, at) in common::nitro_documents(&vectors) {
        match compare(&document, &anchor, at) {
            // Genuine chains: no difference is allowed.
            Ok(found) if file.starts_with("documents/") => {
                assert!(found.is_none(), "{file}: {}", found.unwrap().name);
                assert_eq!(ours(&document, &anchor, at), None, "{file}");
                genuine += 1;
            }
            Ok(_) => {}
            Err(difference) => unexplained.push(format!("{file}: {difference}")),
        }
        // At a moment when every certificate but the root has ended, and before any began.
        for at in [UnixMillis(1_900_000_000_000), UnixMillis(1_600_000_000_000)] {
            if let Err(difference) = compare(&document, &anchor, at) {
                unexplained.push(format!("{file} as of {at}: {difference}"));
            }
        }
    }
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    assert!(genuine >= 58, "{genuine} genuine documents");
}

/// One change to a chain, which is signed correctly afterwards.
#[derive(Clone, Debug)]
enum Change {
    NotBefore(usize, i64),
    NotAfter(usize, i64),
    PathLength(usize, Option<u8>),
    Leafy(usize),
    Issuing(usize),
    SignedBy(usize, usize),
    IssuerOf(usize, usize),
    Drop(usize),
    Swap(usize, usize),
    Repeat(usize),
    Flip(usize, proptest::sample::Index, u8),
    Cut(usize, proptest::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let below = || 1..5_usize;
    let any_link = || 0..5_usize;
    prop_oneof![
        (below(), -3..4_i64).prop_map(|(at, by)| Change::NotBefore(at, by)),
        (below(), -3..4_i64).prop_map(|(at, by)| Change::NotAfter(at, by)),
        (1..4_usize, proptest::option::of(0..4_u8))
            .prop_map(|(at, length)| Change::PathLength(at, length)),
        (1..4_usize).prop_map(Change::Leafy),
        Just(Change::Issuing(4)),
        (below(), any_link()).prop_map(|(at, by)| Change::SignedBy(at, by)),
        (below(), any_link()).prop_map(|(at, by)| Change::IssuerOf(at, by)),
        (1..4_usize).prop_map(Change::Drop),
        (1..4_usize, 1..4_usize).prop_map(|(one, other)| Change::Swap(one, other)),
        (1..4_usize).prop_map(Change::Repeat),
        (1..4_usize, any::<proptest::sample::Index>(), 0..8_u8)
            .prop_map(|(at, byte, bit)| Change::Flip(at, byte, bit)),
        (1..4_usize, any::<proptest::sample::Index>())
            .prop_map(|(at, length)| Change::Cut(at, length)),
    ]
}

/// A change to the certificates of a bundle.
type BundleChange = Box<dyn Fn(&mut Vec<Vec<u8>>)>;

impl Change {
    fn apply(&self, f: &mut Forgery) {
        let near = |by: i64| forge::der::time((NOW.seconds()).saturating_add_signed(by));
        let bundle = |f: &mut Forgery, change: BundleChange| {
            let before = f.cabundle.take();
            f.cabundle = Some(Box::new(move |bundle| {
                if let Some(before) = &before {
                    before(bundle);
                }
                change(bundle);
            }));
        };
        let constraints = |f: &mut Forgery, at: usize, ca: bool, length: Option<u8>| {
            let ca: &[u8] = if ca { &[1, 1, 0xff] } else { &[] };
            let length = length.map_or(Vec::new(), |length| forge::der::integer(&[length]));
            let value = forge::der::sequence(&[ca, &length]);
            let oid = forge::der::BASIC_CONSTRAINTS;
            let extension = forge::der::extension(oid, true, &value);
            f.links[at].spec.set_extension(oid, Some(extension));
        };
        match *self {
            Self::NotBefore(at, by) => f.links[at].spec.not_before = near(by),
            Self::NotAfter(at, by) => f.links[at].spec.not_after = near(by),
            Self::PathLength(at, length) => constraints(f, at, true, length),
            Self::Leafy(at) => constraints(f, at, false, None),
            Self::Issuing(at) => constraints(f, at, true, None),
            Self::SignedBy(at, by) => f.links[at].signed_by = by,
            Self::IssuerOf(at, by) => {
                f.links[at].spec.issuer = f.links[by].spec.subject.clone();
            }
            Self::Drop(at) => bundle(
                f,
                Box::new(move |bundle| {
                    if at < bundle.len() {
                        bundle.remove(at);
                    }
                }),
            ),
            Self::Swap(one, other) => bundle(
                f,
                Box::new(move |bundle| {
                    if one.max(other) < bundle.len() {
                        bundle.swap(one, other);
                    }
                }),
            ),
            Self::Repeat(at) => bundle(
                f,
                Box::new(move |bundle| {
                    if at < bundle.len() {
                        bundle.insert(at, bundle[at].clone());
                    }
                }),
            ),
            Self::Flip(at, byte, bit) => bundle(
                f,
                Box::new(move |bundle| {
                    if let Some(der) = bundle.get_mut(at) {
                        let byte = byte.index(der.len());
                        der[byte] ^= 1 << bit;
                    }
                }),
            ),
            Self::Cut(at, length) => bundle(
                f,
                Box::new(move |bundle| {
                    if let Some(der) = bundle.get_mut(at) {
                        der.truncate(length.index(der.len()).max(1));
                    }
                }),
            ),
        }
    }
}

thread_local! {
    static SCENE: Fixture = Fixture::new();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn changed_chains_are_judged_alike_or_differ_for_a_named_reason(
        changes in proptest::collection::vec(change(), 1..4),
        later in -2..3_i64,
    ) {
        SCENE.with(|fixture| {
            let mut forgery = fixture.issuer.forge(&fixture.contents, NOW.0);
            changes.iter().for_each(|change| change.apply(&mut forgery));
            let at = UnixMillis(NOW.0.saturating_add_signed(later * 1000));
            let outcome = compare(&forgery.build(), &fixture.anchor, at);
            prop_assert!(outcome.is_ok(), "{}", outcome.err().unwrap());
            Ok(())
        })?;
    }
}
