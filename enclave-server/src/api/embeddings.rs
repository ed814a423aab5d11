//! `POST /v1/embeddings`, in OpenAI's format.

mod stream;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Extensions, header};
use axum::response::{IntoResponse, Response};
use base64ct::{Base64, Encoding};
use engine::{Embeddings, Inputs, MAX_PROMPT_BYTES, Overlong, normalise};
use protocol::inner::MAX_RESPONSE;
use protocol::items;
use protocol::vectors::{Vectors, append_prompt};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use zeroize::{Zeroize as _, Zeroizing};

use super::body::zeroizing;
use super::commitments::{Commitments, Salt};
use super::counters::Inference;
use super::error::ApiError;
use super::models::ServedModel;
use super::offload::offload;
use super::request::{EmbeddingsRequest, Format};
use super::state::InnerState;

#[cfg(test)]
pub(super) use stream::MEDIA_TYPE as STREAM_MEDIA_TYPE;

pub(super) async fn embeddings(
    State(state): State<Arc<InnerState>>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let request = offload(body.len(), || EmbeddingsRequest::read(&body))?;
    let model = state.models.find(&request.model)?;
    let embedder = model.embedder()?;
    let inputs = request.input.into_inputs()?;
    if let Inputs::Pieces(_) = inputs {
        check_tokenizer(model, request.tokenizer.as_deref())?;
    }
    let unused_prompts = request.prompt.list_unused(embedder.prompts(), &inputs);
    let prompt = request.prompt.resolve(embedder.prompts(), &inputs)?;
    let full = embedder.dimension();
    let dimension = match request.dimensions {
        None => full,
        Some(wanted) if (1..=full).contains(&wanted) => wanted,
        Some(_) => {
            return Err(ApiError::bad_request(
                "DIMENSIONS_INVALID",
                format!("`dimensions` must be 1 to {full}; leave it out for all"),
            )
            .param("dimensions"));
        }
    };
    if request.stream && request.format == Format::Tensors {
        return Err(ApiError::bad_request(
            "STREAM_FORMAT",
            "a stream is lines of JSON; leave `stream` out, or ask for `encoding_format` \"float\" or \"base64\"",
        )
        .param("stream"));
    }
    let bytes = answer_size(&inputs, dimension, request.format, request.stream)?;
    // Reserved before computing, so that no answer is computed for which there is no memory.
    let room = state.answers.reserve(bytes * ANSWER_COPIES).await?;
    let overlong = match request.truncate {
        true => Overlong::Cut,
        false => Overlong::Refuse,
    };
    if request.stream {
        let streamed = stream::Streamed {
            model: model.id().to_owned(),
            inputs,
            prompt,
            overlong,
            dimension,
            format: request.format,
            bytes,
            prompts_available: unused_prompts.into_iter().map(str::to_owned).collect(),
            ignored: request.ignored.0,
            state: Arc::clone(&state),
        };
        return stream::respond(streamed, room).await;
    }
    // Made before the engine takes the inputs. A request that was not sealed has no salt, and gets no tree.
    let salt = extensions.get::<Salt>();
    let commitments = salt.map(|salt| Commitments::to(&inputs, &prompt, salt));
    let embedded = embedder.embed_after(prompt.clone(), inputs, overlong);
    let embeddings = embedded.await?;
    let normalised = embedder.is_normalised();
    let mut response = offload(embeddings.values.len() * size_of::<f32>(), || {
        let embeddings = truncate_rows(embeddings, dimension, normalised);
        let root = commitments.map(|commitments| commitments.root(&embeddings));
        let content = match request.format {
            Format::Tensors => encode_tensors(root, &prompt, embeddings),
            Format::Float | Format::Base64 => {
                let remarks = Remarks {
                    items: root.as_ref().map(items::root_text),
                    prompt: &prompt,
                    prompts_available: &unused_prompts,
                    ignored: &request.ignored.0,
                };
                encode_json(model.id(), &embeddings, remarks, request.format, bytes)
            }
        };
        respond(request.format, content, model)
    })?;
    response.extensions_mut().insert(room);
    Ok(response)
}

/// Refuses token ids without the name of their tokenizer. Clients that count tokens send ids of OpenAI's tokenizers. Most of these
/// are valid ids of other words here, so the vectors would be meaningless without any error.
fn check_tokenizer(model: &ServedModel, named: Option<&str>) -> Result<(), ApiError> {
    if named.is_some_and(|name| model.has_name(name)) {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "TOKENIZER_UNNAMED",
        format!(
            "`input` holds token ids, and `tokenizer` does not name this model's; send texts (LangChain: check_embedding_ctx_length=False), \
             or ids of this model's own tokenizer with `tokenizer` \"{}\"",
            model.id()
        ),
    )
    .param("input"))
}

/// An answer is in memory as numbers, as JSON, padded, and sealed.
const ANSWER_COPIES: usize = 4;

