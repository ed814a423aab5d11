//! Fetches lists, reads them from folders, and joins those that are served.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};

use super::{Inner, List, RETRY, dates, now};

/// Upper bound on the bytes of all lists together, and so of each: clients accept no more.
const MAX_BYTES: usize = 10 << 20;
/// Upper bound on lists: clients accept no more.
const MAX_LISTS: usize = 64;
/// Longest time for fetching one list.
const DEADLINE: Duration = Duration::from_secs(30);
/// Age at which a list is fetched again, though it may be valid for days: a revocation is published before that.
const REFRESH: Duration = Duration::from_secs(3600);
/// Seconds before its expiry from which a list is no longer served: clients' clocks differ.
const MARGIN: u64 = 60;

/// A valid list.
struct CurrentList {
    bytes: Bytes,
    /// Unix seconds.
    next_update: u64,
}

impl Inner {
    /// Fetches lists that are due, and joins those that are served. Returns the time until the next round.
    pub(super) async fn refresh(&self) -> Duration {
        let due: Vec<_> = {
            let state = self.state();
            let is_due = |list: &List| {
                list.next_update <= now() + MARGIN
                    || list.fetched.is_none_or(|at| at.elapsed() >= REFRESH)
            };
            let due = state.lists.iter().filter(|(_, list)| is_due(list));
            due.map(|(address, _)| address.clone()).collect()
        };
        let mut has_failed = false;
        for address in due {
            match self.fetch(&address).await {
                Ok(CurrentList { bytes, next_update }) => {
                    if let Some(list) = self.state().lists.get_mut(&address) {
                        list.bytes = bytes;
                        list.next_update = next_update;
                        list.fetched = Some(tokio::time::Instant::now());
                    }
                }
                Err(error) => {
                    has_failed = true;
                    tracing::warn!(%address, code = "CRL_UNAVAILABLE", "a revocation list cannot be fetched: {error:#}");
                }
            }
        }
        let files = self.read_folders().await;
        let mut state = self.state();
        let current: Vec<_> = state
            .lists
            .values()
            .map(|list| CurrentList {
                bytes: list.bytes.clone(),
                next_update: list.next_update,
            })
            .chain(files)
            .filter(|list| list.next_update > now() + MARGIN)
            .collect();
        let mut served = Vec::new();
        let mut next = u64::MAX;
        for CurrentList { bytes, next_update } in current.iter().take(MAX_LISTS) {
            if served.len() + bytes.len() > MAX_BYTES {
                tracing::warn!(
                    code = "CRL_TOO_LARGE",
                    "revocation lists of more than 10 MiB: some are not served"
                );
                break;
            }
            served.extend_from_slice(bytes);
            next = next.min(*next_update);
        }
        state.served = served.into();
        let lifetime = Duration::from_secs(next.saturating_sub(now() + MARGIN));
        match has_failed {
            true => RETRY,
            false => lifetime.clamp(RETRY, REFRESH),
        }
    }

    async fn fetch(&self, address: &str) -> anyhow::Result<CurrentList> {
        let uri: Uri = address.parse()?;
        // Checked again, whatever the source of the address. Redirects are not followed.
        ensure!(self.allowed.allows(&uri), "its host is not allowed");
        let request = http::Request::get(uri).body(Empty::new())?;
        let exchange = async {
            let answer = self.client.request(request).await?;
            let status = answer.status();
            ensure!(status == StatusCode::OK, "it answers {status}");
            let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("{error}"))?;
            Ok(body.to_bytes())
        };
        let bytes = tokio::time::timeout(DEADLINE, exchange)
            .await
            .context("it did not answer within 30 s")??;
        let next_update =
            dates::next_update(&bytes).context("it is not a revocation list in DER")?;
        ensure!(next_update > now() + MARGIN, "it has expired");
        Ok(CurrentList { bytes, next_update })
    }

    /// Reads the lists of the folders.
    async fn read_folders(&self) -> Vec<CurrentList> {
        let folders = self.folders.clone();
        let read = tokio::task::spawn_blocking(move || {
            let folders = folders.iter();
            folders.flat_map(|folder| read_folder(folder)).collect()
        });
        read.await.unwrap_or_default()
    }
}

fn read_folder(folder: &Path) -> Vec<CurrentList> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        tracing::warn!(folder = %folder.display(), code = "CRL_UNAVAILABLE", "a folder of revocation lists cannot be read");
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "crl"))
        .collect();
    // The order is the same for every client and at every start.
    paths.sort();
    let lists = paths.into_iter().take(MAX_LISTS).filter_map(|path| {
        let is_small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_BYTES as u64);
        let bytes = is_small.then(|| std::fs::read(&path).ok()).flatten();
        let list = bytes.and_then(|bytes| {
            Some(CurrentList {
                next_update: dates::next_update(&bytes)?,
                bytes: bytes.into(),
            })
        });
        if list.is_none() {
            tracing::warn!(file = %path.display(), code = "CRL_UNAVAILABLE", "not a revocation list in DER of at most 10 MiB");
        }
        list
    });
    lists.collect()
}
