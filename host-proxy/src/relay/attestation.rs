//! Documents, one for a client or one for all clients that wait at a tick.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::response::Parts;
use http::{Request, Uri, header};
use hyper::body::Body as _;
use tokio::time::Instant;
use witness::evidence::join;

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
    /// Relays a request for a document. `memory` is reserved for the request's body. With `witnessed=1` in the query, which does not pass to
    /// the enclave, the answer holds a proof that its keys are in the deployment's log.
    pub(super) async fn relay_attestation(
        &self,
        mut request: Request<Bytes>,
        deadline: Instant,
        peer: &Peer,
        memory: Reservation,
    ) -> Result<Response, Problem> {
        let is_witnessed = take_witnessed(request.uri_mut());
        let (mut head, mut body) = match shareable_nonce(request.uri().query()) {
            Some(nonce) => self.share_document(nonce, deadline).await?,
            None => {
                let begun = Instant::now();
                // Released before memory for the answer is reserved and before it leaves: neither a full budget nor a slow reader holds it.
                let _permit = self.attestations.acquire(peer).await?;
                self.metrics.waited(begun.elapsed());
                self.fetch_document(request, deadline).await?
            }
        };
        if is_witnessed && head.status.is_success() {
            let proof = self.deployment.prove(&body, deadline).await;
            body = join(&body, &proof).into();
            head.headers.remove(header::CONTENT_LENGTH);
        }
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
        self.deployment.notice(&evidence);
        Ok((filter_answer(head), evidence))
    }
}

/// Removes `witnessed=1` from the query; returns whether it was there.
fn take_witnessed(uri: &mut Uri) -> bool {
    let Some(query) = uri.query() else {
        return false;
    };
    let is_other = |part: &&str| *part != "witnessed=1";
    let others: Vec<_> = query.split('&').filter(is_other).collect();
    if others.len() == query.split('&').count() {
        return false;
    }
    let path = match others.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), others.join("&")),
    };
    // Parts of a URI are one.
    match path.parse() {
        Ok(rest) => {
            *uri = rest;
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_for_a_proof_does_not_pass_to_the_enclave() {
        for (asked, passed) in [
            (
                "/a?nonce=x&shared=1&witnessed=1",
                Some("/a?nonce=x&shared=1"),
            ),
            ("/a?witnessed=1&nonce=x", Some("/a?nonce=x")),
            ("/a?witnessed=1", Some("/a")),
            ("/a?nonce=x&witnessed=2", None),
            ("/a", None),
        ] {
            let mut uri: Uri = asked.parse().unwrap();
            assert_eq!(take_witnessed(&mut uri), passed.is_some(), "{asked}");
            assert_eq!(uri.to_string(), passed.unwrap_or(asked));
        }
    }
}
