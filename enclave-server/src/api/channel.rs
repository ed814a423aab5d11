//! `GET /v1/channel`: turns a connection into an attested channel, and answers the inner requests sent over it.
//!
//! A channel is an HTTP Upgrade on the one listener. So it counts among the connections, the relay needs one address, and a host
//! that forwards HTTP forwards channels too.
//!
//! Each message of the client is an inner request that begins with its number; the answers begin with the same number and keep
//! the order. A channel has at most two requests in the engine's queue, where they wait like any others.

use std::sync::Arc;
use std::time::Duration;

use attestation::{ServiceManifest, manifest_binding};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use channel::{Channel, Evidence, Incoming, Outgoing};
use getrandom::SysRng;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use protocol::channel::frame::{Kind, MAX_CLIENT_MESSAGE};
use protocol::channel::{Prepared, UPGRADE};
use protocol::inner::InnerResponse;
use rand_core::UnwrapErr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use zeroize::{Zeroize, Zeroizing};

use super::answer_steps::Arrival;
use super::attestation::{DocumentContents, issue_document};
use super::budget::Reservation;
use super::error::ApiError;
use super::exchange::{Answer, encode_response};
use super::offload::offload;
use super::problem::Problem;
use super::readiness::DRAINING;
use super::service::Service;
use crate::allocator;
use crate::keys::Generation;

/// Most open channels; each may hold one message that is being received, in addition to its requests in flight.
const MAX_CHANNELS: usize = 64;
/// Requests of one channel in flight: while one is computed, the next is read and the previous one written.
const MAX_IN_FLIGHT: usize = 2;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time between two requests. It includes sending a request, so that slow senders are cut off as well.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of heartbeats to a client that waits for an answer.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// The channels of a service.
pub(super) struct Channels {
    slots: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_CHANNELS)),
            stop: watch::Sender::new(false),
        }
    }
}

impl Channels {
    /// Ends each channel once it has answered the requests that it has taken.
    pub(super) fn drain(&self) {
        self.stop.send_replace(true);
    }

    pub(super) async fn wait_until_all_ended(&self) {
        let all = u32::try_from(MAX_CHANNELS).unwrap_or(u32::MAX);
        // Fails only where the semaphore is closed, which it never is.
        self.slots.acquire_many(all).await.ok();
    }
}

pub(super) async fn channel(
    State(service): State<Arc<Service>>,
    mut request: Request,
) -> Result<Response, Problem> {
    let protocol = request.headers().get(header::UPGRADE);
    if protocol.is_none_or(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(UPGRADE.as_bytes()))
    {
        return Err(NO_UPGRADE);
    }
    let stop = service.channels.stop.subscribe();
    if *stop.borrow() {
        return Err(DRAINING);
    }
    let slots = Arc::clone(&service.channels.slots);
    let slot = slots.try_acquire_owned().map_err(|_| BUSY)?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or(NO_UPGRADE)?;
    tokio::spawn(serve(service, upgrade, stop, slot));
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("upgrade")),
        (header::UPGRADE, HeaderValue::from_static(UPGRADE)),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

async fn serve(
    service: Arc<Service>,
    upgrade: OnUpgrade,
    stop: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
) {
    // The peer closed the connection or sent nothing more: not an error of this service.
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, upgrade).await else {
        return;
    };
    if let Err(error) = run_channel(&service, TokioIo::new(stream), stop).await {
        tracing::debug!(code = error.code(), "a channel ended early");
    }
}

async fn run_channel(
    service: &Arc<Service>,
    stream: impl AsyncRead + AsyncWrite,
    stop: watch::Receiver<bool>,
) -> Result<(), channel::Error> {
    let now = service.now();
    let generations = service.keys.generations(now);
    let mut chosen = None;
    let attest = async |prepared: &Prepared, known: Option<[u8; 32]>| {
        // The client's hello may have taken seconds to arrive.
        let now = service.now();
        let known = generations.iter().find(|generation| {
            generation.accepts(now) && known == Some(generation.receipts.public_key())
        });
        if let Some(generation) = known {
            chosen = Some(Arc::clone(generation));
            return Evidence::Endorsement(&generation.receipts);
        }
        let generation = service.keys.current();
        let evidence = make_evidence(service, &generation, prepared).await;
        if evidence.is_some() {
            chosen = Some(generation);
        }
        evidence.unwrap_or(Evidence::Busy)
    };
    // A request accepted in the last second of the keys is answered within their linger.
    let periods = service.keys.periods();
    let lifetime = periods.longest().saturating_add(periods.linger());
    let rng = &mut UnwrapErr(SysRng);
    let opened = channel::accept(stream, attest, HANDSHAKE_TIMEOUT, lifetime, rng).await?;
    let Some(generation) = chosen else {
        return Ok(());
    };
    service.metrics.channels.inc();
    let Channel {
        mut incoming,
        outgoing,
        ..
    } = opened;
    incoming.set_limit(MAX_CLIENT_MESSAGE);
    let (queue, queued) = mpsc::channel(MAX_IN_FLIGHT - 1);
    let read = read_requests(service, generation, incoming, queue, stop);
    // When the reader ends, the queue closes; the writer then sends the remaining answers, and closes.
    let (read, written) = tokio::join!(read, write_answers(outgoing, queued));
    written.and(read)
}

