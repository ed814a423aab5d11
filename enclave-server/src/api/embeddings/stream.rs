//! `stream`: rows as lines of JSON, a group of them as soon as it is computed.
//!
//! ```text
//! {"object":"embedding","index":0,"embedding":…,"clearseal":{"tokens":4,"truncated":false}}      one line an input, in order
//! {"object":"list","model":…,"usage":…,"clearseal":{"prompt":…}}                                 the last line
//! ```
//!
//! Spaces before the end of each group's last line bring the group to a PADMÉ length: the host sees the length of each part.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use engine::{EmbedError, Embeddings, Inputs, Overlong};
use hyper::body::Frame;
use protocol::padme::padded_len;
use serde::Serialize;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use super::super::body::zeroizing;
use super::super::budget::Reservation;
use super::super::counters::Inference;
use super::super::error::ApiError;
use super::super::exchange::{IsStream, PartFailed};
use super::super::offload::offload;
use super::super::request::Format;
use super::super::state::InnerState;
use super::{AROUND_ROWS, Data, Remarks, Usage, response_failed, truncate_rows};

/// Inputs that are computed at once: enough to keep the inference threads busy.
const GROUP: usize = 32;
/// Media type of lines of JSON.
pub(in super::super) const MEDIA_TYPE: &str = "application/x-ndjson";

/// A request to stream.
pub(super) struct Streamed {
    pub(super) state: Arc<InnerState>,
    pub(super) model: String,
    pub(super) inputs: Inputs,
    pub(super) prompt: Zeroizing<String>,
    pub(super) overlong: Overlong,
    pub(super) dimension: usize,
    pub(super) format: Format,
    /// Upper bound on the bytes of the answer.
    pub(super) bytes: usize,
    pub(super) prompts_available: Vec<String>,
    pub(super) ignored: Vec<String>,
}

