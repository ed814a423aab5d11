//! Each kernel against f64, on every instruction set, over random shapes and odd sizes; what a
//! kernel must not touch is NaN before and after.

use clap::ValueEnum;
use half::{bf16, f16};
use proptest::prelude::*;

use super::super::super::Pooling;
use super::super::Precision;
use super::super::bands::{Banded, Bands, MAX_BANDS};
use super::super::isa::{Isa, Kernel, Simd};
use super::super::kernels::{
    AttentionHead, AttentionScratch, Embed, Finish, Left, Norm, Normalise, Pool, Product, Quantise,
    QuantisedRows, Round, Widened,
};
use super::super::packed::{Float, FloatsRef, Packed};
use super::super::panels::{PANEL, Panels, RowBlocks, stride};
use super::{Numbers, effort, reference};

/// Lays `rows` of features out in panels, NaN in between.
fn panels(rows: &[Vec<f32>], stride: usize) -> Vec<f32> {
    let mut data = vec![f32::NAN; rows[0].len() / PANEL * stride];
    for (row, features) in rows.iter().enumerate() {
        for (feature, value) in features.iter().enumerate() {
            data[feature / PANEL * stride + row * PANEL + feature % PANEL] = *value;
        }
    }
    data
}

fn at(data: &[f32], stride: usize, row: usize, feature: usize) -> f32 {
    data[feature / PANEL * stride + row * PANEL + feature % PANEL]
}

/// Lays rows out in panels, band after band.
fn in_bands(rows: &[Vec<f32>], bands: Bands) -> Vec<f32> {
    let data = bands.iter().map(|band| panels(&rows[band], bands.stride()));
    data.collect::<Vec<_>>().concat()
}

/// As many slices as there are bands.
fn each_band(data: &mut [f32], bands: Bands) -> [&mut [f32]; MAX_BANDS] {
    let mut parts = bands.cut(data);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn random_rows(numbers: &mut Numbers, rows: usize, features: usize) -> Vec<Vec<f32>> {
    (0..rows).map(|_| numbers.units(features)).collect()
}

fn close(found: f32, expected: f64, tolerance: f64) -> bool {
    (f64::from(found) - expected).abs() <= tolerance
}

/// What a number to multiply a weight by is in `precision`.
fn multiplied(number: f32, precision: Precision, isa: Isa) -> f64 {
    match (precision, isa.dots()) {
        (Precision::Bf16, Some(_)) => bf16::from_f32(number).to_f64(),
        _ => f64::from(number),
    }
}

/// What a weight is in `precision`, among others whose largest is `largest`.
fn kept(weight: f32, largest: f32, precision: Precision) -> f64 {
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

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// A matrix as integers; 7 in between.
struct Quantised {
    values: Vec<i16>,
    scales: Vec<f32>,
}

impl Quantised {
    fn rows(&self, stride: usize) -> QuantisedRows<'_> {
        QuantisedRows {
            values: Panels::new(&self.values, stride),
            scales: &self.scales,
        }
    }
}

/// Quantises all rows of `floats`, at most `share` at a time.
fn quantise(isa: Isa, floats: Panels<'_>, share: usize, depth: usize) -> Quantised {
    let rows = floats.stride / PANEL;
    let mut values = vec![7; depth / PANEL * floats.stride];
    let mut scales = vec![f32::NAN; rows];
    let blocks = RowBlocks::new(&mut values, floats.stride, rows, share);
    for (rows, scales) in blocks.zip(scales.chunks_mut(share)) {
        isa.run(Quantise {
            floats,
            rows,
            scales,
        });
    }
    Quantised { values, scales }
}

/// Rounds all rows of `floats` to bf16, at most `share` at a time, where the instruction set multiplies it; 7 in between.
fn round(isa: Isa, floats: Panels<'_>, share: usize, depth: usize) -> Vec<bf16> {
    let seven = bf16::from_f32(7.0);
    let mut values = vec![seven; depth / PANEL * floats.stride];
    if let Some(dots) = isa.dots() {
        let rows = floats.stride / PANEL;
        for rows in RowBlocks::new(&mut values, floats.stride, rows, share) {
            dots.run(Round { floats, rows });
        }
    }
    values
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
            left: Left {
                floats,
                rounded: Panels::new(&rounded, stride),
                quantised: quantised.rows(stride),
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
                                multiplied(*a, precision, isa) * kept(*b, largest, precision)
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
                // Activations as integers are off by 1/65,534 of the largest, and a weight whose quotient lies
                // between two numbers may be rounded the other way.
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

/// Widens all numbers of two bytes of one kind.
struct Widen<'a, T>(&'a [T], &'a mut [f32]);

impl<T: Float> Kernel for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let blocks = self.0.chunks_exact(S::WIDTH);
        for (from, to) in blocks.zip(self.1.chunks_exact_mut(S::WIDTH)) {
            simd.store(to, T::load(simd, from));
        }
    }
}

#[test]
fn every_number_of_two_bytes_is_widened_exactly() {
    let step = effort(1, 1, 97);
    let mut bits: Vec<u16> = (0..=u16::MAX).step_by(step).collect();
    bits.truncate(bits.len() / PANEL * PANEL);
    let mut wide = vec![0.0; bits.len()];
    let same = |found: f32, expected: f32| {
        found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan())
    };
    for isa in Isa::available() {
        let halves: Vec<_> = bits.iter().copied().map(f16::from_bits).collect();
        isa.run(Widen(&halves, &mut wide));
        for (half, found) in halves.iter().zip(&wide) {
            let expected = half.to_f32();
            assert!(
                same(*found, expected),
                "{}: {found} for {expected}",
                isa.name()
            );
        }
        let upper: Vec<_> = bits.iter().copied().map(bf16::from_bits).collect();
        isa.run(Widen(&upper, &mut wide));
        for (number, found) in upper.iter().zip(&wide) {
            let expected = number.to_f32();
            assert!(
                same(*found, expected),
                "{}: {found} for {expected}",
                isa.name()
            );
        }
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(effort(48, 8, 2) as u32)
    }
}

