//! AVX-512 Foundation, Byte and Word: a block is two 512-bit registers.

use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_T1, _mm_prefetch, _mm256_loadu_si256, _mm256_storeu_si256,
    _mm512_add_epi32, _mm512_add_ps, _mm512_castps_si512, _mm512_castsi512_ps,
    _mm512_cvtepi8_epi16, _mm512_cvtepi32_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps,
    _mm512_cvtps_epi32, _mm512_cvtsepi32_epi16, _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_madd_epi16, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps,
    _mm512_reduce_add_ps, _mm512_reduce_max_ps, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setzero_si512, _mm512_slli_epi32, _mm512_storeu_ps, _mm512_sub_ps,
};

use half::{bf16, f16};

use super::{DotKernel, Dots, Kernel, ONE, Simd, word};

/// Proof that processor and operating system support AVX-512 Foundation and AVX-512 Byte and Word.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        let present = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512bw");
        present.then_some(Self(()))
    }
}

impl Simd for Avx512 {
    type Block = [__m512; 2];
    type Ints = [__m512i; 2];
    const WIDTH: usize = 32;
    // 13 · 2 accumulators, 2 registers of weights, 1 broadcast: 29 of 32.
    const ROWS: usize = 13;

    #[inline]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw")]
        fn compiled<K: Kernel>(isa: Avx512, kernel: K) -> K::Output {
            kernel.run(isa)
        }
        // SAFETY: `self` proves that the processor has both.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn prefetch<T>(self, near: &T) {
        // SAFETY: part of SSE, which x86-64 always has; a prefetch is only a hint and accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(near).cast()) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 32 floats are readable from the start of `from`.
        unsafe {
            [
                _mm512_loadu_ps(from.as_ptr()),
                _mm512_loadu_ps(from.as_ptr().add(16)),
            ]
        }
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 32 halves of two bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())),
                _mm512_cvtph_ps(_mm256_loadu_si256(from.add(16).cast())),
            ]
        }
    }

    #[inline(always)]
    fn load_bf16(self, from: &[bf16]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 32 numbers of two bytes are readable from the start of `from`.
        unsafe { [high_half(from.as_ptr()), high_half(from.as_ptr().add(16))] }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], [a, b]: Self::Block) {
        let to = &mut to[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 32 floats are writable from the start of `to`.
        unsafe {
            _mm512_storeu_ps(to.as_mut_ptr(), a);
            _mm512_storeu_ps(to.as_mut_ptr().add(16), b);
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Block {
        [proven!(_mm512_set1_ps(value)); 2]
    }

    #[inline(always)]
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm512_add_ps(a[0], b[0]), _mm512_add_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn sub(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm512_sub_ps(a[0], b[0]), _mm512_sub_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm512_mul_ps(a[0], b[0]), _mm512_mul_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn div(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm512_div_ps(a[0], b[0]), _mm512_div_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Block, b: Self::Block, c: Self::Block) -> Self::Block {
        proven!([
            _mm512_fmadd_ps(a[0], b[0], c[0]),
            _mm512_fmadd_ps(a[1], b[1], c[1]),
        ])
    }

    #[inline(always)]
    fn min(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm512_min_ps(a[0], b[0]), _mm512_min_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn max(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm512_max_ps(a[0], b[0]), _mm512_max_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn power_of_two(self, shifted: Self::Block) -> Self::Block {
        proven!([power_of_two(shifted[0]), power_of_two(shifted[1])])
    }

    #[inline(always)]
    fn no_ints(self) -> Self::Ints {
        [proven!(_mm512_setzero_si512()); 2]
    }

    #[inline(always)]
    fn floats(self, a: Self::Ints) -> Self::Block {
        proven!([_mm512_cvtepi32_ps(a[0]), _mm512_cvtepi32_ps(a[1])])
    }

    #[inline(always)]
    fn sum(self, a: Self::Block) -> f32 {
        proven!(_mm512_reduce_add_ps(_mm512_add_ps(a[0], a[1])))
    }

    #[inline(always)]
    fn largest(self, a: Self::Block) -> f32 {
        proven!(_mm512_reduce_max_ps(_mm512_max_ps(a[0], a[1])))
    }
}

impl Dots<i16> for Avx512 {
    type Base = Self;
    type Pairs = [__m512i; 2];

    #[inline(always)]
    fn base(self) -> Self {
        self
    }

    #[inline]
    fn run<K: DotKernel<i16>>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw")]
        fn compiled<K: DotKernel<i16>>(dots: Avx512, kernel: K) -> K::Output {
            kernel.run(dots)
        }
        // SAFETY: `self` proves that the processor has both.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn load_pairs(self, from: &[i16]) -> Self::Pairs {
        let from = &from[..2 * Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 64 numbers of two bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                _mm512_loadu_si512(from.cast()),
                _mm512_loadu_si512(from.add(32).cast()),
            ]
        }
    }

    #[inline(always)]
    fn load_kept_pairs(self, from: &[i8]) -> Self::Pairs {
        let from = &from[..2 * Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 64 bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.cast())),
                _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.add(32).cast())),
            ]
        }
    }

    #[inline(always)]
    fn store(self, to: &mut [i16], [a, b]: <Self as Simd>::Block) {
        let to = &mut to[..Self::WIDTH];
        // SAFETY: `self` proves AVX-512; 32 numbers of two bytes are writable from the start of `to`.
        unsafe {
            let to = to.as_mut_ptr();
            let (a, b) = (_mm512_cvtps_epi32(a), _mm512_cvtps_epi32(b));
            _mm256_storeu_si256(to.cast(), _mm512_cvtsepi32_epi16(a));
            _mm256_storeu_si256(to.add(16).cast(), _mm512_cvtsepi32_epi16(b));
        }
    }

    #[inline(always)]
    fn dot_add(self, a: [i16; 2], b: Self::Pairs, c: <Self as Simd>::Ints) -> <Self as Simd>::Ints {
        let a = proven!(_mm512_set1_epi32(word(a)));
        proven!([
            _mm512_add_epi32(c[0], _mm512_madd_epi16(a, b[0])),
            _mm512_add_epi32(c[1], _mm512_madd_epi16(a, b[1])),
        ])
    }
}

/// Sixteen numbers whose bits are the upper halves of floats.
///
/// # Safety
/// 32 bytes must be readable at `from`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn high_half(from: *const bf16) -> __m512 {
    // SAFETY: guaranteed by the caller.
    let halves = unsafe { _mm256_loadu_si256(from.cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
}

/// Moves n, the low bits of the sum, into the exponent.
#[inline]
#[target_feature(enable = "avx512f")]
fn power_of_two(shifted: __m512) -> __m512 {
    let power = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted));
    _mm512_castsi512_ps(_mm512_add_epi32(power, _mm512_set1_epi32(ONE)))
}
