//! `POST /v1/rerank`: scores documents for a query, in the form that Jina's, Cohere's and vLLM's clients share.

mod request;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Extensions, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{EmbedError, Embeddings, Overlong, Pairs};
use protocol::inner::MAX_RESPONSE;
use protocol::items::{TokenUsage, item_salt, leaf, pair_hash, root, root_text, vector_hash};
use serde::Serialize;
use zeroize::Zeroize as _;

use super::body::zeroizing;
use super::commitments::Salt;
use super::counters::Inference;
use super::error::ApiError;
use super::models::ServedModel;
use super::offload::offload;
use super::state::InnerState;
pub(super) use request::RerankRequest;

pub(super) async fn rerank(
    State(state): State<Arc<InnerState>>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let request = offload(body.len(), || RerankRequest::read(&body))?;
    let model = state.models.find(&request.model)?;
    let reranker = model.reranker()?;
    request.check()?;
    let size = answer_size(&request)?;
    // Reserved before computing, so that no answer is computed for which there is no memory.
    let room = (size * ANSWER_COPIES).max(ids_size(&request.pairs, reranker.max_tokens()));
    let room = state.answers.reserve(room).await?;
    let overlong = match request.truncate {
        true => Overlong::Cut,
        false => Overlong::Refuse,
    };
    let pairs = Arc::new(request.pairs);
    let scored = reranker.rerank(Arc::clone(&pairs), overlong).await;
    let scored = scored.map_err(blame_documents)?;
    let mut order: Vec<usize> = (0..scored.items.len()).collect();
    // The best first; equal ones in their order.
    order.sort_by(|a, b| scored.values[*b].total_cmp(&scored.values[*a]));
    order.truncate(request.top_n.unwrap_or(usize::MAX));
    let salt = extensions.get::<Salt>();
    let content = offload(size, || {
        let root = salt.map(|salt| commit(&pairs, &scored, &order, salt));
        let results = order.iter().map(|&index| ScoredDocument {
            index,
            relevance_score: scored.values[index],
            document: request.return_documents.then(|| DocumentText {
                text: &pairs.documents[index],
            }),
            clearseal: Extension {
                tokens: scored.items[index].tokens,
                truncated: scored.items[index].truncated,
            },
        });
        let total_tokens = scored.items.iter().map(|item| item.tokens).sum();
        let body = Body {
            clearseal: Remarks {
                items: root.as_ref().map(root_text),
                ignored: &request.ignored.0,
            },
            model: model.id(),
            results: results.collect(),
            usage: Usage {
                prompt_tokens: total_tokens,
                total_tokens,
            },
        };
        encode(&body, size)
    });
    let mut response = respond(content, model)?;
    response.extensions_mut().insert(room);
    Ok(response)
}

/// The engine calls the texts of a request `input`; [`check`](RerankRequest::check) has judged the query.
fn blame_documents(error: EmbedError) -> ApiError {
    let error = ApiError::from(error);
    match error.param {
        Some(_) => error.param("documents"),
        None => error,
    }
}

/// Root of the tree over the results, in their order: each leaf commits to the query, the document and the score.
fn commit(pairs: &Pairs, scored: &Embeddings, order: &[usize], salt: &Salt) -> [u8; 32] {
    root((0..).zip(order).map(|(place, &index)| {
        let salt = item_salt(&salt.0, place);
        let item = scored.items[index];
        let read = TokenUsage {
            tokens: u32::try_from(item.tokens).unwrap_or(u32::MAX),
            truncated: item.truncated,
        };
        let input = pair_hash(&salt, &pairs.query, &pairs.documents[index]);
        let score = vector_hash(&salt, &scored.values[index..=index]);
        leaf(place, &input, &score, read)
    }))
}

/// An answer is in memory as JSON, padded, and sealed.
const ANSWER_COPIES: usize = 3;
/// Upper bound on the members around the results, in bytes.
const AROUND_RESULTS: usize = 16 * 1024;
/// Upper bound on a result without its document, in bytes.
const RESULT_BYTES: usize = 160;
/// Upper bound on the special tokens of a pair.
const SPECIAL_TOKENS: usize = 8;
/// JSON writes a control character in six bytes.
const MOST_ESCAPED: usize = 6;

