//! The state that the private endpoints share.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::http::StatusCode;
use engine::Embedder;

use super::budget::Budget;
use super::counters::Counters;
use super::error::ApiError;

/// The state that the private endpoints share.
pub struct InnerState {
    /// The engine.
    pub embedder: Embedder,
    /// Name of the model in requests, answers and receipts.
    pub model_id: String,
    /// Other names of the model that requests may use.
    pub aliases: Vec<String>,
    /// Memory for large answers, reserved before they are computed and released when they are written.
    pub answers: Budget,
    /// Counters of private requests.
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
        // The requested name belongs to the user, so it is not quoted.
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
