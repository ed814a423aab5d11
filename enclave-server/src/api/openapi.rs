//! Generates `enclave-server/openapi.json`, the OpenAPI document of the private router, from its types.
//!
//! `CLEARSEAL_UPDATE=1 cargo test -p enclave-server --lib openapi` writes the file.

use std::borrow::Cow;
use std::path::Path;

use protocol::vectors;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::input::{Input, MAX_INPUTS, MAX_PIECES};
use super::request::EmbeddingsRequest;
use super::{counters, embeddings, error, indexes, inner, rerank};

// The reader is written by hand, so the description is too; `tests/service/openapi.rs` compares both.
impl JsonSchema for Input {
    fn schema_name() -> Cow<'static, str> {
        "Input".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let id = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
        let ids = json!({"type": "array", "items": id, "minItems": 1, "maxItems": MAX_PIECES});
        let text = json!({"type": "string", "minLength": 1});
        json_schema!({
            "description": "A text, several texts, or token ids of one text or of several. Token ids with the model's special tokens at both ends are read unchanged; ids without special tokens get them; ids with them at only one end are refused (TOKENS_HALF_WRAPPED). Padding at either end is removed. An escaped surrogate without its other half is read as U+FFFD.",
            "oneOf": [
                text,
                {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_INPUTS},
                ids,
                {"type": "array", "items": ids, "minItems": 1, "maxItems": MAX_INPUTS},
            ],
        })
    }
}

