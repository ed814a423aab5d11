//! Empty texts.

use super::{Host, MODEL, Proxy};
use fixtures::host::vector;
use serde_json::{Value, json};

/// A request in one dialect, with the texts "", "a", "" and "b".
struct Case {
    path: String,
    body: Value,
    /// Takes the vectors out of an answer.
    rows: fn(&Value) -> Value,
}

fn cases() -> [Case; 5] {
    let texts = json!(["", "a", "", "b"]);
    let case = |path: &str, body: Value, rows: fn(&Value) -> Value| Case {
        path: path.to_owned(),
        body,
        rows,
    };
    let azure = format!("/openai/deployments/{MODEL}/embeddings");
    let named = json!({"model": MODEL, "input": texts});
    let cohere = json!({"model": MODEL, "texts": texts, "input_type": "clustering", "embedding_types": ["float"]});
    [
        case("/v1/embeddings", named.clone(), rows_of_openai),
        case(&azure, json!({"input": texts}), rows_of_openai),
        case("/api/embed", named, |answer| answer["embeddings"].clone()),
        case("/embed", json!({"inputs": texts}), Value::clone),
        case("/v2/embed", cohere, |answer| {
            answer["embeddings"]["float"].clone()
        }),
    ]
}

fn rows_of_openai(answer: &Value) -> Value {
    let rows = answer["data"].as_array().unwrap().iter().enumerate();
    let rows = rows.map(|(index, row)| {
        assert_eq!(row["index"], index);
        row["embedding"].clone()
    });
    rows.collect()
}

#[test]
fn empty_texts_are_skipped_and_counted() {
    let host = Host::start(51);
    let proxy = Proxy::start(&[&host], &["--empty", "skip"]);
    let count_skipped = || proxy.read("/healthz").1["skipped"].as_u64().unwrap();
    for Case { path, body, rows } in cases() {
        let before = count_skipped();
        let (status, head, answer) = proxy.post(&path, &body);
        let expected = json!([[], vector("a"), [], vector("b")]);
        assert_eq!((status, rows(&answer)), (200, expected), "{path}: {answer}");
        assert!(head.contains("clearseal-receipt: "), "{path}: {head}");
        assert_eq!(count_skipped() - before, 2, "{path}");

        // All items are empty.
        let sealed = host.sealed_requests();
        let body = body.to_string().replace(r#""a""#, r#""""#);
        let body = body.replace(r#""b""#, r#""""#);
        let (status, _, answer) = proxy.post(&path, &serde_json::from_str(&body).unwrap());
        let expected = json!([[], [], [], []]);
        assert_eq!((status, rows(&answer)), (200, expected), "{path}");
        assert_eq!(host.sealed_requests(), sealed, "{path}: nothing was sealed");
        assert_eq!(count_skipped() - before, 6, "{path}");
    }
    assert!(proxy.get("/").2.contains("30 texts were empty"));

    let body = json!({"model": MODEL, "input": ["", "a"], "encoding_format": "base64"});
    let (_, _, answer) = proxy.post("/v1/embeddings", &body);
    assert_eq!(answer["data"][0]["embedding"], "");
    let encoded = answer["data"][1]["embedding"].as_str().unwrap();
    assert_eq!(encoded.len(), 24);
    let (status, _, answer) = proxy.post("/v1/embeddings", &json!({"model": MODEL, "input": ""}));
    assert_eq!((status, rows_of_openai(&answer)), (200, json!([[]])));
    let (_, _, answer) = proxy.post("/api/embeddings", &json!({"model": MODEL, "prompt": ""}));
    assert_eq!(answer, json!({"embedding": []}));
}

#[test]
fn the_refusal_of_an_empty_text_names_its_item() {
    let host = Host::start(52);
    let proxy = Proxy::start(&[&host], &[]);
    for Case { path, body, .. } in cases() {
        let body = body.to_string().replacen(r#""""#, r#""c""#, 1);
        let (status, _, answer) = proxy.post(&path, &serde_json::from_str(&body).unwrap());
        assert_eq!(status, 400, "{path}");
        let answer = answer.to_string();
        assert!(answer.contains("INPUT_EMPTY"), "{path}: {answer}");
        let item = "item 2, counted from 0, is empty";
        assert!(answer.contains(item), "{path}: {answer}");
    }
    assert_eq!(proxy.read("/healthz").1["skipped"], 0);
}
