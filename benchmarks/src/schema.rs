//! The record's JSON Schema. The page judges dropped files by the same one.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::Serialize;
use serde_json::{Value, json};

use crate::record::RecordFile;

/// The schema of a [`RecordFile`], with every type under `$defs`.
pub fn schema() -> Schema {
    let mut settings = SchemaSettings::draft2020_12();
    settings
        .transforms
        .push(Box::new(RecursiveTransform(without_choices)));
    settings
        .into_generator()
        .into_root_schema_for::<RecordFile>()
}

/// Says choices in one schema, so that a value that fits none of them has one fault and not one for each choice.
fn without_choices(schema: &mut Schema) {
    // Absent or a value: `null` would be a third way to say nothing.
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
            // A rule such as `maxLength` holds for one type alone, so rules of several types do not disturb each other.
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

/// A unit, an environment or a dimension as records write it.
pub fn name_of(one: impl Serialize) -> String {
    serde_json::to_value(one)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}
