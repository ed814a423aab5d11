//! A file that does not fit is refused, and the message says where.

use super::super::super::{Activation, LoadError, Shape};
use super::super::{Precision, Weights};
use super::{TINY, Tensors, random_model, weights};

const UP: &str = "encoder.layer.1.intermediate.dense.weight";

fn refused(change: impl FnOnce(&mut Tensors)) -> LoadError {
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
        match refused(|tensors| drop(tensors.remove(name))) {
            LoadError::Missing { name: found, .. } => assert_eq!(&found, name),
            other => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn every_tensor_must_have_its_shape() {
    for name in random_model(&TINY, 1).keys() {
        let error = refused(|tensors| {
            let (shape, values) = tensors.get_mut(name).unwrap();
            values.truncate(values.len() / shape[0] * (shape[0] - 1));
            shape[0] -= 1;
        });
        match error {
            LoadError::TensorShape { name: found, .. } => assert_eq!(&found, name),
            other => panic!("{name}: {other}"),
        }
    }
    let error = refused(|tensors| tensors.get_mut(UP).unwrap().0.reverse());
    assert_eq!(
        error.to_string(),
        "ENGINE_TENSOR_SHAPE: tensor `encoder.layer.1.intermediate.dense.weight` is [128, 224], \
         expected [224, 128]; the weights do not belong to config.json"
    );
}

#[test]
fn shapes_without_kernels_are_refused_before_anything_is_read() {
    for shape in [
        Shape { heads: 8, ..TINY },
        Shape {
            hidden: 1056,
            heads: 33,
            ..TINY
        },
        Shape {
            feed_forward: 225,
            ..TINY
        },
        Shape {
            feed_forward: 4128,
            ..TINY
        },
        Shape {
            activation: Activation::Relu,
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
