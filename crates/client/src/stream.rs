//! Embeddings that are read while the enclave computes them, in chunks (draft-ietf-ohai-chunked-ohttp-08).

use std::sync::Arc;

use http::{Method, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use protocol::exchange::{self, ExchangeError, PendingChunks};
use protocol::inner::InnerRequest;
use protocol::ohttp::chunked::ChunkError;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::embeddings::{Embedding, decode_floats};
use crate::error::Error;
use crate::host::Chunked;
use crate::message::{Answer, ServiceErrorDetail, parse_service_error};
use crate::options::Options;
use crate::state::Session;
use crate::upstream::{Upstream, random_seed, run_sized};

/// Vectors in the order of their texts, as they arrive. The enclave sealed each of them; that they are all, and that the receipt
/// covers them, is verified before [`next`](Self::next) returns `None`.
pub struct EmbeddingStream {
    upstream: Arc<Upstream>,
    options: Arc<Options>,
    session: Arc<Session>,
    body: Incoming,
    pending: Option<PendingChunks>,
    /// Bytes of the content that were returned as vectors.
    read: usize,
    rows: usize,
    expected: usize,
    is_last_line_read: bool,
    /// The last chunk was opened.
    is_ended: bool,
    answer: Option<Answer>,
}

/// An answer that has begun.
pub(crate) enum Begun {
    Stream(Box<(Incoming, PendingChunks, Arc<Session>)>),
    /// An answer that is not a stream: a refusal.
    Whole(Box<Answer>),
}

/// Outcome of one attempt to begin.
enum Attempt {
    Begun(Begun),
    /// The proof has ended or was withdrawn, or the host's enclave does not know it.
    ProofLost,
    Doubtful(Error),
}

impl Client {
    /// Embeds `texts` in one sealed request with the attested model, and returns vectors while later ones are computed.
    ///
    /// Asks the upstreams in order until one of them answers. Once an answer has begun, its failure is final, because vectors may
    /// have been used.
    ///
    /// # Errors
    /// The errors of [`embed`](Client::embed).
    pub async fn embed_stream(&self, texts: &[String]) -> Result<EmbeddingStream, Error> {
        let session = self.connect().await?;
        let content = serde_json::to_vec(&Body {
            model: &session.manifest().model.id,
            input: texts,
            encoding_format: "base64",
            stream: true,
        });
        let request = InnerRequest {
            method: Method::POST.as_str().to_owned(),
            path: "/v1/embeddings".to_owned(),
            headers: vec![(
                header::CONTENT_TYPE.as_str().to_owned(),
                "application/json".to_owned(),
            )],
            content: content.map_err(|_| Error::RequestInvalid)?,
        };
        let mut last = Error::NoUpstream;
        for upstream in self.in_order() {
            let begun = match upstream.begin_stream(&self.options, &request).await {
                Ok(begun) => begun,
                Err(error) if error.is_local_to_upstream() => {
                    last = last.then(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let (body, pending, session) = match begun {
                Begun::Stream(stream) => *stream,
                Begun::Whole(answer) if answer.status().is_success() => {
                    return Err(Error::AnswerInvalid);
                }
                Begun::Whole(answer) => return Err(parse_service_error(&answer)),
            };
            return Ok(EmbeddingStream {
                upstream: Arc::clone(upstream),
                options: Arc::clone(&self.options),
                session,
                body,
                pending: Some(pending),
                read: 0,
                rows: 0,
                expected: texts.len(),
                is_last_line_read: false,
                is_ended: false,
                answer: None,
            });
        }
        Err(last)
    }
}

impl EmbeddingStream {
    /// The next vector; `None` after the last one, when the receipt has been verified.
    ///
    /// # Errors
    /// [`Error::Exchange`] with `CHUNKS_CUT_OFF` or `CHUNK_OPEN_FAILED` if the answer was cut off or changed in transit,
    /// [`Error::Service`] if the enclave could not compute the rest. After an error, and where the future of the last call was dropped
    /// while it verified the receipt, only errors come.
    pub async fn next(&mut self) -> Result<Option<Embedding>, Error> {
        loop {
            let Some(pending) = &mut self.pending else {
                return self.end();
            };
            let unread = pending.content().get(self.read..).unwrap_or_default();
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = serde_json::from_slice::<Line>(&unread[..end]);
                self.read += end + 1;
                match self.take(line.map_err(|_| Error::AnswerInvalid)) {
                    Ok(None) => continue,
                    outcome => return outcome.inspect_err(|_| self.pending = None),
                }
            }
            match next_part(&self.upstream, &self.session, &mut self.body).await {
                Ok(Some(part)) => {
                    if let Err(error) = pending.push(&part) {
                        self.pending = None;
                        return Err(error.into());
                    }
                }
                // The last chunk may hold lines, too.
                Ok(None) if !self.is_ended => {
                    self.is_ended = true;
                    if let Err(error) = pending.end() {
                        self.pending = None;
                        return Err(error.into());
                    }
                }
                Ok(None) => return self.finish().await,
                Err(error) => {
                    self.pending = None;
                    return Err(error);
                }
            }
        }
    }

    /// The whole answer, which contains the receipt, after [`next`](Self::next) has returned `None`.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    fn take(&mut self, line: Result<Line, Error>) -> Result<Option<Embedding>, Error> {
        match line? {
            Line {
                error: Some(error), ..
            } => Err(error.into_error(500)),
            Line {
                embedding: Some(embedding),
                index: Some(index),
                clearseal,
                ..
            } if index == self.rows && !self.is_last_line_read => {
                self.rows += 1;
                Ok(Some(Embedding {
                    vector: decode_floats(&embedding).ok_or(Error::AnswerInvalid)?,
                    tokens: clearseal.tokens,
                    truncated: clearseal.truncated,
                }))
            }
            Line {
                embedding: None,
                index: None,
                ..
            } if self.rows == self.expected && !self.is_last_line_read => {
                self.is_last_line_read = true;
                Ok(None)
            }
            _ => Err(Error::AnswerInvalid),
        }
    }

    /// The end of the vectors, only where the receipt was verified.
    fn end(&self) -> Result<Option<Embedding>, Error> {
        match self.answer {
            Some(_) => Ok(None),
            None => Err(ExchangeError::from(ChunkError::CutOff).into()),
        }
    }

    async fn finish(&mut self) -> Result<Option<Embedding>, Error> {
        let Some(pending) = self.pending.take() else {
            return self.end();
        };
        let now = self.options.clock.now();
        let content = pending.content();
        if !self.is_last_line_read || self.read != content.len() {
            return Err(Error::AnswerInvalid);
        }
        let answer = run_sized(content.len(), move || pending.finish(now)).await??;
        self.answer = Some(Answer::new(answer, Arc::clone(&self.session)));
        Ok(None)
    }
}

/// The next bytes of an answer; `None` at its end. A policy that refuses the session ends it.
async fn next_part(
    upstream: &Upstream,
    session: &Session,
    body: &mut Incoming,
) -> Result<Option<bytes::Bytes>, Error> {
    loop {
        let frame = tokio::select! {
            biased;
            () = session.ended() => return Err(match session.withdrawal() {
                Some(report) => Error::Withdrawn(report),
                None => ExchangeError::Expired.into(),
            }),
            frame = tokio::time::timeout(upstream.host.timeout(), body.frame()) => frame,
        };
        match frame.map_err(|_| upstream.host.late())? {
            None => return Ok(None),
            Some(Err(_)) => return Err(upstream.host.broken()),
            Some(Ok(frame)) => {
                if let Ok(part) = frame.into_data() {
                    return Ok(Some(part));
                }
            }
        }
    }
}

impl Upstream {
    /// Begins a request in chunks. A proof that has ended or is unknown, and an answer that cannot be opened before its head, cause
    /// one fresh check and one more attempt.
    pub(crate) async fn begin_stream(
        self: &Arc<Self>,
        options: &Arc<Options>,
        request: &InnerRequest,
    ) -> Result<Begun, Error> {
        let session = self.session(options).await?;
        if let Attempt::Begun(begun) = self.attempt_stream(options, &session, request).await? {
            return Ok(begun);
        }
        let session = self.attest(options, Some(&session)).await?;
        match self.attempt_stream(options, &session, request).await? {
            Attempt::Begun(begun) => Ok(begun),
            Attempt::ProofLost => Err(match session.withdrawal() {
                Some(report) => Error::Withdrawn(report),
                None => Error::KeyUnknownTwice,
            }),
            Attempt::Doubtful(error) => Err(error),
        }
    }

    async fn attempt_stream(
        &self,
        options: &Options,
        session: &Arc<Session>,
        request: &InnerRequest,
    ) -> Result<Attempt, Error> {
        let mut rng = ChaCha20Rng::from_seed(random_seed()?);
        let (now, sealed_by, request) = (options.clock.now(), Arc::clone(session), request.clone());
        let begun = run_sized(request.content.len(), move || {
            exchange::begin_chunked(&sealed_by.attestation, request, now, &mut rng)
        });
        let (sealed, mut pending) = match begun.await? {
            Err(ExchangeError::Expired) => return Ok(Attempt::ProofLost),
            other => other?,
        };
        // The proof may have ended during sealing.
        if !session.is_valid(options.clock.now()) {
            return Ok(Attempt::ProofLost);
        }
        let hint = session.hint();
        let sent = tokio::select! {
            // Polled first: a request sealed before a policy change must not be sent after it.
            biased;
            () = session.ended() => return Ok(Attempt::ProofLost),
            sent = self.host.gateway_in_chunks(sealed, &hint) => sent,
        };
        let mut body = match sent {
            Ok(Chunked::Begun(body)) => body,
            Ok(Chunked::KeyUnknown) => return Ok(Attempt::ProofLost),
            Err(Error::Unreachable(problem)) if !problem.is_denial() => {
                return Ok(Attempt::Doubtful(Error::Unreachable(problem)));
            }
            Err(error) => return Err(error),
        };
        while pending.head().is_none() {
            let part = match next_part(self, session, &mut body).await {
                Ok(part) => part,
                Err(error) => return Ok(Attempt::Doubtful(error)),
            };
            match part {
                Some(part) => match pending.push(&part) {
                    Ok(()) => {}
                    Err(error) => return Ok(Attempt::Doubtful(error.into())),
                },
                None => {
                    return Ok(match pending.finish(options.clock.now()) {
                        Ok(answer) => {
                            let answer = Answer::new(answer, Arc::clone(session));
                            Attempt::Begun(Begun::Whole(Box::new(answer)))
                        }
                        Err(error) if error.is_stale() && !error.is_misdated() => {
                            Attempt::ProofLost
                        }
                        Err(error) => Attempt::Doubtful(error.into()),
                    });
                }
            }
        }
        let stream = (body, pending, Arc::clone(session));
        Ok(Attempt::Begun(Begun::Stream(Box::new(stream))))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    stream: bool,
}

/// A row, the last line, or the error of the rest.
#[derive(Deserialize)]
struct Line {
    index: Option<usize>,
    embedding: Option<String>,
    #[serde(default)]
    clearseal: Remarks,
    error: Option<ServiceErrorDetail>,
}

/// Remarks on the text of a row. Those of the last line have other members.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Remarks {
    tokens: u64,
    truncated: bool,
}
