//! AVX-512 with VNNI: the 16 lanes are one register.

use std::arch::x86_64::{
    __m512, __m512i, _CMP_GE_OQ, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_add_epi32,
    _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cvtepi32_ps, _mm512_cvtph_ps, _mm512_dpbusd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_storeu_ps,
};

use super::{Kernel, Simd};
use crate::panels::{GROUP, ROWS};

/// Proof that processor and operating system support AVX-512's F, BW, VL and VNNI, and AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        let present = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512vnni")
            && std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        present.then_some(Self(()))
    }
}

impl Simd for Avx512 {
    type Floats = __m512;
    type Ints = __m512i;
    type Codes = __m512i;
    const WIDE: bool = true;

    #[inline]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn compiled<K: Kernel>(isa: Avx512, kernel: K) -> K::Output {
            kernel.run(isa)
        }
        // SAFETY: `self` proves that the processor has these features.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        // SAFETY: part of SSE, which x86-64 always has; a prefetch is only a hint and accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; ROWS]) -> Self::Floats {
        // SAFETY: `self` proves AVX-512; `from` is as long as a register.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn load_f16(self, from: &[u16; ROWS]) -> Self::Floats {
        // SAFETY: `self` proves AVX-512; `from` is as long as half a register.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn store(self, floats: Self::Floats) -> [f32; ROWS] {
        let mut to = [0.0; ROWS];
        // SAFETY: `self` proves AVX-512; `to` is as long as a register.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), floats) };
        to
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Floats {
        proven!(_mm512_set1_ps(value))
    }

    #[inline(always)]
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        proven!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        proven!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        proven!(_mm512_fmadd_ps(a, b, c))
    }

    #[inline(always)]
    fn at_least(self, a: Self::Floats, b: Self::Floats) -> u16 {
        proven!(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b))
    }

    #[inline(always)]
    fn load_codes(self, from: &[u8; ROWS * GROUP]) -> Self::Codes {
        // SAFETY: `self` proves AVX-512; `from` is as long as a register.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::Ints {
        proven!(_mm512_set1_epi32(value))
    }

    #[inline(always)]
    fn add_ints(self, a: Self::Ints, b: Self::Ints) -> Self::Ints {
        proven!(_mm512_add_epi32(a, b))
    }

    #[inline(always)]
    fn dot_add(self, codes: Self::Codes, query: [i8; GROUP], c: Self::Ints) -> Self::Ints {
        let query = i32::from_ne_bytes(query.map(i8::cast_unsigned));
        proven!(_mm512_dpbusd_epi32(c, codes, _mm512_set1_epi32(query)))
    }

    #[inline(always)]
    fn floats(self, ints: Self::Ints) -> Self::Floats {
        proven!(_mm512_cvtepi32_ps(ints))
    }
}
