//! `POST /v1/rerank`: scores documents for a query, in the form that Jina's, Cohere's and vLLM's clients share.

use std::sync::Arc;

use attestation::JsonInteger;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Extensions, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::{EmbedError, Embeddings, MAX_TEXT_BYTES, Overlong, Pairs};
use protocol::inner::MAX_RESPONSE;
use protocol::items::{TokenUsage, item_salt, leaf, pair_hash, root, root_text, vector_hash};
use protocol::json::JsonText;
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use super::body::zeroizing;
use super::commitments::Salt;
use super::counters::Inference;
use super::error::ApiError;
use super::input::{MAX_INPUTS, TOO_MANY};
use super::models::ServedModel;
use super::offload::offload;
use super::request::{Ignored, InvalidBody, read_once};
use super::request_error::refuse_text;
use super::state::InnerState;

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
/// Most bytes of the query, counted once for each document: as many as of documents in the largest request.
const MAX_QUERY_BYTES: usize = 4 << 20;
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

/// A query, and the documents to score for it. Other members are ignored, and named in the answer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RerankRequest {
    /// A name of a model that reranks, as `GET /v1/models` lists them.
    pub(super) model: String,
    #[cfg_attr(test, schemars(flatten, with = "PairsSchema"))]
    pub(super) pairs: Pairs,
    /// Number of results, the best ones; all by default.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(super) top_n: Option<usize>,
    /// Whether results hold their documents; `false` by default.
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) return_documents: bool,
    /// Whether a pair that is longer than the model reads is truncated (the default) or refused (`INPUT_TOO_LONG`).
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) truncate: bool,
    /// Names of members that have no effect here.
    #[cfg_attr(test, schemars(skip))]
    pub(super) ignored: Ignored,
}

impl RerankRequest {
    fn read(body: &[u8]) -> Result<Self, ApiError> {
        let text = JsonText::read(body);
        let text = text.map_err(|error| ApiError::from(InvalidBody::Text(error)))?;
        serde_json::from_str(&text).map_err(|error| refuse_text(&error, FORM))
    }

    /// Refuses a request without a text to score.
    fn check(&self) -> Result<(), ApiError> {
        let empty = |member: &'static str| {
            let message = format!("`{member}` holds nothing to score; send a text");
            Err(ApiError::bad_request("INPUT_EMPTY", message).param(member))
        };
        let Pairs { query, documents } = &self.pairs;
        if query.is_empty() {
            return empty("query");
        }
        if documents.is_empty() || documents.iter().any(String::is_empty) {
            return empty("documents");
        }
        if query.len() > MAX_TEXT_BYTES {
            return Err(ApiError::bad_request(
                "TEXT_TOO_LONG",
                format!(
                    "`query` has {} bytes; at most {MAX_TEXT_BYTES} are taken",
                    query.len()
                ),
            )
            .param("query"));
        }
        if query.len().saturating_mul(documents.len()) > MAX_QUERY_BYTES {
            return Err(ApiError::bad_request(
                "TOO_MANY_INPUTS",
                format!(
                    "the query is read once for each document, and that may be {MAX_QUERY_BYTES} bytes in one request; send fewer documents, or a \
                     shorter query"
                ),
            )
            .param("documents"));
        }
        if self.top_n == Some(0) {
            return Err(ApiError::bad_request(
                "TOP_N_INVALID",
                "`top_n` must be 1 or more; leave it out for all",
            )
            .param("top_n"));
        }
        Ok(())
    }
}

const FORM: &str = "a rerank request: `model` and `query` are strings; `documents` a list of strings, or of objects with `text`; `top_n` a whole number; \
     `return_documents` and `truncate` true or false; each at most once";

/// The members of [`Pairs`].
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "it only describes the form")]
struct PairsSchema {
    /// The text that documents are scored for.
    #[schemars(length(min = 1))]
    query: String,
    /// At most 2,048 texts, or objects with the member `text`.
    #[schemars(length(min = 1, max = 2048))]
    documents: Vec<DocumentSchema>,
}

/// A text, or an object that holds one.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "Document", untagged)]
#[allow(dead_code, reason = "it only describes the form")]
enum DocumentSchema {
    Text(String),
    Object { text: String },
}

/// A text; zeroized when dropped.
struct Query(Zeroizing<String>);

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

/// At most [`MAX_INPUTS`] texts; zeroized when dropped.
struct Documents(Zeroizing<Vec<String>>);

impl<'de> Deserialize<'de> for Documents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Documents;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of documents")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Documents, A::Error> {
                let mut all = Zeroizing::new(Vec::new());
                while let Some(Document(text)) = items.next_element()? {
                    if all.len() == MAX_INPUTS {
                        return Err(de::Error::custom(TOO_MANY));
                    }
                    all.push(text);
                }
                Ok(Documents(all))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// A text, or an object with the member `text`. Serde's untagged enums buffer an object's other members, and a copy of the text.
struct Document(String);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrObject;
        impl<'de> Visitor<'de> for TextOrObject {
            type Value = Document;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string, or an object with `text`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Document, E> {
                Ok(Document(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut text = None;
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "text" => read_once(&mut text, "text", &mut map)?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                let text = text.ok_or_else(|| de::Error::missing_field("text"))?;
                Ok(Document(text))
            }
        }
        deserializer.deserialize_any(TextOrObject)
    }
}

