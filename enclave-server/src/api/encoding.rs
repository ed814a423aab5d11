//! Accepted encodings of a private request's content: UTF-8, not compressed.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// Refuses content that is compressed or in another character set, because it would be misread.
pub(super) async fn check_encoding(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !is_identity(headers) {
        let error = ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "CONTENT_ENCODING_UNSUPPORTED",
            "the body is compressed; send it as it is, without `content-encoding`: inside the seal it is padded, not compressed",
        );
        // RFC 9110 §15.5.16: names what is accepted.
        return refuse(error, header::ACCEPT_ENCODING, "identity");
    }
    if !is_utf8(headers) {
        let error = ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "CHARSET_UNSUPPORTED",
            "the body is in another character set than UTF-8; send JSON in UTF-8 (RFC 8259 §8.1), without `charset` or with utf-8",
        );
        return refuse(error, header::ACCEPT, "application/json; charset=utf-8");
    }
    next.run(request).await
}

fn refuse(error: ApiError, name: HeaderName, accepted: &'static str) -> Response {
    let mut response = error.into_response();
    let accepted = HeaderValue::from_static(accepted);
    response.headers_mut().insert(name, accepted);
    response
}

/// Whether every coding is `identity` (RFC 9110 §8.4: a list of case-insensitive names).
fn is_identity(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONTENT_ENCODING).into_iter();
    let mut codings = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.all(|coding| {
        let coding = coding.trim_ascii();
        coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")
    })
}

/// Whether the parameter `charset`, if present, is UTF-8 or its subset ASCII (RFC 9110 §8.3.1: case-insensitive names and values,
/// quoted or not).
fn is_utf8(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONTENT_TYPE).into_iter();
    let mut parameters = values.flat_map(|value| {
        let parts = value.as_bytes().split(|byte| *byte == b';');
        parts.skip(1).filter_map(|part| {
            let equals = part.iter().position(|byte| *byte == b'=')?;
            Some((part[..equals].trim_ascii(), part[equals + 1..].trim_ascii()))
        })
    });
    parameters.all(|(name, value)| {
        let quoted = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        let value = quoted.unwrap_or(value);
        let known = [&b"utf-8"[..], b"utf8", b"us-ascii", b"ascii"];
        !name.eq_ignore_ascii_case(b"charset")
            || known.iter().any(|name| name.eq_ignore_ascii_case(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_identity_codings_are_accepted() {
        for accepted in [&[][..], &[""], &["identity"], &["Identity, identity"]] {
            assert!(is_identity(&headers("content-encoding", accepted)));
        }
        for refused in [
            &["gzip"][..],
            &["identity, gzip"],
            &["identity", "br"],
            &["x-gzip"],
            &["deflate"],
            &["zstd"],
            &["aws-chunked"],
        ] {
            assert!(!is_identity(&headers("content-encoding", refused)));
        }
    }

    #[test]
    fn only_utf8_and_ascii_are_accepted() {
        for accepted in [
            &[][..],
            &["application/json"],
            &["application/json;charset=utf-8"],
            &["application/json; charset=UTF-8"],
            &["application/json ; Charset=\"Utf-8\" ; x=1"],
            &["application/json; charset=us-ascii"],
            &["text/plain"],
            &["application/x-www-form-urlencoded"],
            &["application/json; profile=\"charset\""],
        ] {
            assert!(is_utf8(&headers("content-type", accepted)), "{accepted:?}");
        }
        for refused in [
            "application/json; charset=utf-16",
            "application/json;x=1;charset=\"UTF-16LE\"",
            "text/plain; CHARSET=iso-8859-1",
            "application/json; charset=",
        ] {
            assert!(!is_utf8(&headers("content-type", &[refused])), "{refused}");
        }
    }
}
