//! Instruction sets: what a processor must offer for the kernels to run on it.
//!
//! The kernels in [`super::kernels`] are written once, in safe Rust, against [`Simd`]: a handful of
//! operations on one *block* of floats, [`Simd::WIDTH`] of them side by side.
//!
//! A value of a type that implements [`Simd`] is a proof that the processor has the instructions:
//! the only constructor is the type's `detect`. That is what makes the operations safe to call.
//!
//! # Porting
//!
//! A new instruction set is one file here that implements the trait, a variant of `Kind`, and a line for it in those methods of
//! [`Isa`] that tell them apart. The shared tests then run over it; the tests' own page says how to run them under Miri, under
//! valgrind, and for a processor that is not at hand. [`Dots`] can wait: nothing needs it.
//!
//! - **Sizes.** The product's inner loop keeps [`ROWS`](Simd::ROWS) blocks of sums, one of weights and one broadcast number in
//!   registers. It is fast where `ROWS` times the registers of a block is at least what the processor has multiply-adds in
//!   flight (their latency times how many it begins at once), and few enough that the sums stay in registers. So a block is
//!   two registers where there are 32, and `ROWS` as large as fits.
//! - **Widths that the processor chooses** (SVE, RISC-V) have no type of fixed size: write one type for each width, as
//!   `Avx512` is one for each of its extensions, and let its `detect` ask for that width.
//! - **Memory.** Slices may start anywhere: loads and stores must not ask for alignment. Activations in f32 start on a cache line.
//! - **Inlining.** Every operation has to be `#[inline(always)]`; a helper of its own that is compiled for the instruction set
//!   (`#[target_feature]`) can only be `#[inline]`, and is inlined all the same, since the function around it has more.

// The only `unsafe` of the kernels: calling intrinsics behind a proof that they exist.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512bf16;
#[cfg(target_arch = "aarch64")]
mod neon;
mod peak;
mod portable;

#[cfg(target_arch = "x86_64")]
use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
use avx512bf16::Avx512Bf16;
use half::{bf16, f16};
#[cfg(target_arch = "aarch64")]
use neon::Neon;
use portable::Portable;

use super::panels::PANEL;
use super::precision::Precision;

/// One instruction set, present on this processor.
#[derive(Clone, Copy)]
pub struct Isa(Kind);

#[derive(Clone, Copy)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512Bf16),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512<true>),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    Portable(Portable),
    PortableBf16(Portable),
}

impl Isa {
    /// The fastest instruction set of this processor.
    #[must_use]
    pub fn best() -> Self {
        let mut available = Self::available();
        available
            .next()
            .unwrap_or(Self(Kind::Portable(Portable::detect())))
    }

    /// Every instruction set of this processor the encoder has kernels for, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let (fast_bf16, slow_bf16) = {
            let bf16 = Avx512Bf16::detect();
            let (fast, slow) = (
                bf16.filter(|it| it.is_fast()),
                bf16.filter(|it| !it.is_fast()),
            );
            (fast.map(Kind::Avx512Bf16), slow.map(Kind::Avx512Bf16))
        };
        [
            #[cfg(target_arch = "x86_64")]
            fast_bf16,
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Kind::Avx512Vnni),
            #[cfg(target_arch = "x86_64")]
            slow_bf16,
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Kind::Avx512),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Kind::Avx2),
            #[cfg(target_arch = "aarch64")]
            Neon::detect().map(Kind::Neon),
            Some(Kind::Portable(Portable::detect())),
            Some(Kind::PortableBf16(Portable::detect())),
        ]
        .into_iter()
        .flatten()
        .map(Self)
    }

    /// `avx512bf16`, `avx512`, `avx2`, `neon`, `portable` or `portablebf16`, by which the others' kernels are tested; one for
    /// all that gives the same bits in every precision, in one build.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(_) => "avx512bf16",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Vnni(_) | Kind::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => "neon",
            Kind::Portable(_) => "portable",
            Kind::PortableBf16(_) => "portablebf16",
        }
    }

    /// The name of the engine on this instruction set, as records and the manifest state it; one for all that gives the
    /// same bits in this precision, in one build.
    pub(super) fn engine(self, precision: Precision) -> &'static str {
        macro_rules! names {
            ($isa:literal) => {
                match precision {
                    Precision::F32 => concat!("fused-f32-", $isa),
                    Precision::F16 => concat!("fused-f16-", $isa),
                    Precision::Bf16 => concat!("fused-bf16-", $isa),
                    Precision::Int8 => concat!("fused-int8-", $isa),
                }
            };
        }
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(_) if precision == Precision::Bf16 => "fused-bf16-avx512bf16",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(_) | Kind::Avx512Vnni(_) | Kind::Avx512(_) => names!("avx512"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => names!("avx2"),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => names!("neon"),
            Kind::PortableBf16(_) if precision == Precision::Bf16 => "fused-bf16-portablebf16",
            Kind::Portable(_) | Kind::PortableBf16(_) => names!("portable"),
        }
    }

    /// Floats in one block, which is the width of one panel of packed weights.
    pub(super) fn width(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(_) | Kind::Avx512Vnni(_) | Kind::Avx512(_) => Avx512::<false>::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Avx2::WIDTH,
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(_) => Neon::WIDTH,
            Kind::Portable(_) | Kind::PortableBf16(_) => Portable::WIDTH,
        }
    }

    /// Runs a kernel in a function compiled for this instruction set.
    #[inline]
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(isa) => isa.base().run(kernel),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Vnni(isa) => isa.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(isa) => isa.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(isa) => isa.run(kernel),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon(isa) => isa.run(kernel),
            Kind::Portable(isa) | Kind::PortableBf16(isa) => Simd::run(isa, kernel),
        }
    }

    /// Its products of bf16, if it has any.
    pub(super) fn dots(self) -> Option<DotIsa> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16(isa) => Some(DotIsa(DotKind::Avx512(isa))),
            Kind::PortableBf16(isa) => Some(DotIsa(DotKind::Portable(isa))),
            _ => None,
        }
    }
}

