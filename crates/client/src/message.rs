//! Ordinary HTTP messages, and their form inside the seal.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use protocol::bundle::AuditBundle;
use protocol::exchange;
use protocol::inner::InnerRequest;
use protocol::receipt::ReceiptReport;
use serde::Deserialize;

use crate::error::Error;
use crate::index::KEY_FIELD;
use crate::state::Session;

/// Fields that an HTTP library may add to a request and that have no meaning inside the seal.
const CONNECTION_FIELDS: [&str; 12] = [
    "accept-encoding",
    "connection",
    "content-length",
    "cookie",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Converts path, query, fields and content of `request`. Scheme and authority are ignored: the seal decides who can read it.
pub(crate) fn to_inner_request(request: http::Request<Bytes>) -> Result<InnerRequest, Error> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = Vec::with_capacity(parts.headers.len());
    for name in parts.headers.keys() {
        if CONNECTION_FIELDS.contains(&name.as_str()) {
            continue;
        }
        // RFC 9110 §5.3: several lines of one field are one list.
        let values = parts.headers.get_all(name).iter();
        let values: Result<Vec<_>, _> = values.map(HeaderValue::to_str).collect();
        let value = values.map_err(|_| Error::RequestInvalid)?.join(", ");
        headers.push((name.as_str().to_owned(), value.trim().to_owned()));
    }
    Ok(InnerRequest {
        method: parts.method.as_str().to_owned(),
        path: path.to_owned(),
        headers,
        content: body.into(),
    })
}

/// An answer of a verified enclave, or of a simulated one that the caller accepted. Its receipt was verified. Has no `Debug`,
/// because it contains the user's content.
pub struct Answer {
    answer: exchange::Answer,
    session: Arc<Session>,
}

impl Answer {
    pub(crate) fn new(answer: exchange::Answer, session: Arc<Session>) -> Self {
        Self { answer, session }
    }

    /// Returns the HTTP status inside the seal.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.answer.response.status).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    /// Returns the fields inside the seal, with names in lower case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.answer.response.headers
    }

    /// Returns the content.
    pub fn content(&self) -> &[u8] {
        &self.answer.response.content
    }

    /// Returns the receipt as signed, or `None` for refusals and for requests that only read.
    pub fn receipt(&self) -> Option<&[u8]> {
        self.answer
            .receipt
            .as_ref()
            .map(|receipt| &receipt.bytes[..])
    }

    /// Returns the report of the receipt, which is never a refusal.
    pub fn receipt_report(&self) -> Option<&ReceiptReport> {
        self.answer.receipt.as_ref().map(|receipt| &receipt.report)
    }

    /// Returns the session of the enclave that answered.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns the inner request as it was sealed. Contains the salt, which opens the receipt's commitments.
    pub fn inner_request(&self) -> &[u8] {
        &self.answer.inner_request
    }

    /// Returns receipt and evidence, for later verification, or `None` if there is no receipt. `with_content` adds request and
    /// answer, so that an auditor can open the receipt's commitments. Of a request about a private index it adds the salt alone: the request
    /// holds the key of the index.
    pub fn bundle(&self, with_content: bool) -> Option<AuditBundle> {
        let Session {
            document,
            manifest,
            crls,
            ..
        } = &*self.session;
        let (document, manifest) = (document.clone(), manifest.clone());
        let has_key = holds_index_key(&self.answer.inner_request);
        let bundle = AuditBundle::of(&self.answer, document, manifest, with_content && !has_key)?;
        let bundle = bundle.with_crls(crls.to_vec());
        match with_content && has_key {
            true => bundle.with_salt_of(&self.answer.inner_request),
            false => Some(bundle),
        }
    }

    /// Converts the answer into an ordinary HTTP response, with the receipt in the field `clearseal-receipt`.
    pub fn into_response(self) -> http::Response<Bytes> {
        let status = self.status();
        let exchange::Answer { response, .. } = self.answer;
        let mut http = http::Response::new(Bytes::from(response.content));
        *http.status_mut() = status;
        for (name, value) in &response.headers {
            // Both were checked when the message was opened.
            if let (Ok(name), Ok(value)) = (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value.as_str()),
            ) {
                http.headers_mut().insert(name, value);
            }
        }
        http
    }
}

fn holds_index_key(inner_request: &[u8]) -> bool {
    // A request that cannot be read is not disclosed either.
    InnerRequest::decode(inner_request).map_or(true, |request| {
        let mut names = request.headers.iter();
        names.any(|(name, _)| name.eq_ignore_ascii_case(KEY_FIELD))
    })
}

/// Parses the sealed error of an enclave that refused the request.
pub(crate) fn parse_service_error(answer: &Answer) -> Error {
    match serde_json::from_slice::<ServiceError>(answer.content()) {
        Ok(ServiceError { error }) => error.into_error(answer.status().as_u16()),
        Err(_) => Error::AnswerInvalid,
    }
}

#[derive(Deserialize)]
struct ServiceError {
    error: ServiceErrorDetail,
}

/// An error object in OpenAI's format.
#[derive(Deserialize)]
pub(crate) struct ServiceErrorDetail {
    message: String,
    code: Option<String>,
    param: Option<String>,
}

impl ServiceErrorDetail {
    pub(crate) fn into_error(self, status: u16) -> Error {
        Error::Service {
            status,
            code: self.code.unwrap_or_else(|| "SERVICE_REFUSED".to_owned()),
            message: self.message,
            param: self.param,
        }
    }
}
