//! Clients of OpenAI's API that use this host as their base URL. They show only OpenAI's error object, and have sent their text
//! in clear.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::Method;

use crate::problem::Problem;

/// Adds OpenAI's error object to the problems of its paths.
pub(crate) async fn add_error(request: Request, next: Next) -> Response {
    let is_openai = is_openai_path(request.uri().path());
    let has_text = request.method() == Method::POST;
    let response = next.run(request).await;
    match response.extensions().get::<Problem>() {
        Some(Problem::NotFound) if is_openai => Problem::SealedOnly.to_openai_response(has_text),
        Some(problem) if is_openai => problem.to_openai_response(has_text),
        _ => response,
    }
}

/// Whether the path belongs to OpenAI's API, also where a client has added `/v1` to a base URL that ends with it.
fn is_openai_path(path: &str) -> bool {
    let doubled = path
        .strip_prefix("/v1")
        .filter(|rest| rest.starts_with("/v1/"));
    let Some(path) = doubled.unwrap_or(path).strip_prefix("/v1/") else {
        return false;
    };
    let endpoint = path.strip_suffix('/').unwrap_or(path);
    matches!(
        endpoint,
        "embeddings" | "chat/completions" | "completions" | "responses" | "models"
    ) || endpoint.starts_with("models/")
}

#[cfg(test)]
mod tests {
    use super::is_openai_path;

    #[test]
    fn only_paths_of_the_api_are_recognised() {
        for path in [
            "/v1/embeddings",
            "/v1/embeddings/",
            "/v1/v1/embeddings",
            "/v1/chat/completions",
            "/v1/models",
            "/v1/models/sentence-transformers/all-MiniLM-L6-v2",
            "/v1/v1/models/",
        ] {
            assert!(is_openai_path(path), "{path}");
        }
        for path in [
            "/",
            "/v1",
            "/v1/",
            "/embeddings",
            "/v1/gateway",
            "/v1/embeddings2",
            "/v1/v1/gateway",
            "/v1embeddings",
            "/v1/v1/v1/embeddings",
        ] {
            assert!(!is_openai_path(path), "{path}");
        }
    }
}
