//! AVX-512's Vector Neural Network Instructions: one instruction instead of two multiplies and adds integers, with the same
//! result.

use std::arch::x86_64::{_mm512_dpwssd_epi32, _mm512_set1_epi32};

use super::avx512::Avx512;
use super::{DotKernel, Dots, Simd, word};

/// Proof that the processor has these instructions, in addition to [`Avx512`].
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512Vnni(Avx512);

impl Avx512Vnni {
    pub(super) fn detect() -> Option<Self> {
        let base = Avx512::detect()?;
        std::arch::is_x86_feature_detected!("avx512vnni").then_some(Self(base))
    }
}

impl Dots<i16> for Avx512Vnni {
    type Base = Avx512;
    type Pairs = <Avx512 as Dots<i16>>::Pairs;

    #[inline(always)]
    fn base(self) -> Avx512 {
        self.0
    }

    #[inline]
    fn run<K: DotKernel<i16>>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        fn compiled<K: DotKernel<i16>>(dots: Avx512Vnni, kernel: K) -> K::Output {
            kernel.run(dots)
        }
        // SAFETY: `self` proves that the processor has all three.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn load_pairs(self, from: &[i16]) -> Self::Pairs {
        self.0.load_pairs(from)
    }

    #[inline(always)]
    fn load_kept_pairs(self, from: &[i8]) -> Self::Pairs {
        self.0.load_kept_pairs(from)
    }

    #[inline(always)]
    fn store(self, to: &mut [i16], block: <Avx512 as Simd>::Block) {
        Dots::store(self.0, to, block);
    }

    #[inline(always)]
    fn dot_add(
        self,
        a: [i16; 2],
        b: Self::Pairs,
        c: <Avx512 as Simd>::Ints,
    ) -> <Avx512 as Simd>::Ints {
        let a = proven!(_mm512_set1_epi32(word(a)));
        proven!([
            _mm512_dpwssd_epi32(c[0], a, b[0]),
            _mm512_dpwssd_epi32(c[1], a, b[1]),
        ])
    }
}
