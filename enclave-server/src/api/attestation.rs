//! `GET /v1/attestation`: a fresh document for the caller's nonce, and the manifest that it binds.

use std::sync::Arc;
use std::time::Duration;

use attestation::Evidence;
use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64ct::{Base64UrlUnpadded, Encoding};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Service;
use super::problem::Problem;
use crate::keys::Generation;
use crate::nsm::{AttestRequest, Validity};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    nonce: String,
    /// For whoever gathers nonces before the enclave; asked here, a document is its caller's alone.
    #[serde(default, rename = "shared")]
    _shared: Option<String>,
}

pub(super) async fn attestation(
    State(service): State<Arc<Service>>,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Response, Problem> {
    let Ok(Query(Parameters { nonce, .. })) = parameters else {
        return Err(NONCE_INVALID);
    };
    // Check 24 wants at least 16 bytes. The size is checked before anything is decoded.
    let nonce = Some(nonce)
        .filter(|nonce| nonce.len() <= 86)
        .and_then(|nonce| Base64UrlUnpadded::decode_vec(&nonce).ok())
        .filter(|nonce| (16..=64).contains(&nonce.len()))
        .ok_or(NONCE_INVALID)?;
    let generation = service.keys.current();
    if !generation.accepts(service.now()) {
        return Err(KEYS_EXPIRED);
    }
    let subject = Subject::of(&generation, nonce);
    let (document, _) = document(&service, Arc::clone(&generation), subject).await?;
    let evidence = Evidence {
        document: &document,
        manifest: &generation.manifest,
    }
    .encode();
    Ok((
        [
            (header::CONTENT_TYPE, "application/cbor"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        [(NAME, base16ct::lower::encode_string(&generation.name()))],
        evidence,
    )
        .into_response())
}

/// How what stands before several enclaves tells them apart.
const NAME: HeaderName = HeaderName::from_static("clearseal-enclave");

/// What a document is to say.
pub(super) struct Subject {
    pub(super) nonce: Vec<u8>,
    /// Of a manifest that names the receipt key of its generation.
    pub(super) binding: [u8; 32],
    pub(super) public_key: Vec<u8>,
}

impl Subject {
    /// The service's own manifest.
    pub(super) fn of(generation: &Generation, nonce: Vec<u8>) -> Self {
        Self {
            nonce,
            binding: generation.binding,
            public_key: generation.public_key.clone(),
        }
    }
}

/// A document of `generation` for `subject`.
pub(super) async fn document(
    service: &Arc<Service>,
    generation: Arc<Generation>,
    subject: Subject,
) -> Result<(Vec<u8>, Validity), Problem> {
    // The module answers one caller at a time, in the order in which they came.
    let _waiting = service.nsm_waiting.try_acquire().map_err(|_| BUSY)?;
    let slot = Arc::clone(&service.nsm_slots).acquire_owned();
    let slot = tokio::time::timeout(NSM_WAIT, slot)
        .await
        .map_err(|_| BUSY)?
        .map_err(|_| BUSY)?;
    let task = tokio::task::spawn_blocking({
        let service = Arc::clone(service);
        move || {
            let _slot = slot;
            let request = AttestRequest {
                nonce: &subject.nonce,
                user_data: &subject.binding,
                public_key: &subject.public_key,
            };
            let document = service.nsm.attest(&request)?;
            let validity = service.validities.read(&document)?;
            let sha256 = Sha256::digest(&document).into();
            generation.issued.insert(sha256, validity);
            Ok::<_, crate::nsm::NsmError>((document, validity))
        }
    });
    match task.await {
        Ok(Ok(made)) => {
            service.metrics.documents.inc();
            Ok(made)
        }
        Ok(Err(error)) => {
            tracing::error!(code = "ATTESTATION_FAILED", cause = error.code(), %error, "no attestation document was made");
            Err(FAILED)
        }
        Err(_) => Err(FAILED),
    }
}

/// How long a caller waits for its turn: a document takes the module some milliseconds.
const NSM_WAIT: Duration = Duration::from_secs(10);

const NONCE_INVALID: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "NONCE_INVALID",
    "The nonce is missing or malformed",
    "Pass ?nonce= with 16 to 64 fresh random bytes in base64url without padding; beside it only &shared=1 may stand.",
);
const BUSY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "ATTESTATION_BUSY",
    "Too many documents are being made",
    "Try again in a moment.",
)
.retry_after(1);
pub(super) const KEYS_EXPIRED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "KEYS_EXPIRED",
    "The keys are over and no new ones could be made",
    "Try again in a moment; if it stays, restart the enclave.",
)
.retry_after(5);
const FAILED: Problem = Problem::new(
    StatusCode::BAD_GATEWAY,
    "ATTESTATION_FAILED",
    "The Nitro Secure Module made no document",
    "Try again; if it stays, restart the enclave.",
);
