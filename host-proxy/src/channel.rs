//! `GET /v1/channel`: joins a client's connection to one of the enclave's, and moves bytes both ways.
//!
//! What passes is a handshake and ciphertext of a session between client and enclave. Programs bring it as it is (`Upgrade:
//! clearseal-channel`), pages inside WebSocket messages (`Upgrade: websocket`), whose boundaries mean nothing. Each direction
//! has a buffer and waits for nothing but its own two ends, so that one that is stuck never holds up the other.

mod websocket;

use crate::admission::{Quota, Reservation};
use crate::config::Config;
use crate::connector::{self, Connector, EnclaveStream};
use crate::fleet::Fleet;
use crate::problem::Problem;
use crate::relay::{ENCLAVE_HINT, collect_answer, enclave_uri};
use crate::source::Peer;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Empty;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// As the enclave names it.
const PROTOCOL: &str = "clearseal-channel";
/// One read of either direction, bytes; all that a direction holds.
const BUFFER: usize = 64 << 10;

/// Joins connections, and limits how many.
#[derive(Clone)]
pub(crate) struct Channels {
    connector: Connector,
    fleet: Fleet,
    quota: Quota,
    stop: watch::Sender<bool>,
    connect: Duration,
    idle: Duration,
    traffic: Arc<Notify>,
}

/// How the client carries the bytes.
enum Carrier {
    Plain,
    /// With the answer to its key.
    WebSocket(HeaderValue),
}

type Stream = TokioIo<Upgraded>;

impl Channels {
    /// `traffic` is told of everything that moves: the enclave may have issued a receipt.
    pub(crate) fn new(config: &Config, fleet: Fleet, traffic: Arc<Notify>) -> Self {
        Self {
            connector: Connector {
                addresses: config.enclaves.clone().into(),
                timeout: config.connect_timeout,
            },
            fleet,
            quota: Quota::new(config.max_channels, config.source_share),
            stop: watch::Sender::new(false),
            connect: config.first_byte_timeout.min(Duration::from_secs(10)),
            idle: config.idle_timeout,
            traffic,
        }
    }

    /// Ends every channel. Its client sees the cut, connects elsewhere, and sends again what was not answered.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Answers 101 and joins, or says why not.
    pub(crate) async fn open(&self, mut request: Request) -> Result<Response, Problem> {
        let carrier = Carrier::of(request.headers()).ok_or(Problem::UpgradeRequired)?;
        let peer = Peer::of(&request);
        let name = named(&request);
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or(Problem::UpgradeRequired)?;
        let reservation = self.quota.reserve(peer.source, 1)?;
        let asking = tokio::time::timeout(self.connect, self.ask(name.as_ref()));
        let enclave = match asking.await.map_err(|_| Problem::EnclaveTimeout)?? {
            Ok(enclave) => enclave,
            // Its own words, such as that it has no channel left.
            Err(refusal) => return Ok(refusal),
        };
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        let protocol = match &carrier {
            Carrier::Plain => PROTOCOL,
            Carrier::WebSocket(accept) => {
                headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept.clone());
                "websocket"
            }
        };
        headers.insert(header::UPGRADE, HeaderValue::from_static(protocol));
        let joined = Joined {
            carrier,
            idle: self.idle,
            traffic: Arc::clone(&self.traffic),
            stop: self.stop.subscribe(),
            _reservation: reservation,
        };
        tokio::spawn(joined.run(upgrade, enclave, self.connect));
        Ok(response)
    }

    /// A connection to an enclave that takes one: the one that the client has verified, where it names it.
    async fn reach(
        &self,
        name: Option<&HeaderValue>,
    ) -> Result<(usize, TokioIo<EnclaveStream>), Problem> {
        let mut tried = Vec::with_capacity(self.fleet.len());
        while tried.len() < self.fleet.len() {
            let index = self.fleet.choose(name, &tried);
            match self.connector.open(index).await {
                Ok(stream) => {
                    self.fleet.record_answer(index, None);
                    return Ok((index, stream));
                }
                Err(_) => self.fleet.record_failure(index),
            }
            tried.push(index);
        }
        Err(Problem::EnclaveUnreachable)
    }

    /// Has the enclave turn a fresh connection into a channel.
    async fn ask(&self, name: Option<&HeaderValue>) -> Result<Result<Stream, Response>, Problem> {
        let (index, stream) = self.reach(name).await?;
        let invalid = |_| Problem::EnclaveInvalidAnswer;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(invalid)?;
        // Ends with its connection, in whose end nothing is to be learnt.
        tokio::spawn(connection.with_upgrades());
        let request = http::Request::builder()
            .uri(enclave_uri(&http::Uri::from_static("/v1/channel"), index)?)
            .header(header::HOST, connector::pool_name(index))
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, PROTOCOL)
            .body(Empty::<Bytes>::new())
            .map_err(|_| Problem::EnclaveInvalidAnswer)?;
        let mut response = sender.send_request(request).await.map_err(invalid)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let deadline = Instant::now() + self.connect;
            return Ok(Err(collect_answer(response, deadline).await?));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(invalid)?;
        Ok(Ok(TokioIo::new(upgraded)))
    }
}

