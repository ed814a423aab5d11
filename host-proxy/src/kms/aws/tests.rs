//! The client against a server in KMS's place.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_sdk_kms::config::Credentials;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use http::HeaderMap;

use super::*;
use crate::kms::Recipient;

type Requests = Arc<Mutex<Vec<(HeaderMap, Value)>>>;

/// A KMS that gives one answer to every request, and records the requests.
async fn kms(status: u16, answer: Value) -> (Aws, Requests) {
    let requests = Requests::default();
    let status = StatusCode::from_u16(status).unwrap();
    let app = Router::new().route(
        "/",
        post({
            let requests = Arc::clone(&requests);
            move |headers: HeaderMap, body: Bytes| async move {
                let body = serde_json::from_slice(&body).unwrap();
                requests.lock().unwrap().push((headers, body));
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
    (Aws(Client::from_conf(config)), requests)
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
    let sent = json!({ "KeyId": "arn", "CiphertextForRecipient": envelope });
    let (aws, requests) = kms(200, sent.clone()).await;
    let answer = aws.decrypt(&request()).await.unwrap();
    assert_eq!((answer.status, answer.body), (StatusCode::OK, sent));
    let requests = requests.lock().unwrap();
    let [(headers, body)] = requests.as_slice() else {
        panic!("{} requests", requests.len())
    };
    assert_eq!(*body, serde_json::to_value(request()).unwrap());
    assert_eq!(headers["x-amz-target"], "TrentService.Decrypt");
    let authorization = headers["authorization"].to_str().unwrap();
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
    assert!(authorization.contains("/eu-central-1/kms/aws4_request"));
}

#[tokio::test]
async fn a_plaintext_is_passed_to_the_endpoint_which_refuses_it() {
    let sent = json!({ "KeyId": "arn", "Plaintext": Base64::encode_string(b"key") });
    let (aws, _) = kms(200, sent.clone()).await;
    assert_eq!(aws.decrypt(&request()).await.unwrap().body, sent);
}

#[tokio::test]
async fn a_refusal_keeps_its_name() {
    for (status, name) in [
        (400, "AccessDeniedException"),
        (400, "ThrottlingException"),
        (500, "KMSInternalException"),
    ] {
        let (aws, requests) = kms(status, json!({ "__type": name, "message": "no" })).await;
        let answer = aws.decrypt(&request()).await.unwrap();
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.body, json!({ "__type": name, "message": "no" }));
        assert_eq!(requests.lock().unwrap().len(), 1, "one attempt a call");
    }
}

#[tokio::test]
async fn answers_of_another_server_and_invalid_requests_are_errors() {
    let (aws, _) = kms(502, json!("a gateway's page")).await;
    assert!(aws.decrypt(&request()).await.is_err());
    let mut request = request();
    request.ciphertext_blob = "not base64".to_owned();
    let (aws, requests) = kms(200, json!({})).await;
    assert!(aws.decrypt(&request).await.is_err());
    assert!(requests.lock().unwrap().is_empty());
}
