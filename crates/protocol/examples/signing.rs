//! Measures the cost of a receipt: `cargo run --release -p protocol --example signing`.

use std::io::Write;
use std::time::Instant;

use attestation::ReceiptKey;
use merkle::tree::{Frontier, receipt_hash};
use merkle::verify::Tree;
use protocol::receipt::{Expectations, ReceiptSigner, verify};

const ROUNDS: usize = 2_000;

fn main() -> std::io::Result<()> {
    let signer = ReceiptSigner::generate(&mut fixtures::rng(1));
    let mut claims = fixtures::receipt::claims();
    claims.model_id = "sentence-transformers/all-MiniLM-L6-v2".into();
    claims.model_version = "fused-f32-avx512".into();
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
