//! Frames of WebSocket (RFC 6455 §5).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Status codes of closing frames (RFC 6455 §7.4.1).
pub(super) const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED: u16 = 1003;

const CONTINUATION: u8 = 0;
pub(super) const BINARY: u8 = 2;
pub(super) const CLOSE: u8 = 8;
const PING: u8 = 9;
pub(super) const PONG: u8 = 10;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Builds a whole frame: a server never masks (§5.1), and this one never sends fragments.
pub(super) fn encode_frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
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

/// Opcodes that a page may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    /// A binary message, or its continuation.
    Data {
        last: bool,
    },
    Close,
    Ping,
    Pong,
}

/// Header of a frame from the page.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) opcode: Opcode,
    pub(super) length: u64,
    pub(super) mask: [u8; 4],
}

/// A header could not be read.
#[derive(Debug)]
pub(super) enum FrameError {
    /// An invalid header, and the status code of the closing frame.
    Invalid(u16),
    /// The stream failed.
    Io(io::Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Header {
    /// Reads the next frame's header. `inside`: an earlier frame began a message that has not ended.
    pub(super) async fn read(
        from: &mut (impl AsyncRead + Unpin),
        inside: bool,
    ) -> Result<Self, FrameError> {
        const INVALID: FrameError = FrameError::Invalid(PROTOCOL_ERROR);
        let [first, second] = {
            let mut bytes = [0; 2];
            from.read_exact(&mut bytes).await?;
            bytes
        };
        // No extension was negotiated, so the reserved bits are zero; a client masks (§5.1, §5.2).
        if first & 0x70 != 0 || second & MASKED == 0 {
            return Err(INVALID);
        }
        let last = first & FIN != 0;
        let opcode = match first & 0x0f {
            BINARY if !inside => Opcode::Data { last },
            CONTINUATION if inside => Opcode::Data { last },
            CLOSE if last => Opcode::Close,
            PING if last => Opcode::Ping,
            PONG if last => Opcode::Pong,
            1 => return Err(FrameError::Invalid(UNSUPPORTED)),
            _ => return Err(INVALID),
        };
        let length = match second & !MASKED {
            126 => u64::from(from.read_u16().await?),
            127 => from.read_u64().await?,
            length => u64::from(length),
        };
        let is_control = !matches!(opcode, Opcode::Data { .. });
        if (is_control && length > 125) || length >> 63 != 0 {
            return Err(INVALID);
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

/// Removes the mask from one part of a payload, and rotates the mask to where the next part begins.
pub(super) fn unmask(bytes: &mut [u8], mask: &mut [u8; 4]) {
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
            Err(FrameError::Invalid(code)) => Err(code),
            Err(FrameError::Io(error)) => panic!("{error}"),
        }
    }

    #[tokio::test]
    async fn invalid_headers_are_refused() {
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
    fn parts_of_any_length_unmask_like_the_whole() {
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
            assert_eq!(
                encode_frame(BINARY, &vec![0; length]).len(),
                length + header
            );
        }
    }
}
