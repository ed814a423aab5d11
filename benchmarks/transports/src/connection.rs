//! Connections for sessions, and framing for transports without their own.

use std::io::{ErrorKind, IoSlice};

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Buffer size of an in-memory pipe, as in the published comparison.
const PIPE: usize = 1 << 20;

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One end of a connection.
pub type Connection = Box<dyn Stream>;

/// Opens connections.
pub enum Connector {
    /// A pipe in this process.
    Pipe,
    /// A Unix socket.
    Unix(UnixListener, std::path::PathBuf),
    /// TCP through loopback.
    Tcp(TcpListener),
}

impl Connector {
    /// Listens on a Unix socket in the temporary folder.
    ///
    /// # Errors
    /// If that fails.
    pub fn unix() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("transports-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self::Unix(listener, path))
    }

    /// Listens on a port of the loopback interface.
    ///
    /// # Errors
    /// If that fails.
    pub async fn tcp() -> Result<Self> {
        Ok(Self::Tcp(TcpListener::bind("127.0.0.1:0").await?))
    }

    /// Name in parameters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pipe => "in process",
            Self::Unix(..) => "over unix",
            Self::Tcp(_) => "over tcp",
        }
    }

    /// Opens a connection; returns the client's end and the server's.
    ///
    /// # Errors
    /// Socket errors.
    pub async fn pair(&self) -> Result<(Connection, Connection)> {
        Ok(match self {
            Self::Pipe => {
                let (near, far) = duplex(PIPE);
                (Box::new(near), Box::new(far))
            }
            Self::Unix(listener, path) => {
                let (near, far) = tokio::try_join!(UnixStream::connect(path), listener.accept())?;
                (Box::new(near), Box::new(far.0))
            }
            Self::Tcp(listener) => {
                let address = listener.local_addr()?;
                let (near, far) = tokio::try_join!(TcpStream::connect(address), listener.accept())?;
                near.set_nodelay(true)?;
                far.0.set_nodelay(true)?;
                (Box::new(near), Box::new(far.0))
            }
        })
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes a message with a 4-byte length prefix, both in one vectored write if possible, so that a cipher below does not create a
/// record for the length alone.
///
/// # Errors
/// Errors of the stream.
pub async fn write(stream: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(payload.len()).map_err(|_| ErrorKind::InvalidInput)?;
    let length = length.to_be_bytes();
    let mut slices = [&length[..], payload].map(IoSlice::new);
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match stream.write_vectored(left).await? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut left, count),
        }
    }
    stream.flush().await
}

/// Reads a message with a length prefix into `buffer`, which grows as needed; returns the message's length.
///
/// # Errors
/// Errors of the stream.
pub async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> std::io::Result<usize> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MOST {
        return Err(ErrorKind::InvalidData.into());
    }
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    let (message, _) = buffer.split_at_mut(length);
    stream.read_exact(message).await?;
    Ok(length)
}

/// Longest message of a comparison.
const MOST: usize = 1 << 21;
