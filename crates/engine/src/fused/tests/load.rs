//! A file that does not match is refused, and the message names the tensor.

use std::num::NonZeroUsize;

use super::super::super::{FusedEncoder, Head, LoadError, Pooling, Shape};
use super::super::{Precision, Weights};
use super::{TINY, Tensors, random_model, weights, with_heads};

const UP: &str = "encoder.layer.1.intermediate.dense.weight";

fn load_error(change: impl FnOnce(&mut Tensors)) -> LoadError {
    let mut tensors = random_model(&TINY, 1);
    change(&mut tensors);
    Weights::load(weights(&tensors, ""), TINY, Precision::F32)
        .err()
        .unwrap()
}

#[test]
fn names_are_found_with_and_without_prefix() {
    let tensors = random_model(&TINY, 1);
    for prefix in ["", "bert."] {
        let weights = Weights::load(weights(&tensors, prefix), TINY, Precision::F32).unwrap();
        assert_eq!(weights.layers().len(), TINY.layers, "{prefix}");
    }
    let error = Weights::load(weights(&tensors, "roberta."), TINY, Precision::F32)
        .err()
        .unwrap();
    assert!(matches!(error, LoadError::Missing { .. }), "{error}");
}

#[test]
fn every_tensor_is_needed() {
    for name in random_model(&TINY, 1).keys() {
        match load_error(|tensors| drop(tensors.remove(name))) {
            LoadError::Missing { name: found, .. } => assert_eq!(&found, name),
            other => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn every_tensor_must_have_its_shape() {
    for name in random_model(&TINY, 1).keys() {
        let error = load_error(|tensors| {
            let (shape, values) = tensors.get_mut(name).unwrap();
            values.truncate(values.len() / shape[0] * (shape[0] - 1));
            shape[0] -= 1;
        });
        match error {
            LoadError::TensorShape { name: found, .. } => assert_eq!(&found, name),
            other => panic!("{name}: {other}"),
        }
    }
    let error = load_error(|tensors| tensors.get_mut(UP).unwrap().0.reverse());
    assert_eq!(error.code(), "ENGINE_TENSOR_SHAPE");
    assert_eq!(
        error.to_string(),
        "tensor `encoder.layer.1.intermediate.dense.weight` is [128, 224], expected [224, 128]"
    );
}

#[test]
fn a_weight_without_a_value_in_the_precision_is_refused() {
    const WORDS: &str = "embeddings.word_embeddings.weight";
    const BIAS: &str = "encoder.layer.0.output.dense.bias";
    use Precision::{Bf16, F16, F32, Int8};
    for (name, value, refused) in [
        (UP, 65_504.0, &[][..]),
        (UP, -65_520.0, &[F16]),
        (UP, f32::MAX, &[F16, Bf16]),
        (WORDS, 65_504.0, &[]),
        // The embedding table is stored as f16 with int8 weights too.
        (WORDS, 1e6, &[F16, Int8]),
        (BIAS, 1e6, &[]),
    ] {
        for precision in [F32, F16, Bf16, Int8] {
            let mut tensors = random_model(&TINY, 1);
            tensors.get_mut(name).unwrap().1[3] = value;
            let loaded = Weights::load(weights(&tensors, ""), TINY, precision);
            match loaded.err() {
                None => assert!(!refused.contains(&precision), "{precision:?} {name}"),
                Some(LoadError::TensorRange {
                    name: found, kept, ..
                }) => {
                    assert!(refused.contains(&precision), "{precision:?} {name}");
                    let words_beside_integers = precision == Int8;
                    assert_eq!(
                        kept,
                        if words_beside_integers {
                            F16
                        } else {
                            precision
                        }
                    );
                    assert_eq!(found, name);
                }
                Some(other) => panic!("{name}: {other}"),
            }
        }
    }
}

#[test]
fn a_head_for_another_encoder_is_refused() {
    for features in [TINY.hidden - 32, TINY.hidden + 32] {
        let head = Head::unit(features, Pooling::Mean);
        let weights = weights(&random_model(&TINY, 1), "");
        let one = NonZeroUsize::MIN;
        let built = FusedEncoder::with_head(TINY, head, weights, Precision::F32, one);
        assert_eq!(built.err().unwrap().code(), "ENGINE_CONFIG_UNSUPPORTED");
    }
}

#[test]
fn shapes_without_kernels_are_refused_before_anything_is_read() {
    for shape in [
        with_heads(TINY, 8),
        with_heads(
            Shape {
                hidden: 1056,
                ..TINY
            },
            33,
        ),
        Shape {
            feed_forward: 225,
            ..TINY
        },
        Shape {
            feed_forward: 4128,
            ..TINY
        },
    ] {
        let error = Weights::load(weights(&Tensors::new(), ""), shape, Precision::F32)
            .err()
            .unwrap();
        assert!(
            matches!(error, LoadError::Shape { .. }),
            "{shape:?}: {error}"
        );
    }
    for shape in [
        Shape { heads: 3, ..TINY },
        Shape { heads: 0, ..TINY },
        Shape {
            max_tokens: 71,
            ..TINY
        },
        Shape {
            vocabulary: usize::MAX,
            ..TINY
        },
        Shape {
            norm_epsilon: f32::NAN,
            ..TINY
        },
    ] {
        let error = Weights::load(weights(&Tensors::new(), ""), shape, Precision::F32)
            .err()
            .unwrap();
        assert!(matches!(error, LoadError::Config(_)), "{shape:?}: {error}");
    }
}
