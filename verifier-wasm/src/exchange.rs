//! One sealed request and its answer, as opaque handles.

use attestation::UnixMillis;
use getrandom::SysRng;
use protocol::bundle::{AuditBundle, BundleContent};
use protocol::exchange::{Answer, ExchangeError, PendingExchange, PreparedExchange};
use protocol::inner::InnerRequest;
use protocol::receipt::ReceiptReport;
use protocol::vectors;
use rand_core::UnwrapErr;
use serde::Serialize;
use tsify::{Ts, Tsify};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::challenge::TrustedEnclave;
use crate::policy::moment;

/// Result of an exchange.
#[derive(Serialize, Tsify)]
#[serde(
    tag = "status",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ExchangeOutcome {
    /// The enclave answered. A successful answer has a valid receipt, except to a `GET`.
    Answered {
        /// Inner status code.
        http_status: u16,
        /// Inner fields in order.
        headers: Vec<(String, String)>,
        /// Report about the receipt, never refused; absent for an error and for a `GET`.
        receipt: Option<ReceiptReport>,
    },
    /// There is no verified answer.
    Refused {
        /// Stable code.
        code: String,
        /// Description, one sentence.
        message: String,
        /// Next step, one sentence.
        remedy: String,
        /// Report about the receipt, if that was refused.
        receipt: Option<ReceiptReport>,
    },
}

/// A sealed request, or the reason for a refusal.
#[wasm_bindgen]
pub struct SealedRequest {
    state: Result<(Vec<u8>, PendingExchange), ExchangeError>,
    document: Vec<u8>,
    manifest: Vec<u8>,
    crls: Vec<u8>,
}

impl SealedRequest {
    pub(crate) fn seal(
        enclave: &TrustedEnclave,
        method: String,
        path: String,
        headers: Vec<String>,
        content: Vec<u8>,
        now: UnixMillis,
    ) -> Self {
        let request = InnerRequest {
            method,
            path,
            headers: fields(headers),
            content,
        };
        let prepared = match enclave.prepared.take() {
            Some(prepared) => Ok(prepared),
            None => PreparedExchange::new(&enclave.attestation, &mut UnwrapErr(SysRng)),
        };
        Self {
            state: prepared.and_then(|prepared| prepared.begin(request, now)),
            document: enclave.document.clone(),
            manifest: enclave.manifest.clone(),
            crls: enclave.crls.clone(),
        }
    }
}

#[wasm_bindgen]
impl SealedRequest {
    /// The bytes to send, unless sealing was refused.
    #[wasm_bindgen(js_name = takeBytes)]
    pub fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.state
            .as_mut()
            .ok()
            .map(|(bytes, _)| std::mem::take(bytes))
    }

    /// Opens the answer and verifies its receipt. Consumes the request.
    pub fn open(self, sealed: &[u8], now_ms: f64) -> OpenedAnswer {
        let Self {
            state,
            document,
            manifest,
            crls,
        } = self;
        let answer = state.and_then(|(_, pending)| pending.finish(sealed, moment(now_ms)));
        OpenedAnswer {
            answer,
            document,
            manifest,
            crls,
        }
    }

    /// The refusal, if there is one.
    pub fn refusal(&self) -> Result<Option<Ts<ExchangeOutcome>>, JsError> {
        match &self.state {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(refusal(error).into_ts()?)),
        }
    }
}

/// Pairs of a flat list: name, value, name, value.
pub(crate) fn fields(list: Vec<String>) -> Vec<(String, String)> {
    let mut fields = Vec::with_capacity(list.len() / 2);
    let mut list = list.into_iter();
    while let (Some(name), Some(value)) = (list.next(), list.next()) {
        fields.push((name, value));
    }
    fields
}

/// Offsets of an answer's tensors in its body; see `docs/CHANNEL.md`. All are little-endian and aligned to 8 bytes.
#[derive(Serialize, Tsify)]
#[serde(rename_all = "camelCase")]
pub struct TensorLayout {
    /// Number of texts.
    pub rows: usize,
    /// Dimension of a vector.
    pub dimension: usize,
    /// Offset of the vectors: `rows * dimension` float32, row by row.
    pub values: usize,
    /// Offset of the token counts: `rows` 32-bit integers.
    pub tokens: usize,
    /// Offset of the truncation flags: `rows` bytes, 0 or 1.
    pub truncated: usize,
}

