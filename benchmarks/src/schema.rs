//! The record's JSON Schema, and a judge that follows it and names each fault by its path.
//!
//! The page judges dropped files by the same schema with the same rules (`web/src/features/benchmarks/check.ts`), and
//! both must agree on `tests/malformed.json`.

use std::fmt;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::catalogue;
use crate::json::Json;
use crate::record::{RecordFile, Unit};

/// Deepest nesting that is read. Records need eight levels.
pub const MAX_DEPTH: usize = 32;
/// Most faults that are reported of one file; more help nobody.
pub const MAX_PROBLEMS: usize = 20;

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Which rule; stable.
    pub code: Code,
    /// Where: `$.records[3].stages.attestation_ms`.
    pub path: String,
    /// What is wrong there, and what would be right.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} ({:?})", self.path, self.reason, self.code)
    }
}

/// Rules. A code never changes meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(non_camel_case_types, reason = "the names are printed as they are")]
pub enum Code {
    /// The file is larger than is read.
    RECORD_TOO_LARGE,
    /// The file is not JSON.
    RECORD_NOT_JSON,
    /// Values are nested too deeply.
    RECORD_TOO_DEEP,
    /// An object has a name twice.
    RECORD_DUPLICATE_KEY,
    /// A field does not exist.
    RECORD_UNKNOWN_FIELD,
    /// A field is missing.
    RECORD_MISSING_FIELD,
    /// A value is of another type.
    RECORD_TYPE,
    /// A value is of the right type and still not allowed.
    RECORD_VALUE,
    /// A text or a list is too long or too short.
    RECORD_LENGTH,
    /// Percentiles that fall where they must rise.
    RECORD_ORDER,
    /// A unit that does not measure the subject.
    RECORD_UNIT,
}

/// The schema of a [`RecordFile`], with every type under `$defs`.
pub fn schema() -> Schema {
    let mut settings = SchemaSettings::draft2020_12();
    // Absent or a value: `null` would be a third way to say nothing.
    settings
        .transforms
        .push(Box::new(schemars::transform::RecursiveTransform(drop_null)));
    settings
        .into_generator()
        .into_root_schema_for::<RecordFile>()
}

fn drop_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let rest: Vec<Value> = choices
            .iter()
            .filter(|choice| choice["type"] != "null")
            .cloned()
            .collect();
        if let ([Value::Object(only)], true) = (rest.as_slice(), choices.len() == 2) {
            schema.remove("anyOf");
            for (name, value) in only {
                schema.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Judges values.
pub struct Judge {
    root: Value,
}

/// What a judge found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Faults, at most [`MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
    /// Fields of the published sections that nobody here knows; they are not read.
    pub notices: Vec<Problem>,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            root: schema().to_value(),
        }
    }
}

impl Judge {
    /// Judges `value` as the definition of that name (`Record`), or as the whole file.
    pub fn judge(&self, value: &Json, definition: Option<&str>, path: &str) -> Findings {
        let mut findings = Findings::default();
        let schema = match definition {
            Some(name) => &self.root["$defs"][name],
            None => &self.root,
        };
        self.value(schema, value, path, 0, &mut findings);
        findings
    }

