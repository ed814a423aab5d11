//! Fetches lists, reads them from folders, and joins those that are served.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use tokio::task::JoinSet;

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

/// A list in DER.
#[derive(Clone)]
pub(super) struct CurrentList {
    bytes: Bytes,
    /// Unix seconds.
    next_update: u64,
}

impl Inner {
    /// Fetches lists that are due, and joins those that are served. Returns the time until the next round.
    pub(super) async fn refresh(self: &Arc<Self>) -> Duration {
        let due: Vec<_> = {
            let state = self.state();
            let is_due = |list: &List| {
                list.next_update <= now() + MARGIN
                    || list.fetched.is_none_or(|at| at.elapsed() >= REFRESH)
            };
            let due = state.lists.iter().filter(|(_, list)| is_due(list));
            due.map(|(address, _)| address.clone()).collect()
        };
        // At once: a server that does not answer delays no other list.
        let mut fetches = JoinSet::new();
        for address in due {
            let inner = Arc::clone(self);
            fetches.spawn(async move {
                let fetched = inner.fetch(&address).await;
                (address, fetched)
            });
        }
        let mut has_failed = false;
        while let Some(fetched) = fetches.join_next().await {
            match fetched {
                Ok((address, Ok(CurrentList { bytes, next_update }))) => {
                    if let Some(list) = self.state().lists.get_mut(&address) {
                        list.bytes = bytes;
                        list.next_update = next_update;
                        list.fetched = Some(tokio::time::Instant::now());
                    }
                }
                Ok((address, Err(error))) => {
                    has_failed = true;
                    tracing::warn!(%address, code = "CRL_UNAVAILABLE", "a revocation list cannot be fetched: {error:#}");
                }
                Err(_) => has_failed = true,
            }
        }
        has_failed |= !self.read_folders().await;
        let Joined {
            bytes,
            next_update,
            is_complete,
        } = self.join_lists();
        self.state().served = bytes;
        let lifetime = Duration::from_secs(next_update.saturating_sub(now() + MARGIN));
        match has_failed || !is_complete {
            true => RETRY,
            false => lifetime.clamp(RETRY, REFRESH),
        }
    }

    /// Joins the lists that have not expired, as many as fit.
    fn join_lists(&self) -> Joined {
        let state = self.state();
        let fetched = state.lists.iter().map(|(address, list)| {
            let List {
                bytes, next_update, ..
            } = list;
            (address.clone(), bytes, *next_update)
        });
        let files = state.files.iter().map(|(path, list)| {
            let CurrentList { bytes, next_update } = list;
            (path.display().to_string(), bytes, *next_update)
        });
        let mut joined = Vec::new();
        let (mut count, mut next, mut is_complete) = (0, u64::MAX, true);
        for (place, bytes, next_update) in fetched.chain(files) {
            if bytes.is_empty() {
                continue;
            }
            if next_update <= now() + MARGIN {
                is_complete = false;
                tracing::warn!(
                    place,
                    code = "CRL_OUTDATED",
                    "a revocation list has expired and is not served"
                );
                continue;
            }
            if count == MAX_LISTS || joined.len() + bytes.len() > MAX_BYTES {
                tracing::warn!(
                    place,
                    code = "CRL_TOO_LARGE",
                    "more than 64 revocation lists, or 10 MiB: this one is not served"
                );
                continue;
            }
            joined.extend_from_slice(bytes);
            count += 1;
            next = next.min(next_update);
        }
        Joined {
            bytes: joined.into(),
            next_update: next,
            is_complete,
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

    /// Reads the lists of the folders. A file that cannot be read, such as one that is being written, keeps its last valid list.
    /// Returns whether all were read.
    async fn read_folders(&self) -> bool {
        let folders = self.folders.clone();
        let read = tokio::task::spawn_blocking(move || {
            let folders = folders.into_iter();
            let read = folders.map(|folder| (read_folder(&folder), folder));
            read.collect::<Vec<_>>()
        });
        let Ok(read) = read.await else { return false };
        let mut is_complete = true;
        let mut state = self.state();
        for (files, folder) in read {
            let Some(files) = files else {
                is_complete = false;
                continue;
            };
            state
                .files
                .retain(|path, _| path.parent() != Some(&folder) || files.contains_key(path));
            is_complete &= files.values().all(Option::is_some);
            let files = files.into_iter();
            let valid = files.filter_map(|(path, list)| Some((path, list?)));
            state.files.extend(valid);
        }
        is_complete
    }
}

/// The lists that are served.
struct Joined {
    bytes: Bytes,
    /// The earliest expiry among them.
    next_update: u64,
    /// Whether none has expired.
    is_complete: bool,
}

/// Reads the `*.crl` files of a folder; `None` for a file that holds no list.
fn read_folder(folder: &Path) -> Option<BTreeMap<PathBuf, Option<CurrentList>>> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        tracing::warn!(folder = %folder.display(), code = "CRL_UNAVAILABLE", "a folder of revocation lists cannot be read");
        return None;
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "crl"))
        .collect();
    // The order is the same for every client and at every start.
    paths.sort();
    let files = paths.into_iter().take(MAX_LISTS).map(|path| {
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
        (path, list)
    });
    Some(files.collect())
}

