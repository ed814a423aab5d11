//! The outer endpoints, as a client sees them. Whatever comes unsealed is an untrusted hint.

use anyhow::{Context, Result, bail};
use std::time::Duration;

/// RFC 9458 §5.3: the gateway does not know the key that the request was sealed to.
const KEY_PROBLEM: &str = "https://iana.org/assignments/http-problem-types#ohttp-key";
const TIMEOUT: Duration = Duration::from_secs(120);
/// Larger than any problem document.
const MAX_PROBLEM: usize = 16 << 10;

/// One service.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: String,
}

/// What came back for a sealed request.
pub(crate) enum Sealed {
    /// Sealed bytes.
    Answer(Vec<u8>),
    /// The service asks for fresh keys.
    KeyUnknown,
}

impl Client {
    /// A client of the service at `url`.
    pub(crate) fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // A redirect would let the host send evidence and requests elsewhere.
            .max_redirects(0)
            .build();
        Self {
            agent: config.into(),
            url: url.trim_end_matches('/').to_owned(),
        }
    }

    /// The body of a successful answer, of at most `limit` bytes.
    pub(crate) fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>> {
        let url = format!("{}{path}", self.url);
        let response = self
            .agent
            .get(&url)
            .call()
            .with_context(|| self.unreachable())?;
        let status = response.status();
        if !status.is_success() {
            let code = body(response, MAX_PROBLEM)
                .ok()
                .and_then(|body| code(&body));
            let code = code.map_or_else(String::new, |code| format!(" and {code}"));
            bail!("{} answered with status {status}{code}", self.url);
        }
        body(response, limit)
    }

    /// Sends a sealed request.
    pub(crate) fn gateway(&self, sealed: &[u8], limit: usize) -> Result<Sealed> {
        let url = format!("{}/v1/gateway", self.url);
        let response = self
            .agent
            .post(&url)
            .header("content-type", "message/ohttp-req")
            .send(sealed)
            .with_context(|| self.unreachable())?;
        let status = response.status();
        let content_type = response
            .headers()
            .get("content-type")
            .and_then(|value| value.to_str().ok());
        let (sealed, problem) = (
            content_type == Some("message/ohttp-res"),
            content_type == Some("application/problem+json"),
        );
        if sealed && status.is_success() {
            return Ok(Sealed::Answer(body(response, limit)?));
        }
        if problem && is_key_problem(&body(response, MAX_PROBLEM)?) {
            return Ok(Sealed::KeyUnknown);
        }
        bail!(
            "{} answered with status {status} and nothing sealed",
            self.url
        )
    }

    fn unreachable(&self) -> String {
        format!(
            "cannot reach {}; is it running (`npm start`), and is --url right?",
            self.url
        )
    }
}

fn body(response: ureq::http::Response<ureq::Body>, limit: usize) -> Result<Vec<u8>> {
    response
        .into_body()
        .with_config()
        .limit(limit as u64)
        .read_to_vec()
        .context("the answer could not be read, or is too large")
}

fn is_key_problem(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Problem {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_slice::<Problem>(body).is_ok_and(|problem| problem.kind == KEY_PROBLEM)
}

/// The code of a problem document. It is the host's word, and is shown only where it has the form of a code.
fn code(body: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Problem {
        code: String,
    }
    let Problem { code } = serde_json::from_slice(body).ok()?;
    let is_code = (1..=64).contains(&code.len())
        && code
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    is_code.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_code_is_shown() {
        assert_eq!(
            code(br#"{"code":"LOG_UNKNOWN","status":404}"#).as_deref(),
            Some("LOG_UNKNOWN")
        );
        for other in [
            &br#"{"code":"\u001b[31m"}"#[..],
            br#"{"code":""}"#,
            br#"{"code":7}"#,
            b"no",
        ] {
            assert_eq!(code(other), None);
        }
    }

    #[test]
    fn only_the_key_problem_asks_for_fresh_keys() {
        assert!(is_key_problem(
            br#"{"type":"https://iana.org/assignments/http-problem-types#ohttp-key","status":400}"#
        ));
        assert!(!is_key_problem(br#"{"type":"about:blank"}"#));
        assert!(!is_key_problem(b"no"));
    }
}
