//! Receipts for answers (AIR v1).

use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use getrandom::SysRng;
use protocol::receipt::{Measurements, Platform, ReceiptClaims};
use rand_core::TryRng;

use super::Service;
use crate::keys::Generation;
use crate::nsm::Validity;

/// What a receipt is about.
pub(super) struct Subject {
    pub(super) request_hash: [u8; 32],
    pub(super) response_hash: [u8; 32],
    pub(super) document_hash: [u8; 32],
    pub(super) nonce: Option<Vec<u8>>,
    /// For which moments that document is good.
    pub(super) validity: Validity,
    pub(super) execution: Duration,
}

/// Why no receipt was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiptError {
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes ({0})")]
    Random(getrandom::Error),
    /// An auditor would refuse it: the manifest or a certificate is over.
    #[error("the keys or the client's attestation document are over")]
    Over,
}

impl Service {
    /// A signed receipt in base64url, ready for its header.
    pub(super) fn receipt(
        &self,
        generation: &Generation,
        subject: Subject,
    ) -> Result<String, ReceiptError> {
        let mut id = [0; 16];
        SysRng
            .try_fill_bytes(&mut id)
            .map_err(ReceiptError::Random)?;
        let issued_at = generation
            .stated_time(self.now(), subject.validity)
            .ok_or(ReceiptError::Over)?;
        let description = self.keys.description();
        // Unsigned, but for its number, before the log is locked: what happens under its lock is only hashing and signing.
        let mut claims = ReceiptClaims {
            issuer: ISSUER.to_owned(),
            issued_at,
            id,
            nonce: subject.nonce,
            model_id: description.model.id.clone(),
            model_version: description.model.version.clone(),
            model_hash: description.model.sha256,
            model_hash_scheme: Some(description.model.hash_scheme),
            request_hash: subject.request_hash,
            response_hash: subject.response_hash,
            document_hash: subject.document_hash,
            measurements: self.measurements.clone(),
            policy_version: description.policy_version.clone(),
            sequence_number: 0,
            execution_time_ms: stated_millis(subject.execution),
            memory_peak_mb: self.memory.stated_peak_mib(),
            security_mode: description.security_mode,
        };
        // Counts up by one a receipt over the life of the key, so that a missing one leaves a gap; and is its place in the log.
        let receipt = generation.log.issue(|number| {
            claims.sequence_number = number;
            generation.receipts.sign(&claims)
        });
        self.host.note_receipt(self.now().steady);
        Ok(Base64UrlUnpadded::encode_string(&receipt))
    }
}

/// Milliseconds, rounded up to a power of two. The exact time grows with the text, and a receipt may be shown to others, to whom it
/// is to say nothing of the text; the client has measured more exactly how long it waited.
fn stated_millis(execution: Duration) -> u64 {
    let millis = execution.as_nanos().div_ceil(1_000_000).max(1);
    u64::try_from(millis.next_power_of_two()).unwrap_or(u64::MAX)
}

/// What receipts say of the measurements, from the registers of the module.
pub(super) fn measurements(pcrs: &std::collections::BTreeMap<u8, crate::nsm::Pcr>) -> Measurements {
    let required = |index| pcrs.get(&index).copied().unwrap_or([0; 48]);
    // A register that was never extended says nothing.
    let optional = |index| pcrs.get(&index).copied().filter(|pcr| *pcr != [0; 48]);
    Measurements {
        platform: Platform::NitroPcr,
        pcr0: required(0),
        pcr1: required(1),
        pcr2: required(2),
        pcr3: optional(3),
        pcr4: optional(4),
        pcr8: optional(8),
    }
}

const ISSUER: &str = "clearseal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_stated_as_a_power_of_two() {
        for (micros, stated) in [
            (0, 1),
            (1, 1),
            (1_000, 1),
            (1_001, 2),
            (2_001, 4),
            (5_000, 8),
            (30_000_000, 32_768),
        ] {
            let execution = Duration::from_micros(micros);
            assert_eq!(stated_millis(execution), stated, "{micros} µs");
        }
    }
}
