//! The private API, in sealed requests: OpenAI's formats and errors.

use std::sync::Arc;

use crate::common::{ALIAS, LIMITS, LongToy, MODEL, Options, Rig, SECRET, code, embeddings};
use base64ct::{Base64, Encoding};
use enclave_server::api::Limits;
use serde_json::{Value, json};

fn floats(value: &Value) -> Vec<f32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap() as f32)
        .collect()
}

#[tokio::test]
async fn inputs_of_every_form_are_answered_in_order() {
    let rig = Rig::new();
    let (status, single) = rig
        .embed(json!({"model": MODEL, "input": "hello world"}))
        .await;
    assert_eq!(status, 200);
    let (_, list) = rig
        .embed(json!({"model": MODEL, "input": ["a b c d e f", "hello world", "x"]}))
        .await;
    assert_eq!(list["object"], "list");
    assert_eq!(
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|datum| datum["index"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(list["data"][1]["embedding"], single["data"][0]["embedding"]);
    assert_eq!(list["data"][1]["object"], "embedding");
    // "hello" and "world" are tokens 5 and 6.
    let (_, pieces) = rig
        .embed(json!({"model": MODEL, "input": [5, 6], "tokenizer": MODEL}))
        .await;
    assert_eq!(
        pieces["data"][0]["embedding"],
        single["data"][0]["embedding"]
    );
    let (_, lists) = rig
        .embed(json!({"model": MODEL, "input": [[6], [5, 6]], "tokenizer": MODEL}))
        .await;
    assert_eq!(
        lists["data"][1]["embedding"],
        single["data"][0]["embedding"]
    );
}

#[tokio::test]
async fn base64_and_float_have_equal_values() {
    let rig = Rig::new();
    let (_, float) = rig.embed(json!({"model": MODEL, "input": "hello"})).await;
    let (_, base64) = rig
        .embed(json!({"model": MODEL, "input": "hello", "encoding_format": "base64", "user": "x"}))
        .await;
    let bytes = Base64::decode_vec(base64["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let decoded: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    assert_eq!(decoded, floats(&float["data"][0]["embedding"]));
}

#[tokio::test]
async fn dimensions_truncate_and_renormalise() {
    let rig = Rig::new();
    let (_, full) = rig.embed(json!({"model": MODEL, "input": "hello"})).await;
    let (_, short) = rig
        .embed(json!({"model": MODEL, "input": "hello", "dimensions": 2}))
        .await;
    let (full, short) = (
        floats(&full["data"][0]["embedding"]),
        floats(&short["data"][0]["embedding"]),
    );
    assert_eq!(short.len(), 2);
    assert!((short.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-6);
    assert!(
        (short[0] * full[1] - short[1] * full[0]).abs() < 1e-6,
        "same direction"
    );
    for dimensions in [0, 5] {
        let (status, error) = rig
            .embed(json!({"model": MODEL, "input": "hello", "dimensions": dimensions}))
            .await;
        assert_eq!(
            (
                status,
                error["error"]["code"].as_str(),
                error["error"]["param"].as_str()
            ),
            (400, Some("DIMENSIONS_INVALID"), Some("dimensions"))
        );
    }
}

#[tokio::test]
async fn rows_of_other_lengths_are_cut_and_not_scaled() {
    let rig = Rig::with(Options {
        encoder: Arc::new(LongToy),
        ..Options::default()
    });
    let (_, full) = rig.embed(json!({"model": MODEL, "input": "hello"})).await;
    let (_, short) = rig
        .embed(json!({"model": MODEL, "input": "hello", "dimensions": 2}))
        .await;
    let full = floats(&full["data"][0]["embedding"]);
    assert_eq!(floats(&short["data"][0]["embedding"]), full[..2]);

    for (rig, normalised) in [(rig, false), (Rig::new(), true)] {
        let attested = rig.attest().await;
        let request = fixtures::enclave::bare_request("GET", "/v1/models");
        let Ok(answer) = rig.exchange(&attested, request).await else {
            panic!("the list was not answered")
        };
        let models: Value = serde_json::from_slice(&answer.response.content).unwrap();
        assert_eq!(models["data"][0]["clearseal"]["normalised"], normalised);
        assert_eq!(attested.verified.manifest().model.normalised, normalised);
    }
}

#[tokio::test]
async fn truncation_is_reported() {
    let rig = Rig::new();
    let (_, body) = rig
        .embed(json!({"model": MODEL, "input": ["a ".repeat(14), "a ".repeat(15)]}))
        .await;
    assert_eq!(
        body["data"][0]["clearseal"],
        json!({"tokens": 16, "truncated": false})
    );
    assert_eq!(
        body["data"][1]["clearseal"],
        json!({"tokens": 16, "truncated": true})
    );
    assert_eq!(body["usage"]["total_tokens"], 32);
}

#[tokio::test]
async fn a_long_text_is_refused_without_truncation() {
    let rig = Rig::new();
    let (status, error) = rig
        .embed(json!({"model": MODEL, "input": ["x", "a ".repeat(15)], "truncate": false}))
        .await;
    assert_eq!(
        (status, &error["error"]["code"], &error["error"]["param"]),
        (400, &json!("INPUT_TOO_LONG"), &json!("input"))
    );
    assert!(
        error["error"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("input 1 "))
    );
    let (status, _) = rig
        .embed(json!({"model": MODEL, "input": "a ".repeat(14), "truncate": false}))
        .await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_text_longer_than_any_model_reads_is_refused() {
    let limits = Limits {
        max_request_bytes: 4 << 20,
        max_in_flight: 8,
        ..LIMITS
    };
    let rig = Rig::with(Options {
        limits,
        ..Options::default()
    });
    for (length, expected) in [(10_000, 200), (500_000, 400)] {
        let (status, body) = rig
            .embed(json!({"model": MODEL, "input": "hello ".repeat(length)}))
            .await;
        assert_eq!(status, expected);
        if status == 200 {
            assert_eq!(
                body["data"][0]["clearseal"],
                json!({"tokens": 16, "truncated": true})
            );
        } else {
            assert_eq!(body["error"]["code"], "TEXT_TOO_LONG");
        }
    }
}

#[tokio::test]
async fn unknown_members_are_ignored_and_named_in_the_answer() {
    let rig = Rig::new();
    let (status, body) = rig
        .embed(json!({"model": MODEL, "input": "hello", "priority": {"a": [1]}, "seed": 1}))
        .await;
    assert_eq!(status, 200);
    assert_eq!(body["clearseal"]["ignored"], json!(["priority", "seed"]));
    let (_, body) = rig.embed(json!({"model": MODEL, "input": "hello"})).await;
    assert!(body["clearseal"].get("ignored").is_none());
}

#[tokio::test]
async fn a_model_answers_to_each_of_its_names() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (status, body) = rig.embed(json!({"model": ALIAS, "input": "hello"})).await;
    assert_eq!((status, &body["model"]), (200, &json!(MODEL)));
    let encoded = ALIAS.replace('/', "%2F");
    for (name, path) in [(MODEL, MODEL), (ALIAS, ALIAS), (ALIAS, encoded.as_str())] {
        let request = fixtures::enclave::bare_request("GET", &format!("/v1/models/{path}"));
        let Ok(answer) = rig.exchange(&attested, request).await else {
            panic!("{name} was not answered")
        };
        let body: Value = serde_json::from_slice(&answer.response.content).unwrap();
        assert_eq!((answer.response.status, &body["id"]), (200, &json!(name)));
        assert_eq!(body["clearseal"]["aliases"], json!([ALIAS]));
    }
}

#[tokio::test]
async fn errors_have_openais_format_and_quote_nothing() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    for (body, status, expected) in [
        (
            json!({"model": SECRET, "input": "hello"}),
            404,
            "model_not_found",
        ),
        (json!({"model": MODEL, "input": ""}), 400, "INPUT_EMPTY"),
        (json!({"model": MODEL, "input": []}), 400, "INPUT_EMPTY"),
        (
            json!({"model": MODEL, "input": {SECRET: 1}}),
            400,
            "REQUEST_INVALID",
        ),
        (
            json!({"model": MODEL, "input": "hello", "user": {SECRET: 1}}),
            400,
            "REQUEST_INVALID",
        ),
        (json!({"input": "hello"}), 400, "REQUEST_INVALID"),
        (
            json!({"model": MODEL, "input": [4_000_000], "tokenizer": MODEL}),
            400,
            "TOKEN_UNKNOWN",
        ),
        // Ids that are valid in this vocabulary, and in most others.
        (
            json!({"model": MODEL, "input": [5, 6]}),
            400,
            "TOKENIZER_UNNAMED",
        ),
        (
            json!({"model": MODEL, "input": [[5, 6]], "tokenizer": SECRET}),
            400,
            "TOKENIZER_UNNAMED",
        ),
    ] {
        let answer = rig
            .exchange(&attested, embeddings(&body))
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let text = String::from_utf8(answer.response.content).unwrap();
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (answer.response.status, error["error"]["code"].as_str()),
            (status, Some(expected)),
            "{body}"
        );
        assert!(
            error["error"]["message"].is_string()
                && error["error"]["type"] == "invalid_request_error"
        );
        assert!(!text.contains(SECRET), "{text}");
    }
    let mut broken = embeddings(&json!(null));
    broken.content = br#"{"model":"#.to_vec();
    let answer = rig
        .exchange(&attested, broken)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (
            answer.response.status,
            code(&answer.response.content).as_str()
        ),
        (400, "JSON_INVALID")
    );
}

#[tokio::test]
async fn a_refused_method_is_told_those_that_are_taken() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    for (method, path, allow) in [
        ("GET", "/v1/embeddings", "POST"),
        ("POST", "/v1/models", "GET,HEAD"),
        ("DELETE", "/v1/models/toy", "GET,HEAD"),
    ] {
        let request = fixtures::enclave::bare_request(method, path);
        let answer = rig.exchange(&attested, request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.response.status, 405, "{method} {path}");
        assert_eq!(answer.response.header("allow"), Some(allow));
    }
}

#[tokio::test]
async fn models_are_listed_and_unknown_paths_refused() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let mut seen = Vec::new();
    for (method, path) in [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/toy"),
        ("GET", "/v1/models/other"),
        ("GET", "/v1/nothing"),
        ("GET", "/v1/embeddings"),
        ("GET", "/v1/models/?limit=1"),
        ("GET", "/v1/v1/models"),
    ] {
        let request = fixtures::enclave::bare_request(method, path);
        let answer = rig
            .exchange(&attested, request)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        seen.push((
            answer.response.status,
            serde_json::from_slice::<Value>(&answer.response.content).unwrap(),
        ));
    }
    assert_eq!(
        seen.iter().map(|(status, _)| *status).collect::<Vec<_>>(),
        [200, 200, 404, 404, 405, 200, 404]
    );
    assert_eq!(seen[0].1["data"][0]["id"], MODEL);
    assert_eq!(seen[0].1["data"][0], seen[1].1);
    assert_eq!(
        seen[1].1["clearseal"],
        json!({"task": "embedding", "dimension": 4, "normalised": true, "max_tokens": 16, "prompts": [], "engine": "toy-f32", "aliases": [ALIAS]})
    );
    let names = |list: &Value| {
        list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&seen[0].1), [MODEL, ALIAS]);
    assert_eq!(seen[2].1["error"]["code"], "model_not_found");
    assert_eq!(seen[5].1, seen[0].1);
    let doubled = seen[6].1["error"]["message"].as_str().unwrap();
    assert!(doubled.contains("/v1/v1"), "{doubled}");
}
