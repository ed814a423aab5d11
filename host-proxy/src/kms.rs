//! `POST /v1/kms/decrypt`: passes an enclave's request for a data key on to KMS.
//!
//! A wrapped data key and an envelope pass through here, which only the enclave opens. A request without an attested recipient is
//! refused, because its answer would hold the data key in plaintext.

#[cfg(feature = "cloud")]
mod aws;
mod endpoint;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64ct::{Base64, Encoding};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Semaphore;

#[cfg(feature = "cloud")]
use aws::Aws;
use endpoint::Endpoint;

/// A document of 16 KiB and a wrapped key of 6 KiB, in base64.
const MAX_REQUEST: usize = 64 << 10;
/// An envelope of 8 KiB in base64, and names.
const MAX_ANSWER: usize = 16 << 10;
/// Requests at once. An enclave makes one in its lifetime.
const AT_ONCE: usize = 2;
/// Longest wait for other requests. With all attempts it is shorter than an enclave waits for its answer.
const TURN_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest wait for one answer of KMS.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// KMS, or a simulation of it.
pub(crate) trait KeyService: Send + Sync {
    /// Makes one attempt. The request has the form of KMS's, and a recipient.
    fn decrypt<'a>(&'a self, request: &'a Decrypt) -> Attempt<'a>;
}

/// Opens the service that `--kms-region` or `--simulate-kms` names.
pub(crate) async fn open(
    region: Option<&str>,
    simulated: Option<&str>,
) -> anyhow::Result<Option<Arc<dyn KeyService>>> {
    Ok(match (region, simulated) {
        #[cfg(feature = "cloud")]
        (Some(region), _) => Some(Arc::new(Aws::in_region(region).await)),
        #[cfg(not(feature = "cloud"))]
        (Some(_), _) => {
            anyhow::bail!("--kms-region needs a host-proxy that was built with its feature `cloud`")
        }
        (None, Some(url)) => Some(Arc::new(Endpoint::simulated(url)?)),
        (None, None) => None,
    })
}

/// One attempt at decrypting.
pub(crate) type Attempt<'a> =
    Pin<Box<dyn Future<Output = Result<KmsAnswer, Unavailable>> + Send + 'a>>;

/// An answer of KMS.
pub(crate) struct KmsAnswer {
    /// 200, or the status of a refusal.
    pub(crate) status: StatusCode,
    /// JSON in KMS's form.
    pub(crate) body: Value,
}

/// KMS did not answer. The text is for the operator's log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(pub(crate) String);

/// The subset of KMS's `Decrypt` that an enclave may send.
#[derive(Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct Decrypt {
    /// ARN of the key.
    pub(crate) key_id: String,
    /// The wrapped data key, base64.
    pub(crate) ciphertext_blob: String,
    /// `SYMMETRIC_DEFAULT`.
    pub(crate) encryption_algorithm: String,
    /// Authenticated with the data key.
    pub(crate) encryption_context: BTreeMap<String, String>,
    /// The enclave, for which KMS encrypts the data key.
    pub(crate) recipient: Recipient,
}

impl Decrypt {
    /// Whether the members that hold bytes are base64.
    fn is_base64(&self) -> bool {
        let members = [&self.ciphertext_blob, &self.recipient.attestation_document];
        members
            .into_iter()
            .all(|text| Base64::decode_vec(text).is_ok())
    }
}

/// The enclave, as KMS recognises it.
#[derive(Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct Recipient {
    /// Signed by the Nitro hypervisor, base64.
    pub(crate) attestation_document: String,
    /// `RSAES_OAEP_SHA_256`.
    pub(crate) key_encryption_algorithm: String,
}

/// Builds the endpoint over a service. Without one every request is refused.
pub(crate) fn routes(service: Option<Arc<dyn KeyService>>) -> Router {
    let state = KmsState {
        service,
        slots: Arc::new(Semaphore::new(AT_ONCE)),
    };
    Router::new()
        .route("/v1/kms/decrypt", post(decrypt))
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .with_state(state)
}

#[derive(Clone)]
struct KmsState {
    service: Option<Arc<dyn KeyService>>,
    slots: Arc<Semaphore>,
}

async fn decrypt(State(state): State<KmsState>, body: Bytes) -> Response {
    let Some(service) = state.service else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "KMS_NOT_CONFIGURED",
            "host-proxy has no KMS; start it with --kms-region, or with --simulate-kms for development",
        );
    };
    let request = serde_json::from_slice::<Decrypt>(&body);
    let Some(request) = request.ok().filter(Decrypt::is_base64) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "ValidationException",
            "the request is not Decrypt with an attested recipient",
        );
    };
    let Ok(Ok(_slot)) = tokio::time::timeout(TURN_TIMEOUT, state.slots.acquire()).await else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "LimitExceededException",
            "other requests for keys are in progress; retry",
        );
    };
    let answer = match ask(&*service, &request).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(code = "KMS_UNREACHABLE", %error, "KMS did not answer");
            return refuse(
                StatusCode::BAD_GATEWAY,
                "KMS_UNREACHABLE",
                "KMS did not answer; the proxy's log has the reason",
            );
        }
    };
    // KMS never does this for a recipient. The service that did is not KMS, and has exposed its key.
    if answer.body["Plaintext"]
        .as_str()
        .is_some_and(|plaintext| !plaintext.is_empty())
    {
        tracing::error!(
            code = "KMS_ANSWERED_PLAINTEXT",
            "the answer held a plaintext; the key is not safe any more"
        );
        return refuse(
            StatusCode::BAD_GATEWAY,
            "KMS_ANSWERED_PLAINTEXT",
            "the answer held a plaintext; retire the key",
        );
    }
    tracing::info!(
        status = answer.status.as_u16(),
        key = request.key_id.escape_default().to_string(),
        "KMS answered a request for a data key"
    );
    respond(answer.status, &answer.body)
}

/// Retries where KMS reports an internal error or throttling, and where it does not answer.
async fn ask(service: &dyn KeyService, request: &Decrypt) -> Result<KmsAnswer, Unavailable> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let timeout = || Unavailable("no answer within 10 s".to_owned());
        let answer = tokio::time::timeout(TIMEOUT, service.decrypt(request))
            .await
            .unwrap_or_else(|_| Err(timeout()));
        let is_retriable = match &answer {
            Ok(answer) => answer.status.is_server_error() || is_throttled(&answer.body),
            Err(_) => true,
        };
        match pauses.next().filter(|_| is_retriable) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return answer,
        }
    }
}

fn is_throttled(body: &Value) -> bool {
    body["__type"]
        .as_str()
        .is_some_and(|name| name.ends_with("ThrottlingException"))
}

/// Builds a refusal in the form of KMS's.
fn refuse(status: StatusCode, name: &str, message: &str) -> Response {
    respond(
        status,
        &serde_json::json!({ "__type": name, "message": message }),
    )
}

fn respond(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/x-amz-json-1.1")];
    (status, kind, body.to_string()).into_response()
}

#[cfg(test)]
mod tests;