/// Takes requests while the queue has room. Further requests wait in the connection.
async fn read_requests<R: AsyncRead + Unpin>(
    service: &Arc<Service>,
    generation: Arc<Generation>,
    mut incoming: Incoming<R>,
    queue: mpsc::Sender<Job>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), channel::Error> {
    loop {
        let Ok(permit) = queue.reserve().await else {
            return Ok(());
        };
        let idle = IDLE_TIMEOUT + service.admission.limits.max_wait;
        let message = tokio::select! {
            // Fails only where the service was dropped.
            _ = stop.wait_for(|stopped| *stopped) => return Ok(()),
            () = queue.closed() => return Ok(()),
            message = tokio::time::timeout(idle, incoming.receive()) => message,
        };
        let Ok(message) = message else {
            return Ok(());
        };
        let arrival = service.timing.arrival();
        let Some(message) = message? else {
            return Ok(());
        };
        let (Kind::Data, Some((number, request))) =
            (message.kind, message.payload.split_first_chunk::<8>())
        else {
            return Err(channel::Error::OutOfTurn);
        };
        // Expired keys sign nothing: the client has to verify the new ones.
        if !generation.accepts(service.now()) {
            return Ok(());
        }
        let (number, request) = (*number, Zeroizing::new(request.to_vec()));
        let (service, generation) = (Arc::clone(service), Arc::clone(&generation));
        permit.send(Job(tokio::spawn(async move {
            service.reply(&generation, number, request, arrival).await
        })));
    }
}

/// A request in flight; aborted when its channel ends.
struct Job(JoinHandle<NumberedAnswer>);

/// A message that answers a request.
struct NumberedAnswer {
    message: Zeroizing<Vec<u8>>,
    /// Held until the message is written.
    _reservation: Reservation,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Writes the answers in the order of their requests.
async fn write_answers<W: AsyncWrite + Unpin>(
    mut outgoing: Outgoing<W>,
    mut queued: mpsc::Receiver<Job>,
) -> Result<(), channel::Error> {
    while let Some(mut job) = queued.recv().await {
        let mut answer = loop {
            match tokio::time::timeout(HEARTBEAT_INTERVAL, &mut job.0).await {
                Ok(Ok(answer)) => break answer,
                // It panicked outside the private router, which catches panics.
                Ok(Err(_)) => return Err(protocol::channel::ChannelError::Internal.into()),
                Err(_) => outgoing.send(Kind::Heartbeat, b"").await?,
            }
        };
        outgoing
            .send_in_place(Kind::Data, &mut answer.message)
            .await?;
    }
    outgoing.close().await
}

impl Service {
    /// Answers one request. An error becomes an answer too.
    async fn reply(
        &self,
        generation: &Generation,
        number: [u8; 8],
        request: Zeroizing<Vec<u8>>,
        arrival: Arrival,
    ) -> NumberedAnswer {
        let mut is_large = false;
        let inferred = async {
            let room = self.admission.reserve_opening(request.len()).await?;
            let _slot = self.admission.acquire_slot().await.ok_or_else(busy)?;
            let inferred = self.infer(generation, request, None).await?;
            is_large = room.is_large();
            Ok(inferred)
        };
        let inferred = inferred.await;
        self.timing.wait_for_step(arrival, ()).await;
        let answer = inferred.and_then(|inferred| self.sign_receipt(generation, inferred));
        let Answer {
            mut response,
            reservation,
        } = match answer {
            Ok(answer) => answer,
            Err(error) => Answer::from_error(error).await,
        };
        self.metrics.answers.inc();
        let message = offload(response.content.len(), || encode_answer(number, &response));
        response.content.zeroize();
        if is_large || reservation.is_large() {
            allocator::purge();
        }
        // The copies are freed. A client that reads slowly holds no more than its answer.
        let _reservation = reservation.reduce_to(message.len());
        NumberedAnswer {
            message,
            _reservation,
        }
    }
}

fn encode_answer(number: [u8; 8], response: &InnerResponse) -> Zeroizing<Vec<u8>> {
    let encoded = Zeroizing::new(encode_response(response).unwrap_or_default());
    Zeroizing::new([&number[..], &encoded].concat())
}

fn busy() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        BUSY.code,
        "too many requests are being worked on; try again in a moment",
    )
    .retry_after(1)
}

/// Makes evidence for a session's keys: the service's manifest with these keys in it, and a document that binds it.
async fn make_evidence(
    service: &Arc<Service>,
    generation: &Arc<Generation>,
    prepared: &Prepared,
) -> Option<Evidence<'static>> {
    let manifest = ServiceManifest {
        sealing_keys: prepared.configs(),
        ..ServiceManifest::decode(&generation.manifest).ok()?
    }
    .encode()
    .ok()?;
    let contents = DocumentContents {
        nonce: prepared.nonce().to_vec(),
        binding: manifest_binding(&manifest),
        public_key: prepared.x25519_key().to_vec(),
    };
    let document = issue_document(service, Arc::clone(generation), contents)
        .await
        .ok()?;
    Some(Evidence::Document {
        document: document.bytes,
        manifest,
    })
}

const NO_UPGRADE: Problem = Problem::new(
    StatusCode::UPGRADE_REQUIRED,
    "UPGRADE_REQUIRED",
    "This endpoint answers an Upgrade",
    "Send GET with connection: upgrade and upgrade: clearseal-channel over HTTP/1.1.",
);
const BUSY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "CHANNELS_BUSY",
    "Too many channels are open",
    "Try again in a moment, or send sealed requests.",
)
.retry_after(2);
