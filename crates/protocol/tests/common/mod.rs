//! Helpers of the test files; each of them uses a part.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use attestation::{HashScheme, SecurityMode};
use protocol::receipt::{Measurements, Platform, ReceiptClaims};
use rand_chacha::ChaCha20Rng;
use rand_core::{Infallible, SeedableRng, TryCryptoRng, TryRng};

/// Unix seconds of [`claims`].
pub const NOW: u64 = 1_795_183_380;

/// A receipt's claims with every optional claim that an enclave can set.
pub fn claims() -> ReceiptClaims {
    ReceiptClaims {
        issuer: "clearseal".into(),
        issued_at: NOW,
        id: [9; 16],
        nonce: Some(vec![4; 32]),
        model_id: "all-MiniLM-L6-v2".into(),
        model_version: "1".into(),
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
        sequence_number: 41,
        execution_time_ms: 7,
        memory_peak_mb: 300,
        security_mode: SecurityMode::Production,
    }
}

pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Returns given bytes as random ones, and panics when they run out.
pub struct Script(Vec<u8>);

impl Script {
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().rev().copied().collect())
    }
}

impl TryRng for Script {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("bytes only")
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("bytes only")
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill_with(|| self.0.pop().expect("the script is long enough"));
        Ok(())
    }
}

impl TryCryptoRng for Script {}
