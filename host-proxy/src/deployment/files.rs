//! Records that the operator puts into a folder, and the published log as static files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use merkle::json::hex;
use witness::record::{Kind, MAX_RECORD, write};
use witness::tiles::Tile;

use super::{DeploymentError, DeploymentStore};
use crate::log::sync_folder;

/// Records of the files whose extension is a kind, in the order of their names. A file that cannot become a record is reported and left
/// out, so that it does not hold back the others.
pub(super) fn read_records(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for found in fs::read_dir(folder)? {
        let path = found?.path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        if let Some(kind) = kind.and_then(Kind::from_name) {
            files.push((path, kind));
        }
    }
    files.sort();
    let mut records = Vec::new();
    for (path, kind) in files {
        match fs::read(&path) {
            Ok(bytes) => {
                let record = write(kind, &bytes);
                match record.len() <= MAX_RECORD {
                    true => records.push(record),
                    false => {
                        let error = DeploymentError::TooLong(record.len());
                        tracing::warn!(code = error.code(), %error, remedy = error.remedy(), file = %path.display(), "a record is left out");
                    }
                }
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "a record cannot be read");
            }
        }
    }
    Ok(records)
}

/// Writes the published log's files that `folder` lacks, the checkpoint last, when the others are on disk: readers of a checkpoint find
/// its tiles, also after a power failure.
///
/// # Errors
/// [`DeploymentError::RolledBack`] where the folder has a checkpoint of this log that the log does not extend: nothing is written.
pub(super) fn export(store: &DeploymentStore, folder: &Path) -> Result<(), DeploymentError> {
    let unavailable =
        |error: io::Error| DeploymentError::Unavailable(format!("{}: {error}", folder.display()));
    let checkpoint = folder.join("checkpoint");
    let written = match fs::read(&checkpoint) {
        Ok(bytes) => store.recognize(&bytes, &checkpoint.display().to_string())?,
        Err(_) => None,
    };
    let Some(head) = store.published()? else {
        return Ok(());
    };
    // The files below a checkpoint of another log, or none of any, may be anything.
    let from = written.map_or(0, |tree| tree.size);
    let mut next = if from <= head.tree.size { from } else { 0 };
    let mut writer = Writer::new(folder).map_err(unavailable)?;
    for tile in Tile::between(next, head.tree.size) {
        if let Some(bytes) = store.tile(tile, false)? {
            let path = folder.join(tile.path());
            writer.replace(&path, &bytes).map_err(unavailable)?;
        }
        if tile.level == 0
            && let Some(bytes) = store.tile(tile, true)?
        {
            let path = folder.join(tile.entries_path());
            writer.replace(&path, &bytes).map_err(unavailable)?;
        }
    }
    while next < head.tree.size {
        let entries = store.entries(next, 256)?;
        if entries.is_empty() {
            break;
        }
        next += entries.len() as u64;
        for entry in entries {
            if let Some(record) = store.record(&entry)? {
                let path = folder.join("record").join(hex(&entry));
                writer.replace(&path, &record).map_err(unavailable)?;
            }
        }
    }
    writer.sync().map_err(unavailable)?;
    let text = head.note.to_string();
    let replaced = writer.replace(&checkpoint, text.as_bytes());
    replaced.and_then(|()| writer.sync()).map_err(unavailable)
}

/// Writes files below a folder.
struct Writer<'a> {
    root: &'a Path,
    /// Folders whose entries may not be on disk yet.
    changed: BTreeSet<PathBuf>,
}

impl<'a> Writer<'a> {
    fn new(root: &'a Path) -> io::Result<Self> {
        if !root.exists() {
            fs::create_dir_all(root)?;
            sync_folder(root)?;
        }
        Ok(Self {
            root,
            changed: BTreeSet::new(),
        })
    }

    /// In one step: a reader gets the old file or the new one.
    fn replace(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folders = path.ancestors().skip(1);
        let folders = folders.take_while(|folder| folder.starts_with(self.root));
        self.changed.extend(folders.map(Path::to_owned));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let next = path.with_added_extension("next");
        let mut file = File::create(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&next, path)
    }

    fn sync(&mut self) -> io::Result<()> {
        for folder in std::mem::take(&mut self.changed) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}
