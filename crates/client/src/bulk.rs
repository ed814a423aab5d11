//! Many batches over attested channels: complete and in order, however often a connection ends.

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
use crate::embeddings::{Body, Embedding, Embeddings, refusal};
use crate::error::Error;
use crate::message::Answer;
use crate::state::{Session, Standing};
use crate::upstream::{Upstream, random};
use channel::bulk::{Backoff, Work, run};
use channel::{Channel, Message, connect_known};

/// Batches under way: as many as keep an enclave busy while answers travel.
const WINDOW: usize = 8;
/// For a channel's handshake, and between two signs of life while an answer is awaited; an enclave gives one every 10 seconds.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Texts, and what the caller wants back with their vectors.
pub struct Batch<T> {
    /// At least one; none is empty.
    pub texts: Vec<String>,
    /// The caller's.
    pub tag: T,
}

impl Client {
    /// Embeds every batch that comes, with the attested model, and hands out each with its vectors, in order; returns how many
    /// batches there were. Ends when `batches` has no sender left and everything is answered.
    ///
    /// The enclave is verified as [`connect`](Client::connect) does, and no other one can answer: it endorses the key of each
    /// channel. A connection that ends is made again, after a random pause, and what was not answered is sent again. A channel to
    /// an enclave that [`set_policy`](Client::set_policy) refuses is closed before another batch is sent.
    ///
    /// # Errors
    /// As [`embed`](Client::embed). What a bad network explains only where no connection brings an answer any more. Whatever
    /// `take` returns as an error ends the run.
    pub async fn bulk<T>(
        &self,
        batches: &mut mpsc::Receiver<Batch<T>>,
        take: impl FnMut(&Batch<T>, Embeddings) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut work = Batches {
            client: self,
            take,
            lost: None,
            rng: ChaCha20Rng::from_seed(random()?),
            batch: std::marker::PhantomData,
        };
        let mut rng = ChaCha20Rng::from_seed(random()?);
        run(&mut work, batches, WINDOW, Backoff::default(), &mut rng).await
    }
}

struct Batches<'a, T, F> {
    client: &'a Client,
    take: F,
    /// A proof that the enclave says it does not know.
    lost: Option<Arc<Session>>,
    rng: ChaCha20Rng,
    batch: std::marker::PhantomData<T>,
}

type Stream = TokioIo<Upgraded>;

impl<T, F> Batches<'_, T, F> {
    async fn join(
        &mut self,
        upstream: &Arc<Upstream>,
    ) -> Result<(Channel<Stream>, Arc<Session>), Error> {
        let options = &self.client.options;
        let known = upstream.usable(options.clock.now());
        let lost = self.lost.take();
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
        let opened = connect_known(stream, known, now, PATIENCE, &mut self.rng).await;
        let mut channel = opened?;
        channel.incoming.set_timeout(Some(PATIENCE));
        Ok(channel)
    }
}

impl<T, F> Work for Batches<'_, T, F>
where
    F: FnMut(&Batch<T>, Embeddings) -> Result<(), Error>,
{
    type Item = Batch<T>;
    type Stream = Stream;
    type Peer = Arc<Session>;
    type Pending = PendingResponse;
    type Error = Error;

    async fn connect(&mut self) -> Result<(Channel<Stream>, Arc<Session>), Error> {
        let mut last = Error::NoUpstream;
        for upstream in self.client.in_order() {
            match self.join(upstream).await {
                Ok(joined) => return Ok(joined),
                Err(error) if error.is_local_to_upstream() => last = last.then(error),
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn encode(
        &mut self,
        session: &Arc<Session>,
        batch: &Batch<T>,
    ) -> Result<(Vec<u8>, PendingResponse), Error> {
        // `ended` is asked between two turns of a connection, and a policy may be set within one.
        if session.standing() != Standing::Good {
            return Err(channel::Error::from(ChannelError::Closed).into());
        }
        let body = serde_json::to_vec(&Body {
            model: &session.manifest().model.id,
            input: &batch.texts,
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
        // The enclave would end the channel, and the batch would be sent again over the next one.
        match message.len() {
            // Its number goes before it.
            bytes if bytes + size_of::<u64>() > MAX_CLIENT_MESSAGE => {
                Err(Error::BatchTooLarge { bytes })
            }
            _ => Ok((message, asked)),
        }
    }

    fn answer(
        &mut self,
        session: &Arc<Session>,
        batch: &Batch<T>,
        asked: PendingResponse,
        message: Message<'_>,
    ) -> Result<(), Error> {
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
        if !answer.status().is_success() {
            return Err(refusal(&answer));
        }
        let vectors = Vectors::decode(answer.content()).map_err(|_| Error::AnswerInvalid)?;
        if vectors.tokens.len() != batch.texts.len() {
            return Err(Error::AnswerInvalid);
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
        };
        (self.take)(batch, embeddings)
    }

    fn is_transient(error: &Error) -> bool {
        error.is_transient()
    }

    async fn ended(session: &Arc<Session>) {
        session.ended().await;
    }
}
