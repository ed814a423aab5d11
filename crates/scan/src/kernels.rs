//! The arithmetic of a scan: scores of panels, compared with what they must reach.

#![allow(
    clippy::needless_range_loop,
    reason = "several arrays of registers share an index, and operations are not compiled into closures"
)]

use std::ops::Range;

use crate::candidates::Candidates;
use crate::isa::{Kernel, Simd};
use crate::panels::{GROUP, ROWS, ZERO_CODE};
use crate::query::{CodeTile, Margin, Queries};
use crate::vectors::{Numbers, Vectors};

/// Scores `panels` of a block for all queries, and offers the rows that may be among the best.
pub(crate) struct Scan<'s, 'a> {
    pub(crate) vectors: &'s Vectors,
    pub(crate) panels: Range<usize>,
    pub(crate) queries: &'s Queries<'s>,
    pub(crate) candidates: &'s mut Candidates<'a>,
}

impl Kernel for Scan<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let dimensions = self.vectors.dimensions();
        match &self.vectors.numbers {
            Numbers::F32(numbers) => self.scan_floats(simd, &Panels::new(numbers, dimensions)),
            Numbers::F16(numbers) => self.scan_floats(simd, &Panels::new(numbers, dimensions)),
            Numbers::Int8 { codes, scales } => {
                let codes = Panels::new(codes, dimensions.div_ceil(GROUP));
                self.scan_codes(simd, &codes, scales.as_chunks().0);
            }
        }
    }
}

/// Panels of `N` numbers per step: 16 of one dimension, or of int8 16 times four dimensions.
struct Panels<'a, T, const N: usize> {
    steps: &'a [[T; N]],
    /// Steps of a panel.
    length: usize,
}

impl<'a, T, const N: usize> Panels<'a, T, N> {
    fn new(numbers: &'a [T], length: usize) -> Self {
        Self {
            steps: numbers.as_chunks().0,
            length,
        }
    }

    /// Bytes by which to prefetch: to the same place of the next panels, or to a fixed distance in the order of memory.
    #[inline(always)]
    fn distance(&self, several: bool) -> usize {
        if several {
            WIDE * self.length * size_of::<[T; N]>()
        } else {
            AHEAD
        }
    }

    #[inline(always)]
    fn get(&self, panel: usize) -> &'a [[T; N]] {
        &self.steps[panel * self.length..][..self.length]
    }
}

/// Panels that are multiplied by the same queries at once, where there are registers for it.
const WIDE: usize = 3;

/// Bytes by which a search for one query prefetches.
const AHEAD: usize = 4096;

impl Scan<'_, '_> {
    #[inline(always)]
    fn scan_floats<S: Simd, T: Float>(self, simd: S, panels: &Panels<'_, T, ROWS>) {
        let Self {
            panels: range,
            queries,
            candidates,
            vectors,
        } = self;
        let lengths = vectors.lengths.as_chunks().0;
        let mut next = range.start;
        while next < range.end {
            // One query needs no sharing of registers: memory is slower than the processor.
            let several = S::WIDE && queries.numbers.len() > 1 && range.end - next >= WIDE;
            let count = if several { WIDE } else { 1 };
            let mut ahead = panels.distance(several);
            for tile in &queries.floats {
                macro_rules! score {
                    ($chains:literal, $panels:expr, $queries:literal) => {{
                        let panels: [_; $panels] = std::array::from_fn(|n| panels.get(next + n));
                        let query = tile.numbers.as_chunks::<$queries>().0;
                        let scores = dot_floats::<S, T, $chains, $panels, $queries>(
                            simd, panels, query, ahead,
                        );
                        offer(
                            simd,
                            lengths,
                            next,
                            tile.first,
                            &tile.margins,
                            scores,
                            candidates,
                        );
                    }};
                }
                match (tile.margins.len(), several) {
                    (8, true) => score!(1, WIDE, 8),
                    (4, true) => score!(2, WIDE, 4),
                    (2, true) => score!(2, WIDE, 2),
                    (1, true) => score!(4, WIDE, 1),
                    (8, false) => score!(2, 1, 8),
                    (4, false) => score!(1, 1, 4),
                    (2, false) => score!(2, 1, 2),
                    _ => score!(4, 1, 1),
                }
                // The first tile fetches for all.
                ahead = 0;
            }
            next += count;
        }
    }

