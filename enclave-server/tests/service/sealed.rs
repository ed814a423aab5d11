//! The whole path: attest, verify, seal, answer, open, verify the receipt; and attacks on it.

use crate::common::{Attested, MODEL, Options, Rig, SECRET, code, embeddings, hello};
use attestation::{Aead, Kem};
use axum::http::StatusCode;
use base16ct::lower::encode_string as hex;
use getrandom::SysRng;
use merkle::json::{Leaves, from_json};
use protocol::exchange;
use protocol::inner::{InnerRequest, InnerResponse};
use protocol::ohttp;
use protocol::terms::{self, Terms};
use rand_core::{Rng, UnwrapErr};
use serde_json::{Value, json};

/// Terms of an honest client at the rig's time.
fn terms(rig: &Rig, attested: &Attested) -> Terms {
    let mut salt = [0; 32];
    UnwrapErr(SysRng).fill_bytes(&mut salt);
    Terms {
        date: rig.now(),
        nonce: vec![5; 16],
        salt,
        document: attested.verified.document_sha256(),
    }
}

/// Seals `inner` without the client library, and opens the answer.
async fn exchange_raw(rig: &Rig, attested: &Attested, inner: &[u8]) -> InnerResponse {
    let key = attested.verified.sealing_keys().remove(0);
    let (sealed, opener) =
        ohttp::encapsulate(&key, &[Aead::Aes256Gcm], inner, &mut UnwrapErr(SysRng)).unwrap();
    let (status, answer) = rig.post(sealed).await;
    assert_eq!(status, StatusCode::OK, "{answer:?}");
    InnerResponse::decode(&opener.open(&answer).unwrap()).unwrap()
}

#[tokio::test]
async fn a_text_is_embedded_and_the_receipt_verifies() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    // Leaf 0 holds the keys.
    for sequence in 1..3 {
        let answer = rig
            .exchange(&attested, hello())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(answer.response.status, 200);
        let body: serde_json::Value = serde_json::from_slice(&answer.response.content).unwrap();
        assert_eq!(body["data"][0]["embedding"].as_array().unwrap().len(), 4);
        assert_eq!(
            body["data"][0]["clearseal"],
            json!({"tokens": 4, "truncated": false})
        );
        assert_eq!(
            body["usage"],
            json!({"prompt_tokens": 4, "total_tokens": 4})
        );
        assert_eq!(body["model"], MODEL);
        assert_eq!(
            answer.receipt.as_ref().unwrap().report.verdict,
            attestation::Verdict::Simulated
        );
        let claims = answer.receipt.unwrap().report.claims.unwrap();
        assert_eq!(claims.sequence_number, sequence);
        // An exact peak would reveal the size of a request, an exact time the length of its text.
        assert!(claims.memory_peak_mb > 0 && claims.memory_peak_mb.is_multiple_of(64));
        assert!(claims.execution_time_ms.is_power_of_two());
    }
}

#[tokio::test]
async fn both_key_encapsulations_and_every_cipher_are_answered() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let keys = attested.verified.sealing_keys();
    assert_eq!(
        keys.iter().map(|key| key.config().kem).collect::<Vec<_>>(),
        [Kem::XWing, Kem::X25519]
    );
    for key in keys {
        for aead in Aead::ALL {
            let mut request = hello();
            terms(&rig, &attested).write(&mut request).unwrap();
            let (sealed, opener) = ohttp::encapsulate(
                &key,
                &[aead],
                &request.encode_padded().unwrap(),
                &mut UnwrapErr(SysRng),
            )
            .unwrap();
            let (_, answer) = rig.post(sealed).await;
            let response = InnerResponse::decode(&opener.open(&answer).unwrap()).unwrap();
            assert_eq!(response.status, 200);
            assert!(response.header(terms::RECEIPT).is_some());
        }
    }
}

