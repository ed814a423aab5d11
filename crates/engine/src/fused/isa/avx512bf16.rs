//! AVX-512's products of bf16: an instruction multiplies two pairs per lane and adds both products as f32.
//!
//! AMD's processors execute these instructions as fast as those of f32, and so multiply twice as much with them. Intel's execute
//! them at a quarter of the rate (Emerald Rapids: one every two cycles, instead of two per cycle for f32), and so multiply half
//! as much.

use std::arch::x86_64::{
    __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_loadu_si512,
    _mm512_set1_epi32, _mm512_storeu_si512,
};

use half::bf16;

use super::avx512::Avx512;
use super::avx512vnni::Avx512Vnni;
use super::{DotKernel, Dots, Simd, word};

/// Proof that the processor has AVX-512's products of bf16, in addition to [`Avx512Vnni`].
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512Bf16(Avx512Vnni);

impl Avx512Bf16 {
    pub(super) fn detect() -> Option<Self> {
        let vnni = Avx512Vnni::detect()?;
        std::arch::is_x86_feature_detected!("avx512bf16").then_some(Self(vnni))
    }

    /// The integer products that the processor also has.
    pub(super) fn vnni(self) -> Avx512Vnni {
        self.0
    }

    /// Whether this processor multiplies faster with them than with f32.
    pub(super) fn is_fast(self) -> bool {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes) == [*b"Auth", *b"enti", *b"cAMD"]
    }
}

impl Dots<bf16> for Avx512Bf16 {
    type Base = Avx512;
    type Pairs = [__m512bh; 2];

    #[inline(always)]
    fn base(self) -> Avx512 {
        self.0.base()
    }

    #[inline]
    fn run<K: DotKernel<bf16>>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx512bf16")]
        fn compiled<K: DotKernel<bf16>>(dots: Avx512Bf16, kernel: K) -> K::Output {
            kernel.run(dots)
        }
        // SAFETY: `self` proves that the processor has all four.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn load_pairs(self, from: &[bf16]) -> Self::Pairs {
        let from = &from[..2 * Avx512::WIDTH];
        // SAFETY: `self` proves AVX-512; 64 numbers of two bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                pairs(_mm512_loadu_si512(from.cast())),
                pairs(_mm512_loadu_si512(from.add(32).cast())),
            ]
        }
    }

    #[inline(always)]
    fn load_kept_pairs(self, from: &[bf16]) -> Self::Pairs {
        self.load_pairs(from)
    }

    #[inline(always)]
    fn store(self, to: &mut [bf16], [a, b]: <Avx512 as Simd>::Block) {
        let to = &mut to[..Avx512::WIDTH];
        // SAFETY: `self` proves AVX-512 with products of bf16; 32 numbers of two bytes are writable from the start of `to`,
        // and any bits are such numbers.
        unsafe {
            let rounded: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(b, a));
            _mm512_storeu_si512(to.as_mut_ptr().cast(), rounded);
        }
    }

    #[inline(always)]
    fn dot_add(
        self,
        a: [bf16; 2],
        b: Self::Pairs,
        c: <Avx512 as Simd>::Block,
    ) -> <Avx512 as Simd>::Block {
        let word = word(a.map(|a| a.to_bits().cast_signed()));
        let a = proven!(pairs(_mm512_set1_epi32(word)));
        proven!([
            _mm512_dpbf16_ps(c[0], a, b[0]),
            _mm512_dpbf16_ps(c[1], a, b[1]),
        ])
    }
}

/// Reinterprets the bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both types are 64 bytes, and every bit pattern is valid.
    unsafe { std::mem::transmute(bits) }
}
