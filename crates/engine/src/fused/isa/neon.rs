//! NEON, which every 64-bit Arm processor has: a block is four 128-bit registers.

use std::arch::aarch64::{
    float32x4_t, int16x8_t, int32x4_t, vaddq_f32, vaddq_s32, vaddvq_f32, vcvtnq_s32_f32,
    vcvtq_f32_s32, vdivq_f32, vdupq_n_f32, vdupq_n_s32, vfmaq_f32, vget_low_s16, vld1_s8, vld1_u16,
    vld1q_f32, vld1q_s16, vmaxq_f32, vmaxvq_f32, vminq_f32, vmovl_s8, vmull_high_s16, vmull_s16,
    vmulq_f32, vpaddq_s32, vqmovn_s32, vreinterpretq_f32_s32, vreinterpretq_f32_u32,
    vreinterpretq_s16_s32, vreinterpretq_s32_f32, vshll_n_u16, vshlq_n_s32, vst1_s16, vst1q_f32,
    vsubq_f32,
};

use half::bf16;

use super::{DotKernel, Dots, Kernel, ONE, Simd, word};

/// Proof that processor and operating system support NEON.
#[derive(Clone, Copy)]
pub(in super::super) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

/// Floats in one register.
const LANES: usize = 4;

impl Simd for Neon {
    type Block = [float32x4_t; 4];
    type Ints = [int32x4_t; 4];
    const WIDTH: usize = 4 * LANES;
    // 6 · 4 accumulators, 4 registers of weights, 1 broadcast: 29 of 32.
    const ROWS: usize = 6;

    #[inline]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        fn compiled<K: Kernel>(isa: Neon, kernel: K) -> K::Output {
            kernel.run(isa)
        }
        // SAFETY: `self` proves that the processor has NEON.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves NEON; 16 floats are readable from the start of `from`, and no offset is above 12.
        [0, 1, 2, 3].map(|i| unsafe { vld1q_f32(from.as_ptr().add(i * LANES)) })
    }

    // Halves are widened lane by lane, because stable Rust does not have the instruction's type yet.

    #[inline(always)]
    fn load_bf16(self, from: &[bf16]) -> Self::Block {
        let from = &from[..Self::WIDTH];
        // SAFETY: `self` proves NEON; 16 numbers of two bytes are readable from the start of `from`, and no offset is
        // above 12.
        [0, 1, 2, 3].map(|i| unsafe {
            let halves = vld1_u16(from.as_ptr().add(i * LANES).cast());
            vreinterpretq_f32_u32(vshll_n_u16::<16>(halves))
        })
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], [a, b, c, d]: Self::Block) {
        let to = &mut to[..Self::WIDTH];
        // SAFETY: `self` proves NEON; 16 floats are writable from the start of `to`.
        unsafe {
            vst1q_f32(to.as_mut_ptr(), a);
            vst1q_f32(to.as_mut_ptr().add(LANES), b);
            vst1q_f32(to.as_mut_ptr().add(2 * LANES), c);
            vst1q_f32(to.as_mut_ptr().add(3 * LANES), d);
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Block {
        [proven!(vdupq_n_f32(value)); 4]
    }

    #[inline(always)]
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| proven!(vaddq_f32(a, b)))
    }

    #[inline(always)]
    fn sub(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| proven!(vsubq_f32(a, b)))
    }

    #[inline(always)]
    fn mul(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| proven!(vmulq_f32(a, b)))
    }

    #[inline(always)]
    fn div(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| proven!(vdivq_f32(a, b)))
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Block, b: Self::Block, c: Self::Block) -> Self::Block {
        proven!([
            vfmaq_f32(c[0], a[0], b[0]),
            vfmaq_f32(c[1], a[1], b[1]),
            vfmaq_f32(c[2], a[2], b[2]),
            vfmaq_f32(c[3], a[3], b[3]),
        ])
    }

    #[inline(always)]
    fn min(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| proven!(vminq_f32(a, b)))
    }

    #[inline(always)]
    fn max(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| proven!(vmaxq_f32(a, b)))
    }

    #[inline(always)]
    fn power_of_two(self, shifted: Self::Block) -> Self::Block {
        shifted.map(|shifted| proven!(power_of_two(shifted)))
    }

    #[inline(always)]
    fn no_ints(self) -> Self::Ints {
        [proven!(vdupq_n_s32(0)); 4]
    }

    #[inline(always)]
    fn floats(self, a: Self::Ints) -> Self::Block {
        a.map(|a| proven!(vcvtq_f32_s32(a)))
    }

    #[inline(always)]
    fn sum(self, [a, b, c, d]: Self::Block) -> f32 {
        proven!(vaddvq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d))))
    }

    #[inline(always)]
    fn largest(self, [a, b, c, d]: Self::Block) -> f32 {
        proven!(vmaxvq_f32(vmaxq_f32(vmaxq_f32(a, b), vmaxq_f32(c, d))))
    }
}

