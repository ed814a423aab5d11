//! Receipts for answers (AIR v1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use attestation::ModelIdentity;
use base64ct::{Base64UrlUnpadded, Encoding};
use getrandom::SysRng;
use protocol::receipt::{Measurements, Platform, ReceiptClaims};
use rand_core::TryRng;

use super::service::Service;
use crate::keys::Generation;
use crate::memory::PeakMemory;
use crate::nsm::{Pcr, Validity};

/// Claims of a receipt that differ from request to request.
pub(super) struct ReceiptSubject {
    /// The model that answered.
    pub(super) model: Arc<ModelIdentity>,
    pub(super) request_hash: [u8; 32],
    pub(super) response_hash: [u8; 32],
    pub(super) document_hash: [u8; 32],
    pub(super) nonce: Option<Vec<u8>>,
    pub(super) document_validity: Validity,
    pub(super) execution: Duration,
}

/// Why a receipt could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiptError {
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes ({0})")]
    Random(getrandom::Error),
    /// The manifest or a certificate has ended, so an auditor would refuse the receipt.
    #[error("the keys or the client's attestation document are over")]
    Over,
}

/// Claims that come from the platform.
pub(super) struct ReceiptContext {
    measurements: Measurements,
    memory: PeakMemory,
}

impl ReceiptContext {
    pub(super) fn new(pcrs: &BTreeMap<u8, Pcr>) -> Self {
        Self {
            measurements: measurements(pcrs),
            memory: PeakMemory::new(),
        }
    }

    /// See [`PeakMemory::rounded_peak_mib`].
    pub(super) fn rounded_peak_mib(&self) -> u64 {
        self.memory.rounded_peak_mib()
    }
}

impl Service {
    /// Signs a receipt and returns it in base64url, as its header carries it.
    pub(super) fn receipt(
        &self,
        generation: &Generation,
        subject: ReceiptSubject,
    ) -> Result<String, ReceiptError> {
        let mut id = [0; 16];
        SysRng
            .try_fill_bytes(&mut id)
            .map_err(ReceiptError::Random)?;
        let issued_at = generation
            .stated_time(self.now(), subject.document_validity)
            .ok_or(ReceiptError::Over)?;
        let description = self.keys.description();
        // Complete except for the number. Only hashing and signing happen while the log is locked.
        let mut claims = ReceiptClaims {
            issuer: ISSUER.to_owned(),
            issued_at,
            id,
            nonce: subject.nonce,
            model_id: subject.model.id.clone(),
            model_version: subject.model.version.clone(),
            model_hash: subject.model.sha256,
            model_hash_scheme: Some(subject.model.hash_scheme),
            request_hash: subject.request_hash,
            response_hash: subject.response_hash,
            document_hash: subject.document_hash,
            measurements: self.receipts.measurements.clone(),
            policy_version: description.policy_version.clone(),
            sequence_number: 0,
            execution_time_ms: round_up_millis(subject.execution),
            memory_peak_mb: self.receipts.rounded_peak_mib(),
            security_mode: description.security_mode,
        };
        // The number rises by one with each receipt of the key, so that a missing receipt leaves a gap. It is also the place in the log.
        let receipt = generation.log.issue(|number| {
            claims.sequence_number = number;
            generation.receipts.sign(&claims)
        });
        self.log_host.record_receipt(self.now().steady);
        Ok(Base64UrlUnpadded::encode_string(&receipt))
    }
}

/// Rounds up to a power of two, in milliseconds. The exact time grows with the text, and a receipt must reveal nothing of the text
/// to those it is shown to. The client itself has measured more exactly how long it waited.
fn round_up_millis(execution: Duration) -> u64 {
    let millis = execution.as_nanos().div_ceil(1_000_000).max(1);
    u64::try_from(millis.next_power_of_two()).unwrap_or(u64::MAX)
}

/// The module's registers in the form of receipts.
fn measurements(pcrs: &BTreeMap<u8, Pcr>) -> Measurements {
    let required = |index| pcrs.get(&index).copied().unwrap_or([0; 48]);
    // A register that was never extended measures nothing.
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
            assert_eq!(round_up_millis(execution), stated, "{micros} µs");
        }
    }
}
