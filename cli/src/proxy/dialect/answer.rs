//! Answers in each vendor's form.

use std::time::Duration;

use attestation::ModelIdentity;
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Asked, Form};
use crate::proxy::refusal::Refusal;

/// Vectors of an answer, in the order of their texts.
#[derive(Default)]
pub(in crate::proxy) struct Embedded {
    rows: Vec<Vec<f32>>,
    /// Tokens of all texts.
    tokens: u64,
    /// From the request's arrival to its answer.
    pub(in crate::proxy) duration: Duration,
}

impl Embedded {
    /// Reads the content of a sealed answer to `count` texts.
    pub(in crate::proxy) fn read(content: &[u8], count: usize) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            data: Vec<Item<'a>>,
            usage: Usage,
        }
        #[derive(Deserialize)]
        struct Item<'a> {
            index: usize,
            embedding: &'a str,
        }
        #[derive(Deserialize)]
        struct Usage {
            prompt_tokens: u64,
        }
        let answer: Answer<'_> = serde_json::from_slice(content).map_err(|_| Refusal::ANSWER)?;
        let rows = answer.data.iter().enumerate().map(|(index, item)| {
            let bytes = Base64::decode_vec(item.embedding).ok()?;
            let (floats, rest) = bytes.as_chunks::<4>();
            let is_whole = index == item.index && rest.is_empty();
            is_whole.then(|| {
                floats
                    .iter()
                    .map(|bytes| f32::from_le_bytes(*bytes))
                    .collect()
            })
        });
        let rows: Vec<Vec<f32>> = rows.collect::<Option<_>>().ok_or(Refusal::ANSWER)?;
        match rows.len() == count {
            true => Ok(Self {
                rows,
                tokens: answer.usage.prompt_tokens,
                duration: Duration::ZERO,
            }),
            false => Err(Refusal::ANSWER),
        }
    }

    /// Puts empty vectors at these places, which are in ascending order.
    pub(in crate::proxy) fn insert_empty(&mut self, places: &[usize]) {
        let (mut rows, mut places) = (std::mem::take(&mut self.rows).into_iter(), places.iter());
        let mut next = places.next();
        loop {
            let row = match next {
                Some(place) if *place == self.rows.len() => {
                    next = places.next();
                    Some(Vec::new())
                }
                _ => rows.next(),
            };
            let Some(row) = row else { return };
            self.rows.push(row);
        }
    }

    /// Writes the answer in the vendor's form.
    pub(in crate::proxy) fn write(&self, form: &Form, asked: &Asked) -> Result<Vec<u8>, Refusal> {
        (form.write)(asked, self).map_err(|_| Refusal::ANSWER)
    }
}

pub(super) fn write_ollama_batch(
    asked: &Asked,
    embedded: &Embedded,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Answer<'a> {
        model: &'a str,
        embeddings: &'a [Vec<f32>],
        /// Nanoseconds.
        total_duration: u64,
        /// The model is always loaded.
        load_duration: u64,
        prompt_eval_count: u64,
    }
    serde_json::to_vec(&Answer {
        model: &asked.name,
        embeddings: &embedded.rows,
        total_duration: u64::try_from(embedded.duration.as_nanos()).unwrap_or(u64::MAX),
        load_duration: 0,
        prompt_eval_count: embedded.tokens,
    })
}

pub(super) fn write_ollama_vector(
    _asked: &Asked,
    embedded: &Embedded,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Answer<'a> {
        embedding: &'a [f32],
    }
    serde_json::to_vec(&Answer {
        embedding: embedded.rows.first().map_or(&[], Vec::as_slice),
    })
}

pub(super) fn write_tei(_asked: &Asked, embedded: &Embedded) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&embedded.rows)
}

pub(super) fn write_cohere_v1(asked: &Asked, embedded: &Embedded) -> serde_json::Result<Vec<u8>> {
    write_cohere_as("1", asked.names_type, asked, embedded)
}

pub(super) fn write_cohere(asked: &Asked, embedded: &Embedded) -> serde_json::Result<Vec<u8>> {
    write_cohere_as("2", true, asked, embedded)
}

