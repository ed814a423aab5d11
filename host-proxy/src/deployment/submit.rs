//! Submits checkpoints to witnesses (c2sp.org/tlog-witness, `add-checkpoint`).

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use witness::key::{Use, Verifier};
use witness::note::{Signature, parse_signatures};
use witness::request::AddCheckpoint;

use super::store::Head;
use super::{DeploymentError, DeploymentStore};

/// Longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer, bytes: a few signatures.
const MAX_ANSWER: usize = 16 << 10;
/// Content type of a conflict's size.
const SIZE: &str = "text/x.tlog.size";

/// A witness: its key, and the address before `/add-checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessPlace {
    pub(super) key: Verifier,
    url: String,
}

impl FromStr for WitnessPlace {
    type Err = String;

    /// Reads `KEY URL`, as in a policy of c2sp.org/tlog-policy.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (Some(key), Some(url), None) = (words.next(), words.next(), words.next()) else {
            return Err("write the witness's key, a space and its URL".to_owned());
        };
        let key = Verifier::parse(key).map_err(|error| error.to_string())?;
        if key.key_use() != Use::Witness {
            return Err("this is the key of a log, not of a witness".to_owned());
        }
        let uri: Uri = url.parse().map_err(|_| "this is not a URL".to_owned())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "cloud") => {}
            Some("https") => {
                return Err("https:// needs a build with the feature `cloud`".to_owned());
            }
            _ => return Err("the URL begins with neither http:// nor https://".to_owned()),
        }
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { key, url })
    }
}

