//! Prompts: the model reads them before each text, the answer states them, and the proof of a vector covers them.

use attestation::{Policy, SignatureMemory, Verdict};
use engine::Prompts;
use protocol::bundle::AuditBundle;
use protocol::items::{Evidence, Input, prove};
use protocol::vectors::{Vectors, stated_prompt};
use serde_json::{Value, json};

use crate::common::{Attested, MODEL, Options, Rig, embeddings};

fn rig(default: Option<&str>) -> Rig {
    let texts = [("query", "hello "), ("document", "")].into_iter();
    Rig::with(Options {
        prompts: Prompts {
            texts: texts
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .collect(),
            default: default.map(str::to_owned),
        },
        ..Options::default()
    })
}

/// The request with these further members.
fn with(members: &Value) -> Value {
    let mut body = json!({"model": MODEL, "input": ["world"]});
    let members = members.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    body
}

#[tokio::test]
async fn a_chosen_prompt_precedes_each_text() {
    let rig = rig(None);
    let (_, joined) = rig
        .embed(json!({"model": MODEL, "input": ["hello world"]}))
        .await;
    assert!(joined["clearseal"].get("prompt").is_none());
    for members in [
        json!({"prompt_name": "query"}),
        json!({"prompt": "hello "}),
        json!({"input_type": "query"}),
    ] {
        let (status, prompted) = rig.embed(with(&members)).await;
        assert_eq!(status, 200, "{prompted}");
        assert_eq!(prompted["data"], joined["data"], "{members}");
        assert_eq!(prompted["clearseal"]["prompt"], "hello ");
        assert!(prompted["clearseal"].get("ignored").is_none());
    }
    let (_, bare) = rig.embed(with(&json!({}))).await;
    assert_ne!(bare["data"], joined["data"]);
    for (members, is_chosen) in [
        (json!({"prompt_name": "document"}), true),
        (json!({"prompt": ""}), true),
        (
            json!({"prompt": null, "prompt_name": null, "input_type": null}),
            false,
        ),
        (json!({"input_type": "document"}), true),
    ] {
        let (_, without) = rig.embed(with(&members)).await;
        assert_eq!(without["data"], bare["data"], "{members}");
        assert!(without["clearseal"].get("prompt").is_none());
        let available = match is_chosen {
            true => json!(null),
            false => json!(["document", "query"]),
        };
        assert_eq!(without["clearseal"]["prompts_available"], available);
    }
}

#[tokio::test]
async fn the_default_prompt_precedes_texts_unless_a_request_chooses() {
    let (prompted, plain) = (rig(Some("query")), rig(None));
    let (_, default) = prompted.embed(with(&json!({}))).await;
    let (_, named) = plain.embed(with(&json!({"prompt_name": "query"}))).await;
    assert_eq!(default["data"], named["data"]);
    assert_eq!(default["clearseal"]["prompt"], "hello ");
    assert!(default["clearseal"].get("prompts_available").is_none());
    let (_, none) = prompted.embed(with(&json!({"prompt": ""}))).await;
    let (_, bare) = plain.embed(with(&json!({}))).await;
    assert_eq!(none["data"], bare["data"]);
}

#[tokio::test]
async fn refusals_name_the_member_and_the_models_prompts() {
    let rig = rig(None);
    for (members, code, param) in [
        (json!({"prompt_name": "x"}), "PROMPT_UNKNOWN", "prompt_name"),
        (
            json!({"prompt_name": "query", "prompt": ""}),
            "PROMPT_AMBIGUOUS",
            "prompt",
        ),
        (
            json!({"prompt_name": "query", "input": [5], "tokenizer": MODEL}),
            "PROMPT_WITH_TOKENS",
            "prompt_name",
        ),
        (
            json!({"prompt": "a".repeat(4097)}),
            "PROMPT_TOO_LONG",
            "prompt",
        ),
        (
            json!({"input_type": "search"}),
            "REQUEST_INVALID",
            "input_type",
        ),
    ] {
        let (status, body) = rig.embed(with(&members)).await;
        let error = &body["error"];
        assert_eq!(
            (status, &error["code"], &error["param"]),
            (400, &json!(code), &json!(param)),
            "{body}"
        );
        if code == "PROMPT_UNKNOWN" {
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("`document`, `query`"), "{message}");
        }
    }
    // A model without prompts refuses too: ignoring the member would change no vector without a word.
    let (_, body) = Rig::new()
        .embed(with(&json!({"input_type": "query"})))
        .await;
    assert_eq!(body["error"]["code"], "PROMPT_UNKNOWN");
}

#[tokio::test]
async fn models_list_their_prompts() {
    let rig = rig(Some("query"));
    let attested = rig.attest().await;
    let request = fixtures::enclave::bare_request("GET", "/v1/models/toy");
    let Ok(answer) = rig.exchange(&attested, request).await else {
        panic!("the model was not answered")
    };
    let model: Value = serde_json::from_slice(&answer.response.content).unwrap();
    let listed = &model["clearseal"];
    assert_eq!(listed["prompts"], json!(["document", "query"]));
    assert_eq!(listed["default_prompt"], "query");
}

#[tokio::test]
async fn the_proof_of_a_vector_covers_its_prompt() {
    let rig = rig(None);
    let attested = rig.attest().await;
    let (_, policy) = rig.get("/v1/development-policy").await;
    let policy = Policy::with_evidence(&policy).unwrap();
    for format in ["float", "tensors"] {
        let body = with(&json!({"prompt_name": "query", "encoding_format": format}));
        let Ok(answer) = rig.exchange(&attested, embeddings(&body)).await else {
            panic!("{format} was not answered")
        };
        let content = &answer.response.content;
        let vector: Vec<f32> = match Vectors::decode(content) {
            Ok(vectors) => {
                assert_eq!(stated_prompt(content), Some("hello "));
                vectors.values
            }
            Err(_) => {
                let body: Value = serde_json::from_slice(content).unwrap();
                serde_json::from_value(body["data"][0]["embedding"].clone()).unwrap()
            }
        };
        let Attested {
            document, manifest, ..
        } = &attested;
        let bundle = AuditBundle::of(&answer, document.clone(), manifest.clone(), true).unwrap();
        let (evidence, proofs) = prove(&bundle).unwrap();
        assert_eq!(evidence.prompt, "hello ");
        let code = |evidence: &Evidence, text| {
            let memory = &mut SignatureMemory::new();
            let input = Input::Text(text);
            let judged = evidence.verify(&proofs[0], input, &vector, &policy, memory);
            let receipt = judged.unwrap().receipt;
            assert_eq!(
                receipt.verdict == Verdict::Simulated,
                receipt.code.is_none()
            );
            receipt.code.unwrap_or_default()
        };
        let evidence = Evidence::from_json(&evidence.to_json()).unwrap();
        assert_eq!(code(&evidence, "world"), "");
        assert_eq!(code(&evidence, "hello world"), "RESPONSE_HASH_MISMATCH");
        let bare = Evidence {
            prompt: String::new(),
            ..evidence
        };
        for text in ["world", "hello world"] {
            assert_eq!(code(&bare, text), "RESPONSE_HASH_MISMATCH");
        }
    }
}
