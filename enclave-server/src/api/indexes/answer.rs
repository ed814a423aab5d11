//! Answers about indexes.
//!
//! `clearseal.index` states the version that answered: its root and head follow from its members. The receipt commits to all of it.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use engine::Embeddings;
use protocol::inner::MAX_RESPONSE;
use sealed_index::{Found, Index, IndexId, Metadata, RowProof, Statement};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use zeroize::{Zeroize as _, Zeroizing};

use crate::api::body::zeroizing;
use crate::api::counters::Inference;
use crate::api::error::ApiError;
use crate::api::models::ServedModel;
use crate::indexes::Changed;

/// Upper bound on the members around rows in bytes: statement, prompt and names, which JSON may escape.
const AROUND_ROWS: usize = 128 * 1024;
/// JSON writes a control character in six bytes.
const MOST_ESCAPED: usize = 6;
/// Upper bound on the numbers and names of a result, in bytes.
const RESULT_BYTES: usize = 256;
/// "-1.2345678e-10," is the longest form of a number.
const NUMBER_BYTES: usize = 15;
/// Upper bound on a proof in bytes: 256 hashes in base64url, seven in hex.
const PROOF_BYTES: usize = 12 * 1024;

/// The answer to the creation or compaction of an index.
pub(super) fn description(index: &Index, model: &ServedModel) -> Result<Response, ApiError> {
    let mut response = reading(index)?;
    let inference = Inference(Arc::clone(&model.identity));
    response.extensions_mut().insert(inference);
    Ok(response)
}

/// The answer to a request that only reads.
pub(super) fn reading(index: &Index) -> Result<Response, ApiError> {
    respond(
        &Description {
            clearseal: Remarks::of(index),
            object: "index",
            segments: index.segments(),
            memory: index.memory(),
        },
        AROUND_ROWS,
    )
}

/// The answer to a change.
pub(super) fn changed(
    changed: &Changed,
    usage: Usage,
    model: &ServedModel,
) -> Result<Response, ApiError> {
    let answer = ChangeAnswer {
        clearseal: Remarks::of(&changed.index),
        object: "index.change",
        model: model.id(),
        put: changed.put,
        deleted: changed.deleted,
        usage,
    };
    let mut response = respond(&answer, AROUND_ROWS)?;
    let inference = Inference(Arc::clone(&model.identity));
    response.extensions_mut().insert(inference);
    Ok(response)
}

/// The answer to a deletion.
pub(super) fn deleted(
    id: &IndexId,
    objects: usize,
    model: Option<&ServedModel>,
) -> Result<Response, ApiError> {
    let answer = DeletedIndex {
        id: id.to_string(),
        object: "index.deleted",
        objects,
    };
    let mut response = respond(&answer, AROUND_ROWS)?;
    let inference = model.map(|model| Inference(Arc::clone(&model.identity)));
    if let Some(inference) = inference {
        response.extensions_mut().insert(inference);
    }
    Ok(response)
}

/// An index.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Index"))]
#[derive(Serialize)]
pub(in crate::api) struct Description {
    clearseal: Remarks,
    #[cfg_attr(test, schemars(extend("const" = "index")))]
    object: &'static str,
    /// Stored segments.
    segments: usize,
    /// Bytes of memory that it takes while it is opened.
    memory: usize,
}

/// A stored change.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "IndexChange"))]
#[derive(Serialize)]
pub(in crate::api) struct ChangeAnswer<'a> {
    clearseal: Remarks,
    #[cfg_attr(test, schemars(extend("const" = "index.change")))]
    object: &'static str,
    /// The model's first name.
    model: &'a str,
    /// Rows that were put.
    put: u64,
    /// Rows that were deleted. An id without a row is not counted.
    deleted: u64,
    usage: Usage,
}

/// A deleted index.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(in crate::api) struct DeletedIndex {
    id: String,
    #[cfg_attr(test, schemars(extend("const" = "index.deleted")))]
    object: &'static str,
    /// Stored objects that were deleted.
    objects: usize,
}

/// Extensions about the whole answer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "IndexRemarks"))]
#[derive(Serialize)]
struct Remarks {
    #[cfg_attr(test, schemars(with = "StatementSchema"))]
    index: Statement,
}

impl Remarks {
    fn of(index: &Index) -> Self {
        let index = index.statement();
        Self { index }
    }
}

