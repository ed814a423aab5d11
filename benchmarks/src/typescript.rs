//! The record's types and the catalogue's tables, as TypeScript for the page.

use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::beside::RULES;
use crate::catalogue::{SUBJECTS, environment_title};
use crate::guide::GUIDES;
use crate::published::PUBLISHED;
use crate::record::Unit;
use crate::schema::schema;

/// The file `web/src/features/benchmarks/record.gen.ts`.
pub fn module() -> String {
    let schema = schema().to_value();
    let mut out = String::from(
        "// Generated from benchmarks/src/record.rs: cargo run --package benchmarks -- --types. Do not edit.\n",
    );
    let definitions = &schema["$defs"];
    let named = definitions.as_object().into_iter().flatten();
    let named = named.map(|(name, definition)| (name.as_str(), definition));
    for (name, definition) in std::iter::once(("RecordFile", &schema)).chain(named) {
        // A type of that name is built in, and means something else.
        let name = renamed(name);
        documentation(&mut out, definition, "");
        if definition["properties"].is_object() {
            interface(&mut out, name, definition);
        } else {
            let _ = writeln!(out, "export type {name} = {};", type_of(definition));
        }
        out.push('\n');
    }
    let units = by_name(
        &definitions["Unit"],
        |unit: Unit| json!({ "dimension": unit.scale().0, "factor": unit.scale().1 }),
    );
    let environments = by_name(&definitions["Environment"], |one| {
        environment_title(one).into()
    });
    // JSON has no infinity: the first step of a guide begins at `null`.
    let constants: &[String] = table! { constant:
        "FIELDS",       "Readonly<globalThis.Record<string, readonly string[]>>", &json!(open_fields(definitions));
        "SCHEMA",       "object",                                                 &without_words(schema.clone());
        "SUBJECTS",     "readonly SubjectEntry[]",                                &json!(SUBJECTS);
        "UNITS",        "Readonly<globalThis.Record<Unit, UnitEntry>>",           &json!(units);
        "PUBLISHED",    "readonly PublishedField[]",                              &json!(PUBLISHED);
        "GUIDES",       "readonly Guide[]",                                       &json!(GUIDES);
        "RULES",        "Rules",                                                  &json!(RULES);
        "ENVIRONMENTS", "Readonly<globalThis.Record<Environment, string>>",       &json!(environments);
    };
    out.extend(constants.iter().map(String::as_str));
    out.push_str(TABLE_TYPES);
    out
}

const TABLE_TYPES: &str = r#"
export type Dimension = "time" | "size" | "bandwidth" | "rate" | "percent" | "ratio" | "money" | "count" | "any";

export interface SubjectEntry {
  readonly name: string;
  readonly title: string;
  readonly dimension: Dimension;
  readonly better: "lower" | "higher" | "neither";
}

export interface UnitEntry {
  readonly dimension: Dimension;
  /** Base units of the dimension: milliseconds, bytes, bytes a second. */
  readonly factor: number;
}

export interface PublishedField {
  readonly section: "stages" | "inference" | "memory" | "vsock" | "quality";
  readonly field: string;
  readonly subject: string;
  readonly unit: Unit;
  readonly payload_bytes: number | null;
}

export interface Threshold {
  /** Lower bound, included; `null` is no bound. */
  readonly from: number | null;
  readonly verdict: string;
  readonly why: string;
  /** 0 fine, 1 look closer, 2 a problem, 3 the guide is silent. */
  readonly grade: number;
}

export interface Guide {
  readonly subject: string;
  readonly title: string;
  readonly unit: Unit;
  readonly thresholds: readonly Threshold[];
}

/** What is asked of a parameter: `lacks` and `begins` accept one that is absent. */
export type Test =
  | { readonly is: readonly string[] }
  | { readonly has: string }
  | { readonly lacks: string }
  | { readonly begins: readonly string[] };

/** A parameter by its name, `environment` for where its record was made, and what is asked of it. */
export type Condition = readonly [string, Test];

