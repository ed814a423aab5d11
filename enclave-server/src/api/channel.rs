//! `GET /v1/channel`: turns a connection into an attested channel, and answers the inner requests that come over it.
//!
//! An Upgrade of the listener that there is, and no listener of its own: so a channel counts among the connections, the relay
//! has one address to know, and a host that forwards HTTP forwards this.
//!
//! Over a channel come the requests of the private router, each a message that begins with its number; each is answered with
//! its number, in order. A channel has two requests in the engine's queue at most, and each takes its turns like any other.

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

use super::attestation::document;
use super::budget::Share;
use super::error::ApiError;
use super::gateway::{OPENING_COPIES, encode, plain};
use super::heavy::heavy;
use super::problem::Problem;
use super::steps::Arrival;
use super::{DRAINING, Service};
use crate::allocator;
use crate::keys::Generation;

/// Channels at once; each may hold one message that arrives, beside its requests under way.
const MOST: usize = 64;
/// Requests of one channel that are worked on: while one is computed, the next is read and the last one written.
const UNDER_WAY: usize = 2;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longest between two requests, the time to send one included: what trickles is cut off as well.
const IDLE: Duration = Duration::from_secs(60);
/// A client that waits for an answer hears this often that it is worked on.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The channels of a service.
pub(super) struct Channels {
    slots: Arc<Semaphore>,
    stop: watch::Sender<bool>,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MOST)),
            stop: watch::Sender::new(false),
        }
    }
}