#[cfg(test)]
mod tests {
    use super::super::{CrlPlace, Crls};
    use super::*;

    /// A list that expires in this year of the 21st century, which differs from another in its `mark`.
    fn list(year: u8, mark: u8) -> Vec<u8> {
        let next_update = format!("{year:02}0101000000Z");
        let signed = [
            &[2, 1, 1, 0x30, 0, 0x30, 0, 0x17, 13][..],
            b"200101000000Z",
            &[0x17, 13],
            next_update.as_bytes(),
            &[2, 1, mark],
        ];
        let signed = signed.concat();
        let length = u8::try_from(signed.len()).unwrap();
        [&[0x30, length + 2, 0x30, length], &signed[..]].concat()
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_keeps_its_last_list_and_is_read_again_soon() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("a.crl");
        let [first, second] = [list(49, 1), list(49, 2)];
        std::fs::write(&file, &first).unwrap();
        let places = [CrlPlace::Folder(folder.path().to_owned())];
        let inner = Crls::open(&places, &[]).unwrap().0.unwrap();
        let served = || inner.state().served.clone();
        assert_eq!(inner.refresh().await, REFRESH);
        assert_eq!(served(), first);
        // Half-written.
        std::fs::write(&file, &second[..20]).unwrap();
        assert_eq!(inner.refresh().await, RETRY);
        assert_eq!(served(), first);
        std::fs::write(&file, &second).unwrap();
        assert_eq!(inner.refresh().await, REFRESH);
        assert_eq!(served(), second);
        std::fs::write(&file, list(21, 1)).unwrap();
        assert_eq!(inner.refresh().await, RETRY, "it has expired");
        assert!(served().is_empty());
        std::fs::write(&file, &first).unwrap();
        inner.refresh().await;
        std::fs::remove_file(&file).unwrap();
        inner.refresh().await;
        assert!(served().is_empty(), "the operator removed it");
    }

    #[tokio::test]
    async fn a_list_that_does_not_fit_excludes_no_other() {
        let folder = tempfile::TempDir::new().unwrap();
        let places = [CrlPlace::Folder(folder.path().to_owned())];
        let inner = Crls::open(&places, &[]).unwrap().0.unwrap();
        for (name, bytes) in [("a", 1), ("b", MAX_BYTES), ("c", 2)] {
            let list = CurrentList {
                bytes: vec![0; bytes].into(),
                next_update: u64::MAX,
            };
            inner.state().files.insert(name.into(), list);
        }
        assert_eq!(inner.join_lists().bytes.len(), 3);
    }
}
