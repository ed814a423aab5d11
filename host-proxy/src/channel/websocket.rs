//! The server's half of WebSocket (RFC 6455), for one purpose: binary messages as a stream of bytes.
//!
//! A message is passed on while it comes, so nothing here depends on its length. Pages cannot open a connection of another
//! kind; no extension is offered, and text is refused.

use super::{Activity, BUFFER, Stream};
use base64ct::{Base64, Encoding};
use http::HeaderValue;
use sha1::{Digest as _, Sha1};
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The answer to `Sec-WebSocket-Key`, which is 16 bytes in base64.
pub(super) fn accept(key: &[u8]) -> Option<HeaderValue> {
    let mut nonce = [0; 16];
    Base64::decode(key, &mut nonce)
        .ok()
        .filter(|nonce| nonce.len() == 16)?;
    let hash = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    HeaderValue::try_from(Base64::encode_string(&hash)).ok()
}

/// What the reader has the writer say. A peer that reads nothing gets no further than one of them.
enum Control {
    Pong(Vec<u8>),
    Close(u16),
}

const GOING: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED: u16 = 1003;

pub(super) async fn relay(client: Stream, enclave: Stream, activity: &Activity) -> io::Result<()> {
    let (from_client, to_client) = tokio::io::split(client);
    // Headers are read in pieces of some bytes.
    let from_client = BufReader::new(from_client);
    let (from_enclave, to_enclave) = tokio::io::split(enclave);
    let (say, said) = mpsc::channel(1);
    tokio::try_join!(
        unwrap(from_client, to_enclave, say, activity),
        wrap(from_enclave, to_client, said, activity)
    )
    .map(|((), ())| ())
}

/// From the page to the enclave.
async fn unwrap(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    say: mpsc::Sender<Control>,
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut inside = false;
    loop {
        let header = tokio::select! {
            // The enclave's side has ended, and the page was told so. What it still sends is read, so that it reads that.
            () = say.closed() => {
                let mut nowhere = tokio::io::sink();
                let rest = tokio::io::copy(&mut from, &mut nowhere);
                tokio::time::timeout(LINGER, rest).await.ok();
                return to.shutdown().await;
            }
            header = Header::read(&mut from, inside) => header,
        };
        let header = match header {
            Ok(header) => header,
            Err(End::Refused(code)) => {
                say.send(Control::Close(code)).await.ok();
                return to.shutdown().await;
            }
            Err(End::Io(error)) => return Err(error),
        };
        if let Opcode::Data { last } = header.opcode {
            activity.moved();
            inside = !last;
            let (mut left, mut mask) = (header.length, header.mask);
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
                let Some(part) = buffer.get_mut(..most) else {
                    return Err(ErrorKind::InvalidData.into());
                };
                let count = from.read(part).await?;
                let Some(read @ [_, ..]) = part.get_mut(..count) else {
                    return Err(ErrorKind::UnexpectedEof.into());
                };
                unmask(read, &mut mask);
                to.write_all(read).await?;
                left -= count as u64;
                activity.moved();
            }
            to.flush().await?;
            continue;
        }
        // At most 125 bytes, as the header was checked for.
        let mut payload = vec![0; usize::try_from(header.length).unwrap_or(0)];
        from.read_exact(&mut payload).await?;
        let mut mask = header.mask;
        unmask(&mut payload, &mut mask);
        match header.opcode {
            Opcode::Close => {
                say.send(Control::Close(GOING)).await.ok();
                return to.shutdown().await;
            }
            // Who pings faster than it reads gets no answer to some, and no queue.
            Opcode::Ping => drop(say.try_send(Control::Pong(payload))),
            Opcode::Pong | Opcode::Data { .. } => {}
        }
    }
}

/// From the enclave to the page.
async fn wrap(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut said: mpsc::Receiver<Control>,
    activity: &Activity,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = tokio::select! {
            control = said.recv() => {
                match control {
                    Some(Control::Pong(payload)) => {
                        to.write_all(&frame(PONG, &payload)).await?;
                        to.flush().await?;
                        continue;
                    }
                    // The reader is gone: so is the page.
                    Some(Control::Close(code)) => return close(to, code).await,
                    None => return close(to, GOING).await,
                }
            }
            count = from.read(&mut buffer) => count?,
        };
        let Some(read @ [_, ..]) = buffer.get(..count) else {
            return close(to, GOING).await;
        };
        activity.moved();
        to.write_all(&frame(BINARY, read)).await?;
        to.flush().await?;
        activity.moved();
    }
}

async fn close(mut to: impl AsyncWrite + Unpin, code: u16) -> io::Result<()> {
    to.write_all(&frame(CLOSE, &code.to_be_bytes())).await?;
    to.shutdown().await
}

/// For a page to read that the channel has ended.
const LINGER: Duration = Duration::from_secs(1);

const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

/// A whole frame of ours: never masked (§5.1), never in parts.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(10 + payload.len());
    frame.push(FIN | opcode);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opcode {
    Data { last: bool },
    Close,
    Ping,
    Pong,
}

