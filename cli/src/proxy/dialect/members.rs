//! Members of a vendor's request, by the table of its form.

use std::fmt;

use bytes::Bytes;
use protocol::json::JsonText;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Form;
use crate::proxy::refusal::Refusal;

/// A member that a request may have.
pub(in crate::proxy) struct Member {
    name: &'static str,
    is_required: bool,
    rule: Rule,
}

pub(super) const fn required(name: &'static str, rule: Rule) -> Member {
    Member {
        name,
        is_required: true,
        rule,
    }
}

/// Null means that the member is absent.
pub(super) const fn optional(name: &'static str, rule: Rule) -> Member {
    Member {
        name,
        is_required: false,
        rule,
    }
}

/// The meaning of a member, and its accepted values.
pub(super) enum Rule {
    Model,
    /// Ollama's names may end with the tag `:latest`, the default.
    ModelTag,
    /// One text.
    Text,
    /// A list of texts.
    List,
    /// One text, or a list of them.
    Texts,
    /// Whether a text that is too long is truncated at its end.
    Truncate,
    /// The same, in Cohere's words.
    TruncateEnd,
    Dimensions,
    /// One of these strings, which change nothing.
    Only(&'static [&'static str]),
    OnlyTrue,
    /// Cohere's purpose of the texts.
    Purpose,
    PromptName,
    /// A list of one kind of vectors.
    OnlyFloats,
    /// An object in which nothing is set: the model has no options.
    NoOptions,
    /// Any time except none: the model is always loaded.
    KeepLoaded,
}

impl Rule {
    /// Describes the accepted values.
    fn describe(&self) -> String {
        let text = match self {
            Self::Model | Self::ModelTag | Self::Text => "a string",
            Self::List => "a list of strings",
            Self::Texts => "a string or a list of strings",
            Self::Truncate => "true or false",
            Self::TruncateEnd => r#""END" or "NONE""#,
            Self::Dimensions => "a number",
            Self::Only(values) => {
                let quoted: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
                return quoted.join(" or ");
            }
            Self::OnlyTrue => "true",
            Self::Purpose => {
                r#""search_document", "search_query", "classification" or "clustering""#
            }
            Self::PromptName => "the name of one of the model's prompts",
            Self::OnlyFloats => r#"["float"]"#,
            Self::NoOptions => "empty (a model in an enclave has no options)",
            Self::KeepLoaded => "a time other than 0 (the model is always loaded)",
        };
        text.to_owned()
    }

    /// Applies a value; `None` if it is not accepted.
    fn apply(&self, value: Value, asked: &mut Asked) -> Option<()> {
        match (self, value) {
            (Self::Model, Value::String(name)) => asked.model = Some(name),
            (Self::ModelTag, Value::String(name)) => {
                let model = name.strip_suffix(":latest").unwrap_or(&name).to_owned();
                (asked.model, asked.name) = (Some(model), name);
            }
            (Self::Text | Self::Texts, Value::String(text)) => asked.texts = vec![text],
            (Self::List | Self::Texts, Value::Array(items)) => {
                let texts = items.into_iter().map(|item| match item {
                    Value::String(text) => Some(text),
                    _ => None,
                });
                asked.texts = texts.collect::<Option<_>>()?;
            }
            (Self::Truncate, Value::Bool(truncate)) => asked.truncate = Some(truncate),
            (Self::TruncateEnd, Value::String(side)) => match side.as_str() {
                "END" => asked.truncate = Some(true),
                "NONE" => asked.truncate = Some(false),
                _ => return None,
            },
            (Self::Dimensions, value @ Value::Number(_)) => asked.dimensions = Some(value),
            (Self::Only(values), Value::String(text)) if values.contains(&&*text) => {}
            (Self::OnlyTrue, Value::Bool(true)) => {}
            (Self::Purpose, Value::String(purpose)) => {
                asked.prompt = Some(match purpose.as_str() {
                    "search_document" => Prompt::InputType("document"),
                    "search_query" => Prompt::InputType("query"),
                    "classification" => Prompt::ForPurpose("classification"),
                    "clustering" => Prompt::ForPurpose("clustering"),
                    _ => return None,
                });
            }
            (Self::PromptName, Value::String(name)) => asked.prompt = Some(Prompt::Named(name)),
            (Self::OnlyFloats, Value::Array(kinds)) if kinds == ["float"] => {
                asked.names_type = true;
            }
            (Self::NoOptions, Value::Object(options)) if options.values().all(Value::is_null) => {}
            (Self::KeepLoaded, Value::Number(time)) if time.as_f64() != Some(0.0) => {}
            (Self::KeepLoaded, Value::String(time)) => {
                // Go's durations: `0`, `0s`, `0m0s`. All others have another digit.
                let is_long = |byte: u8| (b'1'..=b'9').contains(&byte);
                time.bytes().any(is_long).then_some(())?;
            }
            _ => return None,
        }
        Some(())
    }
}

