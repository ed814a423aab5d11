//! Certificate revocation lists for clients, which cannot fetch them: a page of another origin gets none of AWS's.
//!
//! Every list is signed by the CA that it is about, and clients verify it against the chain. So nothing here is trusted: this
//! host can only keep lists back, which a policy refuses, or serve one that has not ended yet. It moves bytes, and reads no
//! more of a list than when it ends.

mod address;
mod dates;

use crate::relay::Relay;
use address::Allowed;
use anyhow::{Context as _, ensure};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// Bytes of all lists together, and so of each: clients take no more.
const MAX_BYTES: usize = 10 << 20;
/// Lists at once: clients take no more.
const MAX_LISTS: usize = 64;
/// Addresses out of documents that are remembered.
const MAX_ADDRESSES: usize = 32;
/// For one list, from the first byte asked to the last one read.
const DEADLINE: Duration = Duration::from_secs(30);
/// A list is fetched again after so long, though it may be good for days: a revocation is published before it ends.
const REFRESH: Duration = Duration::from_secs(3600);
/// After a failure, and at least between two rounds.
const RETRY: Duration = Duration::from_secs(60);
/// A list is no longer served so long before it ends: it is judged by other clocks.
const MARGIN: u64 = 60;
/// Asks for a document on the proxy's own account. Nobody relies on its nonce.
const OWN_DOCUMENT: &str = "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const MAX_EVIDENCE: usize = 64 << 10;

/// Where lists come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrlPlace {
    /// The addresses that the enclave's own certificates name.
    Chain,
    /// One address.
    Address(Uri),
    /// Files `*.crl` of a folder, in DER.
    Folder(PathBuf),
}

impl FromStr for CrlPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("write chain, an http:// address or a folder".to_owned()),
            "chain" => Ok(Self::Chain),
            address if address.contains("://") => {
                let uri: Uri = address.parse().map_err(|_| "not an address".to_owned())?;
                match uri.scheme_str() {
                    Some("http") => Ok(Self::Address(uri)),
                    _ => Err("lists are signed, and are fetched by http:// alone".to_owned()),
                }
            }
            folder => Ok(Self::Folder(folder.into())),
        }
    }
}

/// The lists that are served, and how to keep them current. A clone is the same one.
#[derive(Clone, Default)]
pub(crate) struct Crls(Option<Arc<Inner>>);

struct Inner {
    allowed: Allowed,
    from_chain: bool,
    folders: Vec<PathBuf>,
    client: Client<HttpConnector, Empty<Bytes>>,
    state: Mutex<Lists>,
    /// Told of an address that is new.
    found: Notify,
}

#[derive(Default)]
struct Lists {
    /// By address or file. Those of documents come and go with them.
    lists: BTreeMap<String, List>,
    served: Bytes,
}

#[derive(Default)]
struct List {
    bytes: Bytes,
    /// Unix seconds; 0 where there is no list.
    next_update: u64,
    /// Whether the operator named the address.
    fixed: bool,
    fetched: Option<tokio::time::Instant>,
}

impl Crls {
    /// Serves what these places give; nothing where there are none. `hosts` are allowed next to AWS's own.
    ///
    /// # Errors
    /// Where a place cannot be used.
    pub(crate) fn open(places: &[CrlPlace], hosts: &[String]) -> anyhow::Result<Self> {
        if places.is_empty() {
            return Ok(Self::default());
        }
        let allowed = Allowed::new(hosts);
        let mut state = Lists::default();
        let mut folders = Vec::new();
        for place in places {
            match place {
                CrlPlace::Chain => {}
                CrlPlace::Address(uri) => {
                    ensure!(
                        allowed.allows(uri),
                        "--crl {uri} is not an address of AWS's lists; allow its host with --crl-host"
                    );
                    let list = List {
                        fixed: true,
                        ..List::default()
                    };
                    state.lists.insert(uri.to_string(), list);
                }
                CrlPlace::Folder(folder) => {
                    std::fs::read_dir(folder)
                        .with_context(|| format!("--crl {} cannot be read", folder.display()))?;
                    folders.push(folder.clone());
                }
            }
        }
        Ok(Self(Some(Arc::new(Inner {
            allowed,
            from_chain: places.contains(&CrlPlace::Chain),
            folders,
            client: Client::builder(TokioExecutor::new()).build_http(),
            state: Mutex::new(state),
            found: Notify::new(),
        }))))
    }

