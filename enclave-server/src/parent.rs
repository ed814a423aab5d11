//! Requests from the enclave to its parent host: HTTP/1.1 on blocking sockets, bounded in bytes and in time.
//!
//! The parent is not trusted, so these bounds apply:
//!
//! - The head of an answer has at most 16 KiB, and arrives completely within [`Timeouts::stall`].
//! - A body has a stated length; chunked answers are refused.
//! - The exchange ends when a read waits longer than [`Timeouts::stall`], or bytes arrive slower than [`Timeouts::least_rate`].
//!   The error's code states which. Time in which the caller does not read is not counted.
//! - The exchange ends at its deadline.
//!
//! One connection serves one exchange. Loading a model needs one or two, releasing a key one, an index one for each object.

mod answer;
mod connection;

use std::io::Write as _;
use std::time::{Duration, Instant};

pub use answer::{Answer, Body};
use connection::Connection;
pub use sockets::ParentAddress;

/// A client for the parent host.
#[derive(Clone, Debug)]
pub struct Parent {
    address: ParentAddress,
    timeouts: Timeouts,
}

/// Timeouts of an exchange with the parent.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Longest wait for a connection, for the head of an answer, and for the next byte of a body.
    pub stall: Duration,
    /// Least average rate of a body in bytes a second, checked after each [`stall`](Self::stall) of waiting.
    pub least_rate: u32,
}

/// A request to the parent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// Path and query in visible ASCII, chosen by this program.
    pub path: &'a str,
    /// Further headers; `host`, `connection` and `content-length` are added.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; sent only with `POST`.
    pub body: &'a [u8],
}

impl Parent {
    /// A client that connects to `address` for each exchange.
    pub fn new(address: ParentAddress, timeouts: Timeouts) -> Self {
        Self { address, timeouts }
    }

    /// Sends a request and returns the answer; its body is not read yet.
    ///
    /// # Errors
    /// [`ParentError`]: no connection, no answer in time, or an answer that is not HTTP/1.1 with a length.
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

    /// Sends `body` and returns the whole answer, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`ParentError`]. An unsuccessful status is not an error here.
    pub fn post(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
        limit: usize,
        until: Instant,
    ) -> Result<WholeAnswer, ParentError> {
        let request = Request {
            method: "POST",
            path,
            headers: &[("content-type", content_type)],
            body,
        };
        let answer = self.exchange(request, until)?;
        let status = answer.status();
        let body = answer.into_body().collect(limit)?;
        Ok(WholeAnswer { status, body })
    }
}

/// An answer with its whole body.
pub struct WholeAnswer {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why an exchange with the parent failed.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ParentError {
    /// The connection failed.
    #[error("{address}: {source}")]
    #[coded(
        "PARENT_UNREACHABLE",
        remedy = "Start host-proxy with --parent-listen, or correct the address."
    )]
    Unreachable {
        /// The address.
        address: ParentAddress,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The connection ended within an exchange.
    #[error("the connection to the parent broke: {0}")]
    #[coded("PARENT_BROKEN", remedy = "Read host-proxy's log: it says more.")]
    Broken(std::io::Error),
    /// The parent sent nothing for [`Timeouts::stall`].
    #[error("the parent sent nothing for {} ms", .0.as_millis())]
    #[coded(
        "PARENT_STALLED",
        remedy = "Look at the host: it is overloaded, or stalls deliberately."
    )]
    Stalled(Duration),
    /// The parent sent too slowly.
    #[error("the parent sent {rate} bytes a second, the least is {least}")]
    #[coded(
        "PARENT_TOO_SLOW",
        remedy = "Look at the host: it is overloaded, or deliberately slow."
    )]
    TooSlow {
        /// Actual rate in bytes a second.
        rate: u64,
        /// Least rate in bytes a second.
        least: u32,
    },
    /// The exchange did not end before its deadline.
    #[error("the exchange with the parent was not over in time")]
    #[coded(
        "PARENT_DEADLINE",
        remedy = "Look at the host: it is overloaded, or deliberately slow."
    )]
    Deadline,
    /// The answer is not acceptable HTTP/1.1.
    #[error("{0}")]
    #[coded(
        "PARENT_ANSWER_INVALID",
        remedy = "Let --parent-listen of host-proxy answer there; something else does."
    )]
    Invalid(&'static str),
    /// The answer is longer than the limit.
    #[error("the answer has {length} bytes, the limit is {limit}")]
    #[coded("PARENT_ANSWER_TOO_LARGE", remedy = "Do not rely on this host.")]
    TooLarge {
        /// Stated length.
        length: u64,
        /// The limit.
        limit: usize,
    },
}

impl ParentError {
    /// Whether a retry may help, because the connection failed and not the answer.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Broken(_) | Self::Stalled(_)
        )
    }
}
