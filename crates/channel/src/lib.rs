//! The attested channel over any asynchronous stream: vsock, TCP, Unix sockets, pipes in memory.
//!
//! `protocol::channel` is the protocol, without I/O; this crate moves its bytes. [`connect`] and [`accept`] run the handshake
//! under one deadline and return the two halves of a [`Channel`], which different tasks may hold. [`bulk::run`] sends many items
//! over as many connections as needed, and returns all answers in order.

#![forbid(unsafe_code)]

pub mod bulk;
mod error;
mod handshake;
mod incoming;
mod outgoing;

pub use error::{Error, Refused};
pub use handshake::{Channel, Evidence, Verifier, accept, connect, connect_known};
pub use incoming::{Incoming, Message};
pub use outgoing::Outgoing;

use attestation::UnixMillis;
use protocol::channel::MonotonicMillis;
use tokio::time::Instant;

/// A monotonic clock that starts at an arbitrary moment.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> MonotonicMillis {
        MonotonicMillis(u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the time on a wall clock that showed `start` when this clock was started.
    fn wall_time(self, start: UnixMillis) -> UnixMillis {
        UnixMillis(start.0.saturating_add(self.now().0))
    }
}
