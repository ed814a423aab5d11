//! Connections to the enclave, for hyper's pooled client.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use sockets::EnclaveAddress;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_vsock::{VsockAddr, VsockStream};

/// Opens a connection to an enclave: the request's host names it, see [`pool_name`].
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) addresses: Arc<[EnclaveAddress]>,
    pub(crate) timeout: Duration,
}

impl Connector {
    /// Opens a connection to this enclave that is not pooled.
    pub(crate) async fn open(&self, enclave: usize) -> io::Result<TokioIo<EnclaveStream>> {
        let address = self
            .addresses
            .get(enclave)
            .ok_or(io::ErrorKind::AddrNotAvailable)?;
        tokio::time::timeout(self.timeout, connect(address))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map(TokioIo::new)
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<EnclaveStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<EnclaveStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let enclave = parse_pool_name(&uri).ok_or(io::ErrorKind::AddrNotAvailable)?;
            connector.open(enclave).await
        })
    }
}

/// The host in the URI of a request for this enclave. The pool keeps connections by this name.
pub(crate) fn pool_name(enclave: usize) -> String {
    format!("enclave-{enclave}")
}

fn parse_pool_name(uri: &Uri) -> Option<usize> {
    uri.host()?.strip_prefix("enclave-")?.parse().ok()
}

async fn connect(address: &EnclaveAddress) -> io::Result<EnclaveStream> {
    let stream: Box<dyn Duplex> = match address {
        EnclaveAddress::Tcp(authority) => {
            let stream = TcpStream::connect(authority).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        EnclaveAddress::Unix(path) => Box::new(UnixStream::connect(path).await?),
        EnclaveAddress::Vsock { cid, port } => {
            Box::new(VsockStream::connect(VsockAddr::new(*cid, *port)).await?)
        }
        EnclaveAddress::Hybrid { path, port } => {
            let mut stream = UnixStream::connect(path).await?;
            request_port(&mut stream, *port).await?;
            Box::new(stream)
        }
    };
    Ok(EnclaveStream(stream))
}

/// Upper bound on an answer, bytes. The longest is `OK` and a port of ten digits.
const MAX_ANSWER_LINE: usize = 32;

/// Asks the monitor for a port of its machine: `CONNECT 5005`, answered by `OK` and a port on the monitor's side, each on a line
/// (Firecracker, docs/vsock.md, "Host-initiated connections"). The monitor closes the connection where no process listens on
/// that port.
async fn request_port(stream: &mut UnixStream, port: u32) -> io::Result<()> {
    stream
        .write_all(format!("CONNECT {port}\n").as_bytes())
        .await?;
    let mut line = Vec::with_capacity(MAX_ANSWER_LINE);
    // Byte by byte: the bytes after the line are the enclave's.
    while line.len() < MAX_ANSWER_LINE {
        match stream.read_u8().await? {
            b'\n' => break,
            byte => line.push(byte),
        }
    }
    let granted = line
        .strip_prefix(b"OK ")
        .is_some_and(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit));
    if granted && line.len() < MAX_ANSWER_LINE {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection over any of the transports.
pub(crate) struct EnclaveStream(Box<dyn Duplex>);

impl Connection for EnclaveStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for EnclaveStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for EnclaveStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask_monitor(answer: &[u8]) -> (io::Result<()>, Vec<u8>, Vec<u8>) {
        let (mut ours, mut monitors) = UnixStream::pair().unwrap();
        monitors.write_all(answer).await.unwrap();
        let outcome = request_port(&mut ours, 5005).await;
        let mut asked = [0; 13];
        monitors.read_exact(&mut asked).await.unwrap();
        drop(monitors);
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).await.ok();
        (outcome, asked.to_vec(), rest)
    }

    #[tokio::test]
    async fn the_bytes_after_the_monitors_line_are_left() {
        let (outcome, asked, rest) = ask_monitor(b"OK 1073741824\nHTTP").await;
        outcome.unwrap();
        assert_eq!(asked, b"CONNECT 5005\n");
        assert_eq!(rest, b"HTTP");
    }

    #[tokio::test]
    async fn another_answer_is_an_error() {
        let endless = [b'1'; 100];
        let endless = [b"OK ", &endless[..]].concat();
        for answer in [&b"NO\n"[..], b"OK\n", b"OK \n", b"OK x\n", b"\n", &endless] {
            assert!(ask_monitor(answer).await.0.is_err(), "{answer:?}");
        }
        // The monitor closes the connection where no process listens on that port.
        let (mut ours, monitors) = UnixStream::pair().unwrap();
        let outcome = tokio::spawn(async move { request_port(&mut ours, 5005).await });
        drop(monitors);
        assert!(outcome.await.unwrap().is_err());
    }
}
