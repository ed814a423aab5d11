//! One service with several models: a request names one, and the receipt proves that this one answered.

use std::sync::Arc;
use std::time::Duration;

use enclave_server::api::models::{Models, ModelsError, ServedModel, Task};
use engine::{Embedder, Pool, PoolLimits, Tokenizer};
use fixtures::enclave::bare_request;
use protocol::inner::InnerRequest;
use serde_json::{Value, json};

use crate::common::{
    ALIAS, HeldToy, LongToy, MODEL, Options, Rig, SECRET, Toy, code, embeddings, identity_of,
    tokenizer_json,
};

/// The second model, whose rows have another length.
const LONG: &str = "long-toy";

fn rig() -> Rig {
    Rig::with(Options {
        others: vec![(LONG, Arc::new(LongToy))],
        ..Options::default()
    })
}

fn ask(model: &str) -> InnerRequest {
    embeddings(&json!({"model": model, "input": "hello world"}))
}

/// Makes a policy that demands the second model.
fn demand_second(policy: &mut Value) {
    let digest = identity_of(LONG, &LongToy).sha256;
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    policy["model"] = json!({"id": LONG, "sha256": digits});
}

#[tokio::test]
async fn a_receipt_proves_that_the_policys_model_answered() {
    let rig = rig();
    let first = rig.attest().await;
    let second = rig.attest_with(demand_second).await;
    assert_eq!(first.verified.manifest().model.id, MODEL);
    assert_eq!(second.verified.manifest().model.id, LONG);
    assert!(!second.verified.manifest().model.normalised);
    for (attested, own, other) in [(&first, MODEL, LONG), (&second, LONG, MODEL)] {
        let Ok(answer) = rig.exchange(attested, ask(own)).await else {
            panic!("refused")
        };
        let json: Value = serde_json::from_slice(&answer.response.content).unwrap();
        assert_eq!(json["model"], own);
        assert!(answer.receipt.is_some());
        let Err(refused) = rig.exchange(attested, ask(other)).await else {
            panic!("another model's receipt was accepted")
        };
        assert_eq!(refused.code(), "MODEL_HASH_MISMATCH");
    }
}

#[tokio::test]
async fn each_model_computes_its_own_vectors() {
    let rig = rig();
    let first = rig.attest().await;
    let second = rig.attest_with(demand_second).await;
    let mut rows = Vec::new();
    for (attested, model) in [(&first, MODEL), (&second, LONG), (&first, ALIAS)] {
        let Ok(answer) = rig.exchange(attested, ask(model)).await else {
            panic!("refused")
        };
        let json: Value = serde_json::from_slice(&answer.response.content).unwrap();
        rows.push(json["data"][0]["embedding"].clone());
    }
    let doubled = rows[0].as_array().unwrap().iter();
    let doubled: Vec<_> = doubled.map(|value| value.as_f64().unwrap() * 2.0).collect();
    let long = rows[1].as_array().unwrap().iter();
    let long: Vec<_> = long.map(|value| value.as_f64().unwrap()).collect();
    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
    assert!(doubled.iter().zip(&long).all(close), "{doubled:?} {long:?}");
    assert_eq!(rows[0], rows[2], "an alias is the same model");
}

#[tokio::test]
async fn an_unknown_model_is_refused_with_the_names_of_all() {
    let rig = rig();
    let attested = rig.attest().await;
    let Ok(answer) = rig.exchange(&attested, ask(SECRET)).await else {
        panic!("refused")
    };
    let text = String::from_utf8(answer.response.content.to_vec()).unwrap();
    assert_eq!(answer.response.status, 404);
    assert_eq!(code(text.as_bytes()), "model_not_found");
    assert!(text.contains("`toy`, `long-toy`"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn every_model_is_listed_under_each_name() {
    let rig = rig();
    let attested = rig.attest().await;
    let list = bare_request("GET", "/v1/models");
    let Ok(answer) = rig.exchange(&attested, list).await else {
        panic!("refused")
    };
    let json: Value = serde_json::from_slice(&answer.response.content).unwrap();
    let models = json["data"].as_array().unwrap();
    let names: Vec<_> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(names, [MODEL, ALIAS, LONG]);
    let normalised = models.iter().map(|model| &model["clearseal"]["normalised"]);
    assert_eq!(normalised.collect::<Vec<_>>(), [true, true, false]);
}

#[tokio::test]
async fn all_models_share_the_memory_for_large_answers() {
    let rig = rig();
    let first = rig.attest().await;
    let second = rig.attest_with(demand_second).await;
    let many: Vec<_> = (0..2000).map(|_| "a").collect();
    let all = rig.service.hold_all_answer_memory().await;
    for (attested, model) in [(&first, MODEL), (&second, LONG)] {
        let large = embeddings(&json!({"model": model, "input": many}));
        let Ok(answer) = rig.exchange(attested, large).await else {
            panic!("refused")
        };
        assert_eq!(answer.response.status, 429);
        assert_eq!(code(&answer.response.content), "MEMORY_BUSY");
    }
    drop(all);
}

#[tokio::test]
async fn models_share_the_threads() {
    // As many turns as threads of one model: both are held by batches of the second.
    let held = Arc::new(HeldToy::default());
    let rig = Arc::new(Rig::with(Options {
        others: vec![(LONG, held.clone())],
        ..Options::default()
    }));
    let second = Arc::new(rig.attest_with(demand_second).await);
    let mut waiting = Vec::new();
    for begun in 1..=2 {
        let (rig, second) = (Arc::clone(&rig), Arc::clone(&second));
        let exchange = async move { rig.exchange(&second, ask(LONG)).await.is_ok() };
        waiting.push(tokio::spawn(exchange));
        held.wait_begun(begun).await;
    }
    let first = Arc::new(rig.attest().await);
    let mut other = tokio::spawn({
        let rig = Arc::clone(&rig);
        async move { rig.exchange(&first, ask(MODEL)).await.is_ok() }
    });
    // Without a turn the first model waits, although its own threads are idle.
    let waits = tokio::time::timeout(Duration::from_millis(300), &mut other).await;
    assert!(waits.is_err());
    // One batch ends, so the first model computes although another one of the second does not end.
    held.release(1);
    assert!(other.await.unwrap());
    held.release(1);
    for exchange in waiting {
        assert!(exchange.await.unwrap());
    }
}

#[tokio::test]
async fn two_models_with_one_name_are_not_served() {
    let model = |name: &str, aliases: &[&str]| {
        let tokenizer = Tokenizer::from_json(&tokenizer_json(), 16).unwrap();
        let pool = Pool::start(Arc::new(Toy), 1, PoolLimits::default()).unwrap();
        ServedModel {
            identity: Arc::new(identity_of(name, &Toy)),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            task: Task::of(Embedder::new(tokenizer, pool).unwrap()),
        }
    };
    let refused = |models| Models::new(models).err();
    assert_eq!(refused(Vec::new()), Some(ModelsError::None));
    let twice = Some(ModelsError::NameTwice("b".to_owned()));
    assert_eq!(refused(vec![model("a", &["b"]), model("b", &[])]), twice);
    assert_eq!(
        refused(vec![model("x/b", &["b"]), model("y/b", &["b"])]),
        twice
    );
    assert_eq!(refused(vec![model("a", &["b"]), model("c", &["d"])]), None);
}
