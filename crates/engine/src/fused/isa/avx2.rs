//! AVX2 with FMA: a block is two 256-bit registers.

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T1, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128,
    _mm_max_ps, _mm_max_ss, _mm_movehdup_ps, _mm_movehl_ps, _mm_prefetch, _mm256_add_epi32,
    _mm256_add_ps, _mm256_castps_si256, _mm256_castps256_ps128, _mm256_castsi256_ps,
    _mm256_cvtepi8_epi16, _mm256_cvtepi32_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
    _mm256_cvtps_epi32, _mm256_div_ps, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_madd_epi16, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
    _mm256_packs_epi32, _mm256_permute4x64_epi64, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setzero_si256, _mm256_slli_epi32, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps,
};

use half::{bf16, f16};

use super::{DotKernel, Dots, Kernel, ONE, Simd, word};

/// Proof that processor and operating system support AVX2, FMA and F16C. F16C is older than the other two.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let present = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        present.then_some(Self(()))
    }
}

impl Simd for Avx2 {
    type Block = [__m256; 2];
    type Ints = [__m256i; 2];
    const WIDTH: usize = 16;
    // 6 · 2 accumulators, 2 registers of weights, 1 broadcast: 15 of 16.
    const ROWS: usize = 6;

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
    fn prefetch<T>(self, near: &T) {
        // SAFETY: part of SSE, which x86-64 always has; a prefetch is only a hint and accesses no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(near).cast()) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves AVX2; 16 floats are readable from the start of `from`.
        unsafe {
            [
                _mm256_loadu_ps(from.as_ptr()),
                _mm256_loadu_ps(from.as_ptr().add(8)),
            ]
        }
    }

    #[inline(always)]
    fn load_f16(self, from: &[f16]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves F16C; 16 halves of two bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())),
            ]
        }
    }

    #[inline(always)]
    fn load_bf16(self, from: &[bf16]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves AVX2; 16 numbers of two bytes are readable from the start of `from`.
        unsafe { [high_half(from.as_ptr()), high_half(from.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], [a, b]: Self::Block) {
        let to = &mut to[..Self::WIDTH];
        // SAFETY: `self` proves AVX2; 16 floats are writable from the start of `to`.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), a);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), b);
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Block {
        [proven!(_mm256_set1_ps(value)); 2]
    }

    #[inline(always)]
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn sub(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn div(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Block, b: Self::Block, c: Self::Block) -> Self::Block {
        proven!([
            _mm256_fmadd_ps(a[0], b[0], c[0]),
            _mm256_fmadd_ps(a[1], b[1], c[1]),
        ])
    }

    #[inline(always)]
    fn min(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn max(self, a: Self::Block, b: Self::Block) -> Self::Block {
        proven!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
    }

    #[inline(always)]
    fn power_of_two(self, shifted: Self::Block) -> Self::Block {
        proven!([power_of_two(shifted[0]), power_of_two(shifted[1])])
    }

    #[inline(always)]
    fn no_ints(self) -> Self::Ints {
        [proven!(_mm256_setzero_si256()); 2]
    }

    #[inline(always)]
    fn floats(self, a: Self::Ints) -> Self::Block {
        proven!([_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])])
    }

    #[inline(always)]
    fn sum(self, a: Self::Block) -> f32 {
        proven!(sum(_mm256_add_ps(a[0], a[1])))
    }

    #[inline(always)]
    fn largest(self, a: Self::Block) -> f32 {
        proven!(largest(_mm256_max_ps(a[0], a[1])))
    }
}

impl Dots<i16> for Avx2 {
    type Base = Self;
    type Pairs = [__m256i; 2];

    #[inline(always)]
    fn base(self) -> Self {
        self
    }

    #[inline]
    fn run<K: DotKernel<i16>>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<K: DotKernel<i16>>(dots: Avx2, kernel: K) -> K::Output {
            kernel.run(dots)
        }
        // SAFETY: `self` proves that the processor has AVX2, FMA and F16C.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn load_pairs(self, from: &[i16]) -> Self::Pairs {
        let from = &from[..2 * Self::WIDTH];
        // SAFETY: `self` proves AVX2; 32 numbers of two bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                _mm256_loadu_si256(from.cast()),
                _mm256_loadu_si256(from.add(16).cast()),
            ]
        }
    }

    #[inline(always)]
    fn load_kept_pairs(self, from: &[i8]) -> Self::Pairs {
        let from = &from[..2 * Self::WIDTH];
        // SAFETY: `self` proves AVX2; 32 bytes are readable from the start of `from`.
        unsafe {
            let from = from.as_ptr();
            [
                _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast())),
                _mm256_cvtepi8_epi16(_mm_loadu_si128(from.add(16).cast())),
            ]
        }
    }

    #[inline(always)]
    fn store(self, to: &mut [i16], [a, b]: <Self as Simd>::Block) {
        let to = &mut to[..Self::WIDTH];
        // SAFETY: `self` proves AVX2; 16 numbers of two bytes are writable from the start of `to`.
        unsafe {
            let packed = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
            // Packing works on halves of a register: a, b, a, b.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), packed);
        }
    }

    #[inline(always)]
    fn dot_add(self, a: [i16; 2], b: Self::Pairs, c: <Self as Simd>::Ints) -> <Self as Simd>::Ints {
        let a = proven!(_mm256_set1_epi32(word(a)));
        proven!([
            _mm256_add_epi32(c[0], _mm256_madd_epi16(a, b[0])),
            _mm256_add_epi32(c[1], _mm256_madd_epi16(a, b[1])),
        ])
    }
}

/// Eight numbers whose bits are the upper halves of floats.
///
/// # Safety
/// Sixteen bytes must be readable at `from`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn high_half(from: *const bf16) -> __m256 {
    // SAFETY: guaranteed by the caller.
    let halves = unsafe { _mm_loadu_si128(from.cast()) };
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
}

/// Moves n, the low bits of the sum, into the exponent field.
#[inline]
#[target_feature(enable = "avx2")]
fn power_of_two(shifted: __m256) -> __m256 {
    let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
    _mm256_castsi256_ps(_mm256_add_epi32(power, _mm256_set1_epi32(ONE)))
}

/// Adds halves until one lane is left.
#[inline]
#[target_feature(enable = "avx2")]
fn sum(a: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// Compares halves until one lane is left.
#[inline]
#[target_feature(enable = "avx2")]
fn largest(a: __m256) -> f32 {
    let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
}
