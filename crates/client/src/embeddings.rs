//! Embeddings without JSON in between.

use base64ct::{Base64, Encoding};
use http::{Method, Request, header};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::message::Answer;

/// Vectors, in the order of their texts, and the answer that they came in.
pub struct Embeddings {
    /// One for each text.
    pub items: Vec<Embedding>,
    /// The whole answer, for its receipt.
    pub answer: Answer,
}

/// One vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Unit length.
    pub vector: Vec<f32>,
    /// Tokens of the text that the model read.
    pub tokens: u64,
    /// The text is longer than what the model reads; the rest was left out.
    pub truncated: bool,
}

impl Client {
    /// Embeds `texts` in one sealed request, with the attested model.
    ///
    /// # Errors
    /// As [`fetch`](Client::fetch), and [`Error::Service`] where the enclave refuses.
    pub async fn embed(&self, texts: &[String]) -> Result<Embeddings, Error> {
        let session = self.connect().await?;
        let body = serde_json::to_vec(&Body {
            model: &session.manifest().model.id,
            input: texts,
            encoding_format: "base64",
        });
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1/embeddings")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.map_err(|_| Error::RequestInvalid)?.into())
            .map_err(|_| Error::RequestInvalid)?;
        let answer = self.fetch(request).await?;
        let items = items(&answer, texts.len())?;
        Ok(Embeddings { items, answer })
    }
}

fn items(answer: &Answer, expected: usize) -> Result<Vec<Embedding>, Error> {
    let status = answer.status();
    if !status.is_success() {
        return Err(refusal(answer));
    }
    let list: List = serde_json::from_slice(answer.content()).map_err(|_| Error::AnswerInvalid)?;
    if list.data.len() != expected {
        return Err(Error::AnswerInvalid);
    }
    let items = list.data.into_iter().map(|item| {
        Ok(Embedding {
            vector: floats(&item.embedding).ok_or(Error::AnswerInvalid)?,
            tokens: item.clearseal.tokens,
            truncated: item.clearseal.truncated,
        })
    });
    items.collect()
}

/// What the enclave refused, under the seal.
pub(crate) fn refusal(answer: &Answer) -> Error {
    match serde_json::from_slice::<Failure>(answer.content()) {
        Ok(Failure { error }) => Error::Service {
            status: answer.status().as_u16(),
            code: error.code.unwrap_or_else(|| "SERVICE_REFUSED".to_owned()),
            message: error.message,
            param: error.param,
        },
        Err(_) => Error::AnswerInvalid,
    }
}

/// Little-endian float32 values, as OpenAI's `base64` format has them.
fn floats(base64: &str) -> Option<Vec<f32>> {
    let bytes = Base64::decode_vec(base64).ok()?;
    let (values, rest) = bytes.as_chunks::<4>();
    let values = values.iter().map(|value| f32::from_le_bytes(*value));
    rest.is_empty().then(|| values.collect())
}

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    pub(crate) model: &'a str,
    pub(crate) input: &'a [String],
    pub(crate) encoding_format: &'static str,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    embedding: String,
    #[serde(default)]
    clearseal: Extension,
}

#[derive(Default, Deserialize)]
struct Extension {
    tokens: u64,
    truncated: bool,
}

#[derive(Deserialize)]
struct Failure {
    error: FailureDetail,
}

#[derive(Deserialize)]
struct FailureDetail {
    message: String,
    code: Option<String>,
    param: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_little_endian() {
        assert_eq!(floats("AACAPwAAAMA="), Some(vec![1.0, -2.0]));
        assert_eq!(floats("AACAPwA="), None);
        assert_eq!(floats("not base64"), None);
    }
}