/// An opened answer, or the reason for a refusal.
#[wasm_bindgen]
pub struct OpenedAnswer {
    answer: Result<Answer, ExchangeError>,
    document: Vec<u8>,
    manifest: Vec<u8>,
    crls: Vec<u8>,
}

impl OpenedAnswer {
    pub(crate) fn new(answer: Result<Answer, ExchangeError>, enclave: &TrustedEnclave) -> Self {
        Self {
            answer,
            document: enclave.document.clone(),
            manifest: enclave.manifest.clone(),
            crls: enclave.crls.clone(),
        }
    }

    fn evidence(&self, with_content: bool) -> Option<(&Answer, AuditBundle)> {
        let answer = self.answer.as_ref().ok()?;
        let (document, manifest) = (self.document.clone(), self.manifest.clone());
        let bundle = AuditBundle::of(answer, document, manifest, with_content)?;
        Some((answer, bundle.with_crls(self.crls.clone())))
    }
}

#[wasm_bindgen]
impl OpenedAnswer {
    /// Layout of the tensors in [`body`](Self::body), if the body consists of tensors.
    pub fn tensors(&self) -> Result<Option<Ts<TensorLayout>>, JsError> {
        let Some(content) = self.answer.as_ref().ok().map(|it| &it.response.content) else {
            return Ok(None);
        };
        let Ok(layout) = vectors::Layout::of(content) else {
            return Ok(None);
        };
        let layout = TensorLayout {
            rows: layout.rows,
            dimension: layout.dimension,
            values: layout.values.start,
            tokens: layout.tokens.start,
            truncated: layout.truncated.start,
        };
        Ok(Some(layout.into_ts()?))
    }

    /// The request without its padding, as the receipt commits to it. Anyone who has it can open the commitments.
    pub fn request(&self) -> Vec<u8> {
        let answer = self.answer.as_ref();
        answer.map_or_else(|_| Vec::new(), |answer| answer.inner_request.clone())
    }

    /// Copy of the response content.
    pub fn body(&self) -> Vec<u8> {
        self.answer
            .as_ref()
            .map_or_else(|_| Vec::new(), |answer| answer.response.content.clone())
    }

    /// The audit bundle as JSON, if there is a receipt; `withContent` adds request and response, with which anyone can open the
    /// commitments.
    pub fn bundle(&self, with_content: bool) -> Option<String> {
        self.evidence(with_content)?.1.to_json().ok()
    }

    /// The audit bundle with only the salt: anyone who has the text can then check that the receipt is about it.
    #[wasm_bindgen(js_name = bundleWithSalt)]
    pub fn bundle_with_salt(&self) -> Option<String> {
        let (answer, bundle) = self.evidence(false)?;
        bundle.with_salt_of(&answer.inner_request)?.to_json().ok()
    }

    /// The result, without the content.
    pub fn outcome(&self) -> Result<Ts<ExchangeOutcome>, JsError> {
        let outcome = match &self.answer {
            Ok(answer) => ExchangeOutcome::Answered {
                http_status: answer.response.status,
                headers: answer.response.headers.clone(),
                receipt: answer
                    .receipt
                    .as_ref()
                    .map(|receipt| receipt.report.clone()),
            },
            Err(error) => return Ok(refusal(error).into_ts()?),
        };
        Ok(outcome.into_ts()?)
    }
}

fn refusal(error: &ExchangeError) -> ExchangeOutcome {
    let receipt = match error {
        ExchangeError::ReceiptRefused(report) => Some((**report).clone()),
        _ => None,
    };
    ExchangeOutcome::Refused {
        code: error.code().to_owned(),
        message: error.to_string(),
        remedy: error.remedy().to_owned(),
        receipt,
    }
}

/// Adds only the request's salt to a bundle without content. Returns nothing if `bundle` is not a bundle.
#[wasm_bindgen(js_name = bundleWithSalt)]
pub fn bundle_with_salt(bundle: &str, request: &[u8]) -> Option<String> {
    let bundle = AuditBundle::from_json(bundle).ok()?;
    bundle.with_salt_of(request)?.to_json().ok()
}

/// Adds request and response to a bundle without them, so that anyone who reads it can open the commitments. Returns nothing
/// if `bundle` is not a bundle.
#[wasm_bindgen(js_name = bundleWithContent)]
pub fn bundle_with_content(bundle: &str, request: Vec<u8>, response: Vec<u8>) -> Option<String> {
    let mut bundle = AuditBundle::from_json(bundle).ok()?;
    bundle.content = Some(BundleContent { request, response });
    bundle.to_json().ok()
}
