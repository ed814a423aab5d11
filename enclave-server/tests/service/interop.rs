//! The crates `ohttp` and `bhttp`, by an author of RFC 9458 and RFC 9292, as a client of this gateway.

use std::io::Cursor;

use crate::common::{Attested, MODEL, Rig};
use attestation::{Kem, KeyConfig};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use bhttp::{Message, Mode};
use protocol::inner::InnerRequest;
use protocol::terms::{self, Terms};
use serde_json::{Value, json};

/// An OHTTP client for the enclave's keys of one KEM.
fn client_for(attested: &Attested, kem: Kem) -> ohttp::ClientRequest {
    let configs: Vec<KeyConfig> = attested
        .verified
        .sealing_keys()
        .iter()
        .map(|key| key.config().clone())
        .filter(|config| config.kem == kem)
        .collect();
    let list = KeyConfig::encode_list(&configs).unwrap();
    ohttp::ClientRequest::from_encoded_config_list(&list).unwrap()
}

/// Fields that this protocol requires in each request. Each call has another nonce.
pub(crate) fn terms(rig: &Rig, attested: &Attested, nonce: u8) -> Vec<(String, String)> {
    let mut request = InnerRequest {
        method: String::new(),
        path: String::new(),
        headers: Vec::new(),
        content: Vec::new(),
    };
    let terms = Terms {
        date: rig.now(),
        nonce: vec![nonce; 16],
        salt: [2; 32],
        document: attested.verified.document_sha256(),
    };
    terms.write(&mut request).unwrap();
    request.headers
}

/// Sends a message sealed by the `ohttp` crate, and opens the answer with both crates.
async fn send(rig: &Rig, client: ohttp::ClientRequest, message: &Message) -> Message {
    let mut bytes = Vec::new();
    message.write_bhttp(Mode::KnownLength, &mut bytes).unwrap();
    let (sealed, opener) = client.encapsulate(&bytes).unwrap();
    let (status, answer) = rig.post(sealed).await;
    assert_eq!(status, StatusCode::OK, "{answer:?}");
    let opened = opener.decapsulate(&answer).unwrap();
    Message::read_bhttp(&mut Cursor::new(&opened)).unwrap()
}

fn status(answer: &Message) -> u16 {
    answer.control().status().unwrap().code()
}

fn json_of(answer: &Message) -> Value {
    serde_json::from_slice(answer.content()).unwrap()
}

#[tokio::test]
async fn stock_clients_are_answered_under_any_authority_and_both_kems() {
    ohttp::init();
    let rig = Rig::new();
    let attested = rig.attest().await;
    let mut nonce = 0;
    for kem in [Kem::X25519, Kem::XWing] {
        for (authority, host) in [
            ("embed.example", None),
            ("embed.example:8787", Some("Embed.Example:8787")),
            ("127.0.0.1:8787", Some("127.0.0.1:8787")),
            ("", Some("embed.example")),
            ("", None),
        ] {
            nonce += 1;
            let mut message = Message::request(
                "POST".into(),
                "https".into(),
                authority.into(),
                "/v1/embeddings".into(),
            );
            for (name, value) in terms(&rig, &attested, nonce) {
                message.put_header(name, value);
            }
            message.put_header("content-type", "Application/JSON; charset=UTF-8");
            message.put_header("accept", "application/json");
            message.put_header("accept", "*/*;q=0.1");
            if let Some(host) = host {
                message.put_header("host", host);
            }
            message.put_trailer("x-checksum", "7");
            message.write_content(json!({"model": MODEL, "input": "hello world"}).to_string());
            let answer = send(&rig, client_for(&attested, kem), &message).await;
            let body = json_of(&answer);
            assert_eq!(status(&answer), 200, "{authority:?} {host:?}: {body}");
            assert!(answer.header().get(terms::RECEIPT.as_bytes()).is_some());
            assert_eq!(body["data"][0]["embedding"].as_array().unwrap().len(), 4);
        }
    }
}

#[tokio::test]
async fn a_host_of_another_authority_is_refused_with_the_accepted_value() {
    ohttp::init();
    let rig = Rig::new();
    let attested = rig.attest().await;
    let mut message = Message::request(
        "GET".into(),
        "https".into(),
        "embed.example".into(),
        "/v1/models".into(),
    );
    for (name, value) in terms(&rig, &attested, 1) {
        message.put_header(name, value);
    }
    message.put_header("host", "other.example");
    let answer = send(&rig, client_for(&attested, Kem::X25519), &message).await;
    let error = &json_of(&answer)["error"];
    assert_eq!(
        (status(&answer), &error["code"]),
        (400, &json!("INNER_BAD_FIELD"))
    );
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("send the authority of the URL"), "{text}");
}

/// PROTOCOL.md §1 warns about it.
#[tokio::test]
async fn version_0_8_of_ohttp_takes_the_last_key_of_a_list() {
    ohttp::init();
    let rig = Rig::new();
    let attested = rig.attest().await;
    let keys = attested.verified.sealing_keys();
    let configs: Vec<_> = keys.iter().map(|key| key.config().clone()).collect();
    assert_eq!(configs[0].kem, Kem::XWing);
    let list = KeyConfig::encode_list(&configs).unwrap();
    let client = ohttp::ClientRequest::from_encoded_config_list(&list).unwrap();
    let (sealed, _) = client.encapsulate(b"").unwrap();
    assert_eq!(
        sealed[1..3],
        [0x00, 0x20],
        "X25519, although X-Wing comes first"
    );
}

/// RFC 9110 §8.3.1: media types are case-insensitive, and may have parameters.
#[tokio::test]
async fn media_types_are_compared_without_case_and_parameters() {
    let rig = Rig::new();
    for (media_type, expected) in [
        ("message/ohttp-req", StatusCode::BAD_REQUEST),
        ("Message/OHTTP-Req", StatusCode::BAD_REQUEST),
        ("message/ohttp-req; v=1", StatusCode::BAD_REQUEST),
        ("message/ohttp-req ;v=1", StatusCode::BAD_REQUEST),
        ("MESSAGE/clearseal-candidates-REQ", StatusCode::BAD_REQUEST),
        ("message/ohttp-request", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("message/ohttp-req, a/b", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("application/json", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let request = Request::post("/v1/gateway").header("content-type", media_type);
        let request = request.body(Body::from("not sealed")).unwrap();
        let (status, body) = rig.send(request).await;
        assert_eq!(status, expected, "{media_type}: {body:?}");
    }
}