#[tokio::test]
async fn a_replay_is_refused() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let mut request = hello();
    terms(&rig, &attested).write(&mut request).unwrap();
    let key = attested.verified.sealing_keys().remove(0);
    let (sealed, opener) = ohttp::encapsulate(
        &key,
        &[Aead::Aes256Gcm],
        &request.encode_padded().unwrap(),
        &mut UnwrapErr(SysRng),
    )
    .unwrap();
    assert_eq!(rig.post(sealed.clone()).await.0, StatusCode::OK);
    rig.advance(299);
    let (_, second) = rig.post(sealed).await;
    let response = InnerResponse::decode(&opener.open(&second).unwrap()).unwrap();
    assert_eq!(
        (response.status, code(&response.content).as_str()),
        (400, "REPLAYED")
    );
    assert!(response.header(terms::RECEIPT).is_none());
}

#[tokio::test]
async fn only_an_inference_gets_a_receipt_and_a_leaf() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let log = hex(attested.verified.receipt_key().bytes());
    let get = |path: &str| fixtures::enclave::bare_request("GET", path);
    let inputs = |body| embeddings(&body);
    for (request, status) in [
        (get("/v1/models"), 200),
        (
            InnerRequest {
                method: "HEAD".into(),
                ..get("/v1/models")
            },
            200,
        ),
        (get("/v1/models/toy"), 200),
        (get("/v1/models/other"), 404),
        (get("/v1/embeddings"), 405),
        (get("/no-such-endpoint"), 404),
        (inputs(json!({"model": "other", "input": "hello"})), 404),
        (inputs(json!({"model": MODEL, "input": ""})), 400),
        (
            inputs(json!({"model": MODEL, "input": [99_999], "tokenizer": MODEL})),
            400,
        ),
        (inputs(json!({"model": MODEL, "input": "panic"})), 500),
        (inputs(json!([])), 400),
    ] {
        terms_and_no_receipt(&rig, &attested, request, status).await;
    }
    assert!(rig.exchange(&attested, hello()).await.is_ok());
    let path = format!("/v1/log/leaves?log={log}&from=0");
    let leaves: Leaves = from_json(&rig.get(&path).await.1).unwrap();
    assert_eq!(leaves.leaves.len(), 2, "the keys, and the receipt");
}

#[tokio::test]
async fn counters_are_sealed_powers_of_two() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let counters = async || {
        let request = fixtures::enclave::bare_request("GET", "/v1/counters");
        let answer = rig.exchange(&attested, request).await.unwrap();
        let body: Value = serde_json::from_slice(&answer.response.content).unwrap();
        assert_eq!(body["object"], "counters");
        let count = |name: &str| body["at_least"][name].as_u64().unwrap();
        ["computed", "answered", "refused", "failed"].map(count)
    };
    assert_eq!(counters().await, [0, 0, 0, 0]);
    // Small counts, which a single request could change, are shown as 0.
    for _ in 0..3 {
        rig.exchange(&attested, hello()).await.unwrap();
    }
    let (failed, _) = rig.embed(json!({"model": MODEL, "input": "panic"})).await;
    assert_eq!(failed, 500);
    assert_eq!(counters().await, [0, 0, 0, 0]);
    // A count of 127 has passed every threshold below 128.
    for input in ["hello", ""] {
        for _ in 0..127 {
            let request = embeddings(&json!({"model": MODEL, "input": input}));
            rig.exchange(&attested, request).await.unwrap();
        }
    }
    let [computed, answered, refused, failed] = counters().await;
    assert!(matches!(computed, 64 | 128), "{computed}");
    assert!(matches!(answered, 64 | 128), "{answered}");
    assert_eq!([refused, failed], [64, 0]);
}

async fn terms_and_no_receipt(
    rig: &Rig,
    attested: &Attested,
    mut request: InnerRequest,
    status: u16,
) {
    terms(rig, attested).write(&mut request).unwrap();
    let response = exchange_raw(rig, attested, &request.encode_padded().unwrap()).await;
    assert_eq!(
        response.status, status,
        "{} {}",
        request.method, request.path
    );
    assert!(response.header(terms::RECEIPT).is_none());
}

