//! Instruction sets: the operations that the kernels require of a processor.
//!
//! The kernels in [`super::kernels`] are written once, in safe Rust, against two traits: [`Simd`], operations on one *block* of
//! [`Simd::WIDTH`] floats, and [`Dots`], products of numbers narrower than f32.
//!
//! A value of a type that implements one of them proves that the processor has the instructions, because the type's `detect` is
//! its only constructor. This makes the operations safe to call.
//!
//! # Porting
//!
//! A new instruction set needs one file here that implements [`Simd`] and [`Dots`] of i16, a variant of `Base`, and a line in
//! [`Isa::available`]. The shared tests then cover it; their module documentation explains how to run them under Miri, under
//! valgrind, and for another processor. Other products, such as those of matrix instructions, are separate types that implement
//! [`Dots`]; the kernels of floats are not compiled again for them.
//!
//! - **Sizes.** The product's inner loop keeps [`ROWS`](Simd::ROWS) blocks of sums, one block of weights and one broadcast number
//!   in registers. It is fast if `ROWS` times the registers of a block is at least the number of multiply-adds that the processor
//!   has in flight (latency times issue rate), and small enough for the sums to stay in registers. So use a block of two
//!   registers on processors with 32, and the largest `ROWS` that fits.
//! - **Variable widths** (SVE, RISC-V) have no type of fixed size: write one type per width, as `Avx512` has one type per
//!   extension, and let its `detect` require that width.
//! - **Memory.** Slices may start anywhere, so loads and stores must not require alignment. Activations in f32 start on a cache
//!   line.
//! - **Inlining.** Every operation must be `#[inline(always)]`. A separate helper compiled for the instruction set
//!   (`#[target_feature]`) can only be `#[inline]`; it is inlined nonetheless, because its caller has at least its features.

// The only `unsafe` code of the kernels: calls of intrinsics, with a proof that the processor has them.
#![allow(unsafe_code)]

/// Evaluates intrinsics that only take and return values.
///
/// Intrinsics that access memory need their own safety comment.
macro_rules! proven {
    ($intrinsics:expr) => {{
        // SAFETY: such an intrinsic only requires its instruction. All users are operations of a proof that the processor has it.
        unsafe { $intrinsics }
    }};
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512bf16;
#[cfg(target_arch = "x86_64")]
mod avx512vnni;
#[cfg(target_arch = "aarch64")]
mod neon;
mod peak;
mod portable;
mod simd;

#[cfg(target_arch = "x86_64")]
use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
use avx512bf16::Avx512Bf16;
#[cfg(target_arch = "x86_64")]
use avx512vnni::Avx512Vnni;
use half::bf16;
#[cfg(target_arch = "aarch64")]
use neon::Neon;
use portable::Portable;
pub(super) use simd::{DROP_FRACTION, DotKernel, Dots, Kernel, MAX_ROWS, Simd};
use simd::{ONE, word};

use super::precision::Precision;

/// An instruction set that this processor has.
#[derive(Clone, Copy)]
pub struct Isa {
    base: Base,
    ints: Ints,
    bf16: Option<Bf16>,
}

#[derive(Clone, Copy)]
enum Base {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    Portable(Portable),
}

/// Products of i16 on this processor.
#[derive(Clone, Copy)]
pub(super) struct Ints(IntKind);

#[derive(Clone, Copy)]
enum IntKind {
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
    /// The instruction set's own products.
    Base(Base),
}

/// Products of bf16 on this processor.
#[derive(Clone, Copy)]
pub(super) enum Bf16 {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Bf16),
    /// Never the fastest choice: lets the kernels be tested on processors without bf16 products.
    #[cfg(test)]
    Portable(Portable),
}

impl Isa {
    /// The fastest instruction set of this processor.
    #[must_use]
    pub fn best() -> Self {
        let mut available = Self::available();
        available.next().unwrap_or(Self::from_base(Base::PORTABLE))
    }