fn write_cohere_as(
    version: &str,
    is_by_type: bool,
    asked: &Asked,
    embedded: &Embedded,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Answer<'a> {
        id: String,
        embeddings: Vectors<'a>,
        texts: &'a [String],
        meta: Value,
        response_type: &'static str,
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Vectors<'a> {
        ByType { float: &'a [Vec<f32>] },
        Plain(&'a [Vec<f32>]),
    }
    let rows = &embedded.rows[..];
    let (embeddings, response_type) = match is_by_type {
        true => (Vectors::ByType { float: rows }, "embeddings_by_type"),
        false => (Vectors::Plain(rows), "embeddings_floats"),
    };
    serde_json::to_vec(&Answer {
        id: random_id(),
        embeddings,
        texts: &asked.texts,
        meta: json!({
            "api_version": {"version": version},
            "billed_units": {"input_tokens": embedded.tokens},
        }),
        response_type,
    })
}

/// A UUID of version 4 (RFC 9562 §5.4). Without random bytes, all ids are equal; nothing depends on them.
pub(super) fn random_id() -> String {
    let mut bytes = [0; 16];
    let _ = getrandom::fill(&mut bytes);
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let mut text = format!("{number:032x}");
    for place in [20, 16, 12, 8] {
        text.insert(place, '-');
    }
    text
}

/// Whether the list of models names prompts, one of which a request may choose.
pub(in crate::proxy) fn has_prompts(content: &[u8]) -> bool {
    let list: Value = serde_json::from_slice(content).unwrap_or_default();
    let prompts = list["data"][0]["clearseal"]["prompts"].as_array();
    prompts.is_some_and(|prompts| !prompts.is_empty())
}

/// Writes Ollama's list of models from the sealed one.
pub(in crate::proxy) fn write_models(
    content: &[u8],
    model: &ModelIdentity,
) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        id: String,
    }
    let list: List = serde_json::from_slice(content).map_err(|_| Refusal::ANSWER)?;
    let digest = base16ct::lower::encode_string(&model.sha256);
    let models = list.data.iter().map(|entry| {
        json!({
            "name": entry.id,
            "model": entry.id,
            // A pinned model has no meaningful time.
            "modified_at": "1970-01-01T00:00:00Z",
            "size": 0,
            "digest": digest,
            "details": {
                "parent_model": "",
                "format": "",
                "family": "",
                "families": null,
                "parameter_size": "",
                "quantization_level": "",
            },
        })
    });
    Ok(json!({"models": models.collect::<Vec<_>>()}).to_string())
}

/// Writes Ollama's version, which is this program's.
pub(in crate::proxy) fn write_version() -> String {
    json!({"version": env!("CARGO_PKG_VERSION")}).to_string()
}

/// Writes the attested model as text-embeddings-inference describes its own.
pub(in crate::proxy) fn write_info(
    model: &ModelIdentity,
    truncates: bool,
    concurrency: u16,
) -> String {
    json!({
        "model_id": model.id,
        "model_sha": base16ct::lower::encode_string(&model.sha256),
        // The manifest does not state the pooling.
        "model_type": {"embedding": {}},
        "max_concurrent_requests": concurrency,
        "max_input_length": model.max_tokens,
        "max_client_batch_size": MAX_TEXTS,
        "auto_truncate": truncates,
        "version": env!("CARGO_PKG_VERSION"),
    })
    .to_string()
}

/// Most texts that an enclave takes in one request.
pub(in crate::proxy) const MAX_TEXTS: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_do_not_fit_the_request_are_refused() {
        let read = |content: &str, count| {
            Embedded::read(content.as_bytes(), count)
                .ok()
                .map(|embedded| embedded.rows)
        };
        let answer = |items: &str| {
            format!(
                r#"{{"object":"list","data":[{items}],"usage":{{"prompt_tokens":3,"total_tokens":3}}}}"#
            )
        };
        let item = r#"{"index":0,"embedding":"AACAPwAAAL8="}"#;
        assert_eq!(read(&answer(item), 1), Some(vec![vec![1.0, -0.5]]));
        assert_eq!(read(&answer(item), 2), None);
        assert_eq!(read(&answer(&format!("{item},{item}")), 2), None);
        assert_eq!(
            read(&answer(r#"{"index":0,"embedding":"AACAPwAA"}"#), 1),
            None
        );
        assert_eq!(read(&answer(r#"{"index":0,"embedding":[1.0]}"#), 1), None);
        assert_eq!(read("{}", 0), None);
    }

    #[test]
    fn empty_vectors_take_their_places() {
        for (rows, places, expected) in [
            (&[1.0, 2.0][..], &[0, 2, 4][..], &[0, 1, 0, 1, 0][..]),
            (&[1.0], &[], &[1]),
            (&[], &[0, 1], &[0, 0]),
            (&[1.0], &[1], &[1, 0]),
        ] {
            let mut embedded = Embedded {
                rows: rows.iter().map(|row| vec![*row]).collect(),
                ..Embedded::default()
            };
            embedded.insert_empty(places);
            let lengths: Vec<_> = embedded.rows.iter().map(Vec::len).collect();
            assert_eq!(lengths, expected);
        }
    }

    #[test]
    fn a_list_of_models_may_name_prompts() {
        for (properties, expected) in [
            (json!({"prompts": ["query"]}), true),
            (json!({"prompts": []}), false),
            (json!({}), false),
        ] {
            let list = json!({"data": [{"id": "m", "clearseal": properties}]});
            assert_eq!(has_prompts(list.to_string().as_bytes()), expected, "{list}");
        }
    }

    #[test]
    fn ids_have_version_4() {
        let id = random_id();
        let parts: Vec<_> = id.split('-').collect();
        let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        assert!(parts[2].starts_with('4'), "{id}");
        assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        assert_ne!(id, random_id());
    }
}
