//! One listener over vsock, Unix and TCP sockets.

use super::ParentAddress;
use anyhow::Context as _;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_vsock::{VMADDR_CID_ANY, VsockAddr, VsockListener};

/// Accepts connections of the enclave.
pub(super) struct Listener {
    socket: Socket,
    address: ParentAddress,
}

enum Socket {
    Vsock(VsockListener),
    Unix(
        UnixListener,
        #[allow(dead_code, reason = "removes the file when dropped")] SocketFile,
    ),
    Tcp(TcpListener),
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

impl Listener {
    pub(super) async fn bind(address: &ParentAddress) -> anyhow::Result<Self> {
        let (socket, address) = match address {
            ParentAddress::Vsock(port) => {
                let any = VsockAddr::new(VMADDR_CID_ANY, *port);
                (Socket::Vsock(VsockListener::bind(any)?), address.clone())
            }
            ParentAddress::Unix(path) => {
                clear_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                // What is offered here is for the enclave, which in development is a process of this user.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                let inode = std::fs::symlink_metadata(path)?.ino();
                let path = path.clone();
                (
                    Socket::Unix(listener, SocketFile { path, inode }),
                    address.clone(),
                )
            }
            ParentAddress::Tcp(socket) => {
                let listener = TcpListener::bind(socket).await?;
                // Port 0 asks the system for a free one.
                let address = ParentAddress::Tcp(listener.local_addr()?);
                (Socket::Tcp(listener), address)
            }
        };
        Ok(Self { socket, address })
    }

    pub(super) fn address(&self) -> &ParentAddress {
        &self.address
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        Ok(match &self.socket {
            Socket::Vsock(listener) => Stream {
                inner: Box::new(listener.accept().await?.0),
                most: VSOCK_WRITE_MAX,
            },
            Socket::Unix(listener, _) => Stream::new(listener.accept().await?.0),
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Stream::new(stream)
            }
        })
    }
}

/// A socket file that nobody listens on any more is removed; anything else at that path is left alone.
async fn clear_stale(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    anyhow::ensure!(
        found.file_type().is_socket(),
        "{} exists and is not a socket",
        path.display()
    );
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
                .context("cannot remove a socket file that is no longer in use")
        }
        _ => anyhow::bail!("another process listens on {}", path.display()),
    }
}

/// Larger writes over virtio-vsock can stall for good.
const VSOCK_WRITE_MAX: usize = 16 << 10;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection of any of the three transports.
pub(super) struct Stream {
    inner: Box<dyn Duplex>,
    /// Bytes of one write at most.
    most: usize,
}

impl Stream {
    fn new(inner: impl Duplex + 'static) -> Self {
        Self {
            inner: Box::new(inner),
            most: usize::MAX,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let most = self.most.min(bytes.len());
        Pin::new(&mut self.inner).poll_write(context, &bytes[..most])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    /// Several slices could be longer than one write may be.
    fn is_write_vectored(&self) -> bool {
        self.most == usize::MAX && self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn one_write_is_as_long_as_the_transport_takes() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut stream = Stream {
            inner: Box::new(near),
            most: VSOCK_WRITE_MAX,
        };
        assert_eq!(stream.write(&[7; 100_000]).await.unwrap(), VSOCK_WRITE_MAX);
        assert!(!stream.is_write_vectored());
        drop(stream);
        let mut taken = Vec::new();
        far.read_to_end(&mut taken).await.unwrap();
        assert_eq!(taken.len(), VSOCK_WRITE_MAX);
    }

    #[tokio::test]
    async fn a_socket_file_is_private_replaced_when_stale_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let address = ParentAddress::Unix(path.clone());
        let listener = Listener::bind(&address).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(Listener::bind(&address).await.is_err(), "bound twice");
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(Listener::bind(&address).await.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
