//! `POST /v1/gateway`: opens a sealed request, lets the private router answer it, signs a receipt, seals the answer.
//!
//! A request in chunks ([`chunked`]) is answered in chunks; where its answer is a stream, while that is computed.
//!
//! Errors before decryption are plaintext problems; later errors are sealed.

mod chunked;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::ohttp::Opened;
use zeroize::Zeroizing;

use super::body::{MEMORY, read_body, with_reservation};
use super::exchange::Answer;
use super::offload::offload;
use super::problem::Problem;
use super::service::Service;
use super::unseal::{AnswerSealer, RequestForm, Unsealed, unseal};
use crate::allocator;
use crate::metrics::Phase;

pub(super) async fn gateway(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Problem> {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let form = media_type
        .and_then(RequestForm::from_media_type)
        .ok_or(MEDIA_TYPE)?;
    let admission = &service.admission;
    let body = read_body(request.into_body(), admission).await?;
    let arrival = service.timing.arrival();
    // Before decryption and before taking a slot: a request that waits here holds nothing but its own bytes.
    let room = admission.reserve_opening(body.bytes.len()).await;
    let room = room.map_err(|_| MEMORY)?;
    let slot = admission.acquire_slot().await.ok_or(BUSY)?;
    let unsealed = unseal(&service, form, &body.bytes)?;
    drop(body);
    let Unsealed {
        generation,
        request: Opened { inner, enc, .. },
        sealer,
    } = unsealed;
    let inner = Zeroizing::new(inner);
    let sealer = match sealer {
        AnswerSealer::Chunked(sealer) => {
            let work = chunked::Work {
                arrival,
                held: (slot, room),
                generation,
            };
            return chunked::answer(service, work, sealer, inner, &enc).await;
        }
        sealer => sealer,
    };
    let inferred = service.infer(&generation, inner, Some(&enc[..])).await;
    let is_large = room.is_large();
    let _held = service.timing.wait_for_step(arrival, (slot, room)).await;
    let answer = match inferred.and_then(|inferred| service.sign_receipt(&generation, inferred)) {
        Ok(answer) => answer,
        Err(error) => Answer::from_error(error).await,
    };
    let started = Instant::now();
    let Answer {
        response,
        reservation,
    } = answer;
    let sealed = offload(response.content.len(), || sealer.seal(response))?;
    service.metrics.answers.inc();
    service.metrics.times.record(Phase::Seal, started.elapsed());
    if is_large || reservation.is_large() {
        allocator::purge();
    }
    Ok((
        [
            (header::CONTENT_TYPE, form.response_media_type()),
            (header::CACHE_CONTROL, "no-store"),
        ],
        with_reservation(sealed, reservation),
    )
        .into_response())
}

const MEDIA_TYPE: Problem = Problem::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "MEDIA_TYPE_UNSUPPORTED",
    "The request is not sealed",
    "Send an encapsulated request as message/ohttp-req (RFC 9458) or message/ohttp-chunked-req, or one to several enclaves.",
);
const BUSY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "GATEWAY_BUSY",
    "Too many requests are being worked on",
    "Try again in a moment.",
)
.retry_after(1);
