//! Generates TypeScript for the page: the record's types and the catalogue's tables.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use ts_rs::{Config, TS, TypeVisitor};

use crate::catalogue::{Dimension, SUBJECTS, Subject, environment_title};
use crate::comparison::{RULES, Rules};
use crate::guide::{GUIDES, Guide};
use crate::published::{PUBLISHED, PublishedField};
use crate::record::{RecordFile, Unit};
use crate::schema::schema;
use crate::statistics::STUDENT;

const HEAD: &str = "// Generated from benchmarks/src/record.rs: cargo run --package benchmarks -- --types. Do not edit.

/** Records are read-only. */
type Immutable<T> = T extends object ? { readonly [Key in keyof T]: Immutable<T[Key]> } : T;

";

/// A unit's dimension and factor.
#[derive(Serialize, TS)]
struct UnitEntry {
    dimension: Dimension,
    /// Base units of the dimension: milliseconds, bytes, bytes per second.
    factor: f64,
}

/// Returns the contents of `web/src/features/benchmarks/record.gen.ts`.
pub fn module() -> String {
    let mut types = Types {
        // JavaScript has a single number type.
        config: Config::new().with_large_int("number"),
        named: BTreeMap::new(),
    };
    types.visit::<RecordFile>();
    types.visit::<Subject>();
    types.visit::<UnitEntry>();
    types.visit::<PublishedField>();
    types.visit::<Guide>();
    types.visit::<Rules>();

    let schema = schema().to_value();
    let definitions = &schema["$defs"];
    let units = by_name(&definitions["Unit"], |unit: Unit| {
        let (dimension, factor) = unit.scale();
        json!(UnitEntry { dimension, factor })
    });
    let environments = by_name(&definitions["Environment"], |one| {
        environment_title(one).into()
    });
    // JSON has no infinity: the first step of a guide begins at `null`.
    let constants: &[String] = table! { constant:
        "FIELDS",       "Readonly<Record<string, readonly string[]>>", &json!(open_fields(definitions));
        "SCHEMA",       "object",                                      &without_descriptions(schema.clone());
        "SUBJECTS",     "readonly Subject[]",                          &json!(SUBJECTS);
        "UNITS",        "Readonly<Record<Unit, UnitEntry>>",           &json!(units);
        "PUBLISHED",    "readonly PublishedField[]",                   &json!(PUBLISHED);
        "GUIDES",       "readonly Guide[]",                            &json!(GUIDES);
        "RULES",        "Rules",                                       &json!(RULES);
        "STUDENT",      "readonly number[]",                           &json!(STUDENT);
        "ENVIRONMENTS", "Readonly<Record<Environment, string>>",       &json!(environments);
    };
    let named = types.named.values();
    let parts = named.chain(constants).map(String::as_str);
    std::iter::once(HEAD).chain(parts).collect()
}

/// Types by name, with the types that they refer to. Sorted, because the order in which `ts-rs` visits them changes from build to
/// build.
struct Types {
    config: Config,
    named: BTreeMap<String, String>,
}

impl TypeVisitor for Types {
    fn visit<T: TS + ?Sized + 'static>(&mut self) {
        let name = T::name(&self.config);
        // Types without an output path are built in.
        if T::output_path().is_none() || self.named.contains_key(&name) {
            return;
        }
        let (docs, definition) = (T::docs().unwrap_or_default(), T::inline(&self.config));
        let declaration = format!("{docs}export type {name} = Immutable<{definition}>;\n\n");
        self.named.insert(name, declaration);
        T::visit_dependencies(self);
    }
}

/// Maps each name of an enum to its value.
fn by_name<T: DeserializeOwned>(of: &Value, value: impl Fn(T) -> Value) -> Map<String, Value> {
    let names = of["enum"].as_array().into_iter().flatten();
    names
        .filter_map(|name| {
            Some((
                name.as_str()?.to_owned(),
                value(serde_json::from_value(name.clone()).ok()?),
            ))
        })
        .collect()
}

/// One entry per line, so that diffs stay small.
fn constant(name: &str, of: &str, value: &Value) -> String {
    format!("export const {name}: {of} = {};\n\n", lines(value))
}

fn lines(value: &Value) -> String {
    let (open, close, entries): (_, _, Vec<String>) = match value {
        Value::Array(items) => ('[', ']', items.iter().map(Value::to_string).collect()),
        Value::Object(items) => (
            '{',
            '}',
            items
                .iter()
                .map(|(name, value)| format!("{}: {value}", Value::from(name.as_str())))
                .collect(),
        ),
        other => return other.to_string(),
    };
    format!("{open}\n  {},\n{close}", entries.join(",\n  "))
}

/// Fields of a record, under ``, and of its sections that allow additional fields.
fn open_fields(definitions: &Value) -> Map<String, Value> {
    let record = &definitions["Record"];
    let sections = record["properties"].as_object().into_iter().flatten();
    let sections = sections.filter_map(|(name, section)| {
        let of = section["$ref"].as_str()?.trim_start_matches("#/$defs/");
        Some((name.as_str(), &definitions[of]))
    });
    [("", record)]
        .into_iter()
        .chain(sections)
        .filter(|(_, one)| one["additionalProperties"] != false && one["properties"].is_object())
        .map(|(name, one)| {
            let fields = one["properties"].as_object().into_iter().flatten();
            (
                name.to_owned(),
                fields
                    .map(|(field, _)| Value::from(field.as_str()))
                    .collect(),
            )
        })
        .collect()
}

/// Removes descriptions, which only people read and which would be a third of the page's script.
fn without_descriptions(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(entries) => {
            for word in ["description", "title", "format", "$schema"] {
                // A property may have such a name; its value is then a schema and not a text.
                if entries.get(word).is_some_and(Value::is_string) {
                    entries.remove(word);
                }
            }
            entries
                .values_mut()
                .for_each(|value| *value = without_descriptions(value.take()));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = without_descriptions(item.take())),
        _ => {}
    }
    schema
}
