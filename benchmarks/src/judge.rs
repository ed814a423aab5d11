//! Validates a file against the [schema](crate::schema) and against rules that a schema cannot express. The page does the same
//! (`web/src/features/benchmarks/check.ts`); both must agree on `tests/malformed.json`.

use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

use crate::catalogue::{self, Dimension};
use crate::problem::{Code, MAX_PROBLEMS, Problem, push_member};
use crate::record::{Measurement, Record, Statistics};
use crate::schema::{name_of, schema};

/// The expected type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A [`RecordFile`](crate::record::RecordFile).
    File,
    /// A list of records.
    Records,
    /// One [`Record`].
    Record,
}

struct Validators {
    file: Validator,
    record: Validator,
}

#[allow(
    clippy::expect_used,
    reason = "the schema is ours, and every test that reads a record compiles it"
)]
static VALIDATORS: LazyLock<Validators> = LazyLock::new(|| {
    let file = schema().to_value();
    let record =
        json!({ "$schema": file["$schema"], "$ref": "#/$defs/Record", "$defs": file["$defs"] });
    let compiled = |schema| jsonschema::validator_for(schema).expect("the schema compiles");
    Validators {
        file: compiled(&file),
        record: compiled(&record),
    }
});

/// Validates `value` against the schema; returns the first problem of the file, or the first of each record.
pub(crate) fn judge(value: &Value, shape: Shape) -> Vec<Problem> {
    let Validators { file, record } = &*VALIDATORS;
    match shape {
        Shape::File => {
            let own = first(file, value, "$");
            let in_records = own
                .iter()
                .any(|problem| problem.path.starts_with("$.records["));
            match in_records {
                true => each_first(record, &value["records"], "$.records"),
                false => own.into_iter().collect(),
            }
        }
        Shape::Record => first(record, value, "$").into_iter().collect(),
        Shape::Records => each_first(record, value, "$"),
    }
}

fn each_first(record: &Validator, records: &Value, at: &str) -> Vec<Problem> {
    let records = records.as_array().into_iter().flatten().enumerate();
    records
        .filter_map(|(index, item)| first(record, item, &format!("{at}[{index}]")))
        .take(MAX_PROBLEMS)
        .collect()
}

/// Only the first: a hostile file can have as many problems as bytes.
fn first(validator: &Validator, value: &Value, at: &str) -> Option<Problem> {
    let error = validator.validate(value).err()?;
    Some(problem(&error, at))
}

fn problem(error: &ValidationError<'_>, at: &str) -> Problem {
    let mut path = format_path(at, error.instance_path());
    let code = match error.kind() {
        Kind::AdditionalProperties { unexpected } => {
            push_member(&mut path, unexpected.first().map_or("", String::as_str));
            let reason = "there is no such field".to_owned();
            return Problem::new(Code::RECORD_UNKNOWN_FIELD, &path, reason);
        }
        Kind::Required { property } => {
            push_member(&mut path, property.as_str().unwrap_or_default());
            Code::RECORD_MISSING_FIELD
        }
        Kind::Type { .. } => Code::RECORD_TYPE,
        Kind::MaxItems { .. }
        | Kind::MinItems { .. }
        | Kind::MaxLength { .. }
        | Kind::MinLength { .. }
        | Kind::MaxProperties { .. } => Code::RECORD_LENGTH,
        _ => Code::RECORD_VALUE,
    };
    // The value itself is left out, because it may be as long as the file.
    Problem::new(code, &path, error.masked().to_string())
}

fn format_path(at: &str, location: &Location) -> String {
    let mut path = at.to_owned();
    for segment in location {
        match segment {
            LocationSegment::Property(name) => push_member(&mut path, &name),
            LocationSegment::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// Returns the problems of `record` at path `at` that a schema cannot express.
pub(crate) fn contradictions(record: &Record, at: &str) -> Vec<Problem> {
    let latency = record
        .inference
        .as_ref()
        .and_then(|inference| inference.latency_ms.as_ref());
    let mut found: Vec<Problem> = latency
        .and_then(|latency| order(latency, &format!("{at}.inference.latency_ms")))
        .into_iter()
        .collect();
    for (index, measurement) in record.measurements.iter().enumerate() {
        let here = format!("{at}.measurements[{index}]");
        found.extend(order(
            &measurement.statistics,
            &format!("{here}.statistics"),
        ));
        found.extend(unit(measurement, &here));
    }
    found
}

/// Percentiles must not decrease.
fn order(statistics: &Statistics, at: &str) -> Option<Problem> {
    let given: Vec<(&str, f64)> = ["min", "p50", "p95", "p99", "max"]
        .into_iter()
        .filter_map(|name| Some((name, statistics.get(name)?)))
        .collect();
    given.windows(2).find_map(|pair| match pair {
        [(before, least), (name, value)] if value < least => Some(Problem::new(
            Code::RECORD_ORDER,
            &format!("{at}.{name}"),
            format!("{value} is less than {before}, which is {least}"),
        )),
        _ => None,
    })
}

/// Numbers need a unit, and the unit must fit the subject.
fn unit(measurement: &Measurement, at: &str) -> Option<Problem> {
    let refuse = |reason| {
        Some(Problem::new(
            Code::RECORD_UNIT,
            &format!("{at}.unit"),
            reason,
        ))
    };
    let Some(unit) = measurement.unit else {
        return match measurement.statistics.is_empty() {
            true => None,
            false => refuse("numbers need a unit".to_owned()),
        };
    };
    let subject = catalogue::find(&measurement.subject)?;
    let dimension = unit.scale().0;
    if subject.dimension == Dimension::Any || dimension == subject.dimension {
        return None;
    }
    refuse(format!(
        "`{}` is a unit of {}, but {} is measured in one of {}",
        name_of(unit),
        name_of(dimension),
        subject.name,
        name_of(subject.dimension),
    ))
}
