//! Exponential and activations keep their stated error bounds on every instruction set.

use super::super::isa::{Isa, Kernel, Simd};
use super::super::kernels::{exp, gelu, gelu_tanh, silu};
use super::{effort, reference};
use crate::Activation;

#[derive(Clone, Copy)]
enum Function {
    Exp,
    Gelu,
    GeluTanh,
    Silu,
}

struct Map<'a>(Function, &'a mut [f32]);

impl Kernel for Map<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for values in self.1.chunks_exact_mut(S::WIDTH) {
            let x = simd.load(values);
            let y = match self.0 {
                Function::Exp => exp(simd, x),
                Function::Gelu => gelu(simd, x),
                Function::GeluTanh => gelu_tanh(simd, x),
                Function::Silu => silu(simd, x),
            };
            simd.store(values, y);
        }
    }
}

/// Arguments and results at evenly spaced points of an interval.
fn sample(isa: Isa, function: Function, from: f64, to: f64) -> impl Iterator<Item = (f64, f64)> {
    let count = effort(1 << 19, 1 << 15, 1 << 8);
    let step = (to - from) / (count - 1) as f64;
    let x: Vec<f32> = (0..count)
        .map(|i| (from + step * i as f64) as f32)
        .collect();
    let mut y = x.clone();
    isa.run(Map(function, &mut y));
    x.into_iter()
        .zip(y)
        .map(|(x, y)| (f64::from(x), f64::from(y)))
}

#[test]
fn exp_is_within_its_error() {
    for isa in Isa::available() {
        let worst = sample(isa, Function::Exp, -87.0, 0.0)
            .chain(sample(isa, Function::Exp, -1.0, 0.0))
            .map(|(x, y)| (y / x.exp() - 1.0).abs())
            .fold(0.0, f64::max);
        assert!(worst < 2_f64.powi(-22), "{}: {worst:e}", isa.name());
    }
}

#[test]
fn exp_of_very_negative_numbers_vanishes_in_any_sum() {
    for isa in Isa::available() {
        let mut values = [f32::NEG_INFINITY, f32::MIN, -1e4, -88.0].repeat(8);
        isa.run(Map(Function::Exp, &mut values));
        assert!(
            values.iter().all(|y| (0.0..1e-37).contains(y)),
            "{}",
            isa.name()
        );
        let mut values = [0.0; 32];
        isa.run(Map(Function::Exp, &mut values));
        assert_eq!(values, [1.0; 32], "{}", isa.name());
    }
}

#[test]
fn gelu_is_within_its_error() {
    for isa in Isa::available() {
        let worst = sample(isa, Function::Gelu, -8.0, 8.0)
            .chain(sample(isa, Function::Gelu, -1.0, 1.0))
            .chain(sample(isa, Function::Gelu, -1e4, 1e4))
            .map(|(x, y)| (y - reference::gelu(x)).abs() / x.abs().max(1.0))
            .fold(0.0, f64::max);
        assert!(worst < 4e-7, "{}: {worst:e}", isa.name());
    }
}

#[test]
fn other_activations_are_within_their_error() {
    for isa in Isa::available() {
        for (function, activation) in [
            (Function::GeluTanh, Activation::GeluTanh),
            (Function::Silu, Activation::Silu),
        ] {
            let worst = sample(isa, function, -8.0, 8.0)
                .chain(sample(isa, function, -1.0, 1.0))
                .chain(sample(isa, function, -1e4, 1e4))
                .map(|(x, y)| (y - activation.apply(x)).abs() / x.abs().max(1.0))
                .fold(0.0, f64::max);
            assert!(worst < 4e-7, "{}, {activation:?}: {worst:e}", isa.name());
        }
    }
}
