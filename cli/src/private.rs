//! Files that only their user may read: texts, vectors, salts, keys.

use std::fs::OpenOptions;

/// Returns options that create a file readable only by its user.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