/// Why a witness did not cosign.
#[derive(Debug)]
pub(super) enum SubmitError {
    /// No answer, or not one of the specification: ask again later.
    Later(String),
    /// The witness claims a tree that this log does not extend. Nothing proves it: only a checkpoint with the log's signature would.
    Claimed(&'static str),
    /// The log's own file failed.
    Log(DeploymentError),
}

/// A connection to a witness.
pub(super) struct WitnessClient {
    place: WitnessPlace,
    transport: Transport,
    /// Size of the tree that the witness cosigned last, as far as it is known.
    size: u64,
}

enum Transport {
    Plain(Box<Client<HttpConnector, Full<Bytes>>>),
    #[cfg(feature = "cloud")]
    Tls(reqwest::Client),
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl WitnessClient {
    /// # Errors
    /// Where TLS cannot be set up.
    pub(super) fn new(place: WitnessPlace) -> anyhow::Result<Self> {
        let transport = match place.url.starts_with("https:") {
            #[cfg(feature = "cloud")]
            true => {
                crate::tls::install_provider();
                let client = reqwest::Client::builder().timeout(TIMEOUT);
                let client = client.redirect(reqwest::redirect::Policy::none());
                Transport::Tls(client.build()?)
            }
            _ => {
                let client = Client::builder(TokioExecutor::new()).build_http();
                Transport::Plain(Box::new(client))
            }
        };
        Ok(Self {
            place,
            transport,
            size: 0,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.place.key.name()
    }

    /// Returns the witness's cosignature of this checkpoint.
    pub(super) async fn cosign(
        &mut self,
        store: &Arc<DeploymentStore>,
        head: &Head,
    ) -> Result<Signature, SubmitError> {
        let later = |reason: &str| SubmitError::Later(reason.to_owned());
        // Other requests of this log may change the witness's size meanwhile, so one conflict is expected and a second one possible.
        for _ in 0..3 {
            let request = self.request(store, head).await?;
            let Answer {
                status,
                headers,
                body,
            } = self.post(request).await.map_err(SubmitError::Later)?;
            match status {
                StatusCode::OK => {
                    let signatures = parse_signatures(&body).map_err(|_| later("no signature"))?;
                    let signature = signatures.into_iter().find(|signature| {
                        let mut note = head.note.clone();
                        note.sign(signature.clone());
                        let key = &self.place.key;
                        let is_own = signature.name() == key.name() && signature.id() == key.id();
                        is_own && key.verify(&note).is_ok()
                    });
                    let signature = signature.ok_or_else(|| later("no signature of its key"))?;
                    self.size = head.tree.size;
                    return Ok(signature);
                }
                StatusCode::CONFLICT => {
                    if !is_size(&headers) {
                        return Err(SubmitError::Claimed("another tree of this size"));
                    }
                    let size = std::str::from_utf8(&body).ok();
                    let size = size.and_then(|size| size.trim_end().parse().ok());
                    let size: u64 = size.ok_or_else(|| later("a conflict without a size"))?;
                    if size > head.tree.size {
                        // A newer head of this log may be the one that it has.
                        let newest = store.signed().map_err(SubmitError::Log)?;
                        return match newest.is_some_and(|newest| size <= newest.tree.size) {
                            true => Err(later("it has a newer checkpoint")),
                            false => Err(SubmitError::Claimed("a larger tree")),
                        };
                    }
                    self.size = size;
                }
                // The path leads from the tree of this file.
                StatusCode::UNPROCESSABLE_ENTITY => {
                    return Err(SubmitError::Claimed("another smaller tree"));
                }
                status => return Err(SubmitError::Later(format!("status {status}"))),
            }
        }
        Err(later("its size changes with each request"))
    }

    async fn request(
        &self,
        store: &Arc<DeploymentStore>,
        head: &Head,
    ) -> Result<String, SubmitError> {
        let (store, note, tree, old) = (
            Arc::clone(store),
            head.note.clone(),
            head.tree,
            self.size.min(head.tree.size),
        );
        let request = tokio::task::spawn_blocking(move || {
            let path = store.consistency(old, tree.size)?;
            let mut bare = note.clone();
            if let Some(own) = note.signatures().first() {
                // Only the log's signature, which is the first: witnesses need no others.
                bare = witness::note::Note::new(note.text())
                    .map_err(|error| DeploymentError::Corrupt(error.to_string()))?;
                bare.sign(own.clone());
            }
            let note = bare;
            Ok(AddCheckpoint { old, path, note }.to_text())
        });
        request
            .await
            .map_err(|_| SubmitError::Later("reading the log panicked".to_owned()))?
            .map_err(SubmitError::Log)
    }

    async fn post(&self, body: String) -> Result<Answer, String> {
        let url = format!("{}/add-checkpoint", self.place.url);
        match &self.transport {
            Transport::Plain(client) => {
                let request = Request::post(url).body(Full::from(body));
                let request = request.map_err(|error| error.to_string())?;
                let exchange = async {
                    let answer = client.request(request).await;
                    let (head, body) = answer.map_err(|error| error.to_string())?.into_parts();
                    let body = Limited::new(body, MAX_ANSWER).collect().await;
                    Ok(Answer {
                        status: head.status,
                        headers: head.headers,
                        body: body.map_err(|error| error.to_string())?.to_bytes(),
                    })
                };
                let exchanged = tokio::time::timeout(TIMEOUT, exchange).await;
                exchanged.unwrap_or_else(|_| Err("no answer in time".to_owned()))
            }
            #[cfg(feature = "cloud")]
            Transport::Tls(client) => {
                let mut answer = client
                    .post(url)
                    .body(body)
                    .send()
                    .await
                    .map_err(|error| error.to_string())?;
                let (status, headers) = (answer.status(), answer.headers().clone());
                let mut body = Vec::new();
                while let Some(part) = answer.chunk().await.map_err(|error| error.to_string())? {
                    if body.len() + part.len() > MAX_ANSWER {
                        return Err("the answer is too long".to_owned());
                    }
                    body.extend_from_slice(&part);
                }
                Ok(Answer {
                    status,
                    headers,
                    body: body.into(),
                })
            }
        }
    }
}

/// Whether the body is a size: compares the media type without its parameters.
fn is_size(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_a_key_and_a_url() {
        let key = "witness.example/w1+5a3a84a4+";
        assert!(WitnessPlace::from_str(key).is_err());
        let signer = witness::key::Signer::from_seed("w.example", Use::Witness, &[7; 32]).unwrap();
        let key = signer.verifier();
        let place = WitnessPlace::from_str(&format!("{key} http://w.example/")).unwrap();
        assert_eq!((&place.key, place.url.as_str()), (key, "http://w.example"));
        let log = witness::key::Signer::from_seed("w.example", Use::Log, &[7; 32]).unwrap();
        for bad in [
            key.to_string(),
            format!("{key} ftp://w.example"),
            format!("{key} http://a http://b"),
            format!("{} http://w.example", log.verifier()),
        ] {
            assert!(WitnessPlace::from_str(&bad).is_err(), "{bad}");
        }
    }
}