#[tokio::test]
async fn a_date_outside_the_window_is_refused() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    for (ahead, refused) in [(0, false), (299, false), (301, true)] {
        let mut request = hello();
        terms(&rig, &attested).write(&mut request).unwrap();
        let inner = request.encode_padded().unwrap();
        rig.advance(ahead);
        let response = exchange_raw(&rig, &attested, &inner).await;
        assert_eq!(response.status == 400, refused, "{ahead}");
        if refused {
            assert_eq!(code(&response.content), "DATE_OUT_OF_WINDOW");
            assert!(response.header(terms::RECEIPT).is_none());
        }
    }
}

#[tokio::test]
async fn only_documents_of_this_enclave_are_named_in_receipts() {
    let (rig, other) = (Rig::new(), Rig::new());
    let attested = rig.attest().await;
    let foreign = other.attest().await;
    let mut terms = terms(&rig, &attested);
    terms.document = foreign.verified.document_sha256();
    let mut request = hello();
    terms.write(&mut request).unwrap();
    let response = exchange_raw(&rig, &attested, &request.encode_padded().unwrap()).await;
    assert_eq!(
        (response.status, code(&response.content).as_str()),
        (400, "DOCUMENT_UNKNOWN")
    );
    assert!(response.header(terms::RECEIPT).is_none());
}

#[tokio::test]
async fn each_client_gets_a_receipt_about_its_own_document() {
    let rig = Rig::new();
    let (first, second) = (rig.attest().await, rig.attest().await);
    assert_ne!(first.document, second.document);
    for attested in [&first, &second, &first] {
        let answer = rig
            .exchange(attested, hello())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let claims = answer.receipt.unwrap().report.claims.unwrap();
        assert_eq!(
            claims.attestation_doc_hash,
            hex(&attested.verified.document_sha256())
        );
    }
}

#[tokio::test]
async fn missing_terms_get_a_sealed_refusal() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    let response = exchange_raw(&rig, &attested, &hello().encode_padded().unwrap()).await;
    assert_eq!(
        (response.status, code(&response.content).as_str()),
        (400, "TERMS_MALFORMED")
    );
}

#[tokio::test]
async fn sealed_garbage_gets_a_sealed_answer() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    for garbage in [
        &[][..],
        &[0xff; 64],
        b"POST /v1/embeddings HTTP/1.1\r\n\r\n",
    ] {
        let response = exchange_raw(&rig, &attested, garbage).await;
        assert_eq!(response.status, 400);
        assert!(
            code(&response.content).starts_with("INNER_"),
            "{}",
            code(&response.content)
        );
    }
}

#[tokio::test]
async fn keys_are_accepted_through_their_overlap_and_no_longer() {
    let rig = Rig::new();
    let old = rig.attest().await;
    rig.advance(3600);
    rig.service.rotate().unwrap();
    let new = rig.attest().await;
    let ids = |attested: &Attested| {
        attested
            .verified
            .sealing_keys()
            .iter()
            .map(|key| key.config().key_id)
            .collect::<Vec<_>>()
    };
    assert!(
        ids(&old).iter().all(|id| !ids(&new).contains(id)),
        "key identifiers advance"
    );
    assert!(rig.exchange(&old, hello()).await.is_ok());
    assert!(rig.exchange(&new, hello()).await.is_ok());
    // After the overlap, before and after the old generation is dropped.
    let (sealed, _) =
        exchange::begin(&old.verified, hello(), rig.now(), &mut UnwrapErr(SysRng)).unwrap();
    rig.advance(601);
    let (status, problem) = rig.post(sealed.clone()).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::BAD_REQUEST, "KEY_UNKNOWN")
    );
    rig.advance(60);
    rig.service.remove_expired();
    assert_eq!(code(&rig.post(sealed).await.1), "KEY_UNKNOWN");
    let fresh = rig.attest().await;
    assert!(rig.exchange(&fresh, hello()).await.is_ok());
}

