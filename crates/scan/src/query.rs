//! Queries in the order in which the kernels read them, and the bounds of the kernels' errors.
//!
//! # Bounds
//!
//! Let `u` = 2⁻²⁴ and `v` = 2⁻⁵³ be the unit roundoffs of f32 and f64, and γₙ(u) = n·u / (1 − n·u). For the dot product of `n`
//! numbers, summed in any order, with or without fused multiply-adds, the error is at most γₙ(u) · Σ|aᵢ·bᵢ| (Higham, *Accuracy
//! and Stability of Numerical Algorithms*, 2nd edition, §3.1, (3.5): every term takes part in at most n roundings), which by
//! Cauchy and Schwarz is at most γₙ(u)·‖a‖·‖b‖. A product that underflows adds at most 2⁻¹⁵⁰; sums do not underflow. The exact
//! score is a sum in f64, in which no product rounds or underflows: its error is at most γₙ(v)·‖a‖·‖b‖.
//!
//! f32 and f16: score of the kernel and exact sum therefore differ by at most (γₙ(u) + γₙ(v))·‖row‖·‖query‖ + n·2⁻¹⁵⁰.
//!
//! int8: the query is replaced by `step · (128·high + low)`, with integers -127 ≤ high ≤ 127 and -64 ≤ low ≤ 63, and differs from it
//! by δ. Its products with a row's codes are summed exactly. What remains is ‖row‖·‖δ‖, and five roundings (both sums to f32,
//! their sum, the factors `step` and `scale`), of numbers that are at most ‖row‖·`step`·(128·‖high‖ + ‖low‖). Underflow of the
//! product with `step` adds 2⁻¹⁵⁰·`scale`, which is less than 2⁻¹⁵⁰·‖row‖.
//!
//! [`Margin`] adds eight more roundings: two of the comparison's left side, whose magnitude is below 2·‖row‖·‖query‖, and some
//! to spare.
//!
//! Neither holds if a number overflows. Blocks and queries for which ‖row‖, ‖query‖ or their product is above 2¹¹⁰ are scored in
//! f64 alone.

use zeroize::Zeroizing;

use crate::panels::GROUP;

/// Upper bound of the difference between a kernel's score and the exact sum: `slope · ‖row‖ + least`.
#[derive(Clone, Copy)]
pub(crate) struct Margin {
    pub(crate) slope: f32,
    pub(crate) least: f32,
}

/// All queries of a search.
pub(crate) struct Queries<'a> {
    pub(crate) numbers: &'a [&'a [f32]],
    pub(crate) floats: Vec<FloatTile>,
    pub(crate) codes: Vec<CodeTile>,
    /// An upper bound of the largest query's Euclidean length.
    longest: f64,
}

/// Queries whose scores are computed together.
pub(crate) struct FloatTile {
    pub(crate) first: usize,
    pub(crate) margins: Vec<Margin>,
    /// For each dimension, the numbers of all queries of the tile.
    pub(crate) numbers: Zeroizing<Vec<f32>>,
}

/// The same, for int8.
pub(crate) struct CodeTile {
    pub(crate) first: usize,
    pub(crate) margins: Vec<Margin>,
    pub(crate) steps: Vec<f32>,
    /// For each query, −128 times the sums of its parts: codes are stored + 128.
    pub(crate) offsets: Vec<[i32; 2]>,
    /// For each four dimensions, the high and the low parts of all queries of the tile.
    pub(crate) parts: Zeroizing<Vec<[[i8; GROUP]; 2]>>,
}

/// Largest tiles of a processor.
#[derive(Clone, Copy)]
pub(crate) struct TileSizes {
    pub(crate) floats: usize,
    pub(crate) codes: usize,
}

impl<'a> Queries<'a> {
    /// Prepares queries of `dimensions` numbers each.
    pub(crate) fn prepare(
        numbers: &'a [&'a [f32]],
        dimensions: usize,
        sizes: TileSizes,
        floats: bool,
        codes: bool,
    ) -> Self {
        let longest = numbers.iter().map(|query| bound_length(query));
        Self {
            numbers,
            floats: tiles(numbers, if floats { sizes.floats } else { 0 })
                .map(|(first, queries)| FloatTile::new(first, queries, dimensions))
                .collect(),
            codes: tiles(numbers, if codes { sizes.codes } else { 0 })
                .map(|(first, queries)| CodeTile::new(first, queries, dimensions))
                .collect(),
            longest: longest.fold(0.0, f64::max),
        }
    }

    /// Whether sums with rows of this length can overflow in f32.
    pub(crate) fn may_overflow(&self, longest_row: f32) -> bool {
        let row = f64::from(longest_row);
        row > LARGEST || self.longest > LARGEST || row * self.longest > LARGEST
    }
}

