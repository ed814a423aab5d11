//! What a contest asks of a transport.

use anyhow::Result;
use bytes::Bytes;

use crate::Value;
use crate::wire::Wire;

/// What tells the figures of a transport from those of others.
#[derive(Clone, Debug)]
pub struct About {
    /// As records call it over a socket, whose kind is added.
    pub transport: &'static str,
    /// As records call it within a process, in the words of the published comparison.
    pub in_process: &'static str,
    /// Who made it, as records name it.
    pub engine: &'static str,
    /// Cipher of its messages.
    pub cipher: Option<&'static str>,
    /// What its session rests on.
    pub establishment: Vec<(&'static str, Value)>,
    /// Whether it takes part once the session is there. Several ways to one session are one transport.
    pub carries: bool,
}

/// Opens sessions.
pub trait Transport {
    /// An end of a session, either one.
    type End: End;

    /// Who it is.
    fn about(&self) -> About;

    /// Opens a session between both ends of a connection.
    fn establish(
        &mut self,
        near: Wire,
        far: Wire,
    ) -> impl Future<Output = Result<(Self::End, Self::End)>>;
}

/// One end of a session.
pub trait End: Send + 'static {
    /// Sends a message, and waits until the stream has it.
    fn send(&mut self, payload: &Bytes) -> impl Future<Output = Result<()>> + Send;

    /// Receives a message; returns its length.
    fn receive(&mut self) -> impl Future<Output = Result<usize>> + Send;

    /// Receives a message and sends it back.
    fn echo(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Ends the session, so that the peer can tell it from a cut.
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// Waits for the peer to end the session.
    fn closed(&mut self) -> impl Future<Output = Result<()>> + Send;
}