/// Upper bound on the size of the answer in bytes. Refuses, before any inference, answers that are too large to be sealed.
fn answer_size(
    inputs: &Inputs,
    dimension: usize,
    format: Format,
    is_stream: bool,
) -> Result<usize, ApiError> {
    let count = match inputs {
        Inputs::Texts(texts) => texts.len(),
        Inputs::Pieces(lists) => lists.len(),
    };
    let row = match format {
        // "-1.2345678e-10," is the longest form of a component of a unit vector.
        Format::Float => dimension * 15,
        Format::Base64 => (dimension * 4).div_ceil(3) * 4,
        Format::Tensors => Vectors::size(dimension).0,
    };
    // 128 bytes around each row, and AROUND_ROWS around all rows. PADMÉ adds at most an eighth to a part of a stream.
    let row = match is_stream {
        true => (row + 128).div_ceil(8) * 9,
        false => row + 128,
    };
    let most = (MAX_RESPONSE - AROUND_ROWS) / row;
    if count > most {
        let message = format!(
            "the answer would be too large to be sealed; send at most {most} items, or ask for `encoding_format` \"base64\" or fewer `dimensions`"
        );
        return Err(ApiError::bad_request("TOO_MANY_INPUTS", message).param("input"));
    }
    Ok(count * row)
}

/// Upper bound on the other members of an answer in bytes, including the prompt and the names of the model and of ignored members.
/// JSON writes a control character in six bytes.
const AROUND_ROWS: usize = 16 * 1024 + 6 * MAX_PROMPT_BYTES;

/// Keeps the first `dimension` components of each row, and gives them unit length again if the whole rows have it.
pub(super) fn truncate_rows(
    mut embeddings: Embeddings,
    dimension: usize,
    normalised: bool,
) -> Embeddings {
    let full = embeddings.dimension;
    if dimension < full {
        for index in 0..embeddings.items.len() {
            embeddings
                .values
                .copy_within(index * full..index * full + dimension, index * dimension);
        }
        embeddings
            .values
            .truncate(embeddings.items.len() * dimension);
        if normalised {
            let rows = embeddings.values.chunks_exact_mut(dimension);
            rows.for_each(normalise);
        }
        embeddings.dimension = dimension;
    }
    embeddings
}

fn respond(
    format: Format,
    content: Option<Vec<u8>>,
    model: &ServedModel,
) -> Result<Response, ApiError> {
    let kind = match format {
        Format::Tensors => protocol::vectors::MEDIA_TYPE,
        Format::Float | Format::Base64 => "application/json",
    };
    let content = content.ok_or_else(response_failed)?;
    let mut response = ([(header::CONTENT_TYPE, kind)], zeroizing(content)).into_response();
    let inference = Inference(Arc::clone(&model.identity));
    response.extensions_mut().insert(inference);
    Ok(response)
}

fn response_failed() -> ApiError {
    ApiError::new(
        axum::http::StatusCode::INTERNAL_SERVER_ERROR,
        "RESPONSE_FAILED",
        "the response could not be written; try again",
    )
}

fn encode_tensors(
    items: Option<[u8; 32]>,
    prompt: &str,
    mut embeddings: Embeddings,
) -> Option<Vec<u8>> {
    let each = embeddings.items.iter();
    let mut vectors = Vectors {
        items,
        tokens: each
            .clone()
            .map(|item| u32::try_from(item.tokens).unwrap_or(u32::MAX))
            .collect(),
        truncated: each.map(|item| item.truncated).collect(),
        dimension: embeddings.dimension,
        values: std::mem::take(&mut *embeddings.values),
    };
    let encoded = vectors.encode();
    vectors.values.zeroize();
    let mut encoded = Zeroizing::new(encoded.ok()?);
    if !prompt.is_empty() {
        let mut all = Vec::with_capacity(encoded.len() + prompt.len() + 256);
        all.extend_from_slice(&encoded);
        append_prompt(prompt, &mut all).ok()?;
        return Some(all);
    }
    Some(std::mem::take(&mut *encoded))
}

/// `max_size` is an upper bound in bytes: a buffer that grows would leave copies in freed memory.
fn encode_json(
    model: &str,
    embeddings: &Embeddings,
    clearseal: Remarks<'_>,
    format: Format,
    max_size: usize,
) -> Option<Vec<u8>> {
    let prompt_tokens = embeddings.items.iter().map(|item| item.tokens).sum();
    let data = Data {
        embeddings,
        format,
        first: 0,
    };
    let body = Body {
        clearseal,
        object: "list",
        data,
        model,
        usage: Usage {
            prompt_tokens,
            total_tokens: prompt_tokens,
        },
    };
    let mut json = Vec::with_capacity(max_size + AROUND_ROWS);
    match serde_json::to_writer(&mut json, &body) {
        Ok(()) => Some(json),
        Err(_) => {
            json.zeroize();
            None
        }
    }
}

