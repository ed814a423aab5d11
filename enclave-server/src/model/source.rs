//! Sources of a model's bytes: a folder, or the sealed container that the parent serves.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sealed_model::{CHUNK, Manifest};

use super::ModelError;

/// All files of a manifest, one after the other in its order. Their digests are not checked yet.
pub trait Source: Send {
    /// The next bytes, in reused memory of an earlier piece; `None` after the last.
    ///
    /// # Errors
    /// [`ModelError`] where there are fewer bytes than the manifest states, or reading them fails.
    fn next(&mut self, memory: Vec<u8>) -> Result<Option<Piece>, ModelError>;

    /// Times spent so far.
    fn times(&self) -> SourceTimes;
}

/// A piece of a model.
pub struct Piece {
    /// Memory; only the first `length` bytes are valid.
    pub memory: Vec<u8>,
    /// Number of valid bytes.
    pub length: usize,
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.get(..self.length).unwrap_or_default()
    }
}

/// Times that a source has spent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceTimes {
    /// From the first request to the last byte.
    pub fetch: Duration,
    /// Decryption.
    pub decrypt: Duration,
}

/// A folder with the files of a manifest.
pub struct Folder<'a> {
    folder: &'a Path,
    files: std::slice::Iter<'a, sealed_model::FileEntry>,
    open: Option<(File, u64, PathBuf)>,
    times: SourceTimes,
}

impl<'a> Folder<'a> {
    /// Reads the files of `pins` from `folder`.
    pub fn new(folder: &'a Path, pins: &'a Manifest) -> Self {
        Self {
            folder,
            files: pins.files().iter(),
            open: None,
            times: SourceTimes::default(),
        }
    }

    /// Opens the next file that is not empty, and compares sizes before reading.
    fn open_next(&mut self) -> Result<bool, ModelError> {
        for pin in self.files.by_ref() {
            let path = self.folder.join(&pin.name);
            let unreadable = |source| ModelError::Unreadable {
                path: path.clone(),
                source,
            };
            let file = File::open(&path).map_err(unreadable)?;
            let observed = file.metadata().map_err(unreadable)?.len();
            if observed != pin.size {
                return Err(ModelError::Size {
                    path,
                    expected: pin.size,
                    observed,
                });
            }
            if pin.size > 0 {
                self.open = Some((file, pin.size, path));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Source for Folder<'_> {
    fn next(&mut self, mut memory: Vec<u8>) -> Result<Option<Piece>, ModelError> {
        let begun = Instant::now();
        if self.open.is_none() && !self.open_next()? {
            return Ok(None);
        }
        let Some((file, left, path)) = &mut self.open else {
            return Ok(None);
        };
        let length = usize::try_from(*left).unwrap_or(usize::MAX).min(CHUNK);
        memory.resize(memory.len().max(length), 0);
        // If the file has changed since its size was read, it ends early here, or its digest differs.
        let buffer = memory.get_mut(..length).unwrap_or_default();
        file.read_exact(buffer)
            .map_err(|source| ModelError::Unreadable {
                path: path.clone(),
                source,
            })?;
        *left -= length as u64;
        if *left == 0 {
            self.open = None;
        }
        self.times.fetch += begun.elapsed();
        Ok(Some(Piece { memory, length }))
    }

    fn times(&self) -> SourceTimes {
        self.times
    }
}
