//! The operations of an instruction set, and the traits of work expressed in them.

use half::{bf16, f16};

use super::super::panels::PANEL;

/// Work expressed in [`Simd`] operations, compiled once for every instruction set.
///
/// `run`, and every function that it calls with `simd`, must be `#[inline(always)]`: only code inlined into [`Simd::run`] is
/// compiled for the instruction set.
pub(in super::super) trait Kernel {
    /// Result of the work.
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// 1.5 · 2²³: adding it to a number below 2²² in magnitude leaves the nearest integer in the low bits of the significand;
/// subtracting it again gives that integer.
pub(in super::super) const DROP_FRACTION: f32 = 12_582_912.0;

/// The bits of 1.0, which are the exponent's bias.
pub(super) const ONE: i32 = 0x3f80_0000;

/// The operations an instruction set offers on blocks of [`Simd::WIDTH`] floats.
///
/// Every operation works lane by lane and rounds once, to nearest even, except [`mul_add`](Simd::mul_add). Only the results of
/// [`sum`](Simd::sum) and [`largest`](Simd::largest) depend on other lanes.
pub(in super::super) trait Simd: Copy {
    /// A block of floats in registers.
    type Block: Copy;
    /// A 32-bit integer for each lane of a block.
    type Ints: Copy;
    /// Floats in a block. Divides [`PANEL`].
    const WIDTH: usize;
    /// Rows that the matrix kernel keeps in registers: `ROWS` accumulators, a block of weights and one broadcast activation must
    /// fit the register file. At most [`MAX_ROWS`].
    const ROWS: usize;

    /// Calls `kernel.run` in a function compiled for this instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// Hints that the cache line around `near` will be needed soon.
    #[inline(always)]
    fn prefetch<T>(self, _near: &T) {}
    /// The first `WIDTH` floats of `from`; panics if there are fewer.
    fn load(self, from: &[f32]) -> Self::Block;
    /// Writes a block to the first `WIDTH` floats of `to`; panics if there are fewer.
    fn store(self, to: &mut [f32], block: Self::Block);
    /// Like [`load`](Simd::load), from half the memory; exact.
    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> Self::Block {
        self.load(&widened::<Self, _>(from, |value| value.to_f32_const()))
    }
    /// Like [`load`](Simd::load), from half the memory; exact.
    #[inline(always)]
    fn load_bf16(self, from: &[bf16]) -> Self::Block {
        self.load(&widened::<Self, _>(from, |value| value.to_f32_const()))
    }
    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::Block;
    /// `a + b`
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a - b`
    fn sub(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a · b`
    fn mul(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a / b`
    fn div(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a · b + c`, rounded once if the instruction set can do so, otherwise twice.
    fn mul_add(self, a: Self::Block, b: Self::Block, c: Self::Block) -> Self::Block;
    /// `scalar · b + c`, rounded like [`mul_add`](Simd::mul_add).
    #[inline(always)]
    fn scaled_add(self, scalar: f32, b: Self::Block, c: Self::Block) -> Self::Block {
        self.mul_add(self.splat(scalar), b, c)
    }
    /// The smaller of each pair of lanes. NaN in `b` is propagated; NaN in `a` may or may not be.
    fn min(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// The larger of each pair of lanes. NaN in `b` is propagated; NaN in `a` may or may not be.
    fn max(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// 2ⁿ for input n + [`DROP_FRACTION`], with integers −126 ≤ n ≤ 127.
    fn power_of_two(self, shifted: Self::Block) -> Self::Block;
    /// Zero in each lane.
    fn no_ints(self) -> Self::Ints;
    /// The nearest float of each lane.
    fn floats(self, a: Self::Ints) -> Self::Block;
    /// The sum of all lanes, always added in the same order.
    fn sum(self, a: Self::Block) -> f32;
    /// The largest lane; an arbitrary number or NaN if a lane is NaN.
    fn largest(self, a: Self::Block) -> f32;
}

/// A number that is multiplied in pairs: one instruction adds both products of a lane.
pub(in super::super) trait Number: Copy {
    /// Storage type of weights of this kind.
    type Kept: Copy;
    /// Type of the sums, one per lane of a block.
    type Sums<S: Simd>: Copy;
}

/// Summed as integers: exact while a sum fits 32 bits.
impl Number for i16 {
    type Kept = i8;
    type Sums<S: Simd> = S::Ints;
}

/// Summed as f32.
impl Number for bf16 {
    type Kept = Self;
    type Sums<S: Simd> = S::Block;
}

/// Like [`Kernel`], for work with products of `N`.
pub(in super::super) trait DotKernel<N: Number> {
    /// Result of the work.
    type Output;
    /// Does the work.
    fn run<D: Dots<N>>(self, dots: D) -> Self::Output;
}

/// Products of pairs of `N`, in addition to [`Simd`].
///
/// Every instruction set has products of i16. Those of bf16 are only worthwhile where the processor multiplies faster with them
/// than with f32; elsewhere bf16 is widened and multiplied as f32.
pub(in super::super) trait Dots<N: Number>: Copy {
    /// The instruction set's other operations.
    type Base: Simd;
    /// Two numbers for each lane of a block.
    type Pairs: Copy;

    /// The instruction set's other operations.
    fn base(self) -> Self::Base;
    /// Calls `kernel.run` in a function compiled for this instruction set.
    fn run<K: DotKernel<N>>(self, kernel: K) -> K::Output;
    /// The first `2 · WIDTH` numbers of `from`, two for each lane; panics if there are fewer.
    fn load_pairs(self, from: &[N]) -> Self::Pairs;
    /// Like [`load_pairs`](Dots::load_pairs), from weights in their storage type.
    fn load_kept_pairs(self, from: &[N::Kept]) -> Self::Pairs;
    /// Writes the nearest number of each lane to the first `WIDTH` of `to`; panics if there are fewer. As i16, NaN becomes an
    /// arbitrary number; as bf16, non-finite values stay so, and values below 2⁻¹²⁶ may become zero.
    fn store(self, to: &mut [N], block: <Self::Base as Simd>::Block);
    /// In each lane `a[0] · b₀ + a[1] · b₁ + c`. The rounding of sums of bf16 depends on the processor and is the same in each
    /// lane.
    fn dot_add(self, a: [N; 2], b: Self::Pairs, c: N::Sums<Self::Base>) -> N::Sums<Self::Base>;
}

/// A block of floats converted from another type, for instruction sets without such a load.
#[inline(always)]
fn widened<S: Simd, T: Copy>(from: &[T], float: impl Fn(T) -> f32) -> [f32; PANEL] {
    const { assert!(S::WIDTH <= PANEL) };
    let mut floats = [0.0; PANEL];
    for (to, from) in floats.iter_mut().zip(&from[..S::WIDTH]) {
        *to = float(*from);
    }
    floats
}

/// Two numbers in one 32-bit word, the first in the lower half.
#[inline(always)]
pub(super) fn word([first, second]: [i16; 2]) -> i32 {
    i32::from(second) << 16 | i32::from(first.cast_unsigned())
}

/// Upper bound on [`Simd::ROWS`] of all instruction sets.
pub(in super::super) const MAX_ROWS: usize = 14;