    /// All instruction sets of this processor with kernels, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [
            #[cfg(target_arch = "x86_64")]
            Avx512Bf16::detect()
                .filter(|it| it.is_fast())
                .map(Self::avx512bf16),
            #[cfg(target_arch = "x86_64")]
            Avx512Vnni::detect().map(Self::avx512vnni),
            #[cfg(target_arch = "x86_64")]
            Avx512Bf16::detect()
                .filter(|it| !it.is_fast())
                .map(Self::avx512bf16),
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(|isa| Self::from_base(Base::Avx512(isa))),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(|isa| Self::from_base(Base::Avx2(isa))),
            #[cfg(target_arch = "aarch64")]
            Neon::detect().map(|isa| Self::from_base(Base::Neon(isa))),
            Some(Self::from_base(Base::PORTABLE)),
            #[cfg(test)]
            Some(Self::portable_bf16()),
        ]
        .into_iter()
        .flatten()
    }

    #[cfg(target_arch = "x86_64")]
    fn avx512bf16(dots: Avx512Bf16) -> Self {
        Self {
            bf16: Some(Bf16::Avx512(dots)),
            ..Self::avx512vnni(dots.vnni())
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn avx512vnni(dots: Avx512Vnni) -> Self {
        Self {
            ints: Ints(IntKind::Avx512Vnni(dots)),
            ..Self::from_base(Base::Avx512(dots.base()))
        }
    }

    #[cfg(test)]
    fn portable_bf16() -> Self {
        Self {
            bf16: Some(Bf16::Portable(Portable::ALWAYS)),
            ..Self::from_base(Base::PORTABLE)
        }
    }

    /// An instruction set without extensions.
    fn from_base(base: Base) -> Self {
        Self {
            base,
            ints: Ints(IntKind::Base(base)),
            bf16: None,
        }
    }

    /// `avx512bf16`, `avx512`, `avx2`, `neon` or `portable`. Instruction sets that give the same bits in every precision, in one
    /// build, share a name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.bf16 {
            Some(bf16) => bf16.name(),
            None => self.base.name(),
        }
    }

    /// Name of the engine on this instruction set, as stated in records and in the manifest. Instruction sets that give the same
    /// bits in this precision, in one build, share a name.
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
        if let (Precision::Bf16, Some(bf16)) = (precision, self.bf16) {
            return bf16.engine();
        }
        match self.base {
            #[cfg(target_arch = "x86_64")]
            Base::Avx512(_) => names!("avx512"),
            #[cfg(target_arch = "x86_64")]
            Base::Avx2(_) => names!("avx2"),
            #[cfg(target_arch = "aarch64")]
            Base::Neon(_) => names!("neon"),
            Base::Portable(_) => names!("portable"),
        }
    }

    /// Floats in a block, which is also the width of a panel of packed weights.
    pub(super) fn width(self) -> usize {
        match self.base {
            #[cfg(target_arch = "x86_64")]
            Base::Avx512(_) => Avx512::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Base::Avx2(_) => Avx2::WIDTH,
            #[cfg(target_arch = "aarch64")]
            Base::Neon(_) => Neon::WIDTH,
            Base::Portable(_) => Portable::WIDTH,
        }
    }

    /// Runs a kernel in a function compiled for this instruction set.
    #[inline]
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.base {
            #[cfg(target_arch = "x86_64")]
            Base::Avx512(isa) => Simd::run(isa, kernel),
            #[cfg(target_arch = "x86_64")]
            Base::Avx2(isa) => Simd::run(isa, kernel),
            #[cfg(target_arch = "aarch64")]
            Base::Neon(isa) => Simd::run(isa, kernel),
            Base::Portable(isa) => Simd::run(isa, kernel),
        }
    }

    /// Products of integers.
    pub(super) fn ints(self) -> Ints {
        self.ints
    }

    /// Products of bf16, if any.
    pub(super) fn bf16(self) -> Option<Bf16> {
        self.bf16
    }
}

impl Base {
    const PORTABLE: Self = Self::Portable(Portable::ALWAYS);

    fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
            Self::Portable(_) => "portable",
        }
    }
}

impl Ints {
    /// Runs a kernel in a function compiled for this instruction set.
    #[inline]
    pub(super) fn run<K: DotKernel<i16>>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            IntKind::Avx512Vnni(dots) => dots.run(kernel),
            #[cfg(target_arch = "x86_64")]
            IntKind::Base(Base::Avx512(dots)) => Dots::run(dots, kernel),
            #[cfg(target_arch = "x86_64")]
            IntKind::Base(Base::Avx2(dots)) => Dots::run(dots, kernel),
            #[cfg(target_arch = "aarch64")]
            IntKind::Base(Base::Neon(dots)) => Dots::run(dots, kernel),
            IntKind::Base(Base::Portable(dots)) => Dots::<i16>::run(dots, kernel),
        }
    }
}

impl Bf16 {
    fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512bf16",
            #[cfg(test)]
            Self::Portable(_) => "portablebf16",
        }
    }

    fn engine(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "fused-bf16-avx512bf16",
            #[cfg(test)]
            Self::Portable(_) => "fused-bf16-portablebf16",
        }
    }

    /// Runs a kernel in a function compiled for this instruction set.
    #[cfg_attr(
        not(any(target_arch = "x86_64", test)),
        expect(
            unused_variables,
            clippy::needless_pass_by_value,
            reason = "nothing here has such products"
        )
    )]
    #[inline]
    pub(super) fn run<K: DotKernel<bf16>>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(dots) => dots.run(kernel),
            #[cfg(test)]
            Self::Portable(dots) => Dots::<bf16>::run(dots, kernel),
        }
    }
}
