//! Why a log is refused.

use merkle::verify::ProofError;

use super::report::LogCheck;

/// Stable codes of refusal. Variants may be added; a code never changes meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, error_codes::Coded)]
#[coded(all)]
#[non_exhaustive]
pub enum LogCode {
    /// Not the one encoding of a signed tree head.
    #[coded(
        "HEAD_MALFORMED",
        remedy = "Copy all of the head, or check the server that sent it."
    )]
    HeadMalformed,
    /// Not signed with the key that it names, or changed since.
    #[coded(
        "HEAD_SIG_FAILED",
        remedy = "Do not rely on the head: it was changed, or its signer does not hold the key."
    )]
    HeadSigFailed,
    /// A head of another log.
    #[coded(
        "HEAD_OTHER_LOG",
        remedy = "Ask for the log that has the receipt key as its name."
    )]
    HeadOtherLog,
    /// The head names another document than the one that was given with it.
    #[coded(
        "HEAD_EVIDENCE_MISMATCH",
        remedy = "Ask for the head and its evidence again, together; suspect the host that gave them."
    )]
    HeadEvidenceMismatch,
    /// The proof is of another leaf than the receipt's number says, or than the first, where it is about keys; or the receipt has
    /// the number of the keys.
    #[coded(
        "NUMBER_MISMATCH",
        remedy = "Ask for the proof of this very leaf; suspect the sender of the other one."
    )]
    NumberMismatch,
    /// The tree ends before the receipt.
    #[coded(
        "LEAF_OUTSIDE_TREE",
        remedy = "Ask for a newer head; if the newest one does not hold the leaf either, it was left out: keep both."
    )]
    LeafOutsideTree,
    /// A path that is too long or too short.
    #[coded(
        "PROOF_LENGTH",
        remedy = "Ask for the proof again, between exactly these heads."
    )]
    ProofLength,
    /// The path does not lead to the signed root.
    #[coded(
        "ROOT_MISMATCH",
        remedy = "This is not in that history: keep it, head and proof, and ask the operator."
    )]
    RootMismatch,
    /// Signed long before the receipt was issued.
    #[coded(
        "HEAD_TOO_EARLY",
        remedy = "Ask for a newer head; a receipt cannot be in a tree that is older than it."
    )]
    HeadTooEarly,
    /// Fewer leaves than in the earlier head.
    #[coded(
        "TREE_SHRUNK",
        remedy = "Check the order of the heads; if the smaller one is the newer, history was taken back: keep both."
    )]
    TreeShrunk,
    /// The proof does not lead from the earlier head to this one.
    #[coded(
        "HISTORY_INCONSISTENT",
        remedy = "Ask for the proof again, between exactly these heads; if no one can give one, keep both: their histories differ."
    )]
    HistoryInconsistent,
    /// Two heads of one size with different roots.
    #[coded(
        "HISTORY_FORKED",
        remedy = "Keep both heads: together they show that there are two histories."
    )]
    HistoryForked,
    /// A proof between other sizes.
    #[coded(
        "SIZES_MISMATCH",
        remedy = "Ask for the proof between exactly these two heads."
    )]
    SizesMismatch,
    /// No proof between two heads of different size.
    #[coded(
        "CONSISTENCY_MISSING",
        remedy = "Pass the proof from the earlier head's size to the later one's."
    )]
    ConsistencyMissing,
    /// A host that was asked shows no proof of the keys.
    #[coded(
        "KEYS_NOT_SHOWN",
        remedy = "Ask again in a minute; if it never comes, do not rely on this log."
    )]
    KeysNotShown,
    /// A host that shows the log of the keys gives a stranger other keys, or no valid evidence.
    #[coded(
        "KEYS_NOT_GIVEN",
        remedy = "Ask before they are replaced; if no stranger is ever given them, they may be yours alone."
    )]
    KeysNotGiven,
    /// The receipt, or the attestation of its key, is refused: its log proves nothing then.
    #[coded("RECEIPT_REFUSED", remedy = "See the receipt's own report.")]
    ReceiptRefused,
}

impl LogCode {
    pub(super) fn of(error: ProofError) -> Self {
        match error {
            ProofError::OutsideTree { .. } => Self::LeafOutsideTree,
            ProofError::Shrunk { .. } => Self::TreeShrunk,
            ProofError::PathLength => Self::ProofLength,
            ProofError::Forked => Self::HistoryForked,
            ProofError::Inconsistent => Self::HistoryInconsistent,
            _ => Self::RootMismatch,
        }
    }
}

/// A refusal: the row, the code, and the observed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRefusal {
    /// Stable code.
    pub code: LogCode,
    pub(super) row: LogCheck,
    pub(super) observed: String,
}

impl LogRefusal {
    pub(super) fn new(row: LogCheck, code: LogCode, observed: impl Into<String>) -> Self {
        Self {
            code,
            row,
            observed: observed.into(),
        }
    }
}
