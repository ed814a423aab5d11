//! A live check: a fresh nonce, the evidence that answers it, and the trusted enclave.

use std::cell::RefCell;

use attestation::{
    AttestationReport, AttestationResponse, Conclusion, Evidence, Freshness, Policy, UnixMillis,
    VerifiedAttestation,
};
use base16ct::lower::encode_string as hex;
use base64ct::{Base64UrlUnpadded, Encoding};
use getrandom::SysRng;
use protocol::exchange::PreparedExchange;
use rand_core::UnwrapErr;
use tsify::{Ts, Tsify};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};
use web_sys::SubtleCrypto;

use crate::accelerate::{compute_ahead, with_memory};
use crate::exchange::SealedRequest;
use crate::policy::{Refusal, choose, moment, policy_text, refusal_report};
use crate::stopwatch::stopwatch;

/// A nonce for one check. Verifying consumes it.
#[wasm_bindgen]
pub struct Challenge {
    nonce: [u8; 32],
    crls: Vec<u8>,
}

#[wasm_bindgen]
impl Challenge {
    /// Generates a nonce. Throws if the platform has no source of randomness.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Result<Challenge, JsError> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce)
            .map_err(|_| JsError::new("this platform has no source of randomness"))?;
        let crls = Vec::new();
        Ok(Self { nonce, crls })
    }

    /// Sets certificate revocation lists (DER, concatenated) for the check. They may come from the host: their issuers sign
    /// them.
    #[wasm_bindgen(js_name = setCrls)]
    pub fn set_crls(&mut self, crls: Vec<u8>) {
        self.crls = crls;
    }

    /// Nonce for the query of the attestation endpoint: base64url without padding.
    #[wasm_bindgen(getter)]
    pub fn nonce(&self) -> String {
        Base64UrlUnpadded::encode_string(&self.nonce)
    }

    /// Nonce in hex.
    #[wasm_bindgen(getter, js_name = nonceHex)]
    pub fn nonce_hex(&self) -> String {
        hex(&self.nonce)
    }

    /// Verifies the evidence (`application/cbor`) that answers this challenge. The result has an enclave only if the verdict is
    /// *verified*; a simulated one is refused.
    ///
    /// `policy` is the caller's policy as JSON text; defaults to the policy of this build. `subtle` verifies signatures; the
    /// report is the same without it.
    pub async fn verify(
        self,
        evidence: Vec<u8>,
        #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
        now_ms: f64,
        subtle: Option<SubtleCrypto>,
    ) -> Verification {
        match self.judge(&evidence, &policy, None, now_ms, subtle).await {
            Ok((report, concluded)) => Verification {
                report: report.refuse_simulation(),
                trusted: concluded
                    .verified()
                    .and_then(|enclave| TrustedEnclave::new(enclave, &evidence, &self.crls)),
            },
            Err(refusal) => Verification::refused(refusal, moment(now_ms)),
        }
    }

    /// Verifies like [`verify`](Self::verify), and accepts a simulated enclave too, whose operator can read everything that is sealed to it.
    /// For development. `serverPolicy`, the service's own policy, is used only if neither caller nor build has one.
    #[wasm_bindgen(js_name = verifyAllowingSimulation)]
    pub async fn verify_allowing_simulation(
        self,
        evidence: Vec<u8>,
        #[wasm_bindgen(unchecked_param_type = "string | null | undefined")] policy: JsValue,
        server_policy: Option<String>,
        now_ms: f64,
        subtle: Option<SubtleCrypto>,
    ) -> Verification {
        let served = server_policy.as_deref();
        match self.judge(&evidence, &policy, served, now_ms, subtle).await {
            Ok((report, concluded)) => Verification {
                report,
                trusted: concluded
                    .including_simulated()
                    .and_then(|enclave| TrustedEnclave::new(enclave, &evidence, &self.crls)),
            },
            Err(refusal) => Verification::refused(refusal, moment(now_ms)),
        }
    }
}

impl Challenge {
    async fn judge(
        &self,
        evidence: &[u8],
        policy: &JsValue,
        server_policy: Option<&str>,
        now_ms: f64,
        subtle: Option<SubtleCrypto>,
    ) -> Result<(AttestationReport, Conclusion), Refusal> {
        let now = moment(now_ms);
        let policy = choose(policy_text(policy)?.as_deref(), server_policy)?;
        let answered = parse(evidence)?;
        let document = answered.evidence.document;
        compute_ahead(document, policy.anchor(), now, subtle.as_ref()).await;
        Ok(conclude(&answered, &self.crls, &policy, &self.nonce, now))
    }
}

