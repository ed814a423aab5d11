//! Notices on standard error.

use std::io::Write;

use crate::shown::shown;

/// Prints one line on standard error, with unsafe characters escaped.
pub(crate) fn notice(text: &str) {
    // A failure is ignored: standard error is closed, so nothing can report it.
    let _ = writeln!(std::io::stderr(), "{}", shown(text));
}
