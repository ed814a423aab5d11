//! Files that a crash leaves whole.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Replaces a file in one step, on disk before it counts: a crash leaves the old file or the new one. `options` decide how the new
/// one is created, its mode for example.
pub(crate) fn replace_file(
    path: &Path,
    bytes: &[u8],
    mut options: OpenOptions,
) -> std::io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    let file = options.write(true).create(true).truncate(true).open(&next);
    let mut file = file?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&next, path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Where a folder can be opened at all: not on every platform.
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        Err(_) => Ok(()),
    }
}
