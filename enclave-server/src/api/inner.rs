//! The private API: an ordinary router that only decrypted requests reach. To add an endpoint, add a route.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Serialize;
use tower::ServiceExt as _;
use tower_http::catch_panic::CatchPanicLayer;

use super::embeddings::embeddings;
use super::error::ApiError;
use super::models::{ServedModel, Task};
use super::rerank::rerank;
use super::state::InnerState;
use super::{counters, encoding, indexes};

/// The private router. Errors are in OpenAI's format.
pub fn router(state: Arc<InnerState>) -> Router {
    Router::new()
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/rerank", post(rerank))
        .route("/v1/indexes", post(indexes::create))
        .route(
            "/v1/indexes/{id}",
            get(indexes::describe).delete(indexes::delete),
        )
        .route("/v1/indexes/{id}/rows", post(indexes::change))
        .route("/v1/indexes/{id}/query", post(indexes::query))
        .route("/v1/indexes/{id}/compact", post(indexes::compact))
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(model))
        .route("/v1/counters", get(counters::counters))
        .route("/v1/openapi.json", get(openapi))
        .fallback(refuse_path)
        .method_not_allowed_fallback(async || {
            ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "this endpoint answers another method; the Allow header lists those that it takes",
            )
        })
        .with_state(state)
}

/// The private router and its state.
pub(super) struct PrivateApi {
    state: Arc<InnerState>,
    router: Router,
}

impl PrivateApi {
    pub(super) fn new(state: Arc<InnerState>, router: Router) -> Self {
        Self {
            router: add_layers(router, Arc::clone(&state)),
            state,
        }
    }

    pub(super) fn state(&self) -> &InnerState {
        &self.state
    }

    pub(super) async fn answer(&self, request: Request<Body>) -> Response {
        match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Layers that apply to every private endpoint.
fn add_layers(router: Router, state: Arc<InnerState>) -> Router {
    router
        // The outer endpoints have limited the sealed request before it reached this router.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn(encoding::check_encoding))
        .layer(CatchPanicLayer::custom(answer_panic))
        .layer(middleware::from_fn_with_state(state, counters::observe))
}

/// Removes a slash at the end of the path, which some clients add.
pub(super) fn without_trailing_slash(target: &str) -> Cow<'_, str> {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    match path.strip_suffix('/') {
        Some(path) if !path.is_empty() => format!("{path}{query}").into(),
        _ => target.into(),
    }
}

async fn refuse_path(uri: Uri) -> ApiError {
    if uri.path().starts_with("/v1/v1/") {
        return ApiError::new(
            StatusCode::NOT_FOUND,
            "PATH_DOUBLED",
            "the path begins with /v1/v1, so the client adds /v1 itself; remove one /v1 from its base URL",
        );
    }
    ApiError::new(
        StatusCode::NOT_FOUND,
        "ENDPOINT_UNKNOWN",
        "there is no such endpoint; try POST /v1/embeddings, POST /v1/rerank or GET /v1/models",
    )
}

/// Lists each model once under each of its names: clients look for the name that they will send.
async fn models(State(state): State<Arc<InnerState>>) -> Result<Response, ApiError> {
    let models = state.models.iter();
    let each = models.flat_map(|model| model.names().map(move |name| Model::of(model, name)));
    let data = each.collect::<Result<_, _>>()?;
    let object = "list";
    Ok(Json(List { object, data }).into_response())
}

async fn model(
    State(state): State<Arc<InnerState>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let model = state.models.find(&name)?;
    Ok(Json(Model::of(model, &name)?).into_response())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

/// OpenAPI of this router. A test generates it from the types of requests and answers.
const DESCRIPTION: &str = include_str!("../../openapi.json");

/// The models, each once for each of its names; its first name is first.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Models"))]
#[derive(Serialize)]
pub(super) struct List<'a> {
    #[cfg_attr(test, schemars(extend("const" = "list")))]
    object: &'static str,
    data: Vec<Model<'a>>,
}

/// A model, in OpenAI's format.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(super) struct Model<'a> {
    /// One of its names, which requests may use.
    id: &'a str,
    #[cfg_attr(test, schemars(extend("const" = "model")))]
    object: &'static str,
    /// Always 0, because a pinned model has no meaningful time of creation.
    created: u64,
    owned_by: &'static str,
    clearseal: Properties<'a>,
}

/// Extensions to OpenAI's format.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct Properties<'a> {
    /// The task: `embedding` at `/v1/embeddings`, or `reranking` at `/v1/rerank`.
    #[cfg_attr(test, schemars(extend("enum" = ["embedding", "reranking"])))]
    task: &'static str,
    /// Components of a vector; 1 of a model that reranks.
    dimension: usize,
    /// Whether vectors have unit length.
    normalised: bool,
    /// Most tokens of a text that the model reads.
    max_tokens: usize,
    /// Names of the model's prompts, one of which a request may choose.
    prompts: Vec<&'a str>,
    /// The name of the prompt that is used where a request chooses none.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_prompt: Option<&'a str>,
    /// The engine in use.
    engine: &'static str,
    /// Other names than the first, which answers and receipts state.
    aliases: &'a [String],
}

impl<'a> Model<'a> {
    fn of(model: &'a ServedModel, name: &'a str) -> Result<Self, ApiError> {
        let embedder = model.engine();
        let prompts = embedder.prompts();
        Ok(Self {
            id: name,
            object: "model",
            created: 0,
            owned_by: "clearseal",
            clearseal: Properties {
                task: match model.task {
                    Task::Embedding(_) => "embedding",
                    Task::Reranking(_) => "reranking",
                },
                dimension: embedder.dimension(),
                normalised: embedder.is_normalised(),
                max_tokens: embedder.max_tokens(),
                prompts: prompts.texts.keys().map(String::as_str).collect(),
                default_prompt: prompts.default.as_deref(),
                engine: embedder.engine(),
                aliases: &model.aliases,
            },
        })
    }
}

// The payload of a panic may quote the request, so it is dropped unread.
fn answer_panic(_: Box<dyn Any + Send>) -> Response {
    tracing::error!(code = "HANDLER_PANICKED", "a private handler panicked");
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "INTERNAL",
        "the request failed inside the service; try again, and report it if it stays",
    )
    .into_response()
}
