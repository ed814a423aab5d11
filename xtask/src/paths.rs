//! Where things lie. Every verb works from any folder of the workspace.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The workspace's root: cargo sets the variable when it runs us, the constant serves a bare binary.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        manifest
            .parent()
            .map_or(manifest.clone(), Path::to_path_buf)
    })
}

/// Cargo's target folder, as cargo itself sees it (flags, environment and configuration files).
pub(crate) fn target() -> Result<&'static Path> {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = TARGET.get() {
        return Ok(known);
    }
    let metadata = crate::process::metadata(&["--no-deps"])?;
    let folder = metadata["target_directory"]
        .as_str()
        .context("`cargo metadata` names no target_directory")?;
    Ok(TARGET.get_or_init(|| PathBuf::from(folder)))
}

/// The cargo that runs us, or the one on the path.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where the model lies unless a flag says otherwise: `$CLEARSEAL_MODEL`, else the user's cache folder.
pub(crate) fn model() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CLEARSEAL_MODEL") {
        return Ok(PathBuf::from(folder));
    }
    Ok(cache()?.join("clearseal/models/all-MiniLM-L6-v2"))
}

/// The user's cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(PathBuf::from(
            std::env::var_os("HOME").context("neither HOME nor XDG_CACHE_HOME is set")?,
        )
        .join(".cache")),
    }
}