/// The enclave that the client has verified. A page can put no header on a WebSocket, so it says so in the query.
fn named(request: &Request) -> Option<HeaderValue> {
    let header = request.headers().get(ENCLAVE_HINT).cloned();
    header.or_else(|| {
        let mut pairs = request.uri().query()?.split('&');
        let name = pairs.find_map(|pair| pair.strip_prefix("enclave="))?;
        HeaderValue::from_str(name).ok()
    })
}

impl Carrier {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let upgrade = headers.get(header::UPGRADE)?.to_str().ok()?;
        if upgrade.eq_ignore_ascii_case(PROTOCOL) {
            return Some(Self::Plain);
        }
        let is =
            |name: HeaderName, value: &[u8]| headers.get(name).is_some_and(|found| found == value);
        if !upgrade.eq_ignore_ascii_case("websocket") || !is(header::SEC_WEBSOCKET_VERSION, b"13") {
            return None;
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY)?;
        websocket::accept(key.as_bytes()).map(Self::WebSocket)
    }
}

/// Two connections that belong to each other.
struct Joined {
    carrier: Carrier,
    idle: Duration,
    traffic: Arc<Notify>,
    stop: watch::Receiver<bool>,
    _reservation: Reservation,
}

impl Joined {
    async fn run(mut self, client: OnUpgrade, enclave: Stream, patience: Duration) {
        let Ok(Ok(client)) = tokio::time::timeout(patience, client).await else {
            return;
        };
        let (client, activity) = (TokioIo::new(client), Activity::new(self.traffic));
        let relayed = async {
            match self.carrier {
                Carrier::Plain => plain(client, enclave, &activity).await,
                Carrier::WebSocket(_) => websocket::relay(client, enclave, &activity).await,
            }
        };
        tokio::select! {
            outcome = relayed => {
                if let Err(error) = outcome {
                    tracing::debug!(kind = ?error.kind(), "a channel was cut");
                }
            }
            () = activity.idle(self.idle) => tracing::debug!("a channel was idle for too long"),
            // An error would say that the proxy is gone.
            _ = self.stop.wait_for(|stopped| *stopped) => {}
        }
    }
}

async fn plain(client: Stream, enclave: Stream, activity: &Activity) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_enclave, to_enclave) = tokio::io::split(enclave);
    tokio::try_join!(
        pump(from_client, to_enclave, activity),
        pump(from_enclave, to_client, activity)
    )
    .map(|((), ())| ())
}

/// Moves bytes until the end, which it passes on.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        let Some(read @ [_, ..]) = buffer.get(..count) else {
            return to.shutdown().await;
        };
        activity.moved();
        to.write_all(read).await?;
        to.flush().await?;
        activity.moved();
    }
}

/// When something moved last.
struct Activity {
    last: Mutex<Instant>,
    traffic: Arc<Notify>,
}

impl Activity {
    fn new(traffic: Arc<Notify>) -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            traffic,
        }
    }

    fn moved(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.traffic.notify_one();
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing has moved for so long.
    async fn idle(&self, limit: Duration) {
        loop {
            let end = self.last() + limit;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}
