//! Errors with KMS's names.

use serde_json::{Value, json};

/// A refusal of `Decrypt`, sent with status 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// KMS's name for the error.
    pub name: &'static str,
    /// Explanation for developers; contains no key or plaintext.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            message: message.into(),
        }
    }

    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new("ValidationException", message)
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        json!({ "__type": self.name, "message": self.message })
    }
}
