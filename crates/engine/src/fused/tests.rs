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

use super::super::{Activation, Architecture, Attention, Biases, Pooling, Rotary, Shape};
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
    architecture: Architecture::Bert,
    hidden: 128,
    heads: 2,
    key_value_heads: 2,
    head: 64,
    layers: 2,
    feed_forward: 224,
    vocabulary: 67,
    positions: 70,
    first_position: 0,
    token_types: 2,
    norm_epsilon: 1e-12,
    activation: Activation::Gelu,
    biases: Biases::ALL,
    attention: Attention::FULL,
    rotary: Rotary::UNUSED,
    query_scale: 0.125,
    max_tokens: 70,
    pooling: Pooling::Mean,
};

/// `shape` with this many heads for its features.
pub(crate) fn with_heads(shape: Shape, heads: usize) -> Shape {
    let head = shape.hidden / heads;
    Shape {
        heads,
        key_value_heads: heads,
        head,
        query_scale: (head as f32).sqrt().recip(),
        ..shape
    }
}

/// A model of random weights, large enough that every part of a layer affects the result.
pub(crate) fn random_model(shape: &Shape, seed: u64) -> Tensors {
    let mut numbers = Numbers(seed);
    let mut tensors = Tensors::new();
    let mut add = |name: String, dimensions: &[usize], middle: f32, spread: f32| {
        let values = numbers.units(dimensions.iter().product());
        let values = values.iter().map(|unit| middle + spread * unit).collect();
        tensors.insert(name, (dimensions.to_vec(), values));
    };
    for (name, dimensions) in shape.tensors() {
        let (middle, spread) = match dimensions[..] {
            [_] if name.ends_with("norm.weight") || name.ends_with("Norm.weight") => (1.0, 0.5),
            [_] => (0.0, 0.5),
            _ if name.contains("embed") => (0.0, 1.0),
            [_, inputs] => (0.0, 2.0 / (inputs as f32).sqrt()),
            _ => (0.0, 1.0),
        };
        add(name, &dimensions, middle, spread);
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
