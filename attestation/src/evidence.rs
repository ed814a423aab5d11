//! What the attestation endpoint answers: the document and the manifest that it binds, in one CBOR map.

use crate::appraise::Freshness;
use crate::cbor::{CborError, Reader, Rules, Writer};
use crate::document::MAX_DOCUMENT;
use crate::judge::Question;
use crate::manifest::MAX_MANIFEST;
use crate::policy::Policy;

/// Largest answer of the attestation endpoint, bytes.
pub const MAX_EVIDENCE: usize = MAX_DOCUMENT + MAX_MANIFEST + 16;

/// Document and manifest, both unjudged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence<'a> {
    /// The attestation document (map key 1).
    pub document: &'a [u8],
    /// The service manifest (map key 2).
    pub manifest: &'a [u8],
}

/// Why an answer is no evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, codes::Coded)]
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

    /// Whether this evidence is good enough for `policy`; [`verify`](crate::verify) answers. No check is timed.
    pub fn question(&self, policy: &'a Policy, freshness: Freshness<'a>) -> Question<'a> {
        Question {
            document: self.document,
            manifest: Some(self.manifest),
            policy,
            freshness,
            stopwatch: None,
        }
    }

    /// Reads an answer in place. Sizes are checked first.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EvidenceError> {
        if bytes.len() > MAX_EVIDENCE {
            return Err(EvidenceError::TooLarge(bytes.len()));
        }
        let mut reader = Reader::new(bytes, Rules::Deterministic);
        let mut map = reader.map()?;
        if map.left() != Some(2) {
            return Err(EvidenceError::OtherEntries);
        }
        let mut entry = |key| -> Result<&'a [u8], EvidenceError> {
            if !reader.more(&mut map)? || reader.uint()? != key {
                return Err(EvidenceError::OtherEntries);
            }
            Ok(reader.bytes()?)
        };
        let (document, manifest) = (entry(1)?, entry(2)?);
        reader.finish()?;
        if document.len() > MAX_DOCUMENT || manifest.len() > MAX_MANIFEST {
            return Err(EvidenceError::TooLarge(bytes.len()));
        }
        Ok(Self { document, manifest })
    }
}
