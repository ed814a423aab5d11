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
use crate::connector::{self, Connector};
use crate::fleet::Fleet;
use crate::problem::Problem;
use crate::relay::{ENCLAVE_HINT, classify_error, collect_answer, enclave_uri};
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

/// An enclave's answer to the Upgrade.
enum EnclaveAnswer {
    Upgraded(Stream),
    /// The enclave's problem, such as that it has no channel left.
    Refused(Response),
}

impl Channels {
    /// Notifies `traffic` when an enclave answers after a handshake: it may have issued a receipt.
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

    /// Has an enclave upgrade a fresh connection to a channel: the one that the client names, where it is reachable.
    async fn ask(&self, name: Option<&HeaderValue>) -> Result<EnclaveAnswer, Problem> {
        let mut tried = Vec::with_capacity(self.fleet.len());
        loop {
            let index = self.fleet.choose(name, &tried);
            tried.push(index);
            match self.ask_one(index).await {
                Ok(answer) => {
                    self.fleet.record_answer(index, None);
                    return Ok(answer);
                }
                Err(Problem::EnclaveUnreachable) => {
                    self.fleet.record_failure(index);
                    if tried.len() >= self.fleet.len() {
                        return Err(Problem::EnclaveUnreachable);
                    }
                }
                Err(problem) => return Err(problem),
            }
        }
    }

    async fn ask_one(&self, index: usize) -> Result<EnclaveAnswer, Problem> {
        let stream = self.connector.open(index).await;
        let stream = stream.map_err(|_| Problem::EnclaveUnreachable)?;
        let classify = |error: hyper::Error| classify_error(&error);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(classify)?;
        // This task ends with its connection. How that ends is not needed here.
        tokio::spawn(connection.with_upgrades());
        let request = http::Request::builder()
            .uri(enclave_uri(&http::Uri::from_static("/v1/channel"), index)?)
            .header(header::HOST, connector::pool_name(index))
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, PROTOCOL)
            .body(Empty::<Bytes>::new())
            .map_err(|_| Problem::EnclaveInvalidAnswer)?;
        let mut response = sender.send_request(request).await.map_err(classify)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let deadline = Instant::now() + self.connect;
            let refusal = collect_answer(response, deadline).await?;
            return Ok(EnclaveAnswer::Refused(refusal));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(classify)?;
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
        copy(from_client, to_enclave, || activity.record_client()),
        copy(from_enclave, to_client, || activity.record_enclave())
    )
    .map(|((), ())| ())
}

/// Copies bytes until the end of the stream, which it passes on.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    record: impl Fn(),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        let Some(read @ [_, ..]) = buffer.get(..count) else {
            return to.shutdown().await;
        };
        record();
        to.write_all(read).await?;
        to.flush().await?;
        record();
    }
}

/// Time of the last bytes, and how far the exchange has come.
struct Activity {
    last: Mutex<Instant>,
    turn: Mutex<Turn>,
    traffic: Arc<Notify>,
}

/// How far an exchange has come. A receipt comes with an answer to a request, and a request after a handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Only the client has sent bytes, which may be any.
    Begun,
    /// The enclave has answered in the handshake.
    Answered,
    /// The client has sent bytes after that answer.
    Requested,
}

impl Activity {
    fn new(traffic: Arc<Notify>) -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            turn: Mutex::new(Turn::Begun),
            traffic,
        }
    }

    /// Records bytes of the client.
    fn record_client(&self) {
        self.record(|turn| match turn {
            Turn::Begun => Turn::Begun,
            Turn::Answered | Turn::Requested => Turn::Requested,
        });
    }

    /// Records bytes of the enclave, and notifies of those that may be an answer with a receipt.
    fn record_enclave(&self) {
        let before = self.record(|turn| match turn {
            Turn::Begun | Turn::Answered => Turn::Answered,
            Turn::Requested => Turn::Requested,
        });
        if before == Turn::Requested {
            self.traffic.notify_one();
        }
    }

    /// Moves on, and returns the turn before.
    fn record(&self, next: impl FnOnce(Turn) -> Turn) -> Turn {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *turn;
        *turn = next(before);
        before
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Anyone can open a channel and send bytes, which must not cause signatures of the enclave.
    #[test]
    fn only_answers_after_a_handshake_are_traffic() {
        let traffic = Arc::new(Notify::new());
        let activity = Activity::new(Arc::clone(&traffic));
        let is_notified = || traffic.notified().now_or_never().is_some();
        for _ in 0..3 {
            activity.record_client();
            assert!(!is_notified());
        }
        for _ in 0..2 {
            activity.record_enclave();
            assert!(!is_notified(), "an answer in the handshake");
        }
        activity.record_client();
        assert!(!is_notified(), "a request");
        activity.record_enclave();
        assert!(is_notified(), "an answer");
    }
}
