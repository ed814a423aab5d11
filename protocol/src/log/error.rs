//! Why a log is refused.

use super::report::LogCheck;
use merkle::verify::ProofError;

macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident $text:literal $remedy:literal; )*) => {
        /// Stable codes of refusal. Variants may be added; a code never changes meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum LogCode { $( $(#[$doc])* $name, )* }

        impl LogCode {
            /// Every code.
            pub const ALL: &[Self] = &[$( Self::$name, )*];

            /// The code as it is written everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$name => $text, )* }
            }

            /// What to do next, in one sentence.
            pub const fn remedy(self) -> &'static str {
                match self { $( Self::$name => $remedy, )* }
            }
        }
    };
}

codes! {
    /// Not the one encoding of a signed tree head.
    HeadMalformed "HEAD_MALFORMED" "Check that the whole head was copied, and nothing else.";
    /// Not signed with the key that it names, or changed since.
    HeadSigFailed "HEAD_SIG_FAILED" "Do not rely on the head: it was changed, or nobody who holds the key signed it.";
    /// A head of another log.
    HeadOtherLog "HEAD_OTHER_LOG" "Ask for the log that has the receipt key as its name.";
    /// The proof is of another leaf than the receipt's number says.
    NumberMismatch "NUMBER_MISMATCH" "Ask for the proof of this receipt; suspect whoever gave another one.";
    /// The tree ends before the receipt.
    LeafOutsideTree "LEAF_OUTSIDE_TREE" "Ask for a newer head; if the newest one does not hold the receipt either, it was left out: keep both.";
    /// A path that is too long or too short.
    ProofLength "PROOF_LENGTH" "Ask for the proof again, between exactly these heads.";
    /// The path does not lead to the signed root.
    RootMismatch "ROOT_MISMATCH" "The receipt is not in this history: keep receipt, head and proof, and ask the operator.";
    /// Signed long before the receipt was issued.
    HeadTooEarly "HEAD_TOO_EARLY" "Ask for a newer head; a receipt cannot be in a tree that is older than it.";
    /// Fewer leaves than in the earlier head.
    TreeShrunk "TREE_SHRUNK" "Check the order of the heads; if the smaller one is the newer, history was taken back: keep both.";
    /// The proof does not lead from the earlier head to this one.
    HistoryInconsistent "HISTORY_INCONSISTENT" "Ask for the proof again, between exactly these heads; if nobody can give one, keep both: their histories differ.";
    /// Two heads of one size with different roots.
    HistoryForked "HISTORY_FORKED" "Keep both heads: together they show that there are two histories.";
    /// A proof between other sizes.
    SizesMismatch "SIZES_MISMATCH" "Ask for the proof between exactly these two heads.";
    /// No proof between two heads of different size.
    ConsistencyMissing "CONSISTENCY_MISSING" "Pass the proof from the earlier head's size to the later one's.";
    /// The receipt, or the attestation of its key, is refused: its log proves nothing then.
    ReceiptRefused "RECEIPT_REFUSED" "See the receipt's own report.";
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

/// A refusal: which row, which code, and what was seen.
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