/// Upper bound on the size of the answer in bytes. Refuses, before any inference, answers that are too large to be sealed.
fn answer_size(request: &RerankRequest) -> Result<usize, ApiError> {
    let texts: usize = match request.return_documents {
        true => request.pairs.documents.iter().map(String::len).sum(),
        false => 0,
    };
    let results = request.pairs.documents.len() * RESULT_BYTES;
    let size = AROUND_RESULTS + results + MOST_ESCAPED * texts;
    if size > MAX_RESPONSE {
        return Err(ApiError::bad_request(
            "TOO_MANY_INPUTS",
            "the answer might be too large to be sealed; leave `return_documents` out, or send fewer documents",
        )
        .param("documents"));
    }
    Ok(size)
}

/// Upper bound on the size of all pairs' token ids in bytes; they are in memory until the last pair is scored, which is before the
/// answer is written. Special tokens aside, no token is shorter than a byte.
fn ids_size(pairs: &Pairs, max_tokens: usize) -> usize {
    let tokens = pairs.documents.iter().map(|document| {
        let bytes = pairs.query.len() + document.len();
        (bytes + SPECIAL_TOKENS).min(max_tokens)
    });
    tokens.sum::<usize>() * size_of::<u32>()
}

/// `max_size` is an upper bound in bytes: a buffer that grows would leave copies in freed memory.
fn encode(body: &Body<'_>, max_size: usize) -> Option<Vec<u8>> {
    let mut json = Vec::with_capacity(max_size);
    match serde_json::to_writer(&mut json, body) {
        Ok(()) => Some(json),
        Err(_) => {
            json.zeroize();
            None
        }
    }
}

fn respond(content: Option<Vec<u8>>, model: &ServedModel) -> Result<Response, ApiError> {
    let content = content.ok_or_else(|| {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "RESPONSE_FAILED",
            "the response could not be written; try again",
        )
    })?;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (kind, zeroizing(content)).into_response();
    let inference = Inference(Arc::clone(&model.identity));
    response.extensions_mut().insert(inference);
    Ok(response)
}

/// Scored documents, the best first.
// `clearseal` is first, so that the content of an answer begins with `items::MARKER`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Ranking"))]
#[derive(Serialize)]
pub(super) struct Body<'a> {
    clearseal: Remarks<'a>,
    /// The model's first name, also where the request used another.
    model: &'a str,
    results: Vec<ScoredDocument<'a>>,
    usage: Usage,
}

/// Extensions about the whole request.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RankingRemarks"))]
#[derive(Serialize)]
struct Remarks<'a> {
    /// Root of the tree over the results, which the receipt commits to.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<String>,
    /// Names of members of the request that have no effect here.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ignored: &'a [String],
}

/// One document.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct ScoredDocument<'a> {
    /// Place in the request.
    index: usize,
    /// The model's score of query and document: the higher, the better.
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<DocumentText<'a>>,
    clearseal: Extension,
}

/// The document as it came.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct DocumentText<'a> {
    text: &'a str,
}

/// Extensions about one document.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "PairRemarks"))]
#[derive(Serialize)]
struct Extension {
    /// Tokens of the pair that the model read.
    tokens: usize,
    /// Whether there were more tokens, which the model did not read.
    truncated: bool,
}

/// Number of tokens that the model read.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RankingUsage"))]
#[derive(Serialize)]
struct Usage {
    /// Of all pairs, those of the query once for each.
    prompt_tokens: usize,
    /// The same: nothing is generated.
    total_tokens: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_token_ids_is_bounded_by_texts_and_by_the_model() {
        let pairs = |query: usize, documents: usize| Pairs {
            query: "q".repeat(query),
            documents: vec!["d".to_owned(); documents],
        };
        assert_eq!(ids_size(&pairs(1, 3), 512), 3 * (2 + SPECIAL_TOKENS) * 4);
        assert_eq!(ids_size(&pairs(2000, 2048), 512), 2048 * 512 * 4);
    }

    #[test]
    fn answers_that_are_too_large_to_be_sealed_are_refused_first() {
        let body = br#"{"model":"m","query":"q","documents":["a"]}"#;
        let mut request = RerankRequest::read(body).ok().unwrap();
        request.pairs.documents = vec!["x".repeat(MAX_RESPONSE / 6)];
        assert!(answer_size(&request).is_ok());
        request.return_documents = true;
        assert!(answer_size(&request).is_err());
    }
}
