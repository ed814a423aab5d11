//! One listener over vsock, Unix and TCP sockets.

use std::fs::{Permissions, remove_file, set_permissions, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_vsock::{VMADDR_CID_ANY, VsockAddr, VsockListener, VsockStream};

use crate::ListenAddress;

/// Accepts connections at one address.
pub struct Listener {
    socket: Socket,
    address: ListenAddress,
}

/// The address could not be bound. The caller knows the address and the flag that names it.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Another process listens at this socket file.
    #[error("another process listens on {}", .0.display())]
    InUse(PathBuf),
    /// The path exists and is not a socket.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
}

impl Listener {
    /// Binds `address`. Only the user of this process can connect to a socket file.
    ///
    /// A stale socket file, on which no process listens, is replaced; anything else at that path is left alone.
    ///
    /// # Errors
    /// [`BindError`]
    pub async fn bind(address: &ListenAddress) -> Result<Self, BindError> {
        let mut address = address.clone();
        let socket = match &mut address {
            ListenAddress::Vsock(port) => {
                Socket::Vsock(VsockListener::bind(VsockAddr::new(VMADDR_CID_ANY, *port))?)
            }
            ListenAddress::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(&*path)?;
                // In development the peer is a process of this user; no other user has a reason to connect.
                set_permissions(&*path, Permissions::from_mode(0o600))?;
                let file = SocketFile {
                    inode: symlink_metadata(&*path)?.ino(),
                    path: path.clone(),
                };
                Socket::Unix(listener, file)
            }
            ListenAddress::Tcp(bound) => {
                let listener = TcpListener::bind(*bound).await?;
                // Port 0 asks the system for a free one.
                *bound = listener.local_addr()?;
                Socket::Tcp(listener)
            }
        };
        Ok(Self { socket, address })
    }

    /// The bound address, with the port that the system chose where port 0 was asked for.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// Those of the system, such as no free file descriptor. The listener stays usable.
    pub async fn accept(&self) -> io::Result<Stream> {
        let transport = match &self.socket {
            Socket::Vsock(listener) => Transport::Vsock(listener.accept().await?.0),
            Socket::Unix(listener, _) => Transport::Unix(listener.accept().await?.0),
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Transport::Tcp(stream)
            }
        };
        Ok(Stream(transport))
    }
}

enum Socket {
    Vsock(VsockListener),
    Unix(
        UnixListener,
        #[allow(dead_code, reason = "removes the file when dropped")] SocketFile,
    ),
    Tcp(TcpListener),
}

/// Removes the socket file when dropped, unless another process has replaced it.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // A failure is harmless: the next start replaces a stale file.
            remove_file(&self.path).ok();
        }
    }
}

/// Removes a socket file on which no process listens.
async fn remove_stale(path: &Path) -> Result<(), BindError> {
    let Ok(found) = symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(remove_file(path)?),
        _ => Err(BindError::InUse(path.to_owned())),
    }
}

/// One accepted connection, over any of the three transports.
pub struct Stream(Transport);

enum Transport {
    Vsock(VsockStream),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Longest write to a vsock, bytes. One of more than 32 KiB from a guest to its host can stall for good (a mismatch in
/// virtio-vsock).
const VSOCK_WRITE_MAX: usize = 16 << 10;

fn capped(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(VSOCK_WRITE_MAX)]
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Transport::Vsock(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Transport::Vsock(stream) => Pin::new(stream).poll_write(context, capped(bytes)),
            Transport::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Transport::Vsock(stream) => {
                // All slices together could exceed the longest write.
                let first = slices
                    .iter()
                    .find(|slice| !slice.is_empty())
                    .map_or(&[][..], |slice| slice);
                Pin::new(stream).poll_write(context, capped(first))
            }
            Transport::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Transport::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Transport::Vsock(_) => false,
            Transport::Unix(stream) => stream.is_write_vectored(),
            Transport::Tcp(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Transport::Vsock(stream) => Pin::new(stream).poll_flush(context),
            Transport::Unix(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Transport::Vsock(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stale.sock");
        // The standard library leaves the file behind, as a killed process does.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::bind(&ListenAddress::Unix(path.clone()))
            .await
            .unwrap();
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = UnixStream::connect(&path).await.unwrap();
        let mut served = listener.accept().await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(served.read_u8().await.unwrap(), b'x');
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.sock");
        let address = ListenAddress::Unix(path.clone());
        let _first = Listener::bind(&address).await.unwrap();
        let second = Listener::bind(&address).await;
        assert!(matches!(second.err(), Some(BindError::InUse(_))));
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_socket_file_of_another_process_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("replaced.sock");
        let address = ListenAddress::Unix(path.clone());
        let listener = Listener::bind(&address).await.unwrap();
        std::fs::rename(&path, folder.path().join("moved.sock")).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_file_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        let bound = Listener::bind(&ListenAddress::Unix(path.clone())).await;
        assert!(matches!(bound.err(), Some(BindError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[tokio::test]
    async fn the_address_names_the_port_that_the_system_chose() {
        let listener = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let ListenAddress::Tcp(address) = listener.address() else {
            panic!("a TCP address was asked for")
        };
        assert_ne!(address.port(), 0);
        assert!(Listener::bind(listener.address()).await.is_err());
    }

    #[test]
    fn vsock_writes_are_capped() {
        assert_eq!(capped(&[0; 100_000]).len(), 16_384);
        assert_eq!(capped(&[0; 10]).len(), 10);
    }
}
