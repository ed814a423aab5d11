//! Reads frames from a stream in large pieces, and opens them in place.

use std::time::Duration;

use protocol::channel::frame::{HEADER, Header, Kind, MAX_MESSAGE, TAG};
use protocol::channel::{ChannelError, Receiver};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::Error;

/// Slowest rate of a frame that is being received, bytes a second: each byte extends the timeout by its time at this rate.
const MIN_RATE: u64 = 8 * 1024;

/// Initial size of the buffer, bytes. It grows to the largest received frame.
const INITIAL_BUFFER: usize = 64 * 1024;

/// A whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The kind; never a heartbeat or the shutdown.
    pub kind: Kind,
    /// The payload; that of a tensor is aligned to 8 bytes.
    pub payload: &'a [u8],
}

/// Opens the peer's frames. Its buffers are zeroized when it is dropped.
pub struct Incoming<R> {
    stream: R,
    receiver: Receiver,
    /// The buffer. Of words, so that it is aligned to 8 bytes.
    words: Zeroizing<Vec<u64>>,
    /// Bytes of the buffer that were read and not yet returned.
    start: usize,
    end: usize,
    /// Header of the frame whose body is being read.
    pending: Option<Header>,
    /// Payloads of a message of several frames.
    parts: Zeroizing<Vec<u64>>,
    /// Length of `parts`, bytes.
    parts_length: usize,
    timeout: Option<Duration>,
    /// Longest message, bytes.
    limit: usize,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(crate) fn new(stream: R, receiver: Receiver) -> Self {
        Self {
            stream,
            receiver,
            words: Zeroizing::new(vec![0; INITIAL_BUFFER / 8]),
            start: 0,
            end: 0,
            pending: None,
            parts: Zeroizing::default(),
            parts_length: 0,
            timeout: None,
            limit: MAX_MESSAGE,
        }
    }

    /// Refuses messages of more than `limit` bytes before allocating memory for them; at most [`MAX_MESSAGE`].
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MAX_MESSAGE);
    }

    /// Sets the longest wait for a frame, from the call of [`receive`](Self::receive) or from the previous frame. A heartbeat is a
    /// frame. Bytes of an incomplete frame extend the wait, at 8 KiB a second: so slow networks have time for large frames, and a
    /// relay that sends bytes without a valid frame is bounded. `None`, the default, waits for ever.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Receives the next message; `None` after the peer has closed the session. No message is lost where the future is dropped.
    ///
    /// # Errors
    /// [`Error`]; then the channel has ended. A stream that ends without a shutdown frame is [`ChannelError::CutOff`].
    pub async fn receive(&mut self) -> Result<Option<Message<'_>>, Error> {
        let mut wait = Wait::start();
        loop {
            let header = match self.pending {
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
                    self.check_length(self.parts_length + header.length().saturating_sub(TAG))?;
                    self.pending = Some(header);
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
            self.pending = None;
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
                _ if !more && self.parts_length == 0 => {
                    let payload = &bytes(&self.words)[payload];
                    return Ok(Some(Message { kind, payload }));
                }
                _ => {
                    self.append_part(payload);
                    if !more {
                        let payload = &bytes(&self.parts)[..std::mem::take(&mut self.parts_length)];
                        return Ok(Some(Message { kind, payload }));
                    }
                }
            }
        }
    }

    /// Reads until `count` bytes are buffered. `false` where the stream ends before.
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
            let read = match self.timeout {
                Some(timeout) => tokio::time::timeout_at(wait.end(timeout), read)
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

    fn append_part(&mut self, payload: std::ops::Range<usize>) {
        let (from, length) = (self.parts_length, self.parts_length + payload.len());
        if self.parts.len() * 8 < length {
            let count = length.div_ceil(8).max(2 * self.parts.len());
            grow(&mut self.parts, count);
        }
        bytes_mut(&mut self.parts)[from..length].copy_from_slice(&bytes(&self.words)[payload]);
        self.parts_length = length;
    }

    fn check_length(&self, length: usize) -> Result<(), Error> {
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

/// The wait for the next frame.
struct Wait {
    since: Instant,
    /// Bytes that were read since.
    bytes: u64,
}

impl Wait {
    fn start() -> Self {
        Self {
            since: Instant::now(),
            bytes: 0,
        }
    }

    fn end(&self, timeout: Duration) -> Instant {
        self.since + timeout + Duration::from_millis(self.bytes * 1_000 / MIN_RATE)
    }
}

/// Grows the buffer to `count` words; the smaller one is zeroized.
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
