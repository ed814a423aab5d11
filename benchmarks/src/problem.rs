//! A problem in a file, and its place.

use std::fmt::{self, Write};

use serde::Serialize;

/// Most problems that are reported per file.
pub const MAX_PROBLEMS: usize = 20;

/// One problem in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The rule that is broken; stable.
    pub code: Code,
    /// Place in the file: `$.records[3].stages.attestation_ms`.
    pub path: String,
    /// The fault, and the expected value.
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
    /// The file exceeds the size limit.
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
    /// A value has the right type but is not allowed.
    RECORD_VALUE,
    /// A text or a list is too long or too short.
    RECORD_LENGTH,
    /// Percentiles decrease.
    RECORD_ORDER,
    /// The unit does not fit the subject.
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
