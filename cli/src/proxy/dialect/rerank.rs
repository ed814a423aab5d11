//! Reranking requests of text-embeddings-inference and of Cohere. OpenAI has none; Jina's and vLLM's `/v1/rerank` is the enclave's own.

use bytes::Bytes;
use protocol::json::JsonText;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::random_id;
use crate::proxy::refusal::Refusal;

/// A vendor's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum Form {
    /// `POST /rerank` of text-embeddings-inference.
    Tei,
    /// `POST /v2/rerank` of Cohere.
    Cohere,
}

impl Form {
    /// The members that are obeyed.
    fn describe(self) -> &'static str {
        match self {
            Self::Tei => {
                r#"`query` (a string), `texts` (a list of strings), `return_text` and `truncate` (true or false), `raw_scores` false and `truncation_direction` "Right""#
            }
            Self::Cohere => {
                "`model` and `query` (strings), `documents` (a list of strings) and `top_n` (a whole number above 0)"
            }
        }
    }
}

/// A request for scores, in no vendor's form.
pub(in crate::proxy) struct AskedRanking {
    /// Name for the enclave; `None` if the form has none.
    pub(in crate::proxy) model: Option<String>,
    query: String,
    pub(in crate::proxy) documents: Vec<String>,
    top_n: Option<usize>,
    return_text: bool,
    pub(in crate::proxy) truncate: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tei {
    query: String,
    texts: Vec<String>,
    #[serde(default)]
    return_text: Option<bool>,
    #[serde(default)]
    raw_scores: Option<bool>,
    #[serde(default)]
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cohere {
    model: String,
    query: String,
    documents: Vec<String>,
    #[serde(default)]
    top_n: Option<usize>,
}

impl AskedRanking {
    /// Reads a body. A refusal quotes nothing of it.
    pub(in crate::proxy) fn read(form: Form, body: &[u8]) -> Result<Self, Refusal> {
        let invalid = |reason: String| {
            let message =
                format!("the body is not valid JSON: {reason}; send JSON in UTF-8, not compressed");
            Refusal::of_body("JSON_INVALID", message)
        };
        let text = JsonText::read(body).map_err(|error| {
            invalid(format!(
                "it is not UTF-8 text from byte {} on",
                error.valid_up_to()
            ))
        })?;
        let refuse_members = || {
            let message = format!(
                "the request has a member or a value that cannot be obeyed here, one twice, or one too few; send {}",
                form.describe()
            );
            Refusal::of_body("MEMBER_REFUSED", message)
        };
        let refuse = |error: serde_json::Error| match error.is_data() {
            true => refuse_members(),
            // The parser's messages for these are fixed.
            false => invalid(error.to_string()),
        };
        let asked = match form {
            Form::Tei => {
                let tei: Tei = serde_json::from_str(&text).map_err(refuse)?;
                let side = tei.truncation_direction.as_deref().unwrap_or("Right");
                // The score is the model's own; no other one can be computed from it.
                if tei.raw_scores == Some(true) || !side.eq_ignore_ascii_case("right") {
                    return Err(refuse_members());
                }
                Self {
                    model: None,
                    query: tei.query,
                    documents: tei.texts,
                    top_n: None,
                    return_text: tei.return_text.unwrap_or(false),
                    truncate: tei.truncate,
                }
            }
            Form::Cohere => {
                let cohere: Cohere = serde_json::from_str(&text).map_err(refuse)?;
                if cohere.top_n == Some(0) {
                    return Err(refuse_members());
                }
                Self {
                    model: Some(cohere.model),
                    query: cohere.query,
                    documents: cohere.documents,
                    top_n: cohere.top_n,
                    return_text: false,
                    truncate: None,
                }
            }
        };
        Ok(asked)
    }

    /// Writes the body of the sealed request.
    pub(in crate::proxy) fn sealed_body(&self, model: &str) -> Result<Bytes, Refusal> {
        #[derive(Serialize)]
        struct Body<'a> {
            model: &'a str,
            query: &'a str,
            documents: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            top_n: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            truncate: Option<bool>,
        }
        let body = Body {
            model,
            query: &self.query,
            documents: &self.documents,
            top_n: self.top_n,
            truncate: self.truncate,
        };
        let body = serde_json::to_vec(&body).map_err(|_| Refusal::BROKEN)?;
        Ok(body.into())
    }
}

/// Scores of an answer, the best first.
pub(in crate::proxy) struct Ranked(Vec<Scored>);

#[derive(Deserialize)]
struct Scored {
    index: usize,
    relevance_score: f32,
}

impl Ranked {
    /// Reads the content of a sealed answer about `count` documents.
    pub(in crate::proxy) fn read(content: &[u8], count: usize) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Answer {
            results: Vec<Scored>,
        }
        let answer: Answer = serde_json::from_slice(content).map_err(|_| Refusal::ANSWER)?;
        match answer.results.iter().all(|result| result.index < count) {
            true => Ok(Self(answer.results)),
            false => Err(Refusal::ANSWER),
        }
    }

