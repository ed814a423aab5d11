//! An established session: two independent directions, sealed and opened in place.

use attestation::Aead;

use super::ChannelError;
use super::cipher::Keys;
use super::frame::{HEADER, Header, Kind, MORE, TAG};

/// Milliseconds on a monotonic clock. Only differences between its values are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicMillis(pub u64);

/// Limits after which a sender changes its key. A receiver refuses more frames under one key than [`Rekey::MAX_FRAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    /// Number of frames.
    pub frames: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of milliseconds.
    pub millis: u64,
}

impl Rekey {
    /// Most frames under one key. A frame has at most 2^16 blocks, so a key encrypts about 2^36: an attacker's advantage
    /// against AES-GCM is then about 2^-57, the margin that RFC 8446 §5.5 requires.
    pub const MAX_FRAMES: u64 = 1 << 20;
}

impl Default for Rekey {
    /// Every 2^19 frames, 64 GiB, or half an hour.
    fn default() -> Self {
        Self {
            frames: Self::MAX_FRAMES / 2,
            bytes: 1 << 36,
            millis: 30 * 60 * 1000,
        }
    }
}

/// Both directions of a channel. Exists only after the peer's key was attested, or the client's confirmation was right.
pub struct Session {
    /// Seals outgoing frames.
    pub sender: Sender,
    /// Opens incoming frames.
    pub receiver: Receiver,
    /// Hash of the whole handshake: equal at both ends, and different in every session. Not secret.
    pub id: [u8; 32],
    /// The cipher that both sides agreed on.
    pub aead: Aead,
}

/// Seals one direction. Holds keys: no `Debug`, no `Clone`.
pub struct Sender {
    keys: Keys,
    rekey: Rekey,
    epoch: u16,
    next: u64,
    used: Used,
    expires: MonotonicMillis,
    closed: bool,
    /// The kind of an unfinished message.
    open: Option<Kind>,
}

struct Used {
    frames: u64,
    bytes: u64,
    since: MonotonicMillis,
}

/// The bytes before and after a payload that was encrypted in place.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// Frame header, before the payload.
    pub header: [u8; HEADER],
    /// Tag, after the payload.
    pub tag: [u8; TAG],
}

impl Sender {
    pub(super) fn new(keys: Keys, now: MonotonicMillis, expires: MonotonicMillis) -> Self {
        Self {
            keys,
            rekey: Rekey::default(),
            epoch: 0,
            next: 0,
            used: Used {
                frames: 0,
                bytes: 0,
                since: now,
            },
            expires,
            closed: false,
            open: None,
        }
    }

    /// Sets other limits; the key changes at the latest one frame before [`Rekey::MAX_FRAMES`].
    pub fn set_rekey(&mut self, rekey: Rekey) {
        self.rekey = Rekey {
            // The last key reserves a frame for a shutdown.
            frames: rekey.frames.clamp(1, Rekey::MAX_FRAMES - 1),
            ..rekey
        };
    }

    /// Encrypts `payload` in place as the next frame; a [`Kind::Shutdown`] is the last.
    ///
    /// `more` states that the message continues in the next frame of this kind. Send every sealed frame: the peer
    /// refuses all frames after a missing one.
    ///
    /// # Errors
    /// [`ChannelError::TooLarge`] and [`ChannelError::Unexpected`] leave payload and session unchanged.
    /// [`ChannelError::Closed`] after a shutdown, [`ChannelError::Expired`] after the end of the attestation,
    /// [`ChannelError::Exhausted`] after the last key. A shutdown can be sealed even after the end and after the last key.
    pub fn seal(
        &mut self,
        kind: Kind,
        more: bool,
        payload: &mut [u8],
        now: MonotonicMillis,
    ) -> Result<Sealed, ChannelError> {
        if self.closed {
            return Err(ChannelError::Closed);
        }
        // After its end, a session may only be closed.
        if now > self.expires && kind != Kind::Shutdown {
            return Err(ChannelError::Expired);
        }
        if payload.len() > kind.limit() {
            return Err(ChannelError::TooLarge {
                length: payload.len() as u64,
                limit: kind.limit() as u64,
            });
        }
        let open = follow(self.open, kind, more)?;
        if self.is_rekey_due(payload.len(), now) {
            match self.renew(now) {
                // One more frame under the last key tells the peer that nothing is missing.
                Err(ChannelError::Exhausted) if kind == Kind::Shutdown => {}
                renewed => renewed?,
            }
        }
        self.open = open;
        let header = Header {
            length: payload.len() + TAG,
            kind,
            flags: if more { MORE } else { 0 },
            epoch: self.epoch,
            sequence: self.next,
        }
        .encode();
        let tag = self.keys.seal(self.next, &header, payload)?;
        // Cannot overflow: 2^16 keys of 2^20 frames each end long before 2^64 frames.
        self.next += 1;
        self.used.frames += 1;
        self.used.bytes += payload.len() as u64;
        self.closed = kind == Kind::Shutdown;
        Ok(Sealed { header, tag })
    }

