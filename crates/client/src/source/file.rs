//! A trust policy in a file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use attestation::MAX_POLICY;

use super::SourceError;
use crate::witnesses::TrustPolicy;

/// A file that is compared with what was read before, byte for byte: times of modification miss changes within one tick.
pub(super) struct PolicyFile {
    path: PathBuf,
    /// The bytes of the policy in force.
    seen: Option<Vec<u8>>,
    /// A pipe was read to its end; there is nothing more to come.
    is_pipe: bool,
}

impl PolicyFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            is_pipe: false,
        }
    }

    /// Half a file is not JSON, so that one that is being written changes nothing.
    pub(super) async fn poll(&mut self) -> Result<Option<TrustPolicy>, SourceError> {
        if self.is_pipe {
            return Ok(None);
        }
        let (path, first) = (self.path.clone(), self.seen.is_none());
        // A file may be on a network that does not answer.
        let read = tokio::task::spawn_blocking(move || read(&path, first)).await;
        let (bytes, is_file) = read.map_err(|_| SourceError::Internal)?.map_err(|reason| {
            SourceError::FileUnreadable {
                path: self.path.clone(),
                reason,
            }
        })?;
        if self.seen.as_ref() == Some(&bytes) {
            return Ok(None);
        }
        let policy =
            TrustPolicy::chosen_by_hand(&bytes).map_err(|error| SourceError::Unusable {
                place: self.path.display().to_string(),
                error,
            })?;
        self.seen = Some(bytes);
        self.is_pipe = !is_file;
        Ok(Some(policy))
    }
}

/// At most one byte more than a policy has, and whether they are a file's. Later than at first a pipe is not opened: that waits
/// for someone who writes.
fn read(path: &Path, first: bool) -> std::io::Result<(Vec<u8>, bool)> {
    let is_file = std::fs::metadata(path)?.is_file();
    if !is_file && !first {
        return Err(std::io::Error::other("it is not a regular file any more"));
    }
    let mut bytes = Vec::new();
    let limit = MAX_POLICY as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes, is_file))
}
