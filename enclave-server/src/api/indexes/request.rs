//! Reads requests about indexes. Unlike an embeddings request, one with an unknown member is refused: a filter that is misspelt must
//! not be left out.

use std::fmt;

use attestation::JsonInteger;
use engine::MAX_TEXT_BYTES;
use protocol::json::JsonText;
use sealed_index::{Filter, Head, Metadata, Precision};
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use zeroize::{Zeroize, Zeroizing};

use crate::api::error::ApiError;
use crate::api::input::{MAX_INPUTS, collect_bounded};
use crate::api::prompt::{InputType, PromptChoice};
use crate::api::request::InvalidBody;
use crate::api::request_error::refuse_text;

/// Most dimensions of a vector.
const MAX_DIMENSIONS: usize = 4096;
/// Most queries of one request.
const MAX_QUERIES: usize = 64;
/// Most rows that a query returns.
const MAX_K: usize = 1000;
/// Rows that a query returns by default.
const DEFAULT_K: usize = 10;

/// Settings of a new index.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct CreateIndexRequest {
    /// A name of the model that embeds rows and queries, as `GET /v1/models` lists them.
    pub(super) model: String,
    /// Components of a stored vector; all of the model's by default.
    #[cfg_attr(test, schemars(range(min = 1, max = 4096), with = "Option<usize>"))]
    dimensions: Option<JsonInteger<usize>>,
    /// Form of stored vectors; `f32` by default.
    precision: Option<PrecisionName>,
    /// Name of the model's prompt for rows, and for queries that choose no other.
    prompt_name: Option<String>,
    /// Text of that prompt.
    prompt: Option<String>,
    /// Purpose whose prompt it is.
    input_type: Option<InputType>,
}

impl CreateIndexRequest {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        read(
            body,
            "the settings of an index: `model` is a string; `dimensions` a whole number; `precision` \"f32\", \"f16\" or \"int8\"; `input_type` \"query\" or \
             \"document\"; `prompt_name` and `prompt` strings; no other member",
        )
    }

    pub(super) fn dimensions(&self) -> Option<usize> {
        self.dimensions.as_ref().map(|JsonInteger(number)| *number)
    }

    pub(super) fn precision(&self) -> Precision {
        match self.precision {
            None | Some(PrecisionName::F32) => Precision::F32,
            Some(PrecisionName::F16) => Precision::F16,
            Some(PrecisionName::Int8) => Precision::Int8,
        }
    }

    pub(super) fn take_prompt(&mut self) -> PromptChoice {
        PromptChoice {
            name: self.prompt_name.take(),
            text: self.prompt.take(),
            input_type: self.input_type.take(),
        }
    }
}

/// Form of stored vectors.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PrecisionName {
    F32,
    F16,
    Int8,
}

/// Rows to put and to delete, in one change.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ChangeIndexRequest {
    /// At most 2,048 rows. A row replaces the one of the same id.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<RowRequest>"))]
    pub(super) rows: Bounded<RowRequest>,
    /// Ids of at most 2,048 rows; one that there is not is not an error.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub(super) delete: Bounded<SecretText>,
    /// The newest head that the client knows.
    #[cfg_attr(test, schemars(with = "Option<HeadSchema>"))]
    pub(super) at: Option<Head>,
}

/// A row.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowRequest {
    /// Its name, 1 to 256 bytes.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) id: SecretText,
    /// The text that is embedded and stored.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) text: Option<SecretText>,
    /// The vector that is stored, instead of one that the enclave computes from `text`.
    #[cfg_attr(test, schemars(with = "Option<Vec<f32>>"))]
    pub(super) vector: Option<Vector>,
    /// Strings, numbers and truth values by name: at most 16, and 1 KiB.
    #[cfg_attr(
        test,
        schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>")
    )]
    pub(super) metadata: Option<Metadata>,
}

impl ChangeIndexRequest {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        read(
            body,
            "a change of an index: `rows` is a list of objects with `id`, `text` or `vector`, and `metadata`, a flat object of strings, numbers and truth values; \
             `delete` a list of ids; `at` an object with `version` and `head`; no other member",
        )
    }
}

/// A search.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct QueryIndexRequest {
    /// A text, a vector, or a list of at most 64 of one of them.
    #[cfg_attr(test, schemars(with = "QuerySchema"))]
    pub(super) query: Query,
    /// Number of results, at most 1,000; 10 by default.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<usize>"))]
    k: Option<JsonInteger<usize>>,
    /// Condition on the metadata of rows.
    #[cfg_attr(test, schemars(with = "Option<serde_json::Value>"))]
    pub(super) filter: Option<Filter>,
    /// Scores the best rows again by a model that reads query and text together.
    pub(super) rerank: Option<RerankChoice>,
    /// Parts of results next to id and score.
    #[serde(default)]
    pub(super) include: Include,
    /// Name of the model's prompt for the query; by default it is that of the index.
    prompt_name: Option<String>,
    /// Text of that prompt.
    prompt: Option<String>,
    /// Purpose whose prompt it is.
    input_type: Option<InputType>,
    /// The newest head that the client knows.
    #[cfg_attr(test, schemars(with = "Option<HeadSchema>"))]
    pub(super) at: Option<Head>,
}