impl<'de> Deserialize<'de> for RerankRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RerankRequest;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a rerank request")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut model = None;
                let mut query: Option<Query> = None;
                let mut documents: Option<Documents> = None;
                let mut top_n: Option<Option<JsonInteger<usize>>> = None;
                let mut return_documents: Option<Option<bool>> = None;
                let mut truncate: Option<Option<bool>> = None;
                let mut user: Option<Option<String>> = None;
                let mut ignored = Ignored::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "model" => read_once(&mut model, "model", &mut map)?,
                        "query" => read_once(&mut query, "query", &mut map)?,
                        "documents" => read_once(&mut documents, "documents", &mut map)?,
                        "top_n" => read_once(&mut top_n, "top_n", &mut map)?,
                        "return_documents" => {
                            read_once(&mut return_documents, "return_documents", &mut map)?;
                        }
                        "truncate" => read_once(&mut truncate, "truncate", &mut map)?,
                        "user" => read_once(&mut user, "user", &mut map)?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            ignored.push(&name);
                        }
                    }
                }
                let model = model.ok_or_else(|| de::Error::missing_field("model"))?;
                let Query(mut query) = query.ok_or_else(|| de::Error::missing_field("query"))?;
                let documents = documents.ok_or_else(|| de::Error::missing_field("documents"));
                let Documents(mut documents) = documents?;
                Ok(RerankRequest {
                    model,
                    pairs: Pairs {
                        query: std::mem::take(&mut query),
                        documents: std::mem::take(&mut documents),
                    },
                    top_n: top_n.flatten().map(|JsonInteger(number)| number),
                    return_documents: return_documents.flatten().unwrap_or(false),
                    truncate: truncate.flatten().unwrap_or(true),
                    ignored,
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
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

    fn read(json: &str) -> Result<RerankRequest, ApiError> {
        let request = RerankRequest::read(json.as_bytes())?;
        request.check().map(|()| request)
    }

    #[test]
    fn documents_are_texts_or_objects_that_hold_one() {
        let request = read(
            r#"{"priority":1,"model":"m","query":"q","documents":["a",{"text":"b","id":7}],"top_n":1.0,"return_documents":null}"#,
        )
        .unwrap();
        assert_eq!(request.pairs.documents, ["a", "b"]);
        assert_eq!(request.ignored.0, ["priority"]);
        assert_eq!((request.top_n, request.return_documents), (Some(1), false));
        assert!(request.truncate);
    }

    #[test]
    fn other_requests_are_refused_without_a_quotation() {
        for (json, code) in [
            (
                r#"{"model":"m","query":"SECRET","documents":[]}"#,
                "INPUT_EMPTY",
            ),
            (
                r#"{"model":"m","query":"","documents":["SECRET"]}"#,
                "INPUT_EMPTY",
            ),
            (
                r#"{"model":"m","query":"SECRET","documents":["a",""]}"#,
                "INPUT_EMPTY",
            ),
            (
                r#"{"model":"m","query":"q","documents":["SECRET"],"top_n":0}"#,
                "TOP_N_INVALID",
            ),
            (
                r#"{"model":"m","query":"q","documents":"SECRET"}"#,
                "REQUEST_INVALID",
            ),
            (
                r#"{"model":"m","query":"q","query":"SECRET","documents":["a"]}"#,
                "REQUEST_INVALID",
            ),
            (r#"{"model":"m","documents":["SECRET"]}"#, "REQUEST_INVALID"),
            (r#"{"model":"m","query":"SECRET"#, "JSON_INVALID"),
        ] {
            let error = read(json).err().unwrap();
            assert_eq!((error.status.as_u16(), error.code), (400, code), "{json}");
            assert!(!error.message.contains("SECRET"), "{}", error.message);
        }
    }

    #[test]
    fn a_query_is_not_read_for_ever() {
        let query = "q".repeat(64 * 1024);
        let ask = |query: &str, documents: usize| {
            let documents = vec!["a"; documents];
            let body = serde_json::json!({"model": "m", "query": query, "documents": documents});
            read(&body.to_string()).map_err(|error| (error.code, error.param))
        };
        assert!(ask(&query, 64).is_ok());
        let refused = |outcome: Result<RerankRequest, _>| outcome.err().unwrap();
        assert_eq!(
            refused(ask(&query, 65)),
            ("TOO_MANY_INPUTS", Some("documents"))
        );
        assert_eq!(refused(ask("q", 2049)), ("TOO_MANY_INPUTS", None));
        assert_eq!(
            refused(ask(&format!("{query}q"), 1)),
            ("TEXT_TOO_LONG", Some("query"))
        );
    }

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
        let mut request = read(r#"{"model":"m","query":"q","documents":["a"]}"#).unwrap();
        request.pairs.documents = vec!["x".repeat(MAX_RESPONSE / 6)];
        assert!(answer_size(&request).is_ok());
        request.return_documents = true;
        assert!(answer_size(&request).is_err());
    }
}
