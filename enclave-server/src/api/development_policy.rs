//! `GET /v1/development-policy`: a trust policy for a simulated enclave.

use std::collections::BTreeMap;
use std::sync::Arc;

use attestation::{Policy, ServiceManifest, TrustAnchor};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::service::Service;

pub(super) async fn development_policy(
    State(service): State<Arc<Service>>,
) -> Result<Response, Problem> {
    let nsm = service.attester.nsm();
    let root = nsm.development_root().ok_or(NOT_SIMULATED)?;
    let pinned: BTreeMap<_, _> = nsm
        .pcrs()
        .iter()
        .filter(|(index, _)| **index < 3)
        .map(|(index, pcr)| (*index, *pcr))
        .collect();
    let policy = TrustAnchor::development(root).ok().and_then(|anchor| {
        let manifest = ServiceManifest::decode(&service.keys.current().manifest).ok()?;
        Policy::for_development(anchor, pinned, &manifest).ok()
    });
    let policy = policy.ok_or(POLICY_FAILED)?.to_json();
    Ok((
        [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        policy,
    )
        .into_response())
}

const NOT_SIMULATED: Problem = Problem::new(
    StatusCode::NOT_FOUND,
    "POLICY_NOT_SERVED",
    "This enclave serves no trust policy",
    "Use the policy that was released with the image; a service cannot supply the policy that it is appraised by.",
);
const POLICY_FAILED: Problem = Problem::new(
    StatusCode::INTERNAL_SERVER_ERROR,
    "POLICY_FAILED",
    "The development policy could not be written",
    "Restart the service, and report it if it stays.",
);
