//! Whole models against the f64 reference.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::super::{
    Activation, Architecture, Attention, Biases, EncodeError, Local, Pooling, Rotary, Shape,
};
use super::super::isa::Isa;
use super::super::{Precision, Weights, Worker};
use super::{Numbers, TINY, Tensors, random_model, reference, slices, weights, with_heads};
use crate::weights::read;

/// Bounds on the largest difference and on 1 − cosine in each precision.
const BOUNDS: [(Precision, f64, f64); 4] = [
    (Precision::F32, 2e-6, 1e-10),
    (Precision::F16, 1e-3, 1e-6),
    (Precision::Bf16, 1e-2, 1e-4),
    (Precision::Int8, 2e-2, 1e-3),
];

/// Compares every sequence on every instruction set; returns the largest difference and the largest 1 − cosine.
fn compare(
    tensors: &Tensors,
    shape: Shape,
    precision: Precision,
    sequences: &[Vec<u32>],
) -> (f64, f64) {
    let expected: Vec<Vec<f64>> = sequences
        .iter()
        .map(|tokens| reference::embedding(tensors, &shape, tokens))
        .collect();
    let (mut worst, mut angle) = (0.0_f64, 0.0_f64);
    for isa in Isa::available() {
        let weights =
            Arc::new(Weights::load_for(weights(tensors, ""), shape, precision, isa).unwrap());
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
            feed_forward: 416,
            ..with_heads(Shape { hidden: 96, ..TINY }, 3)
        },
        Shape {
            layers: 1,
            feed_forward: 32,
            pooling: Pooling::First,
            ..with_heads(Shape { hidden: 64, ..TINY }, 1)
        },
        Shape {
            layers: 3,
            feed_forward: 256,
            token_types: 1,
            ..with_heads(Shape { hidden: 64, ..TINY }, 2)
        },
    ];
    let lengths: &[usize] = if cfg!(miri) {
        &[2]
    } else if cfg!(debug_assertions) {
        &[1, 9, 33]
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
        for (precision, most, widest) in BOUNDS {
            let (worst, angle) = compare(&tensors, shape, precision, &sequences);
            assert!(worst < most, "{precision:?}, {shape:?}: {worst:e}");
            assert!(angle < widest, "{precision:?}, {shape:?}: {angle:e}");
        }
    }
}

/// One model of each architecture, with everything that it has: local layers, shared heads, biases.
fn architectures() -> Vec<Shape> {
    let rotary = Rotary {
        theta: 10_000.0,
        local_theta: 100.0,
    };
    let none = Biases {
        attention: false,
        feed_forward: false,
        norm: false,
    };
    let local = |full| {
        Some(Local {
            reach: 5,
            every: 2,
            full,
        })
    };
    let shared = Shape {
        heads: 4,
        key_value_heads: 2,
        head: 32,
        token_types: 0,
        activation: Activation::Silu,
        biases: none,
        attention: Attention {
            causal: true,
            local: None,
        },
        rotary,
        pooling: Pooling::Last,
        ..TINY
    };
    vec![
        Shape {
            architecture: Architecture::Roberta,
            first_position: 2,
            positions: 72,
            activation: Activation::Relu,
            ..TINY
        },
        Shape {
            architecture: Architecture::DistilBert,
            token_types: 0,
            activation: Activation::GeluTanh,
            ..TINY
        },
        Shape {
            architecture: Architecture::Mpnet,
            first_position: 2,
            positions: 72,
            token_types: 0,
            ..TINY
        },
        Shape {
            architecture: Architecture::NomicBert,
            activation: Activation::Silu,
            biases: Biases { norm: true, ..none },
            rotary,
            ..TINY
        },
        Shape {
            architecture: Architecture::ModernBert,
            token_types: 0,
            biases: none,
            attention: Attention {
                causal: false,
                local: local(0),
            },
            rotary,
            layers: 3,
            ..TINY
        },
        Shape {
            architecture: Architecture::Qwen3,
            ..shared
        },
        Shape {
            architecture: Architecture::Gemma3,
            activation: Activation::GeluTanh,
            attention: Attention {
                causal: false,
                local: local(1),
            },
            heads: 3,
            key_value_heads: 1,
            head: 64,
            pooling: Pooling::Mean,
            ..shared
        },
    ]
}

