//! Compares the bytes of a stream with the files that a manifest names.

use sha2::{Digest, Sha256};

use crate::error::ContainerError;
use crate::manifest::{FileEntry, Manifest};

/// Takes the files' bytes one after another, and compares each file's digest at its end.
pub struct Digests<'a> {
    files: &'a [FileEntry],
    at: usize,
    left: u64,
    hash: Sha256,
}

impl<'a> Digests<'a> {
    /// Starts with the first file.
    pub fn new(manifest: &'a Manifest) -> Self {
        let files = manifest.files();
        Self {
            files,
            at: 0,
            left: files.first().map_or(0, |file| file.size),
            hash: Sha256::new(),
        }
    }

    /// Takes the next bytes, of one file or of several.
    ///
    /// # Errors
    /// [`ContainerError::FileDigest`] at the end of a changed file; [`ContainerError::TrailingBytes`] after the last.
    pub fn update(&mut self, mut bytes: &[u8]) -> Result<(), ContainerError> {
        self.end_files()?;
        while !bytes.is_empty() {
            if self.at == self.files.len() {
                return Err(ContainerError::TrailingBytes);
            }
            let most = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let (now, rest) = bytes.split_at(most);
            self.hash.update(now);
            self.left -= now.len() as u64;
            bytes = rest;
            self.end_files()?;
        }
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// [`ContainerError::Truncated`] if a file is incomplete.
    pub fn finish(mut self) -> Result<(), ContainerError> {
        self.end_files()?;
        match self.at == self.files.len() {
            true => Ok(()),
            false => Err(ContainerError::Truncated("a file")),
        }
    }

    /// Finishes files whose bytes are complete; empty files are complete at once.
    fn end_files(&mut self) -> Result<(), ContainerError> {
        while self.left == 0
            && let Some(file) = self.files.get(self.at)
        {
            let observed: [u8; 32] = std::mem::take(&mut self.hash).finalize().into();
            if observed != file.sha256 {
                return Err(ContainerError::FileDigest {
                    name: file.name.clone(),
                    expected: file.sha256,
                    observed,
                });
            }
            self.at += 1;
            self.left = self.files.get(self.at).map_or(0, |file| file.size);
        }
        Ok(())
    }
}
