//! What is wrong with a file, and where.

use std::fmt::{self, Write};

use serde::Serialize;

/// Most faults that are reported of one file.
pub const MAX_PROBLEMS: usize = 20;

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which rule; stable.
    pub code: Code,
    /// Where: `$.records[3].stages.attestation_ms`.
    pub path: String,
    /// What is wrong there, and what would be right.
    pub reason: String,
}

impl Problem {
    pub(crate) fn new(code: Code, path: &str, reason: String) -> Self {
        Self {
            code,
            path: path.to_owned(),
            reason,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} ({:?})", self.path, self.reason, self.code)
    }
}

/// Rules. A code never changes meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(non_camel_case_types, reason = "the names are printed as they are")]
pub enum Code {
    /// The file is larger than is read.
    RECORD_TOO_LARGE,
    /// The file is not JSON.
    RECORD_NOT_JSON,
    /// Values are nested too deeply.
    RECORD_TOO_DEEP,
    /// An object has a name twice.
    RECORD_DUPLICATE_KEY,
    /// A field does not exist.
    RECORD_UNKNOWN_FIELD,
    /// A field is missing.
    RECORD_MISSING_FIELD,
    /// A value is of another type.
    RECORD_TYPE,
    /// A value is of the right type and still not allowed.
    RECORD_VALUE,
    /// A text or a list is too long or too short.
    RECORD_LENGTH,
    /// Percentiles that fall where they must rise.
    RECORD_ORDER,
    /// A unit that does not measure the subject.
    RECORD_UNIT,
}

/// Adds a field's name to a path: `.b`, or `["strange name"]`.
pub(crate) fn push_member(path: &mut String, name: &str) {
    let plain = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let _ = match plain && !name.is_empty() {
        true => write!(path, ".{name}"),
        false => write!(path, "[{}]", serde_json::Value::from(shortened(name))),
    };
}

/// The first forty characters.
fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
