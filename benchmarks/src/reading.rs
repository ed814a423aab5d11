//! Reads records from a file, or lists the problems in it.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;

use crate::json;
use crate::judge::{Shape, contradictions, judge};
use crate::problem::{Code, MAX_PROBLEMS, Problem, push_member};
use crate::record::{Record, RecordFile};

/// Largest file that is accepted, in bytes.
pub const MAX_BYTES: u64 = 32 << 20;

/// Contents of a file.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The report that contains the records, if there is one.
    pub file: Option<RecordFile>,
    /// The records.
    pub records: Vec<Record>,
    /// Unknown fields, which were ignored.
    pub notices: Vec<Problem>,
}

/// Why a file was refused.
#[derive(Clone, Debug)]
pub struct ReadError {
    /// Name of the file.
    pub file: String,
    /// The problems; at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.problems.iter();
        if let Some(first) = lines.next() {
            write!(out, "{}: {first}", self.file)?;
        }
        lines.try_for_each(|problem| write!(out, "\n{}: {problem}", self.file))
    }
}

impl std::error::Error for ReadError {}

/// Reads the file at `path`. Checks its size before reading it.
///
/// # Errors
/// [`ReadError`], which names the file, the path in it, and the reason.
pub fn read_file(path: &std::path::Path) -> Result<Contents, ReadError> {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let refuse = |code, reason| reject(&name, code, "$", reason);
    let size = std::fs::metadata(path)
        .map_err(|error| refuse(Code::RECORD_NOT_JSON, error.to_string()))?
        .len();
    if size > MAX_BYTES {
        return Err(refuse(Code::RECORD_TOO_LARGE, too_large(size)));
    }
    let bytes =
        std::fs::read(path).map_err(|error| refuse(Code::RECORD_NOT_JSON, error.to_string()))?;
    read(&name, &bytes)
}

/// Reads the bytes of the file called `name`.
///
/// # Errors
/// [`ReadError`], which names the file, the path in it, and the reason.
pub fn read(name: &str, bytes: &[u8]) -> Result<Contents, ReadError> {
    let refuse = |code, reason| reject(name, code, "$", reason);
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(
            Code::RECORD_TOO_LARGE,
            too_large(bytes.len() as u64),
        ));
    }
    let faulty = |problems| ReadError {
        file: name.to_owned(),
        problems,
    };
    let must_be_empty = |problems: Vec<Problem>| match problems.is_empty() {
        true => Ok(()),
        false => Err(faulty(problems)),
    };
    let value = json::parse(bytes).map_err(faulty)?;
    let shape = match &value {
        Value::Array(_) => Shape::Records,
        value if value.get("records").is_some() => Shape::File,
        _ => Shape::Record,
    };
    must_be_empty(judge(&value, shape))?;
    let internal = |error: serde_json::Error| refuse(Code::RECORD_TYPE, error.to_string());
    let mut notices = Vec::new();
    let (file, records) = match shape {
        Shape::File => {
            let mut file: RecordFile = deserialize(value, &mut notices).map_err(internal)?;
            let records = std::mem::take(&mut file.records);
            (Some(file), records)
        }
        Shape::Records => (None, deserialize(value, &mut notices).map_err(internal)?),
        Shape::Record => (
            None,
            vec![deserialize(value, &mut notices).map_err(internal)?],
        ),
    };
    let problems = records.iter().enumerate().flat_map(|(index, record)| {
        let at = match shape {
            Shape::File => format!("$.records[{index}]"),
            Shape::Records => format!("$[{index}]"),
            Shape::Record => "$".to_owned(),
        };
        contradictions(record, &at)
    });
    must_be_empty(problems.take(MAX_PROBLEMS).collect())?;
    Ok(Contents {
        file,
        records,
        notices,
    })
}

/// Deserializes the value as `T`; unknown fields are ignored and reported.
fn deserialize<T: DeserializeOwned>(
    value: Value,
    notices: &mut Vec<Problem>,
) -> Result<T, serde_json::Error> {
    serde_ignored::deserialize(value, |path| {
        if notices.len() < MAX_PROBLEMS {
            notices.push(Problem {
                code: Code::RECORD_UNKNOWN_FIELD,
                path: format_path(&path),
                reason: "this field is not known and was not read".to_owned(),
            });
        }
    })
}

fn format_path(path: &Path<'_>) -> String {
    match path {
        Path::Root => "$".to_owned(),
        Path::Seq { parent, index } => format!("{}[{index}]", format_path(parent)),
        Path::Map { parent, key } => {
            let mut path = format_path(parent);
            push_member(&mut path, key);
            path
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => format_path(parent),
    }
}

fn reject(file: &str, code: Code, path: &str, reason: String) -> ReadError {
    ReadError {
        file: file.to_owned(),
        problems: vec![Problem::new(code, path, reason)],
    }
}

fn too_large(size: u64) -> String {
    format!(
        "the file has {} MiB, at most {} are read",
        size >> 20,
        MAX_BYTES >> 20
    )
}