    fn value(&self, schema: &Value, value: &Json, path: &str, depth: usize, found: &mut Findings) {
        if found.problems.len() >= MAX_PROBLEMS {
            return;
        }
        if depth > MAX_DEPTH {
            found.add(
                Code::RECORD_TOO_DEEP,
                path,
                format!("nested more than {MAX_DEPTH} levels deep"),
            );
            return;
        }
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.trim_start_matches("#/$defs/");
            return self.value(&self.root["$defs"][name], value, path, depth, found);
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            return one_of(choices, value, path, found);
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            return self.any_of(choices, value, path, depth, found);
        }
        if let Some(expected) = schema["type"].as_str()
            && !is(value, expected)
        {
            let given = shown(value);
            found.add(
                Code::RECORD_TYPE,
                path,
                format!("{} is expected here, not {given}", article(expected)),
            );
            return;
        }
        if let Some(names) = schema["enum"].as_array() {
            return one_of(names, value, path, found);
        }
        match value {
            Json::Object(entries) => self.object(schema, entries, path, depth, found),
            Json::List(items) => self.list(schema, items, path, depth, found),
            Json::Text(text) => text_rules(schema, text, path, found),
            Json::Number(number) => {
                if let Some(minimum) = schema["minimum"].as_f64()
                    && *number < minimum
                {
                    found.add(
                        Code::RECORD_VALUE,
                        path,
                        format!("{number} is less than {minimum}"),
                    );
                }
            }
            Json::Null | Json::Bool(_) => {}
        }
    }

    fn object(
        &self,
        schema: &Value,
        entries: &[(String, Json)],
        path: &str,
        depth: usize,
        found: &mut Findings,
    ) {
        let properties = schema["properties"].as_object();
        let mut seen = std::collections::HashSet::new();
        for (name, value) in entries {
            let here = member(path, name);
            if !seen.insert(name.as_str()) {
                found.add(
                    Code::RECORD_DUPLICATE_KEY,
                    &here,
                    "the name stands here twice".to_owned(),
                );
                continue;
            }
            if let Some(known) = properties.and_then(|properties| properties.get(name)) {
                self.value(known, value, &here, depth + 1, found);
                continue;
            }
            match &schema["additionalProperties"] {
                Value::Object(_) => self.value(
                    &schema["additionalProperties"],
                    value,
                    &here,
                    depth + 1,
                    found,
                ),
                Value::Bool(false) => {
                    let known: Vec<&str> = properties
                        .map(|all| all.keys().map(String::as_str).collect())
                        .unwrap_or_default();
                    let reason = format!(
                        "there is no such field; the fields here are {}",
                        known.join(", ")
                    );
                    found.add(Code::RECORD_UNKNOWN_FIELD, &here, reason);
                }
                _ if found.notices.len() < MAX_PROBLEMS => found.notices.push(Problem {
                    code: Code::RECORD_UNKNOWN_FIELD,
                    path: here,
                    reason: "this field is not known and was not read".to_owned(),
                }),
                _ => {}
            }
        }
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !seen.contains(name) {
                found.add(
                    Code::RECORD_MISSING_FIELD,
                    &member(path, name),
                    "this field is required".to_owned(),
                );
            }
        }
        if let Some(most) = schema["maxProperties"].as_u64()
            && entries.len() as u64 > most
        {
            found.add(
                Code::RECORD_LENGTH,
                path,
                format!("{} entries, at most {most} are allowed", entries.len()),
            );
        }
        if let Some(names) = schema["x-ordered"].as_array() {
            ordered(names, entries, path, found);
        }
        if properties.is_some_and(|all| all.contains_key("subject") && all.contains_key("unit")) {
            unit_fits(entries, path, found);
        }
    }

    fn list(&self, schema: &Value, items: &[Json], path: &str, depth: usize, found: &mut Findings) {
        let (least, most) = (schema["minItems"].as_u64(), schema["maxItems"].as_u64());
        let length = items.len() as u64;
        if most.is_some_and(|most| length > most) || least.is_some_and(|least| length < least) {
            let allowed = match (least, most) {
                (Some(least), Some(most)) if least == most => format!("exactly {most}"),
                (_, Some(most)) if length > most => format!("at most {most}"),
                (least, _) => format!("at least {}", least.unwrap_or(0)),
            };
            found.add(
                Code::RECORD_LENGTH,
                path,
                format!("{length} entries, {allowed} are allowed"),
            );
            return;
        }
        for (index, item) in items.iter().enumerate() {
            self.value(
                &schema["items"],
                item,
                &format!("{path}[{index}]"),
                depth + 1,
                found,
            );
        }
    }

    fn any_of(
        &self,
        choices: &[Value],
        value: &Json,
        path: &str,
        depth: usize,
        found: &mut Findings,
    ) {
        let mut names = Vec::new();
        for choice in choices {
            let name = choice["type"].as_str().unwrap_or("value");
            if is(value, name) {
                return self.value(choice, value, path, depth, found);
            }
            names.push(article(name));
        }
        let reason = format!(
            "{} is expected here, not {}",
            names.join(" or "),
            shown(value)
        );
        found.add(Code::RECORD_TYPE, path, reason);
    }
}

impl Findings {
    fn add(&mut self, code: Code, path: &str, reason: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem {
                code,
                path: path.to_owned(),
                reason,
            });
        }
    }
}