#[derive(Debug)]
struct Header {
    opcode: Opcode,
    length: u64,
    mask: [u8; 4],
}

#[derive(Debug)]
enum End {
    Refused(u16),
    Io(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Header {
    /// The next frame's header. `inside`: a message was begun and has not ended.
    async fn read(from: &mut (impl AsyncRead + Unpin), inside: bool) -> Result<Self, End> {
        const REFUSED: End = End::Refused(PROTOCOL_ERROR);
        let [first, second] = {
            let mut bytes = [0; 2];
            from.read_exact(&mut bytes).await?;
            bytes
        };
        // No extension was agreed on, so the reserved bits are zero; a client masks (§5.1, §5.2).
        if first & 0x70 != 0 || second & MASKED == 0 {
            return Err(REFUSED);
        }
        let last = first & FIN != 0;
        let opcode = match first & 0x0f {
            BINARY if !inside => Opcode::Data { last },
            CONTINUATION if inside => Opcode::Data { last },
            CLOSE if last => Opcode::Close,
            PING if last => Opcode::Ping,
            PONG if last => Opcode::Pong,
            1 => return Err(End::Refused(UNSUPPORTED)),
            _ => return Err(REFUSED),
        };
        let length = match second & !MASKED {
            126 => u64::from(from.read_u16().await?),
            127 => from.read_u64().await?,
            length => u64::from(length),
        };
        let is_control = !matches!(opcode, Opcode::Data { .. });
        if (is_control && length > 125) || length >> 63 != 0 {
            return Err(REFUSED);
        }
        let mut mask = [0; 4];
        from.read_exact(&mut mask).await?;
        Ok(Self {
            opcode,
            length,
            mask,
        })
    }
}

/// Removes the mask, and turns it to where the next part begins.
fn unmask(bytes: &mut [u8], mask: &mut [u8; 4]) {
    let (words, rest) = bytes.as_chunks_mut::<4>();
    let whole = u32::from_ne_bytes(*mask);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ whole).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(*mask) {
        *byte ^= key;
    }
    mask.rotate_left(rest.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn header(bytes: &[u8], inside: bool) -> Result<(Opcode, u64), u16> {
        match Header::read(&mut &bytes[..], inside).await {
            Ok(header) => Ok((header.opcode, header.length)),
            Err(End::Refused(code)) => Err(code),
            Err(End::Io(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn keys_are_answered_as_the_standard_says() {
        let accept = |key: &str| accept(key.as_bytes());
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ==").unwrap(),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        for wrong in ["", "dGhlIHNhbXBsZQ==", "not base64 at all, it is"] {
            assert!(accept(wrong).is_none(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn headers_that_mean_nothing_here_are_refused() {
        let masked = |first: u8, length: u8| [first, MASKED | length, 1, 2, 3, 4];
        let data = |last| Opcode::Data { last };
        assert_eq!(header(&masked(0x82, 5), false).await, Ok((data(true), 5)));
        assert_eq!(header(&masked(0x02, 5), false).await, Ok((data(false), 5)));
        assert_eq!(header(&masked(0x80, 5), true).await, Ok((data(true), 5)));
        assert_eq!(
            header(&masked(0x89, 125), true).await,
            Ok((Opcode::Ping, 125))
        );
        let long = [0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(header(&long, false).await, Ok((data(true), 1 << 32)));
        for (bytes, inside, code) in [
            (&[0x82, 5][..], false, PROTOCOL_ERROR),
            (&masked(0xc2, 5), false, PROTOCOL_ERROR),
            (&masked(0x83, 5), false, PROTOCOL_ERROR),
            (&masked(0x82, 5), true, PROTOCOL_ERROR),
            (&masked(0x80, 5), false, PROTOCOL_ERROR),
            (&masked(0x09, 5), false, PROTOCOL_ERROR),
            (&[0x89, 0xfe, 0, 126, 1, 2, 3, 4], false, PROTOCOL_ERROR),
            (&masked(0x81, 5), false, UNSUPPORTED),
            (
                &[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
                false,
                PROTOCOL_ERROR,
            ),
        ] {
            assert_eq!(header(bytes, inside).await, Err(code), "{bytes:?}");
        }
    }

    #[test]
    fn parts_of_any_length_are_unmasked_as_the_whole() {
        let plain: Vec<u8> = (0..100).collect();
        let key = [0xde, 0xad, 0xbe, 0xef];
        let masked: Vec<u8> = plain
            .iter()
            .zip(key.iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        for step in 1..20 {
            let (mut bytes, mut mask) = (masked.clone(), key);
            bytes
                .chunks_mut(step)
                .for_each(|part| unmask(part, &mut mask));
            assert_eq!(bytes, plain, "{step}");
        }
    }

    #[test]
    fn frames_have_the_shortest_length() {
        for (length, header) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(frame(BINARY, &vec![0; length]).len(), length + header);
        }
    }
}
