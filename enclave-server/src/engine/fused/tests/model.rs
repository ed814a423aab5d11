//! Whole models against the f64 reference.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};

use super::super::isa::Isa;
use super::super::{FusedError, Pooling, Shape, Weights, Worker};
use super::{Numbers, TINY, Tensors, file, random_model, reference, slices};

/// Compares every sequence on every instruction set; the largest difference and 1 − cosine.
fn compare(bytes: &[u8], tensors: &Tensors, shape: Shape, sequences: &[Vec<u32>]) -> (f64, f64) {
    let expected: Vec<Vec<f64>> = sequences
        .iter()
        .map(|tokens| reference::embedding(tensors, &shape, tokens))
        .collect();
    let (mut worst, mut angle) = (0.0_f64, 0.0_f64);
    for isa in Isa::available() {
        let parsed = SafeTensors::deserialize(bytes).unwrap();
        let weights = Arc::new(Weights::load_for(&parsed, shape, isa).unwrap());
        let mut worker = Worker::new(weights, NonZeroUsize::new(2).unwrap()).unwrap();
        let mut out = vec![0.0; sequences.len() * shape.hidden];
        worker.encode(&slices(sequences), &mut out).unwrap();
        for (found, expected) in out.chunks_exact(shape.hidden).zip(&expected) {
            let pairs = || found.iter().map(|x| f64::from(*x)).zip(expected);
            worst = pairs().map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
            let length = pairs().map(|(a, _)| a * a).sum::<f64>().sqrt();
            let cosine = pairs().map(|(a, b)| a * b).sum::<f64>() / length;
            angle = angle.max(1.0 - cosine);
        }
    }
    (worst, angle)
}

#[test]
fn random_models_match_the_reference() {
    let shapes = [
        TINY,
        Shape {
            hidden: 96,
            heads: 3,
            feed_forward: 416,
            ..TINY
        },
        Shape {
            hidden: 64,
            heads: 1,
            layers: 1,
            feed_forward: 32,
            pooling: Pooling::First,
            ..TINY
        },
        Shape {
            hidden: 64,
            heads: 2,
            layers: 3,
            feed_forward: 256,
            token_types: 1,
            ..TINY
        },
    ];
    let lengths: &[usize] = if cfg!(miri) {
        &[2]
    } else {
        &[1, 2, 9, 31, 32, 33, 64, 70]
    };
    for (seed, shape) in shapes.into_iter().enumerate() {
        let tensors = random_model(&shape, seed as u64);
        let mut numbers = Numbers(99);
        let sequences: Vec<_> = lengths
            .iter()
            .map(|length| numbers.tokens(*length, shape.vocabulary))
            .collect();
        let (worst, angle) = compare(&file(&tensors, ""), &tensors, shape, &sequences);
        assert!(worst < 2e-6, "{shape:?}: {worst:e}");
        assert!(angle < 1e-10, "{shape:?}: {angle:e}");
    }
}

#[test]
fn the_real_model_matches_the_reference() {
    let Some(folder) = std::env::var_os("CLEARSEAL_MODEL").map(PathBuf::from) else {
        println!("skipped: no CLEARSEAL_MODEL");
        return;
    };
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let tensors: Tensors = SafeTensors::deserialize(&bytes)
        .unwrap()
        .iter()
        .filter(|(_, view)| view.dtype() == Dtype::F32)
        .map(|(name, view)| {
            let (floats, _) = view.data().as_chunks::<4>();
            let values = floats
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect();
            (name.to_owned(), (view.shape().to_vec(), values))
        })
        .collect();
    let rows = |name: &str| tensors[&format!("embeddings.{name}_embeddings.weight")].0[0];
    let shape = Shape {
        hidden: 384,
        heads: 12,
        layers: 6,
        feed_forward: 1536,
        vocabulary: rows("word"),
        positions: rows("position"),
        token_types: rows("token_type"),
        norm_epsilon: 1e-12,
        pooling: Pooling::Mean,
    };
    let mut numbers = Numbers(5);
    let lengths: &[usize] = if cfg!(debug_assertions) {
        &[1, 17]
    } else {
        &[1, 2, 9, 40, 128, 256]
    };
    let sequences: Vec<_> = lengths
        .iter()
        .map(|length| numbers.tokens(*length, shape.vocabulary))
        .collect();
    let (worst, angle) = compare(&bytes, &tensors, shape, &sequences);
    println!("largest difference {worst:.2e}, 1 - cosine {angle:.2e}");
    assert!(worst < 2e-6, "{worst:e}");
    assert!(angle < 1e-10, "{angle:e}");
}

#[test]
fn what_cannot_be_indexed_is_refused() {
    let file = file(&random_model(&TINY, 1), "");
    let parsed = SafeTensors::deserialize(&file).unwrap();
    let weights = Arc::new(Weights::load(&parsed, TINY).unwrap());
    let mut worker = Worker::new(weights, NonZeroUsize::MIN).unwrap();
    let mut out = vec![0.0; 2 * TINY.hidden];
    let long = vec![1; TINY.positions + 1];
    let refused = worker.encode(&[&[1], &long], &mut out);
    assert!(matches!(
        refused,
        Err(FusedError::Length {
            index: 1,
            length: 71,
            max: 70
        })
    ));
    let refused = worker.encode(&[&[1], &[]], &mut out);
    assert!(matches!(
        refused,
        Err(FusedError::Length {
            index: 1,
            length: 0,
            ..
        })
    ));
    let refused = worker.encode(&[&[1], &[67]], &mut out);
    assert!(matches!(
        refused,
        Err(FusedError::Token {
            index: 1,
            vocabulary: 67
        })
    ));
    let refused = worker.encode(&[&[1]], &mut out);
    assert!(matches!(
        refused,
        Err(FusedError::Output {
            expected: 128,
            found: 256
        })
    ));
    worker.encode(&[], &mut []).unwrap();
    worker.encode(&[&[1], &[66]], &mut out).unwrap();
}

#[test]
fn weights_that_overflow_are_noticed() {
    let mut tensors = random_model(&TINY, 1);
    for value in &mut tensors
        .get_mut("encoder.layer.1.output.LayerNorm.weight")
        .unwrap()
        .1
    {
        *value = f32::MAX;
    }
    let file = file(&tensors, "");
    let parsed = SafeTensors::deserialize(&file).unwrap();
    let weights = Arc::new(Weights::load(&parsed, TINY).unwrap());
    let mut worker = Worker::new(weights, NonZeroUsize::MIN).unwrap();
    let refused = worker.encode(&[&[1, 2, 3]], &mut vec![0.0; TINY.hidden]);
    assert!(matches!(refused, Err(FusedError::NotFinite { index: 0 })));
}
