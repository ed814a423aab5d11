//! AWS KMS, with the credentials of the environment or the instance's role, as for AWS's tools.

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_kms::Client;
use aws_sdk_kms::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::{EncryptionAlgorithmSpec, KeyEncryptionMechanism, RecipientInfo};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use base64ct::{Base64, Encoding};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Attempt, Decrypt, KeyService, KmsAnswer, Unavailable};

/// KMS in one region.
pub(crate) struct Aws(Client);

impl Aws {
    /// Makes one attempt for each call: the endpoint decides whether to retry.
    pub(crate) async fn in_region(region: &str) -> Self {
        let tls = Provider::Rustls(CryptoMode::Ring);
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .http_client(Builder::new().tls_provider(tls).build_https())
            .retry_config(RetryConfig::disabled())
            .load();
        Self(Client::new(&config.await))
    }

    async fn ask(&self, request: &Decrypt) -> Result<KmsAnswer, Unavailable> {
        let recipient = &request.recipient;
        let recipient = RecipientInfo::builder()
            .attestation_document(blob(&recipient.attestation_document)?)
            .key_encryption_algorithm(KeyEncryptionMechanism::from(
                recipient.key_encryption_algorithm.as_str(),
            ))
            .build();
        let algorithm = EncryptionAlgorithmSpec::from(request.encryption_algorithm.as_str());
        let context = request.encryption_context.clone().into_iter().collect();
        let sent = self
            .0
            .decrypt()
            .key_id(&request.key_id)
            .ciphertext_blob(blob(&request.ciphertext_blob)?)
            .encryption_algorithm(algorithm)
            .set_encryption_context(Some(context))
            .recipient(recipient)
            .send();
        match sent.await {
            Ok(answer) => {
                let members = [
                    ("KeyId", answer.key_id().map(str::to_owned)),
                    (
                        "CiphertextForRecipient",
                        answer.ciphertext_for_recipient().map(text),
                    ),
                    ("Plaintext", answer.plaintext().map(text)),
                ];
                let members = members.into_iter();
                let body: Map<_, _> = members
                    .filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?))))
                    .collect();
                Ok(KmsAnswer {
                    status: StatusCode::OK,
                    body: Value::Object(body),
                })
            }
            Err(error) => {
                let status = error.raw_response().map(|raw| raw.status().as_u16());
                let status = status.and_then(|status| StatusCode::from_u16(status).ok());
                // An error without a code is not an answer of KMS: there is no route, or no credentials.
                let (Some(status), Some(name)) = (status, error.code()) else {
                    return Err(Unavailable(DisplayErrorContext(&error).to_string()));
                };
                Ok(KmsAnswer {
                    status,
                    body: json!({ "__type": name, "message": error.message() }),
                })
            }
        }
    }
}

impl KeyService for Aws {
    fn decrypt<'a>(&'a self, request: &'a Decrypt) -> Attempt<'a> {
        Box::pin(self.ask(request))
    }
}

fn blob(text: &str) -> Result<Blob, Unavailable> {
    let bytes = Base64::decode_vec(text);
    let bytes = bytes.map_err(|_| Unavailable("the request does not hold base64".to_owned()))?;
    Ok(Blob::new(bytes))
}

fn text(blob: &Blob) -> String {
    Base64::encode_string(blob.as_ref())
}

#[cfg(test)]
mod tests;
