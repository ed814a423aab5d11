//! Reads a rerank request.

use attestation::JsonInteger;
use engine::{MAX_TEXT_BYTES, Pairs};
use protocol::json::JsonText;
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use crate::api::error::ApiError;
use crate::api::input::{MAX_INPUTS, collect_bounded};
use crate::api::request::{Ignored, InvalidBody, read_once};
use crate::api::request_error::refuse_text;

/// Most bytes of the query, counted once for each document: as many as of documents in the largest request.
const MAX_QUERY_BYTES: usize = 4 << 20;

/// A query, and the documents to score for it. Other members are ignored, and named in the answer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::api) struct RerankRequest {
    /// A name of a model that reranks, as `GET /v1/models` lists them.
    pub(super) model: String,
    #[cfg_attr(test, schemars(flatten, with = "PairsSchema"))]
    pub(super) pairs: Pairs,
    /// Number of results, the best ones; all by default.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub(super) top_n: Option<usize>,
    /// Whether results hold their documents; `false` by default.
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) return_documents: bool,
    /// Whether a pair that is longer than the model reads is truncated (the default) or refused (`INPUT_TOO_LONG`).
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    pub(super) truncate: bool,
    /// Names of members that have no effect here.
    #[cfg_attr(test, schemars(skip))]
    pub(super) ignored: Ignored,
}

impl RerankRequest {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let text = JsonText::read(body);
        let text = text.map_err(|error| ApiError::from(InvalidBody::Text(error)))?;
        serde_json::from_str(&text).map_err(|error| refuse_text(&error, FORM))
    }

    /// Refuses a request without a text to score.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let empty = |member: &'static str| {
            let message = format!("`{member}` holds nothing to score; send a text");
            Err(ApiError::bad_request("INPUT_EMPTY", message).param(member))
        };
        let Pairs { query, documents } = &self.pairs;
        if query.is_empty() {
            return empty("query");
        }
        if documents.is_empty() || documents.iter().any(String::is_empty) {
            return empty("documents");
        }
        if query.len() > MAX_TEXT_BYTES {
            return Err(ApiError::bad_request(
                "TEXT_TOO_LONG",
                format!(
                    "`query` has {} bytes; at most {MAX_TEXT_BYTES} are taken",
                    query.len()
                ),
            )
            .param("query"));
        }
        if query.len().saturating_mul(documents.len()) > MAX_QUERY_BYTES {
            return Err(ApiError::bad_request(
                "TOO_MANY_INPUTS",
                format!(
                    "the query is read once for each document, and that may be {MAX_QUERY_BYTES} bytes in one request; send fewer documents, or a \
                     shorter query"
                ),
            )
            .param("documents"));
        }
        if self.top_n == Some(0) {
            return Err(ApiError::bad_request(
                "TOP_N_INVALID",
                "`top_n` must be 1 or more; leave it out for all",
            )
            .param("top_n"));
        }
        Ok(())
    }
}

const FORM: &str = "a rerank request: `model` and `query` are strings; `documents` a list of strings, or of objects with `text`; `top_n` a whole number; \
     `return_documents` and `truncate` true or false; each at most once";

/// The members of [`Pairs`].
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "it only describes the form")]
struct PairsSchema {
    /// The text that documents are scored for.
    #[schemars(length(min = 1))]
    query: String,
    /// At most 2,048 texts, or objects with the member `text`.
    #[schemars(length(min = 1, max = 2048))]
    documents: Vec<DocumentSchema>,
}

/// A text, or an object that holds one.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "Document", untagged)]
#[allow(dead_code, reason = "it only describes the form")]
enum DocumentSchema {
    Text(String),
    Object { text: String },
}

/// A text; zeroized when dropped.
struct Query(Zeroizing<String>);

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

/// At most [`MAX_INPUTS`] texts; zeroized when dropped.
struct Documents(Zeroizing<Vec<String>>);

impl<'de> Deserialize<'de> for Documents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Documents;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of documents")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Documents, A::Error> {
                let all = match items.next_element()? {
                    None => Vec::new(),
                    Some(Document(first)) => {
                        collect_bounded(first, items, MAX_INPUTS, |Document(text)| text)?
                    }
                };
                Ok(Documents(Zeroizing::new(all)))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// A text, or an object with the member `text`. Serde's untagged enums buffer an object's other members, and a copy of the text.
struct Document(String);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrObject;
        impl<'de> Visitor<'de> for TextOrObject {
            type Value = Document;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string, or an object with `text`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Document, E> {
                Ok(Document(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut text = None;
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "text" => read_once(&mut text, "text", &mut map)?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                let text = text.ok_or_else(|| de::Error::missing_field("text"))?;
                Ok(Document(text))
            }
        }
        deserializer.deserialize_any(TextOrObject)
    }
}

