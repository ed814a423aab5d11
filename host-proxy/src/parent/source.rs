//! Where sealed models lie, behind one trait.
//!
//! The host cannot read a container, and nothing that it does here is trusted: it only moves bytes. So a source has two
//! verbs, and everything else (ranges, versions, reading ahead) is done once for all of them.

mod folder;
#[cfg(feature = "cloud")]
mod objects;
mod parts;

use bytes::Bytes;
use std::future::Future;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

pub(super) use parts::Parts;

/// A future that a source returns.
pub(crate) type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, SourceError>> + Send + 'a>>;

/// A place of models: a folder, or a server.
pub(super) trait Source: Send + Sync {
    /// Finds a file of a model as it is now.
    fn open<'a>(&'a self, name: &'a ModelName, file: Artifact) -> Reading<'a, Arc<dyn Container>>;
}

/// One version of one container.
pub(crate) trait Container: Send + Sync {
    /// Bytes of it.
    fn length(&self) -> u64;

    /// Reads exactly these bytes, which are inside. Fails where the container became another one meanwhile.
    fn read(&self, range: Range<u64>) -> Reading<'_, Bytes>;

    /// Reads that may run at once. A distant server is as fast as several of them.
    fn parallel(&self) -> usize;
}

/// Why a source did not give what was asked for. The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// There is no such container.
    #[error("there is no {0}")]
    Unknown(String),
    /// It is there and cannot be read.
    #[error("{0}")]
    Unavailable(String),
}

/// Name of a model: letters, digits, `.`, `-` and `_`, at most 64, none of the dots at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelName(String);

impl ModelName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let valid =
            (1..=64).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(plain);
        valid.then(|| Self(text.to_owned()))
    }

    /// Where a file of it lies below the place of the models.
    pub(super) fn path(&self, file: Artifact) -> String {
        format!("{}/{}", self.0, file.name())
    }
}

/// What there is of a model.
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

/// Opens the place that `--models` names; none at all has no model.
pub(super) fn open(place: Option<&str>) -> anyhow::Result<Arc<dyn Source>> {
    let distant = |place: &str| place.contains("://");
    Ok(match place {
        None => Arc::new(Nowhere),
        #[cfg(feature = "cloud")]
        Some(url) if distant(url) => Arc::new(objects::Objects::open(url)?),
        #[cfg(not(feature = "cloud"))]
        Some(url) if distant(url) => anyhow::bail!(
            "--models {url} needs a host-proxy that was built with its feature `cloud`; this one reads a folder"
        ),
        Some(folder) => Arc::new(folder::Folder::open(Path::new(folder))?),
    })
}

/// The source of a proxy without `--models`.
struct Nowhere;

impl Source for Nowhere {
    fn open<'a>(&'a self, name: &'a ModelName, file: Artifact) -> Reading<'a, Arc<dyn Container>> {
        let path = name.path(file);
        let unknown = SourceError::Unknown(format!("{path}, for there is no --models"));
        Box::pin(std::future::ready(Err(unknown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_the_place() {
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
