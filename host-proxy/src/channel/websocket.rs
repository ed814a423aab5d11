//! The server's half of WebSocket (RFC 6455), reduced to binary messages as a stream of bytes. Pages cannot open another kind of
//! connection.
//!
//! A message is passed on while it arrives, so no buffer depends on its length. No extension is offered, and text is refused.

mod frame;

use std::io::{self, ErrorKind};
use std::time::Duration;

use base64ct::{Base64, Encoding};
use http::HeaderValue;
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::{Activity, BUFFER, Stream};
use frame::{BINARY, CLOSE, FrameError, Header, NORMAL, Opcode, PONG, encode_frame, unmask};

/// Appended to the client's key (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Computes `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`, which is 16 bytes in base64 (RFC 6455 §4.2.2).
pub(super) fn accept(key: &[u8]) -> Option<HeaderValue> {
    let mut nonce = [0; 16];
    Base64::decode(key, &mut nonce)
        .ok()
        .filter(|nonce| nonce.len() == 16)?;
    let hash = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    HeaderValue::try_from(Base64::encode_string(&hash)).ok()
}

/// A control frame that the reader has the writer send. At most one is queued, so a page that reads nothing cannot fill memory.
enum Control {
    Pong(Vec<u8>),
    Close(u16),
}

/// Relays between a page and an enclave until either side ends.
pub(super) async fn relay(client: Stream, enclave: Stream, activity: &Activity) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    // Headers are read a few bytes at a time.
    let from_client = BufReader::new(from_client);
    let (from_enclave, to_enclave) = tokio::io::split(enclave);
    let (controls, queued) = mpsc::channel(1);
    tokio::try_join!(
        copy_to_enclave(from_client, to_enclave, controls, activity),
        copy_to_page(from_enclave, to_client, queued, activity)
    )
    .map(|((), ())| ())
}

/// Copies the payload of the page's frames to the enclave.
async fn copy_to_enclave(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    controls: mpsc::Sender<Control>,
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut inside = false;
    loop {
        let header = tokio::select! {
            // The enclave's side has ended, and the writer has sent a closing frame. Closing the socket with unread bytes would
            // reset it before the page reads that frame, so they are read first.
            () = controls.closed() => {
                let mut sink = tokio::io::sink();
                let rest = tokio::io::copy(&mut from, &mut sink);
                tokio::time::timeout(LINGER, rest).await.ok();
                return to.shutdown().await;
            }
            header = Header::read(&mut from, inside) => header,
        };
        let header = match header {
            Ok(header) => header,
            Err(FrameError::Invalid(code)) => {
                controls.send(Control::Close(code)).await.ok();
                return to.shutdown().await;
            }
            Err(FrameError::Io(error)) => return Err(error),
        };
        if let Opcode::Data { last } = header.opcode {
            activity.record_client();
            inside = !last;
            let (mut left, mut mask) = (header.length, header.mask);
            while left > 0 {
                let length = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
                let Some(part) = buffer.get_mut(..length) else {
                    return Err(ErrorKind::InvalidData.into());
                };
                let count = from.read(part).await?;
                let Some(read @ [_, ..]) = part.get_mut(..count) else {
                    return Err(ErrorKind::UnexpectedEof.into());
                };
                unmask(read, &mut mask);
                to.write_all(read).await?;
                left -= count as u64;
                activity.record_client();
            }
            to.flush().await?;
            continue;
        }
        // At most 125 bytes: `Header::read` has checked that.
        let mut payload = vec![0; usize::try_from(header.length).unwrap_or(0)];
        from.read_exact(&mut payload).await?;
        let mut mask = header.mask;
        unmask(&mut payload, &mut mask);
        match header.opcode {
            Opcode::Close => {
                controls.send(Control::Close(NORMAL)).await.ok();
                return to.shutdown().await;
            }
            // A page that pings faster than it reads gets no pong for some pings.
            Opcode::Ping => drop(controls.try_send(Control::Pong(payload))),
            Opcode::Pong | Opcode::Data { .. } => {}
        }
    }
}

/// Copies the enclave's bytes to the page, each read in one frame.
async fn copy_to_page(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut queued: mpsc::Receiver<Control>,
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = tokio::select! {
            control = queued.recv() => {
                match control {
                    Some(Control::Pong(payload)) => {
                        to.write_all(&encode_frame(PONG, &payload)).await?;
                        to.flush().await?;
                        continue;
                    }
                    // The reader has ended.
                    Some(Control::Close(code)) => return close(to, code).await,
                    None => return close(to, NORMAL).await,
                }
            }
            count = from.read(&mut buffer) => count?,
        };
        let Some(read @ [_, ..]) = buffer.get(..count) else {
            return close(to, NORMAL).await;
        };
        activity.record_enclave();
        to.write_all(&encode_frame(BINARY, read)).await?;
        to.flush().await?;
        activity.record_enclave();
    }
}

async fn close(mut to: impl AsyncWrite + Unpin, code: u16) -> io::Result<()> {
    to.write_all(&encode_frame(CLOSE, &code.to_be_bytes()))
        .await?;
    to.shutdown().await
}

/// Time for a page to read that the channel has ended.
const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_standards_example_gets_its_answer() {
        let accept = |key: &str| accept(key.as_bytes());
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ==").unwrap(),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        for wrong in ["", "dGhlIHNhbXBsZQ==", "not base64 at all, it is"] {
            assert!(accept(wrong).is_none(), "{wrong}");
        }
    }
}
