//! Proofs of single vectors: each proves its own item, and no other item.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use attestation::SignatureMemory;
use fixtures::enclave::{Enclave, NOW, request};
use protocol::bundle::AuditBundle;
use protocol::exchange::begin;
use protocol::inner::InnerRequest;
use protocol::items::{Evidence, Input, ItemsError, VectorProof, prove};
use serde_json::json;

const TEXTS: [&str; 5] = ["one", "two", "three", "", "five"];

struct Fixture {
    enclave: Enclave,
    bundle: AuditBundle,
    vectors: Vec<Vec<f32>>,
}

impl Fixture {
    /// An answer with a vector for each of the first texts.
    fn new(count: usize) -> Self {
        let mut enclave = Enclave::start(31);
        let vectors: Vec<Vec<f32>> = (0..count)
            .map(|index| vec![0.1 + index as f32, -1.0 / 3.0, f32::MIN_POSITIVE])
            .collect();
        let attested = enclave.attested();
        let asked = InnerRequest {
            content: json!({"input": TEXTS[..count]}).to_string().into_bytes(),
            ..request()
        };
        let (sealed, pending) = begin(&attested, asked, NOW, &mut enclave.rng).unwrap();
        let answer = enclave.answer_with_items(&sealed, &vectors);
        let answer = pending.finish(&answer, NOW).unwrap();
        let bundle = enclave.bundle(&answer, true);
        Self {
            enclave,
            bundle,
            vectors,
        }
    }

    /// Code of the verification; empty if the item was accepted.
    fn judge(
        &self,
        evidence: &Evidence,
        proof: &VectorProof,
        text: &str,
        vector: &[f32],
    ) -> String {
        let mut memory = SignatureMemory::new();
        let input = Input::Text(text);
        match evidence.verify(proof, input, vector, &self.enclave.policy, &mut memory) {
            Ok(report) => report.receipt.code.unwrap_or_default(),
            Err(error) => error.code().to_owned(),
        }
    }
}

#[test]
fn every_item_is_shown_by_its_own_proof_alone() {
    for count in 1..=TEXTS.len() {
        let fixture = Fixture::new(count);
        let (evidence, proofs) = prove(&fixture.bundle).unwrap();
        assert_eq!(evidence.count, count as u64);
        for (index, proof) in proofs.iter().enumerate() {
            for (other, text) in TEXTS.iter().enumerate().take(count) {
                let code = fixture.judge(&evidence, proof, text, &fixture.vectors[other]);
                let expected = match other == index {
                    true => "",
                    false => "RESPONSE_HASH_MISMATCH",
                };
                assert_eq!(code, expected, "{count} items, proof {index}, item {other}");
            }
        }
    }
}

#[test]
fn lines_of_a_file_survive_the_round_trip() {
    let fixture = Fixture::new(3);
    let (evidence, proofs) = prove(&fixture.bundle).unwrap();
    let evidence = Evidence::from_json(&evidence.to_json()).unwrap();
    for (index, proof) in proofs.iter().enumerate() {
        let proof = VectorProof::from_json(&proof.to_json()).unwrap();
        let code = fixture.judge(&evidence, &proof, TEXTS[index], &fixture.vectors[index]);
        assert_eq!(code, "");
        assert!(Evidence::from_json(&proof.to_json()).is_err());
    }
    for bad in [
        String::new(),
        "{}".to_owned(),
        evidence.to_json().replace("evidence/1", "evidence/2"),
        evidence
            .to_json()
            .replace("\"count\":3", "\"count\":3,\"x\":1"),
        evidence
            .to_json()
            .replace("\"content_hash\":\"", "\"content_hash\":\"AA"),
    ] {
        assert_eq!(Evidence::from_json(&bad).err(), Some(ItemsError::Malformed));
    }
}

#[test]
fn every_change_is_refused() {
    let fixture = Fixture::new(3);
    let (evidence, proofs) = prove(&fixture.bundle).unwrap();
    let (proof, vector) = (&proofs[1], &fixture.vectors[1]);
    let changed = |change: fn(&mut VectorProof)| {
        let mut changed = proof.clone();
        change(&mut changed);
        fixture.judge(&evidence, &changed, TEXTS[1], vector)
    };
    for (code, change) in [
        (
            "RESPONSE_HASH_MISMATCH",
            (|proof| proof.salt[0] ^= 1) as fn(&mut VectorProof),
        ),
        ("RESPONSE_HASH_MISMATCH", |proof| proof.path[0][0] ^= 1),
        ("RESPONSE_HASH_MISMATCH", |proof| proof.path.swap(0, 1)),
        ("RESPONSE_HASH_MISMATCH", |proof| proof.read.tokens += 1),
        ("RESPONSE_HASH_MISMATCH", |proof| {
            proof.read.truncated = false;
        }),
        ("RESPONSE_HASH_MISMATCH", |proof| proof.index = 0),
        ("LEAF_OUTSIDE_TREE", |proof| proof.index = 3),
        ("PROOF_LENGTH", |proof| proof.path.truncate(1)),
        ("PROOF_OTHER_EVIDENCE", |proof| {
            proof.evidence.replace_range(..1, "x");
        }),
    ] {
        assert_eq!(changed(change), code);
    }
    let of = |change: fn(&mut Evidence)| {
        let mut evidence = evidence.clone();
        change(&mut evidence);
        let proof = VectorProof {
            evidence: evidence.id(),
            ..proof.clone()
        };
        fixture.judge(&evidence, &proof, TEXTS[1], vector)
    };
    assert_eq!(
        of(|evidence| evidence.content_hash[0] ^= 1),
        "RESPONSE_HASH_MISMATCH"
    );
    assert_eq!(of(|evidence| evidence.count = 4), "RESPONSE_HASH_MISMATCH");
    let last = evidence.receipt.len() - 1;
    let mut forged = evidence.clone();
    forged.receipt[last] ^= 1;
    let proof = VectorProof {
        evidence: forged.id(),
        ..proof.clone()
    };
    assert_eq!(
        fixture.judge(&forged, &proof, TEXTS[1], vector),
        "SIG_FAILED"
    );
}

#[test]
fn an_answer_that_contradicts_its_root_gives_no_proofs() {
    let mut fixture = Fixture::new(2);
    let content = fixture.bundle.content.as_mut().unwrap();
    let text = String::from_utf8(content.response.clone()).unwrap();
    content.response = text.replace("\"tokens\":3", "\"tokens\":4").into_bytes();
    assert_eq!(prove(&fixture.bundle).err(), Some(ItemsError::Root));
    fixture.bundle.content = None;
    assert_eq!(prove(&fixture.bundle).err(), Some(ItemsError::Absent));
}

#[test]
fn an_answer_without_items_is_committed_to_as_a_whole() {
    let mut enclave = Enclave::start(32);
    let answer = enclave.exchange();
    assert!(answer.receipt.is_some());
    let bundle = enclave.bundle(&answer, true);
    assert_eq!(prove(&bundle).err(), Some(ItemsError::Absent));
}
