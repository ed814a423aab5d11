//! OpenAPI of the private router, made from its types: `enclave-server/openapi.json`, which the router serves.
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
use super::{counters, embeddings, error, inner};

// Read by hand, as a stream, so its description is written by hand too; `tests/service/openapi.rs` compares both.
impl JsonSchema for Input {
    fn schema_name() -> Cow<'static, str> {
        "Input".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let id = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
        let ids = json!({"type": "array", "items": id, "minItems": 1, "maxItems": MAX_PIECES});
        let text = json!({"type": "string", "minLength": 1});
        json_schema!({
            "description": "A text, texts, token ids of one text, or of several. Token ids with the model's special tokens at both ends are read as they are; ids without any get them; ids with them at one end alone are refused (TOKENS_HALF_WRAPPED). Padding at either end is left out. An escaped surrogate without its other half is read as U+FFFD.",
            "oneOf": [
                text,
                {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_INPUTS},
                ids,
                {"type": "array", "items": ids, "minItems": 1, "maxItems": MAX_INPUTS},
            ],
        })
    }
}

/// The document.
fn describe() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut asked = settings.clone().for_deserialize().into_generator();
    let mut said = settings.for_serialize().into_generator();
    let request = asked.subschema_for::<EmbeddingsRequest>();
    let embeddings = said.subschema_for::<embeddings::Body<'_>>();
    let list = said.subschema_for::<inner::List<'_>>();
    let model = said.subschema_for::<inner::Model<'_>>();
    let counters = said.subschema_for::<counters::Body>();
    let refusal = said.subschema_for::<error::Body>();
    let mut schemas = asked.take_definitions(true);
    schemas.append(&mut said.take_definitions(true));
    user(&mut schemas);

    let refused = json!({
        "description": "Refused. `error.code` is stable; docs/ERRORS.md lists all.",
        "content": {"application/json": {"schema": refusal}},
    });
    let answers = |description: &str, schema: &Schema| {
        json!({
            "200": {"description": description, "content": {"application/json": {"schema": schema}}},
            "default": refused,
        })
    };
    let mut unsupported = refused.clone();
    unsupported["description"] = json!(
        "The body is compressed (CONTENT_ENCODING_UNSUPPORTED) or not in UTF-8 (CHARSET_UNSUPPORTED); the header says what is accepted."
    );
    unsupported["headers"] = json!({
        "accept-encoding": {"schema": {"type": "string"}},
        "accept": {"schema": {"type": "string"}},
    });
    let mut computed = answers("Vectors, in the order of their inputs.", &embeddings);
    computed["200"]["content"][vectors::MEDIA_TYPE] = json!({
        "schema": {"type": "string", "format": "binary", "description": "All vectors in one message: docs/CHANNEL.md."},
    });
    computed["415"] = unsupported;
    computed["200"]["headers"] = json!({
        "clearseal-receipt": {
            "description": "Receipt, base64url: docs/RECEIPTS.md.",
            "required": true,
            "schema": {"type": "string"},
        },
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Clearseal, inside the seal",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
            "description": "What the enclave answers inside the seal (docs/PROTOCOL.md). `clearseal proxy` serves it on a local port, and the packages for JavaScript and Python give clients a sealed transport. The shapes are OpenAI's; what they have no place for is in members named `clearseal`.",
        },
        "servers": [{"url": "http://127.0.0.1:8788", "description": "clearseal proxy"}],
        "security": [{}],
        "paths": {
            "/v1/embeddings": {
                "post": {
                    "operationId": "createEmbeddings",
                    "summary": "Embeds texts",
                    "requestBody": {"required": true, "content": {"application/json": {"schema": request}}},
                    "responses": computed,
                },
            },
            "/v1/models": {
                "get": {
                    "operationId": "listModels",
                    "summary": "Lists the model",
                    "responses": answers("The one model.", &list),
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
                        "description": "One of its names; a slash in it may be sent as it is.",
                        "schema": {"type": "string"},
                    }],
                    "responses": answers("The model.", &model),
                },
            },
            "/v1/counters": {
                "get": {
                    "operationId": "count",
                    "summary": "Says how much the enclave has answered",
                    "responses": answers("Powers of two, each shown from a secret number on, so that no two readings tell of one request.", &counters),
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

/// A member that is checked and not kept.
fn user(schemas: &mut Map<String, Value>) {
    schemas["EmbeddingsRequest"]["properties"]["user"] = json!({
        "type": ["string", "null"],
        "description": "Accepted, and without effect.",
    });
}

#[test]
fn the_served_document_is_made_from_the_types() {
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
