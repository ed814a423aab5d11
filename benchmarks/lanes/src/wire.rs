//! Streams that a session runs over, and framing for those that have none.

use std::io::{ErrorKind, IoSlice};

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Bytes that a pipe in memory holds: those of the published comparison.
const PIPE: usize = 1 << 20;

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One end of a connection.
pub type Wire = Box<dyn Stream>;

/// Where connections come from.
pub enum Dock {
    /// A pipe in this process.
    Pipe,
    /// A Unix socket.
    Unix(UnixListener, std::path::PathBuf),
    /// TCP through loopback.
    Tcp(TcpListener),
}

impl Dock {
    /// Listens on a Unix socket in the folder of temporary files.
    ///
    /// # Errors
    /// Where that cannot be done.
    pub fn unix() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("lanes-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self::Unix(listener, path))
    }

    /// Listens on a port of the loopback interface.
    ///
    /// # Errors
    /// Where that cannot be done.
    pub async fn tcp() -> Result<Self> {
        Ok(Self::Tcp(TcpListener::bind("127.0.0.1:0").await?))
    }

    /// As parameters call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pipe => "in process",
            Self::Unix(..) => "over unix",
            Self::Tcp(_) => "over tcp",
        }
    }

    /// A fresh connection: the client's end and the server's.
    ///
    /// # Errors
    /// Those of sockets.
    pub async fn pair(&self) -> Result<(Wire, Wire)> {
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

impl Drop for Dock {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes a message behind its length (4 bytes): both in one piece where the stream takes several, so that a cipher
/// below makes no record for the length alone.
///
/// # Errors
/// Those of the stream.
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

/// Reads a message behind its length into `buffer`, which grows to the longest one; returns how long it is.
///
/// # Errors
/// Those of the stream.
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

/// Longest message of a contest.
const MOST: usize = 1 << 21;
