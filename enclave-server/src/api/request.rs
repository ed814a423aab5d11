//! Body of an embeddings request, in OpenAI's shape. Members that are not known are ignored, as OpenAI's servers do, but their
//! names are kept for the answer to report.

use std::cell::Cell;
use std::fmt;
use std::str::Utf8Error;

use attestation::JsonInteger;
use protocol::json::JsonText;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::input::Input;

/// What is to be embedded, and how vectors are written. Members that are not listed are ignored, and named in the answer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EmbeddingsRequest {
    /// A name of the model, as `GET /v1/models` lists them.
    pub(super) model: String,
    /// At most 2,048 items.
    pub(super) input: Input,
    /// How vectors are written: `float` unless told otherwise.
    #[cfg_attr(test, schemars(rename = "encoding_format", with = "Option<Format>"))]
    pub(super) format: Format,
    /// Keeps the first components of each vector, and makes it unit length again; all of them unless told otherwise. A whole number,
    /// however it is written: 384, 384.0 and 3.84e2 are the same.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(super) dimensions: Option<usize>,
    /// Whether a text that is longer than the model reads is cut, or refused (`INPUT_TOO_LONG`); cut unless told otherwise.
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) truncate: bool,
    /// Required beside token ids: a name of the model whose tokenizer made them (`TOKENIZER_UNNAMED`).
    pub(super) tokenizer: Option<String>,
    /// Names of members that mean nothing here.
    #[cfg_attr(test, schemars(skip))]
    pub(super) ignored: Ignored,
}

/// How vectors are written.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// A list of numbers.
    #[default]
    Float,
    /// Little-endian float32.
    Base64,
    /// All of them in one binary message, `application/vnd.clearseal.tensors`; not of OpenAI's.
    Tensors,
}

/// Names of ignored members: the first of them, each up to a length.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ignored(pub(super) Vec<String>);

impl Ignored {
    /// Longest that one answer reports.
    const MOST: usize = 16;
    const LONGEST: usize = 64;

    fn push(&mut self, name: &str) {
        if self.0.len() < Self::MOST {
            self.0.push(name.chars().take(Self::LONGEST).collect());
        }
    }
}

/// Why a body is not an embeddings request.
pub(super) enum Unreadable {
    /// Not UTF-8.
    Text(Utf8Error),
    /// Not JSON, or other JSON.
    Json {
        error: serde_json::Error,
        /// The member at which reading ended.
        member: Option<&'static str>,
    },
}

impl EmbeddingsRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub(super) fn read(body: &[u8]) -> Result<Self, Unreadable> {
        let text = JsonText::read(body).map_err(Unreadable::Text)?;
        let member = Cell::new(None);
        let mut json = serde_json::Deserializer::from_str(&text);
        let request = Members { current: &member }.deserialize(&mut json);
        let whole = request.and_then(|request| json.end().map(|()| request));
        whole.map_err(|error| Unreadable::Json {
            error,
            member: member.get(),
        })
    }
}

/// Reads the members, and notes the one that is being read.
struct Members<'a> {
    current: &'a Cell<Option<&'static str>>,
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = EmbeddingsRequest;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = EmbeddingsRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an embeddings request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut model, mut input, mut format) = (None, None, None);
        let (mut dimensions, mut truncate, mut tokenizer) = (None, None, None);
        let mut user: Option<Option<String>> = None;
        let mut ignored = Ignored::default();
        while let Some(name) = map.next_key::<String>()? {
            self.current.set(known(&name));
            match name.as_str() {
                "model" => once(&mut model, "model", &mut map)?,
                "input" => once(&mut input, "input", &mut map)?,
                "encoding_format" => once(&mut format, "encoding_format", &mut map)?,
                "dimensions" => once(&mut dimensions, "dimensions", &mut map)?,
                "truncate" => once(&mut truncate, "truncate", &mut map)?,
                "tokenizer" => once(&mut tokenizer, "tokenizer", &mut map)?,
                // OpenAI's clients may send it; nothing here tells users apart.
                "user" => once(&mut user, "user", &mut map)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    ignored.push(&name);
                }
            }
            self.current.set(None);
        }
        let required = |name: &'static str| -> A::Error {
            self.current.set(Some(name));
            de::Error::missing_field(name)
        };
        let request = EmbeddingsRequest {
            model: model.ok_or_else(|| required("model"))?,
            input: input.ok_or_else(|| required("input"))?,
            format: format.flatten().unwrap_or_default(),
            dimensions: dimensions.flatten().map(|JsonInteger(number)| number),
            truncate: truncate.flatten().unwrap_or(true),
            tokenizer: tokenizer.flatten(),
            ignored,
        };
        Ok(request)
    }
}

/// The name of a member as this program writes it: an error quotes nothing of the request.
fn known(name: &str) -> Option<&'static str> {
    const KNOWN: [&str; 7] = [
        "model",
        "input",
        "encoding_format",
        "dimensions",
        "truncate",
        "tokenizer",
        "user",
    ];
    KNOWN.into_iter().find(|known| *known == name)
}

/// Reads the value of a member that may be there once.
fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.replace(map.next_value()?).is_some() {
        return Err(de::Error::duplicate_field(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Option<EmbeddingsRequest> {
        EmbeddingsRequest::read(json.as_bytes()).ok()
    }

    #[test]
    fn unknown_members_are_ignored_and_named() {
        let request = parse(
            r#"{"priority":1,"model":"m","input":"x","extra_body":{"a":[1]},"dimensions":null,"encoding_format":null}"#,
        )
        .unwrap();
        assert_eq!(request.ignored.0, ["priority", "extra_body"]);
        assert_eq!(
            (request.format, request.dimensions, request.truncate),
            (Format::Float, None, true)
        );
        assert!(
            !parse(r#"{"model":"m","input":"x","truncate":false}"#)
                .unwrap()
                .truncate
        );
    }

    #[test]
    fn dimensions_are_a_whole_number_however_it_is_written() {
        let dimensions = |text: &str| {
            let json = format!(r#"{{"model":"m","input":"x","dimensions":{text}}}"#);
            parse(&json).map(|request| request.dimensions)
        };
        for text in ["384", "384.0", "3.84e2", "3840E-1"] {
            assert_eq!(dimensions(text), Some(Some(384)), "{text}");
        }
        assert_eq!(dimensions("null"), Some(None));
        for text in ["384.5", "1e400", "-1", "-384.0", "NaN", "\"384\"", "[384]"] {
            assert_eq!(dimensions(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_ignored_members_are_bounded() {
        let many: String = (0..100)
            .map(|number| format!("\"{}{number}\":0,", "é".repeat(200)))
            .collect();
        let ignored = parse(&format!("{{{many}\"model\":\"m\",\"input\":\"x\"}}"))
            .unwrap()
            .ignored;
        assert_eq!(ignored.0.len(), Ignored::MOST);
        assert!(
            ignored
                .0
                .iter()
                .all(|name| name.chars().count() == Ignored::LONGEST)
        );
    }

    #[test]
    fn members_come_once_and_have_their_type() {
        for bad in [
            r#"{"model":"m","model":"m","input":"x"}"#,
            r#"{"model":"m","input":"x","user":"a","user":"b"}"#,
            r#"{"model":"m"}"#,
            r#"{"input":"x"}"#,
            r#"{"model":1,"input":"x"}"#,
            r#"{"model":"m","input":"x","truncate":"no"}"#,
            r#"{"model":"m","input":"x","user":7}"#,
            "[]",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
