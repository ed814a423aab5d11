//! Exact scores: sums in f64, in the order of the dimensions.

use half::f16;

use crate::vectors::{Numbers, Vectors, centre, lane, lane_codes};

/// The score of a row.
pub(crate) fn score_row(vectors: &Vectors, row: usize, query: &[f32]) -> f32 {
    let dimensions = vectors.dimensions();
    match &vectors.numbers {
        Numbers::F32(numbers) => sum(lane(numbers, dimensions, row), query),
        Numbers::F16(numbers) => sum(
            lane(numbers, dimensions, row).map(|bits| f16::from_bits(bits).to_f32()),
            query,
        ),
        Numbers::Int8 { codes, scales } => {
            let scale = scales[row];
            sum(
                lane_codes(codes, dimensions, row).map(|code| scale * centre(code)),
                query,
            )
        }
    }
}

fn sum(row: impl Iterator<Item = f32>, query: &[f32]) -> f32 {
    let products = row.zip(query).map(|(a, b)| f64::from(a) * f64::from(*b));
    round(products.fold(0.0, |sum, product| sum + product))
}

/// Rounds a sum to f32. Adding 0 turns −0, to which tiny negative sums round, into 0.
fn round(sum: f64) -> f32 {
    sum as f32 + 0.0
}
