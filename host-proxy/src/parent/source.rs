//! Sources of sealed models, behind one trait.
//!
//! The host cannot read a container, and nothing that it does here is trusted: it only moves bytes. So a source only opens and
//! reads; ranges, versions and reading ahead are implemented once for all sources.

mod folder;
#[cfg(feature = "cloud")]
mod objects;
mod parts;

use std::future::Future;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

pub(super) use parts::Parts;

/// A future that a source returns.
pub(crate) type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, SourceError>> + Send + 'a>>;

/// A folder, or a server.
pub(super) trait Source: Send + Sync {
    /// Opens the current version of a file of a model.
    fn open<'a>(&'a self, name: &'a ModelName, file: Artifact) -> Reading<'a, Arc<dyn Container>>;
}

/// One version of one container.
pub(crate) trait Container: Send + Sync {
    /// Length in bytes.
    fn length(&self) -> u64;

    /// Reads exactly these bytes, which are inside the container. Fails where the container has been replaced.
    fn read(&self, range: Range<u64>) -> Reading<'_, Bytes>;

    /// Number of reads that may run at once. One read does not use the whole bandwidth of a distant server.
    fn parallel(&self) -> usize;
}

/// A source did not deliver a file. The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// There is no such container.
    #[error("there is no {0}")]
    Unknown(String),
    /// The container exists and cannot be read.
    #[error("{0}")]
    Unavailable(String),
}

/// Name of a model: 1 to 64 letters, digits, `.`, `-` and `_`, without a leading dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelName(String);

impl ModelName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let valid = (1..=64).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(is_allowed);
        valid.then(|| Self(text.to_owned()))
    }

    /// Path of a file of this model, relative to the source.
    pub(super) fn path(&self, file: Artifact) -> String {
        format!("{}/{}", self.0, file.name())
    }
}

/// A file of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Artifact {
    /// The sealed container.
    Container,
    /// The data key as KMS wrapped it: `CiphertextBlob` of `Decrypt`.
    WrappedKey,
}

impl Artifact {
    fn name(self) -> &'static str {
        match self {
            Self::Container => "model.sealed",
            Self::WrappedKey => "data-key.wrapped",
        }
    }
}

/// Opens the source that `--models` names. Without it there are no models.
pub(super) fn open(place: Option<&str>) -> anyhow::Result<Arc<dyn Source>> {
    let is_url = |place: &str| place.contains("://");
    Ok(match place {
        None => Arc::new(NoModels),
        #[cfg(feature = "cloud")]
        Some(url) if is_url(url) => Arc::new(objects::Objects::open(url)?),
        #[cfg(not(feature = "cloud"))]
        Some(url) if is_url(url) => anyhow::bail!(
            "--models {url} needs a host-proxy that was built with its feature `cloud`; this one reads a folder"
        ),
        Some(folder) => Arc::new(folder::Folder::open(Path::new(folder))?),
    })
}

/// The source of a proxy without `--models`.
struct NoModels;

impl Source for NoModels {
    fn open<'a>(&'a self, name: &'a ModelName, file: Artifact) -> Reading<'a, Arc<dyn Container>> {
        let path = name.path(file);
        let unknown = SourceError::Unknown(format!("{path}: --models is not set"));
        Box::pin(std::future::ready(Err(unknown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_source() {
        for name in ["all-MiniLM-L6-v2", "a", "e5_small.v2"] {
            assert_eq!(
                ModelName::parse(name).unwrap().path(Artifact::Container),
                format!("{name}/model.sealed")
            );
        }
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "a%2fb",
            "ä",
            "a b",
            &"x".repeat(65),
        ] {
            assert!(ModelName::parse(name).is_none(), "{name}");
        }
    }
}
