//! The interface that a comparison requires of a transport.

use anyhow::Result;
use bytes::Bytes;

use crate::Value;
use crate::connection::Connection;

/// Identifies a transport's figures.
#[derive(Clone, Debug)]
pub struct TransportInfo {
    /// Name in records over a socket; the kind of socket is appended.
    pub transport: &'static str,
    /// Name in records within a process, as in the published comparison.
    pub in_process: &'static str,
    /// Name of the implementation in records.
    pub engine: &'static str,
    /// Cipher of its messages.
    pub cipher: Option<&'static str>,
    /// Parameters of the session's establishment.
    pub establishment: Vec<(&'static str, Value)>,
    /// Whether it measures messages over an open session. Several ways to open one session count as one transport.
    pub carries_messages: bool,
}

/// Opens sessions.
pub trait Transport {
    /// An end of a session.
    type End: End;

    /// Describes the transport.
    fn info(&self) -> TransportInfo;

    /// Opens a session between both ends of a connection.
    fn establish(
        &mut self,
        near: Connection,
        far: Connection,
    ) -> impl Future<Output = Result<(Self::End, Self::End)>>;
}

/// One end of a session.
pub trait End: Send + 'static {
    /// Sends a message; returns when the stream has accepted it.
    fn send(&mut self, payload: &Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Receives a message; returns its length.
    fn receive(&mut self) -> impl Future<Output = Result<usize>> + Send;

    /// Receives a message and sends it back.
    fn echo(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Closes the session, so that the peer can distinguish this from a lost connection.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Waits for the peer to end the session.
    fn wait_closed(&mut self) -> impl Future<Output = Result<()>> + Send;
}