/// One version of an index. Its root and head follow from these members (docs/INDEX.md).
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "IndexVersion")]
#[allow(dead_code, reason = "it only describes the form")]
struct StatementSchema {
    /// The index, 32 hexadecimal digits.
    id: String,
    /// Number of changes since it was made.
    version: u64,
    /// Head of the version before, in hex; zeros for version 0.
    previous: String,
    /// Number of rows.
    rows: u64,
    /// Root of the map of the rows, in hex.
    map: String,
    settings: SettingsSchema,
}

/// Settings of an index, which never change.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "IndexSettings")]
#[allow(dead_code, reason = "it only describes the form")]
struct SettingsSchema {
    /// First name of the model.
    model: String,
    /// Hash of the model's files, as in receipts, in hex.
    model_hash: String,
    /// Text that the model reads before each row.
    prompt: Option<String>,
    /// Numbers of a vector.
    dimensions: u32,
    /// `f32`, `f16` or `int8`.
    precision: String,
}

/// Number of tokens that the model read.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "IndexUsage"))]
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Usage {
    /// Of all texts.
    prompt_tokens: usize,
    /// The same: nothing is generated.
    total_tokens: usize,
}

impl Usage {
    pub(super) fn of(embeddings: &Embeddings) -> Self {
        let tokens = embeddings.items.iter().map(|item| item.tokens).sum();
        Self {
            prompt_tokens: tokens,
            total_tokens: tokens,
        }
    }
}

/// Places in the results of the search, and the scores of the second model, the best first; for each query.
pub(super) struct Reranked<'a> {
    pub(super) model: &'a ServedModel,
    pub(super) each: Vec<Vec<(usize, f32)>>,
}

/// The results of a search, not written yet.
pub(super) struct SearchAnswer<'a> {
    pub(super) index: &'a Index,
    pub(super) found: &'a [Vec<Found<'a>>],
    pub(super) searched: u64,
    pub(super) reranked: Option<&'a Reranked<'a>>,
    pub(super) candidates: Option<usize>,
    pub(super) k: usize,
    pub(super) prompt: &'a str,
    pub(super) is_list: bool,
    pub(super) has_text: bool,
    pub(super) has_metadata: bool,
    pub(super) has_vector: bool,
    pub(super) has_proof: bool,
    /// The content of the request, as it was read.
    pub(super) asked: Option<&'a str>,
    pub(super) usage: Usage,
}

impl SearchAnswer<'_> {
    /// Upper bound on the size of the answer in bytes.
    pub(super) fn size(&self) -> Result<usize, ApiError> {
        let dimensions = self.index.settings().dimensions as usize;
        let of = |found: &Found<'_>| {
            let text = found.row.text.filter(|_| self.has_text);
            let text = text.map_or(0, |text| text.len() * MOST_ESCAPED);
            let metadata = match self.has_metadata {
                true => sealed_index::MAX_METADATA * MOST_ESCAPED,
                false => 0,
            };
            let vector = match self.has_vector {
                true => dimensions * NUMBER_BYTES,
                false => 0,
            };
            let proof = match self.has_proof {
                true => PROOF_BYTES,
                false => 0,
            };
            RESULT_BYTES + found.row.id.len() * MOST_ESCAPED + text + metadata + vector + proof
        };
        let kept = |(number, found): (usize, &Vec<Found<'_>>)| -> usize {
            match self.reranked.and_then(|reranked| reranked.each.get(number)) {
                Some(kept) => kept
                    .iter()
                    .filter_map(|(at, _)| found.get(*at))
                    .map(of)
                    .sum(),
                None => found.iter().map(of).sum(),
            }
        };
        let rows: usize = self.found.iter().enumerate().map(kept).sum();
        let size = AROUND_ROWS + self.asked.map_or(0, str::len) + rows;
        if size > MAX_RESPONSE {
            return Err(ApiError::bad_request(
                "INDEX_ANSWER_TOO_LARGE",
                "the answer might be too large to be sealed; lower `k`, or leave texts, vectors or proofs out of `include`",
            )
            .param("k"));
        }
        Ok(size)
    }

    pub(super) fn respond(&self, model: &ServedModel, size: usize) -> Result<Response, ApiError> {
        let asked = match self.asked {
            None => None,
            // The reader has accepted it as JSON.
            Some(asked) => Some(serde_json::from_str::<&RawValue>(asked).map_err(|_| failed())?),
        };
        let answer = QueryAnswer {
            clearseal: Remarks::of(self.index),
            object: "index.results",
            model: model.id(),
            prompt: self.prompt,
            k: self.k,
            searched: self.searched,
            rerank: self.reranked.map(|reranked| RerankRemarks {
                model: reranked.model.id(),
                model_hash: base16ct::lower::encode_string(&reranked.model.identity.sha256),
                candidates: self.candidates.unwrap_or(self.k),
            }),
            results: Results(self),
            asked,
            usage: self.usage,
        };
        let mut response = respond(&answer, size)?;
        let inference = Inference(Arc::clone(&model.identity));
        response.extensions_mut().insert(inference);
        Ok(response)
    }

    /// The results of one query, the best first.
    fn list(&self, number: usize) -> Vec<IndexResult<'_>> {
        let found = self
            .found
            .get(number)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let kept = self.reranked.and_then(|reranked| reranked.each.get(number));
        match kept {
            None => found.iter().map(|one| self.result(one, None)).collect(),
            Some(kept) => {
                let kept = kept.iter().filter_map(|(at, score)| {
                    let one = found.get(*at)?;
                    Some(self.result(one, Some(*score)))
                });
                kept.collect()
            }
        }
    }

    fn result<'a>(&'a self, found: &'a Found<'a>, reranked: Option<f32>) -> IndexResult<'a> {
        let proof = match self.has_proof {
            true => self.index.prove(found.row.id).row(),
            false => None,
        };
        let vector = match self.has_vector {
            true => self.index.vector(found).map(Zeroizing::new),
            false => None,
        };
        IndexResult {
            id: found.row.id,
            score: reranked.unwrap_or(found.score),
            similarity: reranked.map(|_| found.score),
            text: found.row.text.filter(|_| self.has_text),
            metadata: self.has_metadata.then(|| found.row.metadata()),
            vector: vector.map(Numbers),
            proof,
        }
    }
}