    #[inline(always)]
    fn scan_codes<S: Simd>(
        self,
        simd: S,
        panels: &Panels<'_, u8, { ROWS * GROUP }>,
        scales: &[[f32; ROWS]],
    ) {
        let Self {
            panels: range,
            queries,
            candidates,
            vectors,
        } = self;
        let lengths = vectors.lengths.as_chunks().0;
        let mut next = range.start;
        while next < range.end {
            let several = S::WIDE && queries.numbers.len() > 1 && range.end - next >= WIDE;
            let count = if several { WIDE } else { 1 };
            let mut ahead = panels.distance(several);
            for tile in &queries.codes {
                macro_rules! score {
                    ($chains:literal, $panels:expr, $queries:literal) => {{
                        let steps: [_; $panels] = std::array::from_fn(|n| panels.get(next + n));
                        let parts = tile.parts.as_chunks::<$queries>().0;
                        let sums =
                            dot_codes::<S, $chains, $panels, $queries>(simd, steps, parts, ahead);
                        let scores = scale_sums(simd, sums, tile, &scales[next..]);
                        offer(
                            simd,
                            lengths,
                            next,
                            tile.first,
                            &tile.margins,
                            scores,
                            candidates,
                        );
                    }};
                }
                match (tile.margins.len(), several) {
                    (4, true) => score!(1, WIDE, 4),
                    (2, true) => score!(2, WIDE, 2),
                    (1, true) => score!(2, WIDE, 1),
                    (4, false) => score!(2, 1, 4),
                    (2, false) => score!(1, 1, 2),
                    _ => score!(4, 1, 1),
                }
                // The first tile fetches for all.
                ahead = 0;
            }
            next += count;
        }
    }
}

/// Stored numbers that widen to f32.
trait Float: Copy {
    fn load<S: Simd>(simd: S, from: &[Self; ROWS]) -> S::Floats;
}

impl Float for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[f32; ROWS]) -> S::Floats {
        simd.load(from)
    }
}

/// Bits of f16.
impl Float for u16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[u16; ROWS]) -> S::Floats {
        simd.load_f16(from)
    }
}

/// Dot products of `P` panels and `Q` queries. Every sum has `J` chains of additions.
#[inline(always)]
fn dot_floats<S: Simd, T: Float, const J: usize, const P: usize, const Q: usize>(
    simd: S,
    panels: [&[[T; ROWS]]; P],
    query: &[[f32; Q]],
    ahead: usize,
) -> [[S::Floats; Q]; P] {
    let mut sums = [[[simd.splat(0.0); Q]; P]; J];
    let panels = panels.map(|panel| panel[..query.len()].as_chunks::<J>());
    let (query, query_rest) = query.as_chunks::<J>();
    for (step, query) in query.iter().enumerate() {
        for panel in panels {
            prefetch(simd, &panel.0[step], ahead);
        }
        for chain in 0..J {
            let mut rows = [simd.splat(0.0); P];
            for p in 0..P {
                rows[p] = T::load(simd, &panels[p].0[step][chain]);
            }
            for q in 0..Q {
                let number = simd.splat(query[chain][q]);
                for p in 0..P {
                    sums[chain][p][q] = simd.mul_add(rows[p], number, sums[chain][p][q]);
                }
            }
        }
    }
    for (step, query) in query_rest.iter().enumerate() {
        let mut rows = [simd.splat(0.0); P];
        for p in 0..P {
            rows[p] = T::load(simd, &panels[p].1[step]);
        }
        for q in 0..Q {
            let number = simd.splat(query[q]);
            for p in 0..P {
                sums[0][p][q] = simd.mul_add(rows[p], number, sums[0][p][q]);
            }
        }
    }
    for chain in 1..J {
        for p in 0..P {
            for q in 0..Q {
                sums[0][p][q] = simd.add(sums[0][p][q], sums[chain][p][q]);
            }
        }
    }
    sums[0]
}

/// For both parts of each query, the dot products with the codes of `P` panels, codes being stored + 128.
#[inline(always)]
fn dot_codes<S: Simd, const J: usize, const P: usize, const Q: usize>(
    simd: S,
    panels: [&[[u8; ROWS * GROUP]]; P],
    query: &[[[[i8; GROUP]; 2]; Q]],
    ahead: usize,
) -> [[[S::Ints; 2]; Q]; P] {
    let mut sums = [[[[simd.splat_int(0); 2]; Q]; P]; J];
    let panels = panels.map(|panel| panel[..query.len()].as_chunks::<J>());
    let (query, query_rest) = query.as_chunks::<J>();
    for (step, query) in query.iter().enumerate() {
        for panel in panels {
            prefetch(simd, &panel.0[step], ahead);
        }
        for chain in 0..J {
            let mut codes = [simd.load_codes(&panels[0].0[step][chain]); P];
            for p in 1..P {
                codes[p] = simd.load_codes(&panels[p].0[step][chain]);
            }
            for q in 0..Q {
                for part in 0..2 {
                    for p in 0..P {
                        let sum = &mut sums[chain][p][q][part];
                        *sum = simd.dot_add(codes[p], query[chain][q][part], *sum);
                    }
                }
            }
        }
    }
    for (step, query) in query_rest.iter().enumerate() {
        let mut codes = [simd.load_codes(&panels[0].1[step]); P];
        for p in 1..P {
            codes[p] = simd.load_codes(&panels[p].1[step]);
        }
        for q in 0..Q {
            for part in 0..2 {
                for p in 0..P {
                    let sum = &mut sums[0][p][q][part];
                    *sum = simd.dot_add(codes[p], query[q][part], *sum);
                }
            }
        }
    }
    for chain in 1..J {
        for p in 0..P {
            for q in 0..Q {
                for part in 0..2 {
                    sums[0][p][q][part] =
                        simd.add_ints(sums[0][p][q][part], sums[chain][p][q][part]);
                }
            }
        }
    }
    sums[0]
}

