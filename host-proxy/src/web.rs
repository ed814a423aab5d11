//! Serves the built page from its folder.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use tower::ServiceExt as _;
use tower_http::services::ServeDir;

use crate::problem::Problem;

/// Files below this path carry a hash of their content in their name, so they never change.
const HASHED: &str = "/assets/";

/// Headers that a page may choose, each with the file of its build that contains the value. A policy has to name the hash of the
/// page's import map, which only the build knows.
const POLICIES: [(HeaderName, &str); 2] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "content-security-policy.txt",
    ),
    (
        HeaderName::from_static("integrity-policy"),
        "integrity-policy.txt",
    ),
];

/// Longer policies are refused: some servers and browsers limit all headers together to 8 KiB.
const MAX_POLICY_BYTES: usize = 4096;

/// A folder with index.html; without one every path is `NOT_FOUND`.
#[derive(Clone)]
pub(crate) struct Web {
    files: Option<(ServeDir, Arc<Path>)>,
    /// As they were at start.
    policies: Vec<(HeaderName, HeaderValue)>,
}

impl Web {
    /// # Errors
    /// Where `folder` has no index.html, or a policy that is not a header's value.
    pub(crate) fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else {
            return Ok(Self {
                files: None,
                policies: Vec::new(),
            });
        };
        anyhow::ensure!(
            folder.join("index.html").is_file(),
            "{} holds no index.html; build the page first, or leave --web out",
            folder.display()
        );
        let policies = read_policies(folder)?;
        let files = ServeDir::new(folder)
            .precompressed_br()
            .precompressed_gzip()
            .append_index_html_on_directories(true);
        Ok(Self {
            files: Some((files, folder.into())),
            policies,
        })
    }

    /// Sends a file, or index.html for the page's own routes: those whose last part has no extension.
    pub(crate) async fn serve(&self, request: Request) -> Response {
        let Some((files, folder)) = &self.files else {
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
        headers.extend(self.current_policies(Arc::clone(folder)).await);
        response
    }

    /// Reads the policies for each answer, because a newer page may have replaced the folder. Modification time and length would
    /// not show that: the policies of two pages are equally long, and copies may keep one time for all files.
    async fn current_policies(&self, folder: Arc<Path>) -> Vec<(HeaderName, HeaderValue)> {
        let read = tokio::task::spawn_blocking(move || read_policies(&folder)).await;
        match read.map_err(anyhow::Error::from).flatten() {
            Ok(policies) => policies,
            Err(error) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the page's policies cannot be read; those from the start apply"
                );
                self.policies.clone()
            }
        }
    }
}

fn read_policies(folder: &Path) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let mut policies = Vec::new();
    for (header, name) in POLICIES {
        let file = folder.join(name);
        match fs::read_to_string(&file) {
            Ok(text) => policies.push((header, policy(&text, &file)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        }
    }
    Ok(policies)
}

fn policy(text: &str, file: &Path) -> anyhow::Result<HeaderValue> {
    let text = text.trim();
    anyhow::ensure!(
        !text.is_empty() && text.len() <= MAX_POLICY_BYTES,
        "{} is not a policy of 1 to {MAX_POLICY_BYTES} bytes; build the page again",
        file.display()
    );
    HeaderValue::from_str(text).with_context(|| {
        format!(
            "{} is not the value of a header; build the page again",
            file.display()
        )
    })
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