/// Answers once the first group is computed, so that a refusal has a status.
pub(super) async fn respond(streamed: Streamed, room: Reservation) -> Result<Response, ApiError> {
    let model = streamed.state.models.find(&streamed.model)?;
    let inference = Inference(Arc::clone(&model.identity));
    let mut rows = Rows::of(streamed);
    let first = rows.next().await?.ok_or_else(response_failed)?;
    let (sender, parts) = mpsc::channel(1);
    tokio::spawn(async move {
        let rest = async {
            while let Some(part) = rows.next().await? {
                if sender.send(Ok(part)).await.is_err() {
                    return Ok(());
                }
            }
            Ok(())
        };
        let ended = tokio::select! {
            // Nothing reads the rest, so it is not computed.
            () = sender.closed() => return,
            ended = rest => ended,
        };
        if let Err(error) = ended {
            // Fails where nothing reads the rest any more.
            let _ = sender.send(Err(PartFailed(error))).await;
        }
    });
    let body = Body::new(Parts {
        first: Some(first),
        rest: parts,
    });
    let mut response = ([(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
    let extensions = response.extensions_mut();
    extensions.insert(inference);
    extensions.insert(IsStream);
    extensions.insert(room);
    Ok(response)
}

/// Takes the next group off `inputs`; `None` if there is none.
fn take_group(inputs: &mut Inputs) -> Option<Inputs> {
    fn take<T>(items: &mut Vec<T>) -> Option<Vec<T>> {
        let group: Vec<T> = items.drain(..items.len().min(GROUP)).collect();
        (!group.is_empty()).then_some(group)
    }
    match inputs {
        Inputs::Texts(texts) => take(texts).map(Inputs::Texts),
        Inputs::Pieces(lists) => take(lists).map(Inputs::Pieces),
    }
}

/// Computes groups one after another.
struct Rows {
    streamed: Streamed,
    count: usize,
    done: usize,
    tokens: usize,
    is_over: bool,
}

impl Rows {
    fn of(streamed: Streamed) -> Self {
        let count = match &streamed.inputs {
            Inputs::Texts(texts) => texts.len(),
            Inputs::Pieces(lists) => lists.len(),
        };
        Self {
            streamed,
            count,
            done: 0,
            tokens: 0,
            is_over: false,
        }
    }

    /// The lines of the next group; after all of them the last line.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.is_over {
            return Ok(None);
        }
        let Some(group) = take_group(&mut self.streamed.inputs) else {
            self.is_over = true;
            let line = self.last_line().ok_or_else(response_failed)?;
            return Ok(Some(line));
        };
        let Streamed {
            state,
            model,
            prompt,
            overlong,
            ..
        } = &self.streamed;
        let dimension = self.streamed.dimension;
        let embedder = state.models.find(model)?.embedder()?;
        let embedded = embedder.embed_after(prompt.clone(), group, *overlong);
        let embeddings = embedded.await.map_err(|error| self.shift(error))?;
        let is_normalised = embedder.is_normalised();
        let values = embeddings.values.len();
        let lines = offload(values * size_of::<f32>(), || {
            self.write_rows(&truncate_rows(embeddings, dimension, is_normalised))
        });
        lines.ok_or_else(response_failed).map(Some)
    }

    /// Counts the input of an error from the first input of the request.
    fn shift(&self, error: EmbedError) -> EmbedError {
        let before = self.done;
        match error {
            EmbedError::Tokenizer { index, error } => EmbedError::Tokenizer {
                index: before + index,
                error,
            },
            EmbedError::Overlong { index, max_tokens } => EmbedError::Overlong {
                index: before + index,
                max_tokens,
            },
            error @ EmbedError::Pool(_) => error,
        }
    }

    fn write_rows(&mut self, embeddings: &Embeddings) -> Option<Bytes> {
        let rows = embeddings.items.len();
        let data = Data {
            embeddings,
            format: self.streamed.format,
            first: self.done,
        };
        // A buffer that grows would leave copies in freed memory.
        let mut lines = Lines::with_capacity(self.streamed.bytes / self.count.max(1) * rows + 1024);
        data.each(|row| lines.push(row)).ok()?;
        self.done += rows;
        self.tokens += embeddings
            .items
            .iter()
            .map(|item| item.tokens)
            .sum::<usize>();
        Some(lines.padded())
    }

    fn last_line(&self) -> Option<Bytes> {
        let Streamed {
            model,
            prompt,
            prompts_available,
            ignored,
            ..
        } = &self.streamed;
        let available: Vec<_> = prompts_available.iter().map(String::as_str).collect();
        let mut lines = Lines::with_capacity(AROUND_ROWS + AROUND_ROWS / 8);
        lines
            .push(&LastLine {
                object: "list",
                model,
                usage: Usage {
                    prompt_tokens: self.tokens,
                    total_tokens: self.tokens,
                },
                clearseal: Remarks {
                    items: None,
                    prompt,
                    prompts_available: &available,
                    ignored,
                },
            })
            .ok()?;
        Some(lines.padded())
    }
}

/// Remarks on the whole answer, after the last row.
#[derive(Serialize)]
struct LastLine<'a> {
    object: &'static str,
    model: &'a str,
    usage: Usage,
    clearseal: Remarks<'a>,
}

/// Lines of JSON.
struct Lines(Zeroizing<Vec<u8>>);

impl Lines {
    fn with_capacity(bytes: usize) -> Self {
        Self(Zeroizing::new(Vec::with_capacity(bytes)))
    }

    fn push(&mut self, line: &impl Serialize) -> serde_json::Result<()> {
        serde_json::to_writer(&mut *self.0, line)?;
        self.0.push(b'\n');
        Ok(())
    }

    /// Spaces between a line and its end change nothing of its meaning (RFC 8259 §2).
    fn padded(mut self) -> Bytes {
        let length = padded_len(self.0.len());
        self.0.pop();
        self.0.resize(length - 1, b' ');
        self.0.push(b'\n');
        zeroizing(std::mem::take(&mut *self.0))
    }
}

struct Parts {
    first: Option<Bytes>,
    rest: mpsc::Receiver<Result<Bytes, PartFailed>>,
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = PartFailed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PartFailed>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.rest
            .poll_recv(context)
            .map(|part| part.map(|part| part.map(Frame::data)))
    }
}
