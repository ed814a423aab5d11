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
use tokio::sync::Semaphore;

use super::problem::Problem;
use super::service::Service;
use crate::keys::Generation;
use crate::nsm::{AttestRequest, Nsm, NsmError, Validity, ValidityReader};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    nonce: String,
    /// For a nonce batcher in front of the enclave. Here it has no effect: each caller gets a separate document.
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
    // The verifier's check 24 wants at least 16 bytes. The length is checked before anything is decoded.
    let nonce = Some(nonce)
        .filter(|nonce| nonce.len() <= 86)
        .and_then(|nonce| Base64UrlUnpadded::decode_vec(&nonce).ok())
        .filter(|nonce| (16..=64).contains(&nonce.len()))
        .ok_or(NONCE_INVALID)?;
    let generation = service.keys.current();
    if !generation.accepts(service.now()) {
        return Err(KEYS_EXPIRED);
    }
    let contents = DocumentContents::for_service(&generation, nonce);
    let document = issue_document(&service, Arc::clone(&generation), contents).await?;
    let evidence = Evidence {
        document: &document.bytes,
        manifest: &generation.manifest,
    }
    .encode();
    Ok((
        [
            (header::CONTENT_TYPE, "application/cbor"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        [(
            ENCLAVE_NAME,
            base16ct::lower::encode_string(&generation.name()),
        )],
        evidence,
    )
        .into_response())
}

/// Lets a relay in front of several enclaves tell them apart.
const ENCLAVE_NAME: HeaderName = HeaderName::from_static("clearseal-enclave");

/// Fields of an attestation document that the service chooses.
pub(super) struct DocumentContents {
    pub(super) nonce: Vec<u8>,
    /// Binding of a manifest that names the receipt key of its generation.
    pub(super) binding: [u8; 32],
    pub(super) public_key: Vec<u8>,
}

impl DocumentContents {
    /// Binds the service's manifest and its X25519 sealing key.
    pub(super) fn for_service(generation: &Generation, nonce: Vec<u8>) -> Self {
        Self {
            nonce,
            binding: generation.binding,
            public_key: generation.public_key.clone(),
        }
    }
}

/// A document that the module signed.
pub(super) struct IssuedDocument {
    pub(super) bytes: Vec<u8>,
    pub(super) validity: Validity,
}

/// The module, and the queue of callers for it.
pub(super) struct Attester {
    nsm: Arc<dyn Nsm>,
    waiting: Semaphore,
    slots: Arc<Semaphore>,
    validities: ValidityReader,
}

impl Attester {
    pub(super) fn new(nsm: Arc<dyn Nsm>) -> Self {
        Self {
            nsm,
            waiting: Semaphore::new(MAX_WAITING),
            slots: Arc::new(Semaphore::new(CONCURRENCY)),
            validities: ValidityReader::default(),
        }
    }

    pub(super) fn nsm(&self) -> &dyn Nsm {
        &*self.nsm
    }

    /// Has the module sign a document. Blocks for milliseconds.
    fn sign(&self, contents: &DocumentContents) -> Result<IssuedDocument, NsmError> {
        let bytes = self.nsm.attest(&AttestRequest {
            nonce: &contents.nonce,
            user_data: &contents.binding,
            public_key: &contents.public_key,
        })?;
        let validity = self.validities.read(&bytes)?;
        Ok(IssuedDocument { bytes, validity })
    }
}

/// Documents made at once: the module answers one caller at a time.
const CONCURRENCY: usize = 1;
/// Most callers that wait for a document; each costs some hundred bytes.
const MAX_WAITING: usize = 4096;

/// Makes a document for `generation`, and remembers that it did. Callers are served in the order of arrival.
pub(super) async fn issue_document(
    service: &Arc<Service>,
    generation: Arc<Generation>,
    contents: DocumentContents,
) -> Result<IssuedDocument, Problem> {
    let attester = &service.attester;
    let _waiting = attester.waiting.try_acquire().map_err(|_| BUSY)?;
    let slot = Arc::clone(&attester.slots).acquire_owned();
    let slot = tokio::time::timeout(NSM_WAIT, slot)
        .await
        .map_err(|_| BUSY)?
        .map_err(|_| BUSY)?;
    let task = tokio::task::spawn_blocking({
        let service = Arc::clone(service);
        move || {
            let _slot = slot;
            let document = service.attester.sign(&contents)?;
            let sha256 = Sha256::digest(&document.bytes).into();
            generation.issued.insert(sha256, document.validity);
            Ok::<_, NsmError>(document)
        }
    });
    match task.await {
        Ok(Ok(document)) => {
            service.metrics.documents.inc();
            Ok(document)
        }
        Ok(Err(error)) => {
            tracing::error!(code = "ATTESTATION_FAILED", cause = error.code(), %error, "no attestation document was made");
            Err(FAILED)
        }
        Err(_) => Err(FAILED),
    }
}

/// Longest wait of a caller for the module, which takes some milliseconds for a document.
const NSM_WAIT: Duration = Duration::from_secs(10);

const NONCE_INVALID: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "NONCE_INVALID",
    "The nonce is missing or malformed",
    "Pass ?nonce= with 16 to 64 fresh random bytes in base64url without padding; the only other parameter is &shared=1.",
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
