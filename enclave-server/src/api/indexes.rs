//! `/v1/indexes`: private search over indexes whose keys only clients keep ([INDEX.md](../../../docs/INDEX.md)).
//!
//! Each request brings the key of its index in the field `clearseal-index-key`, inside the seal. Answers to changes and queries are
//! receipted as inferences of the index's model.

mod answer;
mod request;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Extensions, StatusCode};
use axum::response::Response;
use engine::{Embeddings, Inputs, Overlong, Pairs};
use sealed_index::{Change, ChangeError, Found, Index, IndexError, IndexKey, Row, Settings};
use zeroize::Zeroizing;

use super::embeddings::truncate_rows;
use super::error::ApiError;
use super::models::ServedModel;
use super::offload::offload;
use super::prompt::PromptChoice;
use super::state::InnerState;
use crate::indexes::IndexesError;
use crate::indexes::store::StoreError;
#[cfg(test)]
pub(super) use answer::{ChangeAnswer, DeletedIndex, Description, QueryAnswer};
use answer::{Reranked, SearchAnswer, Usage};
pub(super) use request::{AtRequest, ChangeIndexRequest, CreateIndexRequest, QueryIndexRequest};
use request::{Part, Queries, RowRequest};

/// Field with the key of the index, base64url without padding.
pub(super) const KEY_FIELD: &str = "clearseal-index-key";

/// The value of that field. It is taken from the fields of the request, because a `HeaderValue` is not zeroized.
#[derive(Clone)]
pub(super) struct KeyText(pub(super) Arc<Zeroizing<String>>);

/// `POST /v1/indexes`.
pub(super) async fn create(
    State(state): State<Arc<InnerState>>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let key = read_key(&extensions)?;
    let mut request = CreateIndexRequest::read(&body)?;
    let model = state.models.find(&request.model)?;
    let embedder = model.embedder()?;
    let no_texts = Inputs::Texts(Vec::new());
    let prompt = request.take_prompt();
    let prompt = prompt.resolve(embedder.prompts(), &no_texts)?;
    let full = embedder.dimension();
    let dimensions = request.dimensions().unwrap_or(full);
    if !(1..=full).contains(&dimensions) {
        return Err(ApiError::bad_request(
            "DIMENSIONS_INVALID",
            format!("`dimensions` must be 1 to {full}; leave it out for all"),
        )
        .param("dimensions"));
    }
    let settings = Settings {
        model_hash: model.identity.sha256,
        model: model.id().to_owned(),
        prompt: (!prompt.is_empty()).then(|| prompt.to_string()),
        dimensions: u32::try_from(dimensions).unwrap_or(u32::MAX),
        precision: request.precision(),
    };
    let index = state.indexes.create(&key, settings).await?;
    answer::description(&index, model)
}

/// `GET /v1/indexes/{id}`.
pub(super) async fn describe(
    State(state): State<Arc<InnerState>>,
    Path(id): Path<String>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let key = read_key_of(&extensions, &id)?;
    let request = AtRequest::read(&body)?;
    let index = state.indexes.open(&key, request.at.as_ref()).await?;
    answer::reading(&index)
}

/// `POST /v1/indexes/{id}/compact`.
pub(super) async fn compact(
    State(state): State<Arc<InnerState>>,
    Path(id): Path<String>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let key = read_key_of(&extensions, &id)?;
    let request = AtRequest::read(&body)?;
    let at = request.at.as_ref();
    let index = state.indexes.open(&key, at).await?;
    // Refused before anything is changed.
    let model = model_of(&state, &index)?;
    drop(index);
    let index = state.indexes.compact(&key, at).await?;
    answer::description(&index, model)
}

/// `DELETE /v1/indexes/{id}`.
pub(super) async fn delete(
    State(state): State<Arc<InnerState>>,
    Path(id): Path<String>,
    extensions: Extensions,
) -> Result<Response, ApiError> {
    let key = read_key_of(&extensions, &id)?;
    let objects = state.indexes.delete(&key).await?;
    // The index is not opened, so the receipt names the service's first model.
    answer::deleted(&key.id(), objects, state.models.iter().next())
}

