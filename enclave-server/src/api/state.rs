//! What the endpoints of the private API share.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::http::StatusCode;
use engine::Embedder;

use super::budget::Budget;
use super::counters::Counters;
use super::error::ApiError;

/// What the private endpoints work with.
pub struct InnerState {
    /// The engine.
    pub embedder: Embedder,
    /// Name of the model, as requests give it and answers and receipts state it.
    pub model_id: String,
    /// Other names by which requests may call it.
    pub aliases: Vec<String>,
    /// Memory for large answers, from before they are computed until they are written.
    pub answers: Budget,
    /// What was asked of them.
    pub counters: Counters,
}

impl FromRef<Arc<InnerState>> for Counters {
    fn from_ref(state: &Arc<InnerState>) -> Self {
        state.counters.clone()
    }
}

impl InnerState {
    pub(super) fn check_model(&self, name: &str) -> Result<(), ApiError> {
        if name == self.model_id || self.aliases.iter().any(|alias| alias == name) {
            return Ok(());
        }
        // The name asked for is the user's, so it is not quoted.
        Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "model_not_found",
            format!(
                "that model is not here; this service has `{}`",
                self.model_id
            ),
        )
        .param("model"))
    }
}
