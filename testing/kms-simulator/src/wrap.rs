//! Wraps data keys under the simulated key: AES-256-GCM, with the encryption context as associated data.

use std::collections::BTreeMap;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use rand_core::CryptoRng;

/// An encryption context: values by name.
pub type Context = BTreeMap<String, String>;

/// The key that wraps data keys, and never leaves KMS.
pub struct MasterKey(Aes256Gcm);

impl MasterKey {
    /// A key of 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(Aes256Gcm::new(bytes.into()))
    }

    /// Encrypts a data key: `nonce ‖ ciphertext ‖ tag`.
    pub fn wrap(
        &self,
        data_key: &[u8],
        context: &Context,
        rng: &mut impl CryptoRng,
    ) -> Option<Vec<u8>> {
        let mut nonce = [0; 12];
        rng.fill_bytes(&mut nonce);
        let aad = associated_data(context);
        let payload = Payload {
            msg: data_key,
            aad: &aad,
        };
        let sealed = self.0.encrypt(&Nonce::from(nonce), payload).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Decrypts a data key; `None` for another key, another context, or changed bytes.
    pub fn unwrap(&self, blob: &[u8], context: &Context) -> Option<Vec<u8>> {
        let (nonce, sealed) = blob.split_first_chunk::<12>()?;
        let aad = associated_data(context);
        let payload = Payload {
            msg: sealed,
            aad: &aad,
        };
        self.0.decrypt(&Nonce::from(*nonce), payload).ok()
    }
}

/// Encodes a context unambiguously: as JSON of a sorted map.
fn associated_data(context: &Context) -> Vec<u8> {
    serde_json::to_vec(context).unwrap_or_default()
}
