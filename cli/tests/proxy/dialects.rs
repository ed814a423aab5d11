//! Embedding APIs of other vendors, each in the form that the vendor's own client reads.

use super::{Host, MODEL, Mood, Proxy, folder};
use attestation::SignatureMemory;
use fixtures::host::{MAX_WORDS, vector};
use serde_json::{Value, json};

impl Proxy {
    pub(super) fn post(&self, path: &str, body: &Value) -> (u16, String, Value) {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json");
        let (status, head, body) = self.send(&head, &body.to_string());
        (status, head, serde_json::from_str(&body).unwrap())
    }

    pub(super) fn read(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.get(path);
        (status, serde_json::from_str(&body).unwrap_or_default())
    }
}

/// Takes the vectors out of an answer.
type Extract = fn(&Value) -> Value;
/// Takes the message out of an error.
type ReadMessage<'a> = &'a dyn Fn(&Value) -> String;

#[test]
fn every_dialect_is_sealed_and_gets_its_own_form() {
    let host = Host::start(31);
    let receipts = folder("proxy-dialects").join("receipts.jsonl");
    let proxy = Proxy::start(&[&host], &["--receipts", receipts.to_str().unwrap()]);
    let vectors = json!([vector("a"), vector("b")]);
    let azure = format!("/openai/deployments/{MODEL}/embeddings?api-version=2024-10-21");
    let openai = json!({"input": ["a", "b"]});
    let named = json!({"model": MODEL, "input": ["a", "b"]});
    let cohere = json!({"model": MODEL, "texts": ["a", "b"], "input_type": "search_document", "embedding_types": ["float"]});
    let texts = json!({"inputs": ["a", "b"]});
    let cohere_v1 = json!({"model": MODEL, "texts": ["a", "b"], "truncate": "END"});
    let cases: [(&str, &Value, Extract); 9] = [
        ("/api/embed", &named, |answer| answer["embeddings"].clone()),
        ("/embed", &texts, Value::clone),
        ("/", &texts, Value::clone),
        ("/v2/embed", &cohere, |answer| {
            answer["embeddings"]["float"].clone()
        }),
        ("/v1/embed", &cohere, |answer| {
            answer["embeddings"]["float"].clone()
        }),
        ("/v1/embed", &cohere_v1, |answer| {
            answer["embeddings"].clone()
        }),
        (&azure, &openai, rows_of_openai),
        (&azure, &named, rows_of_openai),
        ("/openai/v1/embeddings", &named, rows_of_openai),
    ];
    for (path, body, rows) in cases {
        let before = host.sealed_requests();
        let (status, head, answer) = proxy.post(path, body);
        assert_eq!(
            (status, rows(&answer)),
            (200, vectors.clone()),
            "{path}: {answer}"
        );
        assert!(head.contains("clearseal-receipt: "), "{path}: {head}");
        // Cohere's purpose depends on the model's prompts, which are asked for once.
        let requests = if path == "/v2/embed" { 2 } else { 1 };
        assert_eq!(host.sealed_requests(), before + requests, "{path}");
    }
    let lines = std::fs::read_to_string(&receipts).unwrap();
    assert_eq!(lines.lines().count(), cases.len());
    for line in lines.lines() {
        let bundle = clearseal_client::AuditBundle::from_json(line).unwrap();
        let report = bundle.verify(&host.policy, || None, &mut SignatureMemory::new());
        assert_eq!(report.receipt.code, None);
    }

    let (_, _, answer) = proxy.post("/api/embed", &json!({"model": "m:latest", "input": "a"}));
    assert_eq!(answer["model"], "m:latest");
    assert!(answer["total_duration"].is_u64() && answer["load_duration"].is_u64());
    assert!(answer["prompt_eval_count"].is_u64(), "{answer}");
    let (_, _, answer) = proxy.post("/api/embeddings", &json!({"model": MODEL, "prompt": "a"}));
    assert_eq!(answer, json!({"embedding": vector("a")}));
    let (_, _, answer) = proxy.post("/v2/embed", &cohere);
    assert_eq!(
        (&answer["response_type"], &answer["texts"]),
        (&json!("embeddings_by_type"), &json!(["a", "b"]))
    );
    let (_, _, plain) = proxy.post("/v1/embed", &cohere_v1);
    assert_eq!(plain["response_type"], "embeddings_floats");
    assert_eq!(plain["meta"]["api_version"]["version"], "1");
    let (status, _, refused) = proxy.post("/v1/embed", &json!({"model": MODEL}));
    assert!(status == 400 && refused["message"].is_string(), "{refused}");
    assert!(
        answer["id"].is_string() && answer["meta"].is_object(),
        "{answer}"
    );
}

fn rows_of_openai(answer: &Value) -> Value {
    let items = answer["data"].as_array().unwrap();
    items.iter().map(|item| item["embedding"].clone()).collect()
}

#[test]
fn clients_that_ask_for_the_model_are_answered() {
    let host = Host::start(32);
    let proxy = Proxy::start(&[&host], &["--refuse-long"]);
    let (status, tags) = proxy.read("/api/tags");
    assert_eq!((status, &tags["models"][0]["name"]), (200, &json!(MODEL)));
    assert!(tags["models"][0]["digest"].is_string());
    assert!(proxy.read("/api/version").1["version"].is_string());
    let (status, info) = proxy.read("/info");
    assert_eq!((status, &info["model_id"]), (200, &json!(MODEL)));
    assert_eq!(
        (&info["max_input_length"], &info["auto_truncate"]),
        (&json!(8), &json!(false))
    );
    assert_eq!(proxy.read("/openai/v1/models").1["data"][0]["id"], MODEL);
    assert_eq!(proxy.get("/health").0, 200);
    host.swap_image();
    assert_eq!(proxy.embed("a", "").0, 503);
    let (status, health) = proxy.read("/health");
    assert_eq!((status, &health["error_type"]), (503, &json!("Unhealthy")));
}

