//! Embeds many batches over attested channels, or else in sealed requests: complete and in order, even if connections fail.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use http::{Method, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use protocol::channel::ChannelError;
use protocol::channel::frame::{Kind, MAX_CLIENT_MESSAGE};
use protocol::exchange::PendingResponse;
use protocol::inner::InnerRequest;
use protocol::vectors::Vectors;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::embeddings::{Body, Embedding, Embeddings};
use crate::error::{Error, Problem};
use crate::message::{Answer, parse_service_error};
use crate::state::{Session, Standing};
use crate::upstream::{Upstream, random_seed};
use channel::bulk::{Backoff, Work, run};
use channel::{Channel, Message, connect_known};

mod requests;

/// Maximum number of batches in flight: enough to keep an enclave busy while answers travel.
const WINDOW: usize = 8;
/// Timeout of a channel's handshake, and of the next frame while an answer is awaited; an enclave sends a keep-alive every 10 seconds.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Texts, and a tag that the caller gets back with their vectors.
pub struct Batch<T> {
    /// At least one; none is empty.
    pub texts: Vec<String>,
    /// Any value of the caller's.
    pub tag: T,
}

/// Consecutive texts of a batch, and their outcome.
pub struct Part {
    /// Their indices in the batch.
    pub texts: Range<usize>,
    /// One vector for each of these texts, or the error of a single text.
    pub outcome: Result<Embeddings, Error>,
    /// Reason why no channel could be used, if the texts were sent in a sealed request.
    pub without_channel: Option<Arc<Problem>>,
}

impl Client {
    /// Embeds every batch with the attested model, and passes each with its vectors to `take`, in order. Returns the number of
    /// batches. A text that the enclave refuses fails alone: its batch is sent again in halves until that text is found, and is
    /// passed on in several parts, in order, which together contain all of its texts. Ends when `batches` has no sender left and
    /// everything is answered.
    ///
    /// The enclave is verified as [`connect`](Client::connect) does, and no other one can answer: it endorses the key of each
    /// channel. After a connection fails, reconnects after a random pause and sends unanswered batches again. A channel to
    /// an enclave that [`set_policy`](Client::set_policy) refuses is closed before another batch is sent.
    ///
    /// Where a proxy in front of the host prevents channels, sends the rest in sealed requests, a few at once. That is slower.
    ///
    /// # Errors
    /// The errors of [`embed`](Client::embed), except a refusal that [is about a text](Error::is_about_input). A transient error only
    /// if no connection brings an answer any more. An error of `take` ends the run, and nothing more is passed on.
    pub async fn bulk<T>(
        &self,
        batches: &mut mpsc::Receiver<Batch<T>>,
        take: impl FnMut(&Batch<T>, Part) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut work = Batches {
            client: self,
            take,
            open: VecDeque::new(),
            done: 0,
            next: 0,
            early: BTreeMap::new(),
            lost: None,
            connected: None,
            failed: None,
            without_channel: None,
            rng: ChaCha20Rng::from_seed(random_seed()?),
        };
        let mut rng = ChaCha20Rng::from_seed(random_seed()?);
        let outcome = run(&mut work, batches, WINDOW, Backoff::default(), &mut rng).await;
        match outcome {
            Ok(_) => {}
            Err(Failure::Run(Error::Unreachable(problem))) if problem.is_without_upgrade() => {
                work.without_channel = Some(problem);
                let rest = requests::run(&mut work, batches).await;
                rest.map_err(Failure::into_error)?;
            }
            Err(failure) => return Err(failure.into_error()),
        }
        Ok(work.done)
    }
}

/// Texts that are sent in one message.
struct Piece {
    /// Number of the batch, from 0.
    batch: u64,
    /// Places in it.
    texts: Range<usize>,
}

/// Maximum bytes of a request's texts as JSON, with space for padding and the rest of the request. A single text of that length
/// exceeds what an enclave embeds, however it is escaped.
const MAX_PIECE: usize = MAX_CLIENT_MESSAGE - (64 << 10);

struct Batches<'a, T, F> {
    client: &'a Client,
    take: F,
    /// Batches that were not passed on in full, in order.
    open: VecDeque<Batch<T>>,
    /// Number of batches that were.
    done: u64,
    /// Number of texts of the first open batch that were passed on.
    next: usize,
    /// Parts that were answered before earlier ones, by batch and first text.
    early: BTreeMap<(u64, usize), Part>,
    /// A session that the enclave reports as unknown.
    lost: Option<Arc<Session>>,
    /// The upstream of the current channel, until that brings its first answer.
    connected: Option<Arc<Upstream>>,
    /// The upstream whose channel failed last, without an answer: it is asked after the others.
    failed: Option<Arc<Upstream>>,
    /// Reason why sealed requests are used instead of a channel.
    without_channel: Option<Arc<Problem>>,
    rng: ChaCha20Rng,
}

