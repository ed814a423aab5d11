//! Public endpoints of one host. Unsealed answers are untrusted hints.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use protocol::ohttp::chunked;
use protocol::{candidates, media_type, ohttp};

use crate::connect::{Http, find_certificate_error};
use crate::error::{CERTIFICATE_UNTRUSTED, Error, Problem};

/// Larger than any problem document.
const MAX_PROBLEM: usize = 16 << 10;
/// Code of host-proxy for a request without the field `upgrade`.
const UPGRADE_REQUIRED: &str = "UPGRADE_REQUIRED";

/// One host: its address, and a pool of connections. Redirects are not followed: they would let the host send evidence and
/// requests elsewhere.
#[derive(Clone)]
pub struct Host {
    http: Http,
    /// Address of the forward proxy that leads to the host.
    proxy: Option<Arc<str>>,
    origin: Arc<str>,
    /// [`origin`](Self::origin) with its port, which `CONNECT` names.
    target: Arc<str>,
    timeout: Duration,
}

/// Answer to a sealed request.
pub(crate) enum Sealed {
    /// Sealed bytes.
    Answer(Bytes),
    /// RFC 9458 §5.3: the gateway does not know the key that the request was sealed to.
    KeyUnknown,
}

/// Answer to a sealed request in chunks.
pub(crate) enum Chunked {
    /// Its body, while it arrives.
    Begun(Incoming),
    /// The same as [`Sealed::KeyUnknown`].
    KeyUnknown,
}