#[test]
fn every_architecture_matches_the_reference() {
    let lengths: &[usize] = if cfg!(miri) { &[3] } else { &[1, 9, 40] };
    for (seed, shape) in architectures().into_iter().enumerate() {
        let tensors = random_model(&shape, seed as u64);
        let mut numbers = Numbers(98);
        let sequences: Vec<_> = lengths
            .iter()
            .map(|length| numbers.tokens(*length, shape.vocabulary))
            // A text may hold the padding token, whose id is 1.
            .map(|tokens| tokens.iter().map(|token| token % 9).collect())
            .collect();
        for (precision, most, widest) in BOUNDS {
            let (worst, angle) = compare(&tensors, shape, precision, &sequences);
            assert!(worst < most, "{precision:?}, {shape:?}: {worst:e}");
            assert!(angle < widest, "{precision:?}, {shape:?}: {angle:e}");
        }
    }
}

#[test]
fn the_real_model_matches_the_reference() {
    let Some(folder) = std::env::var_os("CLEARSEAL_MODEL").map(PathBuf::from) else {
        println!("skipped: CLEARSEAL_MODEL names no folder");
        return;
    };
    let file = File::open(folder.join("model.safetensors")).unwrap();
    let size = file.metadata().unwrap().len();
    let (weights_read, _) = read(file, size).unwrap();
    let architecture = std::fs::read(folder.join("config.json")).unwrap();
    let shape = Shape::parse(&architecture, 256, Pooling::Mean).unwrap();
    let tensors: Tensors = weights_read
        .into_tensors()
        .into_iter()
        .map(|(name, weight)| (name, (weight.shape, weight.values)))
        .collect();
    let mut numbers = Numbers(5);
    let lengths: &[usize] = if cfg!(debug_assertions) {
        &[3]
    } else {
        &[1, 2, 9, 40, 128, 256]
    };
    let sequences: Vec<_> = lengths
        .iter()
        .map(|length| numbers.tokens(*length, shape.vocabulary))
        .collect();
    for (precision, most, widest) in BOUNDS {
        let (worst, angle) = compare(&tensors, shape, precision, &sequences);
        println!("{precision:?}: largest difference {worst:.2e}, 1 - cosine {angle:.2e}");
        assert!(worst < most, "{precision:?}: {worst:e}");
        assert!(angle < widest, "{precision:?}: {angle:e}");
    }
}

#[test]
fn sequences_outside_the_limits_are_refused() {
    let weights = weights(&random_model(&TINY, 1), "");
    let weights = Arc::new(Weights::load(weights, TINY, Precision::F32).unwrap());
    let mut worker = Worker::new(weights, NonZeroUsize::MIN).unwrap();
    let mut out = vec![0.0; 2 * TINY.hidden];
    let long = vec![1; TINY.positions + 1];
    let refused = worker.encode(&[&[1], &long], &mut out);
    assert!(matches!(
        refused,
        Err(EncodeError::Length {
            index: 1,
            length: 71,
            max: 70
        })
    ));
    let refused = worker.encode(&[&[1], &[]], &mut out);
    assert!(matches!(
        refused,
        Err(EncodeError::Length {
            index: 1,
            length: 0,
            ..
        })
    ));
    let refused = worker.encode(&[&[1], &[67]], &mut out);
    assert!(matches!(
        refused,
        Err(EncodeError::Token {
            index: 1,
            vocabulary: 67
        })
    ));
    let refused = worker.encode(&[&[1]], &mut out);
    assert!(matches!(
        refused,
        Err(EncodeError::Output {
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
    let weights = Arc::new(Weights::load(weights(&tensors, ""), TINY, Precision::F32).unwrap());
    let mut worker = Worker::new(weights, NonZeroUsize::MIN).unwrap();
    let refused = worker.encode(&[&[1, 2, 3]], &mut vec![0.0; TINY.hidden]);
    assert!(matches!(refused, Err(EncodeError::NotFinite { index: 0 })));
}
