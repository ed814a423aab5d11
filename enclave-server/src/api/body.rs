//! Bodies of requests as they are received, and of responses until they are written.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use hyper::body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::admission::Admission;
use super::budget::{Budget, Exhausted, Reservation, SMALL_BYTES};
use super::problem::Problem;

/// A whole body, and the memory reserved for it.
pub(super) struct ReceivedBody {
    pub(super) bytes: Vec<u8>,
    _reservation: Reservation,
}

/// Reads a body to its end. A slow sender occupies only its own connection.
pub(super) async fn read_body(
    mut body: Body,
    admission: &Admission,
) -> Result<ReceivedBody, Problem> {
    let mut arriving = ArrivingBody::new(&admission.arrivals);
    let all = async {
        while let Some(frame) = timeout(STALL_TIMEOUT, next_frame(&mut body))
            .await
            .map_err(|_| SLOW)?
        {
            // The sender closed the connection, so it reads no answer.
            let frame = frame.map_err(|_| SLOW)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if arriving.length() + data.len() > admission.limits.max_request_bytes {
                return Err(TOO_LARGE);
            }
            arriving.push(&data).map_err(|_| MEMORY)?;
        }
        Ok(())
    };
    timeout(BODY_TIMEOUT, all).await.map_err(|_| SLOW)??;
    Ok(arriving.finish())
}

pub(super) async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Longest wait for the next part of a body.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time to receive a whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A body that is being received. Bytes beyond [`SMALL_BYTES`] are reserved only as they are received: announcing a large body
/// takes no memory from others, and a slow sender holds no more than it has sent.
struct ArrivingBody<'a> {
    budget: &'a Budget,
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
    reserved: usize,
}

impl<'a> ArrivingBody<'a> {
    fn new(budget: &'a Budget) -> Self {
        Self {
            budget,
            bytes: Vec::new(),
            permit: None,
            reserved: SMALL_BYTES,
        }
    }

    fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Appends received bytes. Fails at once when the budget is exhausted: the sender is told to retry, and does not wait in the
    /// middle of its request.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        let length = self.bytes.len() + bytes.len();
        if length > self.bytes.capacity() {
            let capacity = length.max(self.bytes.capacity() * 2).max(4096);
            if capacity > self.reserved {
                let kib = (capacity - self.reserved).div_ceil(1024);
                let permit = self.budget.try_acquire_kib(kib)?;
                match &mut self.permit {
                    Some(held) => held.merge(permit),
                    none => *none = Some(permit),
                }
                self.reserved += kib * 1024;
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self) -> ReceivedBody {
        ReceivedBody {
            bytes: self.bytes,
            _reservation: Reservation::from_kib(self.permit),
        }
    }
}

/// Bytes that keep their reservation until they are written to the socket, not only until they are handed to the server.
pub(super) fn with_reservation(bytes: Vec<u8>, reservation: Reservation) -> Bytes {
    struct Reserved {
        bytes: Vec<u8>,
        _reservation: Reservation,
    }
    impl AsRef<[u8]> for Reserved {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    if reservation.is_large() {
        Bytes::from_owner(Reserved {
            bytes,
            _reservation: reservation,
        })
    } else {
        bytes.into()
    }
}

/// Bytes that are zeroized when the last user drops them.
pub(super) fn zeroizing(bytes: Vec<u8>) -> Bytes {
    Bytes::from_owner(Zeroizing::new(bytes))
}

const SLOW: Problem = Problem::new(
    StatusCode::REQUEST_TIMEOUT,
    "REQUEST_TOO_SLOW",
    "The sealed request did not arrive in time",
    "Send it again.",
);
pub(super) const TOO_LARGE: Problem = Problem::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "REQUEST_TOO_LARGE",
    "The sealed request is too large",
    "Send fewer texts in one request.",
);
pub(super) const MEMORY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "MEMORY_BUSY",
    "Large requests use all memory that there is for them",
    "Send fewer or shorter texts at once, or try again.",
)
.retry_after(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_reserves_what_was_received() {
        let budget = Budget::new(1 << 20, Duration::from_millis(1));
        let mut body = ArrivingBody::new(&budget);
        body.push(&[0; SMALL_BYTES]).unwrap();
        assert!(budget.is_free());
        body.push(&[0; 100]).unwrap();
        assert!(!budget.is_free());
        let mut other = ArrivingBody::new(&budget);
        let refused = (0..100).find_map(|_| other.push(&[0; 32 << 10]).err());
        assert_eq!(refused, Some(Exhausted));
        drop((body.finish(), other));
        assert!(budget.is_free());
    }
}
