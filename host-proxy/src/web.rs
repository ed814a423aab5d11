//! Serves the built page from its folder.

use std::path::Path;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use tower::ServiceExt as _;
use tower_http::services::ServeDir;

use crate::problem::Problem;

/// Files below this path carry a hash of their content in their name, so they never change.
const HASHED: &str = "/assets/";

/// A folder with index.html; without one every path is `NOT_FOUND`.
#[derive(Clone)]
pub(crate) struct Web(Option<ServeDir>);

impl Web {
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        Self(folder.map(|folder| {
            ServeDir::new(folder)
                .precompressed_br()
                .precompressed_gzip()
                .append_index_html_on_directories(true)
        }))
    }

    /// Sends a file, or index.html for the page's own routes: those whose last part has no extension.
    pub(crate) async fn serve(&self, request: Request) -> Response {
        let Some(files) = &self.0 else {
            return Problem::NotFound.into_response();
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = Problem::MethodNotAllowed.into_response();
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let hashed = request.uri().path().starts_with(HASHED);
        let route = is_route(request.uri().path());
        let mut index = Request::new(Body::empty());
        *index.method_mut() = request.method().clone();
        *index.headers_mut() = request.headers().clone();
        *index.uri_mut() = Uri::from_static("/index.html");

        let mut response = send(files, request).await;
        if response.status() == StatusCode::NOT_FOUND && route {
            response = send(files, index).await;
        }
        if response.status() == StatusCode::NOT_FOUND {
            return Problem::NotFound.into_response();
        }
        let is_immutable = hashed
            && (response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED);
        let caching = match is_immutable {
            true => "public, max-age=31536000, immutable",
            // Browsers ask for the page and its policy every time; a validator makes that cheap.
            false => "no-cache",
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        response
    }
}

fn is_route(path: &str) -> bool {
    !path.starts_with(HASHED)
        && path
            .rsplit('/')
            .next()
            .is_some_and(|name| !name.contains('.'))
}

async fn send(files: &ServeDir, request: Request) -> Response {
    match files.clone().oneshot(request).await {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::is_route;

    #[test]
    fn routes_have_no_extension() {
        assert!(is_route("/") && is_route("/audit") && is_route("/benchmarks/compare"));
        assert!(!is_route("/missing.js") && !is_route("/assets/gone") && !is_route("/a/b.wasm"));
    }
}
