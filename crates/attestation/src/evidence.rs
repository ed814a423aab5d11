//! The answer of the attestation endpoint: the document and the manifest that it binds, in one CBOR map.

use std::borrow::Cow;

use merkle::nonces::{MAX_NONCE_PROOF, NonceProof};

use crate::appraisal::Appraisal;
use crate::appraise::MIN_NONCE;
use crate::cbor::{CborError, Reader, Rules, Writer};
use crate::document::MAX_DOCUMENT;
use crate::manifest::MAX_MANIFEST;

/// Largest answer of the attestation endpoint, bytes.
pub const MAX_EVIDENCE: usize = MAX_DOCUMENT + MAX_MANIFEST + MAX_NONCE_PROOF + 20;

/// Document and manifest, neither appraised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence<'a> {
    /// The attestation document (map key 1).
    pub document: &'a [u8],
    /// The service manifest (map key 2).
    pub manifest: &'a [u8],
}

/// Why an answer is not evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum EvidenceError {
    /// Larger than anything that can be evidence.
    #[error("the answer has {0} bytes, more than {MAX_EVIDENCE}")]
    #[coded(
        "EVIDENCE_MALFORMED",
        remedy = "Ask the attestation endpoint, not another one."
    )]
    TooLarge(usize),
    /// Not the map that was expected.
    #[error("the answer is not a map of document and manifest ({0})")]
    #[coded(
        "EVIDENCE_MALFORMED",
        remedy = "Ask the attestation endpoint, not another one."
    )]
    Malformed(#[from] CborError),
    /// No tree of nonces has such a proof.
    #[error("the nonce's place among those that share the document is malformed")]
    #[coded("EVIDENCE_MALFORMED", remedy = "Ask again; suspect the relay.")]
    NonceProof,
    /// A map with other entries.
    #[error("the answer does not hold exactly a document and a manifest")]
    #[coded("EVIDENCE_MALFORMED", remedy = "Update the older side.")]
    OtherEntries,
}

impl<'a> Evidence<'a> {
    /// Deterministic `application/cbor`.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer
            .map(2)
            .uint(1)
            .bytes(self.document)
            .uint(2)
            .bytes(self.manifest);
        writer.finish()
    }

    /// Starts an appraisal of document and manifest together.
    pub fn appraisal(&self) -> Appraisal<'a> {
        Appraisal::of(self.document).with_manifest(self.manifest)
    }

    /// Reads an answer in place, for callers that compare no nonce. Checks sizes first.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EvidenceError> {
        Ok(AttestationResponse::parse(bytes)?.evidence)
    }
}

/// Evidence as an answer to a nonce: its document may be shared with other clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestationResponse<'a> {
    /// Document and manifest.
    pub evidence: Evidence<'a>,
    /// Proof that the nonce is among those that share the document (map key 3).
    place: Option<NonceProof>,
}

impl<'a> AttestationResponse<'a> {
    /// The nonce that the document must carry for a client that sent `own`: `own` itself, or the root over all nonces that share the
    /// document. If `own` is not in that tree, returns `own` unchanged, and check 24 refuses it.
    pub fn document_nonce<'n>(&self, own: &'n [u8]) -> Cow<'n, [u8]> {
        let place = self.place.as_ref().filter(|_| own.len() >= MIN_NONCE);
        match place.map(|place| place.document_nonce(own)) {
            Some(Ok(root)) => Cow::Owned(root.to_vec()),
            Some(Err(_)) | None => Cow::Borrowed(own),
        }
    }

    /// Leaves of the tree whose root the document carries. An upper bound on the clients that share it, because host-proxy pads
    /// trees with random nonces.
    pub fn sharing(&self) -> u32 {
        self.place.as_ref().map_or(1, NonceProof::count)
    }

    /// Reads an answer in place. Checks sizes first.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EvidenceError> {
        if bytes.len() > MAX_EVIDENCE {
            return Err(EvidenceError::TooLarge(bytes.len()));
        }
        let mut reader = Reader::new(bytes, Rules::Deterministic);
        let mut map = reader.map()?;
        let shared = match map.left() {
            Some(2) => false,
            Some(3) => true,
            _ => return Err(EvidenceError::OtherEntries),
        };
        let mut entry = |key| -> Result<&'a [u8], EvidenceError> {
            if !reader.more(&mut map)? || reader.uint()? != key {
                return Err(EvidenceError::OtherEntries);
            }
            Ok(reader.bytes()?)
        };
        let (document, manifest) = (entry(1)?, entry(2)?);
        let place = match shared {
            true => Some(entry(3)?),
            false => None,
        };
        reader.finish()?;
        if document.len() > MAX_DOCUMENT || manifest.len() > MAX_MANIFEST {
            return Err(EvidenceError::TooLarge(bytes.len()));
        }
        let place = place.map(NonceProof::decode).transpose();
        Ok(Self {
            evidence: Evidence { document, manifest },
            place: place.map_err(|_| EvidenceError::NonceProof)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use merkle::nonces::NonceTree;

    use super::*;

    fn with_place(place: &[u8]) -> Vec<u8> {
        let mut writer = Writer::new();
        writer
            .map(3)
            .uint(1)
            .bytes(b"document")
            .uint(2)
            .bytes(b"manifest")
            .uint(3)
            .bytes(place);
        writer.finish()
    }

    #[test]
    fn a_shared_document_carries_the_root_over_the_nonces() {
        let nonces = [[1; 32], [2; 32], [3; 32]];
        let tree = NonceTree::over(nonces.iter().map(|nonce| &nonce[..])).unwrap();
        let answer = with_place(&tree.proof(2).unwrap().encode());
        let answered = AttestationResponse::parse(&answer).unwrap();
        assert_eq!(answered.sharing(), 3);
        assert_eq!(Evidence::parse(&answer).unwrap(), answered.evidence);
        assert_eq!(*answered.document_nonce(&nonces[2]), tree.document_nonce());
        assert_ne!(*answered.document_nonce(&nonces[1]), tree.document_nonce());
        // A predictable nonce must not hide behind a root.
        assert_eq!(*answered.document_nonce(&[7; 15]), [7; 15]);

        let alone = answered.evidence.encode();
        let answered = AttestationResponse::parse(&alone).unwrap();
        assert_eq!(answered.sharing(), 1);
        assert_eq!(*answered.document_nonce(&nonces[0]), nonces[0]);
    }

    #[test]
    fn a_place_that_is_none_is_refused_or_compared_as_the_nonce_itself() {
        for place in [&[][..], &[0; 8], &[0; 9], &[0xff; 40]] {
            let answer = with_place(place);
            assert_eq!(
                AttestationResponse::parse(&answer),
                Err(EvidenceError::NonceProof)
            );
        }
        // Two leaves, and no path.
        let answer = with_place(&[0, 0, 0, 0, 0, 0, 0, 2]);
        let answered = AttestationResponse::parse(&answer).unwrap();
        assert_eq!(*answered.document_nonce(&[5; 32]), [5; 32]);
    }
}
