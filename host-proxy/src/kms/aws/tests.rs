//! The client, against a server that takes KMS's place.

use super::*;
use crate::kms::Recipient;
use aws_sdk_kms::config::Credentials;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use http::HeaderMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Heard = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

/// A KMS that answers everything so, and remembers what it was asked.
async fn kms(status: u16, answer: Value) -> (Aws, Heard) {
    let heard = Heard::default();
    let status = StatusCode::from_u16(status).unwrap();
    let app = Router::new().route(
        "/",
        post({
            let heard = Arc::clone(&heard);
            move |headers: HeaderMap, body: Bytes| async move {
                let body = serde_json::from_slice(&body).unwrap();
                heard.lock().unwrap().push((headers, body));
                (status, answer.to_string())
            }
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    let config = aws_sdk_kms::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new(
            "AKIDEXAMPLE",
            "secret",
            None,
            None,
            "test",
        ))
        .http_client(Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(url)
        .build();
    (Aws(Client::from_conf(config)), heard)
}

fn request() -> Decrypt {
    Decrypt {
        key_id: "arn:aws:kms:eu-central-1:111122223333:key/1".to_owned(),
        ciphertext_blob: Base64::encode_string(b"wrapped"),
        encryption_algorithm: "SYMMETRIC_DEFAULT".to_owned(),
        encryption_context: BTreeMap::from([("model".to_owned(), "tiny".to_owned())]),
        recipient: Recipient {
            attestation_document: Base64::encode_string(b"document"),
            key_encryption_algorithm: "RSAES_OAEP_SHA_256".to_owned(),
        },
    }
}

#[tokio::test]
async fn the_enclaves_request_arrives_signed_and_unchanged() {
    let envelope = Base64::encode_string(b"envelope");
    let said = json!({ "KeyId": "arn", "CiphertextForRecipient": envelope });
    let (aws, heard) = kms(200, said.clone()).await;
    let answer = aws.decrypt(&request()).await.unwrap();
    assert_eq!((answer.status, answer.body), (StatusCode::OK, said));
    let heard = heard.lock().unwrap();
    let [(headers, body)] = heard.as_slice() else {
        panic!("{} requests", heard.len())
    };
    assert_eq!(*body, serde_json::to_value(request()).unwrap());
    assert_eq!(headers["x-amz-target"], "TrentService.Decrypt");
    let authorization = headers["authorization"].to_str().unwrap();
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
    assert!(authorization.contains("/eu-central-1/kms/aws4_request"));
}

#[tokio::test]
async fn a_plaintext_is_passed_on_to_be_refused() {
    let said = json!({ "KeyId": "arn", "Plaintext": Base64::encode_string(b"key") });
    let (aws, _) = kms(200, said.clone()).await;
    assert_eq!(aws.decrypt(&request()).await.unwrap().body, said);
}

#[tokio::test]
async fn a_refusal_keeps_its_name() {
    for (status, name) in [
        (400, "AccessDeniedException"),
        (400, "ThrottlingException"),
        (500, "KMSInternalException"),
    ] {
        let (aws, heard) = kms(status, json!({ "__type": name, "message": "no" })).await;
        let answer = aws.decrypt(&request()).await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.body, json!({ "__type": name, "message": "no" }));
        assert_eq!(heard.lock().unwrap().len(), 1, "one attempt a call");
    }
}

#[tokio::test]
async fn what_is_no_answer_of_kms_is_none() {
    let (aws, _) = kms(502, json!("a gateway's page")).await;
    assert!(aws.decrypt(&request()).await.is_err());
    let mut request = request();
    request.ciphertext_blob = "not base64".to_owned();
    let (aws, heard) = kms(200, json!({})).await;
    assert!(aws.decrypt(&request).await.is_err());
    assert!(heard.lock().unwrap().is_empty());
}
