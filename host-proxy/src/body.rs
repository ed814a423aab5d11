//! Bodies in memory: requests are received whole before they cost the enclave anything, answers are relayed while they arrive.
//! A [`Quota`] bounds the bytes that are buffered in between.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use crate::admission::{Quota, Reservation};
use crate::pace;
use crate::problem::Problem;
use crate::source::Source;

/// Bytes of each body that are not charged to the quota, so that short requests and answers pass while the quota is used up. A
/// connection holds one body, so the limit on connections bounds these bytes too.
const FREE_BYTES: usize = 16 << 10;

/// Returns how many of a body's bytes are charged to the quota.
pub(crate) fn chargeable(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES)
}

/// A request's whole body.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    /// Reserved for `bytes`.
    pub(crate) memory: Reservation,
}

/// Bounds on a request's body.
#[derive(Clone, Copy)]
pub(crate) struct ReceiveLimits {
    pub(crate) bytes: u64,
    /// Time for which a sender may send nothing; see [`pace`].
    pub(crate) allowance: Duration,
    pub(crate) deadline: Instant,
}

/// Receives a whole body. Reserves memory for the bytes that arrived, not for those that were announced, and ends a body that
/// arrives too slowly.
pub(crate) async fn receive(
    mut body: Body,
    limits: ReceiveLimits,
    source: Source,
    quota: &Quota,
) -> Result<Received, Problem> {
    let mut left = limits.allowance;
    let mut memory = quota.reserve(source, 0)?;
    let mut bytes = BytesMut::new();
    loop {
        let begun = Instant::now();
        let frame = timeout_at((begun + left).min(limits.deadline), body.frame())
            .await
            .map_err(|_| Problem::BodyTimeout)?;
        left = left.saturating_sub(begun.elapsed());
        let Some(frame) = frame else { break };
        // Trailers are not part of the protocol, and would bypass the list of header fields.
        let Ok(data) = frame.map_err(|_| Problem::BodyIncomplete)?.into_data() else {
            break;
        };
        // As for answers: bytes add to the allowance, up to its first value.
        left = (left + pace::time_for(data.len())).min(limits.allowance);
        let length = bytes.len() + data.len();
        if length as u64 > limits.bytes {
            return Err(Problem::BodyTooLarge);
        }
        memory.grow(chargeable(length) - chargeable(bytes.len()))?;
        // Copied: a slice of one byte would keep the whole buffer that it was read into.
        bytes.extend_from_slice(&data);
    }
    Ok(Received {
        bytes: bytes.freeze(),
        memory,
    })
}

/// Buffers a whole answer of at most `limit` bytes.
pub(crate) async fn collect(
    body: Incoming,
    limit: u64,
    deadline: Instant,
) -> Result<Bytes, Problem> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let body = Limited::new(body, limit).collect();
    match timeout_at(deadline, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::AnswerTooLarge),
        Ok(Err(_)) => Err(Problem::EnclaveUnreachable),
        Err(_) => Err(Problem::EnclaveTimeout),
    }
}

/// A buffered answer. Its memory is returned when the connection takes the bytes.
pub(crate) struct WholeBody {
    bytes: Full<Bytes>,
    memory: Option<Reservation>,
}

impl WholeBody {
    pub(crate) fn new(bytes: Bytes, memory: Reservation) -> Self {
        Self {
            bytes: Full::new(bytes),
            memory: Some(memory),
        }
    }
}

impl HttpBody for WholeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.memory = None;
        Pin::new(&mut self.bytes).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}

/// Ends an answer early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("the body is longer than the limit")]
    TooLarge,
    #[error("the body took longer than the limit")]
    TooSlow,
    #[error("the sender stopped")]
    Broken,
}

type Piece = Result<(Bytes, Reservation), StreamError>;

/// An answer's body on its way to the client. Pieces that have arrived wait in memory.
pub(crate) struct StreamedBody {
    pieces: UnboundedReceiver<Piece>,
}

impl StreamedBody {
    /// Reads `body` from the enclave as fast as it arrives: at most `limit` bytes, until `deadline`, and as far as `quota`
    /// allows. `permits` are what the request holds of the enclave; they are dropped once the enclave has sent everything,
    /// however slowly the client reads.
    pub(crate) fn begin(
        body: Incoming,
        limit: u64,
        deadline: Instant,
        source: Source,
        quota: Quota,
        permits: impl Send + 'static,
    ) -> Self {
        let (sender, pieces) = unbounded_channel();
        let mut reader = Reader {
            body,
            left: limit,
            deadline,
            source,
            quota,
        };
        tokio::spawn(async move {
            let _permits = permits;
            loop {
                let piece = tokio::select! {
                    // The client has left.
                    () = sender.closed() => return,
                    piece = reader.next() => piece,
                };
                let Some(piece) = piece else { return };
                let is_last = piece.is_err();
                if sender.send(piece).is_err() || is_last {
                    return;
                }
            }
        });
        Self { pieces }
    }
}

/// Reads an answer piece by piece, and reserves memory for each.
struct Reader {
    body: Incoming,
    /// Bytes that may still arrive.
    left: u64,
    deadline: Instant,
    source: Source,
    quota: Quota,
}

impl Reader {
    async fn next(&mut self) -> Option<Piece> {
        let data = loop {
            match timeout_at(self.deadline, self.body.frame()).await {
                Err(_) => return Some(Err(StreamError::TooSlow)),
                Ok(None) => return None,
                Ok(Some(Err(_))) => return Some(Err(StreamError::Broken)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => break data,
                    // Trailers.
                    Err(_) => return None,
                },
            }
        };
        match self.left.checked_sub(data.len() as u64) {
            Some(rest) => self.left = rest,
            None => return Some(Err(StreamError::TooLarge)),
        }
        // Back-pressure: while this waits for memory, nothing more is read from the enclave.
        let memory = self.quota.reserve_when_free(self.source, data.len());
        match timeout_at(self.deadline, memory).await {
            Ok(Ok(memory)) => Some(Ok((data, memory))),
            Ok(Err(_)) | Err(_) => Some(Err(StreamError::TooSlow)),
        }
    }
}

impl HttpBody for StreamedBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        // The reservation ends here: from now on the bytes are in the connection's own buffer, which is bounded.
        self.pieces
            .poll_recv(context)
            .map(|piece| piece.map(|piece| piece.map(|(data, _)| Frame::data(data))))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A body of `bytes` at once, after which its sender is silent.
    struct Silent(Option<Bytes>);

    impl HttpBody for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.take() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Poll::Pending,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_sender_has_its_allowance_however_much_it_has_sent() {
        let begun = Instant::now();
        let limits = ReceiveLimits {
            bytes: 8 << 20,
            allowance: Duration::from_secs(10),
            deadline: begun + Duration::from_secs(120),
        };
        let source = Source::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let body = Body::new(Silent(Some(vec![0; 4 << 20].into())));
        let quota = Quota::new(8 << 20, 100);
        let received = receive(body, limits, source, &quota).await;
        assert_eq!(received.err(), Some(Problem::BodyTimeout));
        assert_eq!(begun.elapsed().as_secs(), 10);
    }
}