/// `POST /v1/indexes/{id}/rows`.
pub(super) async fn change(
    State(state): State<Arc<InnerState>>,
    Path(id): Path<String>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let key = read_key_of(&extensions, &id)?;
    let request = offload(body.len(), || ChangeIndexRequest::read(&body))?;
    let at = request.at;
    let index = state.indexes.open(&key, at.as_ref()).await?;
    let model = model_of(&state, &index)?;
    // Rows are in memory as a request, as texts for the model, as rows of the index and sealed. A short text becomes a long vector.
    let vectors = request.rows.0.len() * index.settings().dimensions as usize * size_of::<f32>();
    let bytes = (body.len() + vectors) * CHANGE_COPIES;
    let room = state.answers.reserve(bytes).await?;
    let (rows, usage) = embed_rows(model, &index, request.rows.0).await?;
    let deleted = request.delete.0.into_iter().map(|id| Change::Delete(id.0));
    let changes = rows.into_iter().map(Change::Put).chain(deleted).collect();
    // Its memory is free once a newer version takes its place.
    drop(index);
    let kept = room.clone();
    let changed = state.indexes.change(&key, at.as_ref(), changes, kept);
    let changed = changed.await?;
    let mut response = answer::changed(&changed, usage, model)?;
    response.extensions_mut().insert(room);
    Ok(response)
}

/// See [`change`].
const CHANGE_COPIES: usize = 4;

/// Computes the vectors of rows that bring none.
async fn embed_rows(
    model: &ServedModel,
    index: &Index,
    rows: Vec<RowRequest>,
) -> Result<(Vec<Row>, Usage), ApiError> {
    let mut texts = Zeroizing::new(Vec::new());
    for row in &rows {
        match (&row.text, &row.vector) {
            (_, Some(_)) => {}
            (Some(text), None) if !text.0.is_empty() => texts.push(text.0.to_string()),
            _ => {
                return Err(ApiError::bad_request(
                    "INDEX_ROW_EMPTY",
                    "a row has neither a vector nor a text to compute one from; send one of them",
                )
                .param("rows"));
            }
        }
    }
    let prompt = index.settings().prompt.clone().unwrap_or_default();
    let embedded = embed(
        model,
        index,
        Zeroizing::new(prompt),
        std::mem::take(&mut texts),
    );
    let (embedded, usage) = embedded.await.map_err(|error| blame(error, "rows"))?;
    let mut computed = embedded.values.chunks_exact(embedded.dimension);
    let rows = rows.into_iter().map(|mut row| Row {
        computed: row.vector.is_none(),
        vector: match &mut row.vector {
            Some(vector) => std::mem::take(&mut vector.0),
            None => computed.next().unwrap_or_default().to_vec(),
        },
        id: std::mem::take(&mut row.id.0),
        text: row.text.as_mut().map(|text| std::mem::take(&mut *text.0)),
        metadata: row.metadata.take().unwrap_or_default(),
    });
    Ok((rows.collect(), usage))
}

/// Embeds texts with the model of the index, and reduces the vectors to its dimensions.
async fn embed(
    model: &ServedModel,
    index: &Index,
    prompt: Zeroizing<String>,
    texts: Vec<String>,
) -> Result<(Embeddings, Usage), ApiError> {
    let embedder = model.embedder()?;
    let dimensions = index.settings().dimensions as usize;
    if texts.is_empty() {
        let embeddings = Embeddings {
            values: Zeroizing::default(),
            dimension: dimensions.max(1),
            items: Vec::new(),
        };
        return Ok((embeddings, Usage::default()));
    }
    let inputs = Inputs::Texts(texts);
    let embeddings = embedder.embed_after(prompt, inputs, Overlong::Cut).await?;
    let usage = Usage::of(&embeddings);
    let normalised = embedder.is_normalised();
    let embeddings = truncate_rows(embeddings, dimensions, normalised);
    Ok((embeddings, usage))
}

