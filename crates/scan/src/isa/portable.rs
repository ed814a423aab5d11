//! Any processor: arrays, which the compiler vectorizes as far as the target allows.

use half::f16;

use super::{Kernel, Simd};
use crate::panels::{GROUP, ROWS};

/// Needs no proof.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type Floats = [f32; ROWS];
    type Ints = [i32; ROWS];
    type Codes = [[u8; GROUP]; ROWS];
    const WIDE: bool = false;

    #[inline]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn load(self, from: &[f32; ROWS]) -> Self::Floats {
        *from
    }

    #[inline(always)]
    fn load_f16(self, from: &[u16; ROWS]) -> Self::Floats {
        from.map(|bits| f16::from_bits(bits).to_f32_const())
    }

    #[inline(always)]
    fn store(self, floats: Self::Floats) -> [f32; ROWS] {
        floats
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::Floats {
        [value; ROWS]
    }

    #[inline(always)]
    fn add(self, mut a: Self::Floats, b: Self::Floats) -> Self::Floats {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
        a
    }

    #[inline(always)]
    fn mul(self, mut a: Self::Floats, b: Self::Floats) -> Self::Floats {
        for (a, b) in a.iter_mut().zip(b) {
            *a *= b;
        }
        a
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Floats, b: Self::Floats, mut c: Self::Floats) -> Self::Floats {
        for ((c, a), b) in c.iter_mut().zip(a).zip(b) {
            *c += a * b;
        }
        c
    }

    #[inline(always)]
    fn at_least(self, a: Self::Floats, b: Self::Floats) -> u16 {
        let lanes = a.into_iter().zip(b).enumerate();
        lanes.fold(0, |mask, (lane, (a, b))| mask | u16::from(a >= b) << lane)
    }

    #[inline(always)]
    fn load_codes(self, from: &[u8; ROWS * GROUP]) -> Self::Codes {
        let mut codes = [[0; GROUP]; ROWS];
        codes.copy_from_slice(from.as_chunks().0);
        codes
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::Ints {
        [value; ROWS]
    }

    #[inline(always)]
    fn add_ints(self, mut a: Self::Ints, b: Self::Ints) -> Self::Ints {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
        a
    }

    #[inline(always)]
    fn dot_add(self, codes: Self::Codes, query: [i8; GROUP], mut c: Self::Ints) -> Self::Ints {
        let query = query.map(i32::from);
        for (c, codes) in c.iter_mut().zip(codes) {
            let [a, b, d, e] = codes.map(i32::from);
            *c += a * query[0] + b * query[1] + d * query[2] + e * query[3];
        }
        c
    }

    #[inline(always)]
    fn floats(self, ints: Self::Ints) -> Self::Floats {
        ints.map(|int| int as f32)
    }
}
