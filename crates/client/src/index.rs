//! Private indexes: an enclave embeds, stores and searches rows under a key that only the client keeps.

mod heads;
mod seen;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use protocol::bundle::AuditBundle;
use sealed_index::{Head, IndexKey, RowProof, Statement};
use serde::{Deserialize, Serialize};
use serde_json::value::Value;

use crate::client::Client;
use crate::error::Error;
use crate::message::{Answer, parse_service_error};
use seen::Seen;

pub use heads::{Heads, HeadsError};

/// Field with the key of the index.
pub(crate) const KEY_FIELD: &str = "clearseal-index-key";

/// An index of a service, its key, and the newest head that was seen of it.
///
/// Each request states that head, and the enclave refuses an index that does not continue it: a host that shows an older one is found
/// out (`INDEX_ROLLED_BACK`), and so is one that shows another history (`INDEX_FORKED`).
pub struct PrivateIndex {
    client: Client,
    key: IndexKey,
    seen: Seen,
}

/// Settings of a new index.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IndexSettings {
    /// Name of the model [default: the attested one].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Numbers of a stored vector [default: all of the model's].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<u32>,
    /// `f32`, `f16` or `int8` [default: `f32`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Name of the model's prompt for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
}

/// A row to write: with a text that the enclave embeds, or with a vector.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexRow {
    /// Name of the row.
    pub id: String,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector: Option<Vec<f32>>,
    /// Small values to filter by: an object of strings, numbers and truth values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// A query.
#[derive(Clone, Default, Serialize)]
pub struct IndexQuery {
    /// A text, texts, a vector, or vectors.
    pub query: Value,
    /// Number of results.
    pub k: u32,
    /// Condition on the metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Value>,
    /// Model and number of rows to score again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank: Option<Value>,
    /// Parts of results: `text`, `metadata`, `vector`, `proof`; and `asked`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<&'static str>,
    /// Name of the model's prompt for the query [default: that of the index].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
}

/// The answer to a change.
pub struct IndexChange {
    /// The index after the change.
    pub statement: Statement,
    /// Rows that were put.
    pub put: u64,
    /// Rows that were there and were deleted.
    pub deleted: u64,
    /// The complete answer, which contains the receipt.
    pub answer: Answer,
}

/// The answer to a query.
pub struct IndexAnswer {
    /// The index that was searched.
    pub statement: Statement,
    /// The best rows for each query, the best first.
    pub results: Vec<Vec<IndexHit>>,
    /// The complete answer, which contains the receipt.
    pub answer: Answer,
}

/// A row that was found.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexHit {
    /// Name of the row.
    pub id: String,
    /// The higher, the better.
    pub score: f32,
    /// Score of the search, if the rows were scored again.
    pub similarity: Option<f32>,
    /// Text of the row.
    pub text: Option<String>,
    /// Metadata of the row.
    pub metadata: Option<Value>,
    /// Stored vector of the row.
    pub vector: Option<Vec<f32>>,
    /// Proof that the row is in the index.
    pub proof: Option<RowProof>,
}

/// Description of an index by its service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexDescription {
    #[serde(rename = "clearseal")]
    wrapped: Wrapped,
    /// Stored segments.
    #[serde(default)]
    pub segments: u64,
    /// Bytes of memory in the enclave.
    #[serde(default)]
    pub memory: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Wrapped {
    index: Statement,
}

impl IndexDescription {
    /// The index.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.wrapped.index
    }
}

impl PrivateIndex {
    /// The index of `key`. Without `heads`, this value alone remembers the newest head.
    #[must_use]
    pub fn new(client: Client, key: IndexKey, heads: Option<Heads>) -> Self {
        let seen = Seen::new(key.id(), heads);
        Self { client, key, seen }
    }

    /// The newest head that was seen.
    #[must_use]
    pub fn head(&self) -> Option<Head> {
        self.seen.newest()
    }

    /// Creates the index.
    ///
    /// # Errors
    /// [`Error::Service`] with `INDEX_EXISTS`, and the errors of [`fetch`](Client::fetch).
    pub async fn create(&self, mut settings: IndexSettings) -> Result<Statement, Error> {
        if settings.model.is_none() {
            let session = self.client.connect().await?;
            settings.model = Some(session.manifest().model.id.clone());
        }
        let body = serde_json::to_vec(&settings).map_err(|_| Error::RequestInvalid)?;
        let at = self.head();
        let answer = self
            .ask(Method::POST, "/v1/indexes".to_owned(), body)
            .await?;
        let description: IndexDescription = parse(&answer)?;
        self.seen.accept(at.as_ref(), description.statement())?;
        Ok(description.wrapped.index)
    }

