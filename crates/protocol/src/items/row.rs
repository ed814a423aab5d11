//! A row of an index: one vector, and its input.

use std::fmt::{self, Formatter};

use attestation::{JsonInteger, Policy, SignatureMemory, Verdict, integer_from_f64};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};

use super::proof::{Evidence, ItemsError, VectorProof, refuse_row};
use super::{Input, TokenUsage};
use crate::bundle::BundleReport;

/// Longest row as JSON, in bytes: 64 KiB of text, and some thousand numbers.
pub const MAX_ROW: usize = 4 << 20;

/// One vector in the format of `clearseal embed`, a JSON object on a line: `embedding`, and either the `text` or the token ids (`tokens`)
/// that it was computed from; `tokens` as a number, and `truncated`, state how much of the text was read. No `Debug`: it holds
/// the user's content.
pub struct VectorRow {
    source: Source,
    tokens: Option<u64>,
    truncated: Option<bool>,
    embedding: Vec<f32>,
}

enum Source {
    Text(String),
    Tokens(Vec<u32>),
}

impl Evidence {
    /// [`verify`](Self::verify) for a row of an index. The row's other statements about its text must agree with the proof;
    /// otherwise its receipt is refused with `ROW_DIFFERS`.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify).
    pub fn verify_row(
        &self,
        proof: &VectorProof,
        row: &VectorRow,
        policy: &Policy,
        memory: &mut SignatureMemory,
    ) -> Result<BundleReport, ItemsError> {
        let mut report = self.verify(proof, row.input(), row.embedding(), policy, memory)?;
        if report.receipt.verdict != Verdict::Refused && !row.agrees_with(proof.read) {
            report.receipt = refuse_row(proof.read);
        }
        Ok(report)
    }
}

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    tokens: Option<Numbers>,
    #[serde(default)]
    truncated: Option<bool>,
    embedding: Vec<f32>,
}

/// A count if the row has a text; otherwise the ids.
enum Numbers {
    Count(u64),
    Ids(TokenIds),
}

/// Token ids, each an integer in any JSON notation: table tools turn integers into doubles.
pub(super) struct TokenIds(pub(super) Vec<u32>);

impl TokenIds {
    fn read<'de, A: SeqAccess<'de>>(mut items: A) -> Result<Self, A::Error> {
        let mut ids = Vec::new();
        while let Some(JsonInteger(id)) = items.next_element()? {
            ids.push(id);
        }
        Ok(Self(ids))
    }
}

// Written by hand: an untagged enum would first copy arbitrary JSON, and every page would load that code.
impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Numbers;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("a count or token ids")
            }

            fn visit_u64<E>(self, count: u64) -> Result<Numbers, E> {
                Ok(Numbers::Count(count))
            }

            fn visit_f64<E: Error>(self, count: f64) -> Result<Numbers, E> {
                let refused = || E::invalid_value(Unexpected::Float(count), &self);
                integer_from_f64(count)
                    .map(Numbers::Count)
                    .ok_or_else(refused)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Numbers, A::Error> {
                TokenIds::read(items).map(Numbers::Ids)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for TokenIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = TokenIds;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("token ids")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<TokenIds, A::Error> {
                TokenIds::read(items)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Text without the byte order mark that an editor may have written.
pub(super) fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

impl VectorRow {
    /// Reads one row.
    ///
    /// # Errors
    /// [`ItemsError::Row`], also for more than [`MAX_ROW`] bytes.
    pub fn from_json(json: &str) -> Result<Self, ItemsError> {
        if json.len() > MAX_ROW {
            return Err(ItemsError::Row);
        }
        let json: Json = serde_json::from_str(strip_bom(json)).map_err(|_| ItemsError::Row)?;
        let (source, tokens) = match (json.text, json.tokens) {
            (Some(text), Some(Numbers::Count(count))) => (Source::Text(text), Some(count)),
            (Some(text), None) => (Source::Text(text), None),
            (None, Some(Numbers::Ids(ids))) => (Source::Tokens(ids.0), None),
            // With both a text and ids, the input of the vector would be ambiguous.
            (Some(_), Some(Numbers::Ids(_))) | (None, _) => return Err(ItemsError::Row),
        };
        Ok(Self {
            source,
            tokens,
            truncated: json.truncated,
            embedding: json.embedding,
        })
    }

    /// The stated input of the vector.
    pub fn input(&self) -> Input<'_> {
        match &self.source {
            Source::Text(text) => Input::Text(text),
            Source::Tokens(ids) => Input::Tokens(ids),
        }
    }

    /// The vector.
    pub fn embedding(&self) -> &[f32] {
        &self.embedding
    }

    /// Whether the row's statements about its text are true. Absent statements agree.
    fn agrees_with(&self, read: TokenUsage) -> bool {
        self.tokens
            .is_none_or(|count| count == u64::from(read.tokens))
            && self.truncated.is_none_or(|cut| cut == read.truncated)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_row_is_a_vector_and_what_it_was_computed_from() {
        let read = |tokens, truncated| TokenUsage { tokens, truncated };
        let row = VectorRow::from_json(
            r#"{"text":"a","tokens":3,"truncated":false,"embedding":[0.5],"more":1}"#,
        )
        .unwrap();
        assert!(matches!(row.input(), Input::Text("a")));
        assert_eq!(row.embedding(), [0.5]);
        assert!(row.agrees_with(read(3, false)));
        assert!(!row.agrees_with(read(4, false)));
        assert!(!row.agrees_with(read(3, true)));

        let row = VectorRow::from_json(r#"{"tokens":[7,8],"embedding":[]}"#).unwrap();
        assert!(matches!(row.input(), Input::Tokens([7, 8])));
        assert!(row.agrees_with(read(4, true)));

        let row = VectorRow::from_json(
            "\u{feff}{\"text\":\"a\",\"tokens\":3.0,\"truncated\":false,\"embedding\":[1]}",
        )
        .unwrap();
        assert!(row.agrees_with(read(3, false)) && !row.agrees_with(read(4, false)));
        let row = VectorRow::from_json(r#"{"tokens":[7.0,8e0],"embedding":[]}"#).unwrap();
        assert!(matches!(row.input(), Input::Tokens([7, 8])));

        for other in [
            r#"{"text":"a","tokens":3.5,"embedding":[1]}"#,
            r#"{"tokens":[7.5],"embedding":[1]}"#,
            r#"{"tokens":[-7],"embedding":[1]}"#,
            r#"{"tokens":[4294967296],"embedding":[1]}"#,
            "",
            "[]",
            "{}",
            r#"{"text":"a"}"#,
            r#"{"embedding":[1]}"#,
            r#"{"tokens":3,"embedding":[1]}"#,
            r#"{"text":1,"embedding":[1]}"#,
            r#"{"text":"a","tokens":[7,8],"embedding":[1]}"#,
            r#"{"text":"a","tokens":[],"embedding":[1]}"#,
        ] {
            assert!(VectorRow::from_json(other).is_err(), "{other}");
        }
        let of = |length: usize| {
            let around = r#"{"text":"","embedding":[1]}"#.len();
            let text = "a".repeat(length - around);
            VectorRow::from_json(&format!(r#"{{"text":"{text}","embedding":[1]}}"#))
        };
        assert!(of(MAX_ROW).is_ok());
        assert!(of(MAX_ROW + 1).is_err());
    }
}