    /// Appends a whole frame that holds a copy of `payload` to `out`.
    ///
    /// # Errors
    /// Those of [`seal`](Self::seal); `out` is then unchanged.
    pub fn append(
        &mut self,
        kind: Kind,
        payload: &[u8],
        now: MonotonicMillis,
        out: &mut Vec<u8>,
    ) -> Result<(), ChannelError> {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        out.extend_from_slice(payload);
        match self.seal(kind, false, &mut out[start + HEADER..], now) {
            Ok(sealed) => {
                out[start..start + HEADER].copy_from_slice(&sealed.header);
                out.extend_from_slice(&sealed.tag);
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    /// Whether the last frame was sealed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn is_rekey_due(&self, length: usize, now: MonotonicMillis) -> bool {
        let Used {
            frames,
            bytes,
            since,
        } = self.used;
        let over = frames >= self.rekey.frames
            || bytes.saturating_add(length as u64) > self.rekey.bytes
            || now.0.saturating_sub(since.0) >= self.rekey.millis;
        // A key that sealed nothing is not replaced, however small the limits.
        over && frames > 0
    }

    fn renew(&mut self, now: MonotonicMillis) -> Result<(), ChannelError> {
        self.epoch = self.epoch.checked_add(1).ok_or(ChannelError::Exhausted)?;
        self.keys = self.keys.next()?;
        self.used = Used {
            frames: 0,
            bytes: 0,
            since: now,
        };
        Ok(())
    }
}

/// Opens one direction. Holds keys: no `Debug`, no `Clone`. The first error ends it.
pub struct Receiver {
    keys: Keys,
    epoch: u16,
    next: u64,
    frames: u64,
    ended: Option<ChannelError>,
    open: Option<Kind>,
}

/// An opened frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Whether its message continues in the next frame of this kind.
    pub more: bool,
    /// Its payload, in place of the ciphertext.
    pub payload: &'a mut [u8],
}

impl Receiver {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            keys,
            epoch: 0,
            next: 0,
            frames: 0,
            ended: None,
            open: None,
        }
    }

    /// Checks that this header is the next one, and returns how many bytes follow it. Call it before allocating memory for them.
    ///
    /// # Errors
    /// Any [`ChannelError`]; the session has then ended.
    pub fn header(&mut self, header: &[u8; HEADER]) -> Result<Header, ChannelError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        let header = self.due(header);
        self.note(header)
    }

    /// Opens the frame of `header` in place; `body` is everything after it.
    ///
    /// # Errors
    /// Any [`ChannelError`]; the session has then ended.
    pub fn open<'a>(
        &mut self,
        header: &Header,
        body: &'a mut [u8],
    ) -> Result<Frame<'a>, ChannelError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        let frame = self.open_due(header, body);
        self.note(frame)
    }

    /// Handles the end of the stream.
    ///
    /// # Errors
    /// [`ChannelError::CutOff`] unless the peer closed the session before.
    pub fn end(&mut self) -> Result<(), ChannelError> {
        match self.ended {
            Some(ChannelError::Closed) => Ok(()),
            Some(error) => Err(error),
            None => self.note(Err(ChannelError::CutOff)),
        }
    }

    /// Whether the peer closed the session.
    pub fn is_closed(&self) -> bool {
        self.ended == Some(ChannelError::Closed)
    }

    fn note<T>(&mut self, outcome: Result<T, ChannelError>) -> Result<T, ChannelError> {
        if let Err(error) = &outcome {
            self.ended = Some(*error);
        }
        outcome
    }

    fn due(&self, header: &[u8; HEADER]) -> Result<Header, ChannelError> {
        let header = Header::decode(header)?;
        if header.kind == Kind::Hello {
            return Err(ChannelError::Unexpected("a handshake message"));
        }
        if header.sequence != self.next {
            return Err(ChannelError::Sequence {
                expected: self.next,
                found: header.sequence,
            });
        }
        follow(self.open, header.kind, header.flags == MORE)?;
        match header.epoch.checked_sub(self.epoch) {
            Some(0) if self.frames >= Rekey::MAX_FRAMES => Err(ChannelError::KeyOverused),
            Some(0) => Ok(header),
            // A key must seal something before it is replaced: 65,535 keys are enough for a session.
            Some(1) if self.frames > 0 => Ok(header),
            _ => Err(ChannelError::Unexpected("a key that is not due")),
        }
    }

    fn open_due<'a>(
        &mut self,
        header: &Header,
        body: &'a mut [u8],
    ) -> Result<Frame<'a>, ChannelError> {
        let bytes = header.encode();
        // Checked again, because the caller may have kept an old header.
        self.due(&bytes)?;
        if body.len() != header.length {
            return Err(ChannelError::Malformed);
        }
        let (payload, tag) = body
            .split_last_chunk_mut::<TAG>()
            .ok_or(ChannelError::Malformed)?;
        if header.epoch == self.epoch {
            self.keys.open(self.next, &bytes, payload, tag)?;
        } else {
            let keys = self.keys.next()?;
            keys.open(self.next, &bytes, payload, tag)?;
            self.keys = keys;
            self.epoch = header.epoch;
            self.frames = 0;
        }
        self.next += 1;
        self.frames += 1;
        let more = header.flags == MORE;
        self.open = follow(self.open, header.kind, more)?;
        if header.kind == Kind::Shutdown {
            self.ended = Some(ChannelError::Closed);
        }
        Ok(Frame {
            kind: header.kind,
            more,
            payload,
        })
    }
}

/// The parts of a message follow each other; only control frames may come between them.
fn follow(open: Option<Kind>, kind: Kind, more: bool) -> Result<Option<Kind>, ChannelError> {
    match (open, kind) {
        (_, Kind::Hello) => Err(ChannelError::Unexpected("a handshake message")),
        (_, Kind::Heartbeat) if !more => Ok(open),
        (None, Kind::Error | Kind::Shutdown | Kind::Heartbeat) if more => {
            Err(ChannelError::Unexpected("unknown flags"))
        }
        (None, _) => Ok(more.then_some(kind)),
        (Some(before), _) if before == kind => Ok(more.then_some(kind)),
        (Some(_), _) => Err(ChannelError::Unexpected("a message inside another one")),
    }
}

#[cfg(test)]
mod tests;