impl Host {
    /// The host at `url`: `http://HOST:PORT` or `https://HOST`, with a path before `/v1` where it has one.
    ///
    /// Connects through the forward proxy that `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY` names, unless the host is this machine or one
    /// of `NO_PROXY`.
    ///
    /// # Errors
    /// [`Error::UrlInvalid`], [`Error::ProxyUnusable`], [`Error::AuthoritiesUnusable`].
    pub fn new(url: &str, timeout: Duration) -> Result<Self, Error> {
        let origin = url.trim_end_matches('/');
        let uri: Uri = origin.parse().map_err(|_| Error::UrlInvalid)?;
        let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        if !scheme || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(Error::UrlInvalid);
        }
        let (http, proxy) = Http::new(&uri)?;
        Ok(Self {
            http,
            proxy,
            origin: origin.into(),
            target: with_port(&uri, origin).into(),
            timeout,
        })
    }

    /// Its address, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.origin
    }

    /// The body of a successful answer, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub async fn get(&self, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let request = self.request(Method::GET, path)?;
        let request = request
            .body(Full::default())
            .map_err(|_| Error::UrlInvalid)?;
        let response = self.send(request, limit).await?;
        match response.status.is_success() {
            true => Ok(response.body.into()),
            false => Err(self.refused(&response, 0)),
        }
    }

    /// Sends a sealed request.
    pub(crate) async fn gateway(
        &self,
        sealed: Vec<u8>,
        hint: &str,
        limit: usize,
    ) -> Result<Sealed, Error> {
        let kinds = [ohttp::REQUEST_MEDIA_TYPE, ohttp::RESPONSE_MEDIA_TYPE];
        self.seal(kinds, sealed.into(), hint, limit).await
    }

    /// Sends a sealed request in chunks, and waits for the beginning of its answer.
    pub(crate) async fn gateway_in_chunks(
        &self,
        sealed: Vec<u8>,
        hint: &str,
    ) -> Result<Chunked, Error> {
        let length = sealed.len();
        let request = self
            .request(Method::POST, "/v1/gateway")?
            .header(header::CONTENT_TYPE, chunked::REQUEST_MEDIA_TYPE)
            .header(header::ACCEPT, chunked::RESPONSE_MEDIA_TYPE)
            .header("clearseal-enclave", hint)
            .body(Full::from(sealed))
            .map_err(|_| Error::UrlInvalid)?;
        let begun = async {
            let response = self.http.request(request).await;
            let (parts, body) = response.map_err(|error| self.offline(&error))?.into_parts();
            let kind = parts.headers.get(header::CONTENT_TYPE).cloned();
            let is = |expected| {
                kind.as_ref()
                    .is_some_and(|kind| media_type::matches(kind.as_bytes(), expected))
            };
            if parts.status == StatusCode::OK && is(chunked::RESPONSE_MEDIA_TYPE) {
                return Ok(Chunked::Begun(body));
            }
            let body = self.collect(body, MAX_PROBLEM).await?;
            if is("application/problem+json") && is_key_problem(&body) {
                return Ok(Chunked::KeyUnknown);
            }
            let status = parts.status;
            Err(self.refused(&Response { status, kind, body }, length))
        };
        tokio::time::timeout(self.timeout, begun)
            .await
            .unwrap_or_else(|_| Err(self.late()))
    }

    /// Sends a request that is sealed to several enclaves.
    pub(crate) async fn candidates(
        &self,
        sealed: Bytes,
        hint: &str,
        limit: usize,
    ) -> Result<Sealed, Error> {
        let kinds = [
            candidates::REQUEST_MEDIA_TYPE,
            candidates::RESPONSE_MEDIA_TYPE,
        ];
        self.seal(kinds, sealed, hint, limit).await
    }

    async fn seal(
        &self,
        [asked, answered]: [&str; 2],
        sealed: Bytes,
        hint: &str,
        limit: usize,
    ) -> Result<Sealed, Error> {
        let request = self
            .request(Method::POST, "/v1/gateway")?
            .header(header::CONTENT_TYPE, asked)
            .header(header::ACCEPT, answered)
            .header("clearseal-enclave", hint);
        let length = sealed.len();
        let request = request
            .body(Full::from(sealed))
            .map_err(|_| Error::UrlInvalid)?;
        let response = self.send(request, limit).await?;
        let is = |kind: &str| {
            let field = response.kind.as_ref();
            field.is_some_and(|field| media_type::matches(field.as_bytes(), kind))
        };
        if response.status == StatusCode::OK && is(answered) {
            return Ok(Sealed::Answer(response.body));
        }
        if is("application/problem+json") && is_key_problem(&response.body) {
            return Ok(Sealed::KeyUnknown);
        }
        Err(self.refused(&response, length))
    }

    /// A connection that has become a channel's.
    pub(crate) async fn channel(&self, hint: &str) -> Result<TokioIo<Upgraded>, Error> {
        let request = self
            .request(Method::GET, "/v1/channel")?
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, protocol::channel::UPGRADE)
            .header("clearseal-enclave", hint)
            .body(Full::default())
            .map_err(|_| Error::UrlInvalid)?;
        let opened = async {
            let response = self.http.request(request).await;
            let mut response = response.map_err(|error| self.offline(&error))?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                let upgraded = hyper::upgrade::on(&mut response).await;
                return upgraded.map(TokioIo::new).map_err(|_| self.broken());
            }
            let (parts, body) = response.into_parts();
            let response = Response {
                status: parts.status,
                kind: None,
                body: self.collect(body, MAX_PROBLEM).await?,
            };
            Err(match response.status {
                StatusCode::UPGRADE_REQUIRED => self.no_upgrade(),
                _ => self.refused(&response, 0),
            })
        };
        tokio::time::timeout(self.timeout, opened)
            .await
            .unwrap_or_else(|_| Err(self.late()))
    }

    fn request(&self, method: Method, path: &str) -> Result<http::request::Builder, Error> {
        let uri: Uri = format!("{}{path}", self.target)
            .parse()
            .map_err(|_| Error::UrlInvalid)?;
        Ok(Request::builder().method(method).uri(uri))
    }

    async fn send(&self, request: Request<Full<Bytes>>, limit: usize) -> Result<Response, Error> {
        let exchange = async {
            let response = self.http.request(request).await;
            let response = response.map_err(|error| self.offline(&error))?;
            let (parts, body) = response.into_parts();
            let limit = match parts.status.is_success() {
                true => limit,
                false => limit.min(MAX_PROBLEM),
            };
            Ok(Response {
                status: parts.status,
                kind: parts.headers.get(header::CONTENT_TYPE).cloned(),
                body: self.collect(body, limit).await?,
            })
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(self.late()))
    }

    /// Reads a body, and stops before it outgrows `limit`: a declared length is not believed.
    async fn collect(&self, mut body: Incoming, limit: usize) -> Result<Bytes, Error> {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| self.broken())?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if first.len() + all.len() + data.len() > limit {
                return Err(self.too_large(limit));
            }
            if first.is_empty() && all.is_empty() {
                first = data;
            } else {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&data);
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }

    /// `length` is the number of bytes that were sent.
    fn refused(&self, response: &Response, length: usize) -> Error {
        let code = code(&response.body);
        let status = response.status;
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return self.too_long(length, code);
        }
        let with = code
            .as_deref()
            .map_or_else(String::new, |code| format!(" and {code}"));
        self.problem(
            code.unwrap_or_else(|| "HOST_REFUSED".to_owned()),
            format!(
                "{} answered with status {status}{with}, without a seal",
                self.origin
            ),
            match status {
                status if status.is_server_error() => "Try again later.",
                StatusCode::TOO_MANY_REQUESTS => "Try again later.",
                _ => "Check the address.",
            },
            Some(status.as_u16()),
        )
    }

    /// The host gives a code; a reverse proxy in front of it does not.
    fn too_long(&self, length: usize, code: Option<String>) -> Error {
        let (by, remedy) = match code {
            Some(_) => ("the host", "Send fewer or shorter texts at once."),
            None => (
                "a proxy in front of the host, which limits the length of requests",
                "Send fewer texts at once, or raise the limit of that proxy to 5 MiB (nginx: `client_max_body_size 5m;`).",
            ),
        };
        self.problem(
            code.unwrap_or_else(|| "BODY_TOO_LARGE".to_owned()),
            format!(
                "a request of {length} bytes to {} was refused with status 413 by {by}",
                self.origin
            ),
            remedy,
            Some(StatusCode::PAYLOAD_TOO_LARGE.as_u16()),
        )
    }

    fn no_upgrade(&self) -> Error {
        self.problem(
            UPGRADE_REQUIRED.to_owned(),
            format!(
                "{} opened no channel: a proxy in front of the host drops the field `upgrade`",
                self.origin
            ),
            "Let the proxy pass it: nginx `proxy_http_version 1.1; proxy_set_header upgrade $http_upgrade; proxy_set_header connection upgrade;`, Apache `upgrade=ANY` in `ProxyPass`.",
            Some(StatusCode::UPGRADE_REQUIRED.as_u16()),
        )
    }

    fn offline(&self, error: &hyper_util::client::legacy::Error) -> Error {
        if let Some(reason) = find_certificate_error(error) {
            return self.untrusted(reason);
        }
        // The cause names addresses and the operating system's words, nothing of the request.
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let (through, remedy) = match &self.proxy {
            Some(proxy) => (
                format!(" through the proxy {proxy}"),
                "Check the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names, or add the host to NO_PROXY.",
            ),
            None => (
                String::new(),
                "Check the address and the network, and whether the service is running (`npm start`).",
            ),
        };
        self.problem(
            "NETWORK".to_owned(),
            format!("cannot reach {}{through} ({cause})", self.origin),
            remedy,
            None,
        )
    }

    fn untrusted(&self, reason: &rustls::CertificateError) -> Error {
        let remedy = match reason {
            rustls::CertificateError::UnknownIssuer => {
                "If a private authority issued it, name the file of that authority's certificate, PEM, with `--ca FILE` or SSL_CERT_FILE."
            }
            _ => "Check the address, this machine's clock, and the host's certificate.",
        };
        self.problem(
            CERTIFICATE_UNTRUSTED.to_owned(),
            format!(
                "the certificate of {} is not trusted ({reason})",
                self.origin
            ),
            remedy,
            None,
        )
    }

    pub(crate) fn broken(&self) -> Error {
        self.problem(
            "NETWORK".to_owned(),
            format!(
                "the connection to {} ended in the middle of an answer",
                self.origin
            ),
            "Try again.",
            None,
        )
    }

    /// Longest for one exchange.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// No answer within [`timeout`](Self::timeout).
    pub(crate) fn late(&self) -> Error {
        let seconds = self.timeout.as_secs();
        self.problem(
            "TIMEOUT".to_owned(),
            format!("{} did not answer within {seconds} s", self.origin),
            "Try again; if it continues, the host or the enclave is overloaded or down.",
            None,
        )
    }

    fn too_large(&self, limit: usize) -> Error {
        self.problem(
            "ANSWER_TOO_LARGE".to_owned(),
            format!("{} sent more than {limit} bytes", self.origin),
            "Check the address; this protocol never needs more here.",
            None,
        )
    }

    #[expect(
        clippy::unused_self,
        reason = "called like the functions that name the host"
    )]
    fn problem(
        &self,
        code: String,
        detail: String,
        remedy: &'static str,
        status: Option<u16>,
    ) -> Error {
        Error::Unreachable(Arc::new(Problem {
            code,
            detail,
            remedy,
            status,
        }))
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Host").field(&self.origin).finish()
    }
}

struct Response {
    status: StatusCode,
    kind: Option<HeaderValue>,
    body: Bytes,
}

/// Appends the default port to an authority without one. hyper's tunnel would otherwise take 443 for http, too.
fn with_port(uri: &Uri, origin: &str) -> String {
    match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) if authority.port().is_none() => {
            origin.replacen(authority.as_str(), &format!("{authority}:80"), 1)
        }
        _ => origin.to_owned(),
    }
}

fn is_key_problem(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Problem {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_slice::<Problem>(body)
        .is_ok_and(|problem| problem.kind == ohttp::KEY_PROBLEM_TYPE)
}

/// The code of a problem document. It is the host's word, and is passed on only where it has the form of a code.
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
    fn only_what_looks_like_a_code_is_passed_on() {
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

    #[test]
    fn addresses_are_http_or_https() {
        let host = |url| Host::new(url, Duration::from_secs(1));
        for good in [
            "http://127.0.0.1:8787",
            "https://embed.example/",
            "http://[::1]:1/a",
        ] {
            assert!(host(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:8787",
            "ftp://a",
            "file:///etc/passwd",
            "http://",
            "http://a/?b",
        ] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
