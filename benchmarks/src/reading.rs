//! From a file to records, or to the list of what is wrong with it.

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

use crate::json::Json;
use crate::record::{Record, RecordFile};
use crate::schema::{Code, Judge, MAX_DEPTH, Problem};

/// Largest file that is read, in bytes.
pub const MAX_BYTES: u64 = 32 << 20;

/// What a file held.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The report around the records, if there is one.
    pub file: Option<RecordFile>,
    /// The records.
    pub records: Vec<Record>,
    /// Fields that were not understood and not read.
    pub notices: Vec<Problem>,
}

/// Why a file was refused.
#[derive(Clone, Debug)]
pub struct ReadError {
    /// Name of the file.
    pub file: String,
    /// At least one.
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

/// Reads the file at `path`. Its size is looked at before any of it is read.
///
/// # Errors
/// [`ReadError`], which names the file, the path in it, and the reason.
pub fn read_file(path: &Path) -> Result<Contents, ReadError> {
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned();
    let refuse = |code, reason| refused(&name, code, "$", reason);
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
    let refuse = |code, reason| refused(name, code, "$", reason);
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(
            Code::RECORD_TOO_LARGE,
            too_large(bytes.len() as u64),
        ));
    }
    // serde_json stops at 128 levels by itself, before any stack is in danger.
    let json: Json = serde_json::from_slice(bytes).map_err(|error| {
        let deep = error.to_string().starts_with("recursion limit");
        match deep {
            true => refuse(
                Code::RECORD_TOO_DEEP,
                format!("nested more than {MAX_DEPTH} levels deep"),
            ),
            false => refuse(Code::RECORD_NOT_JSON, format!("this is not JSON: {error}")),
        }
    })?;
    let judge = Judge::default();
    let (findings, shape) = match &json {
        Json::List(items) => {
            let mut all = crate::schema::Findings::default();
            for (index, item) in items.iter().enumerate() {
                let one = judge.judge(item, Some("Record"), &format!("$[{index}]"));
                all.problems.extend(one.problems);
                all.notices.extend(one.notices);
                if all.problems.len() >= crate::schema::MAX_PROBLEMS {
                    break;
                }
            }
            (all, Shape::Records)
        }
        json if json.get("records").is_some() => (judge.judge(json, None, "$"), Shape::File),
        json => (judge.judge(json, Some("Record"), "$"), Shape::Record),
    };
    if !findings.problems.is_empty() {
        return Err(ReadError {
            file: name.to_owned(),
            problems: findings.problems,
        });
    }
    let internal = |error: serde_json::Error| refuse(Code::RECORD_TYPE, error.to_string());
    let value = plain(json);
    let (file, records) = match shape {
        Shape::File => {
            let mut file: RecordFile = serde_json::from_value(value).map_err(internal)?;
            let records = std::mem::take(&mut file.records);
            (Some(file), records)
        }
        Shape::Records => (None, serde_json::from_value(value).map_err(internal)?),
        Shape::Record => (None, vec![serde_json::from_value(value).map_err(internal)?]),
    };
    Ok(Contents {
        file,
        records,
        notices: findings.notices,
    })
}

enum Shape {
    File,
    Records,
    Record,
}

fn refused(file: &str, code: Code, path: &str, reason: String) -> ReadError {
    let problem = Problem {
        code,
        path: path.to_owned(),
        reason,
    };
    ReadError {
        file: file.to_owned(),
        problems: vec![problem],
    }
}

fn too_large(size: u64) -> String {
    format!(
        "the file has {} MiB, at most {} are read",
        size >> 20,
        MAX_BYTES >> 20
    )
}

/// The same as serde's own value. Whole numbers become integers again, for some fields are counts.
#[allow(
    clippy::cast_possible_truncation,
    reason = "bounded by 2^53, where floats are still exact"
)]
fn plain(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number)
            if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 =>
        {
            Value::from(number as i64)
        }
        Json::Number(number) => Value::from(number),
        Json::Text(text) => Value::String(text),
        Json::List(items) => Value::Array(items.into_iter().map(plain).collect()),
        Json::Object(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(name, value)| (name, plain(value)))
                .collect::<Map<_, _>>(),
        ),
    }
}
