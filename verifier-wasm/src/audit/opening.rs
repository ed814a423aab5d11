//! Checks whether a receipt commits to a given request and response.

use attestation::{RowState, UnixMillis};
use base16ct::lower::encode_string as hex;
use protocol::commitment::request_hash;
use protocol::inner::{InnerRequest, unpadded_len};
use protocol::receipt::{ClaimsView, ReceiptReport};
use protocol::terms::{DATE_WINDOW_SECONDS, SALT_LEN, Terms};

use super::Subject;
use super::report::OpenedContent;

/// Request and response, if the receipt commits to both.
pub(super) fn open(subject: &Subject, report: &ReceiptReport) -> Option<OpenedContent> {
    let Subject::Bundle {
        content: Some(content),
        ..
    } = subject
    else {
        return None;
    };
    let passed = |name: &str| {
        let mut rows = report.checks.iter();
        rows.any(|row| row.name == name && row.state == RowState::Passed)
    };
    if !(passed("request") && passed("response")) {
        return None;
    }
    let request = InnerRequest::decode(&content.request).ok()?;
    let terms = Terms::read(&request).ok()?;
    Some(OpenedContent {
        date_ms: terms.date.0,
        salt: hex(&terms.salt),
        method: request.method,
        path: request.path,
        request: String::from_utf8(request.content).ok(),
        response: String::from_utf8(content.response.clone()).ok(),
    })
}

pub(super) fn salt_of(hex: &str) -> Option<[u8; SALT_LEN]> {
    let bytes = base16ct::mixed::decode_vec(hex.trim()).ok()?;
    bytes.try_into().ok()
}

/// Rebuilds the client's request. Only the second of its date is unknown, so every second near the receipt's time is tried.
pub(super) fn made_at(
    claims: &ClaimsView,
    salt: &[u8; SALT_LEN],
    content: Vec<u8>,
) -> Option<UnixMillis> {
    let bytes = |hex: &str| base16ct::lower::decode_vec(hex).ok();
    let document = bytes(&claims.attestation_doc_hash)?.try_into().ok()?;
    let nonce = bytes(claims.nonce.as_deref()?)?;
    let request = InnerRequest {
        method: "POST".to_owned(),
        path: "/v1/embeddings".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        content,
    };
    let first = claims.issued_at.saturating_sub(DATE_WINDOW_SECONDS);
    let last = claims.issued_at.saturating_add(DATE_WINDOW_SECONDS);
    (first..=last).map(UnixMillis::from_seconds).find(|date| {
        let terms = Terms {
            date: *date,
            nonce: nonce.clone(),
            salt: *salt,
            document,
        };
        let mut request = request.clone();
        let inner = terms.write(&mut request).ok().and_then(|()| {
            let mut inner = request.encode_padded().ok()?;
            inner.truncate(unpadded_len(&inner).ok()?);
            Some(inner)
        });
        inner.is_some_and(|inner| hex(&request_hash(&inner)) == claims.request_hash)
    })
}