fn one_of(choices: &[Value], value: &Json, path: &str, found: &mut Findings) {
    let names: Vec<&str> = choices
        .iter()
        .filter_map(|choice| choice["const"].as_str().or(choice.as_str()))
        .collect();
    match value {
        Json::Text(text) if names.contains(&text.as_str()) => {}
        Json::Text(text) => {
            let reason = format!("`{}` is none of {}", shortened(text), names.join(", "));
            found.add(Code::RECORD_VALUE, path, reason);
        }
        other => {
            let reason = format!("a string is expected here, not {}", shown(other));
            found.add(Code::RECORD_TYPE, path, reason);
        }
    }
}

fn text_rules(schema: &Value, text: &str, path: &str, found: &mut Findings) {
    // UTF-16 code units, for that is what the page counts.
    let length = text.encode_utf16().count() as u64;
    if let Some(most) = schema["maxLength"].as_u64()
        && length > most
    {
        return found.add(
            Code::RECORD_LENGTH,
            path,
            format!("{length} characters, at most {most} are allowed"),
        );
    }
    if let Some(least) = schema["minLength"].as_u64()
        && length < least
    {
        return found.add(
            Code::RECORD_LENGTH,
            path,
            format!("{length} characters, at least {least} are needed"),
        );
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        let fits = regex_lite::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
        if !fits {
            let reason = format!("`{}` is not of the form {pattern}", shortened(text));
            found.add(Code::RECORD_VALUE, path, reason);
        }
    }
}

fn ordered(names: &[Value], entries: &[(String, Json)], path: &str, found: &mut Findings) {
    let mut last: Option<(&str, f64)> = None;
    for name in names.iter().filter_map(Value::as_str) {
        let Some((_, Json::Number(value))) = entries.iter().find(|(key, _)| key == name) else {
            continue;
        };
        if let Some((before, least)) = last
            && *value < least
        {
            let reason = format!("{value} is less than {before}, which is {least}");
            found.add(Code::RECORD_ORDER, &member(path, name), reason);
        }
        last = Some((name, *value));
    }
}

fn unit_fits(entries: &[(String, Json)], path: &str, found: &mut Findings) {
    let text = |name: &str| {
        entries.iter().find_map(|(key, value)| match value {
            Json::Text(text) if key == name => Some(text.as_str()),
            _ => None,
        })
    };
    let Some(subject) = text("subject") else {
        return;
    };
    let unit = text("unit");
    if unit.is_none() && entries.iter().any(|(key, _)| key == "statistics") {
        return found.add(
            Code::RECORD_UNIT,
            &member(path, "unit"),
            "numbers need a unit".to_owned(),
        );
    }
    let known = unit.and_then(|name| Unit::ALL.into_iter().find(|unit| unit_name(*unit) == name));
    let (Some(unit), Some(subject)) = (known, catalogue::find(subject)) else {
        return;
    };
    let dimension = unit.scale().0;
    if subject.dimension != catalogue::Dimension::Any && dimension != subject.dimension {
        let name = |dimension| serde_json::to_value(dimension).unwrap_or_default();
        let reason = format!(
            "`{}` is a unit of {}, but {} is measured in one of {}",
            unit_name(unit),
            name(dimension).as_str().unwrap_or_default(),
            subject.name,
            name(subject.dimension).as_str().unwrap_or_default(),
        );
        found.add(Code::RECORD_UNIT, &member(path, "unit"), reason);
    }
}

/// A unit as records write it.
pub fn unit_name(unit: Unit) -> String {
    serde_json::to_value(unit)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn is(value: &Json, expected: &str) -> bool {
    match (value, expected) {
        (Json::Number(number), "integer") => number.fract() == 0.0,
        (Json::Number(_), "number") => true,
        (value, expected) => value.kind() == expected,
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::Number(number) => format!("{number}"),
        Json::Text(text) => format!("the string `{}`", shortened(text)),
        Json::Null => "null".to_owned(),
        Json::Bool(value) => format!("{value}"),
        other => article(other.kind()),
    }
}

fn article(kind: &str) -> String {
    match kind {
        "integer" => "a whole number".to_owned(),
        "object" | "array" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// `$.a.b`, or `$.a["strange name"]`.
fn member(path: &str, name: &str) -> String {
    let plain = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if plain && !name.is_empty() {
        format!("{path}.{name}")
    } else {
        format!(
            "{path}[{}]",
            serde_json::to_string(&shortened(name)).unwrap_or_default()
        )
    }
}
