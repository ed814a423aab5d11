//! The toy model, behind the private API.

use base64ct::{Base64, Encoding};
use protocol::commitment::request_hash;
use protocol::inner::InnerRequest;
use protocol::items;
use serde_json::{Value, json};

use super::{MAX_WORDS, MODEL};

/// An answer that begins with the root of the tree over its items.
pub(super) fn with_items(salt: &[u8; 32], request: &InnerRequest, content: &Value) -> Vec<u8> {
    let asked: Value = serde_json::from_slice(&request.content).unwrap();
    let texts = match &asked["input"] {
        Value::Array(texts) => texts.clone(),
        text => vec![text.clone()],
    };
    let items = texts.iter().zip(content["data"].as_array().unwrap());
    let root = items::root((0..).zip(items).map(|(index, (text, item))| {
        let text = text.as_str().unwrap();
        let salt = items::item_salt(salt, index);
        let read = items::TokenUsage {
            tokens: u32::try_from(item["clearseal"]["tokens"].as_u64().unwrap()).unwrap(),
            truncated: item["clearseal"]["truncated"].as_bool().unwrap(),
        };
        let input = items::input_hash(&salt, items::Input::Text(text));
        items::leaf(
            index,
            &input,
            &items::vector_hash(&salt, &vector(text)),
            read,
        )
    }));
    let rest = content.to_string();
    let root = items::root_text(&root);
    format!("{}{root}\"}},{}", items::MARKER, &rest[1..]).into_bytes()
}

pub(super) fn answer(request: &InnerRequest) -> (u16, Value) {
    if request.path == "/v1/models" {
        return (
            200,
            json!({"object": "list", "data": [{"id": MODEL, "object": "model"}]}),
        );
    }
    if request.path != "/v1/embeddings" {
        return (404, error("ENDPOINT_UNKNOWN"));
    }
    let Ok(asked) = serde_json::from_slice::<Value>(&request.content) else {
        return (400, error("JSON_INVALID"));
    };
    let texts = match &asked["input"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(texts) => texts
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect(),
        _ => return (400, error("REQUEST_INVALID")),
    };
    let data: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let row = vector(text);
            let embedding = match asked["encoding_format"].as_str() {
                Some("base64") => {
                    let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
                    json!(Base64::encode_string(&bytes))
                }
                _ => json!(row),
            };
            let words = text.split(' ').count();
            json!({
                "object": "embedding",
                "index": index,
                "embedding": embedding,
                "clearseal": {"tokens": words.min(MAX_WORDS), "truncated": words > MAX_WORDS},
            })
        })
        .collect();
    (
        200,
        json!({"object": "list", "data": data, "model": MODEL, "usage": {"prompt_tokens": 1, "total_tokens": 1}}),
    )
}

/// A function of the text: a wrong answer to a request shows.
pub fn vector(text: &str) -> [f32; 4] {
    let hash = request_hash(text.as_bytes());
    [0, 1, 2, 3].map(|at| f32::from(hash[at]) / 256.0)
}

pub(super) fn error(code: &str) -> Value {
    json!({"error": {"message": "a refusal", "type": "invalid_request_error", "param": null, "code": code}})
}
