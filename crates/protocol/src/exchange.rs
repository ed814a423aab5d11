//! The client's side of one sealed request: from an inner request to an answer with a verified receipt.

#[cfg(not(target_family = "wasm"))]
mod candidates;
#[cfg(not(target_family = "wasm"))]
mod chunked;
mod pending;

use attestation::{Aead, UnixMillis, VerifiedAttestation};
use error_codes::Coded;
use rand_core::CryptoRng;

use crate::inner::{InnerError, InnerRequest, InnerResponse};
use crate::ohttp::{Envelope, ResponseOpener, SealError};
use crate::receipt::{ReceiptCode, ReceiptReport};
use crate::terms::TermsError;

#[cfg(not(target_family = "wasm"))]
pub use candidates::{PendingCandidates, begin_with_candidates, candidate_name};
#[cfg(not(target_family = "wasm"))]
pub use chunked::{PendingChunks, begin_chunked};
pub use pending::PendingResponse;
use pending::PreparedRequest;

/// Upper bound on the error of the clock estimate, in seconds; most of it is the evidence's time in transit.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// Code with which an enclave declines a request that names a document not issued for its current keys.
pub const DOCUMENT_UNKNOWN: &str = "DOCUMENT_UNKNOWN";
/// Code of a gateway whose keys expired while a request was in transit.
const KEYS_EXPIRED: &str = "KEYS_EXPIRED";
/// Code of a gateway whose clock is too far from a request's date.
const DATE_OUT_OF_WINDOW: &str = "DATE_OUT_OF_WINDOW";

/// A request in progress: the only object that can open its answer. Holds the salt and the key of the
/// response: no `Debug`, no `Clone`.
pub struct PendingExchange {
    opener: ResponseOpener,
    pending: PendingResponse,
}

/// An answer of the verified enclave. No `Debug`: it holds the user's content.
pub struct Answer {
    /// The inner response.
    pub response: InnerResponse,
    /// Shows that an inference took place. Present for every success except that of a `GET` or `HEAD`; absent for a refusal.
    pub receipt: Option<AnswerReceipt>,
    /// The inner request without padding, as the receipt commits to it. Contains the salt, so its holder can open both
    /// commitments.
    pub inner_request: Vec<u8>,
}

/// The verified receipt of an answer.
pub struct AnswerReceipt {
    /// The receipt as signed.
    pub bytes: Vec<u8>,
    /// Its appraisal, never refused.
    pub report: ReceiptReport,
}

