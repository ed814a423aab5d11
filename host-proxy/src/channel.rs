//! `GET /v1/channel`: joins a client's connection to one of the enclave's, and moves bytes both ways.
//!
//! The bytes are a handshake and ciphertext of a session between client and enclave. Programs send them without framing
//! (`Upgrade: clearseal-channel`), pages inside WebSocket messages (`Upgrade: websocket`), whose boundaries carry no meaning.
//! Each direction has a buffer and waits only for its two ends, so a stalled direction never blocks the other.

mod websocket;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Empty;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::admission::{Quota, Reservation};
use crate::config::Config;
use crate::connector::{self, Connector, EnclaveStream};
use crate::fleet::Fleet;
use crate::problem::Problem;
use crate::relay::{ENCLAVE_HINT, collect_answer, enclave_uri};
use crate::source::Peer;

/// Name of the protocol in the enclave's Upgrade.
const PROTOCOL: &str = "clearseal-channel";
/// Bytes that each direction reads at once, and buffers at most.
const BUFFER: usize = 64 << 10;

/// Joins connections, and limits their number. A clone is the same one.
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

/// Framing of the bytes between client and proxy.
enum Carrier {
    Unframed,
    /// With the `Sec-WebSocket-Accept` of the answer.
    WebSocket(HeaderValue),
}

type Stream = TokioIo<Upgraded>;

/// A connection to an enclave that is not upgraded yet.
struct EnclaveConnection {
    index: usize,
    stream: TokioIo<EnclaveStream>,
}

/// An enclave's answer to the Upgrade.
enum EnclaveAnswer {
    Upgraded(Stream),
    /// The enclave's problem, such as that it has no channel left.
    Refused(Response),
}

impl Channels {
    /// Notifies `traffic` whenever bytes pass: the enclave may have issued a receipt.
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

    /// Ends every channel. Clients see a closed connection, connect elsewhere, and send unanswered requests again.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Answers 101 and joins the connections.
    ///
    /// # Errors
    /// The problem to answer instead.
    pub(crate) async fn open(&self, mut request: Request) -> Result<Response, Problem> {
        let carrier = Carrier::of(request.headers()).ok_or(Problem::UpgradeRequired)?;
        let peer = Peer::of(&request);
        let name = requested_enclave(&request);
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or(Problem::UpgradeRequired)?;
        let reservation = self.quota.reserve(peer.source, 1)?;
        let asking = tokio::time::timeout(self.connect, self.ask(name.as_ref()));
        let enclave = match asking.await.map_err(|_| Problem::EnclaveTimeout)?? {
            EnclaveAnswer::Upgraded(enclave) => enclave,
            EnclaveAnswer::Refused(refusal) => return Ok(refusal),
        };
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        let protocol = match &carrier {
            Carrier::Unframed => PROTOCOL,
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

    /// Connects to an enclave: the one that the client names, where it is reachable.
    async fn connect_enclave(
        &self,
        name: Option<&HeaderValue>,
    ) -> Result<EnclaveConnection, Problem> {
        let mut tried = Vec::with_capacity(self.fleet.len());
        while tried.len() < self.fleet.len() {
            let index = self.fleet.choose(name, &tried);
            match self.connector.open(index).await {
                Ok(stream) => {
                    self.fleet.record_answer(index, None);
                    return Ok(EnclaveConnection { index, stream });
                }
                Err(_) => self.fleet.record_failure(index),
            }
            tried.push(index);
        }
        Err(Problem::EnclaveUnreachable)
    }

    /// Has an enclave upgrade a fresh connection to a channel.
    async fn ask(&self, name: Option<&HeaderValue>) -> Result<EnclaveAnswer, Problem> {
        let EnclaveConnection { index, stream } = self.connect_enclave(name).await?;
        let invalid = |_| Problem::EnclaveInvalidAnswer;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(invalid)?;
        // This task ends with its connection. How that ends is not needed here.
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
            let refusal = collect_answer(response, deadline).await?;
            return Ok(EnclaveAnswer::Refused(refusal));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(invalid)?;
        Ok(EnclaveAnswer::Upgraded(TokioIo::new(upgraded)))
    }
}

/// Returns the name of the enclave that the client has verified. A page cannot set a header on a WebSocket, so it puts the
/// name into the query.
fn requested_enclave(request: &Request) -> Option<HeaderValue> {
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
            return Some(Self::Unframed);
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

/// The connections of one channel.
struct Joined {
    carrier: Carrier,
    idle: Duration,
    traffic: Arc<Notify>,
    stop: watch::Receiver<bool>,
    _reservation: Reservation,
}

impl Joined {
    async fn run(mut self, client: OnUpgrade, enclave: Stream, timeout: Duration) {
        let Ok(Ok(client)) = tokio::time::timeout(timeout, client).await else {
            return;
        };
        let (client, activity) = (TokioIo::new(client), Activity::new(self.traffic));
        let relayed = async {
            match self.carrier {
                Carrier::Unframed => relay_unframed(client, enclave, &activity).await,
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
            // An error means that the proxy has been dropped.
            _ = self.stop.wait_for(|stopped| *stopped) => {}
        }
    }
}

async fn relay_unframed(client: Stream, enclave: Stream, activity: &Activity) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_enclave, to_enclave) = tokio::io::split(enclave);
    tokio::try_join!(
        copy(from_client, to_enclave, activity),
        copy(from_enclave, to_client, activity)
    )
    .map(|((), ())| ())
}

/// Copies bytes until the end of the stream, which it passes on.
async fn copy(
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
        activity.record();
        to.write_all(read).await?;
        to.flush().await?;
        activity.record();
    }
}

/// Time of the last bytes.
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

    fn record(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.traffic.notify_one();
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no bytes have passed for `limit`.
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
