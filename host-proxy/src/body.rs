//! Bodies: requests are received whole before they cost the enclave anything, answers flow on while they come, and what lies
//! here in between is paid for out of a bounded supply.

use crate::pace;
use crate::problem::Problem;
use crate::source::{Full, Hold, Source, Supply};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

/// Bytes of each body that cost nothing: while others have taken all memory, short requests and answers go on. A connection
/// holds one body, so that the limit of connections is theirs too.
const FREE_BYTES: usize = 16 << 10;

/// What a body of so many bytes pays for.
pub(crate) fn paid(bytes: usize) -> usize {
    bytes.saturating_sub(FREE_BYTES)
}

/// A request's body, all of it.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    /// Pays for them until they are gone.
    pub(crate) hold: Option<Hold>,
}

/// How a request's body may come.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) limit: u64,
    /// Time that a sender has on top of what his bytes are worth.
    pub(crate) allowance: Duration,
    pub(crate) deadline: Instant,
}

/// Receives a body whole. A sender pays for what he has sent, not for what he announced, and a trickle is cut off.
pub(crate) async fn receive(
    mut body: Body,
    terms: Terms,
    source: Source,
    supply: &Supply,
) -> Result<Received, Problem> {
    let begun = Instant::now();
    let mut hold = supply.take(source, 0).map_err(refused)?;
    let mut bytes = BytesMut::new();
    loop {
        let due = begun + terms.allowance + pace::worth(bytes.len());
        let frame = tokio::time::timeout_at(due.min(terms.deadline), body.frame())
            .await
            .map_err(|_| Problem::BodyTimeout)?;
        let Some(frame) = frame else { break };
        // Trailers are no part of the protocol, and would pass the list of headers by.
        let Ok(data) = frame.map_err(|_| Problem::BodyIncomplete)?.into_data() else {
            break;
        };
        if (bytes.len() + data.len()) as u64 > terms.limit {
            return Err(Problem::BodyTooLarge);
        }
        let more = paid(bytes.len() + data.len()) - paid(bytes.len());
        hold.grow(more).map_err(refused)?;
        // Copied: a slice of one byte would keep the whole buffer that it was read into.
        bytes.extend_from_slice(&data);
    }
    Ok(Received {
        bytes: bytes.freeze(),
        hold: Some(hold),
    })
}

/// The problem that a full supply is.
pub(crate) fn refused(full: Full) -> Problem {
    match full {
        Full::Source => Problem::SourceBusy,
        Full::All => Problem::Busy,
    }
}

/// Takes a whole answer of at most `limit` bytes.
pub(crate) async fn collect(
    body: Incoming,
    limit: u64,
    deadline: Instant,
) -> Result<Bytes, Problem> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let body = http_body_util::Limited::new(body, limit).collect();
    match tokio::time::timeout_at(deadline, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Problem::AnswerTooLarge)
        }
        Ok(Err(_)) => Err(Problem::EnclaveUnreachable),
        Err(_) => Err(Problem::EnclaveTimeout),
    }
}

/// An answer that is here already, and pays for its memory until the connection takes it.
pub(crate) struct Whole {
    bytes: http_body_util::Full<Bytes>,
    hold: Option<Hold>,
}

impl Whole {
    pub(crate) fn new(bytes: Bytes, hold: Hold) -> Self {
        Self {
            bytes: http_body_util::Full::new(bytes),
            hold: Some(hold),
        }
    }
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.hold = None;
        Pin::new(&mut self.bytes).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}

/// Why an answer ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cut {
    #[error("the body is longer than the limit")]
    TooLarge,
    #[error("the body took longer than the limit")]
    TooSlow,
    #[error("the sender stopped")]
    Broken,
}

type Piece = Result<(Bytes, Hold), Cut>;

/// An answer's body on its way to the client. What came already waits in memory.
pub(crate) struct Download {
    pieces: UnboundedReceiver<Piece>,
}

impl Download {
    /// Takes `body` from the enclave as fast as it comes, at most `limit` bytes until `deadline`, and as far as `supply`
    /// lasts. `places` are what the request holds of the enclave; they are returned as soon as it is done with it, however
    /// slowly the client reads.
    pub(crate) fn begin(
        mut body: Incoming,
        limit: u64,
        deadline: Instant,
        (source, supply): (Source, Supply),
        places: impl Send + 'static,
    ) -> Self {
        let (sender, pieces) = unbounded_channel();
        tokio::spawn(async move {
            let _places = places;
            let mut left = limit;
            loop {
                let piece = tokio::select! {
                    // The client is gone.
                    () = sender.closed() => return,
                    piece = next(&mut body, &mut left, deadline, source, &supply) => piece,
                };
                let Some(piece) = piece else { return };
                let last = piece.is_err();
                if sender.send(piece).is_err() || last {
                    return;
                }
            }
        });
        Self { pieces }
    }
}

async fn next(
    body: &mut Incoming,
    left: &mut u64,
    deadline: Instant,
    source: Source,
    supply: &Supply,
) -> Option<Piece> {
    let data = loop {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Err(_) => return Some(Err(Cut::TooSlow)),
            Ok(None) => return None,
            Ok(Some(Err(_))) => return Some(Err(Cut::Broken)),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => break data,
                // Trailers.
                Err(_) => return None,
            },
        }
    };
    match left.checked_sub(data.len() as u64) {
        Some(rest) => *left = rest,
        None => return Some(Err(Cut::TooLarge)),
    }
    // Without memory for it the enclave's side waits, as it did for every byte before.
    match tokio::time::timeout_at(deadline, supply.wait(source, data.len())).await {
        Ok(hold) => Some(Ok((data, hold))),
        Err(_) => Some(Err(Cut::TooSlow)),
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        // The hold ends here: from now on the connection's own buffer is what counts, and that is bounded.
        self.pieces
            .poll_recv(context)
            .map(|piece| piece.map(|piece| piece.map(|(data, _)| Frame::data(data))))
    }
}
