//! The enclave's way out: HTTP/1.1 to the parent host, on blocking sockets, bounded in bytes and in time.
//!
//! The parent is not trusted. Nothing that it says is believed beyond these bounds:
//!
//! - An answer's head has at most 16 KiB and arrives within [`Timeouts::stall`], however it is dribbled.
//! - A body has a stated length; chunked answers are refused, so no length is a matter of belief.
//! - A read that waits longer than [`Timeouts::stall`], or bytes that come slower than [`Timeouts::least_rate`], end the
//!   exchange with a code that says which it was. Time in which the caller does not read counts for neither.
//! - Nothing lasts beyond the deadline of the exchange.
//!
//! One connection serves one exchange. Loading a model needs one or two, releasing a key one.

mod answer;
mod connection;

use std::io::Write as _;
use std::time::{Duration, Instant};

pub use answer::{Answer, Body};
use connection::Connection;
pub use sockets::ParentAddress;

/// The parent host, as this enclave reaches it.
#[derive(Clone, Debug)]
pub struct Parent {
    address: ParentAddress,
    timeouts: Timeouts,
}

/// How long the parent may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Longest wait for a connection, for the head of an answer, and for the next byte of a body.
    pub stall: Duration,
    /// Bytes a second that a body has to arrive with on average, judged once for each [`stall`](Self::stall) of waiting.
    pub least_rate: u32,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Path and query; visible ASCII that this program chose.
    pub path: &'a str,
    /// Further headers. `host`, `connection` and `content-length` are written here.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; sent where the method is `POST`.
    pub body: &'a [u8],
}

impl Parent {
    /// Reaches the parent at `address`; connects for each exchange, not now.
    pub fn new(address: ParentAddress, timeouts: Timeouts) -> Self {
        Self { address, timeouts }
    }

    /// Sends a request and returns the answer's head, its body not yet read.
    ///
    /// # Errors
    /// [`ParentError`]: no connection, no answer in time, or one that is not HTTP/1.1 with a length.
    pub fn exchange(&self, request: Request<'_>, until: Instant) -> Result<Answer, ParentError> {
        let mut connection = Connection::open(&self.address, self.timeouts, until)?;
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: parent\r\nconnection: close\r\n",
            request.method, request.path
        );
        for (name, value) in request.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if request.method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", request.body.len()));
        }
        head.push_str("\r\n");
        connection
            .write_all(head.as_bytes())
            .map_err(ParentError::Broken)?;
        if request.method == "POST" {
            connection
                .write_all(request.body)
                .map_err(ParentError::Broken)?;
        }
        Answer::read(connection)
    }

    /// Sends `body` and returns the whole answer: its status, and at most `limit` bytes.
    ///
    /// # Errors
    /// [`ParentError`]; a status that is no success is no error here.
    pub fn post(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
        limit: usize,
        until: Instant,
    ) -> Result<(u16, Vec<u8>), ParentError> {
        let request = Request {
            method: "POST",
            path,
            headers: &[("content-type", content_type)],
            body,
        };
        let answer = self.exchange(request, until)?;
        let status = answer.status();
        Ok((status, answer.into_body().collect(limit)?))
    }
}

/// Why the parent did not give what was asked for.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ParentError {
    /// Nothing answers there.
    #[error("{address}: {source}")]
    #[coded(
        "PARENT_UNREACHABLE",
        remedy = "Start host-proxy with --parent-listen, or correct the address."
    )]
    Unreachable {
        /// The address.
        address: ParentAddress,
        /// What the system said.
        source: std::io::Error,
    },
    /// The connection ended within an exchange.
    #[error("the connection to the parent broke: {0}")]
    #[coded("PARENT_BROKEN", remedy = "Read host-proxy's log: it says more.")]
    Broken(std::io::Error),
    /// Nothing moved for too long.
    #[error("the parent sent nothing for {} ms", .0.as_millis())]
    #[coded(
        "PARENT_STALLED",
        remedy = "Look at the host: it is overloaded, or stalls on purpose."
    )]
    Stalled(Duration),
    /// Bytes came, too few.
    #[error("the parent sent {rate} bytes a second, the least is {least}")]
    #[coded(
        "PARENT_TOO_SLOW",
        remedy = "Look at the host: it is overloaded, or slow on purpose."
    )]
    TooSlow {
        /// Bytes a second that came.
        rate: u64,
        /// Bytes a second that had to.
        least: u32,
    },
    /// The whole took too long.
    #[error("the exchange with the parent was not over in time")]
    #[coded(
        "PARENT_DEADLINE",
        remedy = "Look at the host: it is overloaded, or slow on purpose."
    )]
    Deadline,
    /// What came is not an answer that is accepted.
    #[error("{0}")]
    #[coded(
        "PARENT_ANSWER_INVALID",
        remedy = "Let --parent-listen of host-proxy answer there; something else does."
    )]
    Invalid(&'static str),
    /// The answer is longer than anything that it could be.
    #[error("the answer has {length} bytes, the limit is {limit}")]
    #[coded("PARENT_ANSWER_TOO_LARGE", remedy = "Do not rely on this host.")]
    TooLarge {
        /// Stated length.
        length: u64,
        /// Largest that is read.
        limit: usize,
    },
}

impl ParentError {
    /// Whether asking again may help: the connection is at fault, not the answer.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Broken(_) | Self::Stalled(_)
        )
    }
}