/// Larger than what is cut to fit the caches, in both directions, and not a multiple of it.
#[test]
fn products_that_are_cut_match_f64() {
    let sizes = if cfg!(miri) { [2, 13, 1] } else { [259, 13, 1] };
    for finish in [Finish::Gelu, Finish::AddToOutput] {
        for precision in Precision::value_variants() {
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
        precision in prop::sample::select(Precision::value_variants()),
    ) {
        product_matches_f64(seed, [rows, inner, outer], finish, precision)?;
    }

    #[test]
    fn integers_are_the_nearest(
        seed: u64,
        rows in 1_usize..9,
        share in 1_usize..9,
        wide in 1_usize..5,
        size in -20_i32..20,
    ) {
        let mut numbers = Numbers(seed);
        let mut left = random_rows(&mut numbers, rows, wide * PANEL);
        left.iter_mut().flatten().for_each(|value| *value *= 2_f32.powi(size));
        left.push(vec![0.0; wide * PANEL]);
        let rows = rows + 1;
        let stride = stride(rows);
        let data = panels(&left, stride);
        for isa in Isa::available() {
            let quantised = quantise(isa, Panels::new(&data, stride), share, wide * PANEL);
            for (row, features) in left.iter().enumerate() {
                let (largest, scale) = (largest(features), quantised.scales[row]);
                prop_assert_eq!(scale, largest / 32767.0);
                for (feature, value) in features.iter().enumerate() {
                    let number = quantised.values[feature / PANEL * stride + row * PANEL + feature % PANEL];
                    let off = (f64::from(*value) - f64::from(number) * f64::from(scale)).abs();
                    prop_assert!(off <= f64::from(largest) / 65_000.0, "{}: {value} is {number}", isa.name());
                }
            }
        }
    }

    #[test]
    fn rounded_numbers_are_the_nearest(
        seed: u64,
        rows in 1_usize..9,
        share in 1_usize..9,
        wide in 1_usize..5,
        size in -20_i32..20,
    ) {
        let mut numbers = Numbers(seed);
        let mut left = random_rows(&mut numbers, rows, wide * PANEL);
        left.iter_mut().flatten().for_each(|value| *value *= 2_f32.powi(size));
        left[0][..5].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0]);
        let stride = stride(rows);
        let data = panels(&left, stride);
        for isa in Isa::available().filter(|isa| isa.dots().is_some()) {
            let rounded = round(isa, Panels::new(&data, stride), share, wide * PANEL);
            for (row, features) in left.iter().enumerate() {
                for (feature, value) in features.iter().enumerate() {
                    let found = rounded[feature / PANEL * stride + row * PANEL + feature % PANEL];
                    let expected = bf16::from_f32(*value);
                    let same = found.to_bits() == expected.to_bits() || (found.is_nan() && value.is_nan());
                    prop_assert!(same, "{}: {value} is {found}", isa.name());
                }
            }
        }
    }

    #[test]
    fn attention_matches_f64(
        seed: u64,
        lengths in prop::collection::vec(1_usize..75, 1..4),
        wide in 1_usize..3,
        threads in 1_usize..9,
        sharpness in 0.1_f32..6.0,
    ) {
        let mut numbers = Numbers(seed);
        let head = wide * PANEL;
        let rows = lengths.iter().sum();
        let mut queries = random_rows(&mut numbers, rows, head);
        queries.iter_mut().flatten().for_each(|value| *value *= sharpness);
        let keys = random_rows(&mut numbers, rows, head);
        let values = random_rows(&mut numbers, rows, head);
        let bands = Bands::new(rows, threads);
        let [all_queries, all_keys, all_values] = [&queries, &keys, &values].map(|rows| in_bands(rows, bands));
        let mut sequences = Vec::new();
        for length in lengths {
            let first = sequences.last().map_or(0, |(first, length)| first + length);
            sequences.push((first, length));
        }
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; bands.size(wide)];
            isa.run(AttentionHead {
                queries: Banded::new(&all_queries, bands, wide),
                keys: Banded::new(&all_keys, bands, wide),
                values: Banded::new(&all_values, bands, wide),
                head,
                sequences: &sequences,
                scratch: &mut AttentionScratch::new(80, head),
                out: each_band(&mut out, bands),
            });
            let out = Banded::new(&out, bands, wide);
            for (first, length) in &sequences {
                let rows = *first..first + length;
                for row in rows.clone() {
                    let scores = keys[rows.clone()].iter().map(|key| {
                        let terms = queries[row].iter().zip(key);
                        terms.map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>()
                    });
                    let shares: Vec<f64> = scores.map(f64::exp).collect();
                    let sum: f64 = shares.iter().sum();
                    for feature in 0..head {
                        let terms = shares.iter().zip(&values[rows.clone()]);
                        let expected: f64 =
                            terms.map(|(share, value)| share / sum * f64::from(value[feature])).sum();
                        let mut found = out.parts(feature / PANEL, row..row + 1);
                        let found = found.next().unwrap()[feature % PANEL];
                        prop_assert!(
                            close(found, expected, 5e-5),
                            "{} ({row}, {feature}): {found} for {expected}", isa.name(),
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn embedding_and_norm_match_f64(seed: u64, rows in 1_usize..40, wide in 1_usize..9, share in 1_usize..20) {
        let mut numbers = Numbers(seed);
        let features = wide * PANEL;
        let (scale, shift) = (numbers.units(features), numbers.units(features));
        let norm = Norm { scale: &scale, shift: &shift, epsilon: 1e-6 };
        let words = random_rows(&mut numbers, 11, features);
        let positions = random_rows(&mut numbers, 7, features);
        let tokens: Vec<_> = (0..rows as u32).map(|row| (row % 11, row % 7)).collect();
        let stride = stride(rows);
        for isa in Isa::available() {
            let mut embedded = vec![f32::NAN; wide * stride];
            for rows in RowBlocks::new(&mut embedded, stride, rows, share) {
                isa.run(Embed {
                    rows,
                    norm,
                    words: FloatsRef::F32(&words.concat()),
                    positions: &positions.concat(),
                    tokens: &tokens,
                });
            }
            let sums: Vec<Vec<f32>> = tokens.iter().map(|(token, position)| {
                let word = &words[*token as usize];
                word.iter().zip(&positions[*position as usize]).map(|(a, b)| a + b).collect()
            }).collect();
            let mut normalised = panels(&sums, stride);
            for rows in RowBlocks::new(&mut normalised, stride, rows, share) {
                isa.run(Normalise { rows, norm });
            }
            for (row, sums) in sums.iter().enumerate() {
                let count = features as f64;
                let mean = sums.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
                let squares = sums.iter().map(|x| (f64::from(*x) - mean).powi(2));
                let deviation = (squares.sum::<f64>() / count + 1e-6).sqrt();
                for feature in 0..features {
                    let unit = (f64::from(sums[feature]) - mean) / deviation;
                    let expected = unit * f64::from(scale[feature]) + f64::from(shift[feature]);
                    for data in [&embedded, &normalised] {
                        let found = at(data, stride, row, feature);
                        prop_assert!(
                            close(found, expected, 1e-5),
                            "{} ({row}, {feature}): {found} for {expected}", isa.name(),
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn pooling_matches_f64(
        seed: u64,
        first in 0_usize..9,
        rows in 1_usize..90,
        wide in 1_usize..9,
        threads in 1_usize..4,
    ) {
        let mut numbers = Numbers(seed);
        let states = random_rows(&mut numbers, first + rows, wide * PANEL);
        let bands = Bands::new(first + rows, threads);
        for pooling in [Pooling::Mean, Pooling::First] {
            let pooled: Vec<f64> = (0..wide * PANEL).map(|feature| match pooling {
                Pooling::First => f64::from(states[first][feature]),
                Pooling::Mean => {
                    states[first..].iter().map(|row| f64::from(row[feature])).sum::<f64>() / rows as f64
                }
            }).collect();
            let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; wide * PANEL];
                let data = in_bands(&states, bands);
                let states = Banded::new(&data, bands, wide);
                isa.run(Pool { states, first, rows, pooling, out: &mut out });
                for (found, pooled) in out.iter().zip(&pooled) {
                    prop_assert!(close(*found, pooled / length, 1e-5), "{}", isa.name());
                }
            }
        }
    }
}

/// Overflow must reach the check at the end: no kernel may make a number of it again.
#[test]
fn what_overflows_is_no_number_ever_after() {
    for isa in Isa::available() {
        // Scores of +∞, of −∞, and of both, which is NaN.
        for signs in [[1.0, 1.0], [1.0, -1.0]] {
            let rows: Vec<Vec<f32>> = signs.map(|sign| vec![1e30 * sign; PANEL]).to_vec();
            let bands = Bands::new(2, 1);
            let data = in_bands(&rows, bands);
            let all = Banded::new(&data, bands, 1);
            let mut out = vec![0.0; bands.stride()];
            isa.run(AttentionHead {
                queries: all,
                keys: all,
                values: all,
                head: PANEL,
                sequences: &[(0, 2)],
                scratch: &mut AttentionScratch::new(2, PANEL),
                out: each_band(&mut out, bands),
            });
            assert!(!out[0].is_finite(), "attention, {}: {}", isa.name(), out[0]);
        }
        let row: Vec<f32> = (0..PANEL)
            .map(|at| if at < 9 { 1e20 } else { 0.0 })
            .collect();
        let stride = stride(1);
        let mut states = panels(&[row], stride);
        let mut out = vec![0.0; PANEL];
        isa.run(Pool {
            states: Banded::new(&states, Bands::new(1, 1), 1),
            first: 0,
            rows: 1,
            pooling: Pooling::Mean,
            out: &mut out,
        });
        assert!(!out[0].is_finite(), "pooling, {}: {}", isa.name(), out[0]);
        let norm = Norm {
            scale: &[1.0; PANEL],
            shift: &[0.0; PANEL],
            epsilon: 1e-12,
        };
        for rows in RowBlocks::new(&mut states, stride, 1, 1) {
            isa.run(Normalise { rows, norm });
        }
        assert!(
            !states[0].is_finite(),
            "norm, {}: {}",
            isa.name(),
            states[0]
        );
    }
}

/// Overflow must reach the check at the end, whatever integers would make of it.
#[test]
fn what_is_not_finite_stays_so_as_integers() {
    for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut left = vec![vec![1.0; 2 * PANEL]; 2];
        left[1][PANEL + 7] = broken;
        let stride = stride(2);
        let data = panels(&left, stride);
        for isa in Isa::available() {
            let scales = quantise(isa, Panels::new(&data, stride), 2, 2 * PANEL).scales;
            assert_eq!(scales[0], 1.0 / 32767.0, "{}", isa.name());
            assert!(scales[1].is_nan(), "{} {broken}: {}", isa.name(), scales[1]);
        }
    }
}

/// The largest factors, as many as are added up before they are floats again.
#[test]
fn sums_of_integers_do_not_overflow() {
    let depth = 12 * PANEL;
    let stride = stride(1);
    for isa in Isa::available() {
        for sign in [1.0, -1.0] {
            let data = panels(&[vec![sign; 2 * depth]], stride);
            let floats = Panels::new(&data, stride);
            let quantised = quantise(isa, floats, 1, 2 * depth);
            let weights = vec![1.0; 2 * depth * PANEL];
            let packed = Packed::new(weights, 2 * depth, 1.0, Precision::Int8, isa);
            let mut out = vec![f32::NAN; stride];
            let product = Product {
                left: Left {
                    floats,
                    rounded: Panels::NONE,
                    quantised: quantised.rows(stride),
                },
                rows: 1,
                depth: 2 * depth,
                weights: packed.columns(0..PANEL, 2 * depth),
                after: None,
                bias: &[0.0; PANEL],
                finish: Finish::Store,
                out: &mut out,
                stride,
            };
            product.run(isa, &mut Widened::new(Precision::Int8, isa));
            for found in &out[..PANEL] {
                assert!(
                    close(*found, f64::from(sign) * 2.0 * depth as f64, 1e-2),
                    "{}: {found}",
                    isa.name()
                );
            }
        }
    }
}
