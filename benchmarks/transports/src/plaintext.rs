//! Bare framing without protection, as the baseline. It also frames protected byte streams such as TLS.

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::connection::{self, Connection};
use crate::transport::{End, Transport, TransportInfo};

/// A transport without protection.
pub struct Plaintext;

impl Transport for Plaintext {
    type End = Framed<Connection>;

    fn info(&self) -> TransportInfo {
        TransportInfo {
            transport: "plaintext",
            in_process: "plaintext in process",
            engine: "tokio",
            cipher: None,
            establishment: Vec::new(),
            carries_messages: true,
        }
    }

    async fn establish(
        &mut self,
        near: Connection,
        far: Connection,
    ) -> Result<(Self::End, Self::End)> {
        Ok((Framed::new(near), Framed::new(far)))
    }
}

/// A stream with length-prefixed messages.
pub struct Framed<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S> Framed<S> {
    /// Frames `stream`.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> End for Framed<S> {
    async fn send(&mut self, payload: &Bytes) -> Result<()> {
        Ok(connection::write(&mut self.stream, payload).await?)
    }

    async fn receive(&mut self) -> Result<usize> {
        Ok(connection::read(&mut self.stream, &mut self.buffer).await?)
    }

    async fn echo(&mut self) -> Result<()> {
        let length = self.receive().await?;
        let (message, _) = self.buffer.split_at(length);
        Ok(connection::write(&mut self.stream, message).await?)
    }

    async fn close(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    async fn wait_closed(&mut self) -> Result<()> {
        ensure!(
            self.stream.read(&mut [0]).await? == 0,
            "a byte after the end"
        );
        Ok(())
    }
}
