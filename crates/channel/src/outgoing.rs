//! Writes frames to a stream: the payload is sealed in place, header and tag are separate slices.

use std::io::{ErrorKind, IoSlice};

use protocol::channel::frame::{Kind, MAX_PAYLOAD};
use protocol::channel::{Rekey, Sender};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::{Clock, Error};

/// Largest payload that is copied into one buffer with its header and tag, for a single write.
const SMALL: usize = 16 * 1024;

/// Seals frames for the peer.
pub struct Outgoing<W> {
    stream: W,
    sender: Sender,
    clock: Clock,
    buffer: Vec<u8>,
    /// A frame was started and not completely written.
    half_sent: bool,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    pub(crate) fn new(stream: W, sender: Sender, clock: Clock) -> Self {
        Self {
            stream,
            sender,
            clock,
            buffer: Vec::new(),
            half_sent: false,
        }
    }

    /// Sets when keys are replaced; see [`Rekey`].
    pub fn set_rekey(&mut self, rekey: Rekey) {
        self.sender.set_rekey(rekey);
    }

    /// Sends a copy of `payload`.
    ///
    /// # Errors
    /// [`Error`]. Where the future is dropped before its end, the channel has ended: [`Error::HalfSent`].
    pub async fn send(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Error> {
        if payload.len() > SMALL {
            return self.send_in_place(kind, &mut payload.to_vec()).await;
        }
        self.begin()?;
        self.buffer.clear();
        let now = self.clock.now();
        let sealed = self.sender.append(kind, payload, now, &mut self.buffer);
        if let Err(error) = sealed {
            self.half_sent = false;
            return Err(error.into());
        }
        self.stream.write_all(&self.buffer).await?;
        self.stream.flush().await?;
        self.half_sent = false;
        Ok(())
    }

    /// Sends `payload` without a copy; it holds ciphertext afterwards. A payload longer than a frame is sent in parts.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub async fn send_in_place(&mut self, kind: Kind, payload: &mut [u8]) -> Result<(), Error> {
        self.begin()?;
        let parts = payload.len().div_ceil(MAX_PAYLOAD).max(1);
        let mut rest = payload;
        for left in (0..parts).rev() {
            let (part, after) = rest.split_at_mut(rest.len().min(MAX_PAYLOAD));
            rest = after;
            let sealed = self.sender.seal(kind, left > 0, part, self.clock.now());
            // A refusal of the first part leaves the channel usable: nothing of the message was written.
            self.half_sent = sealed.is_ok() || left + 1 < parts;
            let sealed = sealed?;
            let pieces = [&sealed.header[..], part, &sealed.tag];
            write_all(&mut self.stream, pieces).await?;
        }
        self.stream.flush().await?;
        self.half_sent = false;
        Ok(())
    }

    /// Sends the shutdown frame, and ends the stream.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub async fn close(&mut self) -> Result<(), Error> {
        self.send(Kind::Shutdown, b"").await?;
        Ok(self.stream.shutdown().await?)
    }

    /// Returns the stream without closing the session, which the peer will see as cut off.
    pub fn into_stream(self) -> W {
        self.stream
    }

    fn begin(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.half_sent, true) {
            true => Err(Error::HalfSent),
            false => Ok(()),
        }
    }
}

async fn write_all(
    stream: &mut (impl AsyncWrite + Unpin),
    pieces: [&[u8]; 3],
) -> Result<(), std::io::Error> {
    let mut slices = pieces.map(IoSlice::new);
    let mut left = &mut slices[..];
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match stream.write_vectored(left).await? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut left, count),
        }
    }
    Ok(())
}
