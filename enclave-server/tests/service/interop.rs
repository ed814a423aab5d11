//! The `ohttp` crate, by an author of RFC 9458, as a client of this gateway.

use crate::common::{MODEL, Rig, embeddings};
use attestation::{Kem, KeyConfig};
use axum::http::StatusCode;
use protocol::inner::InnerResponse;
use protocol::terms::{self, Terms};
use serde_json::json;

#[tokio::test]
async fn the_ohttp_crate_is_answered() {
    ohttp::init();
    let rig = Rig::new();
    let attested = rig.attest().await;
    // That crate supports only X25519.
    let configs: Vec<KeyConfig> = attested
        .verified
        .sealing_keys()
        .iter()
        .map(|key| key.config().clone())
        .filter(|config| config.kem == Kem::X25519)
        .collect();
    let list = KeyConfig::encode_list(&configs).unwrap();
    let mut request = embeddings(&json!({"model": MODEL, "input": "hello world"}));
    let terms = Terms {
        date: rig.now(),
        nonce: vec![1; 16],
        salt: [2; 32],
        document: attested.verified.document_sha256(),
    };
    terms.write(&mut request).unwrap();
    let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
    let (sealed, opener) = client
        .encapsulate(&request.encode_padded().unwrap())
        .unwrap();
    let (status, answer) = rig.post(sealed).await;
    assert_eq!(status, StatusCode::OK);
    let response = InnerResponse::decode(&opener.decapsulate(&answer).unwrap()).unwrap();
    assert_eq!(response.status, 200);
    assert!(response.header(terms::RECEIPT).is_some());
    let body: serde_json::Value = serde_json::from_slice(&response.content).unwrap();
    assert_eq!(body["data"][0]["embedding"].as_array().unwrap().len(), 4);
}