#[test]
fn errors_have_the_form_that_the_client_prints() {
    let host = Host::start(33);
    let proxy = Proxy::start(&[&host], &["--refuse-long"]);
    let long = "word ".repeat(MAX_WORDS) + "word";
    let cohere = |text: &str, truncate: &str| json!({"model": MODEL, "texts": [text], "input_type": "clustering", "truncate": truncate});
    let azure = format!("/openai/deployments/{MODEL}/embeddings");
    let text =
        |answer: &Value, member: &str| answer[member].as_str().unwrap_or_default().to_owned();
    let forms: [(&str, [Value; 2], ReadMessage<'_>); 4] = [
        (
            "/api/embed",
            [
                json!({"model": MODEL, "input": long}),
                json!({"model": MODEL, "input": "a", "truncate": true}),
            ],
            &|answer| text(answer, "error"),
        ),
        (
            "/embed",
            [
                json!({"inputs": [long]}),
                json!({"inputs": "a", "truncate": true}),
            ],
            &|answer| {
                assert_eq!(answer["error_type"], "Validation");
                text(answer, "error")
            },
        ),
        (
            "/v2/embed",
            [cohere(&long, "NONE"), cohere("a", "END")],
            &|answer| text(answer, "message"),
        ),
        (
            &azure,
            [
                json!({"input": long}),
                json!({"input": "a", "truncate": true}),
            ],
            &|answer| text(&answer["error"], "code"),
        ),
    ];
    for (path, [too_long, truncating], error) in forms {
        let (status, _, answer) = proxy.post(path, &too_long);
        assert_eq!(status, 400, "{path}");
        // The enclave's error, translated.
        assert!(
            error(&answer).contains("INPUT_TOO_LONG"),
            "{path}: {answer}"
        );
        let sealed = host.sealed_requests();
        let (status, _, answer) = proxy.post(path, &truncating);
        assert_eq!(status, 400, "{path}");
        assert!(
            error(&answer).contains("TRUNCATION_REFUSED"),
            "{path}: {answer}"
        );
        let (status, _, answer) = proxy.post(path, &json!({"model": "other", "dimension": 3}));
        assert_eq!(status, 400, "{path}");
        let error = error(&answer);
        let is_clear = error.contains("MEMBER_UNKNOWN") || error.contains("MODEL_AMBIGUOUS");
        assert!(is_clear, "{path}: {answer}");
        assert_eq!(host.sealed_requests(), sealed, "{path}: nothing was sealed");
    }
    let (status, _, answer) = proxy.post("/embed", &json!({"inputs": "a", "prompt_name": "query"}));
    assert_eq!(status, 400);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("PROMPT_UNKNOWN"), "{error}");
    host.set(Mood::Busy);
    let (status, head, answer) = proxy.post("/embed", &json!({"inputs": "a"}));
    assert_eq!((status, &answer["error_type"]), (503, &json!("Unhealthy")));
    assert!(head.contains("retry-after: 1"), "{head}");
    for (path, member) in [("/api/generate", "error"), ("/v2/chat", "message")] {
        let (status, _, answer) = proxy.post(path, &json!({}));
        assert_eq!(status, 404);
        assert!(
            answer[member].as_str().unwrap().contains("NOT_FOUND"),
            "{answer}"
        );
    }
}

#[test]
fn every_dialect_is_let_in_like_openais() {
    let host = Host::start(34);
    let proxy = Proxy::start(&[&host], &["--api-key", "secret"]);
    let azure = format!("/openai/deployments/{MODEL}/embeddings");
    for path in [
        "/api/embed",
        "/api/embeddings",
        "/embed",
        "/",
        "/v2/embed",
        "/v1/embed",
        &azure,
    ] {
        for (fields, status) in [
            ("host: localhost", 401),
            ("host: localhost\r\napi-key: other", 401),
            ("host: evil.example\r\napi-key: secret", 403),
            ("host: localhost\r\napi-key: secret\r\norigin: null", 403),
            (
                "host: localhost\r\napi-key: secret\r\nauthorization: Bearer secret",
                401,
            ),
        ] {
            let (found, ..) = proxy.send(&format!("POST {path} HTTP/1.1\r\n{fields}"), "{}");
            assert_eq!(found, status, "{path} {fields}");
        }
    }
    for path in ["/api/tags", "/info"] {
        assert_eq!(proxy.get(path).0, 401, "{path}");
    }
    for path in ["/health", "/api/version"] {
        assert_eq!(proxy.get(path).0, 200, "{path}");
    }
    assert_eq!(host.sealed_requests(), 0);
    let fields = "host: localhost\r\ncontent-type: application/json";
    for key in ["api-key: secret", "authorization: Bearer secret"] {
        let head = format!("POST {azure} HTTP/1.1\r\n{fields}\r\n{key}");
        assert_eq!(proxy.send(&head, r#"{"input":"a"}"#).0, 200, "{key}");
    }
}
