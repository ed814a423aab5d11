//! Known signatures: the same verdicts and the same rows, with less computation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;
use attestation::{
    Appraisal, AttestationReport, Conclusion, Freshness, MAX_PENDING, PendingSignature, RowState,
    SignatureMemory, TrustAnchor, UnixMillis, Verdict, pending_signatures,
};
use fixtures::{Fixture, NOW, row};
use p384::ecdsa::{Signature, VerifyingKey, signature::Verifier};

/// Another implementation: computes one signature and returns whether it is valid.
fn is_right(pending: &PendingSignature) -> bool {
    let key = VerifyingKey::from_sec1_bytes(pending.public_key()).unwrap();
    let signature = Signature::from_slice(pending.signature()).unwrap();
    assert_eq!(
        Signature::from_der(&pending.signature_der()).unwrap(),
        signature
    );
    assert_eq!(pending.public_key().len(), 97);
    assert_eq!(pending.signature().len(), 96);
    key.verify(pending.message(), &signature).is_ok()
}

/// Computes all pending signatures elsewhere, and vouches for the valid ones.
fn vouch_for_valid_signatures(
    document: &[u8],
    anchor: &TrustAnchor,
    at: UnixMillis,
    memory: &mut SignatureMemory,
) -> usize {
    let pending = pending_signatures(document, anchor, at, memory);
    for signature in pending.iter().filter(|it| is_right(it)) {
        memory.vouch(signature);
    }
    pending.len()
}

/// A report without the words that state how a signature was known.
fn alike(mut report: AttestationReport) -> AttestationReport {
    for row in &mut report.checks {
        if let 14 | 21 = row.id {
            row.observed = row
                .observed
                .split("; ")
                .next()
                .unwrap()
                .split(", computed")
                .next()
                .unwrap()
                .to_owned();
        }
    }
    report
}

/// Appraises in every combination and requires one outcome.
fn assert_same_in_every_combination(
    name: &str,
    document: &[u8],
    anchor: &TrustAnchor,
    at: UnixMillis,
    shared: &mut SignatureMemory,
) {
    let plain = Appraisal::of(document).inspect(anchor, at);
    for row in plain.checks.iter().filter(|row| row.id == 14) {
        assert!(!row.observed.contains("remembered") && !row.observed.contains("platform"));
    }
    // With a shared memory, which remembers all earlier documents, and then this one too.
    for round in ["first", "again"] {
        let report = Appraisal::of(document)
            .with_memory(shared)
            .inspect(anchor, at);
        assert_eq!(alike(report), plain, "{name}, {round}");
    }
    // Computed elsewhere, with a fresh memory and with the shared one.
    let mut own = SignatureMemory::new();
    vouch_for_valid_signatures(document, anchor, at, &mut own);
    let report = Appraisal::of(document)
        .with_memory(&mut own)
        .inspect(anchor, at);
    assert_eq!(alike(report), plain, "{name}, vouched for");
    vouch_for_valid_signatures(document, anchor, at, shared);
    let report = Appraisal::of(document)
        .with_memory(shared)
        .inspect(anchor, at);
    assert_eq!(alike(report), plain, "{name}, vouched for in company");
}

fn verify(
    fixture: &Fixture,
    document: &[u8],
    manifest: &[u8],
    memory: &mut SignatureMemory,
) -> (AttestationReport, Conclusion) {
    Appraisal::of(document)
        .with_manifest(manifest)
        .with_memory(memory)
        .verify(&fixture.policy, fixture.live())
}

#[test]
fn every_forged_document_is_judged_alike_whatever_is_known() {
    let fixture = Fixture::new();
    let mut shared = SignatureMemory::new();
    // Most forgeries share the unchanged chain, so accepting a part for the whole would be easiest there.
    Appraisal::of(&fixture.document())
        .with_memory(&mut shared)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(shared.len(), 4);
    for vector in forge::vectors() {
        let document = fixture.forged(vector.apply);
        assert_same_in_every_combination(vector.name, &document, &fixture.anchor, NOW, &mut shared);
    }
}

