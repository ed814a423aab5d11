//! Compares the real model with embeddings that sentence-transformers computed from the same weights.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::path::PathBuf;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use clap::Parser;
use enclave_server::config::Config;
use enclave_server::model::{Model, pinned};
use engine::{CandleEncoder, Embedder, Encoder, Inputs, Overlong, Pool, PoolLimits};
use sealed_model::Manifest;
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    computed_with: String,
    max_seq_length: usize,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    text: String,
    ids: Vec<u32>,
    embedding: String,
}

impl Item {
    fn vector(&self) -> Vec<f32> {
        let bytes = Base64::decode_vec(&self.embedding).unwrap();
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect()
    }
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("reference/reference.json")).unwrap()
}

/// The server's folder of the model: `CLEARSEAL_MODEL`, or the cache.
fn folder() -> Option<PathBuf> {
    let folder = Config::parse_from(["enclave-server"]).model.remove(0);
    if folder.join("model.safetensors").exists() {
        return Some(folder);
    }
    forge::tell_skipped(&format!("no model in {}", folder.display()));
    None
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

#[tokio::test]
async fn tokens_and_embeddings_equal_the_reference() {
    let Some(folder) = folder() else { return };
    let reference = reference();
    let model = Model::load(&folder, &pinned::all_minilm_l6_v2().unwrap().files).unwrap();
    assert_eq!(model.recipe.max_tokens(), reference.max_seq_length);
    let tokenizer = model.build_tokenizer().unwrap();
    for item in &reference.items {
        let tokens = tokenizer.encode(&item.text).unwrap();
        assert_eq!(*tokens.ids, item.ids, "{:?}", item.text);
    }
    let (shape, weights) = model.into_parts().unwrap();
    let encoder: Arc<dyn Encoder> = Arc::new(CandleEncoder::new(shape, weights).unwrap());

    // One at a time.
    let (mut worst_cosine, mut worst_difference) = (1f64, 0f32);
    let mut alone = Vec::new();
    for item in &reference.items {
        let vector = encoder.encode(&[&item.ids]).unwrap();
        let expected = item.vector();
        let difference = vector
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0f32, f32::max);
        let cosine = cosine(&vector, &expected);
        worst_cosine = worst_cosine.min(cosine);
        worst_difference = worst_difference.max(difference);
        assert!(cosine >= 0.99999, "{:?}: {cosine}", item.text);
        alone.push(vector);
    }
    println!(
        "against {}: cosine at least {worst_cosine:.8}, difference at most {worst_difference:.1e}",
        reference.computed_with
    );

    // All at once, through the queue and in the batches that it forms.
    let pool = Pool::start(encoder, 2, PoolLimits::default()).unwrap();
    let embedder = Embedder::new(tokenizer, pool).unwrap();
    let texts = reference
        .items
        .iter()
        .map(|item| item.text.clone())
        .collect();
    let together = embedder
        .embed(Inputs::Texts(texts), Overlong::Cut)
        .await
        .unwrap();
    assert_eq!(together.items.len(), reference.items.len());
    for ((row, alone), (item, kept)) in together
        .values
        .chunks(together.dimension)
        .zip(&alone)
        .zip(reference.items.iter().zip(&together.items))
    {
        for (together, alone) in row.iter().zip(alone) {
            assert!(
                (together - alone).abs() <= 1e-6,
                "{:?}: {together} {alone}",
                item.text
            );
        }
        assert_eq!(kept.tokens, item.ids.len());
        assert_eq!(
            kept.truncated,
            item.ids.len() == reference.max_seq_length,
            "{:?}",
            item.text
        );
    }
}

/// The lock's vectors are not those of the engines that it tests.
#[test]
fn the_self_test_is_a_part_of_the_reference() {
    let reference = reference();
    let lock = pinned::all_minilm_l6_v2().unwrap();
    assert_eq!(lock.self_test.len(), 2);
    for test in lock.self_test {
        let mut items = reference.items.iter();
        let item = items.find(|item| item.text == test.text).unwrap();
        assert!(item.vector() == test.vector, "{:?}", test.text);
    }
}

#[test]
fn a_damaged_model_is_refused_by_name() {
    let Some(folder) = folder() else { return };
    let mut pins = pinned::all_minilm_l6_v2().unwrap().files.files().to_vec();
    let weights = pins
        .iter_mut()
        .find(|pin| pin.name == "model.safetensors")
        .unwrap();
    weights.sha256[0] ^= 1;
    let pins = Manifest::new(pins).unwrap();
    let Err(error) = Model::load(&folder, &pins) else {
        panic!("accepted")
    };
    assert_eq!(error.code(), "MODEL_FILE_DIGEST");
    assert!(error.to_string().contains("model.safetensors"), "{error}");
}