/// 2¹¹⁰
const LARGEST: f64 = (1_u128 << 110) as f64;

/// Divides queries into tiles of `largest`, then of smaller powers of 2.
fn tiles<'a>(
    queries: &'a [&'a [f32]],
    largest: usize,
) -> impl Iterator<Item = (usize, &'a [&'a [f32]])> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = queries.len() - first;
        let size = largest.min(1 << left.checked_ilog2()?);
        let tile = (first, &queries[first..first + size]);
        first += size;
        (size > 0).then_some(tile)
    })
}

impl FloatTile {
    fn new(first: usize, queries: &[&[f32]], dimensions: usize) -> Self {
        let numbers = (0..dimensions)
            .flat_map(|dimension| queries.iter().map(move |query| query[dimension]))
            .collect();
        let terms = dimensions as f64;
        let relative = gamma(terms, UNIT) + gamma(terms, UNIT_F64) + 8.0 * UNIT;
        Self {
            first,
            margins: queries
                .iter()
                .map(|query| Margin {
                    slope: round_up(relative * bound_length(query)),
                    least: least(dimensions),
                })
                .collect(),
            numbers: Zeroizing::new(numbers),
        }
    }
}

impl CodeTile {
    fn new(first: usize, queries: &[&[f32]], dimensions: usize) -> Self {
        let mut tile = Self {
            first,
            margins: Vec::new(),
            steps: Vec::new(),
            offsets: Vec::new(),
            parts: Zeroizing::new(vec![
                [[0; GROUP]; 2];
                dimensions.div_ceil(GROUP) * queries.len()
            ]),
        };
        for (index, query) in queries.iter().enumerate() {
            let largest = query
                .iter()
                .fold(0_f32, |most, number| most.max(number.abs()));
            let step = largest / MOST;
            let [mut rest, mut highs, mut lows] = [0_f64; 3];
            let mut sums = [0_i32; 2];
            for (dimension, number) in query.iter().enumerate() {
                let whole = if step > 0.0 {
                    (f64::from(*number) / f64::from(step))
                        .round_ties_even()
                        .clamp(-f64::from(MOST), f64::from(MOST))
                } else {
                    0.0
                };
                rest += (f64::from(*number) - f64::from(step) * whole).powi(2);
                // An integer of at most 16256 in magnitude.
                let whole = whole as i32;
                let high = (whole + 64) >> 7;
                let low = whole - 128 * high;
                highs += f64::from(high * high);
                lows += f64::from(low * low);
                sums[0] += high;
                sums[1] += low;
                let parts = &mut tile.parts[dimension / GROUP * queries.len() + index];
                // Both fit by their definition.
                parts[0][dimension % GROUP] = high as i8;
                parts[1][dimension % GROUP] = low as i8;
            }
            let parts = f64::from(step) * (128.0 * highs.sqrt() + lows.sqrt());
            let terms = dimensions as f64;
            let slope = rest.sqrt()
                + gamma(terms, UNIT_F64) * bound_length(query)
                + 13.0 * UNIT * (parts + bound_length(query))
                + 2_f64.powi(-149);
            tile.margins.push(Margin {
                slope: round_up(slope),
                least: least(dimensions),
            });
            tile.steps.push(step);
            tile.offsets.push(sums.map(|sum| -128 * sum));
        }
        tile
    }
}

/// Largest magnitude of `128·high + low`.
const MOST: f32 = 127.0 * 128.0;

const UNIT: f64 = 1.0 / (1 << 24) as f64;
const UNIT_F64: f64 = f64::EPSILON / 2.0;

fn gamma(terms: f64, unit: f64) -> f64 {
    terms * unit / (1.0 - terms * unit)
}

/// Rounds an upper bound, itself computed with a few roundings, to a float that is not below it.
fn round_up(bound: f64) -> f32 {
    ((bound * (1.0 + 2_f64.powi(-40))) as f32).next_up()
}

/// All underflows: one of each product, and some of the margin itself.
fn least(dimensions: usize) -> f32 {
    (dimensions + 8) as f32 * f32::from_bits(1)
}

/// An upper bound of a vector's Euclidean length.
fn bound_length(numbers: &[f32]) -> f64 {
    let squares: f64 = numbers
        .iter()
        .map(|number| f64::from(*number).powi(2))
        .sum();
    squares.sqrt() * (1.0 + (numbers.len() + 4) as f64 * f64::EPSILON)
}