#[test]
fn every_shared_vector_is_judged_alike_whatever_is_known() {
    let Some(vectors) = common::vectors() else {
        return;
    };
    let mut shared = SignatureMemory::new();
    for (file, document, anchor, at) in common::nitro_documents(&vectors) {
        assert_same_in_every_combination(&file, &document, &anchor, at, &mut shared);
        assert!(shared.len() <= SignatureMemory::CAPACITY);
    }
}

#[test]
fn a_known_chain_leaves_the_documents_own_signature_to_compute() {
    let fixture = Fixture::new();
    let mut memory = SignatureMemory::new();
    let document = fixture.document();
    let pending = pending_signatures(&document, &fixture.anchor, NOW, &memory);
    assert_eq!(pending.len(), 5);
    assert!(pending.iter().all(is_right));

    let cold = Appraisal::of(&document)
        .with_memory(&mut memory)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(
        row(&cold.checks, 14).observed,
        "4 signatures, ECDSA P-384 with SHA-384"
    );
    // Another document of the same enclave: the chain is known, its own signature is not.
    let next = fixture.forged(|f| f.contents.nonce = Some(vec![9; 32]));
    assert_eq!(
        pending_signatures(&next, &fixture.anchor, NOW, &memory).len(),
        1
    );
    let warm = Appraisal::of(&next)
        .with_memory(&mut memory)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(
        row(&warm.checks, 14).observed,
        "4 signatures, ECDSA P-384 with SHA-384; 4 remembered"
    );
    assert_eq!(
        row(&warm.checks, 21).observed,
        "ES384 signature by the leaf's key"
    );
    assert_eq!(
        pending_signatures(&document, &fixture.anchor, NOW, &memory).len(),
        1
    );
    memory.clear();
    assert_eq!(
        pending_signatures(&document, &fixture.anchor, NOW, &memory).len(),
        5
    );
}

#[test]
fn vouched_signatures_are_reported_and_count_once() {
    let fixture = Fixture::new();
    let (document, manifest) = (fixture.document(), fixture.manifest.encode().unwrap());
    let mut memory = SignatureMemory::new();
    assert_eq!(
        vouch_for_valid_signatures(&document, &fixture.anchor, NOW, &mut memory),
        5
    );
    let (report, verified) = verify(&fixture, &document, &manifest, &mut memory);
    assert_eq!(report.verdict, Verdict::Simulated, "{:?}", report.message);
    assert!(verified.including_simulated().is_some());
    assert_eq!(
        row(&report.checks, 14).observed,
        "4 signatures, ECDSA P-384 with SHA-384; 4 computed by the platform"
    );
    assert_eq!(
        row(&report.checks, 21).observed,
        "ES384 signature by the leaf's key, computed by the platform"
    );
    let (report, _) = verify(&fixture, &document, &manifest, &mut memory);
    assert!(row(&report.checks, 14).observed.ends_with("; 4 remembered"));
    assert_eq!(
        row(&report.checks, 21).observed,
        "ES384 signature by the leaf's key"
    );
}

/// Vouched signatures are cleared after one appraisal, whatever its verdict.
#[test]
fn vouched_signatures_are_valid_for_one_appraisal() {
    let fixture = Fixture::new();
    let document = fixture.document();
    let stale = UnixMillis(NOW.0 + 100_000_000_000);
    type Judge<'a> = &'a dyn Fn(&mut SignatureMemory);
    let (manifest, policy) = (fixture.manifest.encode().unwrap(), &fixture.policy);
    let in_between: [Judge<'_>; 4] = [
        &|memory| {
            drop(
                Appraisal::of(b"")
                    .with_memory(memory)
                    .inspect(&fixture.anchor, NOW),
            );
        },
        &|memory| {
            drop(
                Appraisal::of(&document)
                    .with_memory(memory)
                    .inspect(&fixture.anchor, stale),
            );
        },
        &|memory| drop(verify(&fixture, b"", &manifest, memory)),
        &|memory| {
            drop(
                Appraisal::of(&document)
                    .with_memory(memory)
                    .verify(policy, Freshness::Audit { time: stale }),
            );
        },
    ];
    for judge in in_between {
        let mut memory = SignatureMemory::new();
        vouch_for_valid_signatures(&document, &fixture.anchor, NOW, &mut memory);
        judge(&mut memory);
        assert_eq!(
            pending_signatures(&document, &fixture.anchor, NOW, &memory).len(),
            5
        );
        assert!(memory.is_empty());
    }
}

