//! The state that the private endpoints share.

use std::sync::Arc;

use axum::extract::FromRef;

use super::budget::Budget;
use super::counters::Counters;
use super::models::Models;
use crate::indexes::Indexes;

/// The state that the private endpoints share.
pub struct InnerState {
    /// The models that requests may name.
    pub models: Models,
    /// Private indexes.
    pub indexes: Indexes,
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
