//! Frames: a fixed header, then one ciphertext and its tag (in the handshake: a plain message).
//!
//! ```text
//!  0        4     5      6        8              16
//! ┌────────┬─────┬──────┬────────┬──────────────┬─────────────┬─────────┐
//! │ length │ kind│ flags│ epoch  │ sequence     │ ciphertext  │ tag, 16 │   integers big-endian
//! └────────┴─────┴──────┴────────┴──────────────┴─────────────┴─────────┘
//! ```
//!
//! `length` counts the bytes after the header. The whole header is associated data. A payload begins 16 bytes after the
//! header does, so that a tensor in an aligned buffer is aligned.

use super::wire::{MAX_CLIENT_HELLO, MAX_CLIENT_KEY, MAX_SERVER_HELLO};
use super::{ChannelError, Hint};

/// Length of a header, bytes.
pub const HEADER: usize = 16;
/// Length of a tag, bytes.
pub const TAG: usize = 16;
/// Longest payload of one frame, bytes: 1 MiB of data, and a tensor's header before it.
pub const MAX_PAYLOAD: usize = (1 << 20) + 1024;
/// Longest payload of an error, a heartbeat or a shutdown, bytes.
pub const MAX_CONTROL: usize = 256;
/// Longest message that several frames may form together, bytes.
pub const MAX_MESSAGE: usize = 16 << 20;
/// Longest message that an enclave accepts from a client, bytes.
pub const MAX_CLIENT_MESSAGE: usize = 512 << 10;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A handshake message, in the clear; never after the handshake.
    Hello = 1,
    /// Bytes of the application.
    Data = 2,
    /// A refusal of the application; the session continues. In the handshake, in the clear: an untrusted hint.
    Error = 3,
    /// Shows that the peer is alive.
    Heartbeat = 4,
    /// The sender's last frame.
    Shutdown = 5,
    /// A tensor ([`super::tensor`]).
    Tensor = 6,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Hello,
        Self::Data,
        Self::Error,
        Self::Heartbeat,
        Self::Shutdown,
        Self::Tensor,
    ];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    pub(super) const fn limit(self) -> usize {
        match self {
            Self::Data | Self::Tensor => MAX_PAYLOAD,
            Self::Hello | Self::Error | Self::Heartbeat | Self::Shutdown => MAX_CONTROL,
        }
    }
}

/// Set if the message continues in the next frame of its kind. Data and tensors only.
pub const MORE: u8 = 1;

/// A header with valid fields; the session checks whether the frame is allowed at this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub(super) length: usize,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) epoch: u16,
    pub(super) sequence: u64,
}

impl Header {
    /// Bytes that follow the header.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Kind of the frame.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Reads a header of an established session. Checks sizes before waiting for any byte of the body.
    pub(super) fn decode(bytes: &[u8; HEADER]) -> Result<Self, ChannelError> {
        let header = Self::decode_any(bytes)?;
        let limit = header.kind.limit() + TAG;
        if header.length > limit {
            return Err(too_large(header.length, limit));
        }
        if header.length < TAG {
            return Err(ChannelError::Unexpected("shorter than its tag"));
        }
        let may_go_on = matches!(header.kind, Kind::Data | Kind::Tensor);
        match header.flags {
            0 => Ok(header),
            MORE if may_go_on => Ok(header),
            _ => Err(ChannelError::Unexpected("unknown flags")),
        }
    }

    fn decode_any(bytes: &[u8; HEADER]) -> Result<Self, ChannelError> {
        let [l0, l1, l2, l3, kind, flags, e0, e1, sequence @ ..] = *bytes;
        Ok(Self {
            length: u32::from_be_bytes([l0, l1, l2, l3]) as usize,
            kind: Kind::from_byte(kind).ok_or(ChannelError::Unexpected("unknown kind"))?,
            flags,
            epoch: u16::from_be_bytes([e0, e1]),
            sequence: u64::from_be_bytes(sequence),
        })
    }

    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        // Lengths are at most MAX_PAYLOAD + TAG or a handshake message, far below 2^32.
        bytes[..4].copy_from_slice(&(self.length as u32).to_be_bytes());
        bytes[4] = self.kind as u8;
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }
}

/// The handshake message in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first.
    ClientHello,
    /// The second.
    ServerHello,
    /// The third.
    ClientKey,
}

impl Step {
    const fn number(self) -> u64 {
        match self {
            Self::ClientHello => 0,
            Self::ServerHello => 1,
            Self::ClientKey => 2,
        }
    }

    const fn limit(self) -> usize {
        match self {
            Self::ClientHello => MAX_CLIENT_HELLO,
            Self::ServerHello => MAX_SERVER_HELLO,
            Self::ClientKey => MAX_CLIENT_KEY,
        }
    }

    /// Puts the message of this step into a frame.
    pub fn frame(self, message: &[u8]) -> Vec<u8> {
        let header = Header {
            length: message.len(),
            kind: Kind::Hello,
            flags: 0,
            epoch: 0,
            sequence: self.number(),
        };
        [&header.encode()[..], message].concat()
    }

    /// Number of bytes of this step's message after `header`.
    ///
    /// # Errors
    /// [`ChannelError::TooLarge`] before anything is allocated, [`ChannelError::Rejected`] for a refusal in the clear,
    /// [`ChannelError::Unexpected`] for everything else that is not this message.
    pub fn length(self, header: &[u8; HEADER]) -> Result<usize, ChannelError> {
        let header = Header::decode_any(header)?;
        if header.flags != 0 || header.epoch != 0 || header.sequence != self.number() {
            return Err(ChannelError::Unexpected("not the message that is due"));
        }
        match header.kind {
            Kind::Hello if header.length <= self.limit() => Ok(header.length),
            Kind::Hello => Err(too_large(header.length, self.limit())),
            // The length encodes the reason: there is no body.
            Kind::Error if self == Self::ServerHello => {
                Err(ChannelError::Rejected(match header.length {
                    BUSY => Hint::Busy,
                    _ => Hint::Other,
                }))
            }
            _ => Err(ChannelError::Unexpected("not a handshake message")),
        }
    }
}

const BUSY: usize = 0;
const OTHER: usize = 1;

/// An unencrypted refusal instead of a server hello. The peer must treat it as a hint.
pub fn rejection_header(hint: Hint) -> [u8; HEADER] {
    Header {
        length: match hint {
            Hint::Busy => BUSY,
            Hint::Other => OTHER,
        },
        kind: Kind::Error,
        flags: 0,
        epoch: 0,
        sequence: Step::ServerHello.number(),
    }
    .encode()
}

fn too_large(length: usize, limit: usize) -> ChannelError {
    ChannelError::TooLarge {
        length: length as u64,
        limit: limit as u64,
    }
}
