//! Requests to a witness (`add-checkpoint`), and what the witness decides.
//!
//! ```text
//! old SIZE              size of the tree that the witness cosigned before, 0 for none
//! base64(hash)          consistency path, at most 63 lines
//!                       an empty line
//! checkpoint            a note, signed by the log
//! ```

use std::fmt::Write as _;

use merkle::Hash;
use merkle::verify::{ProofError, Tree, consistency};

use crate::checkpoint::Checkpoint;
use crate::key::{KeyError, Verifier};
use crate::lines::{number, push_path, take_line, take_path};
use crate::note::{MAX_NOTE, Note};

/// Longest request in bytes: a note, and a path of 63 hashes.
pub const MAX_REQUEST: usize = MAX_NOTE + 4096;
/// Longest consistency path.
const MAX_LINES: usize = 63;

/// Why a witness does not cosign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum Refusal {
    /// Not a request, or its checkpoint is smaller than the tree that it starts from.
    #[error("this is not a request of a log to a witness")]
    #[coded(
        "WITNESS_REQUEST_MALFORMED",
        remedy = "Send `old SIZE`, the consistency path, an empty line and the checkpoint (c2sp.org/tlog-witness)."
    )]
    Malformed,
    /// No log of this origin is configured.
    #[error("the witness does not know this log")]
    #[coded(
        "WITNESS_LOG_UNKNOWN",
        remedy = "Ask the witness's operator to add the log's origin and key."
    )]
    UnknownLog,
    /// No valid signature of the log's key.
    #[error("the checkpoint is not signed with the log's key")]
    #[coded(
        "WITNESS_LOG_UNSIGNED",
        remedy = "Sign with the key that the witness has for this log."
    )]
    Unsigned,
    /// The request starts from another size than the witness's.
    #[error("the witness has cosigned a tree of {size} leaves")]
    #[coded(
        "WITNESS_SIZE_CONFLICT",
        remedy = "Send the consistency path from the size that the witness has."
    )]
    Conflict {
        /// Size of the tree that the witness has.
        size: u64,
    },
    /// The log signed two histories, or the path is wrong.
    #[error("the checkpoint does not extend the tree that the witness cosigned: {0}")]
    #[coded(
        "WITNESS_INCONSISTENT",
        remedy = "Keep both checkpoints; if they are of one size, they prove that the log has two histories."
    )]
    Inconsistent(ProofError),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Size of the tree from which the path leads.
    pub old: u64,
    /// Consistency path.
    pub path: Vec<Hash>,
    /// The log's checkpoint.
    pub note: Note,
}

impl AddCheckpoint {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Refusal::Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        Self::read(bytes).ok_or(Refusal::Malformed)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_REQUEST {
            return None;
        }
        let mut rest = std::str::from_utf8(bytes).ok()?;
        let old = number(take_line(&mut rest)?.strip_prefix("old ")?)?;
        let path = take_path(&mut rest).filter(|path| path.len() <= MAX_LINES)?;
        let note = Note::parse(rest.as_bytes()).ok()?;
        Some(Self { old, path, note })
    }

    /// Writes the request.
    pub fn to_text(&self) -> String {
        let mut out = format!("old {}\n", self.old);
        push_path(&mut out, &self.path);
        // A String takes everything that is written to it.
        let _ = write!(out, "{}", self.note);
        out
    }

    /// Reads the checkpoint, finds its log's key, and verifies the log's signature.
    ///
    /// # Errors
    /// [`Refusal::Malformed`], [`Refusal::UnknownLog`] or [`Refusal::Unsigned`].
    pub fn authenticate(&self, logs: &[Verifier]) -> Result<Checkpoint, Refusal> {
        let checkpoint = Checkpoint::parse(self.note.text()).map_err(|_| Refusal::Malformed)?;
        let mut keys = logs
            .iter()
            .filter(|log| log.name() == checkpoint.origin)
            .peekable();
        if keys.peek().is_none() {
            return Err(Refusal::UnknownLog);
        }
        let mut is_signed = false;
        for key in keys {
            match key.verify(&self.note) {
                Ok(_) => is_signed = true,
                Err(KeyError::Unsigned) => {}
                Err(_) => return Err(Refusal::Unsigned),
            }
        }
        match is_signed && self.old <= checkpoint.tree.size {
            true => Ok(checkpoint),
            false if is_signed => Err(Refusal::Malformed),
            false => Err(Refusal::Unsigned),
        }
    }

    /// Decides whether `checkpoint`, which [`authenticate`](Self::authenticate) returned, extends `stored`, the tree that this witness
    /// cosigned last for the log. The caller stores the new tree before it cosigns, in one step with this decision.
    ///
    /// # Errors
    /// [`Refusal::Conflict`] or [`Refusal::Inconsistent`].
    pub fn decide(&self, checkpoint: &Checkpoint, stored: Option<&Tree>) -> Result<(), Refusal> {
        let size = stored.map_or(0, |tree| tree.size);
        if self.old != size {
            return Err(Refusal::Conflict { size });
        }
        if !checkpoint.is_possible() {
            return Err(Refusal::Inconsistent(ProofError::RootMismatch));
        }
        match stored {
            // A fork is known from the roots: the path does not matter.
            Some(stored) if checkpoint.forks(stored) => Err(ProofError::Forked),
            Some(stored) => consistency(stored, &checkpoint.tree, &self.path),
            None if self.path.is_empty() => Ok(()),
            None => Err(ProofError::PathLength),
        }
        .map_err(Refusal::Inconsistent)
    }
}
