//! Checkpoints: the text of a note that states a log's tree.
//!
//! ```text
//! origin
//! size, decimal
//! base64(root)
//! extension lines, not empty
//! ```

use std::fmt;

use merkle::tree::empty_root;
use merkle::verify::Tree;

use crate::lines::{base64, hash, number, take_line};

/// The text is not a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[error("the note's text is not a checkpoint")]
#[coded(
    "CHECKPOINT_MALFORMED",
    remedy = "Check that the file is the checkpoint of a log: its origin, size and root in three lines."
)]
pub struct CheckpointError;

/// Contents of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log.
    pub origin: String,
    /// Size and root.
    pub tree: Tree,
    /// Further lines, each with its newline. Witnesses state nothing about them.
    pub extensions: String,
}

impl Checkpoint {
    /// A checkpoint without extensions.
    ///
    /// # Errors
    /// [`CheckpointError`] where the origin is empty, or contains a control character.
    pub fn new(origin: &str, tree: Tree) -> Result<Self, CheckpointError> {
        if origin.is_empty() || origin.chars().any(|letter| letter < ' ') {
            return Err(CheckpointError);
        }
        Ok(Self {
            origin: origin.to_owned(),
            tree,
            extensions: String::new(),
        })
    }

    /// Reads the text of a note.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn parse(text: &str) -> Result<Self, CheckpointError> {
        Self::read(text).ok_or(CheckpointError)
    }

    fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        let origin = take_line(&mut rest)?;
        let size = number(take_line(&mut rest)?)?;
        let root = hash(take_line(&mut rest)?)?;
        let has_lines = rest.is_empty() || rest.ends_with('\n');
        let is_extension = |line: &str| line != "\n";
        if !has_lines || !rest.split_inclusive('\n').all(is_extension) {
            return None;
        }
        let mut found = Self::new(origin, Tree { size, root }).ok()?;
        rest.clone_into(&mut found.extensions);
        Some(found)
    }

    /// Whether an empty tree has the only root that it can have.
    pub fn is_possible(&self) -> bool {
        self.tree.size > 0 || self.tree.root == empty_root()
    }

    /// Whether `other`, of the same log, has this size and another root: the log has two histories.
    pub fn forks(&self, other: &Tree) -> bool {
        self.tree.size == other.size && self.tree.root != other.root
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            origin,
            tree,
            extensions,
        } = self;
        write!(
            f,
            "{origin}\n{}\n{}\n{extensions}",
            tree.size,
            base64(&tree.root)
        )
    }
}
