//! Audit bundles on disk: JSON lines, in files of a bounded size.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file that is being written; the one before it has `.1` at the end of its name.
pub(super) struct ReceiptFile {
    path: PathBuf,
    limit: u64,
    open: Mutex<(File, u64)>,
}

impl ReceiptFile {
    /// Appends to `path`, and begins a new file where it would get longer than `limit` bytes.
    pub(super) fn open(path: &Path, limit: u64) -> Result<Self> {
        let file = append(path)?;
        let length = file
            .metadata()
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
        Ok(Self {
            path: path.to_owned(),
            limit,
            open: Mutex::new((file, length)),
        })
    }

    /// Writes one line. Lines of requests at the same time never mix.
    pub(super) fn write(&self, bundle: &str) -> Result<()> {
        let value: serde_json::Value = serde_json::from_str(bundle)?;
        let line = format!("{value}\n");
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let length = line.len() as u64;
        if open.1 > 0 && open.1.saturating_add(length) > self.limit {
            let mut before = self.path.clone().into_os_string();
            before.push(".1");
            std::fs::rename(&self.path, before).context("cannot rotate the receipts")?;
            *open = (append(&self.path)?, 0);
        }
        open.0
            .write_all(line.as_bytes())
            .context("cannot write the receipts")?;
        open.1 = open.1.saturating_add(length);
        Ok(())
    }
}

fn append(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))
}
