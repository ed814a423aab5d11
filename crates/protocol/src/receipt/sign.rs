//! The enclave's half: signing.

use attestation::cbor::Writer;
use coset::{CoseSign1, ProtectedHeader};
use merkle::head::TreeHead;
use merkle::verify::Tree;
use provider::ed25519::SigningKey;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::claims::ReceiptClaims;
use super::{COSE_SIGN1, PROTECTED};

/// Holds the receipt key. No `Debug`, no `Clone`; zeroized when dropped.
pub struct ReceiptSigner {
    key: SigningKey,
}

impl ReceiptSigner {
    /// Generates a fresh key.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        Self {
            key: SigningKey::from_seed(&seed),
        }
    }

    /// The public half, for the service manifest.
    pub fn public_key(&self) -> [u8; 32] {
        self.key.public_key()
    }

    /// Signs `claims`: a tagged COSE_Sign1 in deterministic CBOR (RFC 9052 §4.2).
    ///
    /// Does not check the claims: the caller ensures that they are true and have allowed values.
    pub fn sign(&self, claims: &ReceiptClaims) -> Vec<u8> {
        let envelope = CoseSign1 {
            protected: ProtectedHeader {
                original_data: Some(PROTECTED.to_vec()),
                ..ProtectedHeader::default()
            },
            payload: Some(claims.encode()),
            ..CoseSign1::default()
        };
        let signature = self.key.sign(&envelope.tbs_data(b""));
        let mut receipt = Writer::new();
        receipt
            .tag(COSE_SIGN1)
            .array(4)
            .bytes(PROTECTED)
            .map(0)
            .bytes(envelope.payload.as_deref().unwrap_or_default())
            .bytes(&signature);
        receipt.finish()
    }

    /// Signs keys that were generated after the manifest, for the client with the hash `context` of its bytes.
    pub(crate) fn endorse(&self, context: &[u8; 32], key_list: &[u8]) -> [u8; 64] {
        self.sign_message(&attestation::endorsement_message(context, key_list))
    }

    /// Signs a message with a label that no other signature under this key uses.
    pub(crate) fn sign_message(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message)
    }

    /// Signs a head of the log of this key's receipts. Its content type distinguishes it from a receipt.
    pub fn sign_head(&self, tree: Tree, time: u64, document: [u8; 32]) -> Vec<u8> {
        let head = TreeHead {
            log: self.public_key(),
            size: tree.size,
            root: tree.root,
            time,
            document,
        };
        head.sign(|bytes| self.key.sign(bytes))
    }
}