#[tokio::test]
async fn a_document_of_another_generation_is_refused() {
    let rig = Rig::new();
    let old = rig.attest().await;
    rig.service.rotate().unwrap();
    let new = rig.attest().await;
    let mut terms = terms(&rig, &new);
    terms.document = old.verified.document_sha256();
    let mut request = hello();
    terms.write(&mut request).unwrap();
    let response = exchange_raw(&rig, &new, &request.encode_padded().unwrap()).await;
    assert_eq!(code(&response.content), "DOCUMENT_UNKNOWN");
}

#[tokio::test]
async fn a_panic_is_a_sealed_500() {
    let rig = Rig::build(Options::default(), |inner| {
        inner.route(
            "/panic",
            axum::routing::get(async || -> &'static str { panic!("{SECRET}") }),
        )
    });
    let attested = rig.attest().await;
    let request = embeddings(&json!({"model": MODEL, "input": "panic"}));
    let answer = rig
        .exchange(&attested, request)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (
            answer.response.status,
            code(&answer.response.content).as_str()
        ),
        (500, "ENGINE_FAILED")
    );
    let panic = fixtures::enclave::bare_request("GET", "/panic");
    let answer = rig
        .exchange(&attested, panic)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (
            answer.response.status,
            code(&answer.response.content).as_str()
        ),
        (500, "INTERNAL")
    );
    assert!(
        rig.exchange(&attested, hello()).await.is_ok(),
        "the service goes on"
    );
}

#[tokio::test]
async fn every_answer_is_padded() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    for body in [
        json!({"model": MODEL, "input": "a"}),
        json!({"model": MODEL, "input": ["hello", "world"]}),
        json!({"model": "other", "input": "a"}),
    ] {
        let mut request = embeddings(&body);
        terms(&rig, &attested).write(&mut request).unwrap();
        let key = attested.verified.sealing_keys().remove(0);
        let inner = request.encode_padded().unwrap();
        let (sealed, opener) =
            ohttp::encapsulate(&key, &[Aead::Aes256Gcm], &inner, &mut UnwrapErr(SysRng)).unwrap();
        let answer = opener.open(&rig.post(sealed).await.1).unwrap();
        assert_eq!(answer.len(), protocol::padme::padded_len(answer.len()));
        assert!(
            answer.ends_with(&[0])
                || protocol::inner::unpadded_len(&answer).unwrap() == answer.len()
        );
    }
}

#[tokio::test]
async fn a_document_from_before_a_restart_is_refused_by_code() {
    let rig = Rig::new();
    let attested = rig.attest().await;
    // The same keys with an unknown hash, as if later documents had displaced it.
    let mut terms = terms(&rig, &attested);
    terms.document = [1; 32];
    let mut request = hello();
    terms.write(&mut request).unwrap();
    assert_eq!(
        code(
            &exchange_raw(&rig, &attested, &request.encode_padded().unwrap())
                .await
                .content
        ),
        exchange::DOCUMENT_UNKNOWN
    );
}

#[tokio::test]
async fn evidence_from_before_a_restart_leads_to_the_key_problem() {
    let (rig, earlier) = (Rig::new(), Rig::new());
    let foreign = earlier.attest().await;
    let (sealed, _) = exchange::begin(
        &foreign.verified,
        hello(),
        rig.now(),
        &mut UnwrapErr(SysRng),
    )
    .unwrap();
    // The identifier is unknown or, by chance, that of another key.
    let (status, problem) = rig.post(sealed).await;
    assert_eq!(
        (status, code(&problem).as_str()),
        (StatusCode::BAD_REQUEST, "KEY_UNKNOWN")
    );
}
