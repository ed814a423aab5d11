//! The operations of an instruction set, and the work that is written in them.

use half::{bf16, f16};

use super::super::panels::PANEL;

/// Work expressed in [`Simd`] operations, compiled once for every instruction set.
///
/// `run`, and what it calls with `simd`, must be `#[inline(always)]`: only what is inlined into
/// [`Simd::run`] is compiled with the instruction set switched on.
pub(in super::super) trait Kernel {
    /// What the work yields.
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// 1.5 · 2²³: added to what is below 2²² in magnitude, it leaves the nearest integer in the low bits of the significand,
/// and subtracted again that integer itself.
pub(in super::super) const DROP_FRACTION: f32 = 12_582_912.0;

/// The bits of 1.0, which are the bias of its exponent.
pub(super) const ONE: i32 = 0x3f80_0000;

/// The operations an instruction set offers on blocks of [`Simd::WIDTH`] floats.
///
/// Every operation works lane by lane and rounds once, to nearest even (but [`mul_add`](Simd::mul_add), see there); there is
/// no operation whose result depends on a neighbour but [`sum`](Simd::sum) and [`largest`](Simd::largest).
pub(in super::super) trait Simd: Copy {
    /// A block of floats in registers.
    type Block: Copy;
    /// A 32-bit integer for each lane of a block.
    type Ints: Copy;
    /// Floats in a block. Divides [`PANEL`].
    const WIDTH: usize;
    /// Rows the matrix kernel holds in registers: `ROWS` accumulators, the block of weights and one
    /// broadcast activation must fit the register file. At most [`MAX_ROWS`].
    const ROWS: usize;

    /// Calls `kernel.run` in a function compiled for this instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;

    /// Hints that the cache line around `near` is wanted soon.
    #[inline(always)]
    fn prefetch<T>(self, _near: &T) {}
    /// The first `WIDTH` floats of `from`; panics if there are fewer.
    fn load(self, from: &[f32]) -> Self::Block;
    /// Writes a block to the first `WIDTH` floats of `to`; panics if there are fewer.
    fn store(self, to: &mut [f32], block: Self::Block);
    /// As [`load`](Simd::load), from half the memory; exact.
    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> Self::Block {
        self.load(&widened::<Self, _>(from, |value| value.to_f32_const()))
    }
    /// As [`load`](Simd::load), from half the memory; exact.
    #[inline(always)]
    fn load_bf16(self, from: &[bf16]) -> Self::Block {
        self.load(&widened::<Self, _>(from, |value| value.to_f32_const()))
    }
    /// Every lane `value`.
    fn splat(self, value: f32) -> Self::Block;
    /// `a + b`
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a - b`
    fn sub(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a · b`
    fn mul(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// `a · b + c`, rounded once where the instruction set can; else the product too.
    fn mul_add(self, a: Self::Block, b: Self::Block, c: Self::Block) -> Self::Block;
    /// `scalar · b + c`, rounded as [`mul_add`](Simd::mul_add).
    #[inline(always)]
    fn scaled_add(self, scalar: f32, b: Self::Block, c: Self::Block) -> Self::Block {
        self.mul_add(self.splat(scalar), b, c)
    }
    /// The smaller of each pair of lanes. NaN in `b` comes through; where `a` is NaN, it may or may not.
    fn min(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// The larger of each pair of lanes. NaN in `b` comes through; where `a` is NaN, it may or may not.
    fn max(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// 2ⁿ of n + [`DROP_FRACTION`], for integers −126 ≤ n ≤ 127.
    fn power_of_two(self, shifted: Self::Block) -> Self::Block;
    /// Zero in each lane.
    fn no_ints(self) -> Self::Ints;
    /// The nearest float of each lane.
    fn floats(self, a: Self::Ints) -> Self::Block;
    /// The sum of all lanes, always added in the same order.
    fn sum(self, a: Self::Block) -> f32;
    /// The largest lane; any number, or NaN, where one is NaN.
    fn largest(self, a: Self::Block) -> f32;
}

/// A kind of number that is multiplied in pairs: the two products of a lane are added up in one instruction.
pub(in super::super) trait Number: Copy {
    /// What weights of this kind are kept as.
    type Kept: Copy;
    /// A sum for each lane of a block.
    type Sums<S: Simd>: Copy;
}

/// Added up as integers: exact while a sum fits 32 bits.
impl Number for i16 {
    type Kept = i8;
    type Sums<S: Simd> = S::Ints;
}

/// Added up as f32.
impl Number for bf16 {
    type Kept = Self;
    type Sums<S: Simd> = S::Block;
}

/// As [`Kernel`], for work with products of `N`.
pub(in super::super) trait DotKernel<N: Number> {
    /// What the work yields.
    type Output;
    /// Does the work.
    fn run<D: Dots<N>>(self, dots: D) -> Self::Output;
}

/// What an instruction set has besides [`Simd`]: products of pairs of `N`.
///
/// Those of i16 are a part of every instruction set. Those of bf16 are worth writing where the processor multiplies more with
/// them than with f32's; elsewhere bf16 is widened and multiplied as f32.
pub(in super::super) trait Dots<N: Number>: Copy {
    /// All other operations.
    type Base: Simd;
    /// Two numbers for each lane of a block.
    type Pairs: Copy;

    /// All other operations.
    fn base(self) -> Self::Base;
    /// Calls `kernel.run` in a function compiled for this instruction set.
    fn run<K: DotKernel<N>>(self, kernel: K) -> K::Output;
    /// The first `2 · WIDTH` numbers of `from`, two for each lane; panics if there are fewer.
    fn load_pairs(self, from: &[N]) -> Self::Pairs;
    /// As [`load_pairs`](Dots::load_pairs), of weights as they are kept.
    fn load_kept_pairs(self, from: &[N::Kept]) -> Self::Pairs;
    /// The nearest number of each lane to the first `WIDTH` of `to`; panics if there are fewer. As i16, what is NaN becomes any
    /// number; as bf16, what is not finite stays so, and what is below 2⁻¹²⁶ may become zero.
    fn store(self, to: &mut [N], block: <Self::Base as Simd>::Block);
    /// In each lane `a[0] · b₀ + a[1] · b₁ + c`. How a sum of bf16 rounds is the processor's affair, the same in each lane.
    fn dot_add(self, a: [N; 2], b: Self::Pairs, c: N::Sums<Self::Base>) -> N::Sums<Self::Base>;
}

/// A block's worth of floats out of numbers of another kind, for what an instruction set cannot load as it is.
#[inline(always)]
fn widened<S: Simd, T: Copy>(from: &[T], float: impl Fn(T) -> f32) -> [f32; PANEL] {
    const { assert!(S::WIDTH <= PANEL) };
    let mut floats = [0.0; PANEL];
    for (to, from) in floats.iter_mut().zip(&from[..S::WIDTH]) {
        *to = float(*from);
    }
    floats
}

/// Two numbers as the processor has them in one word, the first in the lower half.
#[inline(always)]
pub(super) fn word([first, second]: [i16; 2]) -> i32 {
    i32::from(second) << 16 | i32::from(first.cast_unsigned())
}

/// No instruction set keeps more rows than this in registers.
pub(in super::super) const MAX_ROWS: usize = 14;
