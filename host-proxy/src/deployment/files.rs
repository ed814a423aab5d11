//! Records that the operator puts into a folder, and the published log as static files.

use std::fs;
use std::io;
use std::path::Path;

use merkle::json::hex;
use witness::checkpoint::Checkpoint;
use witness::note::Note;
use witness::record::{Kind, MAX_RECORD, write};
use witness::tiles::Tile;

use super::{DeploymentError, DeploymentStore};

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

/// Writes the published log's files that `folder` lacks, the checkpoint last: readers of a checkpoint find its tiles.
pub(super) fn export(store: &DeploymentStore, folder: &Path) -> Result<(), DeploymentError> {
    let unavailable =
        |error: io::Error| DeploymentError::Unavailable(format!("{}: {error}", folder.display()));
    let Some(head) = store.published()? else {
        return Ok(());
    };
    let from = written_size(folder).filter(|size| *size <= head.tree.size);
    for tile in Tile::between(from.unwrap_or(0), head.tree.size) {
        if let Some(bytes) = store.tile(tile, false)? {
            replace(&folder.join(tile.path()), &bytes).map_err(unavailable)?;
        }
        if tile.level == 0
            && let Some(bytes) = store.tile(tile, true)?
        {
            replace(&folder.join(tile.entries_path()), &bytes).map_err(unavailable)?;
        }
    }
    let mut next = from.unwrap_or(0);
    while next < head.tree.size {
        let entries = store.entries(next, 256)?;
        if entries.is_empty() {
            break;
        }
        next += entries.len() as u64;
        for entry in entries {
            if let Some(record) = store.record(&entry)? {
                let path = folder.join("record").join(hex(&entry));
                replace(&path, &record).map_err(unavailable)?;
            }
        }
    }
    let text = head.note.to_string();
    replace(&folder.join("checkpoint"), text.as_bytes()).map_err(unavailable)
}

/// Size of the tree whose files the folder has.
fn written_size(folder: &Path) -> Option<u64> {
    let note = Note::parse(&fs::read(folder.join("checkpoint")).ok()?).ok()?;
    Some(Checkpoint::parse(note.text()).ok()?.tree.size)
}

/// In one step: a reader gets the old file or the new one. Not synchronized to the disk: the log's file is the one that counts.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let next = path.with_added_extension("next");
    fs::write(&next, bytes)?;
    fs::rename(&next, path)
}
