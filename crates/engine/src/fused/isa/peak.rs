//! Measures the processor's peak: multiply-adds in registers only.

use std::time::{Duration, Instant};

use super::{Isa, Kernel, Simd};

impl Isa {
    /// Measures floating-point operations per second of the calling thread, for about `time`: the upper bound for any kernel on
    /// this instruction set. Returns the best of several short runs, because other programs may run too.
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

/// Independent sums: enough to hide the latency of an addition, and few enough for sixteen registers.
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
