//! The index as an answer states it, and proofs of single rows.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Hash;
use crate::error::ProofError;
use crate::key::IndexId;
use crate::map::{EMPTY, LEVELS, follow, hash_id, hash_leaf, share_prefix};
use crate::metadata::Metadata;
use crate::row::{Commitments, hash_metadata, hash_text, hash_vector};
use crate::serde_bytes::{hex, optional_hex, path};
use crate::settings::Settings;

/// One version of an index, in an answer. Everything else about the version, its root and its head, follows from these members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The index.
    pub id: IndexId,
    /// Number of changes since it was made.
    pub version: u64,
    /// Head of the version before; zeros for version 0.
    #[serde(with = "hex")]
    pub previous: Hash,
    /// Number of rows.
    pub rows: u64,
    /// Root of the map of the rows.
    #[serde(with = "hex")]
    pub map: Hash,
    /// Model, prompt and form of the vectors.
    pub settings: Settings,
}

/// A version that a client remembers. The next answer must continue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Version of the index.
    pub version: u64,
    /// Hash over the version and all before it.
    #[serde(with = "hex")]
    pub head: Hash,
}

impl Statement {
    /// Root of the version: SHA-256("clearseal/1 index root" ‖ 0x00 ‖ id ‖ settings digest ‖ rows (8) ‖ map).
    #[must_use]
    pub fn root(&self) -> Hash {
        Sha256::new()
            .chain_update(b"clearseal/1 index root\0")
            .chain_update(self.id.as_bytes())
            .chain_update(self.settings.digest())
            .chain_update(self.rows.to_be_bytes())
            .chain_update(self.map)
            .finalize()
            .into()
    }

    /// Head of the version: SHA-256("clearseal/1 index head" ‖ 0x00 ‖ previous head ‖ version (8) ‖ root).
    #[must_use]
    pub fn head(&self) -> Head {
        let head = Sha256::new()
            .chain_update(b"clearseal/1 index head\0")
            .chain_update(self.previous)
            .chain_update(self.version.to_be_bytes())
            .chain_update(self.root())
            .finalize();
        Head {
            version: self.version,
            head: head.into(),
        }
    }
}

/// Proof about one id in one version of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The index has a row with the id.
    Row(RowProof),
    /// It has none.
    Absence(AbsenceProof),
}

impl Proof {
    /// The proof of a row.
    #[must_use]
    pub fn row(self) -> Option<RowProof> {
        match self {
            Self::Row(proof) => Some(proof),
            Self::Absence(_) => None,
        }
    }

    /// The proof of absence.
    #[must_use]
    pub fn absence(self) -> Option<AbsenceProof> {
        match self {
            Self::Row(_) => None,
            Self::Absence(proof) => Some(proof),
        }
    }
}

/// Proof that a row is in an index. Its holder can test guesses of this row's text and metadata, and of ids, but of no other content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowProof {
    /// Salt of the ids.
    #[serde(with = "hex")]
    pub id_salt: Hash,
    /// Salt of the row.
    #[serde(with = "hex")]
    pub salt: Hash,
    /// Version of the index that wrote the row.
    pub version: u64,
    /// Whether the enclave computed the vector from the text, with the index's model and prompt.
    pub computed: bool,
    /// Hash of the text; null if the index does not have it.
    #[serde(with = "optional_hex")]
    pub text: Option<Hash>,
    /// Hash of the vector.
    #[serde(with = "hex")]
    pub vector: Hash,
    /// Hash of the metadata.
    #[serde(with = "hex")]
    pub metadata: Hash,
    /// Hashes next to the row's path, from the root on.
    #[serde(with = "path")]
    pub path: Vec<Hash>,
}

/// The parts of a row that a verifier has.
#[derive(Clone, Copy, Default)]
pub struct Disclosed<'a> {
    /// The text.
    pub text: Option<&'a str>,
    /// The vector, as the answer gives it: stored values, not rounded further.
    pub vector: Option<&'a [f32]>,
    /// The metadata.
    pub metadata: Option<&'a Metadata>,
}

impl RowProof {
    /// Checks that the row `id` with the disclosed parts is in the version that `statement` describes.
    ///
    /// # Errors
    /// [`ProofError`]: the first part that differs, or the root.
    pub fn verify(
        &self,
        statement: &Statement,
        id: &str,
        disclosed: Disclosed<'_>,
    ) -> Result<(), ProofError> {
        if self.path.len() > LEVELS {
            return Err(ProofError::Malformed);
        }
        if let Some(text) = disclosed.text
            && self.text != Some(hash_text(&self.salt, text))
        {
            return Err(ProofError::Text);
        }
        if let Some(vector) = disclosed.vector
            && self.vector != hash_vector(&self.salt, vector)
        {
            return Err(ProofError::Vector);
        }
        if let Some(metadata) = disclosed.metadata
            && self.metadata != hash_metadata(&self.salt, metadata.as_bytes())
        {
            return Err(ProofError::Metadata);
        }
        let key = hash_id(&self.id_salt, id);
        let commitments = Commitments {
            text: self.text,
            vector: self.vector,
            metadata: self.metadata,
        };
        let leaf = hash_leaf(&key, &commitments.value(self.version, self.computed));
        match follow(&key, &self.path, leaf) == statement.map {
            true => Ok(()),
            false => Err(ProofError::Root),
        }
    }
}

/// Proof that no row of an index has an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbsenceProof {
    /// Salt of the ids.
    #[serde(with = "hex")]
    pub id_salt: Hash,
    /// Key of the only row in the subtree where the row would be; null if that is empty.
    #[serde(with = "optional_hex")]
    pub other_key: Option<Hash>,
    /// Value of that row.
    #[serde(with = "optional_hex")]
    pub other_value: Option<Hash>,
    /// Hashes next to the path, from the root on.
    #[serde(with = "path")]
    pub path: Vec<Hash>,
}

impl AbsenceProof {
    /// Checks that the version that `statement` describes has no row `id`.
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn verify(&self, statement: &Statement, id: &str) -> Result<(), ProofError> {
        if self.path.len() > LEVELS {
            return Err(ProofError::Malformed);
        }
        let key = hash_id(&self.id_salt, id);
        let end = match (self.other_key, self.other_value) {
            (None, None) => EMPTY,
            (Some(other), _) if other == key => return Err(ProofError::Present),
            (Some(other), Some(value)) if share_prefix(&other, &key, self.path.len()) => {
                hash_leaf(&other, &value)
            }
            _ => return Err(ProofError::Malformed),
        };
        match follow(&key, &self.path, end) == statement.map {
            true => Ok(()),
            false => Err(ProofError::Root),
        }
    }
}
