//! The statements that all rows of an index share.

use anyhow::{Context, Result};
use attestation::CheckLog;
use error_codes::Coded;
use protocol::items::Evidence;
use protocol::receipt::ParsedReceipt;

/// Two vectors can be compared only if all of these are equal. The hash of the model covers its files, and with them its pooling
/// and its tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) model: String,
    /// Hex.
    pub(crate) model_hash: String,
    /// Of the weights, where the engine's name states one.
    pub(crate) precision: Option<&'static str>,
    pub(crate) dimension: usize,
    /// Read before each text. `None` until the first answer states it, and for token ids, which have none.
    pub(crate) prompt: Option<String>,
}

/// Why rows do not belong to one index, or an index cannot be embedded again.
#[derive(Debug, PartialEq, Eq, thiserror::Error, Coded)]
pub(crate) enum IndexError {
    /// The rows are of several models.
    #[error("this vector is of the model {found}, those before are of {expected}")]
    #[coded(
        "INDEX_MODEL_DIFFERS",
        remedy = "Search the rows of different models separately, or embed all texts with one model: `clearseal index migrate`."
    )]
    Model {
        /// Name and hash of the first.
        expected: String,
        /// Name and hash of this row's.
        found: String,
    },
    /// The rows were computed in several precisions.
    #[error("this vector was computed in {found}, those before in {expected}")]
    #[coded(
        "INDEX_PRECISION_DIFFERS",
        remedy = "Embed all texts of an index in the same precision: `clearseal index migrate`."
    )]
    Precision {
        /// Of the first.
        expected: &'static str,
        /// Of this row.
        found: &'static str,
    },
    /// The rows were computed after several prompts.
    #[error("this vector was computed after the prompt {found:?}, those before after {expected:?}")]
    #[coded(
        "INDEX_PROMPT_DIFFERS",
        remedy = "Embed all texts of an index with the same prompt: `clearseal index migrate`."
    )]
    Prompt {
        /// Of the first.
        expected: String,
        /// Of this row.
        found: String,
    },
    /// The rows have several dimensions.
    #[error("this vector has {found} dimensions, those before have {expected}")]
    #[coded(
        "INDEX_DIMENSIONS_DIFFER",
        remedy = "Ask for the same `dimensions` for all texts of an index, or embed them again: `clearseal index migrate`."
    )]
    Dimensions {
        /// Of the first.
        expected: usize,
        /// Of this row.
        found: usize,
    },
    /// The rows of an interrupted migration are of other texts.
    #[error("row {row} of the new index is not of a text of the old one, in its order")]
    #[coded(
        "INDEX_SOURCE_CHANGED",
        remedy = "Continue with the file that the migration began with, or begin again in an empty folder."
    )]
    SourceChanged {
        /// From 1.
        row: usize,
    },
    /// The migration would write to the file that it reads.
    #[error("{0} is the file that the new rows are written to")]
    #[coded(
        "INDEX_SOURCE_IS_TARGET",
        remedy = "Name the rows of the old index, which are in another file."
    )]
    SourceIsTarget(String),
    /// The new rows would be removed, because nothing proves them.
    #[error("{0} has rows, and their proofs are missing")]
    #[coded(
        "INDEX_PROOFS_MISSING",
        remedy = "Put `proofs.jsonl` back into the folder, or begin again in an empty one."
    )]
    ProofsMissing(String),
    /// A row has no text to embed.
    #[error("line {line} has no text")]
    #[coded(
        "INDEX_TEXT_MISSING",
        remedy = "Add the text of each row as `text`: token ids are of one model alone."
    )]
    NoText {
        /// From 1.
        line: usize,
    },
    /// The folder is not one of a migration.
    #[error("{0} has files of another origin")]
    #[coded(
        "INDEX_FOLDER_OCCUPIED",
        remedy = "Name an empty folder, or that of an interrupted migration."
    )]
    Occupied(String),
}

