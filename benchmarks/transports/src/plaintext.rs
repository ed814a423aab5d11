//! Bare framing without protection, as the baseline. It also frames protected byte streams such as TLS.

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

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

/// A stream with length-prefixed messages. Reads a short message and its length at once, as our channel does.
pub struct Framed<S> {
    stream: BufReader<S>,
    buffer: Vec<u8>,
}

impl<S: AsyncRead> Framed<S> {
    /// Frames `stream`.
    pub fn new(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
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

#[cfg(test)]
mod tests {
    use std::io::Result as IoResult;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use tokio::io::{DuplexStream, ReadBuf, duplex};

    use super::*;

    /// Counts the reads that return bytes.
    struct Counted(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<IoResult<()>> {
            let read = Pin::new(&mut self.0).poll_read(context, buffer);
            self.1
                .fetch_add(usize::from(read.is_ready()), Ordering::Relaxed);
            read
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<IoResult<usize>> {
            Pin::new(&mut self.0).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<IoResult<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    #[tokio::test]
    async fn a_short_message_is_read_with_its_length() -> Result<()> {
        let (near, far) = duplex(1 << 16);
        let reads = Arc::new(AtomicUsize::new(0));
        let mut near = Framed::new(near);
        let mut far = Framed::new(Counted(far, reads.clone()));
        near.send(&Bytes::from(vec![7; 1_536])).await?;
        assert_eq!(far.receive().await?, 1_536);
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        Ok(())
    }
}
