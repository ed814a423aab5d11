//! AVX2 with FMA: the 16 lanes are two registers.

use std::arch::x86_64::{
    __m256, __m256i, _CMP_GE_OQ, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi32,
    _mm256_add_ps, _mm256_and_si256, _mm256_cmp_ps, _mm256_cvtepi32_ps, _mm256_cvtph_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_movemask_ps,
    _mm256_mul_ps, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_slli_epi16,
    _mm256_srai_epi16, _mm256_srli_epi16, _mm256_storeu_ps,
};

use super::{Kernel, Simd};
use crate::panels::{GROUP, ROWS};

/// Proof that processor and operating system support AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let present = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        present.then_some(Self(()))
    }
}

/// Lanes of a register.
const LANES: usize = 8;

impl Simd for Avx2 {
    type Floats = [__m256; 2];
    type Ints = [__m256i; 2];
    /// For each register, the codes 0 and 2 of every lane as pairs of 16 bits, then 1 and 3.
    type Codes = [[__m256i; 2]; 2];
    const WIDE: bool = false;

    #[inline]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<K: Kernel>(isa: Avx2, kernel: K) -> K::Output {
            kernel.run(isa)
        }
        // SAFETY: `self` proves that the processor has AVX2, FMA and F16C.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn prefetch<T>(self, address: *const T) {
        // SAFETY: part of SSE, which x86-64 always has; a prefetch is only a hint and accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; ROWS]) -> Self::Floats {
        let halves = from.as_chunks::<LANES>().0;
        // SAFETY: `self` proves AVX2; each half is as long as a register.
        unsafe {
            [
                _mm256_loadu_ps(halves[0].as_ptr()),
                _mm256_loadu_ps(halves[1].as_ptr()),
            ]
        }
    }

    #[inline(always)]
    fn load_f16(self, from: &[u16; ROWS]) -> Self::Floats {
        let halves = from.as_chunks::<LANES>().0;
        // SAFETY: `self` proves F16C; each half is as long as half a register.
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(halves[0].as_ptr().cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(halves[1].as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn store(self, floats: Self::Floats) -> [f32; ROWS] {
        let mut to = [0.0; ROWS];
        for (to, floats) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(floats) {
            // SAFETY: `self` proves AVX2; `to` is as long as a register.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), floats) };
        }
        to
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Floats {
        [proven!(_mm256_set1_ps(value)); 2]
    }

    #[inline(always)]
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        proven!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        proven!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        proven!([
            _mm256_fmadd_ps(a[0], b[0], c[0]),
            _mm256_fmadd_ps(a[1], b[1], c[1]),
        ])
    }

    #[inline(always)]
    fn at_least(self, a: Self::Floats, b: Self::Floats) -> u16 {
        let low = proven!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a[0], b[0])));
        let high = proven!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a[1], b[1])));
        // Eight bits each.
        (low | high << LANES) as u16
    }

    #[inline(always)]
    fn load_codes(self, from: &[u8; ROWS * GROUP]) -> Self::Codes {
        let halves = from.as_chunks::<{ LANES * GROUP }>().0;
        // SAFETY: `self` proves AVX2; each half is as long as a register.
        unsafe {
            [
                widen_codes(_mm256_loadu_si256(halves[0].as_ptr().cast())),
                widen_codes(_mm256_loadu_si256(halves[1].as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::Ints {
        [proven!(_mm256_set1_epi32(value)); 2]
    }

    #[inline(always)]
    fn add_ints(self, a: Self::Ints, b: Self::Ints) -> Self::Ints {
        proven!([_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])])
    }

    #[inline(always)]
    fn dot_add(self, codes: Self::Codes, query: [i8; GROUP], c: Self::Ints) -> Self::Ints {
        let query = i32::from_ne_bytes(query.map(i8::cast_unsigned));
        let query = proven!(_mm256_set1_epi32(query));
        // Products of 8 bits saturate when they are added in 16, so both factors are widened first.
        let even = proven!(_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(query)));
        let odd = proven!(_mm256_srai_epi16::<8>(query));
        proven!([
            dot_half(codes[0], even, odd, c[0]),
            dot_half(codes[1], even, odd, c[1]),
        ])
    }

    #[inline(always)]
    fn floats(self, ints: Self::Ints) -> Self::Floats {
        proven!([_mm256_cvtepi32_ps(ints[0]), _mm256_cvtepi32_ps(ints[1])])
    }
}

/// The products of one register.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_half([evens, odds]: [__m256i; 2], even: __m256i, odd: __m256i, c: __m256i) -> __m256i {
    let products = _mm256_add_epi32(_mm256_madd_epi16(evens, even), _mm256_madd_epi16(odds, odd));
    _mm256_add_epi32(c, products)
}

/// Codes 0 and 2 of each lane, and 1 and 3, widened to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn widen_codes(codes: __m256i) -> [__m256i; 2] {
    [
        _mm256_and_si256(codes, _mm256_set1_epi16(0xff)),
        _mm256_srli_epi16::<8>(codes),
    ]
}