type Stream = TokioIo<Upgraded>;

/// Reason for the end of a run or a connection.
enum Failure {
    Run(Error),
    /// An error of the caller's `take`, which another connection would not change. Its part was passed on.
    Caller(Error),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Self::Run(error) | Self::Caller(error) => error,
        }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl<T, F> Batches<'_, T, F>
where
    F: FnMut(&Batch<T>, Part) -> Result<(), Error>,
{
    fn texts(&self, piece: &Piece) -> &[String] {
        let at = usize::try_from(piece.batch - self.done).ok();
        let batch = at.and_then(|at| self.open.get(at));
        let texts = batch.and_then(|batch| batch.texts.get(piece.texts.clone()));
        texts.unwrap_or_default()
    }

    /// Returns the texts of open batches that were not passed on.
    fn unanswered(&self) -> Vec<Piece> {
        let starts = std::iter::once(self.next).chain(std::iter::repeat(0));
        let open = self.open.iter().zip(starts).zip(self.done..);
        open.map(|((batch, start), number)| Piece {
            batch: number,
            texts: start..batch.texts.len(),
        })
        .collect()
    }

    /// Passes a part on once everything before it was.
    fn settle(&mut self, piece: Piece, outcome: Result<Embeddings, Error>) -> Result<(), Failure> {
        let Piece { batch, texts } = piece;
        let part = Part {
            texts,
            outcome,
            without_channel: self.without_channel.clone(),
        };
        self.early.insert((batch, part.texts.start), part);
        while let Some(part) = self.early.remove(&(self.done, self.next))
            && let Some(batch) = self.open.front()
        {
            self.next = part.texts.end;
            (self.take)(batch, part).map_err(Failure::Caller)?;
            if self.next >= batch.texts.len() {
                self.open.pop_front();
                (self.done, self.next) = (self.done + 1, 0);
            }
        }
        Ok(())
    }

    /// Divides a piece until its parts fit into a message. Settles a single text that does not fit.
    fn fit(&mut self, piece: Piece, fitting: &mut Vec<Piece>) -> Result<(), Failure> {
        let texts = self.texts(&piece);
        if json_length(texts) <= MAX_PIECE {
            fitting.push(piece);
            return Ok(());
        }
        if let [text] = texts {
            let bytes = text.len();
            return self.settle(piece, Err(Error::TextTooLong { bytes }));
        }
        for half in halves(piece) {
            self.fit(half, fitting)?;
        }
        Ok(())
    }

    async fn join(
        &mut self,
        upstream: &Arc<Upstream>,
    ) -> Result<(Channel<Stream>, Arc<Session>), Error> {
        let options = &self.client.options;
        let known = upstream.usable(options.clock.now());
        // Keep a lost session of another upstream.
        let is_of = |lost: &mut Arc<Session>| known.as_ref().is_some_and(|it| it.is_same(lost));
        let lost = self.lost.take_if(is_of);
        let session = match known {
            Some(known) if lost.as_ref().is_none_or(|lost| !lost.is_same(&known)) => known,
            _ => upstream.attest(options, lost.as_ref()).await?,
        };
        match self.open(upstream, &session).await {
            Err(Error::Channel(channel::Error::Stale)) => {
                let session = upstream.attest(options, Some(&session)).await?;
                Ok((self.open(upstream, &session).await?, session))
            }
            opened => Ok((opened?, session)),
        }
    }

    async fn open(
        &mut self,
        upstream: &Upstream,
        session: &Session,
    ) -> Result<Channel<Stream>, Error> {
        let stream = upstream.host.channel(&session.hint()).await?;
        let now = self.client.options.clock.now();
        let known = &session.attestation;
        let opened = connect_known(stream, known, now, TIMEOUT, &mut self.rng).await;
        let mut channel = opened?;
        channel.incoming.set_timeout(Some(TIMEOUT));
        Ok(channel)
    }
}

/// Returns the JSON length of an array of texts, without its brackets.
fn json_length(texts: &[String]) -> usize {
    // A control character takes six bytes.
    let most = texts.iter().map(|text| text.len() * 6 + 3).sum();
    if most <= MAX_PIECE {
        return most;
    }
    let lengths = texts.iter().map(|text| {
        let json = serde_json::to_string(text).map(|json| json.len());
        json.unwrap_or(usize::MAX / texts.len()) + 1
    });
    lengths.sum()
}

fn halves(Piece { batch, texts }: Piece) -> [Piece; 2] {
    let middle = texts.start.midpoint(texts.end);
    [texts.start..middle, middle..texts.end].map(|texts| Piece { batch, texts })
}

