//! Models in S3, or on a web server that serves ranges: `s3://BUCKET/PREFIX`, `https://HOST/PREFIX`.
//!
//! Plain `http://` is as safe: a container is sealed, and one that was changed in transit does not open.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, GetOptions, GetRange, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, RetryConfig,
};

use super::{Artifact, Container, ModelName, Reading, Source, SourceError};

/// Ranges that are read at once: one connection of S3 gives some 80 MB a second.
const PARALLEL: usize = 8;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for one range.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Further attempts at a range that fails; after them the enclave retries.
const RETRIES: usize = 3;

pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Path of the models in the store.
    prefix: Path,
    /// The operator's spelling, for the log.
    shown: String,
}

impl Objects {
    /// Opens `s3://BUCKET/PREFIX`, `https://HOST/PREFIX` or `http://HOST/PREFIX`. Credentials and region of S3 come from the
    /// environment or the instance's role, as for AWS's tools.
    pub(super) fn open(place: &str) -> anyhow::Result<Self> {
        crate::tls::install_provider();
        let unusable = || format!("--models {place} cannot be used");
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: RETRIES,
            retry_timeout: TIMEOUT,
        };
        let client = ClientOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(TIMEOUT);
        let place = place.trim_end_matches('/');
        let (store, prefix): (Arc<dyn ObjectStore>, _) = match place.split_once("://") {
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let store = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_client_options(client.with_allow_http(allows_http()))
                    .with_retry(retry)
                    .build();
                (Arc::new(store.with_context(unusable)?), prefix)
            }
            Some(("https" | "http", _)) => {
                let store = HttpBuilder::new()
                    .with_url(place)
                    .with_client_options(client.with_allow_http(true))
                    .with_retry(retry)
                    .build();
                (Arc::new(store.with_context(unusable)?), "")
            }
            _ => anyhow::bail!(
                "--models takes a folder, s3://BUCKET/PREFIX, https:// or http://, not {place}"
            ),
        };
        Ok(Self {
            store,
            prefix: Path::parse(prefix).with_context(unusable)?,
            shown: place.to_owned(),
        })
    }
}

/// Whether the operator's own S3 endpoint is reached without TLS.
fn allows_http() -> bool {
    std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true")
}

impl Source for Objects {
    fn open<'a>(&'a self, name: &'a ModelName, file: Artifact) -> Reading<'a, Arc<dyn Container>> {
        let below = name.path(file);
        let shown = format!("{}/{below}", self.shown);
        let path = below
            .split('/')
            .fold(self.prefix.clone(), |path, part| path.join(part));
        Box::pin(async move {
            let found = self.store.head(&path).await;
            let version = found.map_err(|error| source_error(&shown, &error))?;
            Ok(Arc::new(Object {
                store: Arc::clone(&self.store),
                version,
                shown,
            }) as Arc<dyn Container>)
        })
    }
}

/// One version of an object.
struct Object {
    store: Arc<dyn ObjectStore>,
    version: ObjectMeta,
    shown: String,
}

impl Container for Object {
    fn length(&self) -> u64 {
        self.version.size
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Bytes> {
        Box::pin(async move {
            let options = GetOptions {
                if_match: self.version.e_tag.clone(),
                range: Some(GetRange::Bounded(range.clone())),
                ..GetOptions::default()
            };
            let found = self.store.get_opts(&self.version.location, options).await;
            let found = found.map_err(|error| source_error(&self.shown, &error))?;
            // Without entity tags only a version's length identifies it.
            let is_replaced = found.meta.size != self.version.size
                || found.meta.e_tag != self.version.e_tag
                || found.range != range;
            if is_replaced {
                let shown = &self.shown;
                return Err(SourceError::Unavailable(format!(
                    "{shown} was replaced while it was read"
                )));
            }
            let bytes = found.bytes().await;
            let bytes = bytes.map_err(|error| source_error(&self.shown, &error))?;
            if bytes.len() as u64 == range.end - range.start {
                Ok(bytes)
            } else {
                let shown = &self.shown;
                Err(SourceError::Unavailable(format!("{shown} ended early")))
            }
        })
    }

    fn parallel(&self) -> usize {
        PARALLEL
    }
}

fn source_error(shown: &str, error: &Error) -> SourceError {
    match error {
        Error::NotFound { .. } => SourceError::Unknown(shown.to_owned()),
        Error::Precondition { .. } => {
            SourceError::Unavailable(format!("{shown} was replaced while it was read"))
        }
        error => SourceError::Unavailable(format!("{shown}: {error}")),
    }
}

#[cfg(test)]
mod tests;
