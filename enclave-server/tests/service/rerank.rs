//! Reranking: scores in the shared form, a receipt that commits to each pair, and a model for one task alone.

use std::sync::Arc;

use attestation::{Policy, SignatureMemory, Verdict};
use engine::{EncodeError, Encoder};
use protocol::bundle::AuditBundle;
use protocol::inner::InnerRequest;
use protocol::items::{Evidence, PairRow, prove, prove_pairs};
use serde_json::{Value, json};

use crate::common::{Attested, MODEL, Options, Rig, SECRET, embeddings};

/// Scores a pair by its number of tokens.
pub(crate) struct Judge;

impl Encoder for Judge {
    fn encode(&self, sequences: &[&[u32]]) -> Result<Vec<f32>, EncodeError> {
        let lengths = sequences.iter().map(|sequence| sequence.len() as f32);
        Ok(lengths.map(|length| length / 16.0).collect())
    }
    fn dimension(&self) -> usize {
        1
    }
    fn is_normalised(&self) -> bool {
        false
    }
    fn max_tokens(&self) -> usize {
        8
    }
    fn vocabulary(&self) -> usize {
        64
    }
    fn name(&self) -> &'static str {
        "toy-f32"
    }
}

fn rig() -> Rig {
    Rig::with(Options {
        encoder: Arc::new(Judge),
        reads_pairs: true,
        ..Options::default()
    })
}

fn request(body: &Value) -> InnerRequest {
    InnerRequest {
        path: "/v1/rerank".to_owned(),
        ..embeddings(body)
    }
}

async fn rerank(rig: &Rig, body: &Value) -> (u16, Value) {
    let attested = rig.attest().await;
    let answer = rig.exchange(&attested, request(body)).await;
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    let content = serde_json::from_slice(&answer.response.content).unwrap();
    (answer.response.status, content)
}

const DOCUMENTS: [&str; 3] = ["hello", "hello world", "world"];

#[tokio::test]
async fn documents_are_scored_and_sorted() {
    let rig = rig();
    let body = json!({"model": MODEL, "query": "hello", "documents": DOCUMENTS, "priority": 1});
    let (status, answer) = rerank(&rig, &body).await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().unwrap();
    let order: Vec<_> = results.iter().map(|result| &result["index"]).collect();
    assert_eq!(order, [1, 0, 2]);
    assert_eq!(results[0]["relevance_score"], 3.0 / 16.0);
    assert_eq!(
        results[0]["clearseal"],
        json!({"tokens": 3, "truncated": false})
    );
    assert!(
        results
            .iter()
            .all(|result| result.get("document").is_none())
    );
    assert_eq!(answer["model"], MODEL);
    assert_eq!(answer["usage"]["total_tokens"], 7);
    assert_eq!(answer["clearseal"]["ignored"], json!(["priority"]));

    let documents = DOCUMENTS.map(|text| json!({"text": text, "id": 1}));
    let body = json!({"model": MODEL, "query": "hello", "documents": documents, "top_n": 1, "return_documents": true});
    let (_, answer) = rerank(&rig, &body).await;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["document"], json!({"text": "hello world"}));
}

#[tokio::test]
async fn long_pairs_are_truncated_or_refused() {
    let rig = rig();
    let long = "hello world ".repeat(9);
    let mut body = json!({"model": MODEL, "query": "hello", "documents": ["world", long]});
    let (_, answer) = rerank(&rig, &body).await;
    let cut = json!({"tokens": 8, "truncated": true});
    assert_eq!(answer["results"][0]["clearseal"], cut);
    body["truncate"] = json!(false);
    let (status, answer) = rerank(&rig, &body).await;
    let error = &answer["error"];
    assert_eq!((status, &error["code"]), (400, &json!("INPUT_TOO_LONG")));
}

#[tokio::test]
async fn a_model_does_its_own_task_alone() {
    let (pairs, texts) = (rig(), Rig::new());
    let (status, refused) = pairs.embed(json!({"model": MODEL, "input": "hello"})).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (400, &json!("MODEL_TASK"))
    );
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("/v1/rerank"), "{message}");
    let body = json!({"model": MODEL, "query": SECRET, "documents": [SECRET]});
    let (status, refused) = rerank(&texts, &body).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (400, &json!("MODEL_TASK"))
    );
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("/v1/embeddings"), "{message}");
    for (rig, task) in [(&pairs, "reranking"), (&texts, "embedding")] {
        let attested = rig.attest().await;
        let models = fixtures::enclave::bare_request("GET", "/v1/models/toy");
        let answer = rig.exchange(&attested, models).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        let model: Value = serde_json::from_slice(&answer.response.content).unwrap();
        assert_eq!(model["clearseal"]["task"], task);
    }
}

#[tokio::test]
async fn each_pair_has_a_proof() {
    let rig = rig();
    let attested = rig.attest().await;
    let (_, policy) = rig.get("/v1/development-policy").await;
    let policy = Policy::with_evidence(&policy).unwrap();
    for top_n in [1, 3] {
        let body =
            json!({"model": MODEL, "query": "hello", "documents": DOCUMENTS, "top_n": top_n});
        let answer = rig.exchange(&attested, request(&body)).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}"));
        let Attested {
            document, manifest, ..
        } = &attested;
        let bundle = AuditBundle::of(&answer, document.clone(), manifest.clone(), true).unwrap();
        assert!(prove(&bundle).is_err(), "its items are pairs");
        let (evidence, proofs) = prove_pairs(&bundle).unwrap();
        assert_eq!(proofs.len(), top_n);
        let evidence = Evidence::from_json(&evidence.to_json()).unwrap();
        let content: Value = serde_json::from_slice(&answer.response.content).unwrap();
        for (proof, result) in proofs.iter().zip(content["results"].as_array().unwrap()) {
            let index = result["index"].as_u64().unwrap() as usize;
            let row = json!({
                "query": "hello", "document": DOCUMENTS[index],
                "relevance_score": result["relevance_score"], "tokens": result["clearseal"]["tokens"],
            });
            let code = |member: &str, value: Value| {
                let mut row = row.clone();
                row[member] = value;
                let row = PairRow::from_json(&row.to_string()).unwrap();
                let memory = &mut SignatureMemory::new();
                let receipt = evidence.verify_pair(proof, &row, &policy, memory);
                let receipt = receipt.unwrap().receipt;
                assert_eq!(
                    receipt.verdict == Verdict::Simulated,
                    receipt.code.is_none()
                );
                receipt.code.unwrap_or_default()
            };
            assert_eq!(code("query", json!("hello")), "");
            for (member, value) in [
                ("query", json!("hell")),
                ("document", json!("other")),
                ("relevance_score", json!(0.5)),
            ] {
                assert_eq!(code(member, value), "RESPONSE_HASH_MISMATCH", "{member}");
            }
            assert_eq!(code("tokens", json!(9)), "ROW_DIFFERS");
        }
    }
}
