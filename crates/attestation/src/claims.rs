//! The contents of an attestation document.

use std::collections::BTreeMap;

use crate::time::UnixMillis;

/// Contents of a document. Only as trustworthy as the stage that they were taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Name of the enclave: `i-…-enc…`.
    pub module_id: String,
    /// When the hypervisor made the document.
    pub timestamp: UnixMillis,
    /// Measurements: platform configuration registers by index, 0 to 31.
    pub pcrs: BTreeMap<u8, [u8; 48]>,
    /// DER of the certificate whose key signed the document.
    pub certificate: Vec<u8>,
    /// DER of the issuing certificates, root first.
    pub cabundle: Vec<Vec<u8>>,
    /// Key that the enclave supplied; `None` if the document says null.
    pub public_key: Option<Vec<u8>>,
    /// Bytes that the enclave supplied.
    pub user_data: Option<Vec<u8>>,
    /// Bytes that the requester supplied.
    pub nonce: Option<Vec<u8>>,
}

impl Claims {
    /// PCR0, 1 or 2 is all zero: the enclave was started with its console open.
    pub fn debug_mode(&self) -> bool {
        (0..3).any(|index| self.pcrs.get(&index) == Some(&[0; 48]))
    }
}
