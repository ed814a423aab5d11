//! Tree heads: an enclave's signed statements about its own log.
//!
//! A head is a tagged COSE_Sign1 (RFC 9052 §4.2) with the protected header {alg: EdDSA (−8), content type:
//! [`CONTENT_TYPE`]} and an empty unprotected map. The payload is a deterministic map:
//!
//! | key | field | type |
//! | --- | --- | --- |
//! | 1 | log: the receipt key that signs receipts and heads alike | bstr .size 32 |
//! | 2 | size, the number of leaves | uint |
//! | 3 | root | bstr .size 32 |
//! | 4 | time, Unix seconds | uint |
//! | 5 | SHA-256 of an attestation document that binds the key | bstr .size 32 |
//!
//! The content type is signed, and receipts have another one (61), so neither can be mistaken for the other.

use coset::{CoseSign1, ProtectedHeader};
use ed25519_dalek::{Signature, VerifyingKey};

use crate::verify::Tree;
use crate::{Hash, cbor};

/// Content type of a tree head, protected (RFC 9052 §3.1).
pub const CONTENT_TYPE: &str = "application/vnd.clearseal.tree-head+cbor";

/// Longest head in bytes; a real one has about 240.
pub const MAX_HEAD: usize = 512;

/// EdDSA (RFC 9053 §2.2) in CBOR: −8 is major type 1 with argument 7.
const ALGORITHM: u64 = 7;
const COSE_SIGN1: u64 = 18;

/// Contents of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeHead {
    /// The log: the receipt key of the enclave that keeps it.
    pub log: Hash,
    /// Number of leaves.
    pub size: u64,
    /// MTH of them (RFC 9162 §2.1.1).
    pub root: Hash,
    /// When it was signed, Unix seconds.
    pub time: u64,
    /// SHA-256 of an attestation document that binds the key.
    pub document: Hash,
}

/// Why bytes are not a head of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum HeadError {
    /// Not the one encoding of a tree head.
    #[error("this is not a signed tree head")]
    #[coded(
        "HEAD_MALFORMED",
        remedy = "Copy all of the head, or check the server that sent it."
    )]
    Malformed,
    /// Not signed with the log's own key, or changed since.
    #[error("the tree head's signature does not fit the log's key and these bytes")]
    #[coded(
        "HEAD_SIG_FAILED",
        remedy = "Do not rely on the head: it was changed, or signed without the key that it names."
    )]
    Signature,
}

impl TreeHead {
    /// Size and root.
    pub fn tree(&self) -> Tree {
        Tree {
            size: self.size,
            root: self.root,
        }
    }

    /// Encodes a signed head. `sign` makes an Ed25519 signature with the key that [`Self::log`] names.
    pub fn sign(&self, sign: impl FnOnce(&[u8]) -> [u8; 64]) -> Vec<u8> {
        self.envelope(&sign(&self.signed_bytes()))
    }

    /// Reads a head and checks its signature, strictly (RFC 8032 §5.1.7, cofactorless), under the key that it names. The
    /// caller checks whether that key is the expected one.
    ///
    /// # Errors
    /// [`HeadError`].
    pub fn verify(bytes: &[u8]) -> Result<Self, HeadError> {
        let (head, signature) = Self::parse(bytes)?;
        let key = VerifyingKey::from_bytes(&head.log)
            .ok()
            // Not canonical, or of small order: two verifiers could disagree.
            .filter(|key| !key.is_weak() && key.to_edwards().compress().as_bytes() == &head.log)
            .ok_or(HeadError::Signature)?;
        key.verify_strict(&head.signed_bytes(), &Signature::from_bytes(&signature))
            .map_err(|_| HeadError::Signature)?;
        Ok(head)
    }

    /// Reads a head without checking its signature.
    ///
    /// # Errors
    /// [`HeadError::Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, [u8; 64]), HeadError> {
        if bytes.len() > MAX_HEAD {
            return Err(HeadError::Malformed);
        }
        let (head, signature) = read(bytes).ok_or(HeadError::Malformed)?;
        // A head has one encoding; this comparison refuses all others.
        if head.envelope(&signature) != bytes {
            return Err(HeadError::Malformed);
        }
        Ok((head, signature))
    }

    /// RFC 9052 §4.4: the signed bytes.
    fn signed_bytes(&self) -> Vec<u8> {
        let envelope = CoseSign1 {
            protected: ProtectedHeader {
                original_data: Some(protected()),
                ..ProtectedHeader::default()
            },
            payload: Some(self.payload()),
            ..CoseSign1::default()
        };
        envelope.tbs_data(b"")
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        cbor::head(&mut out, 5, 5);
        cbor::head(&mut out, 0, 1);
        cbor::bytes(&mut out, &self.log);
        cbor::head(&mut out, 0, 2);
        cbor::head(&mut out, 0, self.size);
        cbor::head(&mut out, 0, 3);
        cbor::bytes(&mut out, &self.root);
        cbor::head(&mut out, 0, 4);
        cbor::head(&mut out, 0, self.time);
        cbor::head(&mut out, 0, 5);
        cbor::bytes(&mut out, &self.document);
        out
    }

    fn envelope(&self, signature: &[u8; 64]) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        cbor::head(&mut out, 6, COSE_SIGN1);
        cbor::head(&mut out, 4, 4);
        cbor::bytes(&mut out, &protected());
        cbor::head(&mut out, 5, 0);
        cbor::bytes(&mut out, &self.payload());
        cbor::bytes(&mut out, signature);
        out
    }
}

fn protected() -> Vec<u8> {
    let mut out = Vec::with_capacity(48);
    cbor::head(&mut out, 5, 2);
    cbor::head(&mut out, 0, 1);
    cbor::head(&mut out, 1, ALGORITHM);
    cbor::head(&mut out, 0, 3);
    text(&mut out, CONTENT_TYPE);
    out
}

fn text(out: &mut Vec<u8>, value: &str) {
    cbor::head(out, 3, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

fn read(bytes: &[u8]) -> Option<(TreeHead, [u8; 64])> {
    let mut outer = cbor::Reader(bytes);
    (outer.head(6)? == COSE_SIGN1 && outer.head(4)? == 4).then_some(())?;
    outer.bytes()?;
    (outer.head(5)? == 0).then_some(())?;
    let mut inner = cbor::Reader(outer.bytes()?);
    let signature = outer.bytes()?.try_into().ok()?;
    (inner.head(5)? == 5 && inner.head(0)? == 1).then_some(())?;
    let log = inner.bytes()?.try_into().ok()?;
    (inner.head(0)? == 2).then_some(())?;
    let size = inner.head(0)?;
    (inner.head(0)? == 3).then_some(())?;
    let root = inner.bytes()?.try_into().ok()?;
    (inner.head(0)? == 4).then_some(())?;
    let time = inner.head(0)?;
    (inner.head(0)? == 5).then_some(())?;
    let document = inner.bytes()?.try_into().ok()?;
    let head = TreeHead {
        log,
        size,
        root,
        time,
        document,
    };
    Some((head, signature))
}
