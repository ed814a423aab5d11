//! What a receipt costs: `cargo run --release -p protocol --example signing`.

use std::io::Write;
use std::time::Instant;

use attestation::{HashScheme, ReceiptKey, SecurityMode};
use merkle::tree::{Frontier, receipt_hash};
use merkle::verify::Tree;
use protocol::receipt::{
    Expectations, Measurements, Platform, ReceiptClaims, ReceiptSigner, verify,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

const ROUNDS: usize = 2_000;

fn main() -> std::io::Result<()> {
    let signer = ReceiptSigner::generate(&mut ChaCha20Rng::from_seed([1; 32]));
    let mut claims = claims();
    let receipt = signer.sign(&claims);
    let expectations =
        Expectations::dangerous_unattested(ReceiptKey::dangerous_unattested(signer.public_key()));
    let mut out = std::io::stdout().lock();
    let mut frontier = Frontier::new();
    report(&mut out, "sign a receipt", || drop(signer.sign(&claims)))?;
    report(&mut out, "sign it and append it to the log", || {
        claims.sequence_number = frontier.size();
        frontier.append(&receipt_hash(&signer.sign(&claims)), |_, _| ());
    })?;
    report(&mut out, "sign a tree head", || {
        let tree = Tree {
            size: frontier.size(),
            root: frontier.root(),
        };
        drop(signer.sign_head(tree, claims.issued_at, claims.document_hash));
    })?;
    report(&mut out, "verify a receipt, all layers", || {
        drop(verify(&receipt, &expectations, None));
    })?;
    writeln!(out, "{} bytes a receipt", receipt.len())
}

fn report(out: &mut impl Write, what: &str, mut act: impl FnMut()) -> std::io::Result<()> {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            act();
            started.elapsed()
        })
        .collect();
    times.sort();
    let (least, median) = (times[0], times[times.len() / 2]);
    writeln!(out, "{what:<34} {least:>9.1?} least, {median:>9.1?} median")
}

fn claims() -> ReceiptClaims {
    ReceiptClaims {
        issuer: "clearseal".into(),
        issued_at: 1_795_183_380,
        id: [9; 16],
        nonce: Some(vec![4; 32]),
        model_id: "sentence-transformers/all-MiniLM-L6-v2".into(),
        model_version: "candle-f32".into(),
        model_hash: [5; 32],
        model_hash_scheme: Some(HashScheme::Sha256Manifest),
        request_hash: [6; 32],
        response_hash: [7; 32],
        document_hash: [8; 32],
        measurements: Measurements {
            platform: Platform::NitroPcr,
            pcr0: [1; 48],
            pcr1: [2; 48],
            pcr2: [3; 48],
            pcr3: None,
            pcr4: Some([4; 48]),
            pcr8: None,
        },
        policy_version: "2026-11-01".into(),
        sequence_number: 0,
        execution_time_ms: 7,
        memory_peak_mb: 170,
        security_mode: SecurityMode::Production,
    }
}
