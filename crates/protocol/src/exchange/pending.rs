//! A request without its envelope: the expectations for its answer, whatever its transport.

use attestation::{ClockOffset, UnixMillis, VerifiedAttestation};
use base64ct::{Base64UrlUnpadded, Encoding};
use rand_core::CryptoRng;

use super::{Answer, AnswerReceipt, CLOCK_SKEW_SECONDS, ExchangeError, parse_decline};
use crate::commitment;
use crate::inner::{InnerRequest, InnerResponse, unpadded_len};
use crate::receipt::{self, Expectations, MAX_RECEIPT, Window};
use crate::terms::{self, Terms};

/// Nonce, salt and expectations of a request whose content is not known yet.
pub(super) struct PreparedRequest {
    expectations: Expectations,
    nonce: Vec<u8>,
    salt: [u8; terms::SALT_LEN],
    document: [u8; 32],
    clock: ClockOffset,
    valid_until: UnixMillis,
}

/// An encoded request, and the expectations for its answer. Holds the salt: no `Debug`, no `Clone`.
pub struct PendingResponse {
    expectations: Expectations,
    terms: Terms,
    clock: ClockOffset,
    /// Whether a success requires a receipt.
    requires_receipt: bool,
    inner: Vec<u8>,
}

impl PreparedRequest {
    pub(super) fn new(
        attestation: &VerifiedAttestation,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ExchangeError> {
        if !attestation.is_live() {
            return Err(ExchangeError::Expired);
        }
        let mut nonce = vec![0; 32];
        let mut salt = [0; terms::SALT_LEN];
        rng.fill_bytes(&mut nonce);
        rng.fill_bytes(&mut salt);
        Ok(Self {
            expectations: Expectations::of(attestation),
            nonce,
            salt,
            document: attestation.document_sha256(),
            clock: attestation.clock_offset(),
            valid_until: attestation.valid_until(),
        })
    }

    pub(super) fn encode(
        self,
        mut request: InnerRequest,
        now: UnixMillis,
    ) -> Result<(Vec<u8>, PendingResponse), ExchangeError> {
        let clock = self.clock;
        let date = clock.to_enclave(now);
        if date > self.valid_until {
            return Err(ExchangeError::Expired);
        }
        let terms = Terms {
            date,
            nonce: self.nonce,
            salt: self.salt,
            document: self.document,
        };
        terms.write(&mut request)?;
        // A read-only request is not an inference.
        let requires_receipt = !matches!(request.method.as_str(), "GET" | "HEAD");
        let padded = request.encode_padded()?;
        let mut expectations = self.expectations;
        let inner = padded[..unpadded_len(&padded)?].to_vec();
        expectations.request_hash = Some(commitment::request_hash(&inner));
        expectations.nonce = Some(terms.nonce.clone());
        let pending = PendingResponse {
            expectations,
            terms,
            clock,
            requires_receipt,
            inner,
        };
        Ok((padded, pending))
    }
}

impl PendingResponse {
    /// Encodes one request to the attested service, with fresh [`Terms`], for a carrier that keeps it secret: a
    /// [session](crate::channel). On any other carrier the text travels in the clear.
    ///
    /// # Errors
    /// Those of [`begin`](super::begin).
    pub fn new(
        attestation: &VerifiedAttestation,
        request: InnerRequest,
        now: UnixMillis,
        rng: &mut impl CryptoRng,
    ) -> Result<(Vec<u8>, Self), ExchangeError> {
        PreparedRequest::new(attestation, rng)?.encode(request, now)
    }

    /// Reads the answer, which its carrier has authenticated, and verifies its receipt: of this request, this answer, this
    /// enclave, just now.
    ///
    /// # Errors
    /// Those of [`PendingExchange::finish`](super::PendingExchange::finish).
    pub fn finish(self, response: &[u8], now: UnixMillis) -> Result<Answer, ExchangeError> {
        self.finish_response(InnerResponse::decode(response)?, now)
    }

    #[inline]
    pub(super) fn finish_response(
        self,
        response: InnerResponse,
        now: UnixMillis,
    ) -> Result<Answer, ExchangeError> {
        let Self {
            mut expectations,
            terms,
            clock,
            requires_receipt,
            inner,
        } = self;
        let now = clock.to_enclave(now);
        if response.status >= 400
            && let Some(declined) = parse_decline(&response)
        {
            return Err(declined);
        }
        if response.status >= 300 || !requires_receipt {
            return Ok(Answer {
                response,
                receipt: None,
                inner_request: inner,
            });
        }
        let receipt = response
            .header(terms::RECEIPT)
            .filter(|text| text.len() <= MAX_RECEIPT.div_ceil(3) * 4)
            .and_then(|text| Base64UrlUnpadded::decode_vec(text).ok())
            .ok_or(ExchangeError::NoReceipt)?;
        expectations.response_hash =
            Some(commitment::response_hash(&terms.salt, &response.content));
        // Issued between the request's departure and the answer's arrival, within the difference of the clocks.
        let waited = now.seconds().saturating_sub(terms.date.seconds());
        expectations.window = Some(Window {
            at: now,
            max_age_seconds: waited.saturating_add(CLOCK_SKEW_SECONDS),
            clock_skew_seconds: CLOCK_SKEW_SECONDS,
        });
        let (report, claims) = receipt::verify(&receipt, &expectations, None);
        if claims.is_none() {
            return Err(ExchangeError::ReceiptRefused(Box::new(report)));
        }
        Ok(Answer {
            response,
            receipt: Some(AnswerReceipt {
                bytes: receipt,
                report,
            }),
            inner_request: inner,
        })
    }
}
