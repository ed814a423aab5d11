//! Instruction sets: the operations that the kernels require of a processor.
//!
//! The kernels are written once, in safe Rust, against [`Simd`]. A value of a type that implements it proves that the processor
//! has the instructions, because the type's `detect` is its only constructor. This makes the operations safe to call. Every
//! operation must be `#[inline(always)]`; only code inlined into [`Simd::run`] is compiled for the instruction set.
//!
//! A new instruction set needs one file here, a variant of [`Kind`], and a line in [`Isa::available`]. The tests then cover it.

// The only `unsafe` code of this crate: calls of intrinsics, with a proof that the processor has them.
#![allow(unsafe_code)]

/// Evaluates intrinsics that only take and return values.
///
/// Intrinsics that access memory need their own safety comment.
#[cfg(target_arch = "x86_64")]
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
mod portable;
mod simd;

#[cfg(target_arch = "x86_64")]
use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use avx512::Avx512;
use portable::Portable;
pub(crate) use simd::{Kernel, Simd};

use crate::query::TileSizes;

/// An instruction set that this processor has. Results do not depend on it, only speed does.
#[derive(Clone, Copy)]
pub struct Isa(Kind);

#[derive(Clone, Copy)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    Portable(Portable),
}

impl Isa {
    /// The fastest instruction set of this processor.
    #[must_use]
    pub fn best() -> Self {
        Self::available()
            .next()
            .unwrap_or(Self(Kind::Portable(Portable)))
    }

    /// All instruction sets of this processor with kernels, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Kind::Avx512),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Kind::Avx2),
            Some(Kind::Portable(Portable)),
        ]
        .into_iter()
        .flatten()
        .map(Self)
    }

    /// `avx512vnni`, `avx2` or `portable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512vnni",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => "avx2",
            Kind::Portable(_) => "portable",
        }
    }

    /// The largest tiles of queries that [`kernels`](crate::kernels) has for the registers of this instruction set.
    pub(crate) fn tile_sizes(self) -> TileSizes {
        let wide = match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => Avx512::WIDE,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Avx2::WIDE,
            Kind::Portable(_) => Portable::WIDE,
        };
        let [floats, codes] = if wide { [8, 4] } else { [4, 2] };
        TileSizes { floats, codes }
    }

    /// Runs a kernel in a function compiled for this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(isa) => Simd::run(isa, kernel),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(isa) => Simd::run(isa, kernel),
            Kind::Portable(isa) => Simd::run(isa, kernel),
        }
    }
}
