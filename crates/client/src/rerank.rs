//! Scores of documents for a query.

use http::{Method, Request, header};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::embeddings::Extension;
use crate::error::Error;
use crate::message::{Answer, parse_service_error};

/// Scored documents, the best first, and the answer that contained them.
pub struct Ranking {
    /// As many as were asked for.
    pub results: Vec<ScoredDocument>,
    /// The complete answer, which contains the receipt.
    pub answer: Answer,
}

/// The score of one document.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredDocument {
    /// Place of the document in the request.
    pub index: usize,
    /// The higher, the better.
    pub score: f32,
    /// Tokens of query and document that the model read.
    pub tokens: u64,
    /// Whether both exceed the model's limit; the rest was ignored.
    pub truncated: bool,
}

impl Client {
    /// Scores `documents` for `query` in one sealed request; returns all, or the best `top_n`. `model` is the attested one where it is
    /// `None`.
    ///
    /// # Errors
    /// The errors of [`fetch`](Client::fetch), and [`Error::Service`] if the enclave refuses the request.
    pub async fn rerank(
        &self,
        model: Option<&str>,
        query: &str,
        documents: &[String],
        top_n: Option<usize>,
    ) -> Result<Ranking, Error> {
        let session = self.connect().await?;
        let body = serde_json::to_vec(&Body {
            model: model.unwrap_or(&session.manifest().model.id),
            query,
            documents,
            top_n,
        });
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1/rerank")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.map_err(|_| Error::RequestInvalid)?.into())
            .map_err(|_| Error::RequestInvalid)?;
        let answer = self.fetch(request).await?;
        if !answer.status().is_success() {
            return Err(parse_service_error(&answer));
        }
        let results = parse_results(answer.content(), documents.len(), top_n)?;
        Ok(Ranking { results, answer })
    }
}

/// Reads the results of an answer about `count` documents: each at most once, and as many as were asked for.
fn parse_results(
    content: &[u8],
    count: usize,
    top_n: Option<usize>,
) -> Result<Vec<ScoredDocument>, Error> {
    let list: List = serde_json::from_slice(content).map_err(|_| Error::AnswerInvalid)?;
    let mut seen = vec![false; count];
    let is_new = |item: &Item| {
        let seen = seen.get_mut(item.index);
        seen.is_some_and(|seen| !std::mem::replace(seen, true))
    };
    let expected = top_n.map_or(count, |top_n| top_n.min(count));
    if list.results.len() != expected || !list.results.iter().all(is_new) {
        return Err(Error::AnswerInvalid);
    }
    let results = list.results.into_iter().map(|item| ScoredDocument {
        index: item.index,
        score: item.relevance_score,
        tokens: item.clearseal.tokens,
        truncated: item.clearseal.truncated,
    });
    Ok(results.collect())
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<usize>,
}

#[derive(Deserialize)]
struct List {
    results: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    relevance_score: f32,
    #[serde(default)]
    clearseal: Extension,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_has_one_score() {
        let results = |indices: &[usize], count, top_n| {
            let items = indices.iter().map(|index| {
                serde_json::json!({"index": index, "relevance_score": 0.5, "clearseal": {"tokens": 3, "truncated": false}})
            });
            let content = serde_json::json!({"results": items.collect::<Vec<_>>()}).to_string();
            parse_results(content.as_bytes(), count, top_n).map(|results| results.len())
        };
        assert_eq!(results(&[1, 0], 2, None).ok(), Some(2));
        assert_eq!(results(&[1], 2, Some(1)).ok(), Some(1));
        assert_eq!(results(&[1, 0], 2, Some(9)).ok(), Some(2));
        for (indices, count, top_n) in [
            (&[0][..], 2, None),
            (&[0, 0], 2, None),
            (&[0, 2], 2, None),
            (&[0, 1], 2, Some(1)),
        ] {
            assert!(results(indices, count, top_n).is_err(), "{indices:?}");
        }
    }
}
