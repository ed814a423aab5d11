//! Documents, one for a client or one for all clients that wait at a tick.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::response::Parts;
use http::{Request, header};
use hyper::body::Body as _;
use tokio::time::Instant;

use super::headers::filter_answer;
use super::nonce_batcher::{Batch, Tick, shareable_nonce};
use super::{ATTESTATION_TIMEOUT, Relay};
use crate::admission::Reservation;
use crate::body::{WholeBody, chargeable, collect};
use crate::problem::Problem;
use crate::source::Peer;

/// Longest document and manifest, bytes; real ones have about 8 KiB.
const MAX_EVIDENCE_BYTES: u64 = 64 << 10;

impl Relay {
    /// Relays a request for a document. `memory` is reserved for the request's body.
    pub(super) async fn relay_attestation(
        &self,
        request: Request<Bytes>,
        deadline: Instant,
        peer: &Peer,
        memory: Reservation,
    ) -> Result<Response, Problem> {
        let (head, body) = match shareable_nonce(request.uri().query()) {
            Some(nonce) => self.share_document(nonce, deadline).await?,
            None => {
                let begun = Instant::now();
                // Released before memory for the answer is reserved and before it leaves: neither a full budget nor a slow reader holds it.
                let _permit = self.attestations.acquire(peer).await?;
                self.metrics.waited(begun.elapsed());
                self.fetch_document(request, deadline).await?
            }
        };
        drop(memory);
        let memory = self.memory.reserve(peer.source, chargeable(body.len()))?;
        Ok(Response::from_parts(
            head,
            Body::new(WholeBody::new(body, memory)),
        ))
    }

    /// Waits for the next document, together with other clients.
    async fn share_document(
        &self,
        nonce: Vec<u8>,
        deadline: Instant,
    ) -> Result<(Parts, Bytes), Problem> {
        let waiting = self.nonces.join(nonce)?;
        if waiting.must_run_schedule {
            // A separate task, because the client that came first may leave while the others wait.
            tokio::spawn(self.clone().run_schedule());
        }
        let timeout = (Instant::now() + ATTESTATION_TIMEOUT).min(deadline);
        match tokio::time::timeout_at(timeout, waiting.share).await {
            Ok(Ok(share)) => share?.into_answer(),
            // Too late; or the task that makes documents has ended, because the proxy is stopping.
            Ok(Err(_)) | Err(_) => Err(Problem::Busy),
        }
    }

    /// Makes a document at each tick, until no client waits for one.
    async fn run_schedule(self) {
        loop {
            tokio::time::sleep_until(self.nonces.next_tick()).await;
            match self.nonces.tick() {
                Tick::Make(batch) => {
                    tokio::spawn(self.clone().make_document(batch));
                }
                Tick::Wait => {}
                Tick::Stop => return,
            }
        }
    }

    /// Makes one document for all of `batch`.
    async fn make_document(self, batch: Batch) {
        let request = Request::builder()
            .uri(batch.path())
            .header(header::ACCEPT, "application/cbor")
            .body(Bytes::new());
        let document = match request {
            Ok(request) => {
                let deadline = Instant::now() + ATTESTATION_TIMEOUT;
                self.fetch_document(request, deadline).await
            }
            Err(_) => Err(Problem::NotFound),
        };
        self.metrics.shared(batch.len());
        batch.answer(&document);
    }

    /// Has the enclave make a document, and buffers the whole answer.
    async fn fetch_document(
        &self,
        request: Request<Bytes>,
        deadline: Instant,
    ) -> Result<(Parts, Bytes), Problem> {
        let limit = self.limits.answer.min(MAX_EVIDENCE_BYTES);
        let (head, body) = self.ask(request, deadline).await?.into_parts();
        if body.size_hint().lower() > limit {
            return Err(Problem::AnswerTooLarge);
        }
        let evidence = collect(body, limit, deadline).await?;
        self.crls.notice(&evidence);
        Ok((filter_answer(head), evidence))
    }
}
