//! The record's JSON Schema. The page validates dropped files against the same schema.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::Serialize;
use serde_json::{Value, json};

use crate::record::RecordFile;

/// Returns the schema of a [`RecordFile`], with every type under `$defs`.
pub fn schema() -> Schema {
    let mut settings = SchemaSettings::draft2020_12();
    settings
        .transforms
        .push(Box::new(RecursiveTransform(without_choices)));
    settings
        .into_generator()
        .into_root_schema_for::<RecordFile>()
}

/// Merges choices into one schema, so that a value that matches none of them has one problem instead of one per choice.
fn without_choices(schema: &mut Schema) {
    // A field is absent or has a value: `null` would be a third way to express absence.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(mut choices)) = schema.remove(keyword) else {
            continue;
        };
        choices.retain(|choice| choice["type"] != "null");
        let names: Vec<Value> = choices
            .iter()
            .filter_map(|choice| choice.get("const").cloned())
            .collect();
        let types: Vec<Value> = choices
            .iter()
            .filter_map(|choice| choice.get("type").cloned())
            .collect();
        if names.len() == choices.len() {
            schema.insert("type".to_owned(), json!("string"));
            schema.insert("enum".to_owned(), Value::Array(names));
            continue;
        }
        let several = types.len() > 1;
        for (name, value) in choices.into_iter().filter_map(object).flatten() {
            // A rule such as `maxLength` applies to one type only, so rules of several types do not conflict.
            if schema.get(&name).is_none() {
                schema.insert(name, value);
            }
        }
        if several {
            schema.insert("type".to_owned(), Value::Array(types));
        }
    }
}

fn object(value: Value) -> Option<serde_json::Map<String, Value>> {
    match value {
        Value::Object(entries) => Some(entries),
        _ => None,
    }
}

/// Name of a unit, an environment or a dimension in records.
pub fn name_of(one: impl Serialize) -> String {
    serde_json::to_value(one)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}