    /// Writes the answer in the vendor's form.
    pub(in crate::proxy) fn write(
        &self,
        form: Form,
        asked: &AskedRanking,
    ) -> Result<Vec<u8>, Refusal> {
        #[derive(Serialize)]
        struct Rank<'a> {
            index: usize,
            score: f32,
            #[serde(skip_serializing_if = "Option::is_none")]
            text: Option<&'a str>,
        }
        #[derive(Serialize)]
        struct Hit {
            index: usize,
            relevance_score: f32,
        }
        #[derive(Serialize)]
        struct Answer {
            id: String,
            results: Vec<Hit>,
            meta: Value,
        }
        let written = match form {
            Form::Tei => {
                let ranks = self.0.iter().map(|scored| Rank {
                    index: scored.index,
                    score: scored.relevance_score,
                    text: asked.return_text.then(|| &*asked.documents[scored.index]),
                });
                serde_json::to_vec(&ranks.collect::<Vec<_>>())
            }
            Form::Cohere => {
                let results = self.0.iter().map(|scored| Hit {
                    index: scored.index,
                    relevance_score: scored.relevance_score,
                });
                serde_json::to_vec(&Answer {
                    id: random_id(),
                    results: results.collect(),
                    meta: json!({"api_version": {"version": "2"}}),
                })
            }
        };
        written.map_err(|_| Refusal::ANSWER)
    }
}

/// The first model in the enclave's list that scores pairs.
pub(in crate::proxy) fn find_reranker(content: &[u8]) -> Option<String> {
    let list: Value = serde_json::from_slice(content).ok()?;
    let models = list["data"].as_array()?.iter();
    let found = models
        .clone()
        .find(|model| model["clearseal"]["task"] == "reranking");
    found?["id"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(form: Form, body: &str) -> Result<String, String> {
        let refused = |refusal: Refusal| format!("{refusal:?}");
        let asked = AskedRanking::read(form, body.as_bytes()).map_err(refused)?;
        let model = asked.model.clone().unwrap_or_else(|| "attested".to_owned());
        let body = asked.sealed_body(&model).map_err(refused)?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn both_forms_become_the_one_sealed_request() {
        for (form, body, expected) in [
            (
                Form::Tei,
                r#"{"query":"q","texts":["a"],"raw_scores":false,"return_text":true,"truncate":true,"truncation_direction":"right"}"#,
                r#"{"model":"attested","query":"q","documents":["a"],"truncate":true}"#,
            ),
            (
                Form::Cohere,
                r#"{"model":"m","query":"q","documents":["a","b"],"top_n":1}"#,
                r#"{"model":"m","query":"q","documents":["a","b"],"top_n":1}"#,
            ),
        ] {
            assert_eq!(sealed(form, body).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn members_that_cannot_be_obeyed_are_refused_without_a_quotation() {
        for (form, body, code) in [
            (
                Form::Tei,
                r#"{"query":"SECRET","texts":["a"],"raw_scores":true}"#,
                "MEMBER_REFUSED",
            ),
            (
                Form::Tei,
                r#"{"query":"q","texts":["a"],"truncation_direction":"Left"}"#,
                "MEMBER_REFUSED",
            ),
            (
                Form::Tei,
                r#"{"query":"q","texts":"SECRET"}"#,
                "MEMBER_REFUSED",
            ),
            (
                Form::Tei,
                r#"{"query":"q","query":"SECRET","texts":[]}"#,
                "MEMBER_REFUSED",
            ),
            (Form::Tei, r#"{"texts":["SECRET"]}"#, "MEMBER_REFUSED"),
            (
                Form::Cohere,
                r#"{"model":"m","query":"q","documents":["a"],"SECRET":1}"#,
                "MEMBER_REFUSED",
            ),
            (
                Form::Cohere,
                r#"{"model":"m","query":"q","documents":[{"text":"SECRET"}]}"#,
                "MEMBER_REFUSED",
            ),
            (
                Form::Cohere,
                r#"{"model":"m","query":"q","documents":["a"],"top_n":0}"#,
                "MEMBER_REFUSED",
            ),
            (Form::Cohere, "{\"SECRET", "JSON_INVALID"),
        ] {
            let refusal = sealed(form, body).unwrap_err();
            assert!(
                refusal.contains(code) && !refusal.contains("SECRET"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn answers_have_the_vendors_form() {
        let body = br#"{"query":"q","texts":["a","b"],"return_text":true}"#;
        let asked = AskedRanking::read(Form::Tei, body).unwrap();
        let content = br#"{"results":[{"index":1,"relevance_score":0.75},{"index":0,"relevance_score":0.5}]}"#;
        let ranked = Ranked::read(content, 2).unwrap();
        let written = |form| String::from_utf8(ranked.write(form, &asked).unwrap()).unwrap();
        assert_eq!(
            written(Form::Tei),
            r#"[{"index":1,"score":0.75,"text":"b"},{"index":0,"score":0.5,"text":"a"}]"#
        );
        let cohere = written(Form::Cohere);
        let results =
            r#""results":[{"index":1,"relevance_score":0.75},{"index":0,"relevance_score":0.5}]"#;
        assert!(cohere.contains(results), "{cohere}");
        assert!(Ranked::read(content, 1).is_err());
    }

    #[test]
    fn the_model_of_a_request_that_names_none_is_one_that_reranks() {
        let list = br#"{"data":[{"id":"e","clearseal":{"task":"embedding"}},{"id":"r","clearseal":{"task":"reranking"}}]}"#;
        assert_eq!(find_reranker(list).as_deref(), Some("r"));
        assert_eq!(find_reranker(br#"{"data":[{"id":"e"}]}"#), None);
    }
}
