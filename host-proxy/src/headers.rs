//! Security and cache headers of every answer, and which answers pages of other origins may read.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::relay::ENCLAVE_HINT;

/// Allows a page to run its own scripts and WebAssembly and to connect to its own origin, and nothing else. For every answer that is
/// not of a page with a separate policy (`web::Web`).
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PERMISSIONS_POLICY: &str = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), clipboard-read=(), clipboard-write=(self)";

/// Adds the security headers to every answer, problems included. An answer that does not limit its caching is about now, and is not
/// stored: a cache may otherwise choose a lifetime (RFC 9111 §4.2.2).
pub(crate) async fn secure(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("permissions-policy"),
            PERMISSIONS_POLICY,
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-embedder-policy"),
            "require-corp",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers
        .entry("cross-origin-resource-policy")
        .or_insert(HeaderValue::from_static("same-origin"));
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Lets pages of other origins call, so that the page can be served from where the host cannot change it. Never with
/// credentials: no answer depends on the caller's identity.
pub(crate) async fn share(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    allow_any_origin(response.headers_mut());
    response
}

/// Answers a preflight for an endpoint with these methods.
pub(crate) fn preflight(methods: &'static str) -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = http::StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::ALLOW, methods),
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "content-type, clearseal-enclave",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "7200"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn allow_any_origin(headers: &mut HeaderMap) {
    let exposed = HeaderValue::from_static("clearseal-enclave, retry-after");
    debug_assert!(
        exposed
            .as_bytes()
            .starts_with(ENCLAVE_HINT.as_str().as_bytes())
    );
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("cross-origin"),
    );
}
