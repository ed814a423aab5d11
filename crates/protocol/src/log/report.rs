//! The report of a log: the same in the browser, in the terminal and in JSON.

use attestation::{CheckLog, Row, RowId, RowSpec, RowState, Verdict};
use merkle::head::TreeHead;
use merkle::json::hex;
use serde::Serialize;

use super::error::{LogCode, LogRefusal};

macro_rules! rows {
    ($( $id:literal $check:ident $name:literal $stage:literal, $title:literal, $expected:literal, $clause:literal; )*) => {
        /// One check of a log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum LogCheck { $( #[doc = $title] $check = $id, )* }

        /// The rows of every log report, in the order in which the checks run.
        pub const SPECS: &[RowSpec] = &[$( RowSpec {
            id: $id, name: $name, stage: $stage, title: $title, required: true, expected: $expected, clause: $clause,
        }, )*];
    };
}

impl RowId for LogCheck {
    const SPECS: &'static [RowSpec] = SPECS;

    fn number(self) -> u8 {
        self as u8
    }
}

rows! {
    1 Head "tree-head" "head", "Is it one signed tree head?", "A tagged COSE_Sign1 in its one encoding", "docs/PROTOCOL.md §6";
    2 Signature "head-signature" "head", "Did the log's key sign exactly these bytes?", "A strict Ed25519 signature",
        "RFC 8032 §5.1.7; RFC 9052 §4.4";
    3 Log "log" "head", "Is it the log of the receipt's key?", "The receipt key", "docs/PROTOCOL.md §6";
    4 Number "number" "receipt", "Is it at its place in the tree?", "The leaf of its number; keys at 0", "docs/PROTOCOL.md §6";
    5 Included "inclusion" "receipt", "Is it in the tree?", "A path from its hash to the signed root", "RFC 9162 §2.1.3.2";
    6 Time "head-time" "receipt", "Was the head signed after the receipt?", "Not before the receipt", "docs/PROTOCOL.md §6";
    7 Earlier "earlier-head" "history", "Is the earlier head one of the same log?", "A signed head of this log", "docs/PROTOCOL.md §6";
    8 Consistent "consistency" "history", "Is the earlier history the start of this one?", "The same leaves, in the same order, then more",
        "RFC 9162 §2.1.4.2";
}

/// Verification of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct LogReport {
    /// `verified`, `simulated` (under a development attestation), `signed` (by a key that the user typed) or `refused`.
    pub verdict: Verdict,
    /// Stable code of the refusal.
    pub code: Option<String>,
    /// The outcome in one sentence.
    pub message: Option<String>,
    /// The next step for the reader, in one sentence.
    pub remedy: Option<String>,
    /// Every check, in order.
    pub checks: Vec<Row>,
    /// The head's contents, if it is signed by the log's key.
    pub head: Option<HeadView>,
}

/// A tree head; byte strings in hex.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "tsify", derive(tsify::Tsify))]
#[serde(rename_all = "camelCase")]
pub struct HeadView {
    /// Name of the log: the receipt key.
    pub log: String,
    /// Number of leaves: the keys, and the receipts.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub size: u64,
    /// Root of the tree.
    pub root: String,
    /// When the head was signed, Unix seconds.
    #[cfg_attr(feature = "tsify", tsify(type = "number"))]
    pub time: u64,
    /// SHA-256 of a document that binds the key.
    pub document: String,
}

impl LogReport {
    /// A report without checks, because the receipt or its attestation was refused.
    pub fn receipt_refused(message: &str) -> Self {
        Self::refused_unchecked(
            LogCode::ReceiptRefused.code(),
            message,
            LogCode::ReceiptRefused.remedy(),
        )
    }

    /// A report without checks, because a host shows no log that begins with these keys.
    pub fn keys_not_shown() -> Self {
        let code = LogCode::KeysNotShown;
        Self::refused_unchecked(
            code.code(),
            "The host shows no log that begins with these keys.",
            code.remedy(),
        )
    }

    /// Turns this report into a refusal: the host gives other clients no evidence of the log's keys.
    #[must_use]
    pub fn keys_not_given(self) -> Self {
        let code = LogCode::KeysNotGiven;
        Self {
            verdict: Verdict::Refused,
            code: Some(code.code().to_owned()),
            message: Some("The host shows the log of these keys, and gives a stranger no valid evidence of them.".to_owned()),
            remedy: Some(code.remedy().to_owned()),
            ..self
        }
    }

    /// A report without checks, because the proof could not be read.
    pub fn refused_unchecked(code: &str, message: &str, remedy: &str) -> Self {
        Self {
            verdict: Verdict::Refused,
            code: Some(code.to_owned()),
            message: Some(message.to_owned()),
            remedy: Some(remedy.to_owned()),
            checks: CheckLog::<LogCheck>::new().into_rows(),
            head: None,
        }
    }
}

pub(super) fn report(
    refusal: Option<&LogRefusal>,
    head: Option<&TreeHead>,
    best: Verdict,
    checks: Vec<Row>,
) -> LogReport {
    // Rows without an input may be skipped; a row that did not run refuses.
    let settled = checks.iter().all(|row| match row.state {
        RowState::Passed => true,
        RowState::Skipped => row.stage != "head",
        RowState::NotRun | RowState::Failed | RowState::Warning => false,
    });
    LogReport {
        verdict: if settled && refusal.is_none() {
            best
        } else {
            Verdict::Refused
        },
        code: refusal.map(|refusal| refusal.code.code().to_owned()),
        message: refusal.map(|refusal| format!("The log is refused: {}.", refusal.observed)),
        remedy: refusal.map(|refusal| refusal.code.remedy().to_owned()),
        checks,
        head: head.map(|head| HeadView {
            log: hex(&head.log),
            size: head.size,
            root: hex(&head.root),
            time: head.time,
            document: hex(&head.document),
        }),
    }
}
