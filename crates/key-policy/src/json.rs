//! JSON without repeated names. `serde_json` keeps the last of two equal names; AWS does not document which one IAM uses.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

pub(crate) enum Json {
    Text(String),
    Other,
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Strict)
    }
}

struct Strict;

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    // IAM reads `"true"` and `true` alike, and numbers as texts too.
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map: Vec<(String, Json)> = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, Json>()? {
            // IAM ignores case in the names of elements and condition keys.
            if map
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(&name))
            {
                return Err(A::Error::custom(format!("{name:?} is repeated")));
            }
            map.push((name, value));
        }
        Ok(Json::Map(map))
    }
}