/// Why a sealed exchange failed.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[coded(borrowed)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The evidence is too old to rely on, or was appraised for a moment other than now.
    #[error("the attestation has expired, or was not judged live")]
    #[coded("ATTESTATION_EXPIRED", remedy = "Fetch fresh evidence.")]
    Expired,
    /// The attested service offers no key that this client can seal to.
    #[error("the service offers no key that this client can seal to")]
    #[coded("NO_USABLE_KEY", remedy = "Update the client.")]
    NoKey,
    /// The request breaks a rule.
    #[error(transparent)]
    #[coded(transparent)]
    Inner(#[from] InnerError),
    /// The request names a field that the protocol itself writes.
    #[error(transparent)]
    #[coded(transparent)]
    Terms(#[from] TermsError),
    /// Sealing or opening failed.
    #[error(transparent)]
    #[coded(transparent)]
    Seal(#[from] SealError),
    /// A message in chunks was cut off or changed, or could not be sealed.
    #[cfg(not(target_family = "wasm"))]
    #[error(transparent)]
    #[coded(transparent)]
    Chunk(#[from] crate::ohttp::chunked::ChunkError),
    /// The gateway declined before the request reached any endpoint: verify the service again, or fix the client.
    #[error(transparent)]
    #[coded(transparent)]
    Declined(Declined),
    /// An answer in the name of an enclave that was not asked.
    #[error("the answer names an enclave that was not asked")]
    #[coded("CANDIDATE_UNKNOWN", remedy = "Ask again; suspect the relay.")]
    NotCandidate,
    /// A success without the required receipt.
    #[error("the answer carries no readable receipt")]
    #[coded("RECEIPT_MISSING", remedy = "Do not rely on the answer.")]
    NoReceipt,
    /// A sealed answer with a receipt that was refused.
    #[error("the answer's receipt was refused")]
    #[coded(transparent)]
    ReceiptRefused(Box<ReceiptReport>),
}

impl ExchangeError {
    /// Whether fresh evidence helps: the proof has expired, is of other keys, or was made before a clock was set.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Expired => true,
            Self::Declined(declined) => {
                self.is_misdated()
                    || [DOCUMENT_UNKNOWN, KEYS_EXPIRED].contains(&declined.code.as_str())
            }
            _ => self.is_misdated(),
        }
    }

    /// Whether the two clocks differ more than when the evidence was appraised, because one of them was set, or the answer took
    /// too long for its date. A fresh appraisal compares the clocks again.
    #[must_use]
    pub fn is_misdated(&self) -> bool {
        let time = [ReceiptCode::TimestampStale, ReceiptCode::TimestampFuture];
        match self {
            Self::Declined(declined) => declined.code == DATE_OUT_OF_WINDOW,
            Self::ReceiptRefused(report) => {
                let code = report.code.as_deref();
                time.iter().any(|time| code == Some(time.code()))
            }
            _ => false,
        }
    }
}

/// A gateway's reason for declining a request. The code is the service's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service declined the request with {code} (status {status})")]
pub struct Declined {
    /// Inner status code, 400..=599.
    pub status: u16,
    /// The code of its error object.
    pub code: String,
}

impl Coded for Declined {
    fn code(&self) -> &str {
        &self.code
    }

    fn remedy(&self) -> &str {
        if self.code == DOCUMENT_UNKNOWN {
            "Fetch fresh evidence and ask again."
        } else {
            "Correct what the code names, or ask again later."
        }
    }
}

/// Seals one request to the attested service, with X-Wing if the service offers it.
///
/// Adds the fields of [`Terms`](crate::terms::Terms); nonce and salt are fresh. Returns the bytes to send and the opener of their answer. `now` is
/// the client's clock; the request is dated by the enclave's, as the attestation estimates it.
///
/// # Errors
/// [`ExchangeError::Expired`] if `now` is past the attestation's validity, or if it was not appraised
/// [live](VerifiedAttestation::is_live): an audit shows who held the keys then, not who answers now. Another [`ExchangeError`]
/// if the request breaks a rule. Nothing leaves the client in these cases.
pub fn begin(
    attestation: &VerifiedAttestation,
    request: InnerRequest,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, PendingExchange), ExchangeError> {
    if attestation.clock_offset().to_enclave(now) > attestation.valid_until() {
        return Err(ExchangeError::Expired);
    }
    PreparedExchange::new(attestation, rng)?.begin(request, now)
}

/// The part of a sealed request that does not depend on its content: nearly all of its cryptography.
///
/// A client that prepares it in idle time seals its next request in a fraction of
/// the time. Good for one request. Holds that request's keys: no `Debug`, no `Clone`.
pub struct PreparedExchange {
    envelope: Envelope,
    request: PreparedRequest,
}

impl PreparedExchange {
    /// Draws nonce and salt, and encapsulates a key to the attested service, with X-Wing if the service offers it.
    ///
    /// # Errors
    /// [`ExchangeError::Expired`] for an attestation that was not appraised [live](VerifiedAttestation::is_live),
    /// [`ExchangeError::NoKey`], or [`ExchangeError::Seal`] for a key that cannot be sealed to.
    pub fn new(
        attestation: &VerifiedAttestation,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ExchangeError> {
        let key = attestation
            .sealing_keys()
            .into_iter()
            .next()
            .ok_or(ExchangeError::NoKey)?;
        let request = PreparedRequest::new(attestation, rng)?;
        Ok(Self {
            envelope: Envelope::new(&key, preferred_aeads(), rng)?,
            request,
        })
    }

    /// Seals `request` like [`begin`].
    ///
    /// # Errors
    /// Those of [`begin`].
    pub fn begin(
        self,
        request: InnerRequest,
        now: UnixMillis,
    ) -> Result<(Vec<u8>, PendingExchange), ExchangeError> {
        let (inner, pending) = self.request.encode(request, now)?;
        let (sealed, opener) = self.envelope.seal(&inner)?;
        Ok((sealed, PendingExchange { opener, pending }))
    }
}

impl PendingExchange {
    /// Opens the answer and verifies its receipt: of this request, this answer, this enclave, just now.
    ///
    /// # Errors
    /// [`ExchangeError`]; a success without a valid receipt is an error too. The receipt of a refusal or a `GET`
    /// is ignored, because no inference took place.
    pub fn finish(self, sealed: &[u8], now: UnixMillis) -> Result<Answer, ExchangeError> {
        self.pending.finish(&self.opener.open(sealed)?, now)
    }
}

/// The gateway's own refusal, recognised by the code of an error object in OpenAI's format. It was sealed, so the enclave sent it;
/// any other refusal is an endpoint's answer.
fn parse_decline(response: &InnerResponse) -> Option<ExchangeError> {
    #[derive(serde::Deserialize)]
    struct Body {
        error: Detail,
    }
    #[derive(serde::Deserialize)]
    struct Detail {
        code: String,
    }
    let code = serde_json::from_slice::<Body>(&response.content)
        .ok()?
        .error
        .code;
    DECLINED.contains(&code.as_str()).then_some(())?;
    Some(ExchangeError::Declined(Declined {
        status: response.status,
        code,
    }))
}

/// Codes of the gateway about a request's terms and form, not about its content.
const DECLINED: [&str; 9] = [
    DOCUMENT_UNKNOWN,
    DATE_OUT_OF_WINDOW,
    KEYS_EXPIRED,
    "TERMS_MALFORMED",
    "INNER_TOO_LARGE",
    "INNER_MALFORMED",
    "INNER_PADDING_NOT_ZERO",
    "INNER_BAD_CONTROL_DATA",
    "INNER_BAD_FIELD",
];

/// The ciphers that are fast and free of timing leaks on this platform.
const fn preferred_aeads() -> &'static [Aead] {
    if cfg!(target_family = "wasm") {
        // WebAssembly has no AES instructions; in software AES is several times slower, and not compiled in.
        &[Aead::ChaCha20Poly1305]
    } else {
        &[Aead::Aes256Gcm, Aead::ChaCha20Poly1305, Aead::Aes128Gcm]
    }
}