impl<'de> Deserialize<'de> for RerankRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RerankRequest;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a rerank request")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut model = None;
                let mut query: Option<Query> = None;
                let mut documents: Option<Documents> = None;
                let mut top_n: Option<Option<JsonInteger<usize>>> = None;
                let mut return_documents: Option<Option<bool>> = None;
                let mut truncate: Option<Option<bool>> = None;
                let mut user: Option<Option<String>> = None;
                let mut ignored = Ignored::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "model" => read_once(&mut model, "model", &mut map)?,
                        "query" => read_once(&mut query, "query", &mut map)?,
                        "documents" => read_once(&mut documents, "documents", &mut map)?,
                        "top_n" => read_once(&mut top_n, "top_n", &mut map)?,
                        "return_documents" => {
                            read_once(&mut return_documents, "return_documents", &mut map)?;
                        }
                        "truncate" => read_once(&mut truncate, "truncate", &mut map)?,
                        "user" => read_once(&mut user, "user", &mut map)?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            ignored.push(&name);
                        }
                    }
                }
                let model = model.ok_or_else(|| de::Error::missing_field("model"))?;
                let Query(mut query) = query.ok_or_else(|| de::Error::missing_field("query"))?;
                let documents = documents.ok_or_else(|| de::Error::missing_field("documents"));
                let Documents(mut documents) = documents?;
                Ok(RerankRequest {
                    model,
                    pairs: Pairs {
                        query: std::mem::take(&mut query),
                        documents: std::mem::take(&mut documents),
                    },
                    top_n: top_n.flatten().map(|JsonInteger(number)| number),
                    return_documents: return_documents.flatten().unwrap_or(false),
                    truncate: truncate.flatten().unwrap_or(true),
                    ignored,
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<RerankRequest, ApiError> {
        let request = RerankRequest::read(json.as_bytes())?;
        request.check().map(|()| request)
    }

    #[test]
    fn documents_are_texts_or_objects_that_hold_one() {
        let request = read(
            r#"{"priority":1,"model":"m","query":"q","documents":["a",{"text":"b","id":7}],"top_n":1.0,"return_documents":null}"#,
        )
        .unwrap();
        assert_eq!(request.pairs.documents, ["a", "b"]);
        assert_eq!(request.ignored.0, ["priority"]);
        assert_eq!((request.top_n, request.return_documents), (Some(1), false));
        assert!(request.truncate);
    }

    #[test]
    fn other_requests_are_refused_without_a_quotation() {
        for (json, code) in [
            (
                r#"{"model":"m","query":"SECRET","documents":[]}"#,
                "INPUT_EMPTY",
            ),
            (
                r#"{"model":"m","query":"","documents":["SECRET"]}"#,
                "INPUT_EMPTY",
            ),
            (
                r#"{"model":"m","query":"SECRET","documents":["a",""]}"#,
                "INPUT_EMPTY",
            ),
            (
                r#"{"model":"m","query":"q","documents":["SECRET"],"top_n":0}"#,
                "TOP_N_INVALID",
            ),
            (
                r#"{"model":"m","query":"q","documents":"SECRET"}"#,
                "REQUEST_INVALID",
            ),
            (
                r#"{"model":"m","query":"q","query":"SECRET","documents":["a"]}"#,
                "REQUEST_INVALID",
            ),
            (r#"{"model":"m","documents":["SECRET"]}"#, "REQUEST_INVALID"),
            (r#"{"model":"m","query":"SECRET"#, "JSON_INVALID"),
        ] {
            let error = read(json).err().unwrap();
            assert_eq!((error.status.as_u16(), error.code), (400, code), "{json}");
            assert!(!error.message.contains("SECRET"), "{}", error.message);
        }
    }

    #[test]
    fn a_query_is_not_read_for_ever() {
        let query = "q".repeat(64 * 1024);
        let ask = |query: &str, documents: usize| {
            let documents = vec!["a"; documents];
            let body = serde_json::json!({"model": "m", "query": query, "documents": documents});
            read(&body.to_string()).map_err(|error| (error.code, error.param))
        };
        assert!(ask(&query, 64).is_ok());
        let refused = |outcome: Result<RerankRequest, _>| outcome.err().unwrap();
        assert_eq!(
            refused(ask(&query, 65)),
            ("TOO_MANY_INPUTS", Some("documents"))
        );
        assert_eq!(refused(ask("q", 2049)), ("TOO_MANY_INPUTS", None));
        assert_eq!(
            refused(ask(&format!("{query}q"), 1)),
            ("TEXT_TOO_LONG", Some("query"))
        );
    }
}
