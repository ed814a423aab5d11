//! Files that hold what only their user may read: texts, vectors, salts, keys.

use std::fs::OpenOptions;

/// Options under which a file that is made is readable by its user alone.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
