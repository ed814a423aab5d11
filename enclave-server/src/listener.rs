//! The listener of this server, with a limit on connections and timeouts for idle ones.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sockets::{ListenAddress, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

mod timeouts;

pub use timeouts::IDLE_TIMEOUT;
use timeouts::Timeouts;

/// Accepts connections at one address; implements [`axum::serve::Listener`].
pub struct Listener {
    inner: sockets::Listener,
    slots: Arc<Semaphore>,
    idle: Duration,
}

impl Listener {
    /// Binds `address`; at most `max_connections` are open at once, further ones wait in the kernel.
    ///
    /// A socket file without a listener is replaced; anything else at that path is left alone.
    ///
    /// # Errors
    /// [`BindError`] with the address and what to do.
    pub async fn bind(address: &ListenAddress, max_connections: usize) -> Result<Self, BindError> {
        let inner = sockets::Listener::bind(address)
            .await
            .map_err(|error| BindError::new(address, error))?;
        Ok(Self {
            inner,
            slots: Arc::new(Semaphore::new(max_connections)),
            idle: IDLE_TIMEOUT,
        })
    }

    /// Closes connections without traffic after `idle` instead of [`IDLE_TIMEOUT`]. It must be longer than any request may take.
    #[must_use]
    pub fn with_idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The bound address; for port 0 with the port that the system chose.
    pub fn address(&self) -> &ListenAddress {
        self.inner.address()
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = ListenAddress;

    async fn accept(&mut self) -> (Connection, ListenAddress) {
        loop {
            // Waits for a slot before accepting, so that a connection that cannot be served yet costs no descriptor.
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                std::future::pending::<()>().await;
                continue;
            };
            match self.inner.accept().await {
                Ok(stream) => {
                    return (
                        Connection {
                            stream,
                            timeouts: Timeouts::new(self.idle),
                            _slot: slot,
                        },
                        self.address().clone(),
                    );
                }
                Err(error) => {
                    tracing::warn!(code = "ACCEPT_FAILED", %error, "a connection was not accepted");
                    // Most likely out of descriptors: retrying at once would not free one.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<ListenAddress> {
        Ok(self.address().clone())
    }
}

/// Why an address could not be bound.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum BindError {
    /// The system refused.
    #[error("cannot listen on {address}: {source}")]
    #[coded(
        "LISTEN_FAILED",
        remedy = "Choose another address with --listen, or end what uses it."
    )]
    Failed {
        /// The address.
        address: ListenAddress,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process listens there.
    #[error("another process listens on {}", path.display())]
    #[coded(
        "LISTEN_IN_USE",
        remedy = "End it, or choose another path with --listen."
    )]
    InUse {
        /// The socket file.
        path: PathBuf,
    },
    /// The path holds something that is not a socket.
    #[error("{} exists and is not a socket", path.display())]
    #[coded(
        "LISTEN_NOT_A_SOCKET",
        remedy = "Remove it, or choose another path with --listen."
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
}

impl BindError {
    fn new(address: &ListenAddress, error: sockets::BindError) -> Self {
        match error {
            sockets::BindError::InUse(path) => Self::InUse { path },
            sockets::BindError::NotASocket(path) => Self::NotASocket { path },
            sockets::BindError::Io(source) => Self::Failed {
                address: address.clone(),
                source,
            },
        }
    }
}

/// One accepted connection.
pub struct Connection {
    stream: Stream,
    timeouts: Timeouts,
    _slot: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = buffer.filled().len() - before;
        self.timeouts.after_read(cx, outcome, read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timeouts.after_write(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.timeouts.after_write(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use axum::serve::Listener as _;
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;

    fn path(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("clearseal-{}-{name}.sock", std::process::id()));
        std::fs::remove_file(&path).ok();
        path
    }

    async fn unix(path: &Path) -> Result<Listener, BindError> {
        Listener::bind(&ListenAddress::Unix(path.to_owned()), 4).await
    }

    #[tokio::test]
    async fn a_path_in_use_has_its_code() {
        let path = path("codes");
        let first = unix(&path).await.unwrap();
        assert!(matches!(unix(&path).await, Err(BindError::InUse { .. })));
        drop(first);
        std::fs::write(&path, "precious").unwrap();
        let bound = unix(&path).await;
        assert!(matches!(bound, Err(BindError::NotASocket { .. })));
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn a_busy_port_is_named() {
        let first = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap(), 4)
            .await
            .unwrap();
        let Err(error) = Listener::bind(first.address(), 4).await else {
            panic!("bound twice")
        };
        assert!(
            error.to_string().contains(&first.address().to_string()),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed() {
        let path = path("idle");
        let mut listener = unix(&path)
            .await
            .unwrap()
            .with_idle_timeout(Duration::from_millis(20));
        let mut client = UnixStream::connect(&path).await.unwrap();
        let (mut served, _) = listener.accept().await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'x');
        let error = served.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait() {
        let path = path("limit");
        let mut listener = Listener::bind(&ListenAddress::Unix(path.clone()), 1)
            .await
            .unwrap();
        let _clients = (
            UnixStream::connect(&path).await.unwrap(),
            UnixStream::connect(&path).await.unwrap(),
        );
        let first = listener.accept().await;
        let mut second = Box::pin(listener.accept());
        assert!(futures_poll_once(&mut second).await.is_none());
        drop(first);
        second.await;
    }

    async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            Poll::Ready(match Pin::new(&mut *future).poll(cx) {
                Poll::Ready(value) => Some(value),
                Poll::Pending => None,
            })
        })
        .await
    }
}
