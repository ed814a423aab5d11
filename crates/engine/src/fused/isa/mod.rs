//! Instruction sets: what a processor must offer for the kernels to run on it.
//!
//! The kernels in [`super::kernels`] are written once, in safe Rust, against two traits: [`Simd`], a handful of operations on one
//! *block* of floats, [`Simd::WIDTH`] of them side by side; and [`Dots`], products of numbers narrower than f32.
//!
//! A value of a type that implements one of them is a proof that the processor has the instructions: the only constructor is
//! the type's `detect`. That is what makes the operations safe to call.
//!
//! # Porting
//!
//! A new instruction set is one file here that implements [`Simd`] and [`Dots`] of i16, a variant of `Base`, and a line in
//! [`Isa::available`]. The shared tests then run over it; the tests' own page says how to run them under Miri, under
//! valgrind, and for a processor that is not at hand. Other products, as matrix instructions have them, are a type of their own
//! that implements [`Dots`]: kernels of floats are not compiled again for it.
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

/// Evaluates intrinsics that take values and give values.
///
/// What reads or writes memory says itself why it may.
macro_rules! proven {
    ($intrinsics:expr) => {{
        // SAFETY: such an intrinsic asks for its instruction and nothing else. All who use this are operations of a proof that
        // the processor has it.
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

/// One instruction set, present on this processor.
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

/// Products of i16, present on this processor.
#[derive(Clone, Copy)]
pub(super) struct Ints(IntKind);

#[derive(Clone, Copy)]
enum IntKind {
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
    /// Those that the instruction set has anyway.
    Base(Base),
}

/// Products of bf16, present on this processor.
#[derive(Clone, Copy)]
pub(super) enum Bf16 {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Bf16),
    /// Never the faster way: the kernels are tested with it where no processor has the instructions.
    #[cfg(test)]
    Portable(Portable),
}

impl Isa {
    /// The fastest instruction set of this processor.
    #[must_use]
    pub fn best() -> Self {
        let mut available = Self::available();
        available.next().unwrap_or(Self::of(Base::PORTABLE))
    }

    /// Every instruction set of this processor the encoder has kernels for, the fastest first.
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
            Avx512::detect().map(|isa| Self::of(Base::Avx512(isa))),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(|isa| Self::of(Base::Avx2(isa))),
            #[cfg(target_arch = "aarch64")]
            Neon::detect().map(|isa| Self::of(Base::Neon(isa))),
            Some(Self::of(Base::PORTABLE)),
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
            ..Self::of(Base::Avx512(dots.base()))
        }
    }

    #[cfg(test)]
    fn portable_bf16() -> Self {
        Self {
            bf16: Some(Bf16::Portable(Portable::ALWAYS)),
            ..Self::of(Base::PORTABLE)
        }
    }

    /// Without more than every instruction set has.
    fn of(base: Base) -> Self {
        Self {
            base,
            ints: Ints(IntKind::Base(base)),
            bf16: None,
        }
    }

    /// `avx512bf16`, `avx512`, `avx2`, `neon` or `portable`; one for all that gives the same bits in every precision, in one
    /// build.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.bf16 {
            Some(bf16) => bf16.name(),
            None => self.base.name(),
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

    /// Floats in one block, which is the width of one panel of packed weights.
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

    /// Its products of integers.
    pub(super) fn ints(self) -> Ints {
        self.ints
    }

    /// Its products of bf16, if it has any.
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
