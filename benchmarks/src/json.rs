//! Parses JSON and reports duplicate names in an object, which a map would silently drop.

use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::problem::{Code, MAX_PROBLEMS, Problem, push_member};

/// Deepest nesting that is read. Records need eight levels.
pub const MAX_DEPTH: usize = 32;

/// Parses `bytes` (RFC 8259). Whole numbers become integers, however they are written, because some fields are counts.
///
/// # Errors
/// A problem if it is not JSON or is nested too deeply; up to [`MAX_PROBLEMS`] for duplicate names.
pub fn parse(bytes: &[u8]) -> Result<Value, Vec<Problem>> {
    let mut reader = Reader {
        path: "$".to_owned(),
        depth: 0,
        duplicates: Vec::new(),
    };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = reader
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    match value {
        Ok(value) if reader.duplicates.is_empty() => Ok(value),
        Ok(_) => Err(reader.duplicates),
        Err(_) if reader.depth > MAX_DEPTH => Err(vec![Problem::new(
            Code::RECORD_TOO_DEEP,
            "$",
            format!("nested more than {MAX_DEPTH} levels deep"),
        )]),
        Err(error) => Err(vec![Problem::new(
            Code::RECORD_NOT_JSON,
            "$",
            format!("this is not JSON: {error}"),
        )]),
    }
}

struct Reader {
    /// Path of the value that is being read.
    path: String,
    depth: usize,
    duplicates: Vec<Problem>,
}

impl Reader {
    /// Extends the path by one level; returns the length to restore.
    fn enter<E: Error>(&mut self) -> Result<usize, E> {
        self.depth += 1;
        match self.depth {
            ..=MAX_DEPTH => Ok(self.path.len()),
            _ => Err(E::custom("nested too deeply")),
        }
    }

    fn leave(&mut self, length: usize) {
        self.depth -= 1;
        self.path.truncate(length);
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reader {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Reader {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // Up to 2^53 floats are exact.
        let whole = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
        Ok(match whole {
            true => Value::from(value as i64),
            false => Value::from(value),
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let length = self.enter()?;
        let mut items = Vec::new();
        loop {
            self.path.truncate(length);
            let _ = write!(self.path, "[{}]", items.len());
            let Some(item) = list.next_element_seed(&mut *self)? else {
                break;
            };
            items.push(item);
        }
        self.leave(length);
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let length = self.enter()?;
        let mut entries = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            self.path.truncate(length);
            push_member(&mut self.path, &name);
            let value = map.next_value_seed(&mut *self)?;
            if entries.insert(name, value).is_some() && self.duplicates.len() < MAX_PROBLEMS {
                self.duplicates.push(Problem::new(
                    Code::RECORD_DUPLICATE_KEY,
                    &self.path,
                    "this name occurs twice".to_owned(),
                ));
            }
        }
        self.leave(length);
        Ok(Value::Object(entries))
    }
}
