//! Compares the served OpenAPI document with real requests and answers.

use serde_json::{Value, json};

use crate::common::{ALIAS, Attested, MODEL, Rig, embeddings};

/// Validates values by the document. Knows every keyword that the document uses, and panics at any other.
struct Judge<'a> {
    document: &'a Value,
    /// Refuses members that the document does not describe; for answers.
    strict: bool,
}

impl Judge<'_> {
    fn accepts(&self, schema: &Value, value: &Value) -> bool {
        let schema = schema.as_object().unwrap();
        schema.iter().all(|(keyword, rule)| match keyword.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                self.accepts(self.document.pointer(pointer).unwrap(), value)
            }
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is(kind, value)),
                kind => is(kind, value),
            },
            "const" => rule == value,
            "enum" => rule.as_array().unwrap().contains(value),
            "oneOf" => {
                let fit = |schema: &&Value| self.accepts(schema, value);
                rule.as_array().unwrap().iter().filter(fit).count() == 1
            }
            "anyOf" => {
                let all = rule.as_array().unwrap();
                all.iter().any(|schema| self.accepts(schema, value))
            }
            "items" => value
                .as_array()
                .is_none_or(|items| items.iter().all(|item| self.accepts(rule, item))),
            "properties" => value.as_object().is_none_or(|members| {
                members.iter().all(|(name, value)| match rule.get(name) {
                    Some(schema) => self.accepts(schema, value),
                    None => !self.strict,
                })
            }),
            "required" => value.as_object().is_none_or(|members| {
                let names = rule.as_array().unwrap();
                names
                    .iter()
                    .all(|name| members.contains_key(name.as_str().unwrap()))
            }),
            "minItems" => value
                .as_array()
                .is_none_or(|all| all.len() as u64 >= number(rule)),
            "maxItems" => value
                .as_array()
                .is_none_or(|all| all.len() as u64 <= number(rule)),
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= number(rule)),
            "minimum" => value.as_f64().is_none_or(|it| it >= number(rule) as f64),
            "maximum" => value.as_f64().is_none_or(|it| it <= number(rule) as f64),
            "title" | "description" | "format" | "default" => true,
            other => panic!("a keyword that this test does not know: {other}"),
        })
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        // JSON Schema 2020-12 §6.1.1: 2.0 is an integer too.
        "integer" => {
            let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
            value.is_i64() || value.is_u64() || whole
        }
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("a type that this test does not know: {other}"),
    }
}

fn number(rule: &Value) -> u64 {
    rule.as_u64().unwrap()
}

async fn ask(rig: &Rig, attested: &Attested, method: &str, path: &str) -> (u16, Value) {
    let request = fixtures::enclave::bare_request(method, path);
    let answer = rig.exchange(attested, request).await;
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    (
        answer.response.status,
        serde_json::from_slice(&answer.response.content).unwrap(),
    )
}

