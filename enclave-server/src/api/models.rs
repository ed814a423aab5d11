//! The models that a service holds, found by name.

use std::iter;
use std::sync::Arc;

use attestation::ModelIdentity;
use axum::http::StatusCode;
use engine::{Embedder, Health, Observer};

use super::error::ApiError;

/// The models of a service, at least one. No two share a name.
pub struct Models(Vec<ServedModel>);

/// A model that requests may name.
pub struct ServedModel {
    /// Its description in the manifest and in receipts, which also holds its first name.
    pub identity: Arc<ModelIdentity>,
    /// Other names that requests may use.
    pub aliases: Vec<String>,
    /// The computation.
    pub task: Task,
}

/// The kind of a model, with its engine.
pub enum Task {
    /// Texts to vectors: `/v1/embeddings`.
    Embedding(Embedder),
    /// Pairs of a query and a document to scores: `/v1/rerank`.
    Reranking(Embedder),
}

impl Task {
    /// The kind of the model that `embedder` runs.
    #[must_use]
    pub fn of(embedder: Embedder) -> Self {
        match embedder.reads_pairs() {
            true => Self::Reranking(embedder),
            false => Self::Embedding(embedder),
        }
    }
}

/// Why models cannot be served together.
#[derive(Debug, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum ModelsError {
    /// There is no model.
    #[error("there is no model to serve")]
    #[coded("MODEL_NONE", remedy = "Name a model with --model or --model-lock.")]
    None,
    /// Two models have the same name, so a request could mean either.
    #[error("two models have the name `{0}`")]
    #[coded(
        "MODEL_NAME_TWICE",
        remedy = "Give each lock another `model`, also without its organisation, and other `aliases`."
    )]
    NameTwice(String),
}

impl Models {
    /// Checks that the models can be told apart.
    ///
    /// # Errors
    /// [`ModelsError`].
    pub fn new(models: Vec<ServedModel>) -> Result<Self, ModelsError> {
        check_names(models.iter().flat_map(ServedModel::names))?;
        Ok(Self(models))
    }

    /// The model that has `name` as its first name or as an alias.
    pub(super) fn find(&self, name: &str) -> Result<&ServedModel, ApiError> {
        let model = self.iter().find(|model| model.has_name(name));
        // The requested name belongs to the user, so it is not quoted.
        model.ok_or_else(|| {
            ApiError::new(
                StatusCode::NOT_FOUND,
                "model_not_found",
                format!("that model is not here; this service has {}", self.list()),
            )
            .param("model")
        })
    }

    /// All models, in the order of the manifest.
    pub fn iter(&self) -> impl Iterator<Item = &ServedModel> {
        self.0.iter()
    }

    /// The worst health among the models.
    pub(super) fn health(&self) -> Health {
        let health = self.iter().map(ServedModel::health);
        health.fold(Health::Sound, |worst, health| match (worst, health) {
            (Health::Ended, _) | (_, Health::Ended) => Health::Ended,
            (Health::Stuck, _) | (_, Health::Stuck) => Health::Stuck,
            (Health::Sound, Health::Sound) => Health::Sound,
        })
    }

    /// First names, for messages.
    fn list(&self) -> String {
        let names: Vec<_> = self
            .iter()
            .map(|model| format!("`{}`", model.id()))
            .collect();
        names.join(", ")
    }
}

/// Checks the names of all models. Their locks state them, so a start can fail before it loads anything.
///
/// # Errors
/// [`ModelsError`].
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), ModelsError> {
    let mut known = Vec::new();
    for name in names {
        if known.contains(&name) {
            return Err(ModelsError::NameTwice(name.to_owned()));
        }
        known.push(name);
    }
    match known.is_empty() {
        true => Err(ModelsError::None),
        false => Ok(()),
    }
}

impl ServedModel {
    /// The first name, which answers and receipts state.
    pub(super) fn id(&self) -> &str {
        &self.identity.id
    }

    /// All names, the first one first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        iter::once(self.id()).chain(self.aliases.iter().map(String::as_str))
    }

    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The engine of a model that embeds.
    pub(super) fn embedder(&self) -> Result<&Embedder, ApiError> {
        match &self.task {
            Task::Embedding(embedder) => Ok(embedder),
            Task::Reranking(_) => Err(self.refuse_task("scores pairs", "/v1/rerank")),
        }
    }

    /// The engine of a model that scores pairs.
    pub(super) fn reranker(&self) -> Result<&Embedder, ApiError> {
        match &self.task {
            Task::Reranking(reranker) => Ok(reranker),
            Task::Embedding(_) => Err(self.refuse_task("embeds texts", "/v1/embeddings")),
        }
    }

    /// The engine, whatever it computes.
    pub(super) fn engine(&self) -> &Embedder {
        match &self.task {
            Task::Embedding(engine) | Task::Reranking(engine) => engine,
        }
    }

    fn refuse_task(&self, task: &str, path: &str) -> ApiError {
        ApiError::bad_request(
            "MODEL_TASK",
            format!(
                "`{}` {task}; send it to {path}, or name another model",
                self.id()
            ),
        )
        .param("model")
    }

    /// Sets the `observer` of queueing and computing times.
    pub(super) fn observe(&self, observer: Arc<dyn Observer>) {
        self.engine().observe(observer);
    }

    fn health(&self) -> Health {
        self.engine().health()
    }
}
