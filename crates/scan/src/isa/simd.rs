//! The operations of an instruction set.

use crate::panels::{GROUP, ROWS};

/// Work expressed in [`Simd`] operations, compiled once for every instruction set.
///
/// `run`, and every function that it calls with `simd`, must be `#[inline(always)]`.
pub(crate) trait Kernel {
    /// Result of the work.
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The operations that an instruction set offers on the 16 lanes of a panel.
///
/// Every operation works lane by lane and rounds once, to nearest even, except [`mul_add`](Simd::mul_add).
pub(crate) trait Simd: Copy {
    /// A float in each lane.
    type Floats: Copy;
    /// An integer of 32 bits in each lane.
    type Ints: Copy;
    /// Four codes in each lane.
    type Codes: Copy;
    /// Whether there are 32 registers of 16 lanes, so that kernels keep more sums in registers.
    const WIDE: bool;

    /// Calls `kernel.run` in a function compiled for this instruction set.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
    /// Hints that the cache line at `address` will be needed soon. Any address is allowed.
    #[inline(always)]
    fn prefetch<T>(self, _address: *const T) {}

    /// Sixteen floats.
    fn load(self, from: &[f32; ROWS]) -> Self::Floats;
    /// Sixteen floats from bits of f16; exact.
    fn load_f16(self, from: &[u16; ROWS]) -> Self::Floats;
    /// The floats of the lanes.
    fn store(self, floats: Self::Floats) -> [f32; ROWS];
    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::Floats;
    /// `a + b`
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a · b`
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a · b + c`, rounded once or twice.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// One bit per lane, the first lane in the lowest: whether `a ≥ b`.
    fn at_least(self, a: Self::Floats, b: Self::Floats) -> u16;

    /// Sixteen times four codes.
    fn load_codes(self, from: &[u8; ROWS * GROUP]) -> Self::Codes;
    /// `value` in every lane.
    fn splat_int(self, value: i32) -> Self::Ints;
    /// `a + b`
    fn add_ints(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// In each lane the four products of `codes` and `query`, and `c`, added exactly.
    fn dot_add(self, codes: Self::Codes, query: [i8; GROUP], c: Self::Ints) -> Self::Ints;
    /// The nearest float of each lane.
    fn floats(self, ints: Self::Ints) -> Self::Floats;
}
