//! The Nitro Secure Module, which signs attestation documents: the device, or a simulation.

use std::collections::BTreeMap;

use attestation::{AttestationDocument, CheckLog, UnixMillis};

pub mod device;
pub mod simulated;
mod validity;

pub use device::DeviceNsm;
pub use simulated::SimulatedNsm;
pub use validity::{Validity, ValidityReader};

/// SHA-384 measurement.
pub type Pcr = [u8; 48];

/// Fields of a document in addition to the measurements.
#[derive(Clone, Copy, Debug)]
pub struct AttestRequest<'a> {
    /// The client's nonce, 16..=512 bytes.
    pub nonce: &'a [u8],
    /// Binding of the service manifest, up to 512 bytes.
    pub user_data: &'a [u8],
    /// X25519 sealing key, up to 1,024 bytes.
    pub public_key: &'a [u8],
}

/// Signs attestation documents. Calls block for milliseconds, so keep them off the async runtime.
pub trait Nsm: Send + Sync {
    /// A signed document, 1..=16,384 bytes.
    ///
    /// # Errors
    /// [`NsmError`] with a stable code.
    fn attest(&self, request: &AttestRequest<'_>) -> Result<Vec<u8>, NsmError>;

    /// Random bytes of the module, to mix with those of the kernel.
    ///
    /// # Errors
    /// [`NsmError`] with a stable code.
    fn random(&self) -> Result<[u8; 32], NsmError>;

    /// The module's time, read from a document that is made for this and then discarded.
    ///
    /// # Errors
    /// [`NsmError`] with a stable code.
    fn time(&self) -> Result<UnixMillis, NsmError> {
        let document = self.attest(&AttestRequest {
            nonce: &[0; 16],
            user_data: b"clearseal/1 time",
            public_key: &[0],
        })?;
        let parsed = AttestationDocument::parse(&document, &mut CheckLog::new());
        let parsed = parsed.map_err(|_| NsmError::Answer {
            what: "a document that cannot be read",
        })?;
        Ok(parsed.claims().timestamp)
    }

    /// The measurements in the documents.
    fn pcrs(&self) -> &BTreeMap<u8, Pcr>;

    /// Root certificate (DER) of a simulation; `None` for a device.
    fn development_root(&self) -> Option<&[u8]>;

    /// Whether this is a simulation, whose documents prove nothing.
    fn is_simulated(&self) -> bool {
        self.development_root().is_some()
    }
}

/// Errors of the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum NsmError {
    /// There is no device.
    #[error("/dev/nsm cannot be opened, so this is not a Nitro enclave")]
    #[coded(
        "NSM_MISSING",
        remedy = "Start the server inside one, or pass --simulate-nsm to try things out."
    )]
    Missing,
    /// The length of a field is outside the module's bounds.
    #[error("{field} has {length} bytes, allowed are {min} to {max}")]
    #[coded("NSM_FIELD_SIZE", remedy = "Send a field of an allowed length.")]
    FieldSize {
        /// Name of the field.
        field: &'static str,
        /// Its length.
        length: usize,
        /// Shortest allowed.
        min: usize,
        /// Longest allowed.
        max: usize,
    },
    /// The module refused or failed.
    #[error("the Nitro Secure Module answered {code}")]
    #[coded("NSM_REFUSED", remedy = "Restart the enclave if it stays.")]
    Refused {
        /// The module's own code.
        code: &'static str,
    },
    /// The module's answer does not fit the request.
    #[error("the Nitro Secure Module sent {what}")]
    #[coded("NSM_ANSWER_INVALID", remedy = "Restart the enclave if it stays.")]
    Answer {
        /// The fault.
        what: &'static str,
    },
    /// The simulation failed.
    #[error("the simulation failed: {0}")]
    #[coded(
        "NSM_SIMULATION_FAILED",
        remedy = "Report this as a defect of the simulation."
    )]
    Simulation(String),
}

/// Checks the lengths of the fields, so that both implementations refuse the same.
pub(crate) fn check_lengths(request: &AttestRequest<'_>) -> Result<(), NsmError> {
    for (field, value, min, max) in [
        ("nonce", request.nonce, 16, 512),
        ("user_data", request.user_data, 1, 512),
        ("public_key", request.public_key, 1, 1024),
    ] {
        if !(min..=max).contains(&value.len()) {
            return Err(NsmError::FieldSize {
                field,
                length: value.len(),
                min,
                max,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked_at_both_ends() {
        let good = AttestRequest {
            nonce: &[0; 16],
            user_data: &[0; 32],
            public_key: &[0; 32],
        };
        assert_eq!(check_lengths(&good), Ok(()));
        for bad in [
            AttestRequest {
                nonce: &[0; 15],
                ..good
            },
            AttestRequest {
                nonce: &[0; 513],
                ..good
            },
            AttestRequest {
                user_data: &[],
                ..good
            },
            AttestRequest {
                user_data: &[0; 513],
                ..good
            },
            AttestRequest {
                public_key: &[0; 1025],
                ..good
            },
        ] {
            assert!(matches!(
                check_lengths(&bad),
                Err(NsmError::FieldSize { .. })
            ));
        }
    }
}