/// Remembered signatures never replace the checks of root, names and validity.
#[test]
fn a_known_chain_is_still_checked_for_root_and_validity() {
    let fixture = Fixture::new();
    let document = fixture.document();
    let mut memory = SignatureMemory::new();
    let leaf = Appraisal::of(&document)
        .with_memory(&mut memory)
        .inspect(&fixture.anchor, NOW)
        .chain
        .pop()
        .unwrap();
    for (at, code) in [
        (leaf.not_before - 1, Some("CERTIFICATE_NOT_YET_VALID")),
        (leaf.not_before, None),
        (leaf.not_after, None),
        (leaf.not_after + 1, Some("CERTIFICATE_EXPIRED")),
    ] {
        let at = UnixMillis::from_seconds(at);
        let report = Appraisal::of(&document)
            .with_memory(&mut memory)
            .inspect(&fixture.anchor, at);
        assert_eq!(report.code.as_deref(), code, "{at}");
    }
    let other = TrustAnchor::aws_nitro_g1();
    let report = Appraisal::of(&document)
        .with_memory(&mut memory)
        .inspect(&other, NOW);
    assert_eq!(report.code.as_deref(), Some("ROOT_NOT_PINNED"));
    assert_eq!(row(&report.checks, 14).state, RowState::NotRun);
    assert!(pending_signatures(&document, &other, NOW, &memory).is_empty());
}

#[test]
fn a_known_signature_does_not_count_for_another_message() {
    let fixture = Fixture::new();
    let mut memory = SignatureMemory::new();
    Appraisal::of(&fixture.document())
        .with_memory(&mut memory)
        .inspect(&fixture.anchor, NOW);
    // Changes one byte of the serial number. The old signature follows it unchanged.
    let document = fixture.forged(|f| {
        f.cabundle = None;
        f.links[4].spec.after_signing = Some(|der| {
            // [30 82 hh ll] [30 82 hh ll] [a0 03 02 01 02] [02 len serial…]
            der[20] ^= 1;
        });
    });
    let report = Appraisal::of(&document)
        .with_memory(&mut memory)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(
        report.code.as_deref(),
        Some("CHAIN_SIGNATURE"),
        "{:?}",
        report.message
    );
    assert_eq!(memory.len(), 4, "nothing of a refused chain is kept");
}

#[test]
fn a_forged_chain_of_any_length_names_a_bounded_number_of_signatures() {
    let fixture = Fixture::new();
    let document = fixture.forged(|f| {
        // Without path lengths only the signatures stop a long chain.
        for link in &mut f.links[1..4] {
            let value = forge::der::sequence(&[&[1, 1, 0xff]]);
            let constraints = forge::der::extension(forge::der::BASIC_CONSTRAINTS, true, &value);
            link.spec
                .set_extension(forge::der::BASIC_CONSTRAINTS, Some(constraints));
        }
        while f.links.len() < 20 {
            let at = f.links.len() - 1;
            let mut link = f.links[at - 1].clone();
            let name = format!("{at}.dev-local-1.aws.nitro-enclaves");
            link.spec.issuer.clone_from(&f.links[at - 1].spec.subject);
            link.spec.subject = forge::der::name(&[(forge::der::COMMON_NAME, &name)]);
            link.signed_by = at - 1;
            f.links[at].spec.issuer.clone_from(&link.spec.subject);
            f.links[at].signed_by = at;
            f.signed_by = at + 1;
            f.links.insert(at, link);
        }
    });
    let mut memory = SignatureMemory::new();
    let pending = pending_signatures(&document, &fixture.anchor, NOW, &memory);
    assert_eq!(pending.len(), MAX_PENDING);
    pending.iter().for_each(|signature| memory.vouch(signature));
    let report = Appraisal::of(&document)
        .with_memory(&mut memory)
        .inspect(&fixture.anchor, NOW);
    assert_eq!(report.verdict, Verdict::Authentic, "{:?}", report.message);
    assert!(
        row(&report.checks, 14)
            .observed
            .starts_with("19 signatures")
    );
    assert!(
        row(&report.checks, 14)
            .observed
            .ends_with("; 10 computed by the platform")
    );
}
