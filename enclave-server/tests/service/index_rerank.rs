//! A query of an index whose best rows another model scores again.

use std::collections::BTreeMap;
use std::sync::Arc;

use enclave_server::indexes::store::MemoryStore;
use protocol::inner::InnerRequest;
use sealed_index::IndexKey;
use serde_json::{Value, json};

use crate::common::{Attested, MODEL, Options, Rig, Toy, embeddings, identity_of};
use crate::rerank::Judge;

/// The model of the index; [`MODEL`] reads pairs.
const EMBEDDER: &str = "toy-embedder";

struct Setup {
    rig: Rig,
    attested: Attested,
    key: IndexKey,
}

impl Setup {
    async fn new() -> Self {
        let rig = Rig::with(Options {
            encoder: Arc::new(Judge),
            reads_pairs: true,
            others: vec![(EMBEDDER, Arc::new(Toy))],
            store: Some(Arc::<MemoryStore>::default()),
            ..Options::default()
        });
        // Receipts about the index name its model.
        let attested = rig.attest_with(|policy| {
            policy["model"] = json!({"id": EMBEDDER, "sha256": hash_of(EMBEDDER)});
        });
        Self {
            attested: attested.await,
            rig,
            key: IndexKey::new(&[7; 32]),
        }
    }

    async fn ask(&self, below: &str, body: &Value) -> (u16, Value) {
        let mut request = InnerRequest {
            path: format!("/v1/indexes{below}"),
            ..embeddings(body)
        };
        let key = self.key.to_base64url().to_string();
        request
            .headers
            .push(("clearseal-index-key".to_owned(), key));
        let answer = self.rig.exchange(&self.attested, request).await;
        let response = answer.unwrap_or_else(|error| panic!("{error}")).response;
        let content = serde_json::from_slice(&response.content).unwrap();
        (response.status, content)
    }

    async fn query(&self, body: &Value) -> (u16, Value) {
        self.ask(&format!("/{}/query", self.key.id()), body).await
    }
}

fn hash_of(model: &str) -> String {
    let encoder = Toy;
    base16ct::lower::encode_string(&identity_of(model, &encoder).sha256)
}

const QUERIES: [&str; 2] = ["hello", "hello world hello"];

/// Rows, and the number of their tokens, all words of the toy model.
const ROWS: [(&str, usize); 5] = [
    ("world", 1),
    ("hello", 1),
    ("hello hello hello hello", 4),
    ("world hello", 2),
    ("hello hello world", 3),
];

/// The pairs that the second model prefers: it scores them by their number of tokens, of which it reads eight.
fn rescore(query: &str, searched: &[Value], k: usize) -> Vec<(String, f32, Value)> {
    let tokens: BTreeMap<_, _> = ROWS.into_iter().collect();
    let mut scored: Vec<_> = searched
        .iter()
        .map(|result| {
            let id = result["id"].as_str().unwrap();
            let length = (query.split(' ').count() + tokens[id]).min(8);
            (id.to_owned(), length as f32 / 16.0, result["score"].clone())
        })
        .collect();
    // Stable: equal ones keep the order of the search.
    scored.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
    scored.truncate(k);
    scored
}

fn results(list: &Value) -> Vec<(String, f32, Value)> {
    let results = list.as_array().unwrap().iter();
    let result = |one: &Value| {
        let score: f32 = serde_json::from_value(one["score"].clone()).unwrap();
        (
            one["id"].as_str().unwrap().to_owned(),
            score,
            one["similarity"].clone(),
        )
    };
    results.map(result).collect()
}

#[tokio::test]
async fn another_model_orders_the_best_rows() {
    let setup = Setup::new().await;
    let (status, created) = setup.ask("", &json!({ "model": EMBEDDER })).await;
    assert_eq!(status, 200, "{created}");
    let rows = ROWS.map(|(text, _)| json!({"id": text, "text": text}));
    let put = json!({ "rows": rows });
    let (status, put) = setup.ask(&format!("/{}/rows", setup.key.id()), &put).await;
    assert_eq!(status, 200, "{put}");

    let mut reordered = 0;
    for (candidates, k) in [(5, 2), (3, 3), (2, 1), (5, 5)] {
        let search = json!({"query": QUERIES, "k": candidates});
        let (status, searched) = setup.query(&search).await;
        assert_eq!(status, 200, "{searched}");
        let query = json!({
            "query": QUERIES,
            "k": k,
            "rerank": {"model": MODEL, "candidates": candidates},
            "include": ["text", "proof"],
        });
        let (status, answer) = setup.query(&query).await;
        assert_eq!(status, 200, "{answer}");
        let judge = base16ct::lower::encode_string(&identity_of(MODEL, &Judge).sha256);
        let remarks = json!({"model": MODEL, "model_hash": judge, "candidates": candidates});
        assert_eq!(answer["rerank"], remarks);
        assert_eq!((&answer["k"], &answer["searched"]), (&json!(k), &json!(5)));
        for (number, text) in QUERIES.into_iter().enumerate() {
            let first = searched["results"][number].as_array().unwrap();
            let found = results(&answer["results"][number]);
            assert_eq!(found, rescore(text, first, k), "{candidates} {k} {text}");
            let is_other = found[0].0 != first[0]["id"].as_str().unwrap();
            reordered += usize::from(is_other);
            for result in answer["results"][number].as_array().unwrap() {
                assert_eq!(result["text"], result["id"]);
                assert!(result["proof"].is_object());
            }
        }
    }
    assert!(reordered > 0, "the second model changes no order here");

    // The only model that reads pairs need not be named; four times `k` rows are read unless the request says how many.
    let query = json!({"query": "hello", "k": 1, "rerank": {}});
    let (status, answer) = setup.query(&query).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["rerank"]["model"], MODEL);
    assert_eq!(answer["rerank"]["candidates"], 4);
    assert_eq!(answer["results"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_the_second_model_cannot_read_is_refused() {
    let setup = Setup::new().await;
    setup.ask("", &json!({ "model": EMBEDDER })).await;
    let vector = json!([0.5, 0.5, 0.5, 0.5]);
    let rows = json!({"rows": [{"id": "a", "text": "hello"}, {"id": "b", "vector": vector}]});
    let (status, put) = setup.ask(&format!("/{}/rows", setup.key.id()), &rows).await;
    assert_eq!(status, 200, "{put}");
    let rerank = json!({"candidates": 2});
    for (query, rerank, code) in [
        (json!("hello"), &rerank, "RERANK_WITHOUT_TEXT"),
        (vector, &rerank, "RERANK_WITHOUT_TEXT"),
        (json!("hello"), &json!({ "model": EMBEDDER }), "MODEL_TASK"),
        (
            json!("hello"),
            &json!({"candidates": 1}),
            "CANDIDATES_INVALID",
        ),
    ] {
        let body = json!({"query": query, "k": 2, "rerank": rerank});
        let (status, answer) = setup.query(&body).await;
        let code_of = answer["error"]["code"].as_str();
        assert_eq!((status, code_of), (400, Some(code)), "{body}: {answer}");
    }
}