/// Scores from sums of integers.
#[inline(always)]
fn scale_sums<S: Simd, const P: usize, const Q: usize>(
    simd: S,
    sums: [[[S::Ints; 2]; Q]; P],
    tile: &CodeTile,
    scales: &[[f32; ROWS]],
) -> [[S::Floats; Q]; P] {
    // Without closures: the operations would not be compiled into them.
    let mut scores = [[simd.splat(0.0); Q]; P];
    for p in 0..P {
        let scale = simd.load(&scales[p]);
        for q in 0..Q {
            let [high, low] = sums[p][q];
            let high = simd.add_ints(high, simd.splat_int(tile.offsets[q][0]));
            let low = simd.add_ints(low, simd.splat_int(tile.offsets[q][1]));
            // The product with 128 is exact.
            let sum = simd.mul_add(simd.floats(high), simd.splat(128.0), simd.floats(low));
            scores[p][q] = simd.mul(simd.mul(sum, simd.splat(tile.steps[q])), scale);
        }
    }
    scores
}

/// Offers the rows whose score, with its margin, reaches what is needed to be among the best.
#[inline(always)]
fn offer<S: Simd, const P: usize, const Q: usize>(
    simd: S,
    lengths: &[[f32; ROWS]],
    panel: usize,
    first_query: usize,
    margins: &[Margin],
    scores: [[S::Floats; Q]; P],
    candidates: &mut Candidates<'_>,
) {
    for p in 0..P {
        let lengths = simd.load(&lengths[panel + p]);
        for q in 0..Q {
            let Margin { slope, least } = margins[q];
            let margin = simd.mul_add(lengths, simd.splat(slope), simd.splat(least));
            let most = simd.add(scores[p][q], margin);
            let cut = simd.splat(candidates.cut(first_query + q));
            let reached = simd.at_least(most, cut);
            if reached != 0 {
                candidates.add(
                    first_query + q,
                    panel + p,
                    reached,
                    &simd.store(scores[p][q]),
                    &simd.store(margin),
                );
            }
        }
    }
}

/// Prefetches the cache lines at `ahead` bytes after `steps`.
#[inline(always)]
fn prefetch<S: Simd, T>(simd: S, steps: &T, ahead: usize) {
    let address = std::ptr::from_ref(steps).cast::<u8>().wrapping_add(ahead);
    for line in 0..size_of::<T>().div_ceil(LINE) {
        simd.prefetch(address.wrapping_add(line * LINE));
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Exact scores of the rows of a panel: sums in f64, in the order of the dimensions, rounded to f32. Products of two f32 are exact
/// in f64. Tiny negative sums round to −0; adding 0 gives 0.
pub(crate) struct Exact<'s> {
    pub(crate) vectors: &'s Vectors,
    pub(crate) panel: usize,
    pub(crate) query: &'s [f32],
}

impl Kernel for Exact<'_> {
    type Output = [f32; ROWS];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [f32; ROWS] {
        let dimensions = self.vectors.dimensions();
        let sums = match &self.vectors.numbers {
            Numbers::F32(numbers) => self.sum_floats(simd, &Panels::new(numbers, dimensions)),
            Numbers::F16(numbers) => self.sum_floats(simd, &Panels::new(numbers, dimensions)),
            Numbers::Int8 { codes, scales } => {
                let panels = Panels::<_, { ROWS * GROUP }>::new(codes, dimensions.div_ceil(GROUP));
                let scales = scales.as_chunks::<ROWS>().0[self.panel];
                let mut sums = [0_f64; ROWS];
                let groups = panels.get(self.panel).iter();
                for (group, query) in groups.zip(self.query.chunks(GROUP)) {
                    let codes = group.as_chunks::<GROUP>().0;
                    let mut words = [0; ROWS];
                    for lane in 0..ROWS {
                        words[lane] = u32::from_le_bytes(codes[lane]);
                    }
                    for number in query {
                        for lane in 0..ROWS {
                            // The code of this dimension is now in the lowest byte.
                            let code = (words[lane] & 0xff).cast_signed() - i32::from(ZERO_CODE);
                            let value = scales[lane] * code as f32;
                            sums[lane] += f64::from(value) * f64::from(*number);
                            words[lane] >>= 8;
                        }
                    }
                }
                sums
            }
        };
        sums.map(|sum| sum as f32 + 0.0)
    }
}

impl Exact<'_> {
    #[inline(always)]
    fn sum_floats<S: Simd, T: Float>(&self, simd: S, panels: &Panels<'_, T, ROWS>) -> [f64; ROWS] {
        let mut sums = [0_f64; ROWS];
        for (rows, number) in panels.get(self.panel).iter().zip(self.query) {
            let rows = simd.store(T::load(simd, rows));
            for lane in 0..ROWS {
                sums[lane] += f64::from(rows[lane]) * f64::from(*number);
            }
        }
        sums
    }
}