/// `POST /v1/indexes/{id}/query`.
pub(super) async fn query(
    State(state): State<Arc<InnerState>>,
    Path(id): Path<String>,
    extensions: Extensions,
    body: Bytes,
) -> Result<Response, ApiError> {
    let key = read_key_of(&extensions, &id)?;
    let mut request = offload(body.len(), || QueryIndexRequest::read(&body))?;
    let index = state.indexes.open(&key, request.at.as_ref()).await?;
    let model = model_of(&state, &index)?;
    let (k, candidates) = (request.k(), request.candidates());
    let prompt = match request.take_prompt() {
        Some(choice) => resolve_prompt(choice, model)?,
        None => Zeroizing::new(index.settings().prompt.clone().unwrap_or_default()),
    };
    let (embedded, usage) = match &request.query.queries {
        Queries::Texts(texts) => {
            let embedded = embed(model, &index, prompt.clone(), texts.to_vec()).await;
            embedded.map_err(|error| blame(error, "query"))?
        }
        Queries::Vectors(_) => embed(model, &index, prompt.clone(), Vec::new()).await?,
    };
    let vectors: Vec<&[f32]> = match &request.query.queries {
        Queries::Texts(_) => embedded.values.chunks_exact(embedded.dimension).collect(),
        Queries::Vectors(vectors) => vectors.iter().map(|vector| &vector.0[..]).collect(),
    };
    let wanted = candidates.unwrap_or(k);
    let searched = offload(index.memory(), || {
        index.search(
            &vectors,
            wanted,
            request.filter.as_ref(),
            state.indexes.threads(),
        )
    });
    let (found, searched) = searched.map_err(|error| {
        ApiError::from(IndexesError::from(ChangeError::from(error))).param("query")
    })?;
    let reranked = match &request.rerank {
        Some(choice) => {
            let (name, queries) = (choice.model.as_deref(), &request.query.queries);
            Some(rerank(&state, name, queries, &found, k).await?)
        }
        None => None,
    };
    let has = |part| request.include.has(part);
    let asked = match has(Part::Asked) {
        true => Some(request::read_text(&body)?),
        false => None,
    };
    let answer = SearchAnswer {
        index: &index,
        found: &found,
        searched,
        reranked: reranked.as_ref(),
        candidates,
        k,
        prompt: &prompt,
        is_list: request.query.is_list,
        has_text: has(Part::Text),
        has_metadata: has(Part::Metadata),
        has_vector: has(Part::Vector),
        has_proof: has(Part::Proof),
        asked: asked.as_deref(),
        usage,
    };
    let size = answer.size()?;
    let room = state.answers.reserve(size * ANSWER_COPIES).await?;
    let mut response = offload(size, || answer.respond(model, size))?;
    response.extensions_mut().insert(room);
    Ok(response)
}

/// An answer is in memory as JSON, padded, and sealed.
const ANSWER_COPIES: usize = 3;

/// Most bytes of the texts that are reranked for one query.
const MAX_RERANKED: usize = 16 << 20;
/// Upper bound on the special tokens of a pair.
const SPECIAL_TOKENS: usize = 8;

/// Upper bounds on the copies of texts that the second model reads and on their token ids, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct RerankSize {
    texts: usize,
    tokens: usize,
}

impl RerankSize {
    fn of(query: &str, hits: &[Found<'_>], max_tokens: usize) -> Self {
        let mut size = Self::default();
        for text in hits.iter().filter_map(|hit| hit.row.text) {
            size.texts += text.len();
            // Special tokens aside, no token is shorter than a byte.
            let tokens = query.len() + text.len() + SPECIAL_TOKENS;
            size.tokens += tokens.min(max_tokens) * size_of::<u32>();
        }
        size
    }
}

/// Scores the texts of hits again, and keeps the best `k` of each query.
async fn rerank<'a>(
    state: &'a InnerState,
    name: Option<&str>,
    queries: &Queries,
    found: &[Vec<Found<'_>>],
    k: usize,
) -> Result<Reranked<'a>, ApiError> {
    let model = match name {
        Some(name) => state.models.find(name)?,
        None => {
            let mut models = state.models.iter().filter(|model| model.reranker().is_ok());
            match (models.next(), models.next()) {
                (Some(model), None) => model,
                _ => {
                    return Err(ApiError::bad_request(
                        "RERANK_MODEL_UNNAMED",
                        "this service has no model that reranks, or several; name one as `rerank.model`",
                    )
                    .param("rerank"));
                }
            }
        }
    };
    let reranker = model.reranker()?;
    let Queries::Texts(texts) = queries else {
        return Err(without_text("a query that is a vector"));
    };
    // The texts of one query are read at a time.
    let sizes = texts
        .iter()
        .zip(found)
        .map(|(query, hits)| RerankSize::of(query, hits, reranker.max_tokens()));
    let most = sizes.max().unwrap_or_default();
    if most.texts > MAX_RERANKED {
        return Err(ApiError::bad_request(
            "RERANK_TOO_LARGE",
            format!(
                "the texts to rerank have {} bytes, the limit is {MAX_RERANKED}; lower `rerank.candidates` or `k`, or store shorter texts",
                most.texts
            ),
        )
        .param("rerank"));
    }
    let _room = state.answers.reserve(most.texts + most.tokens).await?;
    let mut each = Vec::with_capacity(found.len());
    for (query, hits) in texts.iter().zip(found) {
        let mut pairs = Pairs {
            query: query.clone(),
            documents: Vec::with_capacity(hits.len()),
        };
        for hit in hits {
            match hit.row.text {
                Some(text) => pairs.documents.push(text.to_owned()),
                None => return Err(without_text("a row that has only a vector")),
            }
        }
        let mut scored: Vec<(usize, f32)> = match pairs.documents.is_empty() {
            true => Vec::new(),
            false => {
                let scored = reranker.rerank(Arc::new(pairs), Overlong::Cut).await?;
                scored.values.iter().copied().enumerate().collect()
            }
        };
        // The best first; equal ones in the order of the search.
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        scored.truncate(k);
        each.push(scored);
    }
    Ok(Reranked { model, each })
}