#[tokio::test]
async fn requests_are_accepted_where_the_document_accepts_them() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (status, document) = ask(&rig, &attested, "GET", "/v1/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let operation = &document["paths"]["/v1/embeddings"]["post"];
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let judge = Judge {
        document: &document,
        strict: false,
    };
    let with = |members: Value| {
        let mut request = json!({"model": MODEL, "input": "hello"});
        for (name, value) in members.as_object().unwrap() {
            request[name] = value.clone();
        }
        request
    };
    let mut accepted = 0;
    for request in [
        with(json!({})),
        with(json!({"model": ALIAS, "input": ["hello", "world"]})),
        with(json!({"input": [5, 6], "tokenizer": MODEL})),
        with(json!({"input": [[5], [5, 6]], "tokenizer": MODEL})),
        with(json!({"encoding_format": "float", "dimensions": 2, "truncate": false, "user": "x"})),
        with(json!({"encoding_format": "base64", "unknown": {"a": [1]}})),
        with(json!({"dimensions": 2.0})),
        with(json!({"input": [5.0, 6], "tokenizer": MODEL})),
        with(json!({"input": [[5, 6.0]], "tokenizer": MODEL})),
        with(
            json!({"encoding_format": null, "dimensions": null, "truncate": null, "user": null, "tokenizer": null}),
        ),
        with(json!({"input": ""})),
        with(json!({"input": []})),
        with(json!({"input": ["hello", ""]})),
        with(json!({"input": [[]], "tokenizer": MODEL})),
        with(json!({"input": ["hello", 1]})),
        with(json!({"input": [1.5], "tokenizer": MODEL})),
        with(json!({"input": [-1], "tokenizer": MODEL})),
        with(json!({"input": [4_294_967_296_u64], "tokenizer": MODEL})),
        with(json!({"input": vec!["x"; 2049]})),
        with(json!({"input": null})),
        with(json!({"input": {}})),
        with(json!({"model": 7})),
        with(json!({"model": null})),
        with(json!({"encoding_format": "hex"})),
        with(json!({"dimensions": 0})),
        with(json!({"dimensions": 0.0})),
        with(json!({"dimensions": 2.5})),
        with(json!({"input": [4_294_967_296.0], "tokenizer": MODEL})),
        with(json!({"dimensions": "2"})),
        with(json!({"truncate": "no"})),
        with(json!({"tokenizer": 7})),
        with(json!({"user": 7})),
        json!({"model": MODEL}),
        json!({"input": "hello"}),
        json!([]),
    ] {
        let answer = rig.exchange(&attested, embeddings(&request)).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        let status = answer.response.status;
        assert_eq!(
            judge.accepts(schema, &request),
            status == 200,
            "{status}: {request}"
        );
        let content: Value = serde_json::from_slice(&answer.response.content).unwrap();
        answers(&document, operation, status, &content);
        accepted += usize::from(status == 200);
    }
    assert_eq!(accepted, 10);
}

#[tokio::test]
async fn every_member_of_a_request_is_described() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (_, document) = ask(&rig, &attested, "GET", "/v1/openapi.json").await;
    let described = &document["components"]["schemas"]["EmbeddingsRequest"]["properties"];
    for name in described.as_object().unwrap().keys() {
        // A known member may occur once; an ignored one may be repeated.
        let mut request = embeddings(&json!({}));
        let twice = format!(r#"{{"model":"{MODEL}","input":"hello","{name}":null,"{name}":null}}"#);
        request.content = twice.into_bytes();
        let answer = rig.exchange(&attested, request).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            answer.response.status, 400,
            "{name} is described, and ignored"
        );
    }
    // The refusal of a request lists the known members.
    let (_, refusal) = rig.embed(json!({"model": 7})).await;
    let message = refusal["error"]["message"].as_str().unwrap();
    for name in described.as_object().unwrap().keys() {
        assert!(
            message.contains(name.as_str()),
            "{name} is not in: {message}"
        );
    }
}

#[tokio::test]
async fn answers_match_the_document() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let (_, document) = ask(&rig, &attested, "GET", "/v1/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            for model in [MODEL, ALIAS, "other"] {
                let path = path.replace("{model}", model);
                let method = method.to_ascii_uppercase();
                let (status, content) = ask(&rig, &attested, &method, &path).await;
                assert_ne!(status, 405, "{method} {path}");
                assert_eq!(status == 404, path.ends_with("other"), "{method} {path}");
                answers(&document, operation, status, &content);
            }
        }
    }
}

fn answers(document: &Value, operation: &Value, status: u16, content: &Value) {
    let judge = Judge {
        document,
        strict: status != 200 || operation["operationId"] != "describe",
    };
    let responses = &operation["responses"];
    let response = responses
        .get(status.to_string())
        .unwrap_or(&responses["default"]);
    let schema = &response["content"]["application/json"]["schema"];
    assert!(judge.accepts(schema, content), "{content}");
}