    /// Puts and deletes rows in one change, which is stored when this returns. A row replaces the one of the same id, so a change whose
    /// answer was lost may be repeated.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn change(&self, rows: &[IndexRow], delete: &[String]) -> Result<IndexChange, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            rows: &'a [IndexRow],
            delete: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            at: Option<Head>,
        }
        #[derive(Deserialize)]
        struct Changed {
            clearseal: Wrapped,
            put: u64,
            deleted: u64,
        }
        let at = self.head();
        let body = serde_json::to_vec(&Body { rows, delete, at });
        let body = body.map_err(|_| Error::RequestInvalid)?;
        let answer = self.ask(Method::POST, self.path("/rows"), body).await?;
        let changed: Changed = parse(&answer)?;
        self.seen.accept(at.as_ref(), &changed.clearseal.index)?;
        Ok(IndexChange {
            statement: changed.clearseal.index,
            put: changed.put,
            deleted: changed.deleted,
            answer,
        })
    }

    /// Searches.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn query(&self, query: &IndexQuery) -> Result<IndexAnswer, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            #[serde(flatten)]
            query: &'a IndexQuery,
            #[serde(skip_serializing_if = "Option::is_none")]
            at: Option<Head>,
        }
        #[derive(Deserialize)]
        struct Found {
            clearseal: Wrapped,
            results: Value,
        }
        let at = self.head();
        let body = serde_json::to_vec(&Body { query, at });
        let body = body.map_err(|_| Error::RequestInvalid)?;
        let answer = self.ask(Method::POST, self.path("/query"), body).await?;
        let found: Found = parse(&answer)?;
        self.seen.accept(at.as_ref(), &found.clearseal.index)?;
        // A list of queries has a list of results for each of them.
        let is_list = found.results.get(0).is_some_and(Value::is_array);
        let results = match is_list {
            true => serde_json::from_value(found.results),
            false => serde_json::from_value(found.results).map(|only| vec![only]),
        };
        Ok(IndexAnswer {
            statement: found.clearseal.index,
            results: results.map_err(|_| Error::IndexAnswerInvalid)?,
            answer,
        })
    }

    /// Describes the index.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn describe(&self) -> Result<IndexDescription, Error> {
        self.ask_description(Method::GET, "").await
    }

    /// Rewrites the stored segments without rows that were replaced or deleted.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn compact(&self) -> Result<IndexDescription, Error> {
        self.ask_description(Method::POST, "/compact").await
    }

    /// Deletes the stored objects of the index, and forgets its head; returns how many there were.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn delete(&self) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Deleted {
            objects: u64,
        }
        let answer = self.ask(Method::DELETE, self.path(""), Vec::new()).await?;
        let Deleted { objects } = parse(&answer)?;
        self.seen.forget()?;
        Ok(objects)
    }

    fn path(&self, below: &str) -> String {
        format!("/v1/indexes/{}{below}", self.key.id())
    }

    async fn ask_description(
        &self,
        method: Method,
        below: &str,
    ) -> Result<IndexDescription, Error> {
        let at = self.head();
        let body = match at {
            None => Vec::new(),
            Some(head) => serde_json::to_vec(&serde_json::json!({ "at": head }))
                .map_err(|_| Error::RequestInvalid)?,
        };
        let answer = self.ask(method, self.path(below), body).await?;
        let description: IndexDescription = parse(&answer)?;
        self.seen.accept(at.as_ref(), description.statement())?;
        Ok(description)
    }

    async fn ask(&self, method: Method, path: String, body: Vec<u8>) -> Result<Answer, Error> {
        // Zeroized when its last owner drops it.
        let key = Bytes::from_owner(self.key.to_base64url());
        let mut key = HeaderValue::from_maybe_shared(key).map_err(|_| Error::RequestInvalid)?;
        key.set_sensitive(true);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(KEY_FIELD, key)
            .body(Bytes::from(body))
            .map_err(|_| Error::RequestInvalid)?;
        let answer = self.client.fetch(request).await?;
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(parse_service_error(&answer)),
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(answer: &Answer) -> Result<T, Error> {
    serde_json::from_slice(answer.content()).map_err(|_| Error::IndexAnswerInvalid)
}

impl IndexAnswer {
    /// Returns receipt, evidence and salt, which prove the answer's content to an auditor. The request is not part of it, because it
    /// holds the key of the index. `None` if there is no receipt.
    #[must_use]
    pub fn bundle(&self) -> Option<AuditBundle> {
        let bundle = self.answer.bundle(false)?;
        bundle.with_salt_of(self.answer.inner_request())
    }
}

#[cfg(test)]
mod tests {
    use super::IndexRow;

    #[test]
    fn numbers_of_metadata_are_read_exactly() {
        // An inexact parser reads its neighbour, and the row's proof would be refused.
        let number = 94.527_069_555_392_23_f64;
        let line = format!(r#"{{"id": "a", "metadata": {{"number": {number}}}}}"#);
        let row: IndexRow = serde_json::from_str(&line).unwrap();
        let read = row.metadata.unwrap()["number"].as_f64().unwrap();
        assert_eq!(read.to_bits(), number.to_bits());
    }
}