fn without_text(what: &str) -> ApiError {
    ApiError::bad_request(
        "RERANK_WITHOUT_TEXT",
        format!("{what} has no text that a model could read; leave `rerank` out, or store texts"),
    )
    .param("rerank")
}

fn resolve_prompt(
    choice: PromptChoice,
    model: &ServedModel,
) -> Result<Zeroizing<String>, ApiError> {
    choice.resolve(model.embedder()?.prompts(), &Inputs::Texts(Vec::new()))
}

/// The engine calls the texts of a request `input`.
fn blame(error: ApiError, member: &'static str) -> ApiError {
    match error.param {
        Some(_) => error.param(member),
        None => error,
    }
}

/// The model that made the index. Vectors of another one would have no meaning in it.
fn model_of<'a>(state: &'a InnerState, index: &Index) -> Result<&'a ServedModel, ApiError> {
    let hash = &index.settings().model_hash;
    let mut models = state.models.iter();
    let model = models.find(|model| model.identity.sha256 == *hash && model.embedder().is_ok());
    model.ok_or_else(|| {
        ApiError::new(
            StatusCode::CONFLICT,
            "INDEX_MODEL_MISSING",
            format!(
                "the index was made with the model `{}` in a version that this service does not hold; use a service that holds it, or embed the texts \
                 again into a new index",
                index.settings().model
            ),
        )
    })
}

/// The key of a request.
fn read_key(extensions: &Extensions) -> Result<IndexKey, ApiError> {
    let Some(KeyText(text)) = extensions.get() else {
        return Err(ApiError::bad_request(
            "INDEX_KEY_MISSING",
            "the request has no key of an index; send it in the field clearseal-index-key, inside the seal",
        ));
    };
    let key = IndexKey::from_base64url(text);
    key.map_err(|error| IndexesError::from(error).into())
}

/// The key of a request about the index that its path names.
fn read_key_of(extensions: &Extensions, id: &str) -> Result<IndexKey, ApiError> {
    let key = read_key(extensions)?;
    match key.id().to_string() == id {
        true => Ok(key),
        false => Err(IndexesError::from(IndexError::KeyWrong).into()),
    }
}

impl From<IndexesError> for ApiError {
    fn from(error: IndexesError) -> Self {
        let status = match &error {
            IndexesError::Store(StoreError::Off) => StatusCode::NOT_IMPLEMENTED,
            IndexesError::Store(StoreError::Full) => StatusCode::INSUFFICIENT_STORAGE,
            IndexesError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            IndexesError::Unknown => StatusCode::NOT_FOUND,
            IndexesError::Exists
            | IndexesError::Busy
            | IndexesError::History(_)
            | IndexesError::Incomplete => StatusCode::CONFLICT,
            IndexesError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            IndexesError::Random | IndexesError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            IndexesError::Index(error) | IndexesError::Change(ChangeError::Index(error)) => {
                match error {
                    IndexError::KeyMalformed
                    | IndexError::IdMalformed
                    | IndexError::Settings(_)
                    | IndexError::ObjectTooLarge(_) => StatusCode::BAD_REQUEST,
                    IndexError::KeyWrong => StatusCode::FORBIDDEN,
                    // The host stores other bytes than it was given.
                    _ => StatusCode::CONFLICT,
                }
            }
            IndexesError::Change(_) => StatusCode::BAD_REQUEST,
        };
        let answer = Self::from_coded(status, &error, error.code());
        match error {
            IndexesError::Store(_) | IndexesError::Busy
                if status != StatusCode::NOT_IMPLEMENTED =>
            {
                answer.retry_after(1)
            }
            _ => answer,
        }
    }
}
