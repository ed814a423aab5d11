//! Embeddings as vectors instead of JSON.

use base64ct::{Base64, Encoding};
use http::{Method, Request, header};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::message::{Answer, parse_service_error};

/// Vectors, in the order of their texts, and the answer that contained them.
pub struct Embeddings {
    /// One for each text.
    pub items: Vec<Embedding>,
    /// The complete answer, which contains the receipt.
    pub answer: Answer,
    /// Names of the model's prompts, if it has some and read none before these texts. Always empty for answers over a channel.
    pub prompts_available: Vec<String>,
}

/// One vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// Unit length.
    pub vector: Vec<f32>,
    /// Tokens of the text that the model read.
    pub tokens: u64,
    /// Whether the text exceeds the model's limit; the rest was ignored.
    pub truncated: bool,
}

impl Client {
    /// Embeds `texts` in one sealed request, with the attested model.
    ///
    /// # Errors
    /// The errors of [`fetch`](Client::fetch), and [`Error::Service`] if the enclave refuses the request.
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
        if !answer.status().is_success() {
            return Err(parse_service_error(&answer));
        }
        let (items, prompts_available) = parse_items(answer.content(), texts.len())?;
        Ok(Embeddings {
            items,
            answer,
            prompts_available,
        })
    }
}

/// Returns the vectors, and the names of prompts that the answer lists.
fn parse_items(content: &[u8], expected: usize) -> Result<(Vec<Embedding>, Vec<String>), Error> {
    let list: List = serde_json::from_slice(content).map_err(|_| Error::AnswerInvalid)?;
    if list.data.len() != expected {
        return Err(Error::AnswerInvalid);
    }
    let items = list.data.into_iter().map(|item| {
        Ok(Embedding {
            vector: decode_floats(&item.embedding).ok_or(Error::AnswerInvalid)?,
            tokens: item.clearseal.tokens,
            truncated: item.clearseal.truncated,
        })
    });
    Ok((
        items.collect::<Result<_, Error>>()?,
        list.clearseal.prompts_available,
    ))
}

/// Decodes little-endian float32 values, OpenAI's `base64` format.
pub(crate) fn decode_floats(base64: &str) -> Option<Vec<f32>> {
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
    #[serde(default)]
    clearseal: Remarks,
    data: Vec<Item>,
}

#[derive(Default, Deserialize)]
struct Remarks {
    #[serde(default)]
    prompts_available: Vec<String>,
}

#[derive(Deserialize)]
struct Item {
    embedding: String,
    #[serde(default)]
    clearseal: Extension,
}

/// Remarks on one item of an answer.
#[derive(Default, Deserialize)]
pub(crate) struct Extension {
    pub(crate) tokens: u64,
    pub(crate) truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_prompts_are_read() {
        let parse = |remarks: &str| {
            let content = format!(
                r#"{{{remarks}"data":[{{"embedding":"AACAPw==","clearseal":{{"tokens":3,"truncated":false}}}}]}}"#
            );
            let (items, names) = parse_items(content.as_bytes(), 1).unwrap();
            assert_eq!((items.len(), items[0].tokens), (1, 3));
            names
        };
        let listed = r#""clearseal":{"items":"x","prompts_available":["document","query"]},"#;
        assert_eq!(parse(listed), ["document", "query"]);
        for without in ["", r#""clearseal":{"prompt":"query: "},"#] {
            assert!(parse(without).is_empty(), "{without}");
        }
    }

    #[test]
    fn floats_are_little_endian() {
        assert_eq!(decode_floats("AACAPwAAAMA="), Some(vec![1.0, -2.0]));
        assert_eq!(decode_floats("AACAPwA="), None);
        assert_eq!(decode_floats("not base64"), None);
    }
}