impl Channels {
    /// Lets each channel answer what it has taken, and ends it then.
    pub(super) fn drain(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until there is none.
    pub(super) async fn ended(&self) {
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        // An error would say that the semaphore is closed, which nothing does.
        self.slots.acquire_many(all).await.ok();
    }
}

pub(super) async fn channel(
    State(service): State<Arc<Service>>,
    mut request: Request,
) -> Result<Response, Problem> {
    let asked = request.headers().get(header::UPGRADE);
    if asked.is_none_or(|protocol| !protocol.as_bytes().eq_ignore_ascii_case(UPGRADE.as_bytes())) {
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
    // Its peer went away, which concerns no one.
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, upgrade).await else {
        return;
    };
    if let Err(error) = converse(&service, TokioIo::new(stream), stop).await {
        tracing::debug!(code = error.code(), "a channel ended early");
    }
}

async fn converse(
    service: &Arc<Service>,
    stream: impl AsyncRead + AsyncWrite,
    stop: watch::Receiver<bool>,
) -> Result<(), channel::Error> {
    let now = service.now();
    let generations = service.keys.generations(now);
    let mut chosen = None;
    let attest = async |prepared: &Prepared, known: Option<[u8; 32]>| {
        // The hello may have taken a while.
        let now = service.now();
        let known = generations.iter().find(|generation| {
            generation.accepts(now) && known == Some(generation.receipts.public_key())
        });
        if let Some(generation) = known {
            chosen = Some(Arc::clone(generation));
            return Evidence::Endorsement(&generation.receipts);
        }
        let generation = service.keys.current();
        match document_for(service, &generation, prepared).await {
            Some((document, manifest)) => {
                chosen = Some(generation);
                Evidence::Document { document, manifest }
            }
            None => Evidence::Busy,
        }
    };
    // What is taken in the last moment of the keys is answered within their linger.
    let periods = service.keys.periods();
    let lifetime = periods.longest().saturating_add(periods.linger());
    let rng = &mut UnwrapErr(SysRng);
    let opened = channel::accept(stream, attest, HANDSHAKE, lifetime, rng).await?;
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
    let (queue, queued) = mpsc::channel(UNDER_WAY - 1);
    let read = read(service, generation, incoming, queue, stop);
    // The reader's end closes the queue; the writer then answers what is left, and closes.
    let (read, written) = tokio::join!(read, write(outgoing, queued));
    written.and(read)
}

/// Takes requests while there is room for them. What a client sends beyond waits in the connection.
async fn read<R: AsyncRead + Unpin>(
    service: &Arc<Service>,
    generation: Arc<Generation>,
    mut incoming: Incoming<R>,
    queue: mpsc::Sender<Job>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), channel::Error> {
    loop {
        let Ok(place) = queue.reserve().await else {
            return Ok(());
        };
        let idle = IDLE + service.limits.max_wait;
        let message = tokio::select! {
            // An error would say that the service is gone.
            _ = stop.wait_for(|stopped| *stopped) => return Ok(()),
            () = queue.closed() => return Ok(()),
            message = tokio::time::timeout(idle, incoming.receive()) => message,
        };
        let Ok(message) = message else {
            return Ok(());
        };
        let arrival = service.arrival();
        let Some(message) = message? else {
            return Ok(());
        };
        let (Kind::Data, Some((number, request))) =
            (message.kind, message.payload.split_first_chunk::<8>())
        else {
            return Err(channel::Error::OutOfTurn);
        };
        // Keys that are over sign nothing more: the client verifies the new ones, and comes back.
        if !generation.accepts(service.now()) {
            return Ok(());
        }
        let (number, request) = (*number, Zeroizing::new(request.to_vec()));
        let (service, generation) = (Arc::clone(service), Arc::clone(&generation));
        place.send(Job(tokio::spawn(async move {
            service.reply(&generation, number, request, arrival).await
        })));
    }
}

/// A request under way; given up where its channel ends.
struct Job(JoinHandle<Answered>);

/// The message, and its part of the memory for answers, which it keeps until it is written.
type Answered = (Zeroizing<Vec<u8>>, Share);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Writes the answers in the order of their requests.
async fn write<W: AsyncWrite + Unpin>(
    mut outgoing: Outgoing<W>,
    mut queued: mpsc::Receiver<Job>,
) -> Result<(), channel::Error> {
    while let Some(mut job) = queued.recv().await {
        let (mut answer, _share) = loop {
            match tokio::time::timeout(HEARTBEAT, &mut job.0).await {
                Ok(Ok(answer)) => break answer,
                // It panicked outside the guarded router.
                Ok(Err(_)) => return Err(protocol::channel::ChannelError::Internal.into()),
                Err(_) => outgoing.send(Kind::Heartbeat, b"").await?,
            }
        };
        outgoing.send_in_place(Kind::Data, &mut answer).await?;
    }
    outgoing.close().await
}

impl Service {
    /// From a request to the message that answers it. Never fails: an error is an answer too.
    async fn reply(
        &self,
        generation: &Generation,
        number: [u8; 8],
        request: Zeroizing<Vec<u8>>,
        arrival: Arrival,
    ) -> Answered {
        let inferred = async {
            let opening = request.len().saturating_mul(OPENING_COPIES);
            let room = self.openings.take(opening).await?;
            let slot = self.gateway_slots.acquire();
            let slot = tokio::time::timeout(self.limits.max_wait, slot).await;
            let _slot = slot.ok().and_then(Result::ok).ok_or_else(busy)?;
            let inferred = self.infer(generation, request, None).await?;
            Ok((inferred, room.is_large()))
        };
        let inferred = inferred.await;
        self.wait_for_step(arrival, ()).await;
        let answered = inferred.and_then(|(inferred, large)| {
            let (answer, share) = self.conclude(generation, inferred)?;
            let large = large || share.is_large();
            Ok((answer, share, large))
        });
        let (mut answer, share, large) = match answered {
            Ok(answered) => answered,
            Err(error) => {
                let answer = plain(ApiError::into_response(error)).await;
                (answer, Share::default(), false)
            }
        };
        self.metrics.answers.inc();
        let message = heavy(answer.content.len(), || numbered(number, &answer));
        answer.content.zeroize();
        if large {
            allocator::give_back();
        }
        // The copies are gone, and a client that reads slowly keeps no more than its answer.
        let share = share.reduced_to(message.len());
        (message, share)
    }
}

fn numbered(number: [u8; 8], answer: &InnerResponse) -> Zeroizing<Vec<u8>> {
    let encoded = Zeroizing::new(encode(answer).unwrap_or_default());
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

/// Evidence for a session's key: the service's manifest with that key in it, and a document that binds it.
async fn document_for(
    service: &Arc<Service>,
    generation: &Arc<Generation>,
    prepared: &Prepared,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let manifest = ServiceManifest {
        sealing_keys: prepared.configs(),
        ..ServiceManifest::decode(&generation.manifest).ok()?
    }
    .encode()
    .ok()?;
    let subject = super::attestation::Subject {
        nonce: prepared.nonce().to_vec(),
        binding: manifest_binding(&manifest),
        public_key: prepared.x25519_key().to_vec(),
    };
    let (document, _) = document(service, Arc::clone(generation), subject)
        .await
        .ok()?;
    Some((document, manifest))
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
