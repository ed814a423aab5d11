//! Errors of the proxy, in the form that each client prints.

use std::borrow::Cow;

use bytes::Bytes;
use clearseal_client::Error;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::Value;

use super::dialect::Dialect;

pub(super) type Reply = Response<Full<Bytes>>;

/// An error, before it is written in a client's form.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: Cow<'static, str>,
    message: Cow<'static, str>,
    /// Member of the request that is to blame.
    param: Option<Cow<'static, str>>,
    /// Methods that the path takes.
    allow: Option<String>,
    /// Time after which the enclave or its host wants to be asked again.
    retry_after: Option<Box<HeaderValue>>,
    /// Whether the same request may succeed later.
    pub(super) is_transient: bool,
}

impl Refusal {
    pub(super) const HOST: Self = Self::new(
        StatusCode::FORBIDDEN,
        "HOST_NOT_LOCAL",
        "the Host field does not name this machine; use 127.0.0.1 or localhost, or start the proxy with --allow-host and the name that clients use",
    );
    pub(super) const ORIGIN: Self = Self::new(
        StatusCode::FORBIDDEN,
        "ORIGIN_REFUSED",
        "web pages are not answered here; a page verifies the enclave by itself",
    );
    pub(super) const KEY: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "API_KEY_WRONG",
        "the request does not have the key of --api-key; send it once, as `authorization: Bearer KEY` or as `api-key: KEY`",
    );
    pub(super) const METHOD: Self = Self::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD_NOT_ALLOWED",
        "this address does not take this method; the Allow header lists those that it takes",
    );
    pub(super) const NOT_FOUND: Self = Self::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "there is nothing at this path; let the base URL of an OpenAI client end with /v1, or try POST /v1/embeddings, GET /v1/models, GET / or GET /healthz",
    );
    pub(super) const BUSY: Self = Self::new(
        StatusCode::TOO_MANY_REQUESTS,
        "PROXY_BUSY",
        "other requests held this proxy's memory or places for all of --queue-timeout; send it again later, or raise --concurrency",
    )
    .transient();
    pub(super) const SLOW: Self = Self::new(
        StatusCode::REQUEST_TIMEOUT,
        "BODY_TIMEOUT",
        "the body did not arrive in time; send it again",
    )
    .transient();
    pub(super) const TOO_LARGE: Self = Self::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "BODY_TOO_LARGE",
        "send fewer texts in one request",
    );
    pub(super) const BROKEN: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "BODY_INCOMPLETE",
        "the body broke off; send it again",
    );
    pub(super) const TRUNCATION: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "TRUNCATION_REFUSED",
        "the request asks for truncation, and the proxy was started with --refuse-long; leave `truncate` out, or ask for no truncation",
    );
    pub(super) const RECEIPTS: Self = Self::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "RECEIPT_NOT_WRITTEN",
        "the answer came, and its receipt could not be written to the file of --receipts",
    );
    pub(super) const NOT_READY: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "PROXY_NOT_READY",
        "no enclave has a valid proof; GET /healthz lists the reasons",
    )
    .transient();
    pub(super) const MODEL: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "MODEL_AMBIGUOUS",
        "`model` and the deployment in the path differ; send one name in both, or leave `model` out",
    );
    pub(super) const PROMPT: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "PROMPT_UNKNOWN",
        "the model has no prompts; leave `prompt_name` out",
    );
    pub(super) const ANSWER: Self = Self::new(
        StatusCode::BAD_GATEWAY,
        "ANSWER_UNREADABLE",
        "the enclave's answer cannot be written in this client's form; use POST /v1/embeddings",
    );

    pub(super) const fn new(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self {
            status,
            code: Cow::Borrowed(code),
            message: Cow::Borrowed(message),
            param: None,
            allow: None,
            retry_after: None,
            is_transient: false,
        }
    }

    /// An error about the body of a request.
    pub(super) fn of_body(code: &'static str, message: String) -> Self {
        Self {
            message: message.into(),
            ..Self::new(StatusCode::BAD_REQUEST, code, "")
        }
    }

    /// Names the member of the request that is to blame.
    pub(super) fn param(mut self, param: &'static str) -> Self {
        self.param = Some(param.into());
        self
    }

    /// RFC 9110 §15.5.6: the answer lists the allowed methods.
    pub(super) fn allow(mut self, methods: String) -> Self {
        self.allow = Some(methods);
        self
    }

    const fn transient(mut self) -> Self {
        self.is_transient = true;
        self
    }

    pub(super) fn of(error: &Error) -> Self {
        let status = match error {
            Error::Exchange(_) => StatusCode::BAD_GATEWAY,
            Error::RequestInvalid => StatusCode::BAD_REQUEST,
            // OpenAI's clients repeat 503, and the same request would be refused again.
            Error::Unreachable(problem) if problem.status == Some(413) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self {
            status,
            code: error.code().to_owned().into(),
            message: format!("{error}. {}", error.remedy()).into(),
            is_transient: error.is_transient(),
            ..Self::ANSWER
        }
    }

    /// Reads a sealed error of the enclave, which is in OpenAI's form.
    pub(super) fn of_sealed(status: StatusCode, headers: &HeaderMap, content: &[u8]) -> Self {
        let content: Value = serde_json::from_slice(content).unwrap_or_default();
        let member = |name: &str| content["error"][name].as_str().map(str::to_owned);
        let (Some(code), Some(message)) = (member("code"), member("message")) else {
            return Self {
                status,
                ..Self::ANSWER
            };
        };
        let retry_after = headers.get(header::RETRY_AFTER).cloned().map(Box::new);
        Self {
            status,
            code: code.into(),
            message: message.into(),
            param: member("param").map(Cow::Owned),
            allow: None,
            is_transient: retry_after.is_some(),
            retry_after,
        }
    }

    /// Whether the enclave refuses an empty item.
    pub(super) fn is_about_empty_item(&self) -> bool {
        self.code == "INPUT_EMPTY"
    }

    /// Names the first empty item in the enclave's error about one.
    pub(super) fn name_empty(mut self, first: Option<usize>) -> Self {
        if self.is_about_empty_item()
            && let Some(index) = first
        {
            self.message =
                format!("{}; item {index}, counted from 0, is empty", self.message).into();
        }
        self
    }

    /// Whether the enclave has answered, and the proxy withholds its answer.
    pub(super) fn withholds_answer(&self) -> bool {
        self.code == Self::RECEIPTS.code
    }

    pub(super) fn into_reply(self, dialect: Dialect) -> Reply {
        let param = self.param.as_deref();
        let body = dialect.error(self.status, &self.code, &self.message, param);
        let mut reply = reply(self.status, "application/json", body.to_string());
        let headers = reply.headers_mut();
        // RFC 9110 §15.5.2.
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.is_transient {
            let seconds = self.retry_after.map(|seconds| *seconds);
            let seconds = seconds.unwrap_or(HeaderValue::from_static("1"));
            headers.insert(header::RETRY_AFTER, seconds);
        }
        if let Some(Ok(methods)) = self.allow.map(HeaderValue::try_from) {
            headers.insert(header::ALLOW, methods);
        }
        // OpenAI's clients would otherwise repeat every request that got 408, 429 or 5xx.
        let advice = if self.is_transient { "true" } else { "false" };
        headers.insert("x-should-retry", HeaderValue::from_static(advice));
        reply
    }
}

pub(super) fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut response = Response::new(Full::from(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    response
}