/// A model that reranks, and the number of rows that it reads.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RerankChoice {
    /// A name of the model; by default the only one that reranks.
    pub(super) model: Option<String>,
    /// Number of rows, `k` at least and 1,000 at most; four times `k` by default.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000), with = "Option<usize>"))]
    candidates: Option<JsonInteger<usize>>,
}

impl QueryIndexRequest {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let request: Self = read(
            body,
            "a query of an index: `query` is a text, a list of texts, a vector, or a list of vectors; `k` a whole number; `filter` an object with `and`, `or`, \
             `not`, or `field` and a comparison; `rerank` an object with `model` and `candidates`; `include` a list of \"text\", \"metadata\", \"vector\", \"proof\" \
             and \"asked\"; `at` an object with `version` and `head`; no other member but `prompt_name`, `prompt` and `input_type`",
        )?;
        let bounds = 1..=MAX_K;
        if !bounds.contains(&request.k()) {
            return Err(
                ApiError::bad_request("K_INVALID", format!("`k` must be 1 to {MAX_K}")).param("k"),
            );
        }
        if let Some(candidates) = request.candidates()
            && !(request.k()..=MAX_K).contains(&candidates)
        {
            return Err(ApiError::bad_request(
                "CANDIDATES_INVALID",
                format!("`candidates` must be `k` at least, and {MAX_K} at most"),
            )
            .param("rerank"));
        }
        request.query.check()?;
        Ok(request)
    }

    pub(super) fn k(&self) -> usize {
        self.k.as_ref().map_or(DEFAULT_K, |JsonInteger(k)| *k)
    }

    /// Rows to rerank, if any.
    pub(super) fn candidates(&self) -> Option<usize> {
        let rerank = self.rerank.as_ref()?;
        let stated = rerank
            .candidates
            .as_ref()
            .map(|JsonInteger(number)| *number);
        Some(stated.unwrap_or((4 * self.k()).min(MAX_K)))
    }

    /// The chosen prompt, if the request chooses one.
    pub(super) fn take_prompt(&mut self) -> Option<PromptChoice> {
        let choice = PromptChoice {
            name: self.prompt_name.take(),
            text: self.prompt.take(),
            input_type: self.input_type.take(),
        };
        let chooses = choice.name.is_some() || choice.text.is_some() || choice.input_type.is_some();
        chooses.then_some(choice)
    }
}

/// The head that the client knows, for requests without another content.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct AtRequest {
    /// The newest head that the client knows.
    #[cfg_attr(test, schemars(with = "Option<HeadSchema>"))]
    pub(super) at: Option<Head>,
}

impl AtRequest {
    /// Reads a body, which may be empty.
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiError> {
        match body.is_empty() {
            true => Ok(Self::default()),
            false => read(body, "an object with `at`, which has `version` and `head`"),
        }
    }
}

/// The text of a body as it is read: a lone surrogate is replaced.
pub(super) fn read_text(body: &[u8]) -> Result<JsonText<'_>, ApiError> {
    JsonText::read(body).map_err(|error| InvalidBody::Text(error).into())
}

fn read<T: DeserializeOwned>(body: &[u8], form: &str) -> Result<T, ApiError> {
    let text = read_text(body)?;
    serde_json::from_str(&text).map_err(|error| refuse_text(&error, form))
}

/// Parts of results.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(transparent))]
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Include(#[cfg_attr(test, schemars(with = "Vec<Part>"))] Bounded<Part>);

impl Include {
    pub(super) fn has(&self, part: Part) -> bool {
        self.0.0.contains(&part)
    }
}

/// A part of results.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ResultPart"))]
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Part {
    /// Text of the row.
    Text,
    /// Metadata of the row.
    Metadata,
    /// Stored vector of the row.
    Vector,
    /// Proof that the row belongs to the root.
    Proof,
    /// The query, `k` and filter, so that the answer can be disclosed without the request, which holds the key.
    Asked,
}

impl Zeroize for Part {
    fn zeroize(&mut self) {}
}

/// A text; zeroized when dropped.
pub(super) struct SecretText(pub(super) Zeroizing<String>);

impl Zeroize for SecretText {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

impl Zeroize for RowRequest {
    fn zeroize(&mut self) {
        self.id.zeroize();
        self.text.zeroize();
        self.vector.zeroize();
        self.metadata = None;
    }
}

/// At most [`MAX_INPUTS`] items; zeroized where the rest of the list is refused.
pub(super) struct Bounded<T>(pub(super) Vec<T>);

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Zeroize + Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(std::marker::PhantomData<T>);
        impl<'de, T: Zeroize + Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Bounded<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Bounded<T>, A::Error> {
                match items.next_element::<T>()? {
                    None => Ok(Bounded(Vec::new())),
                    Some(first) => {
                        collect_bounded(first, items, MAX_INPUTS, |item: T| item).map(Bounded)
                    }
                }
            }
        }
        deserializer.deserialize_seq(List(std::marker::PhantomData))
    }
}

