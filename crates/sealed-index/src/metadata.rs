//! Small typed values of a row, kept in the one form in which they are hashed.
//!
//! ```text
//! metadata = number of members (1) ‖ members, names rising bytewise
//! member   = length of the name (1) ‖ name ‖ 0 ‖ length (2) ‖ text, UTF-8
//!                                          ‖ 1 ‖ number, IEEE 754 binary64 (8)
//!                                          ‖ 2 ‖ 0 or 1
//! ```

use std::cmp::Ordering;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::codec::{Reader, malformed, put_short};
use crate::error::IndexError;

/// Most bytes of a row's metadata in their encoded form.
pub const MAX_METADATA: usize = 1024;
/// Most members.
const MAX_MEMBERS: usize = 16;
/// Longest name of a member in bytes.
const MAX_NAME: usize = 64;
/// The largest integer below which every integer is a binary64.
const EXACT: u64 = 1 << 53;

const TEXT: u8 = 0;
const NUMBER: u8 = 1;
const FLAG: u8 = 2;

/// A value of the metadata, or one that a filter compares with.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(Zeroizing<String>),
    /// A finite number; −0 is 0.
    Number(f64),
    /// True or false.
    Flag(bool),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true or false")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Zeroizing::new(text.to_owned())))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        match number {
            0..=EXACT => Ok(Value::Number(number as f64)),
            _ => Err(E::custom(
                "an integer above 2^53 would be rounded; send it as text",
            )),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        match number.unsigned_abs() {
            0..=EXACT => Ok(Value::Number(number as f64)),
            _ => Err(E::custom(
                "an integer below -2^53 would be rounded; send it as text",
            )),
        }
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        match number.is_finite() {
            // Adding 0 turns −0 into 0.
            true => Ok(Value::Number(number + 0.0)),
            false => Err(E::custom("a number is not finite")),
        }
    }
}

/// Metadata of a row: at most 16 members of text, numbers or flags, at most [`MAX_METADATA`] bytes. Zeroized when dropped.
///
/// As JSON it is an object. A repeated member, an integer that would be rounded, and nested values are refused.
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata(Zeroizing<Vec<u8>>);

impl Default for Metadata {
    fn default() -> Self {
        Self(Zeroizing::new(vec![0]))
    }
}

impl Metadata {
    /// The encoded form.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        Members::new(&self.0).next().is_none()
    }

    pub(crate) fn as_ref(&self) -> MetadataRef<'_> {
        MetadataRef(&self.0)
    }

    fn from_members(mut members: Vec<(Zeroizing<String>, Value)>) -> Result<Self, &'static str> {
        members.sort_by(|a, b| a.0.cmp(&b.0));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err("a member is there twice");
        }
        if members.len() > MAX_MEMBERS {
            return Err("more than 16 members");
        }
        // No memory is left behind with a part of it.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_METADATA));
        bytes.push(members.len() as u8);
        for (name, value) in &members {
            if name.is_empty() || name.len() > MAX_NAME {
                return Err("the name of a member has no or more than 64 bytes");
            }
            let length = match value {
                Value::Text(text) => text.len(),
                Value::Number(_) => 8,
                Value::Flag(_) => 1,
            };
            if bytes.len() + 1 + name.len() + 3 + length > MAX_METADATA {
                return Err("more than 1024 bytes");
            }
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            match value {
                Value::Text(text) => {
                    bytes.push(TEXT);
                    put_short(&mut bytes, text.as_bytes());
                }
                Value::Number(number) => {
                    bytes.push(NUMBER);
                    bytes.extend(number.to_be_bytes());
                }
                Value::Flag(flag) => bytes.extend([FLAG, (*flag).into()]),
            }
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts, numbers and flags")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
        let mut members: Vec<(Zeroizing<String>, Value)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.len() == MAX_MEMBERS {
                return Err(de::Error::custom("more than 16 members"));
            }
            members.push((Zeroizing::new(name), map.next_value()?));
        }
        Metadata::from_members(members).map_err(de::Error::custom)
    }
}

/// Metadata inside a stored row; the bytes were [checked](MetadataRef::read).
#[derive(Clone, Copy)]
pub(crate) struct MetadataRef<'a>(&'a [u8]);

impl<'a> MetadataRef<'a> {
    /// Refuses every form that [`Metadata`] does not have.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, IndexError> {
        let mut reader = Reader(bytes);
        let count = reader.u8()?;
        let mut last: &[u8] = &[];
        for _ in 0..count {
            let length = reader.u8()?;
            let name = reader.take(length.into())?;
            if name <= last || name.len() > MAX_NAME || str::from_utf8(name).is_err() {
                return malformed("a name of metadata");
            }
            last = name;
            let is_valid = match reader.u8()? {
                TEXT => reader.short_text().is_ok(),
                NUMBER => f64::from_be_bytes(reader.array()?).is_finite(),
                FLAG => reader.u8()? <= 1,
                _ => false,
            };
            if !is_valid {
                return malformed("a value of metadata");
            }
        }
        reader.end()?;
        match usize::from(count) <= MAX_MEMBERS && bytes.len() <= MAX_METADATA {
            true => Ok(Self(bytes)),
            false => malformed("metadata"),
        }
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn to_owned(self) -> Metadata {
        Metadata(Zeroizing::new(self.0.to_vec()))
    }

    /// How the member `name` compares with `value`; `None` if there is no such member, or one of another type.
    pub(crate) fn compare(self, name: &str, value: &Value) -> Option<Ordering> {
        let mut members = Members::new(self.0);
        let (_, found) = members.find(|(found, _)| *found == name)?;
        match (found, value) {
            (Member::Text(a), Value::Text(b)) => Some(a.cmp(b.as_str())),
            (Member::Number(a), Value::Number(b)) => a.partial_cmp(b),
            (Member::Flag(a), Value::Flag(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

impl Serialize for MetadataRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, member) in Members::new(self.0) {
            match member {
                Member::Text(text) => map.serialize_entry(name, text)?,
                Member::Number(number) => map.serialize_entry(name, &number)?,
                Member::Flag(flag) => map.serialize_entry(name, &flag)?,
            }
        }
        map.end()
    }
}

enum Member<'a> {
    Text(&'a str),
    Number(f64),
    Flag(bool),
}

/// Members of an encoded form that was checked.
struct Members<'a> {
    reader: Reader<'a>,
}

impl<'a> Members<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            reader: Reader(bytes.get(1..).unwrap_or_default()),
        }
    }

    fn read(&mut self) -> Result<(&'a str, Member<'a>), IndexError> {
        let length = self.reader.u8()?;
        let name = self.reader.take(length.into())?;
        let name = str::from_utf8(name).or_else(|_| malformed("a name"))?;
        let member = match self.reader.u8()? {
            TEXT => Member::Text(self.reader.short_text()?),
            NUMBER => Member::Number(f64::from_be_bytes(self.reader.array()?)),
            _ => Member::Flag(self.reader.u8()? == 1),
        };
        Ok((name, member))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Member<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.read().ok()
    }
}