/// The rows that are most similar to a query, the best first; rows of equal score by id.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "IndexResults"))]
#[derive(Serialize)]
pub(in crate::api) struct QueryAnswer<'a> {
    clearseal: Remarks,
    #[cfg_attr(test, schemars(extend("const" = "index.results")))]
    object: &'static str,
    /// The model's first name.
    model: &'a str,
    /// Text that the model read before each query.
    #[serde(skip_serializing_if = "str::is_empty")]
    prompt: &'a str,
    /// Number of results that were asked for.
    k: usize,
    /// Rows whose vectors were compared: all of the index that the filter accepts.
    searched: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rerank: Option<RerankRemarks<'a>>,
    /// A list of lists if the request has a list of queries.
    #[cfg_attr(test, schemars(with = "Vec<IndexResult<'a>>"))]
    results: Results<'a>,
    /// The request as it was read, if `include` asks for it.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Value>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<&'a RawValue>,
    usage: Usage,
}

/// The model that scored the best rows again.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "IndexRerank"))]
#[derive(Serialize)]
struct RerankRemarks<'a> {
    model: &'a str,
    /// Hash of its files, in hex.
    model_hash: String,
    /// Rows that it read.
    candidates: usize,
}

/// Writes results one after another, so that not all proofs are in memory at once.
struct Results<'a>(&'a SearchAnswer<'a>);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(answer) = self;
        if !answer.is_list {
            return serializer.collect_seq(answer.list(0));
        }
        let mut lists = serializer.serialize_seq(Some(answer.found.len()))?;
        for number in 0..answer.found.len() {
            lists.serialize_element(&answer.list(number))?;
        }
        lists.end()
    }
}

/// A row that was found.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct IndexResult<'a> {
    id: &'a str,
    /// Dot product of the stored vector and the query, or the score of the model that reranks: the higher, the better.
    score: f32,
    /// The dot product, if the rows were scored again.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[cfg_attr(test, schemars(with = "Option<serde_json::Value>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    /// The stored vector.
    #[cfg_attr(test, schemars(with = "Option<Vec<f32>>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Numbers>,
    /// Proof that the row is in this version of the index.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Value>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<RowProof>,
}

struct Numbers(Zeroizing<Vec<f32>>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// `max_size` is an upper bound in bytes: a buffer that grows would leave copies in freed memory.
fn respond(body: &impl Serialize, max_size: usize) -> Result<Response, ApiError> {
    let mut json = Vec::with_capacity(max_size);
    if serde_json::to_writer(&mut json, body).is_err() {
        json.zeroize();
        return Err(failed());
    }
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((kind, zeroizing(json)).into_response())
}

fn failed() -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "RESPONSE_FAILED",
        "the response could not be written; try again",
    )
}
