//! What the processor can do at most: multiply-adds in registers and nothing else.

use std::time::{Duration, Instant};

use super::{Isa, Kernel, Simd};

impl Isa {
    /// Floating-point operations a second of the calling thread, measured for about `time`: the ceiling for any kernel
    /// on this instruction set. The best of several short runs, because others may run as well.
    #[must_use]
    pub fn peak_flops(self, time: Duration) -> f64 {
        let end = Instant::now() + time;
        let mut best = 0_f64;
        loop {
            let started = Instant::now();
            std::hint::black_box(self.run(MulAdds(std::hint::black_box(1e-9))));
            let operations = 2 * CHAINS * ROUNDS * self.width();
            best = best.max(operations as f64 / started.elapsed().as_secs_f64());
            if Instant::now() >= end {
                return best;
            }
        }
    }
}

/// Independent sums: enough to hide the latency of an addition, few enough for sixteen registers.
const CHAINS: usize = 6;
const ROUNDS: usize = 20_000;

struct MulAdds(f32);

impl Kernel for MulAdds {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let factor = simd.splat(self.0);
        let mut sums = [factor; CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = simd.mul_add(*sum, factor, factor);
            }
        }
        sums.into_iter().map(|sum| simd.sum(sum)).sum()
    }
}
