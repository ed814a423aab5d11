//! A minimal HTTP/1.1 client that only reads answers: there are many of them, and each must use few resources.

use std::io::{Error, ErrorKind};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Reads the head of an answer into `buffer`, with any bytes of the body that follow; returns where the body begins and its
/// length.
pub(super) async fn head(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<(usize, usize)> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            let ended = "the server closed the connection";
            return Err(Error::new(ErrorKind::UnexpectedEof, ended));
        }
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..at]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let unstated = || Error::new(ErrorKind::InvalidData, "an answer states no length");
            return Ok((at + 4, length.ok_or_else(unstated)?));
        }
    }
}
