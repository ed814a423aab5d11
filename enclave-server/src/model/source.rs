//! Where the bytes of a model come from: a folder, or the sealed container that the parent serves.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sealed_model::{CHUNK, Manifest};

use super::ModelError;

/// All files of a manifest, one after the other, in its order; not compared with any digest yet.
pub trait Source: Send {
    /// The next bytes, into memory that an earlier piece had; `None` after the last.
    ///
    /// # Errors
    /// [`ModelError`] where there are fewer bytes than the manifest says, or they cannot be had.
    fn next(&mut self, memory: Vec<u8>) -> Result<Option<Piece>, ModelError>;

    /// How long the source has worked so far.
    fn times(&self) -> SourceTimes;
}

/// Some bytes of a model.
pub struct Piece {
    /// Memory; only the first `length` bytes count.
    pub memory: Vec<u8>,
    /// Bytes that count.
    pub length: usize,
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.get(..self.length).unwrap_or_default()
    }
}

/// What a source did, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceTimes {
    /// From the first request to the last byte.
    pub fetch: Duration,
    /// Inside the cipher.
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
    /// Reads from `folder` what `pins` names.
    pub fn new(folder: &'a Path, pins: &'a Manifest) -> Self {
        Self {
            folder,
            files: pins.files().iter(),
            open: None,
            times: SourceTimes::default(),
        }
    }

    /// Opens the next file that has bytes, and compares sizes before anything is read.
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
        // The file may have changed since its size was read: then it ends early here, or the digest differs.
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
