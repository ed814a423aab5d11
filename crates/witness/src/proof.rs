//! Proofs that an entry is in a log, to be verified offline.
//!
//! ```text
//! c2sp.org/tlog-proof@v1
//! extra base64(data)    optional, ignored here: nothing signs it
//! index N
//! base64(hash)          inclusion path
//!                       an empty line
//! checkpoint            a note, cosigned by witnesses
//! ```

use std::fmt;

use merkle::Hash;
use merkle::verify::{ProofError, Tree, inclusion};

use crate::lines::{number, push_path, take_line, take_path};
use crate::note::{MAX_NOTE, Note};

/// First line of every proof.
const FORMAT: &str = "c2sp.org/tlog-proof@v1";
/// Longest proof in bytes: a note, its path, and extra data of the same length as a note.
pub const MAX_PROOF: usize = 2 * MAX_NOTE + 4096;

/// The bytes are not a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("this is not a proof of an entry in a log")]
#[coded(
    "TLOG_PROOF_MALFORMED",
    remedy = "Copy all of the proof, from the line c2sp.org/tlog-proof@v1 to the last line break."
)]
pub struct MalformedProof;

/// A proof. Nothing in it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// Number of the entry.
    pub index: u64,
    /// Inclusion path.
    pub path: Vec<Hash>,
    /// The checkpoint.
    pub note: Note,
}

impl TlogProof {
    /// Whether the bytes begin like a proof, and not like a bare checkpoint.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(FORMAT.as_bytes())
    }

    /// Reads a proof.
    ///
    /// # Errors
    /// [`MalformedProof`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedProof> {
        Self::read(bytes).ok_or(MalformedProof)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_PROOF {
            return None;
        }
        let mut rest = std::str::from_utf8(bytes).ok()?;
        (take_line(&mut rest)? == FORMAT).then_some(())?;
        let mut line = take_line(&mut rest)?;
        if line.starts_with("extra ") {
            line = take_line(&mut rest)?;
        }
        let index = number(line.strip_prefix("index ")?)?;
        let path = take_path(&mut rest)?;
        let note = Note::parse(rest.as_bytes()).ok()?;
        Some(Self { index, path, note })
    }

    /// Checks that the entry is in this tree, which is the caller's judgement of [`note`](Self::note).
    ///
    /// # Errors
    /// [`ProofError`].
    pub fn verify(&self, entry: &Hash, tree: &Tree) -> Result<(), ProofError> {
        inclusion(entry, self.index, tree.size, &self.path, &tree.root)
    }
}

impl fmt::Display for TlogProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        push_path(&mut path, &self.path);
        write!(f, "{FORMAT}\nindex {}\n{path}{}", self.index, self.note)
    }
}