/// Appraises evidence again, as an answer to `nonce` at `now`, with the signature cache.
pub(crate) fn judge_again(
    evidence: &[u8],
    crls: &[u8],
    policy: Option<&str>,
    server_policy: Option<&str>,
    nonce: &[u8],
    now: UnixMillis,
) -> Result<(AttestationReport, Conclusion), Refusal> {
    let policy = choose(policy, server_policy)?;
    Ok(conclude(&parse(evidence)?, crls, &policy, nonce, now))
}

fn parse(evidence: &[u8]) -> Result<AttestationResponse<'_>, Refusal> {
    AttestationResponse::parse(evidence).map_err(|error| Refusal {
        code: error.code().to_owned(),
        message: error.to_string(),
        remedy: "Ask the attestation endpoint again; suspect the relay in between.".to_owned(),
    })
}

fn conclude(
    answered: &AttestationResponse<'_>,
    crls: &[u8],
    policy: &Policy,
    nonce: &[u8],
    now: UnixMillis,
) -> (AttestationReport, Conclusion) {
    let nonce = &answered.document_nonce(nonce);
    let appraisal = answered.evidence.appraisal().with_crls(crls);
    let appraisal = appraisal.with_stopwatch(stopwatch());
    let freshness = Freshness::Live { nonce, now };
    with_memory(|memory| appraisal.with_memory(memory).verify(policy, freshness))
}

/// Result of a check: a report, and an enclave only if everything passed.
#[wasm_bindgen]
pub struct Verification {
    report: AttestationReport,
    trusted: Option<TrustedEnclave>,
}

impl Verification {
    fn refused(refusal: Refusal, at: UnixMillis) -> Self {
        Self {
            report: refusal_report(refusal, at),
            trusted: None,
        }
    }
}

#[wasm_bindgen]
impl Verification {
    /// The report.
    pub fn report(&self) -> Result<Ts<AttestationReport>, JsError> {
        Ok(self.report.into_ts()?)
    }

    /// Takes the enclave, if the report's verdict allows it.
    #[wasm_bindgen(js_name = takeEnclave)]
    pub fn take_enclave(&mut self) -> Option<TrustedEnclave> {
        self.trusted.take()
    }
}

/// An enclave that passed every check. Holds its keys, which JavaScript cannot read.
#[wasm_bindgen]
pub struct TrustedEnclave {
    pub(crate) attestation: VerifiedAttestation,
    /// Prepared for the next request, if there was time.
    pub(crate) prepared: RefCell<Option<PreparedExchange>>,
    pub(crate) document: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
    pub(crate) crls: Vec<u8>,
}

impl TrustedEnclave {
    /// Keeps the evidence, for audit bundles.
    fn new(attestation: VerifiedAttestation, evidence: &[u8], crls: &[u8]) -> Option<Self> {
        let Evidence { document, manifest } = Evidence::parse(evidence).ok()?;
        Some(Self {
            attestation,
            prepared: RefCell::new(None),
            document: document.to_vec(),
            manifest: manifest.to_vec(),
            crls: crls.to_vec(),
        })
    }

    /// Copies the enclave for a channel, which may outlive this handle.
    pub(crate) fn share(&self) -> Self {
        Self {
            attestation: self.attestation.clone(),
            prepared: RefCell::new(None),
            document: self.document.clone(),
            manifest: self.manifest.clone(),
            crls: self.crls.clone(),
        }
    }
}

#[wasm_bindgen]
impl TrustedEnclave {
    /// Time until which requests may be sealed under this evidence, Unix milliseconds by the clock of the check.
    #[wasm_bindgen(getter, js_name = validUntilMs)]
    pub fn valid_until_ms(&self) -> f64 {
        let clock = self.attestation.clock_offset();
        let UnixMillis(ms) = clock.to_local(self.attestation.valid_until());
        // Bounded by the year 9999, far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        let ms = ms as f64;
        ms
    }

    /// Value of the header `clearseal-enclave`: a hint for load balancers.
    #[wasm_bindgen(getter)]
    pub fn hint(&self) -> String {
        hex(&self.attestation.manifest_sha256()[..8])
    }

    /// Does the part of the next [`seal`](Self::seal) that does not depend on the request in advance, in idle time. Throws if the
    /// platform has no source of randomness.
    pub fn prepare(&self) {
        let mut prepared = self.prepared.borrow_mut();
        if prepared.is_none() {
            // `seal` reports a key that cannot be used.
            *prepared = PreparedExchange::new(&self.attestation, &mut UnwrapErr(SysRng)).ok();
        }
    }

    /// Seals one request. `headers` is a flat list: name, value, name, value.
    pub fn seal(
        &self,
        method: String,
        path: String,
        headers: Vec<String>,
        content: Vec<u8>,
        now_ms: f64,
    ) -> SealedRequest {
        SealedRequest::seal(self, method, path, headers, content, moment(now_ms))
    }
}
