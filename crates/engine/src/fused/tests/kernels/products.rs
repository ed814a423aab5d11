//! Matrix products in every precision.

use half::{bf16, f16};
use proptest::prelude::*;

use super::super::{Numbers, reference};
use super::{at, cases, close, largest, panels, quantise, random_rows, round};
use crate::fused::Precision;
use crate::fused::isa::Isa;
use crate::fused::kernels::{Finish, Left, Product, Widened};
use crate::fused::packed::Packed;
use crate::fused::panels::{PANEL, Panels, stride};

/// The value of an activation in `precision`.
fn multiplied(number: f32, precision: Precision, isa: Isa) -> f64 {
    match (precision, isa.bf16()) {
        (Precision::Bf16, Some(_)) => bf16::from_f32(number).to_f64(),
        _ => f64::from(number),
    }
}

/// The value of a weight in `precision`, in a group whose largest weight is `largest`.
fn stored_value(weight: f32, largest: f32, precision: Precision) -> f64 {
    match precision {
        Precision::F32 => f64::from(weight),
        Precision::F16 => f16::from_f32(weight).to_f64(),
        Precision::Bf16 => bf16::from_f32(weight).to_f64(),
        Precision::Int8 => {
            let step = f64::from(largest) / 127.0;
            (f64::from(weight) / step).round() * step
        }
    }
}

/// A product of `rows` rows, `inner` panels deep and `outer` panels wide.
fn product_matches_f64(
    seed: u64,
    [rows, inner, outer]: [usize; 3],
    finish: Finish,
    precision: Precision,
) -> Result<(), TestCaseError> {
    let mut numbers = Numbers(seed);
    let (depth, columns) = (inner * PANEL, outer * PANEL);
    let left = random_rows(&mut numbers, rows, depth);
    let matrix = random_rows(&mut numbers, columns, depth);
    let bias = numbers.units(columns);
    let before = random_rows(&mut numbers, rows, columns);
    let stride = stride(rows);
    let data = panels(&left, stride);
    let floats = Panels::new(&data, stride);
    for isa in Isa::available() {
        let mut out = match finish {
            Finish::AddToOutput => panels(&before, stride),
            _ => vec![f32::NAN; outer * stride],
        };
        let quantised = quantise(isa, floats, rows, depth);
        let rounded = round(isa, floats, rows, depth);
        let packed = Packed::new(matrix.concat(), depth, 1.0, precision, isa);
        let product = Product {
            left: match (precision, isa.bf16()) {
                (Precision::Int8, _) => Left::Int8(quantised.rows(stride)),
                (Precision::Bf16, Some(_)) => Left::Bf16(Panels::new(&rounded, stride)),
                _ => Left::Floats(floats),
            },
            rows,
            depth,
            weights: packed.columns(0..columns, depth),
            after: Some(packed.columns(0..columns, depth)),
            bias: &bias,
            finish,
            out: &mut out,
            stride,
        };
        product.run(isa, &mut Widened::new(precision, isa));
        for row in 0..rows {
            for column in 0..columns {
                let groups = left[row]
                    .chunks_exact(PANEL)
                    .zip(matrix[column].chunks_exact(PANEL));
                let sum: f64 = groups
                    .map(|(left, weights)| {
                        let largest = largest(weights);
                        let terms = left.iter().zip(weights);
                        terms
                            .map(|(a, b)| {
                                multiplied(*a, precision, isa)
                                    * stored_value(*b, largest, precision)
                            })
                            .sum::<f64>()
                    })
                    .sum();
                let sum = sum + f64::from(bias[column]);
                let expected = match finish {
                    Finish::Store => sum,
                    Finish::Gelu => reference::gelu(sum),
                    Finish::AddToOutput => sum + f64::from(before[row][column]),
                };
                let found = at(&out, stride, row, column);
                // Quantized activations have an error of 1/65,534 of the largest, and a weight whose quotient is halfway between
                // two integers may be rounded either way.
                let tolerance = if precision == Precision::Int8 {
                    1e-2
                } else {
                    3e-5
                };
                prop_assert!(
                    close(found, expected, tolerance),
                    "{} {precision:?} ({row}, {column}): {found} for {expected}",
                    isa.name(),
                );
            }
        }
        let untouched = out
            .chunks_exact(stride)
            .all(|panel| panel[rows * PANEL..].iter().all(|value| value.is_nan()));
        prop_assert!(untouched, "{} wrote beyond the last row", isa.name());
    }
    Ok(())
}

/// Larger than the block sizes in both dimensions, and not a multiple of them.
#[test]
fn blocked_products_match_f64() {
    let sizes = if cfg!(miri) { [2, 13, 1] } else { [259, 13, 1] };
    for finish in [Finish::Gelu, Finish::AddToOutput] {
        for precision in Precision::ALL {
            product_matches_f64(11, sizes, finish, *precision).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn products_match_f64(
        seed: u64,
        rows in 1_usize..70,
        inner in 1_usize..9,
        outer in 1_usize..4,
        finish in prop::sample::select(vec![Finish::Store, Finish::Gelu, Finish::AddToOutput]),
        precision in prop::sample::select(Precision::ALL),
    ) {
        product_matches_f64(seed, [rows, inner, outer], finish, precision)?;
    }
}
