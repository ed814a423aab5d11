//! Plain Rust over small arrays, for processors without their own kernels. The compiler uses the vector instructions of the
//! target's baseline. Also the reference in tests.

use super::{DROP_FRACTION, DotKernel, Dots, Kernel, ONE, Simd};

/// Requires no instruction set, so it is always available.
#[derive(Clone, Copy)]
pub(in super::super) struct Portable(());

impl Portable {
    /// The proof, which requires nothing.
    pub(super) const ALWAYS: Self = Self(());
}

const LANES: usize = 8;

impl Simd for Portable {
    type Block = [f32; LANES];
    type Ints = [i32; LANES];
    const WIDTH: usize = LANES;
    // With 128-bit vectors: 6 · 2 accumulators, 2 of weights, 1 broadcast: 15 of 16.
    const ROWS: usize = 6;

    #[inline]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::Block {
        let mut block = [0.0; LANES];
        block.copy_from_slice(&from[..LANES]);
        block
    }

    #[inline(always)]
    fn store(self, to: &mut [f32], block: Self::Block) {
        to[..LANES].copy_from_slice(&block);
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Block {
        [value; LANES]
    }

    #[inline(always)]
    fn add(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Block, b: Self::Block, mut c: Self::Block) -> Self::Block {
        for lane in 0..LANES {
            // Fused where it is one instruction; elsewhere it would be a call into the C library.
            if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                c[lane] = a[lane].mul_add(b[lane], c[lane]);
            } else {
                c[lane] += a[lane] * b[lane];
            }
        }
        c
    }

    #[inline(always)]
    fn min(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max(self, a: Self::Block, b: Self::Block) -> Self::Block {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn power_of_two(self, shifted: Self::Block) -> Self::Block {
        // Moves n, the low bits of the sum, into the exponent.
        shifted.map(|sum| f32::from_bits((sum.to_bits() << 23).wrapping_add(ONE.cast_unsigned())))
    }

    #[inline(always)]
    fn no_ints(self) -> Self::Ints {
        [0; LANES]
    }

    #[inline(always)]
    fn floats(self, a: Self::Ints) -> Self::Block {
        a.map(|a| a as f32)
    }

    #[inline(always)]
    fn sum(self, [a, b, c, d, e, f, g, h]: Self::Block) -> f32 {
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    #[inline(always)]
    fn largest(self, a: Self::Block) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
}

impl Dots<i16> for Portable {
    type Base = Self;
    type Pairs = [[i16; 2]; LANES];

    #[inline(always)]
    fn base(self) -> Self {
        self
    }

    #[inline]
    fn run<K: DotKernel<i16>>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn load_pairs(self, from: &[i16]) -> Self::Pairs {
        let mut pairs = [[0; 2]; LANES];
        pairs.copy_from_slice(&from.as_chunks().0[..LANES]);
        pairs
    }

    #[inline(always)]
    fn load_kept_pairs(self, from: &[i8]) -> Self::Pairs {
        let mut pairs = [[0; 2]; LANES];
        for (pair, from) in pairs.iter_mut().zip(from[..2 * LANES].as_chunks::<2>().0) {
            *pair = from.map(i16::from);
        }
        pairs
    }

    #[inline(always)]
    fn store(self, to: &mut [i16], block: <Self as Simd>::Block) {
        for (to, value) in to[..LANES].iter_mut().zip(block) {
            *to = ((value + DROP_FRACTION) - DROP_FRACTION) as i16;
        }
    }

    #[inline(always)]
    fn dot_add(
        self,
        a: [i16; 2],
        b: Self::Pairs,
        mut c: <Self as Simd>::Ints,
    ) -> <Self as Simd>::Ints {
        let a = a.map(i32::from);
        for (c, b) in c.iter_mut().zip(b) {
            *c += a[0] * i32::from(b[0]) + a[1] * i32::from(b[1]);
        }
        c
    }
}

#[inline(always)]
fn zip(mut a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    for lane in 0..LANES {
        a[lane] = f(a[lane], b[lane]);
    }
    a
}

/// Lets the kernels be tested on processors without such instructions.
#[cfg(test)]
mod bf16_products {
    use half::bf16;

    use super::{DotKernel, Dots, LANES, Portable, Simd};

    impl Dots<bf16> for Portable {
        type Base = Self;
        type Pairs = [[bf16; 2]; LANES];

        #[inline(always)]
        fn base(self) -> Self {
            self
        }

        #[inline]
        fn run<K: DotKernel<bf16>>(self, kernel: K) -> K::Output {
            kernel.run(self)
        }

        #[inline(always)]
        fn load_pairs(self, from: &[bf16]) -> Self::Pairs {
            let mut pairs = [[bf16::ZERO; 2]; LANES];
            pairs.copy_from_slice(&from.as_chunks().0[..LANES]);
            pairs
        }

        #[inline(always)]
        fn load_kept_pairs(self, from: &[bf16]) -> Self::Pairs {
            self.load_pairs(from)
        }

        #[inline(always)]
        fn store(self, to: &mut [bf16], block: <Self as Simd>::Block) {
            to[..LANES].copy_from_slice(&block.map(bf16::from_f32));
        }

        #[inline(always)]
        fn dot_add(
            self,
            a: [bf16; 2],
            b: [[bf16; 2]; LANES],
            mut c: <Self as Simd>::Block,
        ) -> <Self as Simd>::Block {
            let a = a.map(bf16::to_f32);
            for (c, b) in c.iter_mut().zip(b) {
                *c += a[0] * b[0].to_f32() + a[1] * b[1].to_f32();
            }
            c
        }
    }
}
