//! Tests of the kernels against `f64`, on every instruction set of this processor.
//!
//! | run under | command | finds |
//! | --- | --- | --- |
//! | the processor | `cargo test -p engine --lib fused` | wrong numbers; reads of what no kernel wrote, which is NaN |
//! | Miri | `cargo +nightly miri test -p engine --lib fused` | undefined behaviour in `team` and the portable path |
//! | Miri, with AVX2 | the same with `RUSTFLAGS="-C target-feature=+avx2,+fma,+f16c"` | undefined behaviour in `isa/avx2` |
//! | valgrind | `CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --error-exitcode=1" cargo test -p engine --lib fused::tests::kernels` | reads and writes outside an allocation, in the machine code that ships |
//! | qemu, for NEON | `CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" cargo test --target aarch64-unknown-linux-gnu -p engine --lib fused` | as on the processor, in `isa/neon` |
//!
//! Miri takes tens of minutes for all tests; `team::`, `elementary::` and `kernels::` cover the `unsafe` code and its callers.
//! Neither Miri nor valgrind supports AVX-512; `docs/ASSURANCE.md` says how to test `isa/avx512` without such a processor.

mod determinism;
mod elementary;
mod kernels;
mod load;
mod model;
mod reference;

use std::collections::BTreeMap;

use super::super::{Activation, Pooling, Shape};
use crate::weights::{Weight, Weights};

/// Number of cases: `full` in a release build, `some` if the kernels are not optimised, `least` under Miri.
pub(super) const fn effort(full: usize, some: usize, least: usize) -> usize {
    if cfg!(miri) {
        least
    } else if cfg!(debug_assertions) {
        some
    } else {
        full
    }
}

/// A splitmix64 sequence, the same in every run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [−1, 1).
    pub(super) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(super) fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }

    pub(super) fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count)
            .map(|_| (self.next() % vocabulary as u64) as u32)
            .collect()
    }
}

/// Tensors by name: shape and values.
pub(crate) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

pub(crate) const TINY: Shape = Shape {
    hidden: 128,
    heads: 2,
    layers: 2,
    feed_forward: 224,
    vocabulary: 67,
    positions: 70,
    token_types: 2,
    norm_epsilon: 1e-12,
    activation: Activation::Gelu,
    max_tokens: 70,
    pooling: Pooling::Mean,
};

/// A model of random weights, large enough that every part of a layer affects the result.
pub(crate) fn random_model(shape: &Shape, seed: u64) -> Tensors {
    let mut numbers = Numbers(seed);
    let mut tensors = Tensors::new();
    let mut add = |name: String, dimensions: &[usize], middle: f32, spread: f32| {
        let values = numbers.units(dimensions.iter().product());
        let values = values.iter().map(|unit| middle + spread * unit).collect();
        tensors.insert(name, (dimensions.to_vec(), values));
    };
    let (hidden, wide) = (shape.hidden, shape.feed_forward);
    for (name, rows) in [
        ("word", shape.vocabulary),
        ("position", shape.positions),
        ("token_type", shape.token_types),
    ] {
        let name = format!("embeddings.{name}_embeddings.weight");
        add(name, &[rows, hidden], 0.0, 1.0);
    }
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in 0..shape.layers {
        for (name, outputs, inputs) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", wide, hidden),
            ("output.dense", hidden, wide),
        ] {
            let spread = 2.0 / (inputs as f32).sqrt();
            let name = format!("encoder.layer.{layer}.{name}");
            add(format!("{name}.weight"), &[outputs, inputs], 0.0, spread);
            add(format!("{name}.bias"), &[outputs], 0.0, 0.5);
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            norms.push(format!("encoder.layer.{layer}.{name}"));
        }
    }
    for name in norms {
        add(format!("{name}.weight"), &[hidden], 1.0, 0.5);
        add(format!("{name}.bias"), &[hidden], 0.0, 0.5);
    }
    tensors
}

/// Converts `tensors` to a model's weights, with `prefix` before each name.
pub(crate) fn weights(tensors: &Tensors, prefix: &str) -> Weights {
    let named = tensors.iter().map(|(name, (shape, values))| {
        let (shape, values) = (shape.clone(), values.clone());
        (format!("{prefix}{name}"), Weight { shape, values })
    });
    Weights::new(named.collect()).unwrap()
}

pub(super) fn slices(sequences: &[Vec<u32>]) -> Vec<&[u32]> {
    sequences.iter().map(Vec::as_slice).collect()
}
