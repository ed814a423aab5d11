//! A file that does not fit is refused, and the message says where.

use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensors};

use super::super::{LoadError, Shape, Weights};
use super::{TINY, Tensors, file, random_model};

const UP: &str = "encoder.layer.1.intermediate.dense.weight";

fn load(bytes: &[u8], shape: Shape) -> Result<Weights, LoadError> {
    Weights::load(&SafeTensors::deserialize(bytes).unwrap(), shape)
}

fn refused(change: impl FnOnce(&mut Tensors)) -> LoadError {
    let mut tensors = random_model(&TINY, 1);
    change(&mut tensors);
    load(&file(&tensors, ""), TINY).err().unwrap()
}

#[test]
fn names_are_found_with_and_without_prefix() {
    let tensors = random_model(&TINY, 1);
    for prefix in ["", "bert."] {
        let weights = load(&file(&tensors, prefix), TINY).unwrap();
        let floats: usize = tensors.values().map(|(_, values)| values.len()).sum();
        let types = TINY.token_types * TINY.hidden;
        assert_eq!(
            weights.bytes(),
            (floats - types) * 4,
            "all but the token types"
        );
    }
    let error = load(&file(&tensors, "roberta."), TINY).err().unwrap();
    assert!(matches!(error, LoadError::Missing { .. }), "{error}");
}

#[test]
fn every_tensor_is_needed() {
    for name in random_model(&TINY, 1).keys() {
        match refused(|tensors| drop(tensors.remove(name))) {
            LoadError::Missing { name: found } => assert_eq!(&found, name),
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
            LoadError::Shape { name: found, .. } => assert_eq!(&found, name),
            other => panic!("{name}: {other}"),
        }
    }
    let error = refused(|tensors| tensors.get_mut(UP).unwrap().0.reverse());
    assert_eq!(
        error.to_string(),
        "FUSED_TENSOR_SHAPE: tensor `encoder.layer.1.intermediate.dense.weight` is [128, 224], \
         expected [224, 128]; config.json and the weights belong to different models"
    );
}

#[test]
fn every_weight_must_be_finite() {
    for name in random_model(&TINY, 1).keys() {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = refused(|tensors| tensors.get_mut(name).unwrap().1[3] = poison);
            match error {
                LoadError::NotFinite { name: found, at: 3 } => assert_eq!(&found, name),
                other => panic!("{name}: {other}"),
            }
        }
    }
}

#[test]
fn other_formats_are_refused() {
    let tensors = random_model(&TINY, 1);
    let halves: Vec<_> = tensors
        .iter()
        .map(|(name, (shape, values))| (name, shape.clone(), vec![0_u8; values.len() * 2]))
        .collect();
    let views = halves.iter().map(|(name, shape, bytes)| {
        (
            name,
            TensorView::new(Dtype::F16, shape.clone(), bytes).unwrap(),
        )
    });
    let error = load(&serialize(views, None).unwrap(), TINY).err().unwrap();
    assert!(
        matches!(
            error,
            LoadError::Dtype {
                found: Dtype::F16,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn unsupported_shapes_are_refused_before_anything_is_read() {
    for shape in [
        Shape { heads: 8, ..TINY },
        Shape { heads: 3, ..TINY },
        Shape { heads: 0, ..TINY },
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
            vocabulary: usize::MAX,
            ..TINY
        },
        Shape {
            norm_epsilon: f32::NAN,
            ..TINY
        },
    ] {
        let error = load(&file(&Tensors::new(), ""), shape).err().unwrap();
        assert!(
            matches!(error, LoadError::Unsupported { .. }),
            "{shape:?}: {error}"
        );
    }
}
