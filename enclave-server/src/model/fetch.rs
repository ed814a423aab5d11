//! Fetches the sealed container of a model from the parent, on a separate thread, and opens it chunk by chunk.
//!
//! The parent is not trusted: it may stall, send slowly, break off, or send anything. Complete and genuine chunks are kept. After a
//! break the fetch continues at the next chunk, and only with the same container.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use base16ct::lower::encode_string as hex;
use sealed_model::{CHUNK, ContainerError, DataKey, FIXED, Header, Manifest, Opener, TAG};

use super::ModelError;
use super::source::{Piece, Source, SourceTimes};
use crate::parent::{Body, Parent, ParentError, Request};

/// Chunks in memory at once, in addition to the model.
const IN_FLIGHT: usize = 3;
/// Attempts without a new chunk before the fetch fails.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Why the parent's container could not be fetched.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum FetchError {
    /// See [`ParentError`].
    #[error(transparent)]
    #[coded(transparent)]
    Parent(#[from] ParentError),
    /// The parent has no container of this name.
    #[error("the parent has no sealed model `{0}`")]
    #[coded("MODEL_UNKNOWN", remedy = "Look at host-proxy's --models.")]
    Unknown(String),
    /// The parent answered with an unexpected status.
    #[error("the parent answered with status {0}")]
    #[coded("MODEL_REFUSED", remedy = "Read host-proxy's log: it says why.")]
    Refused(u16),
    /// The parent replaced the container during the fetch.
    #[error("the parent replaced the sealed model while it was fetched")]
    #[coded("MODEL_CHANGED", remedy = "Start again.")]
    Changed,
    /// The parent states another length than the header, or another range than was requested.
    #[error("the parent states `{stated}`, expected `{expected}`")]
    #[coded(
        "MODEL_LENGTH",
        remedy = "The container there is not the one that its header describes; seal the model again."
    )]
    Length {
        /// Stated range and length; characters that are not printable are dropped.
        stated: String,
        /// Expected range and length.
        expected: String,
    },
}

impl FetchError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Parent(error) => error.is_transient(),
            Self::Refused(status) => *status == 503,
            _ => false,
        }
    }
}

/// A container that is being fetched.
pub struct Sealed {
    opener: Opener,
    next: u64,
    chunks: Receiver<Result<(Vec<u8>, Instant), ModelError>>,
    back: Sender<Vec<u8>>,
    begun: Instant,
    times: SourceTimes,
}

impl Sealed {
    /// Requests the container of model `name`, opens its header with `key`, refuses any file set other than `pins`, and starts to
    /// fetch the chunks. Everything has to be done by `until`.
    ///
    /// # Errors
    /// [`ModelError`]: a fault of the parent, a header that is not genuine, or files other than the pinned ones.
    pub fn open(
        parent: &Parent,
        name: &str,
        key: &DataKey,
        pins: &Manifest,
        until: Instant,
    ) -> Result<Self, ModelError> {
        let begun = Instant::now();
        let mut download = Download {
            parent: parent.clone(),
            path: format!("/v1/models/{name}/model.sealed"),
            name: name.to_owned(),
            etag: None,
            length: None,
            until,
        };
        let mut attempts = FailedAttempts::default();
        let (header, body) = loop {
            match download.header() {
                Ok(found) => break found,
                Err(ModelError::Fetch(error)) => attempts.retry_after(error)?,
                Err(error) => return Err(error),
            }
        };
        let opener = Opener::new(header, key)?;
        let header = opener.header();
        if header.manifest() != pins {
            return Err(ModelError::NotThePinnedSet {
                expected: hex(&pins.digest()),
                observed: hex(&header.manifest().digest()),
            });
        }
        download.expect_length(header.container_length())?;
        let header = header.clone();
        let (sender, chunks) = sync_channel(IN_FLIGHT - 1);
        let (back, memory) = channel();
        for _ in 0..IN_FLIGHT {
            // The receiver is alive until the thread below ends.
            back.send(Vec::new()).ok();
        }
        std::thread::Builder::new()
            .name("model-fetch".to_owned())
            .spawn(move || download.run(&header, body, &sender, &memory))
            .map_err(ModelError::Thread)?;
        Ok(Self {
            opener,
            next: 0,
            chunks,
            back,
            begun,
            times: SourceTimes::default(),
        })
    }
}

impl Source for Sealed {
    fn next(&mut self, memory: Vec<u8>) -> Result<Option<Piece>, ModelError> {
        if memory.capacity() > 0 {
            // Fails where everything is fetched.
            self.back.send(memory).ok();
        }
        if self.next == self.opener.header().chunks() {
            return Ok(None);
        }
        let ended = || ModelError::Container(ContainerError::Truncated("a chunk"));
        let (mut memory, arrived) = self.chunks.recv().map_err(|_| ended())??;
        self.times.fetch = arrived.saturating_duration_since(self.begun);
        let begun = Instant::now();
        let length = self.opener.open(self.next, &mut memory)?.len();
        self.times.decrypt += begun.elapsed();
        self.next += 1;
        Ok(Some(Piece { memory, length }))
    }

    fn times(&self) -> SourceTimes {
        self.times
    }
}

/// State of the download.
struct Download {
    parent: Parent,
    path: String,
    name: String,
    etag: Option<String>,
    length: Option<u64>,
    until: Instant,
}