/// Generates the document.
fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut requests = settings.clone().for_deserialize().into_generator();
    let mut answers_generator = settings.for_serialize().into_generator();
    let request = requests.subschema_for::<EmbeddingsRequest>();
    let pairs = requests.subschema_for::<rerank::RerankRequest>();
    let create = requests.subschema_for::<indexes::CreateIndexRequest>();
    let change = requests.subschema_for::<indexes::ChangeIndexRequest>();
    let query = requests.subschema_for::<indexes::QueryIndexRequest>();
    let at = requests.subschema_for::<indexes::AtRequest>();
    let index = answers_generator.subschema_for::<indexes::Description>();
    let changed = answers_generator.subschema_for::<indexes::ChangeAnswer<'_>>();
    let found = answers_generator.subschema_for::<indexes::QueryAnswer<'_>>();
    let deleted = answers_generator.subschema_for::<indexes::DeletedIndex>();
    let ranking = answers_generator.subschema_for::<rerank::Body<'_>>();
    let embeddings = answers_generator.subschema_for::<embeddings::Body<'_>>();
    let list = answers_generator.subschema_for::<inner::List<'_>>();
    let model = answers_generator.subschema_for::<inner::Model<'_>>();
    let counters = answers_generator.subschema_for::<counters::Body>();
    let refusal = answers_generator.subschema_for::<error::Body>();
    let mut schemas = requests.take_definitions(true);
    schemas.append(&mut answers_generator.take_definitions(true));
    add_user_member(&mut schemas);

    let refusal_response = json!({
        "description": "Refused. `error.code` is stable; docs/ERRORS.md lists all.",
        "content": {"application/json": {"schema": refusal}},
    });
    let answers = |description: &str, schema: &Schema| {
        json!({
            "200": {"description": description, "content": {"application/json": {"schema": schema}}},
            "default": refusal_response,
        })
    };
    let mut unsupported = refusal_response.clone();
    unsupported["description"] = json!(
        "The body is compressed (CONTENT_ENCODING_UNSUPPORTED) or not in UTF-8 (CHARSET_UNSUPPORTED); the header states what is accepted."
    );
    unsupported["headers"] = json!({
        "accept-encoding": {"schema": {"type": "string"}},
        "accept": {"schema": {"type": "string"}},
    });
    let mut embeddings_responses = answers("Vectors, in the order of their inputs.", &embeddings);
    embeddings_responses["200"]["content"][vectors::MEDIA_TYPE] = json!({
        "schema": {"type": "string", "format": "binary", "description": "All vectors in one message: docs/CHANNEL.md."},
    });
    embeddings_responses["200"]["content"][super::embeddings::STREAM_MEDIA_TYPE] = json!({
        "schema": {"type": "string", "description": "With `stream`: lines of JSON. Each but the last is an item of `data`, the last has the other members: docs/PROTOCOL.md."},
    });
    embeddings_responses["415"] = unsupported;
    embeddings_responses["200"]["headers"] = json!({
        "clearseal-receipt": {
            "description": "Receipt, base64url: docs/RECEIPTS.md.",
            "required": true,
            "schema": {"type": "string"},
        },
    });
    let mut ranking_responses = answers("Scored documents, the best first.", &ranking);
    ranking_responses["415"] = embeddings_responses["415"].clone();
    ranking_responses["200"]["headers"] = embeddings_responses["200"]["headers"].clone();
    let key = json!({
        "name": "clearseal-index-key",
        "in": "header",
        "required": true,
        "description": "Key of the index: 32 random bytes that the client made, base64url without padding. Its id is derived from it.",
        "schema": {"type": "string"},
    });
    let id = json!({
        "name": "id",
        "in": "path",
        "required": true,
        "description": "Id of the index, 32 hexadecimal digits.",
        "schema": {"type": "string"},
    });
    let on_index = |operation: &str,
                    summary: &str,
                    body: Option<&Schema>,
                    description: &str,
                    answer: &Schema| {
        let mut described = json!({
            "operationId": operation,
            "summary": summary,
            "parameters": if operation == "createIndex" { json!([key]) } else { json!([key, id]) },
            "responses": answers(description, answer),
        });
        if let Some(body) = body {
            described["requestBody"] = json!({"content": {"application/json": {"schema": body}}});
        }
        described
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Clearseal, inside the seal",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": "The private API of the enclave, reached through sealed requests (docs/PROTOCOL.md). `clearseal proxy` serves it on a local port, and the packages for JavaScript and Python give clients a sealed transport. The format is OpenAI's, with extensions in members named `clearseal`.",
        },
        "servers": [{"url": "http://127.0.0.1:8788", "description": "clearseal proxy"}],
        "security": [{}],
        "paths": {
            "/v1/embeddings": {
                "post": {
                    "operationId": "createEmbeddings",
                    "summary": "Embeds texts",
                    "requestBody": {"required": true, "content": {"application/json": {"schema": request}}},
                    "responses": embeddings_responses,
                },
            },
            "/v1/rerank": {
                "post": {
                    "operationId": "rerank",
                    "summary": "Scores documents for a query",
                    "requestBody": {"required": true, "content": {"application/json": {"schema": pairs}}},
                    "responses": ranking_responses,
                },
            },
            "/v1/indexes": {
                "post": on_index("createIndex", "Creates a private index", Some(&create), "The empty index.", &index),
            },
            "/v1/indexes/{id}": {
                "get": on_index("describeIndex", "Describes a private index", Some(&at), "The index.", &index),
                "delete": on_index("deleteIndex", "Deletes a private index", None, "The number of deleted objects.", &deleted),
            },
            "/v1/indexes/{id}/rows": {
                "post": on_index("changeIndex", "Puts and deletes rows in one change", Some(&change), "The change, which is stored.", &changed),
            },
            "/v1/indexes/{id}/query": {
                "post": on_index("queryIndex", "Finds the most similar rows", Some(&query), "The best rows, the best first.", &found),
            },
            "/v1/indexes/{id}/compact": {
                "post": on_index("compactIndex", "Removes what is left of replaced and deleted rows", Some(&at), "The index.", &index),
            },
            "/v1/models": {
                "get": {
                    "operationId": "listModels",
                    "summary": "Lists the models",
                    "responses": answers("Each model, once under each of its names.", &list),
                },
            },
            "/v1/models/{model}": {
                "get": {
                    "operationId": "retrieveModel",
                    "summary": "Describes the model",
                    "parameters": [{
                        "name": "model",
                        "in": "path",
                        "required": true,
                        "description": "One of its names; a slash in it may be sent unescaped.",
                        "schema": {"type": "string"},
                    }],
                    "responses": answers("The model.", &model),
                },
            },
            "/v1/counters": {
                "get": {
                    "operationId": "count",
                    "summary": "Counts the requests that the enclave has answered",
                    "responses": answers("Powers of two, each shown from a secret number on, so that no two readings reveal a single request.", &counters),
                },
            },
            "/v1/openapi.json": {
                "get": {
                    "operationId": "describe",
                    "summary": "This document",
                    "responses": {
                        "200": {
                            "description": "OpenAPI 3.1.",
                            "content": {"application/json": {"schema": {"type": "object"}}},
                        },
                    },
                },
            },
        },
        "components": {"schemas": schemas},
    })
}

/// Describes `user`, which is checked and not stored.
fn add_user_member(schemas: &mut Map<String, Value>) {
    for request in ["EmbeddingsRequest", "RerankRequest"] {
        schemas[request]["properties"]["user"] = json!({
            "type": ["string", "null"],
            "description": "Accepted, without effect.",
        });
    }
}

#[test]
fn the_served_document_matches_the_types() {
    let mut made = serde_json::to_string_pretty(&describe()).unwrap();
    made.push('\n');
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    if std::env::var_os("CLEARSEAL_UPDATE").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap() == made,
        "write the document again: CLEARSEAL_UPDATE=1 cargo test -p enclave-server --lib openapi"
    );
}
