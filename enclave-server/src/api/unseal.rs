//! Opens sealed requests, and seals their answers in the same form.

use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode};
use getrandom::SysRng;
use protocol::candidates::{self, Name};
use protocol::inner::InnerResponse;
use protocol::media_type;
use protocol::ohttp::chunked::{self, ChunkError, ChunkSealer};
use protocol::ohttp::{self, Opened, ResponseSealer, SealError};
use rand_core::UnwrapErr;
use zeroize::{Zeroize as _, Zeroizing};

use super::body::TOO_LARGE;
use super::exchange::encode_response;
use super::offload::offload;
use super::problem::Problem;
use super::service::Service;
use crate::keys::Generation;

/// How many enclaves a request is sealed to.
#[derive(Clone, Copy)]
pub(super) enum RequestForm {
    /// To this one: RFC 9458.
    Single,
    /// To several, of which this is one: [`candidates`].
    Candidates,
    /// To this one, in chunks: [`chunked`].
    Chunked,
}

impl RequestForm {
    pub(super) fn from_media_type(media_type: &HeaderValue) -> Option<Self> {
        let is = |expected| media_type::matches(media_type.as_bytes(), expected);
        if is(ohttp::REQUEST_MEDIA_TYPE) {
            Some(Self::Single)
        } else if is(candidates::REQUEST_MEDIA_TYPE) {
            Some(Self::Candidates)
        } else if is(chunked::REQUEST_MEDIA_TYPE) {
            Some(Self::Chunked)
        } else {
            None
        }
    }

    pub(super) fn response_media_type(self) -> &'static str {
        match self {
            Self::Single => ohttp::RESPONSE_MEDIA_TYPE,
            Self::Candidates => candidates::RESPONSE_MEDIA_TYPE,
            Self::Chunked => chunked::RESPONSE_MEDIA_TYPE,
        }
    }
}

/// A request that one of this enclave's keys opened.
pub(super) struct Unsealed {
    /// Owner of the key.
    pub(super) generation: Arc<Generation>,
    pub(super) request: Opened,
    pub(super) sealer: AnswerSealer,
}

/// Seals the answer to one request.
pub(super) enum AnswerSealer {
    Single(ResponseSealer),
    /// Under the name of the enclave that answers.
    Candidate(ResponseSealer, Name),
    Chunked(ChunkSealer),
}

impl AnswerSealer {
    pub(super) fn seal(self, mut response: InnerResponse) -> Result<Vec<u8>, Problem> {
        let padded = encode_response(&response).map(Zeroizing::new);
        response.content.zeroize();
        let padded = padded?;
        let rng = &mut UnwrapErr(SysRng);
        let sealed = match self {
            Self::Single(sealer) => sealer.seal(&padded, rng),
            Self::Candidate(sealer, name) => {
                let sealed = sealer.seal(&padded, rng);
                sealed.map(|sealed| candidates::answer(&name, &sealed))
            }
            Self::Chunked(sealer) => sealer.begin(rng).and_then(|(mut sealed, writer)| {
                sealed.reserve_exact(padded.len() + padded.len() / 512 + 64);
                writer.finish(&padded, &mut sealed)?;
                Ok(sealed)
            }),
        };
        sealed.map_err(|_| SEALING_FAILED)
    }
}

/// Opens a request with the key that it names.
pub(super) fn unseal(
    service: &Service,
    form: RequestForm,
    body: &[u8],
) -> Result<Unsealed, Problem> {
    match form {
        RequestForm::Single => unseal_single(service, body),
        RequestForm::Candidates => unseal_candidates(service, body),
        RequestForm::Chunked => unseal_chunked(service, body),
    }
}

/// Owner of the key that a request names in its first byte.
fn find_generation(service: &Service, body: &[u8]) -> Result<Arc<Generation>, Problem> {
    let key_id = *body.first().ok_or(MALFORMED)?;
    let generation = service.keys.by_key_id(key_id, service.now());
    generation.ok_or(KEY_UNKNOWN)
}

fn unseal_chunked(service: &Service, body: &[u8]) -> Result<Unsealed, Problem> {
    let generation = find_generation(service, body)?;
    let opened = offload(body.len(), || generation.sealing.open_chunked(body));
    let (request, sealer) = opened.map_err(|error| match error {
        ChunkError::Seal(error) => seal_problem(error),
        error => chunk_problem(error),
    })?;
    Ok(Unsealed {
        generation,
        request,
        sealer: AnswerSealer::Chunked(sealer),
    })
}

fn unseal_single(service: &Service, body: &[u8]) -> Result<Unsealed, Problem> {
    let generation = find_generation(service, body)?;
    let opened = offload(body.len(), || generation.sealing.open(body));
    let (request, sealer) = opened.map_err(seal_problem)?;
    Ok(Unsealed {
        generation,
        request,
        sealer: AnswerSealer::Single(sealer),
    })
}

/// Opens a request that is sealed to this enclave and to others, with the newest of this enclave's keys that it names.
fn unseal_candidates(service: &Service, body: &[u8]) -> Result<Unsealed, Problem> {
    let sealed = candidates::Sealed::parse(body).map_err(seal_problem)?;
    let generation = service.keys.generations(service.now()).into_iter();
    let generation = generation
        .filter(|generation| generation.accepts(service.now()))
        .find(|generation| sealed.names().any(|name| *name == generation.name()))
        .ok_or(KEY_UNKNOWN)?;
    let name = generation.name();
    let opened = offload(body.len(), || sealed.open(&name, &generation.sealing));
    let (request, sealer) = opened.map_err(seal_problem)?;
    Ok(Unsealed {
        generation,
        request,
        sealer: AnswerSealer::Candidate(sealer, name),
    })
}

fn seal_problem(error: SealError) -> Problem {
    match error {
        // A request sealed to another process's key with the same identifier does not open either. RFC 9458 §5.3's answer
        // makes its client fetch the current key.
        SealError::UnknownKey(_) | SealError::OpenFailed => KEY_UNKNOWN,
        SealError::TooLarge => TOO_LARGE,
        _ => MALFORMED,
    }
}

fn chunk_problem(error: ChunkError) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        error.code(),
        "A chunk of the request is missing, empty, or cannot be opened",
        "Send the request again, sealed according to draft-ietf-ohai-chunked-ohttp-08.",
    )
}

const MALFORMED: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "ENCAPSULATION_MALFORMED",
    "Not a valid encapsulated request",
    "Seal the request according to RFC 9458 §4.3, with a suite that the key configuration lists.",
);
pub(super) const SEALING_FAILED: Problem = Problem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "SEALING_FAILED",
    "The answer could not be sealed",
    "Try again, and report it if it stays.",
);
/// RFC 9458 §5.3: tells the client that its key configuration is out of date.
const KEY_UNKNOWN: Problem = Problem {
    kind: Some(ohttp::KEY_PROBLEM_TYPE),
    ..Problem::new(
        StatusCode::BAD_REQUEST,
        "KEY_UNKNOWN",
        "The key is not one of this service",
        "Verify the service again, and seal the request to the key that it attests now.",
    )
};