    /// Remembers the addresses that the certificates of evidence name.
    pub(crate) fn learn(&self, evidence: &[u8]) {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.from_chain) else {
            return;
        };
        for address in inner.allowed.find(evidence) {
            let mut state = inner.state();
            if state.lists.contains_key(&address) || !state.make_room() {
                continue;
            }
            tracing::info!(%address, "a certificate names a revocation list");
            state.lists.insert(address, List::default());
            inner.found.notify_one();
        }
    }

    /// Keeps the lists current while it is polled.
    pub(crate) async fn follow(self, relay: Relay) {
        let Some(inner) = self.0.clone() else { return };
        loop {
            if inner.from_chain && inner.state().lists.is_empty() {
                // Before the first client asks. What passes later is looked at as it passes.
                if let Ok((StatusCode::OK, evidence)) =
                    relay.fetch(OWN_DOCUMENT, MAX_EVIDENCE).await
                {
                    self.learn(&evidence);
                }
            }
            let mut pause = inner.refresh().await;
            if inner.from_chain && inner.state().lists.is_empty() {
                // The enclave is not up yet.
                pause = RETRY;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // Addresses come together, so those that follow are waited for.
                () = inner.found.notified() => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
    }
}

impl Lists {
    /// Whether there is room for one more address. Certificates change their address every few weeks, so the list of an
    /// earlier one goes.
    fn make_room(&mut self) -> bool {
        if self.lists.len() >= MAX_ADDRESSES {
            self.lists
                .retain(|_, list| list.fixed || list.next_update > now());
        }
        self.lists.len() < MAX_ADDRESSES
    }
}

impl Inner {
    fn state(&self) -> std::sync::MutexGuard<'_, Lists> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches what is due, and puts together what is served. Returns the time until the next round.
    async fn refresh(&self) -> Duration {
        let due: Vec<_> = {
            let state = self.state();
            let due = |list: &List| {
                list.next_update <= now() + MARGIN
                    || list.fetched.is_none_or(|at| at.elapsed() >= REFRESH)
            };
            let due = state.lists.iter().filter(|(_, list)| due(list));
            due.map(|(address, _)| address.clone()).collect()
        };
        let mut failed = false;
        for address in due {
            match self.fetch(&address).await {
                Ok((bytes, next_update)) => {
                    if let Some(list) = self.state().lists.get_mut(&address) {
                        list.bytes = bytes;
                        list.next_update = next_update;
                        list.fetched = Some(tokio::time::Instant::now());
                    }
                }
                Err(error) => {
                    failed = true;
                    tracing::warn!(%address, code = "CRL_UNAVAILABLE", "a revocation list cannot be fetched: {error:#}");
                }
            }
        }
        let files = self.files().await;
        let mut state = self.state();
        let current: Vec<_> = state
            .lists
            .values()
            .map(|list| (list.next_update, list.bytes.clone()))
            .chain(files)
            .filter(|(next_update, _)| *next_update > now() + MARGIN)
            .collect();
        let mut served = Vec::new();
        let mut next = u64::MAX;
        for (next_update, bytes) in current.iter().take(MAX_LISTS) {
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
        let ends = Duration::from_secs(next.saturating_sub(now() + MARGIN));
        match failed {
            true => RETRY,
            false => ends.clamp(RETRY, REFRESH),
        }
    }

    async fn fetch(&self, address: &str) -> anyhow::Result<(Bytes, u64)> {
        let uri: Uri = address.parse()?;
        // Again, whatever the address came from. Redirects are not followed.
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
        ensure!(next_update > now() + MARGIN, "it has ended");
        Ok((bytes, next_update))
    }

    /// The lists of the folders.
    async fn files(&self) -> Vec<(u64, Bytes)> {
        let folders = self.folders.clone();
        let read = tokio::task::spawn_blocking(move || {
            let folders = folders.iter();
            folders.flat_map(|folder| read_folder(folder)).collect()
        });
        read.await.unwrap_or_default()
    }
}

fn read_folder(folder: &Path) -> Vec<(u64, Bytes)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        tracing::warn!(folder = %folder.display(), code = "CRL_UNAVAILABLE", "a folder of revocation lists cannot be read");
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "crl"))
        .collect();
    // The same order for every client and at every start.
    paths.sort();
    let lists = paths.into_iter().take(MAX_LISTS).filter_map(|path| {
        let small = std::fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_BYTES as u64);
        let bytes = small.then(|| std::fs::read(&path).ok()).flatten();
        let list = bytes.and_then(|bytes| Some((dates::next_update(&bytes)?, Bytes::from(bytes))));
        if list.is_none() {
            tracing::warn!(file = %path.display(), code = "CRL_UNAVAILABLE", "not a revocation list in DER of at most 10 MiB");
        }
        list
    });
    lists.collect()
}

/// `GET /v1/crls`: the lists in DER, one after another; no bytes where there are none. The same for everybody.
pub(crate) async fn serve(State(crls): State<Crls>, request: Request) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return crate::headers::preflight("GET, HEAD, OPTIONS"),
        _ => return crate::router::refuse_method("GET, HEAD, OPTIONS"),
    }
    let served = crls
        .0
        .map_or(Bytes::new(), |inner| inner.state().served.clone());
    let kind = HeaderValue::from_static("application/octet-stream");
    let fresh = HeaderValue::from_static("no-cache");
    let fields = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, fresh)];
    (fields, Body::from(served)).into_response()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