impl Download {
    /// Requests the container from its start; returns the header, and the rest of the body.
    fn header(&mut self) -> Result<(Header, Body), ModelError> {
        let mut body = self.request_from(0)?;
        let mut bytes = vec![0; FIXED];
        fill(&mut body, &mut bytes)?;
        let length = Header::length(&bytes)?;
        bytes.resize(length, 0);
        fill(&mut body, bytes.get_mut(FIXED..).unwrap_or_default())?;
        Ok((Header::read(&bytes)?.0, body))
    }

    /// Requests everything from byte `offset` on.
    fn request_from(&mut self, offset: u64) -> Result<Body, FetchError> {
        let range = format!("bytes={offset}-");
        let mut headers = vec![("range", range.as_str())];
        if let Some(etag) = &self.etag {
            headers.push(("if-range", etag));
        }
        let request = Request {
            method: "GET",
            path: &self.path,
            headers: &headers,
            body: &[],
        };
        let answer = self.parent.exchange(request, self.until)?;
        match answer.status() {
            206 => {}
            // RFC 9110 §13.1.5: another version, from its start.
            200 if self.etag.is_some() => return Err(FetchError::Changed),
            404 => return Err(FetchError::Unknown(self.name.clone())),
            status => return Err(FetchError::Refused(status)),
        }
        let etag = answer
            .etag()
            .filter(|etag| is_plain(etag))
            .map(str::to_owned);
        let etag = etag.ok_or(ParentError::Invalid("the answer has no entity tag"))?;
        if self.etag.as_ref().is_some_and(|known| *known != etag) {
            return Err(FetchError::Changed);
        }
        let stated = answer.content_range().unwrap_or_default();
        let total = stated
            .rsplit_once('/')
            .and_then(|(_, total)| total.parse::<u64>().ok());
        let total = self.length.or(total).unwrap_or(0);
        let expected = format!("bytes {offset}-{}/{total}", total.saturating_sub(1));
        let body_length = total.saturating_sub(offset);
        if stated != expected || body_length == 0 {
            return Err(length_error(stated, expected));
        }
        self.etag = Some(etag);
        self.length = Some(total);
        let body = answer.into_body();
        match body.left() == body_length {
            true => Ok(body),
            false => Err(length_error(
                &format!("{} bytes", body.left()),
                format!("{body_length} bytes"),
            )),
        }
    }

    fn expect_length(&self, expected: u64) -> Result<(), FetchError> {
        match self.length {
            Some(length) if length == expected => Ok(()),
            length => Err(length_error(
                &format!("{} bytes", length.unwrap_or(0)),
                format!("{expected} bytes"),
            )),
        }
    }

    /// Sends the chunks in order, until all are sent, one cannot be fetched, or the receiver is gone.
    fn run(
        mut self,
        header: &Header,
        body: Body,
        chunks: &SyncSender<Result<(Vec<u8>, Instant), ModelError>>,
        memory: &Receiver<Vec<u8>>,
    ) {
        let mut body = Some(body);
        for index in 0..header.chunks() {
            let Ok(mut buffer) = memory.recv() else {
                return;
            };
            let fetched = self.chunk(header, index, &mut body, &mut buffer);
            let failed = fetched.is_err();
            if chunks
                .send(fetched.map(|()| (buffer, Instant::now())))
                .is_err()
                || failed
            {
                return;
            }
        }
    }

    fn chunk(
        &mut self,
        header: &Header,
        index: u64,
        body: &mut Option<Body>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        let length = header.chunk_length(index).unwrap_or(TAG);
        // Allocates once; later chunks reuse the memory.
        buffer.reserve_exact((CHUNK + TAG).saturating_sub(buffer.len()));
        buffer.resize(length, 0);
        let mut attempts = FailedAttempts::default();
        loop {
            let mut attempt = || {
                let open = match body {
                    Some(open) => open,
                    None => body.insert(self.request_from(header.chunk_offset(index))?),
                };
                fill(open, buffer)
            };
            match attempt() {
                Ok(()) => return Ok(()),
                Err(error) => {
                    *body = None;
                    attempts.retry_after(error)?;
                }
            }
        }
    }
}

/// Failed attempts at one chunk.
#[derive(Default)]
struct FailedAttempts(u32);

impl FailedAttempts {
    /// Pauses before the next attempt. Returns the error where a retry would not help, or there were [`ATTEMPTS`].
    fn retry_after(&mut self, error: FetchError) -> Result<(), FetchError> {
        self.0 += 1;
        if self.0 == ATTEMPTS || !error.is_transient() {
            return Err(error);
        }
        tracing::warn!(%error, attempt = self.0, "fetching the model again from where it broke off");
        std::thread::sleep(FIRST_PAUSE * 2_u32.pow(self.0 - 1));
        Ok(())
    }
}

fn fill(body: &mut Body, buffer: &mut [u8]) -> Result<(), FetchError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match body.read(buffer.get_mut(filled..).unwrap_or_default())? {
            0 => return Err(ParentError::Broken(std::io::ErrorKind::UnexpectedEof.into()).into()),
            count => filled += count,
        }
    }
    Ok(())
}

/// Whether an entity tag can be sent back safely: quoted, printable, short.
fn is_plain(etag: &str) -> bool {
    (2..=128).contains(&etag.len())
        && etag.starts_with('"')
        && etag.ends_with('"')
        && etag.bytes().all(|byte| byte.is_ascii_graphic())
}

fn length_error(stated: &str, expected: String) -> FetchError {
    let plain = stated
        .chars()
        .filter(|sign| sign.is_ascii_graphic() || *sign == ' ');
    FetchError::Length {
        stated: plain.take(80).collect(),
        expected,
    }
}
