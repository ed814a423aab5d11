//! The part of the JSON of KMS's `Decrypt` that is used here.

use base64ct::{Base64, Encoding};
use serde::Deserialize;
use serde_json::json;

use super::{KeyArn, KeyRequest, ReleaseError};

/// Body of the request.
pub(super) fn request(wanted: &KeyRequest<'_>, wrapped: &[u8], document: &[u8]) -> Vec<u8> {
    json!({
        "KeyId": wanted.key.as_str(),
        "CiphertextBlob": Base64::encode_string(wrapped),
        "EncryptionAlgorithm": "SYMMETRIC_DEFAULT",
        "EncryptionContext": {
            "clearseal-model": wanted.model,
            "clearseal-version": base16ct::lower::encode_string(wanted.sha256),
        },
        "Recipient": {
            "AttestationDocument": Base64::encode_string(document),
            "KeyEncryptionAlgorithm": "RSAES_OAEP_SHA_256",
        },
    })
    .to_string()
    .into_bytes()
}

/// Reads the envelope of an answer.
pub(super) fn envelope(answer: &[u8], key: &KeyArn) -> Result<Vec<u8>, ReleaseError> {
    // An error of serde quotes its input, which may be a plaintext.
    let answer: Answer =
        serde_json::from_slice(answer).map_err(|_| ReleaseError::Answer("is not of its form"))?;
    if answer
        .plaintext
        .is_some_and(|plaintext| !plaintext.is_empty())
    {
        return Err(ReleaseError::Plaintext);
    }
    if answer.key_id != key.as_str() {
        return Err(ReleaseError::OtherKey);
    }
    let envelope = answer
        .ciphertext_for_recipient
        .ok_or(ReleaseError::Answer("has no CiphertextForRecipient"))?;
    Base64::decode_vec(&envelope)
        .map_err(|_| ReleaseError::Answer("has a CiphertextForRecipient that is not base64"))
}

/// KMS's name for an error, reduced to letters, digits and underscores, because it is logged.
pub(super) fn error_name(answer: &[u8]) -> String {
    let refusal: Option<Refusal> = serde_json::from_slice(answer).ok();
    let name = refusal.and_then(|refusal| refusal.kind.or(refusal.code));
    // KMS sometimes writes a namespace before the name.
    let name = name.unwrap_or_default();
    let name = name.rsplit('#').next().unwrap_or_default();
    let name: String = name
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        .take(64)
        .collect();
    if name.is_empty() {
        "no name".to_owned()
    } else {
        name
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "KeyId")]
    key_id: String,
    #[serde(rename = "CiphertextForRecipient")]
    ciphertext_for_recipient: Option<String>,
    #[serde(rename = "Plaintext")]
    plaintext: Option<String>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "__type")]
    kind: Option<String>,
    code: Option<String>,
}