/// Vectors, in the order of their inputs.
// `clearseal` is first, so that the content of an answer begins with `items::MARKER`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Embeddings"))]
#[derive(Serialize)]
pub(super) struct Body<'a> {
    clearseal: Remarks<'a>,
    #[cfg_attr(test, schemars(extend("const" = "list")))]
    object: &'static str,
    #[cfg_attr(test, schemars(with = "Vec<Datum<'a>>"))]
    data: Data<'a>,
    /// The model's first name, also where the request used another.
    model: &'a str,
    usage: Usage,
}

/// Extensions to OpenAI's format, about the whole request.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct Remarks<'a> {
    /// Root of the tree over the items, which the receipt commits to.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<String>,
    /// Text that the model read before each input, chosen by the request or the model's default.
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt: &'a str,
    /// Names of the model's prompts, where it read none: the request chose none, and the model has no default.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    prompts_available: &'a [&'a str],
    /// Names of members of the request that have no effect here.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ignored: &'a [String],
}

/// Number of tokens that the model read.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct Usage {
    /// Of all inputs.
    prompt_tokens: usize,
    /// The same: nothing is generated.
    total_tokens: usize,
}

/// Writes rows directly from the engine's memory.
struct Data<'a> {
    embeddings: &'a Embeddings,
    format: Format,
    /// Place of the first row.
    first: usize,
}

impl Data<'_> {
    /// Passes each row to `write`, until that fails.
    fn each<E>(&self, mut write: impl FnMut(&Datum<'_>) -> Result<(), E>) -> Result<(), E> {
        let rows = self
            .embeddings
            .values
            .chunks_exact(self.embeddings.dimension);
        for (index, (row, item)) in (self.first..).zip(rows.zip(&self.embeddings.items)) {
            let encoded = match self.format {
                Format::Float | Format::Tensors => None,
                Format::Base64 => Some(encode_base64(row)),
            };
            write(&Datum {
                object: "embedding",
                index,
                embedding: match &encoded {
                    None => Vector::Float(row),
                    Some(text) => Vector::Base64(text),
                },
                clearseal: Extension {
                    tokens: item.tokens,
                    truncated: item.truncated,
                },
            })?;
        }
        Ok(())
    }
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.embeddings.items.len()))?;
        self.each(|row| list.serialize_element(row))?;
        list.end()
    }
}

/// One vector.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Embedding"))]
#[derive(Serialize)]
struct Datum<'a> {
    #[cfg_attr(test, schemars(extend("const" = "embedding")))]
    object: &'static str,
    /// Place of its input.
    index: usize,
    embedding: Vector<'a>,
    clearseal: Extension,
}

/// Extensions to OpenAI's format, about one item.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ItemRemarks"))]
#[derive(Serialize)]
struct Extension {
    /// Tokens of the input that the model read.
    tokens: usize,
    /// Whether there were more tokens, which the model did not read.
    truncated: bool,
}

/// Components of a vector.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
#[serde(untagged)]
enum Vector<'a> {
    /// Numbers.
    Float(&'a [f32]),
    /// The same, little-endian float32.
    Base64(&'a str),
}

/// Little-endian float32, as OpenAI does.
fn encode_base64(row: &[f32]) -> Zeroizing<String> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(size_of_val(row)));
    bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
    Zeroizing::new(Base64::encode_string(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Item as EmbeddedItem;

    #[test]
    fn answers_that_are_too_large_to_be_sealed_are_refused_first() {
        let inputs = |count| Inputs::Texts(vec!["x".to_owned(); count]);
        // 2,048 is OpenAI's limit, 384 this model's dimension.
        assert!(answer_size(&inputs(2048), 384, Format::Float, false).is_ok());
        assert!(answer_size(&inputs(2048), 1536, Format::Float, false).is_err());
        assert!(answer_size(&inputs(2048), 1024, Format::Base64, false).is_ok());
        assert!(answer_size(&inputs(2048), 4096, Format::Base64, false).is_err());
    }

    #[test]
    fn truncated_rows_are_prefixes_of_the_length_that_whole_rows_have() {
        let item = EmbeddedItem {
            tokens: 3,
            truncated: false,
        };
        let embeddings = || Embeddings {
            values: vec![0.6, 0.8, 0., 0., 0., 0., 0.6, 0.8].into(),
            dimension: 4,
            items: vec![item; 2],
        };
        let short = truncate_rows(embeddings(), 3, false);
        assert_eq!(*short.values, [0.6, 0.8, 0., 0., 0., 0.6]);
        let short = truncate_rows(embeddings(), 3, true);
        assert_eq!(*short.values, [0.6, 0.8, 0., 0., 0., 1.]);
        assert_eq!(short.dimension, 3);
    }

    #[test]
    fn base64_is_little_endian_float32() {
        assert_eq!(
            Base64::decode_vec(&encode_base64(&[1.0, -2.5])).unwrap(),
            [0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]
        );
    }
}
