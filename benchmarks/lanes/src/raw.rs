//! Framing alone, without protection: the floor. Also what any byte stream with protection below is framed by.

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::transport::{About, End, Transport};
use crate::wire::{self, Wire};

/// No protection at all.
pub struct Raw;

impl Transport for Raw {
    type End = Framed<Wire>;

    fn about(&self) -> About {
        About {
            transport: "plaintext",
            in_process: "plaintext in process",
            engine: "tokio",
            cipher: None,
            establishment: Vec::new(),
            carries: true,
        }
    }

    async fn establish(&mut self, near: Wire, far: Wire) -> Result<(Self::End, Self::End)> {
        Ok((Framed::new(near), Framed::new(far)))
    }
}

/// A stream whose messages carry their length.
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
        Ok(wire::write(&mut self.stream, payload).await?)
    }

    async fn receive(&mut self) -> Result<usize> {
        Ok(wire::read(&mut self.stream, &mut self.buffer).await?)
    }

    async fn echo(&mut self) -> Result<()> {
        let length = self.receive().await?;
        let (message, _) = self.buffer.split_at(length);
        Ok(wire::write(&mut self.stream, message).await?)
    }

    async fn close(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    async fn closed(&mut self) -> Result<()> {
        ensure!(
            self.stream.read(&mut [0]).await? == 0,
            "a byte after the end"
        );
        Ok(())
    }
}
