//! Answers to requests in chunks (draft-ietf-ohai-chunked-ohttp-08): each part of a stream is sealed and sent as soon as it is
//! computed. Any other answer is sealed as a whole.
//!
//! ```text
//! head, parts of the content     each at an answer step after the request arrived
//! trailer                        the receipt, which covers the content
//! ```
//!
//! Where a part fails, the last line of the content is the error, and there is no receipt.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use getrandom::SysRng;
use hyper::body::Frame;
use protocol::inner::stream::ResponseWriter;
use protocol::ohttp::chunked::{ChunkSealer, ChunkWriter, RESPONSE_MEDIA_TYPE};
use rand_core::UnwrapErr;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use zeroize::{Zeroize as _, Zeroizing};

use super::super::answer_steps::Arrival;
use super::super::body::{next_frame, with_reservation};
use super::super::budget::Reservation;
use super::super::counters::Inference;
use super::super::error::ApiError;
use super::super::exchange::{
    Answer, InferredParts, PartFailed, Stream, collect_response, list_fields,
};
use super::super::offload::offload;
use super::super::problem::Problem;
use super::super::service::Service;
use super::super::unseal::{AnswerSealer, SEALING_FAILED};
use crate::allocator;
use crate::keys::Generation;
use crate::metrics::Phase;

/// Longest time in which a connection takes no part. It holds a slot meanwhile.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A request that is being worked on, and what it holds.
pub(super) struct Work {
    pub(super) arrival: Arrival,
    pub(super) held: (OwnedSemaphorePermit, Reservation),
    pub(super) generation: Arc<Generation>,
}

pub(super) async fn answer(
    service: Arc<Service>,
    work: Work,
    sealer: ChunkSealer,
    inner: Zeroizing<Vec<u8>>,
    enc: &[u8],
) -> Result<Response, Problem> {
    let Work {
        arrival,
        held,
        generation,
    } = work;
    let is_large = held.1.is_large();
    let inferred = service.infer_in_parts(&generation, inner, enc).await;
    let whole = match inferred {
        Ok(InferredParts::Stream(stream)) => {
            let work = Work {
                arrival,
                held,
                generation,
            };
            return Ok(respond(stream_answer(service, work, sealer, *stream)));
        }
        Ok(InferredParts::Whole(inferred)) => Ok(*inferred),
        Err(error) => Err(error),
    };
    let _held = service.timing.wait_for_step(arrival, held).await;
    let answer = match whole.and_then(|inferred| service.sign_receipt(&generation, inferred)) {
        Ok(answer) => answer,
        Err(error) => Answer::from_error(error).await,
    };
    let Answer {
        response,
        reservation,
    } = answer;
    let started = Instant::now();
    let sealer = AnswerSealer::Chunked(sealer);
    let sealed = offload(response.content.len(), || sealer.seal(response))?;
    service.metrics.answers.inc();
    service.metrics.times.record(Phase::Seal, started.elapsed());
    if is_large || reservation.is_large() {
        allocator::purge();
    }
    Ok(respond(Body::from(with_reservation(sealed, reservation))))
}

fn respond(body: Body) -> Response {
    // §3 of the draft: asks relays to pass the body on while it arrives.
    let incremental = HeaderName::from_static("incremental");
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(RESPONSE_MEDIA_TYPE),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (incremental, HeaderValue::from_static("?1")),
    ];
    (headers, body).into_response()
}

fn stream_answer(service: Arc<Service>, work: Work, sealer: ChunkSealer, stream: Stream) -> Body {
    let (sender, parts) = mpsc::channel(1);
    tokio::spawn(async move {
        let is_large = {
            let extensions = stream.response.extensions();
            let answer = extensions.get::<Reservation>();
            work.held.1.is_large() || answer.is_some_and(Reservation::is_large)
        };
        if let Err(Stopped::Sealing) = run(&service, work, sealer, stream, &sender).await {
            tracing::error!(
                code = SEALING_FAILED.code,
                "a streamed answer was not sealed"
            );
            // Ends the connection, so that the client sees an answer that was cut off.
            let _ = sender.send(Err(io::ErrorKind::Other.into())).await;
        }
        if is_large {
            allocator::purge();
        }
    });
    Body::new(Parts(parts))
}

