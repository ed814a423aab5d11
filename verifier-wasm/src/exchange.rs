//! One sealed request and its answer, as handles that JavaScript passes along without looking inside.

use attestation::UnixMillis;
use getrandom::SysRng;
use protocol::bundle::AuditBundle;
use protocol::exchange::{Answer, ExchangeError, PendingExchange, PreparedExchange};
use protocol::inner::InnerRequest;
use protocol::receipt::ReceiptReport;
use rand_core::UnwrapErr;
use serde::Serialize;
use tsify::{Ts, Tsify};
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::challenge::TrustedEnclave;
use crate::policy::moment;

/// How an exchange ended.
#[derive(Serialize, Tsify)]
#[serde(
    tag = "status",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ExchangeOutcome {
    /// The enclave answered. A success has a valid receipt, but for that of a `GET`.
    Answered {
        /// Inner status code.
        http_status: u16,
        /// Inner fields in order.
        headers: Vec<(String, String)>,
        /// Judgement of the receipt, never refused; a refusal and the answer to a `GET` have none.
        receipt: Option<ReceiptReport>,
    },
    /// Nothing that may be relied on.
    Refused {
        /// Stable code.
        code: String,
        /// What happened, in one sentence.
        message: String,
        /// What to do next, in one sentence.
        remedy: String,
        /// Judgement of the receipt, where it was what was refused.
        receipt: Option<ReceiptReport>,
    },
}

/// A request that was sealed, or the reason why it was not.
#[wasm_bindgen]
pub struct SealedRequest {
    state: Result<(Vec<u8>, PendingExchange), ExchangeError>,
    document: Vec<u8>,
    manifest: Vec<u8>,
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
        let mut fields = Vec::with_capacity(headers.len() / 2);
        let mut headers = headers.into_iter();
        while let (Some(name), Some(value)) = (headers.next(), headers.next()) {
            fields.push((name, value));
        }
        let request = InnerRequest {
            method,
            path,
            headers: fields,
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
        }
    }
}

#[wasm_bindgen]
impl SealedRequest {
    /// The bytes to send; nothing where sealing was refused.
    #[wasm_bindgen(js_name = takeBytes)]
    pub fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.state
            .as_mut()
            .ok()
            .map(|(bytes, _)| std::mem::take(bytes))
    }

    /// Opens the answer and verifies its receipt. Consumes the request: each answer is opened once.
    pub fn open(self, sealed: &[u8], now_ms: f64) -> OpenedAnswer {
        let Self {
            state,
            document,
            manifest,
        } = self;
        let answer = state.and_then(|(_, pending)| pending.finish(sealed, moment(now_ms)));
        OpenedAnswer {
            answer,
            document,
            manifest,
        }
    }

    /// Why there is nothing to send.
    pub fn refusal(&self) -> Result<Option<Ts<ExchangeOutcome>>, JsError> {
        match &self.state {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(refusal(error).into_ts()?)),
        }
    }
}

/// An answer that was opened, or the reason why it was refused.
#[wasm_bindgen]
pub struct OpenedAnswer {
    answer: Result<Answer, ExchangeError>,
    document: Vec<u8>,
    manifest: Vec<u8>,
}

#[wasm_bindgen]
impl OpenedAnswer {
    /// The content of the response, copied out.
    pub fn body(&self) -> Vec<u8> {
        self.answer
            .as_ref()
            .map_or_else(|_| Vec::new(), |answer| answer.response.content.clone())
    }

    /// The audit bundle as JSON, where there is a receipt; `withContent` adds request and response, with which anybody can open the commitments.
    pub fn bundle(&self, with_content: bool) -> Option<String> {
        let answer = self.answer.as_ref().ok()?;
        let (document, manifest) = (self.document.clone(), self.manifest.clone());
        AuditBundle::of(answer, document, manifest, with_content)?
            .to_json()
            .ok()
    }

    /// How it ended, without the content.
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
