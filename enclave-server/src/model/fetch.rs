//! The sealed container of a model, from the parent: fetched on a thread of its own, opened chunk by chunk as it arrives.
//!
//! The parent may stall, trickle, break off, or send anything. What came whole and is genuine is kept: after a break the
//! fetch goes on at the next chunk, of the same container or not at all.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use base16ct::lower::encode_string as hex;
use sealed_model::{CHUNK, ContainerError, DataKey, FIXED, Header, Manifest, Opener, TAG};

use super::ModelError;
use super::source::{Piece, Source, SourceTimes};
use crate::parent::{Body, Parent, ParentError, Request};

/// Chunks that are on their way at once; so much memory beside the model.
const IN_FLIGHT: usize = 3;
/// Attempts without a new chunk until the fetch is given up.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Why the parent's container was not taken.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum FetchError {
    /// See [`ParentError`].
    #[error(transparent)]
    #[coded(transparent)]
    Parent(#[from] ParentError),
    /// The parent has none of this name.
    #[error("the parent has no sealed model `{0}`")]
    #[coded("MODEL_UNKNOWN", remedy = "Look at host-proxy's --models.")]
    Unknown(String),
    /// The parent answers with another status than it should.
    #[error("the parent answered with status {0}")]
    #[coded("MODEL_REFUSED", remedy = "Read host-proxy's log: it says why.")]
    Refused(u16),
    /// Another container has taken the place of the one that was begun.
    #[error("the parent replaced the sealed model while it was fetched")]
    #[coded("MODEL_CHANGED", remedy = "Start again.")]
    Changed,
    /// The parent states another length than the header does, or another part than was asked for.
    #[error("the parent states `{stated}`, expected `{expected}`")]
    #[coded(
        "MODEL_LENGTH",
        remedy = "The container there is not the one that its header describes; seal the model again."
    )]
    Length {
        /// Stated range and length, as far as they are plain.
        stated: String,
        /// Expected ones.
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

/// A container on its way.
pub struct Sealed {
    opener: Opener,
    next: u64,
    chunks: Receiver<Result<(Vec<u8>, Instant), ModelError>>,
    back: Sender<Vec<u8>>,
    begun: Instant,
    times: SourceTimes,
}

impl Sealed {
    /// Asks for the container of model `name`, opens its header with `key`, refuses any other file set than `pins`, and
    /// begins to fetch its chunks. Everything is over, or has failed, by `until`.
    ///
    /// # Errors
    /// [`ModelError`]: the parent's fault, a header that is not genuine, or other files than the pinned ones.
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
        let mut patience = Attempts::default();
        let (header, body) = loop {
            match download.header() {
                Ok(found) => break found,
                Err(ModelError::Fetch(error)) => patience.after(error)?,
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
            // An error means that everything is fetched.
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

/// What is known of the container that is being fetched.
struct Download {
    parent: Parent,
    path: String,
    name: String,
    etag: Option<String>,
    length: Option<u64>,
    until: Instant,
}

impl Download {
    /// Asks from the beginning; returns the header, and the body that goes on behind it.
    fn header(&mut self) -> Result<(Header, Body), ModelError> {
        let mut body = self.from(0)?;
        let mut bytes = vec![0; FIXED];
        fill(&mut body, &mut bytes)?;
        let length = Header::length(&bytes)?;
        bytes.resize(length, 0);
        fill(&mut body, bytes.get_mut(FIXED..).unwrap_or_default())?;
        Ok((Header::read(&bytes)?.0, body))
    }

    /// Asks for everything from byte `offset` on.
    fn from(&mut self, offset: u64) -> Result<Body, FetchError> {
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
            // RFC 9110 §13.1.5: the whole of another version.
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

    /// Sends chunk after chunk, in order, until all are sent, one cannot be had, or there is no receiver any more.
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
        // Once for the whole: later chunks find the memory as it is, and nothing is written twice.
        buffer.reserve_exact((CHUNK + TAG).saturating_sub(buffer.len()));
        buffer.resize(length, 0);
        let mut patience = Attempts::default();
        loop {
            let mut attempt = || {
                let open = match body {
                    Some(open) => open,
                    None => body.insert(self.from(header.chunk_offset(index))?),
                };
                fill(open, buffer)
            };
            match attempt() {
                Ok(()) => return Ok(()),
                Err(error) => {
                    *body = None;
                    patience.after(error)?;
                }
            }
        }
    }
}

/// Attempts that came to nothing.
#[derive(Default)]
struct Attempts(u32);

impl Attempts {
    /// Pauses before the next attempt; the error itself where that would not help, or was tried often enough.
    fn after(&mut self, error: FetchError) -> Result<(), FetchError> {
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

/// A tag that may be sent back: quoted, visible, short.
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
