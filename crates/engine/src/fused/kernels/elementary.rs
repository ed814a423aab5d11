//! Exponential and activations, as polynomials with a stated error bound.

use super::super::super::Activation;
use super::super::isa::{DROP_FRACTION, Simd};

/// e^x for x ≤ 87: relative error below 2⁻²² down to x = −87.
///
/// Smaller x give e^−87 ≈ 1.6 · 10⁻³⁸, which softmax loses in its sum, as that contains e^0.
///
/// x = n ln 2 + r with |r| ≤ ½ ln 2; then e^x = 2ⁿ e^r, and e^r = 1 + r + r² q(r) with q the
/// polynomial of degree 4 of least relative error (3.1 · 10⁻⁹, far below rounding).
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::Block) -> S::Block {
    /// The leading bits of ln 2: n · `LN_2_HIGH` is exact for |n| < 2⁹.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const Q: [f32; 5] = [
        0.499_999_94,
        0.166_665_21,
        4.166_839e-2,
        8.368_717e-3,
        1.381_459_9e-3,
    ];

    // The order of the arguments propagates NaN.
    let x = simd.max(simd.splat(-87.0), x);
    let drop_fraction = simd.splat(DROP_FRACTION);
    let shifted = simd.mul_add(x, simd.splat(std::f32::consts::LOG2_E), drop_fraction);
    let n = simd.sub(shifted, drop_fraction);
    let r = simd.mul_add(n, simd.splat(-LN_2_HIGH), x);
    let r = simd.mul_add(n, simd.splat(-LN_2_LOW), r);
    let q = polynomial(simd, r, &Q);
    let e = simd.mul_add(simd.mul(r, r), q, r);
    let power = simd.power_of_two(shifted);
    simd.mul_add(power, e, power)
}

/// x Φ(x) with Φ the normal distribution function: the exact GELU, not its tanh approximation.
/// Absolute error at most 4 · 10⁻⁷ · max(1, |x|) for finite x.
///
/// Φ(x) − ½ is odd: it is c p(c²) with c = x clamped to ±5.25, where 1 − Φ is below 8 · 10⁻⁸. The
/// polynomial is of degree 13 in s = 2 (c / 5.25)² − 1, which runs over [−1, 1] so that no
/// coefficient is large; its largest error, weighted by |c|·max(½, |c|), is 1.8 · 10⁻⁷.
#[inline(always)]
pub(crate) fn gelu<S: Simd>(simd: S, x: S::Block) -> S::Block {
    const BOUND: f32 = 5.25;
    const P: [f32; 14] = [
        0.134_659_35,
        -0.067_126_59,
        0.049_645_152,
        -0.039_771_27,
        0.032_046_01,
        -0.024_965_325,
        0.018_420_909,
        -0.013_089_121,
        0.008_851_703,
        -0.004_833_47,
        0.002_097_874_4,
        -0.001_610_186_3,
        0.001_368_356,
        -4.553_113e-4,
    ];

    let c = simd.min(simd.splat(BOUND), simd.max(simd.splat(-BOUND), x));
    let s = simd.mul_add(
        simd.mul(c, c),
        simd.splat(2.0 / (BOUND * BOUND)),
        simd.splat(-1.0),
    );
    let phi = simd.mul_add(c, polynomial(simd, s, &P), simd.splat(0.5));
    simd.mul(x, phi)
}

/// The activation of a feed-forward network.
#[inline(always)]
pub(super) fn activate<S: Simd>(simd: S, activation: Activation, x: S::Block) -> S::Block {
    match activation {
        Activation::Gelu => gelu(simd, x),
        Activation::GeluTanh => gelu_tanh(simd, x),
        Activation::Relu => simd.max(simd.splat(0.0), x),
        Activation::Silu => silu(simd, x),
    }
}

/// x / (1 + e^−x): absolute error at most 4 · 10⁻⁷ · max(1, |x|).
#[inline(always)]
pub(crate) fn silu<S: Simd>(simd: S, x: S::Block) -> S::Block {
    logistic(simd, x, x)
}

/// GELU's approximation by tanh, ½ x (1 + tanh u) with u = √(2/π) (x + 0.044715 x³): equal to x / (1 + e^−2u).
/// Absolute error at most 4 · 10⁻⁷ · max(1, |x|).
#[inline(always)]
pub(crate) fn gelu_tanh<S: Simd>(simd: S, x: S::Block) -> S::Block {
    /// 2 √(2/π)
    const SLOPE: f32 = 1.595_769;
    let cube = simd.mul_add(
        simd.mul(x, x),
        simd.splat(SLOPE * 0.044_715),
        simd.splat(SLOPE),
    );
    logistic(simd, x, simd.mul(x, cube))
}

/// x / (1 + e^−u). The exponential is held within its range, beyond which the share is 0 or 1 up to rounding.
#[inline(always)]
fn logistic<S: Simd>(simd: S, x: S::Block, u: S::Block) -> S::Block {
    // The order of the arguments propagates NaN.
    let power = simd.min(simd.splat(87.0), simd.sub(simd.splat(0.0), u));
    simd.div(x, simd.add(simd.splat(1.0), exp(simd, power)))
}

/// Horner's rule; coefficients in ascending order.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::Block, coefficients: &[f32; N]) -> S::Block {
    let mut value = simd.splat(coefficients[N - 1]);
    for i in (0..N - 1).rev() {
        value = simd.mul_add(value, x, simd.splat(coefficients[i]));
    }
    value
}