impl<T, F> Work for Batches<'_, T, F>
where
    F: FnMut(&Batch<T>, Part) -> Result<(), Error>,
{
    type Given = Batch<T>;
    type Item = Piece;
    type Stream = Stream;
    type Peer = Arc<Session>;
    type Pending = PendingResponse;
    type Error = Failure;

    async fn connect(&mut self) -> Result<(Channel<Stream>, Arc<Session>), Failure> {
        if let Some(silent) = self.connected.take() {
            self.failed = Some(silent);
        }
        let is_failed = |upstream: &&Arc<Upstream>| {
            let mut failed = self.failed.iter();
            failed.any(|failed| Arc::ptr_eq(failed, upstream))
        };
        let order = self.client.in_order().into_iter();
        let (failed, mut order): (Vec<_>, Vec<_>) = order.partition(is_failed);
        order.extend(failed);
        let mut last = Error::NoUpstream;
        for upstream in order {
            match self.join(upstream).await {
                Ok(joined) => {
                    self.connected = Some(Arc::clone(upstream));
                    return Ok(joined);
                }
                // After a transient failure of one channel, try the other upstreams.
                Err(error @ Error::Channel(_)) if error.is_transient() => {
                    self.failed = Some(Arc::clone(upstream));
                    last = last.then(error);
                }
                Err(error) if error.is_local_to_upstream() => last = last.then(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.into())
    }

    fn admit(&mut self, batch: Batch<T>) -> Result<Vec<Piece>, Failure> {
        let piece = Piece {
            batch: self.done + self.open.len() as u64,
            texts: 0..batch.texts.len(),
        };
        self.open.push_back(batch);
        let mut fitting = Vec::new();
        self.fit(piece, &mut fitting)?;
        Ok(fitting)
    }

    fn has_room(&self) -> bool {
        self.early.len() < WINDOW
    }

    fn encode(
        &mut self,
        session: &Arc<Session>,
        piece: &Piece,
    ) -> Result<(Vec<u8>, PendingResponse), Failure> {
        // `ended` is polled only between two steps of a connection; a policy may be set within one.
        if session.standing() != Standing::Good {
            return Err(channel::Error::from(ChannelError::Closed).into());
        }
        let body = serde_json::to_vec(&Body {
            model: &session.manifest().model.id,
            input: self.texts(piece),
            encoding_format: "tensors",
        });
        let request = InnerRequest {
            method: Method::POST.as_str().to_owned(),
            path: "/v1/embeddings".to_owned(),
            headers: vec![(
                header::CONTENT_TYPE.as_str().to_owned(),
                "application/json".to_owned(),
            )],
            content: body.map_err(|_| Error::RequestInvalid)?,
        };
        let now = self.client.options.clock.now();
        let (message, asked) =
            PendingResponse::new(&session.attestation, request, now, &mut self.rng)?;
        // Refuse here: the enclave would close the channel, and the batch would be sent again over the next one.
        match message.len() {
            // The message is preceded by its number.
            bytes if bytes + size_of::<u64>() > MAX_CLIENT_MESSAGE => {
                Err(Error::BatchTooLarge { bytes }.into())
            }
            _ => Ok((message, asked)),
        }
    }

    fn answer(
        &mut self,
        session: &Arc<Session>,
        Piece { batch, texts }: &Piece,
        asked: PendingResponse,
        message: Message<'_>,
    ) -> Result<Vec<Piece>, Failure> {
        self.connected = None;
        if message.kind != Kind::Data {
            return Err(channel::Error::OutOfTurn.into());
        }
        let now = self.client.options.clock.now();
        let answer = asked.finish(message.payload, now).inspect_err(|error| {
            if error.is_stale() {
                self.lost = Some(Arc::clone(session));
            }
        })?;
        let answer = Answer::new(answer, Arc::clone(session));
        let piece = Piece {
            batch: *batch,
            texts: texts.clone(),
        };
        if !answer.status().is_success() {
            return match parse_service_error(&answer) {
                // The enclave does not name the text.
                error if error.is_about_input() && texts.len() > 1 => Ok(halves(piece).into()),
                error if error.is_about_input() => {
                    self.settle(piece, Err(error)).map(|()| Vec::new())
                }
                error => Err(error.into()),
            };
        }
        let vectors = Vectors::decode(answer.content()).map_err(|_| Error::AnswerInvalid)?;
        if vectors.tokens.len() != texts.len() {
            return Err(Error::AnswerInvalid.into());
        }
        let items = vectors.tokens.iter().zip(&vectors.truncated);
        let items = vectors.rows().zip(items);
        let items = items.map(|(row, (tokens, truncated))| Embedding {
            vector: row.to_vec(),
            tokens: u64::from(*tokens),
            truncated: *truncated,
        });
        let embeddings = Embeddings {
            items: items.collect(),
            answer,
            prompts_available: Vec::new(),
        };
        self.settle(piece, Ok(embeddings)).map(|()| Vec::new())
    }

    fn is_transient(failure: &Failure) -> bool {
        matches!(failure, Failure::Run(error) if error.is_transient())
    }

    async fn ended(session: &Arc<Session>) {
        session.ended().await;
    }
}
