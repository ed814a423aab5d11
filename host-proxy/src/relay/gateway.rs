//! Sealed requests, and answers that are relayed while they arrive.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use hyper::body::Body as _;
use tokio::time::Instant;

use super::Relay;
use super::exchange::SMALL_ANSWER_BYTES;
use super::headers::filter_answer;
use crate::admission::{ConcurrencyPermit, Reservation};
use crate::body::{StreamedBody, WholeBody, chargeable, collect};
use crate::problem::Problem;
use crate::source::Source;

/// Permit and memory of a request while the enclave works on it.
pub(super) struct Admitted {
    pub(super) source: Source,
    /// Held until the enclave has sent the whole answer, however slowly the client reads it.
    pub(super) permit: ConcurrencyPermit,
    /// Held until the enclave begins its answer.
    pub(super) request_memory: Reservation,
}

impl Relay {
    /// Passes a request on, and the answer back while it arrives.
    pub(super) async fn relay_sealed(
        &self,
        request: Request<Bytes>,
        deadline: Instant,
        admitted: Admitted,
    ) -> Result<Response, Problem> {
        let Admitted {
            source,
            permit,
            request_memory,
        } = admitted;
        let (head, body) = self.ask(request, deadline).await?.into_parts();
        drop(request_memory);
        if body.size_hint().lower() > self.limits.answer {
            return Err(Problem::AnswerTooLarge);
        }
        let head = filter_answer(head);
        if body.is_end_stream() {
            return Ok(Response::from_parts(head, Body::empty()));
        }
        if body
            .size_hint()
            .upper()
            .is_some_and(|size| size <= SMALL_ANSWER_BYTES)
        {
            let body = collect(body, SMALL_ANSWER_BYTES, deadline).await?;
            // The enclave's work has ended.
            drop(permit);
            let charged = chargeable(body.len());
            let memory = self.memory.reserve_when_free(source, charged);
            let memory = tokio::time::timeout_at(deadline, memory)
                .await
                // Refused with what is missing now: memory of the proxy, or of the source's share.
                .unwrap_or_else(|_| self.memory.reserve(source, charged))?;
            return Ok(Response::from_parts(
                head,
                Body::new(WholeBody::new(body, memory)),
            ));
        }
        let body = StreamedBody::begin(
            body,
            self.limits.answer,
            deadline,
            source,
            self.memory.clone(),
            permit,
        );
        Ok(Response::from_parts(head, Body::new(body)))
    }
}
