//! The body of an embeddings request, in OpenAI's format. Unknown members are ignored, as by OpenAI's servers, but the answer
//! reports their names.

use std::cell::Cell;
use std::fmt;
use std::str::Utf8Error;

use attestation::JsonInteger;
use protocol::json::JsonText;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::input::Input;
use super::prompt::PromptChoice;

/// The inputs to embed, and the format of the vectors. Other members are ignored, and named in the answer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EmbeddingsRequest {
    /// A name of the model, as `GET /v1/models` lists them.
    pub(super) model: String,
    /// At most 2,048 items.
    pub(super) input: Input,
    /// Format of the vectors; `float` by default.
    #[cfg_attr(test, schemars(rename = "encoding_format", with = "Option<Format>"))]
    pub(super) format: Format,
    /// Keeps the first components of each vector, and normalises it again if the model's vectors have unit length; all components
    /// by default. A whole number in any notation: 384, 384.0 and 3.84e2 are the same.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(super) dimensions: Option<usize>,
    /// Whether a text that is longer than the model reads is truncated (the default) or refused (`INPUT_TOO_LONG`).
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) truncate: bool,
    /// Whether the answer is a stream: lines of JSON (`application/x-ndjson`), one for each input in order, then one about all of
    /// them. Of a request in chunks, lines are sent as they are computed.
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) stream: bool,
    /// Required with token ids: a name of the model whose tokenizer made them (`TOKENIZER_UNNAMED`).
    pub(super) tokenizer: Option<String>,
    /// Which text the model reads before each input.
    #[cfg_attr(test, schemars(flatten))]
    pub(super) prompt: PromptChoice,
    /// Names of members that have no effect here.
    #[cfg_attr(test, schemars(skip))]
    pub(super) ignored: Ignored,
}

/// Format of vectors.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// A list of numbers.
    #[default]
    Float,
    /// Little-endian float32.
    Base64,
    /// All vectors in one binary message, `application/vnd.clearseal.tensors`; not part of OpenAI's API.
    Tensors,
}

/// Names of ignored members, bounded in number and length.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ignored(pub(super) Vec<String>);

impl Ignored {
    /// Most names that one answer reports.
    const MAX_NAMES: usize = 16;
    /// Longest reported name in characters.
    const MAX_LENGTH: usize = 64;

    pub(super) fn push(&mut self, name: &str) {
        if self.0.len() < Self::MAX_NAMES {
            self.0.push(name.chars().take(Self::MAX_LENGTH).collect());
        }
    }
}

/// The body is not an embeddings request.
pub(super) enum InvalidBody {
    /// Not UTF-8.
    Text(Utf8Error),
    /// Not JSON, or JSON of another form.
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
    /// [`InvalidBody`].
    pub(super) fn read(body: &[u8]) -> Result<Self, InvalidBody> {
        let text = JsonText::read(body).map_err(InvalidBody::Text)?;
        let member = Cell::new(None);
        let mut json = serde_json::Deserializer::from_str(&text);
        let request = Members { current: &member }.deserialize(&mut json);
        let whole = request.and_then(|request| json.end().map(|()| request));
        whole.map_err(|error| InvalidBody::Json {
            error,
            member: member.get(),
        })
    }
}

/// Reads the members, and stores the name of the one that is being read.
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
        let (mut prompt_name, mut prompt, mut input_type) = (None, None, None);
        let mut stream: Option<Option<bool>> = None;
        let mut user: Option<Option<String>> = None;
        let mut ignored = Ignored::default();
        while let Some(name) = map.next_key::<String>()? {
            self.current.set(known_name(&name));
            match name.as_str() {
                "model" => read_once(&mut model, "model", &mut map)?,
                "input" => read_once(&mut input, "input", &mut map)?,
                "encoding_format" => read_once(&mut format, "encoding_format", &mut map)?,
                "dimensions" => read_once(&mut dimensions, "dimensions", &mut map)?,
                "truncate" => read_once(&mut truncate, "truncate", &mut map)?,
                "stream" => read_once(&mut stream, "stream", &mut map)?,
                "tokenizer" => read_once(&mut tokenizer, "tokenizer", &mut map)?,
                "prompt_name" => read_once(&mut prompt_name, "prompt_name", &mut map)?,
                "prompt" => read_once(&mut prompt, "prompt", &mut map)?,
                "input_type" => read_once(&mut input_type, "input_type", &mut map)?,
                // OpenAI's clients may send it. It has no effect here.
                "user" => read_once(&mut user, "user", &mut map)?,
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
            stream: stream.flatten().unwrap_or(false),
            tokenizer: tokenizer.flatten(),
            prompt: PromptChoice {
                name: prompt_name.flatten(),
                text: prompt.flatten(),
                input_type: input_type.flatten(),
            },
            ignored,
        };
        Ok(request)
    }
}

/// The static name of a known member: an error must not quote the request.
fn known_name(name: &str) -> Option<&'static str> {
    const KNOWN: [&str; 11] = [
        "model",
        "input",
        "encoding_format",
        "dimensions",
        "truncate",
        "stream",
        "tokenizer",
        "prompt_name",
        "prompt",
        "input_type",
        "user",
    ];
    KNOWN.into_iter().find(|known| *known == name)
}

/// Reads the value of a member that may occur once.
pub(super) fn read_once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
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
    fn dimensions_are_a_whole_number_in_any_notation() {
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
        assert_eq!(ignored.0.len(), Ignored::MAX_NAMES);
        assert!(
            ignored
                .0
                .iter()
                .all(|name| name.chars().count() == Ignored::MAX_LENGTH)
        );
    }

    #[test]
    fn members_occur_once_and_have_their_type() {
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
