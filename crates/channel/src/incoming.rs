//! Frames off a stream: read in large pieces, opened where they lie.

use std::time::Duration;

use protocol::channel::frame::{HEADER, Header, Kind, MAX_MESSAGE, TAG};
use protocol::channel::{ChannelError, Receiver};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::Error;

/// Slowest rate of a frame that is on its way, bytes a second: each byte of it buys its part of a second beyond the patience.
const SLOWEST: u64 = 8 * 1024;

/// What a buffer has at first, bytes; it grows to the largest frame that came.
const FIRST: usize = 64 * 1024;

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is; never a heartbeat, and never the shutdown.
    pub kind: Kind,
    /// Its bytes; those of a tensor are aligned to 8 bytes.
    pub payload: &'a [u8],
}

/// Opens what the peer sends. Its buffers are wiped when it is dropped.
pub struct Incoming<R> {
    stream: R,
    receiver: Receiver,
    /// Words, so that the buffer is aligned whatever the allocator does.
    words: Zeroizing<Vec<u64>>,
    /// What was read and not yet handed out.
    start: usize,
    end: usize,
    due: Option<Header>,
    parts: Zeroizing<Vec<u64>>,
    /// Bytes of a message whose end has not come yet.
    gathered: usize,
    patience: Option<Duration>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(crate) fn new(stream: R, receiver: Receiver) -> Self {
        Self {
            stream,
            receiver,
            words: Zeroizing::new(vec![0; FIRST / 8]),
            start: 0,
            end: 0,
            due: None,
            parts: Zeroizing::default(),
            gathered: 0,
            patience: None,
            limit: MAX_MESSAGE,
        }
    }

    /// Refuses longer messages than `limit` bytes, before memory is taken for them; [`MAX_MESSAGE`] at most.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MAX_MESSAGE);
    }

    /// Longest wait for a frame that opens, from the call of [`receive`](Self::receive) or from the frame before; a heartbeat is one.
    /// A frame on its way has longer, at 8 KiB a second: a relay can send bytes that open to nothing, and only so many of them.
    /// Without it: for ever.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// The next message; `None` after the peer has closed the session. Nothing is lost where the future is dropped.
    ///
    /// # Errors
    /// [`Error`]; the channel is then over. A stream that just ends is [`ChannelError::CutOff`].
    pub async fn receive(&mut self) -> Result<Option<Message<'_>>, Error> {
        let mut wait = Wait::start();
        loop {
            let header = match self.due {
                Some(header) => header,
                None => {
                    if !self.fill(HEADER, &mut wait).await? {
                        self.receiver.end()?;
                        return Ok(None);
                    }
                    let header = bytes(&self.words)[self.start..].first_chunk();
                    let header = self
                        .receiver
                        .header(header.ok_or(ChannelError::Malformed)?)?;
                    self.judge(self.gathered + header.length().saturating_sub(TAG))?;
                    self.due = Some(header);
                    header
                }
            };
            let whole = HEADER + header.length();
            if !self.fill(whole, &mut wait).await? {
                return Err(ChannelError::CutOff.into());
            }
            if header.kind() == Kind::Tensor && !self.start.is_multiple_of(8) {
                self.compact();
            }
            self.due = None;
            let at = self.start + HEADER..self.start + whole;
            self.start += whole;
            let body = bytes_mut(&mut self.words).get_mut(at.clone());
            let frame = self
                .receiver
                .open(&header, body.ok_or(ChannelError::Malformed)?)?;
            wait = Wait::start();
            let (kind, more) = (frame.kind, frame.more);
            let payload = at.start..at.start + frame.payload.len();
            match kind {
                Kind::Heartbeat => {}
                Kind::Shutdown => return Ok(None),
                _ if !more && self.gathered == 0 => {
                    let payload = &bytes(&self.words)[payload];
                    return Ok(Some(Message { kind, payload }));
                }
                _ => {
                    self.gather(payload);
                    if !more {
                        let payload = &bytes(&self.parts)[..std::mem::take(&mut self.gathered)];
                        return Ok(Some(Message { kind, payload }));
                    }
                }
            }
        }
    }

    /// Reads until so many bytes are there. `false` where the stream ended before.
    async fn fill(&mut self, count: usize, wait: &mut Wait) -> Result<bool, Error> {
        while self.end - self.start < count {
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            }
            if self.start + count > self.words.len() * 8 {
                self.compact();
                // `count` is at most a frame: the header was checked.
                let needed = count.div_ceil(8);
                if needed > self.words.len() {
                    grow(&mut self.words, needed);
                }
            }
            let space = &mut bytes_mut(&mut self.words)[self.end..];
            let read = self.stream.read(space);
            let read = match self.patience {
                Some(patience) => tokio::time::timeout_at(wait.end(patience), read)
                    .await
                    .map_err(|_| Error::Silent)?,
                None => read.await,
            }?;
            if read == 0 {
                return Ok(false);
            }
            self.end += read;
            wait.bytes += read as u64;
        }
        Ok(true)
    }

    fn compact(&mut self) {
        let (start, end) = (self.start, self.end);
        bytes_mut(&mut self.words).copy_within(start..end, 0);
        (self.start, self.end) = (0, end - start);
    }

    fn gather(&mut self, payload: std::ops::Range<usize>) {
        let (from, length) = (self.gathered, self.gathered + payload.len());
        if self.parts.len() * 8 < length {
            let count = length.div_ceil(8).max(2 * self.parts.len());
            grow(&mut self.parts, count);
        }
        bytes_mut(&mut self.parts)[from..length].copy_from_slice(&bytes(&self.words)[payload]);
        self.gathered = length;
    }

    fn judge(&self, length: usize) -> Result<(), Error> {
        match length <= self.limit {
            true => Ok(()),
            false => Err(ChannelError::TooLarge {
                length: length as u64,
                limit: self.limit as u64,
            }
            .into()),
        }
    }
}

/// Since the last frame that opened.
struct Wait {
    since: Instant,
    /// Bytes that came since.
    bytes: u64,
}

impl Wait {
    fn start() -> Self {
        Self {
            since: Instant::now(),
            bytes: 0,
        }
    }

    fn end(&self, patience: Duration) -> Instant {
        self.since + patience + Duration::from_millis(self.bytes * 1_000 / SLOWEST)
    }
}

/// Makes room for `count` words; the smaller buffer is wiped.
fn grow(words: &mut Zeroizing<Vec<u64>>, count: usize) {
    let mut larger = Zeroizing::new(Vec::with_capacity(count));
    larger.extend_from_slice(words);
    larger.resize(count, 0);
    *words = larger;
}

fn bytes(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}
