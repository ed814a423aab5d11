//! Which address answers what.

use crate::config::Config;
use crate::headers::{preflight, secure, share};
use crate::observe::{Metrics, observe};
use crate::problem::Problem;
use crate::relay::Relay;
use crate::web::Web;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::{HeaderValue, Method, header};

/// The whole service.
pub(crate) fn router(config: &Config) -> Router {
    let relay = Relay::new(config);
    let metrics = Metrics::new();
    let web = Web::new(config.web.as_deref());

    // Exactly these pass to the enclave; its other endpoints, and its own metrics, do not.
    let relayed = Router::new()
        .route(
            "/v1/attestation",
            endpoint(&relay, "GET, OPTIONS", Method::GET),
        )
        .route(
            "/v1/gateway",
            endpoint(&relay, "POST, OPTIONS", Method::POST),
        )
        .route(
            "/v1/development-policy",
            endpoint(&relay, "GET, OPTIONS", Method::GET),
        )
        .route("/v1/{*rest}", any(Problem::NotFound))
        .layer(from_fn(share));

    Router::new()
        .merge(relayed)
        .route("/healthz", get("ok\n"))
        .route("/readyz", get(ready).with_state(relay))
        .route("/metrics", get(expose).with_state(metrics.clone()))
        .fallback(move |request: Request| async move { web.serve(request).await })
        .layer(from_fn(secure))
        .layer(from_fn_with_state(metrics, observe))
}

fn endpoint(relay: &Relay, allowed: &'static str, method: Method) -> axum::routing::MethodRouter {
    let relay = relay.clone();
    any(move |request: Request| async move {
        if request.method() == Method::OPTIONS {
            return preflight(allowed);
        }
        if request.method() == method {
            return relay.relay(request).await.into_response();
        }
        let mut response = Problem::MethodNotAllowed.into_response();
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static(allowed));
        response
    })
}

async fn ready(State(relay): State<Relay>) -> Response {
    match relay.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn expose(State(metrics): State<Metrics>) -> Response {
    metrics.expose()
}
