//! Routes of the public address and of the metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::{HeaderValue, Method, Version, header};
use serde_json::Value;
use tokio::sync::Notify;

use crate::admission::FairQueue;
use crate::channel::Channels;
use crate::config::Config;
use crate::crls::{self, Crls};
use crate::deployment::{self, Deployment};
use crate::headers::{preflight, secure, share};
use crate::log::{self, Store};
use crate::metrics::Metrics;
use crate::observe::observe;
use crate::openai;
use crate::problem::Problem;
use crate::relay::Relay;
use crate::source::Peer;
use crate::web::Web;

/// The service, and the work that goes on next to it.
pub(crate) struct Service<Follow, Refresh, Keep> {
    pub(crate) router: Router,
    pub(crate) channels: Channels,
    /// Where a log is kept: pulls it from the enclave until `finish`, and then to its end.
    pub(crate) follow_log: Option<Follow>,
    /// Keeps revocation lists current.
    pub(crate) refresh_crls: Refresh,
    /// Keeps the deployment's log.
    pub(crate) keep_deployment: Keep,
}

/// Builds the service. Its futures work while they are polled.
pub(crate) fn build(
    config: &Config,
    metrics: &Metrics,
    web: Web,
    log: Option<Arc<Store>>,
    finish: impl Future<Output = ()> + Send + 'static,
    crls: Crls,
    deployment: Deployment,
) -> Service<
    impl Future<Output = ()> + Send + 'static,
    impl Future<Output = ()> + Send + 'static,
    impl Future<Output = ()> + Send + 'static,
> {
    let relay = Relay::new(config, metrics.clone(), crls.clone(), deployment.clone());
    let heads = log.clone();
    let traffic = Arc::new(Notify::new());
    let channels = Channels::new(config, relay.fleet(), Arc::clone(&traffic));

    // Only these pass to the enclave; its other endpoints and its metrics do not.
    let relayed = Router::new()
        .route(
            "/v1/attestation",
            endpoint(&relay, "GET, HEAD, OPTIONS", Method::GET),
        )
        .route(
            "/v1/gateway",
            endpoint(&relay, "POST, OPTIONS", Method::POST)
                .layer(from_fn_with_state(Arc::clone(&traffic), notify_of_receipt)),
        )
        .route("/v1/crls", any(crls::serve).with_state(crls.clone()))
        .route(
            "/v1/channel",
            any(open_channel).with_state(channels.clone()),
        )
        .route(
            "/v1/development-policy",
            endpoint(&relay, "GET, HEAD, OPTIONS", Method::GET),
        )
        .route("/v1/embeddings", any(Problem::SealedOnly))
        .route("/v1/models", any(Problem::SealedOnly))
        .route("/v1/v1/{*rest}", any(Problem::PathDoubled))
        .route("/v1/{*rest}", any(Problem::NotFound));
    let (logged, follow_log) = match log {
        Some(store) => {
            let follow = log::follow(
                relay.clone(),
                Arc::clone(&store),
                traffic,
                metrics.clone(),
                config.publish_every,
                finish,
            );
            let queue = FairQueue::new(READS_AT_ONCE, READ_TIMEOUT);
            let routes = log::routes(store).layer(from_fn_with_state(queue, read_fairly));
            (routes, Some(follow))
        }
        None => (Router::new(), None),
    };
    let refresh_crls = crls.follow(relay.clone());
    let deployed = deployment.store().map_or_else(Router::new, |store| {
        let queue = FairQueue::new(READS_AT_ONCE, READ_TIMEOUT);
        deployment::routes(store).layer(from_fn_with_state(queue, read_fairly))
    });
    let keep_deployment = deployment.run(relay.clone(), heads);
    let relayed = relayed.merge(logged).merge(deployed).layer(from_fn(share));

    let router = Router::new()
        .merge(relayed)
        .route("/healthz", get("ok\n"))
        .route("/readyz", get(ready).with_state(relay))
        .method_not_allowed_fallback(async || Problem::MethodNotAllowed)
        .fallback(move |request: Request| async move { web.serve(request).await })
        .layer(from_fn(require_one_host))
        .layer(from_fn(openai::add_error))
        .layer(from_fn(secure))
        .layer(from_fn_with_state(metrics.clone(), observe));
    Service {
        router,
        channels,
        follow_log,
        refresh_crls,
        keep_deployment,
    }
}

/// Refuses a request that names no host, or several (RFC 9112 §3.2): proxies before and behind this one could each follow another
/// host.
async fn require_one_host(request: Request, next: Next) -> Result<Response, Problem> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let is_required = request.version() == Version::HTTP_11;
    if hosts > 1 || (is_required && hosts == 0) {
        return Err(Problem::HostInvalid);
    }
    Ok(next.run(request).await)
}

/// Notifies of an answer that may have a receipt. A refusal and a preflight have none, and are cheap to provoke. The receipt of a lost
/// answer is pulled at the next interval.
async fn notify_of_receipt(
    State(traffic): State<Arc<Notify>>,
    request: Request,
    next: Next,
) -> Response {
    let is_sealed = request.method() == Method::POST;
    let answer = next.run(request).await;
    if is_sealed && answer.status().is_success() {
        traffic.notify_one();
    }
    answer
}

async fn open_channel(State(channels): State<Channels>, request: Request) -> Response {
    if request.method() == Method::GET {
        return channels.open(request).await.into_response();
    }
    refuse_method("GET")
}

/// Reads of the log's file at once. More would use the threads that also serve the page's files.
const READS_AT_ONCE: usize = 16;
/// Longest wait of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

async fn read_fairly(
    State(queue): State<FairQueue>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let permit = queue.acquire(&Peer::of(&request)).await?;
    // In a separate task: a client that leaves does not end the read, which keeps its permit.
    let read = tokio::spawn(async move {
        let _permit = permit;
        next.run(request).await
    });
    read.await.map_err(|_| Problem::LogUnavailable)
}

/// Builds the service of the operator's address.
pub(crate) fn metrics_router(metrics: Metrics) -> Router {
    Router::new()
        .route("/metrics", get(expose).with_state(metrics))
        .fallback(Problem::NotFound)
}

fn endpoint(relay: &Relay, allowed: &'static str, method: Method) -> axum::routing::MethodRouter {
    let relay = relay.clone();
    any(move |mut request: Request| async move {
        if request.method() == Method::OPTIONS {
            return preflight(allowed);
        }
        // RFC 9110 §9.3.2: the answer to GET without its content, which hyper leaves out.
        if request.method() == Method::HEAD {
            *request.method_mut() = Method::GET;
        }
        if request.method() == method {
            return relay.relay(request).await.into_response();
        }
        refuse_method(allowed)
    })
}

pub(crate) fn refuse_method(allowed: &'static str) -> Response {
    let mut response = Problem::MethodNotAllowed.into_response();
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

async fn ready(State(relay): State<Relay>) -> Response {
    match relay.ready().await {
        // The enclave's report on its start: who released its model's key, and how long each stage took.
        Ok(report) if serde_json::from_slice::<BTreeMap<String, Value>>(&report).is_ok() => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, report).into_response()
        }
        Ok(_) => "ready\n".into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn expose(State(metrics): State<Metrics>) -> Response {
    metrics.expose()
}