/// The prompt that a request chooses.
enum Prompt {
    /// The inner request has the same purpose.
    InputType(&'static str),
    /// The prompt has the name of the purpose.
    ForPurpose(&'static str),
    Named(String),
}

/// A request for embeddings, in no vendor's form.
#[derive(Default)]
pub(in crate::proxy) struct Asked {
    /// Name for the enclave; `None` if the form has none.
    pub(in crate::proxy) model: Option<String>,
    /// The model's name as it came, where it differs.
    pub(super) name: String,
    pub(in crate::proxy) texts: Vec<String>,
    pub(in crate::proxy) truncate: Option<bool>,
    dimensions: Option<Value>,
    prompt: Option<Prompt>,
    /// The request names the kind of vectors.
    pub(super) names_type: bool,
}

impl Asked {
    /// Reads a body.
    pub(in crate::proxy) fn read(form: &Form, body: &[u8]) -> Result<Self, Refusal> {
        let invalid = |reason: String| {
            let message =
                format!("the body is not valid JSON: {reason}; send JSON in UTF-8, not compressed");
            Refusal::of_body("JSON_INVALID", message)
        };
        let text = JsonText::read(body);
        let text = text.map_err(|error| {
            invalid(format!(
                "it is not UTF-8 text from byte {} on",
                error.valid_up_to()
            ))
        })?;
        let Members(members) =
            serde_json::from_str(&text).map_err(|error| match error.is_data() {
                true => Refusal::of_body(
                    "REQUEST_INVALID",
                    "the body is not one JSON object with each member once; send one".to_owned(),
                ),
                // The parser's messages for these are fixed.
                false => invalid(error.to_string()),
            })?;
        let mut asked = Self::default();
        let mut found = Vec::new();
        for (name, value) in members {
            let member = form.members.iter().find(|member| member.name == name);
            let member = member.ok_or_else(|| refuse_unknown(form))?;
            if value.is_null() && !member.is_required {
                continue;
            }
            let applied = member.rule.apply(value, &mut asked);
            applied.ok_or_else(|| refuse_value(member))?;
            found.push(member.name);
        }
        let is_missing = |member: &&Member| member.is_required && !found.contains(&member.name);
        match form.members.iter().find(is_missing) {
            Some(member) => Err(refuse_value(member)),
            None => Ok(asked),
        }
    }

    pub(in crate::proxy) fn chooses_prompt(&self) -> bool {
        self.prompt.is_some()
    }

    /// Removes the choice of a prompt, for a model without any. A purpose then has no effect on the vectors.
    ///
    /// # Errors
    /// The request names a prompt.
    pub(in crate::proxy) fn drop_purpose(&mut self) -> Result<(), Refusal> {
        match self.prompt.take() {
            Some(Prompt::Named(_)) => Err(Refusal::PROMPT.param("prompt_name")),
            _ => Ok(()),
        }
    }

    /// Places of the empty texts.
    pub(in crate::proxy) fn empty_places(&self) -> Vec<usize> {
        let texts = self.texts.iter().enumerate();
        let empty = texts.filter(|(_, text)| text.is_empty());
        empty.map(|(place, _)| place).collect()
    }

    /// Writes the body of the sealed request, without the texts at `skipped`. Base64 is the smallest form that is JSON.
    pub(in crate::proxy) fn sealed_body(
        &self,
        model: &str,
        skipped: &[usize],
    ) -> Result<Bytes, Refusal> {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            input: Vec<&'a str>,
            encoding_format: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            truncate: Option<bool>,
            #[serde(skip_serializing_if = "Option::is_none")]
            dimensions: &'a Option<Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            input_type: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            prompt_name: Option<&'a str>,
        }
        let (input_type, prompt_name) = match &self.prompt {
            None => (None, None),
            Some(Prompt::InputType(purpose)) => (Some(*purpose), None),
            Some(Prompt::ForPurpose(name)) => (None, Some(*name)),
            Some(Prompt::Named(name)) => (None, Some(&**name)),
        };
        let texts = self.texts.iter().enumerate();
        let kept = texts.filter(|(place, _)| skipped.binary_search(place).is_err());
        let body = Body {
            model,
            input: kept.map(|(_, text)| text.as_str()).collect(),
            encoding_format: "base64",
            truncate: self.truncate,
            dimensions: &self.dimensions,
            input_type,
            prompt_name,
        };
        let body = serde_json::to_vec(&body).map_err(|_| Refusal::BROKEN)?;
        Ok(body.into())
    }
}

fn refuse_value(member: &Member) -> Refusal {
    let Member { name, rule, .. } = member;
    let verb = if member.is_required {
        "is required, and"
    } else {
        ""
    };
    let verb = format!("`{name}` {verb} must be {}", rule.describe()).replace("  ", " ");
    let rest = if member.is_required {
        ""
    } else {
        ", or left out"
    };
    Refusal::of_body(
        "MEMBER_REFUSED",
        format!("{verb}{rest}; other values cannot be obeyed here"),
    )
    .param(name)
}

/// Quotes nothing of the request.
fn refuse_unknown(form: &Form) -> Refusal {
    let names: Vec<_> = form.members.iter().map(|member| member.name).collect();
    let names = names.join("`, `");
    Refusal::of_body(
        "MEMBER_UNKNOWN",
        format!("the request has a member that cannot be obeyed here; send only `{names}`"),
    )
}

/// Members in their order, each once.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    // Few names are known, and the first unknown one ends the reading.
                    if members.len() == MAX_MEMBERS || members.iter().any(|(seen, _)| *seen == name)
                    {
                        return Err(de::Error::custom("a member twice, or too many"));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// More than any form has.
const MAX_MEMBERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::{COHERE_EMBED, OLLAMA_EMBED, OLLAMA_EMBEDDINGS, TEI_EMBED};
    use super::*;
    use crate::proxy::dialect::Dialect;
    use http::StatusCode;

    fn sealed(form: &Form, body: &str) -> Result<String, String> {
        let refused = |refusal: Refusal| format!("{refusal:?}");
        let asked = Asked::read(form, body.as_bytes()).map_err(refused)?;
        let model = asked.model.clone().unwrap_or_else(|| "attested".to_owned());
        let body = asked.sealed_body(&model, &[]).map_err(refused)?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn every_form_becomes_the_one_sealed_request() {
        for (form, body, expected) in [
            (
                &OLLAMA_EMBED,
                r#"{"model":"m:latest","input":["a","b"],"truncate":false,"dimensions":256,"options":{"num_ctx":null},"keep_alive":"5m"}"#,
                r#"{"model":"m","input":["a","b"],"encoding_format":"base64","truncate":false,"dimensions":256}"#,
            ),
            (
                &OLLAMA_EMBED,
                r#"{"model":"m:7b","input":"a","keep_alive":-1,"options":null}"#,
                r#"{"model":"m:7b","input":["a"],"encoding_format":"base64"}"#,
            ),
            (
                &OLLAMA_EMBEDDINGS,
                r#"{"model":"m","prompt":"a","options":{}}"#,
                r#"{"model":"m","input":["a"],"encoding_format":"base64"}"#,
            ),
            (
                &TEI_EMBED,
                r#"{"inputs":"a","normalize":true,"truncate":true,"truncation_direction":"Right","dimensions":null}"#,
                r#"{"model":"attested","input":["a"],"encoding_format":"base64","truncate":true}"#,
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":["\ud83d"],"input_type":"search_query","embedding_types":["float"],"truncate":"NONE","output_dimension":3.84e2}"#,
                "{\"model\":\"m\",\"input\":[\"\u{fffd}\"],\"encoding_format\":\"base64\",\"truncate\":false,\"dimensions\":384.0,\"input_type\":\"query\"}",
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":["a"],"input_type":"clustering"}"#,
                r#"{"model":"m","input":["a"],"encoding_format":"base64","prompt_name":"clustering"}"#,
            ),
            (
                &TEI_EMBED,
                r#"{"inputs":"a","prompt_name":"query"}"#,
                r#"{"model":"attested","input":["a"],"encoding_format":"base64","prompt_name":"query"}"#,
            ),
        ] {
            assert_eq!(sealed(form, body).as_deref(), Ok(expected), "{body}");
        }
    }

    #[test]
    fn a_model_without_prompts_takes_a_purpose_and_no_name_of_a_prompt() {
        let body = br#"{"model":"m","texts":["a"],"input_type":"search_query"}"#;
        let mut asked = Asked::read(&COHERE_EMBED, body).unwrap();
        assert!(asked.chooses_prompt() && asked.drop_purpose().is_ok());
        let sealed = asked.sealed_body("m", &[]).unwrap();
        assert_eq!(
            sealed,
            r#"{"model":"m","input":["a"],"encoding_format":"base64"}"#
        );
        let body = br#"{"inputs":"a","prompt_name":"query"}"#;
        let mut asked = Asked::read(&TEI_EMBED, body).unwrap();
        assert!(asked.chooses_prompt() && asked.drop_purpose().is_err());
    }

    #[test]
    fn members_that_cannot_be_obeyed_are_refused_by_name() {
        for (form, body, code, name) in [
            (&OLLAMA_EMBED, r#"{"input":"a"}"#, "MEMBER_REFUSED", "model"),
            (
                &OLLAMA_EMBED,
                r#"{"model":"m","input":[1]}"#,
                "MEMBER_REFUSED",
                "input",
            ),
            (
                &OLLAMA_EMBED,
                r#"{"model":"m","input":"a","options":{"num_ctx":9}}"#,
                "MEMBER_REFUSED",
                "options",
            ),
            (
                &OLLAMA_EMBED,
                r#"{"model":"m","input":"a","keep_alive":0}"#,
                "MEMBER_REFUSED",
                "keep_alive",
            ),
            (
                &OLLAMA_EMBED,
                r#"{"model":"m","input":"a","keep_alive":"0s"}"#,
                "MEMBER_REFUSED",
                "keep_alive",
            ),
            (
                &OLLAMA_EMBEDDINGS,
                r#"{"model":"m","prompt":["a"]}"#,
                "MEMBER_REFUSED",
                "prompt",
            ),
            (
                &TEI_EMBED,
                r#"{"inputs":"a","normalize":false}"#,
                "MEMBER_REFUSED",
                "normalize",
            ),
            (
                &TEI_EMBED,
                r#"{"inputs":"a","truncation_direction":"Left"}"#,
                "MEMBER_REFUSED",
                "truncation_direction",
            ),
            (
                &TEI_EMBED,
                r#"{"inputs":"a","prompt":"query"}"#,
                "MEMBER_UNKNOWN",
                "prompt_name",
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":["a"],"input_type":"image"}"#,
                "MEMBER_REFUSED",
                "input_type",
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":["a"]}"#,
                "MEMBER_REFUSED",
                "input_type",
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":"a","input_type":"clustering"}"#,
                "MEMBER_REFUSED",
                "texts",
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":["a"],"input_type":"clustering","embedding_types":["float","int8"]}"#,
                "MEMBER_REFUSED",
                "embedding_types",
            ),
            (
                &COHERE_EMBED,
                r#"{"model":"m","texts":["a"],"input_type":"clustering","truncate":"START"}"#,
                "MEMBER_REFUSED",
                "truncate",
            ),
            (
                &TEI_EMBED,
                r#"{"inputs":"a","inputs":"b"}"#,
                "REQUEST_INVALID",
                "once",
            ),
            (&TEI_EMBED, "[]", "REQUEST_INVALID", "object"),
            (&TEI_EMBED, "{", "JSON_INVALID", "EOF"),
        ] {
            let refusal = Asked::read(form, body.as_bytes()).err().unwrap();
            let printed = format!("{refusal:?}");
            assert!(
                printed.contains(code) && printed.contains(name),
                "{body}: {printed}"
            );
            let secret = body
                .replace("\"a\"", "\"SECRET\"")
                .replace("[1]", "[\"SECRET\",1]");
            if let Err(refusal) = Asked::read(form, secret.as_bytes()) {
                let printed = format!("{refusal:?}");
                assert!(!printed.contains("SECRET"), "{printed}");
            }
        }
    }

    #[test]
    fn each_vendor_reads_its_own_form_of_errors() {
        let error = |dialect: Dialect| {
            dialect
                .error(StatusCode::TOO_MANY_REQUESTS, "PROXY_BUSY", "busy", None)
                .to_string()
        };
        assert_eq!(error(Dialect::Ollama), r#"{"error":"busy (PROXY_BUSY)"}"#);
        assert_eq!(
            error(Dialect::Tei),
            r#"{"error":"busy (PROXY_BUSY)","error_type":"Overloaded"}"#
        );
        assert_eq!(error(Dialect::Cohere), r#"{"message":"busy (PROXY_BUSY)"}"#);
        assert!(error(Dialect::Azure).contains(r#""code":"PROXY_BUSY""#));
    }
}