/// An instruction set with products of bf16, present on this processor.
#[derive(Clone, Copy)]
pub(super) struct DotIsa(DotKind);

#[derive(Clone, Copy)]
enum DotKind {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Bf16),
    Portable(Portable),
}

impl DotIsa {
    /// Runs a kernel in a function compiled for this instruction set.
    #[inline]
    pub(super) fn run<K: DotKernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            DotKind::Avx512(isa) => isa.run(kernel),
            DotKind::Portable(isa) => Dots::run(isa, kernel),
        }
    }
}

/// Work expressed in [`Simd`] operations, compiled once for every instruction set.
///
/// `run`, and what it calls with `simd`, must be `#[inline(always)]`: only what is inlined into
/// [`Simd::run`] is compiled with the instruction set switched on.
pub(super) trait Kernel {
    /// What the work yields.
    type Output;
    /// Does the work.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// 1.5 · 2²³: added to what is below 2²² in magnitude, it leaves the nearest integer in the low bits of the significand,
/// and subtracted again that integer itself.
pub(super) const DROP_FRACTION: f32 = 12_582_912.0;

/// The bits of 1.0, which are the bias of its exponent.
const ONE: i32 = 0x3f80_0000;

/// The operations an instruction set offers on blocks of [`Simd::WIDTH`] floats.
///
/// Every operation works lane by lane and rounds once, to nearest even (but [`mul_add`](Simd::mul_add), see there); there is
/// no operation whose result depends on a neighbour but [`sum`](Simd::sum) and [`largest`](Simd::largest).
pub(super) trait Simd: Copy {
    /// A block of floats in registers.
    type Block: Copy;
    /// Two 16-bit numbers for each lane of a block.
    type Pairs: Copy;
    /// A 32-bit number for each lane of a block.
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
    /// The first `2 · WIDTH` bytes of `from`, two for each lane; panics if there are fewer.
    fn load_pairs(self, from: &[i8]) -> Self::Pairs;
    /// As [`load_pairs`](Simd::load_pairs), from twice the memory.
    fn load_wide_pairs(self, from: &[i16]) -> Self::Pairs;
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
    /// The nearest 16-bit number of each lane to the first `WIDTH` of `to`, any where it is NaN; panics if there are fewer.
    fn store_i16(self, to: &mut [i16], block: Self::Block);
    /// Zero in each lane.
    fn no_ints(self) -> Self::Ints;
    /// In each lane `a[0] · b₀ + a[1] · b₁ + c`, exact while it fits.
    fn pair_add(self, a: [i16; 2], b: Self::Pairs, c: Self::Ints) -> Self::Ints;
    /// The nearest float of each lane.
    fn floats(self, a: Self::Ints) -> Self::Block;
    /// The sum of all lanes, always added in the same order.
    fn sum(self, a: Self::Block) -> f32;
    /// The largest lane; any number, or NaN, where one is NaN.
    fn largest(self, a: Self::Block) -> f32;
}

/// As [`Kernel`], for work with products of bf16.
pub(super) trait DotKernel {
    /// What the work yields.
    type Output;
    /// Does the work.
    fn run<D: Dots>(self, dots: D) -> Self::Output;
}

/// What an instruction set may have besides [`Simd`], and need not: products of bf16, several of them added up as f32 in one
/// instruction. Worth writing where it multiplies more than f32's do; elsewhere bf16 is widened and multiplied as f32.
pub(super) trait Dots: Copy {
    /// All other operations.
    type Base: Simd;
    /// Two numbers for each lane of a block.
    type Pairs: Copy;

    /// All other operations.
    fn base(self) -> Self::Base;
    /// Calls `kernel.run` in a function compiled for this instruction set.
    fn run<K: DotKernel>(self, kernel: K) -> K::Output;
    /// The first `2 · WIDTH` numbers of `from`, two for each lane; panics if there are fewer.
    fn load_pairs(self, from: &[bf16]) -> Self::Pairs;
    /// The nearest number of each lane to the first `WIDTH` of `to`; panics if there are fewer. What is not finite stays so;
    /// what is below 2⁻¹²⁶ may become zero.
    fn store(self, to: &mut [bf16], block: Block<Self>);
    /// In each lane `a[0] · b₀ + a[1] · b₁ + c`. How it rounds is the processor's affair, the same in each lane.
    fn dot_add(self, a: [bf16; 2], b: Self::Pairs, c: Block<Self>) -> Block<Self>;
}

/// A block of floats of an instruction set with products of bf16.
pub(super) type Block<D> = <<D as Dots>::Base as Simd>::Block;

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
fn word([first, second]: [i16; 2]) -> i32 {
    i32::from(second) << 16 | i32::from(first.cast_unsigned())
}

/// No instruction set keeps more rows than this in registers.
pub(super) const MAX_ROWS: usize = 14;