impl Identity {
    /// Reads the statements of the evidence about a vector of `dimension` components. Nothing is verified.
    pub(crate) fn read(evidence: &Evidence, dimension: usize) -> Result<Self> {
        let receipt = ParsedReceipt::parse(&evidence.receipt, &mut CheckLog::unrecorded()).ok();
        let claims = receipt.and_then(|receipt| receipt.unverified_claims());
        let claims = claims.context("the evidence holds no receipt")?;
        Ok(Self {
            precision: find_precision(&claims.model_version),
            model: claims.model_id,
            model_hash: claims.model_hash,
            dimension,
            prompt: Some(evidence.prompt.clone()),
        })
    }

    /// Refuses a row of another identity.
    pub(crate) fn check(&self, row: &Self) -> Result<(), IndexError> {
        let name = |identity: &Self| format!("{} ({})", identity.model, identity.model_hash);
        if self.model_hash != row.model_hash {
            return Err(IndexError::Model {
                expected: name(self),
                found: name(row),
            });
        }
        if let (Some(expected), Some(found)) = (self.precision, row.precision)
            && expected != found
        {
            return Err(IndexError::Precision { expected, found });
        }
        if let (Some(expected), Some(found)) = (&self.prompt, &row.prompt)
            && expected != found
        {
            return Err(IndexError::Prompt {
                expected: expected.clone(),
                found: found.clone(),
            });
        }
        if self.dimension != row.dimension {
            return Err(IndexError::Dimensions {
                expected: self.dimension,
                found: row.dimension,
            });
        }
        Ok(())
    }

    /// Refuses an answer of another identity. The first answer states the prompt.
    pub(crate) fn check_answer(&mut self, evidence: &Evidence, dimension: usize) -> Result<()> {
        let answer = Self::read(evidence, dimension)?;
        self.check(&answer)?;
        self.prompt = answer.prompt;
        Ok(())
    }
}

/// The precision that the name of an engine states, such as `fused-int8-avx2`. An image can give its engine a name without one.
pub(super) fn find_precision(engine: &str) -> Option<&'static str> {
    let mut known = ["f32", "f16", "bf16", "int8"].into_iter();
    known.find(|known| engine.split('-').any(|part| part == *known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precision_is_a_part_of_the_engines_name() {
        for (engine, expected) in [
            ("fused-int8-avx2", Some("int8")),
            ("fused-bf16-avx512bf16", Some("bf16")),
            ("candle-f32", Some("f32")),
            ("fused-f16-neon", Some("f16")),
            ("1.0.0", None),
        ] {
            assert_eq!(find_precision(engine), expected);
        }
    }

    #[test]
    fn a_row_of_another_model_prompt_or_dimension_is_refused() {
        let first = Identity {
            model: "a".to_owned(),
            model_hash: "00".to_owned(),
            precision: Some("f32"),
            dimension: 4,
            prompt: Some(String::new()),
        };
        let code = |change: fn(&mut Identity)| {
            let mut row = first.clone();
            change(&mut row);
            first.check(&row).err().map(|error| error.code().to_owned())
        };
        assert_eq!(code(|_| {}), None);
        // Token ids have no prompt.
        assert_eq!(code(|row| row.prompt = None), None);
        assert_eq!(code(|row| row.precision = None), None);
        // Another name of the same files.
        assert_eq!(code(|row| row.model = "org/a".to_owned()), None);
        for (change, expected) in [
            (
                (|row| row.model_hash = "01".to_owned()) as fn(&mut Identity),
                "INDEX_MODEL_DIFFERS",
            ),
            (
                |row| row.prompt = Some("query: ".to_owned()),
                "INDEX_PROMPT_DIFFERS",
            ),
            (
                |row| row.precision = Some("int8"),
                "INDEX_PRECISION_DIFFERS",
            ),
            (|row| row.dimension = 3, "INDEX_DIMENSIONS_DIFFER"),
        ] {
            assert_eq!(code(change).as_deref(), Some(expected));
        }
    }
}
