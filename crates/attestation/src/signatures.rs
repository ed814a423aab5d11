//! Signatures that are known to be valid before a document is appraised: computed earlier, or by faster code elsewhere.
//!
//! Nearly all the time of an appraisal goes into ECDSA, and most of it into signatures that were computed before: the
//! issuing certificates of a region live for days, a leaf for hours. The memory holds mathematical facts about
//! triples of key, message and signature, which do not expire: root, names, validity, constraints and usages
//! are checked again from the bytes each time. A chain that has ended, or that has another root, is refused by
//! the same check and the same row whatever is remembered.

use std::collections::VecDeque;

use provider::es384::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

/// Most signatures that [`pending_signatures`](crate::pending_signatures) returns: twice a genuine chain. A forged chain can be longer; the rest of
/// it is computed one by one, up to the first invalid one.
pub const MAX_PENDING: usize = 10;

/// Identifies one triple of key, message and signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignatureId([u8; 32]);

impl SignatureId {
    /// Key and signature have fixed lengths, and the message comes last: no two triples give the same bytes.
    pub(crate) fn of(key: &VerifyingKey, message: &[u8], signature: &Signature) -> Self {
        let hash = Sha256::new()
            .chain_update(b"clearseal/1 es384\0")
            .chain_update(key.to_sec1_point(false).as_bytes())
            .chain_update(signature.to_bytes())
            .chain_update(message);
        Self(hash.finalize().into())
    }
}

/// Where a valid signature was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Here, in an earlier appraisal.
    Remembered,
    /// By the caller of [`SignatureMemory::vouch`].
    Vouched,
}

/// Signatures that need not be computed again. Keep one for each verifier and pass it to each appraisal.
///
/// Bounded: keeps the [`CAPACITY`](Self::CAPACITY) most recently used signatures of chains, which is more than ten whole
/// chains. A document's own signature is never kept, because no other document has it.
#[derive(Clone, Debug, Default)]
pub struct SignatureMemory {
    /// Most recently used last.
    remembered: VecDeque<SignatureId>,
    /// For the next appraisal only.
    vouched: Vec<SignatureId>,
}

impl SignatureMemory {
    /// Most signatures that are kept between appraisals.
    pub const CAPACITY: usize = 64;

    /// An empty memory: every signature is computed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of signatures that are kept between appraisals.
    pub fn len(&self) -> usize {
        self.remembered.len()
    }

    /// Whether the memory is empty.
    pub fn is_empty(&self) -> bool {
        self.remembered.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.remembered.clear();
        self.vouched.clear();
    }

    /// Accepts the caller's statement that this signature is valid; the verdict then depends on that statement.
    ///
    /// It counts for the next appraisal only. If a whole chain is then found valid, its signatures are kept as if they
    /// had been computed here.
    ///
    /// Call it only after an implementation of ECDSA on P-384 with SHA-384 has accepted exactly
    /// [`public_key`](PendingSignature::public_key), [`message`](PendingSignature::message) and
    /// [`signature`](PendingSignature::signature). Do not vouch for a signature that was refused, or that could not be computed:
    /// it is then computed here, and an invalid one is refused by its own check.
    pub fn vouch(&mut self, signature: &PendingSignature) {
        if self.vouched.len() < MAX_PENDING && !self.vouched.contains(&signature.id) {
            self.vouched.push(signature.id);
        }
    }

    pub(crate) fn knows(&self, id: &SignatureId) -> Option<Known> {
        if self.remembered.contains(id) {
            Some(Known::Remembered)
        } else {
            self.vouched.contains(id).then_some(Known::Vouched)
        }
    }

    /// Keeps the signatures of a chain that was verified as a whole.
    pub(crate) fn remember(&mut self, ids: impl IntoIterator<Item = SignatureId>) {
        for id in ids {
            self.remembered.retain(|known| *known != id);
            if self.remembered.len() == Self::CAPACITY {
                self.remembered.pop_front();
            }
            self.remembered.push_back(id);
        }
    }

    /// Whether a vouched signature could decide a document's own signature.
    pub(crate) fn has_vouched(&self) -> bool {
        !self.vouched.is_empty()
    }

    /// Ends an appraisal: clears vouched signatures, each of which is valid for one appraisal only.
    pub(crate) fn drop_vouched(&mut self) {
        self.vouched.clear();
    }
}

/// A signature that an appraisal will need: ECDSA on P-384 with SHA-384 (RFC 5758 §3.2, RFC 9053 §2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSignature {
    public_key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
    id: SignatureId,
}

impl PendingSignature {
    pub(crate) fn new(key: &VerifyingKey, message: Vec<u8>, signature: &Signature) -> Self {
        Self {
            public_key: key.to_sec1_point(false).as_bytes().to_vec(),
            signature: signature.to_bytes().to_vec(),
            id: SignatureId::of(key, &message, signature),
            message,
        }
    }

    pub(crate) fn id(&self) -> &SignatureId {
        &self.id
    }

    /// The signer's key: an uncompressed point (SEC 1 §2.3.3), 97 bytes. WebCrypto imports it as `raw`.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// The signed message, not hashed.
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// r and s, 48 bytes each (IEEE P1363), as WebCrypto takes them.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// The same as DER (RFC 3279 §2.2.3), as most other libraries take it.
    pub fn signature_der(&self) -> Vec<u8> {
        let signature = Signature::from_slice(&self.signature);
        signature.map_or_else(|_| Vec::new(), |it| it.to_der().as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use p384::ecdsa::SigningKey;

    use super::*;

    #[test]
    fn a_signature_is_known_by_its_key_its_message_and_its_bytes() {
        let key = |byte| *SigningKey::from_slice(&[byte; 48]).unwrap().verifying_key();
        let signature = |byte| Signature::from_slice(&[byte; 96]).unwrap();
        let known = SignatureId::of(&key(1), b"message", &signature(1));
        assert!(known == SignatureId::of(&key(1), b"message", &signature(1)));
        for other in [
            SignatureId::of(&key(2), b"message", &signature(1)),
            SignatureId::of(&key(1), b"massage", &signature(1)),
            SignatureId::of(&key(1), b"message", &signature(2)),
        ] {
            assert!(known != other);
        }
    }

    fn id(number: usize) -> SignatureId {
        SignatureId(Sha256::digest(number.to_be_bytes()).into())
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_is_in_use() {
        let mut memory = SignatureMemory::new();
        memory.remember((0..SignatureMemory::CAPACITY).map(id));
        assert_eq!(memory.len(), SignatureMemory::CAPACITY);
        // Used again, so the next to be dropped is the second.
        memory.remember([id(0)]);
        memory.remember([id(1_000)]);
        assert_eq!(memory.len(), SignatureMemory::CAPACITY);
        assert_eq!(memory.knows(&id(0)), Some(Known::Remembered));
        assert_eq!(memory.knows(&id(1)), None);
        assert_eq!(memory.knows(&id(2)), Some(Known::Remembered));
        assert_eq!(memory.knows(&id(1_000)), Some(Known::Remembered));
        memory.clear();
        assert!(memory.is_empty());
        assert_eq!(memory.knows(&id(0)), None);
    }
}
