//! Requests in unusual forms: equivalent requests get equal answers, and unreadable ones are refused with a code.

use fixtures::enclave::embeddings_of;
use protocol::bundle::AuditBundle;
use protocol::exchange::Answer;
use protocol::inner::InnerRequest;
use protocol::items::prove;
use serde_json::{Value, json};

use crate::common::{Attested, MODEL, Rig, embeddings};

async fn ask(rig: &Rig, attested: &Attested, request: InnerRequest) -> (u16, Value, Answer) {
    let answer = rig.exchange(attested, request).await;
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    let body = serde_json::from_slice(&answer.response.content).unwrap();
    (answer.response.status, body, answer)
}

fn vectors(body: &Value) -> Vec<Value> {
    let data = body["data"].as_array().unwrap().iter();
    data.map(|datum| datum["embedding"].clone()).collect()
}

/// Whether each item of an answer can be proved, in the way of `clearseal embed --proofs`.
fn is_provable(attested: &Attested, answer: &Answer) -> bool {
    let Attested {
        document, manifest, ..
    } = attested;
    let bundle = AuditBundle::of(answer, document.clone(), manifest.clone(), true).unwrap();
    prove(&bundle).is_ok()
}

#[tokio::test]
async fn a_number_is_accepted_in_any_notation() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let body = |dimensions: &str, ids: &str| {
        embeddings_of(format!(
            r#"{{"model":"{MODEL}","tokenizer":"{MODEL}","dimensions":{dimensions},"input":{ids}}}"#
        ))
    };
    let (status, plain, _) = ask(&rig, &attested, body("2", "[[5,6]]")).await;
    assert_eq!(status, 200);
    for (dimensions, ids) in [
        ("2.0", "[5.0,6.0]"),
        ("2e0", "[[5,6.0]]"),
        ("0.2E1", "[5,6]"),
    ] {
        let (status, other, answer) = ask(&rig, &attested, body(dimensions, ids)).await;
        assert_eq!(status, 200, "{other}");
        assert_eq!(vectors(&other), vectors(&plain), "{dimensions} {ids}");
        assert!(is_provable(&attested, &answer), "{dimensions} {ids}");
    }
    for (dimensions, ids, member) in [
        ("2.5", "[5]", "dimensions"),
        ("1e400", "[5]", "dimensions"),
        ("0.0", "[5]", "dimensions"),
        ("2", "[5.5]", "input"),
        ("2", "[[5],[-6.0]]", "input"),
    ] {
        let (status, refusal, _) = ask(&rig, &attested, body(dimensions, ids)).await;
        let named = (status, &refusal["error"]["param"]);
        assert_eq!(named, (400, &json!(member)), "{dimensions} {ids}");
    }
}

/// `[PAD]` is 0, `[CLS]` 2, `[SEP]` 3, and `hello world` 5, 6.
#[tokio::test]
async fn token_ids_with_and_without_special_tokens_give_the_vector_of_the_text() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let ids = |ids: Value| embeddings(&json!({"model": MODEL, "tokenizer": MODEL, "input": ids}));
    let text = embeddings(&json!({"model": MODEL, "input": "hello world"}));
    let (_, text, _) = ask(&rig, &attested, text).await;
    let same = json!([[5, 6], [2, 5, 6, 3], [2, 5, 6, 3, 0, 0], [5, 6, 0]]);
    let (status, body, answer) = ask(&rig, &attested, ids(same)).await;
    assert_eq!(status, 200);
    assert!(is_provable(&attested, &answer));
    for datum in body["data"].as_array().unwrap() {
        assert_eq!(datum["embedding"], text["data"][0]["embedding"]);
        assert_eq!(datum["clearseal"], json!({"tokens": 4, "truncated": false}));
    }
    for (wrong, code) in [
        (json!([[5, 6], [2, 5, 6]]), "TOKENS_HALF_WRAPPED"),
        (json!([[5, 6], [5, 6, 3]]), "TOKENS_HALF_WRAPPED"),
        (json!([[5, 6], [0, 0]]), "TOKENS_ONLY_PADDING"),
        (json!([[5, 6], [4_000_000]]), "TOKEN_UNKNOWN"),
    ] {
        let (status, refusal, _) = ask(&rig, &attested, ids(wrong)).await;
        let error = &refusal["error"];
        assert_eq!((status, &error["code"]), (400, &json!(code)));
        assert_eq!(error["param"], "input");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("input 1 (counted from 0)"), "{message}");
    }
}

#[tokio::test]
async fn a_lone_surrogate_does_not_affect_other_items() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let replaced = json!({"model": MODEL, "input": ["hello", "\u{fffd} world", "x"]});
    let (_, replaced, _) = ask(&rig, &attested, embeddings(&replaced)).await;
    for half in ["\\ud83d", "\\uDE00"] {
        let content = format!(r#"{{"model":"{MODEL}","input":["hello","{half} world","x"]}}"#);
        let (status, body, answer) = ask(&rig, &attested, embeddings_of(content)).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(vectors(&body), vectors(&replaced));
        assert!(is_provable(&attested, &answer));
    }
    let marked = format!("\u{feff}{}", json!({"model": MODEL, "input": "hello"}));
    let (status, _, answer) = ask(&rig, &attested, embeddings_of(marked)).await;
    assert_eq!(status, 200);
    assert!(is_provable(&attested, &answer));
}

#[tokio::test]
async fn content_in_another_encoding_is_refused_by_code() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let body = json!({"model": MODEL, "input": "hello"});
    let utf16: Vec<u8> = body
        .to_string()
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (name, value, content, code, accepted) in [
        (
            "content-encoding",
            "gzip",
            b"\x1f\x8b\x08\0".to_vec(),
            "CONTENT_ENCODING_UNSUPPORTED",
            ("accept-encoding", "identity"),
        ),
        (
            "content-type",
            "application/json; charset=utf-16",
            utf16.clone(),
            "CHARSET_UNSUPPORTED",
            ("accept", "application/json; charset=utf-8"),
        ),
    ] {
        let mut request = embeddings_of(content);
        request.headers.retain(|(other, _)| other != name);
        request.headers.push((name.to_owned(), value.to_owned()));
        let (status, refusal, answer) = ask(&rig, &attested, request).await;
        assert_eq!((status, &refusal["error"]["code"]), (415, &json!(code)));
        let (name, value) = accepted;
        let headers = &answer.response.headers;
        assert!(
            headers.contains(&(name.to_owned(), value.to_owned())),
            "{headers:?}"
        );
        assert!(answer.receipt.is_none());
    }
    for (name, value) in [
        ("content-encoding", "identity"),
        ("content-type", "application/json; charset=\"UTF-8\""),
    ] {
        let mut request = embeddings(&body);
        request.headers.retain(|(other, _)| other != name);
        request.headers.push((name.to_owned(), value.to_owned()));
        let (status, ..) = ask(&rig, &attested, request).await;
        assert_eq!(status, 200, "{name}: {value}");
    }
    // Without a header that names the encoding.
    let (status, refusal, _) = ask(&rig, &attested, embeddings_of(utf16)).await;
    assert_eq!(
        (status, &refusal["error"]["code"]),
        (400, &json!("JSON_INVALID"))
    );
}
