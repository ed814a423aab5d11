//! One listener over vsock, Unix and TCP sockets.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_vsock::{VMADDR_CID_ANY, VsockAddr, VsockListener, VsockStream};

use crate::config::ListenAddress;

mod patience;

pub use patience::IDLE_TIMEOUT;
use patience::Patience;

/// Accepts connections at one address; implements [`axum::serve::Listener`].
pub struct Listener {
    socket: Socket,
    address: ListenAddress,
    slots: Arc<Semaphore>,
    idle: Duration,
}

impl Listener {
    /// Binds `address`; at most `max_connections` are open at once, further ones wait in the kernel.
    ///
    /// A socket file that nobody listens on any more is replaced; anything else at that path is left alone.
    ///
    /// # Errors
    /// [`BindError`] with the address and what to do.
    pub async fn bind(address: &ListenAddress, max_connections: usize) -> Result<Self, BindError> {
        let failed = |source| BindError::Failed {
            address: address.clone(),
            source,
        };
        let socket = match address {
            ListenAddress::Tcp(socket) => {
                Socket::Tcp(TcpListener::bind(socket).await.map_err(failed)?)
            }
            ListenAddress::Unix(path) => {
                clear_stale(path).await?;
                let listener = UnixListener::bind(path).map_err(failed)?;
                // Whoever may connect may only send sealed requests; still, none but this user has a reason to.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
                    .map_err(failed)?;
                let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
                Socket::Unix(
                    listener,
                    SocketFile {
                        path: path.clone(),
                        inode,
                    },
                )
            }
            ListenAddress::Vsock(port) => Socket::Vsock(
                VsockListener::bind(VsockAddr::new(VMADDR_CID_ANY, *port)).map_err(failed)?,
            ),
        };
        let address = match &socket {
            // Port 0 asks the system for a free one.
            Socket::Tcp(listener) => ListenAddress::Tcp(listener.local_addr().map_err(failed)?),
            _ => address.clone(),
        };
        Ok(Self {
            socket,
            address,
            slots: Arc::new(Semaphore::new(max_connections)),
            idle: IDLE_TIMEOUT,
        })
    }

    /// Closes connections on which nothing moved for `idle`, instead of [`IDLE_TIMEOUT`]. Longer than any request may take.
    #[must_use]
    pub fn with_idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The bound address, with the port that the system chose where none was asked for.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    async fn accept_once(&mut self) -> io::Result<Stream> {
        Ok(match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Socket::Unix(listener, _) => Stream::Unix(listener.accept().await?.0),
            Socket::Vsock(listener) => Stream::Vsock(listener.accept().await?.0),
        })
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = ListenAddress;

    async fn accept(&mut self) -> (Connection, ListenAddress) {
        loop {
            // Before accepting: what cannot be served yet should cost no descriptor.
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                std::future::pending::<()>().await;
                continue;
            };
            match self.accept_once().await {
                Ok(stream) => {
                    return (
                        Connection {
                            stream,
                            patience: Patience::new(self.idle),
                            _slot: slot,
                        },
                        self.address.clone(),
                    );
                }
                Err(error) => {
                    tracing::warn!(code = "ACCEPT_FAILED", %error, "a connection was not accepted");
                    // Out of descriptors, most likely: spinning would not free one.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<ListenAddress> {
        Ok(self.address.clone())
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
        /// What the system said.
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

enum Socket {
    Tcp(TcpListener),
    Unix(
        UnixListener,
        #[allow(dead_code, reason = "removes the file when dropped")] SocketFile,
    ),
    Vsock(VsockListener),
}

/// Removes the socket file again, unless another process has put its own there meanwhile.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Nothing depends on it: the next start replaces a stale file.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

async fn clear_stale(path: &Path) -> Result<(), BindError> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket {
            path: path.to_owned(),
        });
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| BindError::Failed {
                address: ListenAddress::Unix(path.to_owned()),
                source,
            })
        }
        _ => Err(BindError::InUse {
            path: path.to_owned(),
        }),
    }
}

/// One accepted connection.
pub struct Connection {
    stream: Stream,
    patience: Patience,
    _slot: OwnedSemaphorePermit,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Vsock(VsockStream),
}

/// One write from a guest to its host of more than 32 KiB can stall for good (a mismatch in virtio-vsock).
const VSOCK_WRITE_MAX: usize = 16 * 1024;

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Vsock(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        let read = buffer.filled().len() - before;
        self.patience.read(cx, outcome, read)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Vsock(stream) => Pin::new(stream).poll_write(cx, capped(bytes)),
        };
        self.patience.written(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Stream::Vsock(stream) => {
                let first = parts
                    .iter()
                    .find(|part| !part.is_empty())
                    .map_or(&[][..], |part| part);
                Pin::new(stream).poll_write(cx, capped(first))
            }
        };
        self.patience.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Vsock(_) => false,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Vsock(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Vsock(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

fn capped(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(VSOCK_WRITE_MAX)]
}

#[cfg(test)]
mod tests {
    use axum::serve::Listener as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
    async fn a_stale_socket_is_replaced_and_removed_at_the_end() {
        let path = path("stale");
        // The standard library leaves the file behind, as a killed process does.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let mut listener = unix(&path).await.unwrap();
        let mut client = UnixStream::connect(&path).await.unwrap();
        let (mut served, _) = listener.accept().await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'x');
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone() {
        let path = path("live");
        let _first = unix(&path).await.unwrap();
        assert!(matches!(unix(&path).await, Err(BindError::InUse { .. })));
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_file_is_never_removed() {
        let path = path("file");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(
            unix(&path).await,
            Err(BindError::NotASocket { .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
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
    async fn a_connection_on_which_nothing_moves_is_closed() {
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

    #[test]
    fn vsock_writes_are_capped() {
        assert_eq!(capped(&[0; 100_000]).len(), 16_384);
        assert_eq!(capped(&[0; 10]).len(), 10);
    }
}