/// Reason for the early end of a stream.
enum Stopped {
    /// The client has left, or takes nothing more.
    Left,
    Sealing,
}

/// Seals and sends parts.
struct Sending<'a> {
    service: &'a Service,
    arrival: Arrival,
    parts: &'a mpsc::Sender<io::Result<Bytes>>,
    writer: ChunkWriter,
    /// Sealed bytes that leave with the next part.
    sealed: Vec<u8>,
}

impl Sending<'_> {
    async fn send(&mut self, plain: &[u8]) -> Result<(), Stopped> {
        let started = Instant::now();
        let sealed = &mut self.sealed;
        offload(plain.len(), || self.writer.write(plain, sealed)).map_err(|_| Stopped::Sealing)?;
        let times = &self.service.metrics.times;
        times.record(Phase::Seal, started.elapsed());
        let part = std::mem::take(sealed);
        send(self.parts, part).await
    }
}

async fn send(parts: &mpsc::Sender<io::Result<Bytes>>, part: Vec<u8>) -> Result<(), Stopped> {
    let sent = parts.send_timeout(Ok(part.into()), STALL_TIMEOUT).await;
    sent.map_err(|_| Stopped::Left)
}

async fn run(
    service: &Service,
    work: Work,
    sealer: ChunkSealer,
    stream: Stream,
    parts: &mpsc::Sender<io::Result<Bytes>>,
) -> Result<(), Stopped> {
    let Work {
        arrival,
        held,
        generation,
    } = work;
    let Stream { response, claims } = stream;
    let (head, mut body) = response.into_parts();
    let (nonce, writer) = sealer
        .begin(&mut UnwrapErr(SysRng))
        .map_err(|_| Stopped::Sealing)?;
    let mut sending = Sending {
        service,
        arrival,
        parts,
        writer,
        sealed: nonce,
    };
    let begun = ResponseWriter::begin(head.status.as_u16(), &list_fields(&head.headers));
    let (mut content, first) = begun.map_err(|_| Stopped::Sealing)?;
    let mut plain = Zeroizing::new(first);
    let mut hash = claims.hash_parts();
    let mut failure = None;
    loop {
        let frame = tokio::select! {
            () = parts.closed() => return Err(Stopped::Left),
            frame = next_frame(&mut body) => frame,
        };
        match frame {
            None => break,
            Some(Ok(frame)) => {
                let Ok(part) = frame.into_data() else {
                    continue;
                };
                hash.update(&part);
                content.content(&part, &mut plain);
                service.timing.wait_for_step(sending.arrival, ()).await;
                sending.send(&plain).await?;
                plain.zeroize();
            }
            Some(Err(error)) => {
                failure = Some(PartFailed::find(&error).unwrap_or_else(|| {
                    ApiError::new(
                        axum::http::StatusCode::INTERNAL_SERVER_ERROR,
                        "RESPONSE_FAILED",
                        "the response could not be written; try again",
                    )
                }));
                break;
            }
        }
    }
    // Computing has ended.
    drop((body, held));
    service.timing.wait_for_step(sending.arrival, ()).await;
    let receipt = match (failure, head.extensions.get::<Inference>()) {
        (Some(failure), _) => Err(failure),
        (None, Some(model)) => {
            let subject = claims.subject(model.clone(), hash.finish());
            service.receipt_field(&generation, subject).map(Some)
        }
        (None, None) => Ok(None),
    };
    let trailers = match receipt {
        Ok(receipt) => receipt.into_iter().collect(),
        Err(failure) => {
            let mut line = collect_response(failure.into_response()).await.content;
            line.push(b'\n');
            content.content(&line, &mut plain);
            Vec::new()
        }
    };
    let end = content.finish(&trailers).map_err(|_| Stopped::Sealing)?;
    plain.extend_from_slice(&end);
    let Sending {
        writer, mut sealed, ..
    } = sending;
    writer
        .finish(&plain, &mut sealed)
        .map_err(|_| Stopped::Sealing)?;
    service.metrics.answers.inc();
    send(parts, sealed).await
}

/// Sealed parts, as the connection takes them.
struct Parts(mpsc::Receiver<io::Result<Bytes>>);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0
            .poll_recv(context)
            .map(|part| part.map(|part| part.map(Frame::data)))
    }
}
