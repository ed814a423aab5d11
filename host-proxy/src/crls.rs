//! Serves certificate revocation lists to clients. A page cannot fetch AWS's lists, which forbid access from other origins.
//!
//! Every list is signed by its CA, and clients verify it against the chain. So nothing here is trusted: this host can only
//! withhold lists, which a policy refuses, or serve an old one that has not expired. It reads only the expiry of a list.

mod address;
mod dates;
mod refresh;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Notify;

use crate::relay::Relay;
use address::Allowed;
use refresh::CurrentList;

/// Upper bound on addresses, including those that documents name.
const MAX_ADDRESSES: usize = 32;
/// Pause after a failure, and the shortest one between two rounds.
const RETRY: Duration = Duration::from_secs(60);
/// Pause while the enclave gives no document, such as before its start.
const START_RETRY: Duration = Duration::from_secs(5);
/// Path of the proxy's own request for a document, of which only the certificates are used. No verifier relies on its nonce.
const OWN_DOCUMENT: &str = "/v1/attestation?nonce=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const MAX_EVIDENCE: usize = 64 << 10;

/// A source of lists.
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

/// The lists that are served, and their sources. A clone is the same one.
#[derive(Clone, Default)]
pub(crate) struct Crls(Option<Arc<Inner>>);

struct Inner {
    allowed: Allowed,
    from_chain: bool,
    folders: Vec<PathBuf>,
    client: Client<HttpConnector, Empty<Bytes>>,
    state: Mutex<Lists>,
    /// Notified when a client's document may name an unknown address.
    unknown: Notify,
}

#[derive(Default)]
struct Lists {
    /// Lists by address.
    lists: BTreeMap<String, List>,
    /// The last valid list of each file.
    files: BTreeMap<PathBuf, CurrentList>,
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
    /// Serves lists from these places. `hosts` are allowed in addition to AWS's.
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
            unknown: Notify::new(),
        }))))
    }

    /// Has the proxy request its own document, where a client's document may name an unknown address. The client's document is not a
    /// source of addresses: it holds a nonce, in which the client could name any.
    pub(crate) fn notice(&self, evidence: &[u8]) {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.from_chain) else {
            return;
        };
        let found = inner.allowed.find(evidence);
        let state = inner.state();
        if found
            .iter()
            .any(|address| !state.lists.contains_key(address))
        {
            inner.unknown.notify_one();
        }
    }

    /// Keeps the lists current while it is polled.
    pub(crate) async fn follow(self, relay: Relay) {
        let Some(inner) = self.0 else { return };
        loop {
            let has_answered = !inner.from_chain || inner.learn(&relay).await;
            let begun = tokio::time::Instant::now();
            let pause = inner.refresh().await;
            let (pause, shortest) = match has_answered {
                true => (pause, RETRY),
                false => (pause.min(START_RETRY), START_RETRY),
            };
            let unknown = async {
                inner.unknown.notified().await;
                // Clients choose when they ask, so they must not choose how often the proxy does.
                tokio::time::sleep_until(begun + shortest).await;
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = unknown => {}
            }
        }
    }
}

impl Lists {
    /// Whether there is room for one more address. Certificates name another address every few weeks, so expired lists of documents
    /// are removed.
    fn make_room(&mut self) -> bool {
        if self.lists.len() >= MAX_ADDRESSES {
            self.lists
                .retain(|_, list| list.fixed || list.next_update > now());
        }
        self.lists.len() < MAX_ADDRESSES
    }
}

impl Inner {
    /// Remembers the addresses that the certificates of the enclaves name. Returns whether every enclave answered.
    async fn learn(&self, relay: &Relay) -> bool {
        let mut has_answered = true;
        // Each request goes to the next enclave in turn.
        for _ in 0..relay.fleet().len() {
            let Ok((StatusCode::OK, evidence)) = relay.fetch(OWN_DOCUMENT, MAX_EVIDENCE).await
            else {
                has_answered = false;
                continue;
            };
            for address in self.allowed.find(&evidence) {
                let mut state = self.state();
                if state.lists.contains_key(&address) || !state.make_room() {
                    continue;
                }
                tracing::info!(%address, "a certificate names a revocation list");
                state.lists.insert(address, List::default());
            }
        }
        has_answered
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Lists> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `GET /v1/crls`: the lists in DER, one after another; empty where there are none. The same for every client.
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
