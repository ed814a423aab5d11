//! `GET /readyz`: whether new requests should come here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use engine::Health;
use serde_json::{Value, json};

use super::attestation::KEYS_EXPIRED;
use super::problem::Problem;
use super::service::Service;
use crate::provision::KeyRelease;
use crate::stages::Stages;

/// Whether the service is stopping, and how its start went.
#[derive(Default)]
pub(super) struct Readiness {
    draining: AtomicBool,
    start: Option<Start>,
}

struct Start {
    stages: Stages,
    key_release: KeyRelease,
}

impl Readiness {
    pub(super) fn record_start(&mut self, stages: Stages, key_release: KeyRelease) {
        self.start = Some(Start {
            stages,
            key_release,
        });
    }

    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}

pub(super) async fn ready(State(service): State<Arc<Service>>) -> Result<Json<Value>, Problem> {
    if service.readiness.draining.load(Ordering::Relaxed) {
        return Err(DRAINING);
    }
    if !service.keys.current().accepts(service.now()) {
        return Err(KEYS_EXPIRED);
    }
    match service.private_api.state().models.health() {
        Health::Ended => return Err(ENGINE_DEAD),
        Health::Stuck => return Err(ENGINE_STUCK),
        Health::Sound => {}
    }
    let start = service.readiness.start.as_ref();
    Ok(Json(json!({
        "status": "ready",
        "simulated": service.attester.nsm().is_simulated(),
        "key_release": start.map(|start| start.key_release.as_str()),
        "start_ms": start.map(|start| start.stages.to_json()),
    })))
}

const ENGINE_DEAD: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "ENGINE_DEAD",
    "An inference thread has ended",
    "Restart the enclave.",
);
const ENGINE_STUCK: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "ENGINE_STUCK",
    "An inference thread has computed one batch for longer than a whole request may take",
    "Restart the enclave if it stays.",
);
pub(super) const DRAINING: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "DRAINING",
    "The service is shutting down",
    "Use another replica.",
);