/** When two figures of one subject are not the same thing measured. */
export interface Rule {
  /** How the subjects begin; none: all. */
  readonly subjects: readonly string[];
  readonly ours: readonly Condition[];
  readonly theirs: readonly Condition[];
  /** What differs; `null`: nothing, whatever later rules say. */
  readonly reason: string | null;
}

export interface Rules {
  /** Parameters that tell published runs apart and that ours do not have. */
  readonly theirs_alone: readonly string[];
  /** Theirs, and what of ours is measured in its place. */
  readonly stand_ins: readonly (readonly [string, string])[];
  readonly proofs: readonly (readonly [string, string])[];
  /** Which of several figures that fit equally well is chosen; the first counts most. */
  readonly preferences: readonly Condition[];
  /** The first rule that fits decides. */
  readonly unlike: readonly Rule[];
  /** Why there is none of ours, where the run does not say it itself; the first that fits. */
  readonly absent: readonly Rule[];
}
"#;

/// What `value` is for each name of an enum.
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

/// One entry a line, so that a change shows as that.
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

fn interface(out: &mut String, name: &str, definition: &Value) {
    let _ = writeln!(out, "export interface {name} {{");
    let required: Vec<&str> = definition["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (field, schema) in definition["properties"].as_object().into_iter().flatten() {
        documentation(out, schema, "  ");
        let optional = if required.contains(&field.as_str()) {
            ""
        } else {
            "?"
        };
        let _ = writeln!(out, "  readonly {field}{optional}: {};", type_of(schema));
    }
    out.push_str("}\n");
}

fn documentation(out: &mut String, schema: &Value, indent: &str) {
    if let Some(text) = schema["description"].as_str() {
        let text = text
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .replace('\n', " ");
        // Rustdoc's links mean nothing here.
        let text = text
            .replace("[`crate::catalogue`]", "the catalogue")
            .replace("[`", "`")
            .replace("`]", "`");
        let _ = writeln!(out, "{indent}/** {text} */");
    }
}

fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return renamed(reference.trim_start_matches("#/$defs/")).to_owned();
    }
    if let Some(names) = schema["enum"].as_array() {
        let quoted: Vec<String> = names.iter().map(Value::to_string).collect();
        return quoted.join(" | ");
    }
    if let Some(types) = schema["type"].as_array() {
        return types
            .iter()
            .map(|name| type_of(&json!({ "type": name })))
            .collect::<Vec<_>>()
            .join(" | ");
    }
    match schema["type"].as_str() {
        Some("string") => "string".to_owned(),
        Some("number" | "integer") => "number".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("array") => match schema["maxItems"]
            .as_u64()
            .filter(|_| schema["maxItems"] == schema["minItems"])
        {
            Some(length) => {
                let items = vec![type_of(&schema["items"]); usize::try_from(length).unwrap_or(0)];
                format!("readonly [{}]", items.join(", "))
            }
            None => match type_of(&schema["items"]) {
                item if item.contains(' ') => format!("readonly ({item})[]"),
                item => format!("readonly {item}[]"),
            },
        },
        Some("object") => format!(
            "Readonly<globalThis.Record<string, {}>>",
            type_of(&schema["additionalProperties"])
        ),
        _ => "unknown".to_owned(),
    }
}

/// Fields of a record, at ``, and of its sections that may have others too.
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

fn renamed(name: &str) -> &str {
    match name {
        "Record" => "BenchmarkRecord",
        other => other,
    }
}

/// Descriptions are for people, and would be a third of the page's script.
fn without_words(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(entries) => {
            for word in ["description", "title", "format", "$schema"] {
                // A property may have such a name; its value is then a schema and no text.
                if entries.get(word).is_some_and(Value::is_string) {
                    entries.remove(word);
                }
            }
            entries
                .values_mut()
                .for_each(|value| *value = without_words(value.take()));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = without_words(item.take())),
        _ => {}
    }
    schema
}