/// Components of a vector; zeroized when dropped.
pub(super) struct Vector(pub(super) Zeroizing<Vec<f32>>);

impl Zeroize for Vector {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Vector;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vector, A::Error> {
                match items.next_element::<f32>()? {
                    None => Ok(Vector(Zeroizing::default())),
                    Some(first) => read_vector(first, items),
                }
            }
        }
        deserializer.deserialize_seq(List)
    }
}

fn read_vector<'de, A: SeqAccess<'de>>(first: f32, items: A) -> Result<Vector, A::Error> {
    let all = collect_bounded(first, items, MAX_DIMENSIONS, |number: f32| number)?;
    Ok(Vector(Zeroizing::new(all)))
}

/// One query, or several.
pub(super) struct Query {
    pub(super) queries: Queries,
    /// Whether the request has a list of queries, and so the answer a list of lists.
    pub(super) is_list: bool,
}

/// Texts to embed, or vectors.
pub(super) enum Queries {
    Texts(Zeroizing<Vec<String>>),
    Vectors(Vec<Vector>),
}

impl Query {
    fn check(&self) -> Result<(), ApiError> {
        let refuse =
            |code, message: String| Err(ApiError::bad_request(code, message).param("query"));
        let is_empty = match &self.queries {
            Queries::Texts(texts) => texts.is_empty() || texts.iter().any(String::is_empty),
            Queries::Vectors(vectors) => vectors.is_empty(),
        };
        if is_empty {
            return refuse(
                "INPUT_EMPTY",
                "`query` holds nothing to search for; send a text or a vector".to_owned(),
            );
        }
        if let Queries::Texts(texts) = &self.queries
            && texts.iter().any(|text| text.len() > MAX_TEXT_BYTES)
        {
            return refuse(
                "TEXT_TOO_LONG",
                format!(
                    "a text of `query` has more than {MAX_TEXT_BYTES} bytes; send a shorter one"
                ),
            );
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Query;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, texts, a vector, or vectors")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Query, E> {
                Ok(Query {
                    queries: Queries::Texts(Zeroizing::new(vec![text.to_owned()])),
                    is_list: false,
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Query, A::Error> {
                let (queries, is_list) = match items.next_element::<First>()? {
                    None => (Queries::Texts(Zeroizing::default()), true),
                    Some(First::Number(first)) => {
                        (Queries::Vectors(vec![read_vector(first, items)?]), false)
                    }
                    Some(First::Text(first)) => {
                        let texts =
                            collect_bounded(first, items, MAX_QUERIES, |text: String| text)?;
                        (Queries::Texts(Zeroizing::new(texts)), true)
                    }
                    Some(First::Vector(first)) => {
                        let vectors =
                            collect_bounded(first, items, MAX_QUERIES, |vector: Vector| vector)?;
                        (Queries::Vectors(vectors), true)
                    }
                };
                Ok(Query { queries, is_list })
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// The first item of a list.
enum First {
    Text(String),
    Number(f32),
    Vector(Vector),
}

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = First;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, or a list of numbers")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<First, E> {
                Ok(First::Text(text.to_owned()))
            }

            #[expect(clippy::cast_possible_truncation, reason = "vectors have 32 bits")]
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<First, E> {
                Ok(First::Number(number as f32))
            }

            #[expect(clippy::cast_precision_loss, reason = "vectors have 32 bits")]
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<First, E> {
                Ok(First::Number(number as f32))
            }

            #[expect(clippy::cast_precision_loss, reason = "vectors have 32 bits")]
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<First, E> {
                Ok(First::Number(number as f32))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<First, A::Error> {
                match items.next_element::<f32>()? {
                    None => Ok(First::Vector(Vector(Zeroizing::default()))),
                    Some(first) => read_vector(first, items).map(First::Vector),
                }
            }
        }
        deserializer.deserialize_any(Form)
    }
}

/// A head of an index.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "IndexHead")]
#[allow(dead_code, reason = "it only describes the form")]
struct HeadSchema {
    version: u64,
    /// Hash over the version and all before it, in hex.
    head: String,
}

/// A text, texts, a vector, or vectors.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "IndexQuery", untagged)]
#[allow(dead_code, reason = "it only describes the form")]
enum QuerySchema {
    Text(String),
    Texts(Vec<String>),
    Vector(Vec<f32>),
    Vectors(Vec<Vec<f32>>),
}
