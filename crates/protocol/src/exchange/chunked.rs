//! An exchange whose answer is opened while it arrives.

use attestation::{UnixMillis, VerifiedAttestation};
use rand_core::CryptoRng;

use super::pending::{PendingResponse, PreparedRequest};
use super::{Answer, ExchangeError, preferred_aeads};
use crate::inner::stream::{ReadResponse, ResponseReader};
use crate::inner::{InnerError, InnerRequest};
use crate::ohttp::chunked::{self, ChunkError, ChunkOpener};
use crate::terms;

/// An answer in progress: the only object that can open it. Holds the salt and the key of the response: no `Debug`, no `Clone`.
pub struct PendingChunks {
    /// Until the end of the answer, or the first chunk that is refused.
    opener: Option<ChunkOpener>,
    failure: Option<ChunkError>,
    reader: ResponseReader,
    pending: PendingResponse,
}

/// Seals one request in chunks (`message/ohttp-chunked-req`), like [`begin`](super::begin).
///
/// # Errors
/// Those of [`begin`](super::begin).
pub fn begin_chunked(
    attestation: &VerifiedAttestation,
    request: InnerRequest,
    now: UnixMillis,
    rng: &mut impl CryptoRng,
) -> Result<(Vec<u8>, PendingChunks), ExchangeError> {
    let prepared = PreparedRequest::new(attestation, rng)?;
    let (inner, pending) = prepared.encode(request, now)?;
    let keys = attestation.sealing_keys();
    let key = keys.first().ok_or(ExchangeError::NoKey)?;
    let (sealed, opener) = chunked::encapsulate(key, preferred_aeads(), &inner, rng)?;
    let reader = ResponseReader::default();
    Ok((
        sealed,
        PendingChunks {
            opener: Some(opener),
            failure: None,
            reader,
            pending,
        },
    ))
}

impl PendingChunks {
    /// Takes sealed bytes as they arrive.
    ///
    /// # Errors
    /// [`ExchangeError::Chunk`] for bytes that this exchange's gateway did not seal at this place, and for all after them or after
    /// [`end`](Self::end); [`ExchangeError::Inner`].
    pub fn push(&mut self, sealed: &[u8]) -> Result<(), ExchangeError> {
        let opener = self.opener.as_mut();
        let opener = opener.ok_or(self.failure.unwrap_or(ChunkError::CutOff))?;
        let mut opened = Vec::new();
        let pushed = opener.push(sealed, &mut opened);
        self.note(pushed.err());
        self.reader.push(&opened)?;
        Ok(pushed?)
    }

    /// A message with a refused chunk is never complete.
    fn note(&mut self, failure: Option<ChunkError>) {
        if failure.is_some() {
            (self.opener, self.failure) = (None, failure);
        }
    }

    /// Opens the last chunk where the answer ended: no content is missing from then on. [`finish`](Self::finish) does it as well.
    ///
    /// # Errors
    /// [`ExchangeError::Chunk`] if the answer was cut off.
    pub fn end(&mut self) -> Result<(), ExchangeError> {
        let Some(opener) = self.opener.take() else {
            return self.failure.map_or(Ok(()), |failure| Err(failure.into()));
        };
        let mut opened = Vec::new();
        let ended = opener.finish(&mut opened);
        self.note(ended.err());
        self.reader.push(&opened)?;
        Ok(ended?)
    }

    /// Status and fields, once they have arrived; the enclave sent them. `None` until the end if the answer is not a stream.
    pub fn head(&self) -> Option<(u16, &[(String, String)])> {
        self.reader.head()
    }

    /// The content that has arrived. The enclave sent it, but more may be missing, and only [`finish`](Self::finish) verifies
    /// the receipt.
    pub fn content(&self) -> &[u8] {
        self.reader.content()
    }

    /// Ends the answer where it ended, and verifies its receipt like [`PendingExchange::finish`](super::PendingExchange::finish).
    ///
    /// # Errors
    /// [`ExchangeError::Chunk`] if it was cut off; those of [`PendingExchange::finish`](super::PendingExchange::finish).
    pub fn finish(mut self, now: UnixMillis) -> Result<Answer, ExchangeError> {
        self.end()?;
        let ReadResponse {
            mut response,
            trailers,
        } = self.reader.finish()?;
        let receipt = trailers
            .into_iter()
            .find(|(name, _)| name == terms::RECEIPT);
        if let Some(receipt) = receipt {
            if response.header(terms::RECEIPT).is_some() {
                return Err(InnerError::Field("sent twice").into());
            }
            response.headers.push(receipt);
        }
        self.pending.finish_response(response, now)
    }
}
