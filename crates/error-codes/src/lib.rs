//! Stable codes of errors, and what to do about each.
//!
//! An error has three parts, each written once: `Display` says what happened, [`Coded::code`] names it for programs, and
//! [`Coded::remedy`] says what to do next. A code never changes its meaning.
//!
//! ```
//! use error_codes::Coded;
//!
//! /// Why a request was refused.
//! #[derive(Debug, Coded)]
//! pub enum Refusal {
//!     /// No key of this gateway has the identifier.
//!     #[coded("KEY_UNKNOWN", remedy = "Fetch fresh evidence and seal again.")]
//!     UnknownKey(u8),
//!     /// The bytes are not a message.
//!     #[coded(transparent)]
//!     Malformed(Malformed),
//! }
//!
//! /// Not a message.
//! #[derive(Debug, Coded)]
//! #[coded("MESSAGE_MALFORMED", remedy = "Check the encoder.")]
//! pub struct Malformed;
//!
//! assert_eq!(Refusal::UnknownKey(3).code(), "KEY_UNKNOWN");
//! assert_eq!(Refusal::Malformed(Malformed).remedy(), "Check the encoder.");
//! ```
//!
//! `docs/ERRORS.md` lists every code. It is generated from the sources (`tests/reference.rs`), so it is always complete.
//! `#[coded(transparent)]` delegates to the only field, `#[coded(from = field)]` to a named one. In addition to the trait, the derive
//! writes methods `code` and `remedy` that return `&'static str`. Attributes of an enum:
//!
//! - `#[coded(all)]`: a constant `ALL` of every variant; no variant has fields then;
//! - `#[coded(message)]`: a method `message`, the variant's documentation without its full stop;
//! - `#[coded(borrowed)]`: the methods return `&str`, because a transparent field does not know its code statically.

#![forbid(unsafe_code)]

use std::fmt;

pub use error_codes_derive::Coded;

/// An error with a stable code.
pub trait Coded {
    /// The stable code: capital letters, digits and underscores.
    fn code(&self) -> &str;

    /// The next step for the reader, in whole sentences. Contains nothing from a user's text.
    fn remedy(&self) -> &str;
}

impl<E: Coded + ?Sized> Coded for Box<E> {
    fn code(&self) -> &str {
        (**self).code()
    }

    fn remedy(&self) -> &str {
        (**self).remedy()
    }
}

/// An error in one line, for a terminal or a log: `CODE: what happened. What to do next.`.
pub struct ErrorLine<'a, E: ?Sized>(pub &'a E);

impl<E: Coded + fmt::Display + ?Sized> fmt::Display for ErrorLine<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. {}", self.0.code(), self.0, self.0.remedy())
    }
}
