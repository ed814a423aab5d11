//! Both engines compute equal embeddings for a thousand texts on the real model, in every batching; and tokens agree with the
//! library's.
//!
//! Without optimisation the kernels are too slow for all texts: `cargo test --release -p enclave-server --test agreement`
//! compares the thousand, the development build some of them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::num::NonZeroUsize;

use clap::Parser;
use enclave_server::config::Config;
use enclave_server::model::{Model, pinned};
use engine::{CandleEncoder, Encoder, FusedEncoder, Precision};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const COUNT: usize = if cfg!(debug_assertions) { 24 } else { 1000 };

/// The pinned model, or `None` where it is not on this machine.
fn model() -> Option<Model> {
    let folder = Config::parse_from(["enclave-server"]).model.remove(0);
    if !folder.join("model.safetensors").exists() {
        forge::tell_skipped(&format!("no model in {}", folder.display()));
        return None;
    }
    Some(Model::load(&folder, &pinned::all_minilm_l6_v2().unwrap().files).unwrap())
}

fn fused(precision: Precision, threads: usize) -> Option<FusedEncoder> {
    let model = model()?;
    let (shape, weights) = model.into_parts().unwrap();
    let threads = NonZeroUsize::new(threads).unwrap();
    Some(FusedEncoder::new(shape, weights, precision, threads).unwrap())
}

/// Tokens of the texts; in a development build only of short ones.
fn tokens(model: &Model) -> Vec<Vec<u32>> {
    let tokenizer = model.build_tokenizer().unwrap();
    fixtures::texts::texts(1000)
        .iter()
        .map(|text| tokenizer.encode(text).unwrap().ids.to_vec())
        .filter(|ids| !cfg!(debug_assertions) || ids.len() < 16)
        .take(COUNT)
        .collect()
}

fn bits(rows: &[f32]) -> Vec<u32> {
    rows.iter().map(|value| value.to_bits()).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn word_pieces_equal_those_of_the_library() {
    let Some(model) = model() else { return };
    let tokenizer = model.build_tokenizer().unwrap();
    let library =
        fixtures::tokenizer::word_pieces(&model.tokenizer, model.recipe.max_tokens()).unwrap();
    for text in fixtures::texts::texts(1000) {
        let ids = tokenizer.encode(&text).unwrap().ids;
        assert_eq!(*ids, library(&text).unwrap(), "{text:?}");
    }
    let texts = prop::collection::vec(
        prop_oneof![
            "[a-zA-Z]{1,12}",
            "[a-z]{1,4}(un|re|ing|ed|ation|s|ly)",
            "[ -~]{1,8}",
            "[\\x00-\\x7f]{1,3}",
            "[a-z]{98,103}",
            Just(" ".to_owned()),
        ],
        0..60,
    );
    let same = |parts: Vec<String>| {
        let text = parts.concat();
        let ids = tokenizer.encode(&text).unwrap().ids;
        prop_assert_eq!(&*ids, &library(&text).unwrap(), "{:?}", text);
        Ok(())
    };
    let config = ProptestConfig::with_cases(if cfg!(debug_assertions) { 256 } else { 20_000 });
    TestRunner::new(config).run(&texts, same).unwrap();
}

#[test]
fn every_precision_keeps_its_stated_cosine_to_f32() {
    let Some(model) = model() else { return };
    let tokens = tokens(&model);
    let exact = fused(Precision::F32, 2).unwrap();
    let exact: Vec<_> = tokens
        .iter()
        .map(|ids| exact.encode(&[ids]).unwrap())
        .collect();
    for precision in [Precision::F16, Precision::Bf16, Precision::Int8] {
        let encoder = fused(precision, 2).unwrap();
        let (mut least, mut sum) = (1_f64, 0.0);
        for (ids, expected) in tokens.iter().zip(&exact) {
            let cosine = cosine(expected, &encoder.encode(&[ids]).unwrap());
            least = least.min(cosine);
            sum += cosine;
        }
        println!(
            "{} over {COUNT} texts: cosine to f32 at least {least:.7}, {:.7} in the mean",
            encoder.name(),
            sum / tokens.len() as f64
        );
        assert!(least >= precision.least_cosine(), "{precision:?}: {least}");
        assert!(least < 1.0, "{precision:?} changes nothing");
    }
}

#[test]
fn fused_and_candle_agree() {
    let Some(model) = model() else { return };
    let tokens = tokens(&model);
    assert_eq!(tokens.len(), COUNT);
    let lengths: Vec<usize> = tokens.iter().map(Vec::len).collect();
    assert!(cfg!(debug_assertions) || lengths.contains(&256));
    assert!(lengths.contains(&2) && lengths.contains(&3));
    let (shape, weights) = model.into_parts().unwrap();
    let candle = CandleEncoder::new(shape, weights).unwrap();
    let fused = fused(Precision::F32, 2).unwrap();
    let (mut angle, mut difference) = (0_f64, 0_f32);
    for ids in &tokens {
        let expected = candle.encode(&[ids]).unwrap();
        let found = fused.encode(&[ids]).unwrap();
        angle = angle.max(1.0 - cosine(&expected, &found));
        let pairs = expected.iter().zip(&found);
        difference = pairs.map(|(a, b)| (a - b).abs()).fold(difference, f32::max);
    }
    println!(
        "{} against {} over {COUNT} texts: 1 - cosine at most {angle:.1e}, difference at most {difference:.1e}",
        fused.name(),
        candle.name()
    );
    assert!(angle <= 1e-9, "{angle:e}");
    assert!(difference <= 2e-6, "{difference:e}");
}

#[test]
fn a_text_has_the_same_bits_in_any_batch() {
    let Some(model) = model() else { return };
    let tokens = tokens(&model);
    let views: Vec<&[u32]> = tokens.iter().map(Vec::as_slice).collect();
    let encoder = fused(Precision::F32, 2).unwrap();
    let together = bits(&encoder.encode(&views).unwrap());
    // A second load simulates a restart.
    for encoder in [encoder, fused(Precision::F32, 1).unwrap()] {
        for (ids, row) in views.iter().zip(together.chunks(encoder.dimension())) {
            assert!(bits(&encoder.encode(&[ids]).unwrap()) == row, "alone");
        }
        let size = if cfg!(debug_assertions) { 5 } else { 37 };
        let batches = views.chunks(size).flat_map(|batch| {
            let reversed: Vec<&[u32]> = batch.iter().rev().copied().collect();
            let rows = encoder.encode(&reversed).unwrap();
            let rows = rows.chunks(encoder.dimension()).rev();
            rows.flat_map(bits).collect::<Vec<_>>()
        });
        assert!(batches.eq(together.iter().copied()), "in batches");
    }
}
