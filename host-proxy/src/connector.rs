//! Connections to the enclave, for hyper's pooled client.

use crate::address::EnclaveAddress;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_vsock::{VsockAddr, VsockStream};

/// Opens a connection to the one enclave, whatever the request's authority says.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) address: EnclaveAddress,
    pub(crate) timeout: Duration,
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<EnclaveStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<EnclaveStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { address, timeout } = self.clone();
        Box::pin(async move {
            tokio::time::timeout(timeout, connect(&address))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map(TokioIo::new)
        })
    }
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
    };
    Ok(EnclaveStream(stream))
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection of any of the three transports.
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