impl Dots<i16> for Neon {
    type Base = Self;
    type Pairs = [int16x8_t; 4];

    #[inline(always)]
    fn base(self) -> Self {
        self
    }

    #[inline]
    fn run<K: DotKernel<i16>>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        fn compiled<K: DotKernel<i16>>(dots: Neon, kernel: K) -> K::Output {
            kernel.run(dots)
        }
        // SAFETY: `self` proves that the processor has NEON.
        unsafe { compiled(self, kernel) }
    }

    #[inline(always)]
    fn load_pairs(self, from: &[i16]) -> Self::Pairs {
        let from = &from[..2 * Self::WIDTH];
        // SAFETY: `self` proves NEON; 32 numbers of two bytes are readable from the start of `from`, and no offset is above
        // 24.
        [0, 1, 2, 3].map(|i| unsafe { vld1q_s16(from.as_ptr().add(i * 2 * LANES)) })
    }

    #[inline(always)]
    fn load_kept_pairs(self, from: &[i8]) -> Self::Pairs {
        let from = &from[..2 * Self::WIDTH];
        // SAFETY: `self` proves NEON; 32 bytes are readable from the start of `from`, and no offset is above 24.
        [0, 1, 2, 3].map(|i| unsafe { vmovl_s8(vld1_s8(from.as_ptr().add(i * 2 * LANES))) })
    }

    #[inline(always)]
    fn store(self, to: &mut [i16], block: <Self as Simd>::Block) {
        let to = &mut to[..Self::WIDTH];
        for (to, floats) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(block) {
            // SAFETY: `self` proves NEON; `to` is as long as the four numbers written.
            unsafe { vst1_s16(to.as_mut_ptr(), vqmovn_s32(vcvtnq_s32_f32(floats))) }
        }
    }

    #[inline(always)]
    fn dot_add(self, a: [i16; 2], b: Self::Pairs, c: <Self as Simd>::Ints) -> <Self as Simd>::Ints {
        [0, 1, 2, 3].map(|i| proven!(pair_add(vdupq_n_s32(word(a)), b[i], c[i])))
    }
}

/// Multiplies eight numbers and adds neighbouring products.
#[inline]
#[target_feature(enable = "neon")]
fn pair_add(a: int32x4_t, b: int16x8_t, c: int32x4_t) -> int32x4_t {
    let a = vreinterpretq_s16_s32(a);
    let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    vaddq_s32(c, vpaddq_s32(low, vmull_high_s16(a, b)))
}

/// Moves n, the low bits of the sum, into the exponent.
#[inline]
#[target_feature(enable = "neon")]
fn power_of_two(shifted: float32x4_t) -> float32x4_t {
    let power = vshlq_n_s32::<23>(vreinterpretq_s32_f32(shifted));
    vreinterpretq_f32_s32(vaddq_s32(power, vdupq_n_s32(ONE)))
}

#[inline(always)]
fn zip(
    a: [float32x4_t; 4],
    b: [float32x4_t; 4],
    f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t,
) -> [float32x4_t; 4] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}
