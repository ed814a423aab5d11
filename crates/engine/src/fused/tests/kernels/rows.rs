//! Row-wise operations: widening, narrowing, embedding, norm, pooling.

use half::{bf16, f16};
use proptest::prelude::*;

use super::super::{Numbers, effort};
use super::{at, cases, close, in_bands, largest, panels, quantise, random_rows, round};
use crate::Pooling;
use crate::fused::bands::{Banded, Bands};
use crate::fused::isa::{Isa, Kernel, Simd};
use crate::fused::kernels::{Embed, Norm, Normalise, Pool};
use crate::fused::packed::{Float, FloatsRef};
use crate::fused::panels::{PANEL, Panels, RowBlocks, stride};

/// Widens all 16-bit numbers of one type.
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
    for isa in Isa::available() {
        let halves: Vec<_> = bits.iter().copied().map(f16::from_bits).collect();
        are_widened_exactly(isa, &halves, f16::to_f32);
        let upper: Vec<_> = bits.iter().copied().map(bf16::from_bits).collect();
        are_widened_exactly(isa, &upper, bf16::to_f32);
    }
}

fn are_widened_exactly<T: Float>(isa: Isa, numbers: &[T], widened: fn(T) -> f32) {
    let mut wide = vec![0.0; numbers.len()];
    isa.run(Widen(numbers, &mut wide));
    for (number, found) in numbers.iter().zip(&wide) {
        let expected = widened(*number);
        assert!(
            same(*found, expected),
            "{}: {found} for {expected}",
            isa.name()
        );
    }
}

/// Whether both have the same bits, or both are NaN.
fn same(found: f32, expected: f32) -> bool {
    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan())
}

proptest! {
    #![proptest_config(cases())]

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
                    let number = at(&quantised.values, stride, row, feature);
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
        for isa in Isa::available().filter(|isa| isa.bf16().is_some()) {
            let rounded = round(isa, Panels::new(&data, stride), share, wide * PANEL);
            for (row, features) in left.iter().enumerate() {
                for (feature, value) in features.iter().enumerate() {
                    let found = at(&rounded, stride, row, feature);
                    let expected = bf16::from_f32(*value);
                    let same = found.to_bits() == expected.to_bits() || (found.is_nan() && value.is_nan());
                    prop_assert!(same, "{}: {value} is {found}", isa.name());
                }
            }
        }
    }

    #[test]
    fn embedding_and_norm_match_f64(seed: u64, rows in 1_usize..40, wide in 1_usize..9, share in 1_usize..20) {
        let mut numbers = Numbers(seed);
        let features = wide * PANEL;
        let (scale, shift) = (numbers.units(features), numbers.units(features));
        let norm = Norm { scale: &scale, shift: &shift, epsilon: 1e-6, centred: true };
        let words = random_rows(&mut numbers, 11, features);
        let positions = random_rows(&mut numbers, 7, features);
        let tokens: Vec<_> = (0..rows as u32).map(|row| (row % 11, row % 7)).collect();
        let stride = stride(rows);
        for isa in Isa::available() {
            let mut embedded = vec![f32::NAN; wide * stride];
            for rows in RowBlocks::new(&mut embedded, stride, rows, share) {
                isa.run(Embed {
                    rows,
                    norm: Some(norm),
                    features: scale.len(),
                    words: FloatsRef::F32(&words.concat()),
                    positions: Some(&positions.concat()),
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
        for pooling in [
            Pooling::Mean,
            Pooling::First,
            Pooling::Last,
            Pooling::Max,
            Pooling::MeanOfRoot,
            Pooling::WeightedMean,
        ] {
            let pooled: Vec<f64> = (0..wide * PANEL).map(|feature| {
                let values = states[first..].iter().map(|row| f64::from(row[feature]));
                match pooling {
                    Pooling::First => f64::from(states[first][feature]),
                    Pooling::Last => f64::from(states[first + rows - 1][feature]),
                    Pooling::Max => values.fold(f64::NEG_INFINITY, f64::max),
                    Pooling::Mean => values.sum::<f64>() / rows as f64,
                    Pooling::MeanOfRoot => values.sum::<f64>() / (rows as f64).sqrt(),
                    Pooling::WeightedMean => {
                        let weighted = values.enumerate().map(|(at, value)| (at + 1) as f64 * value);
                        weighted.sum::<f64>() / (rows * (rows + 1) / 2) as f64
                    }
                }
            }).collect();
            let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
            for isa in Isa::available() {
                let mut out = vec![f32::NAN; wide * PANEL];
                let data = in_bands(&states, bands);
                let states = Banded::new(&data, bands, wide);
                isa.run(Pool { states, first, rows, pooling, unit: true, out: &mut out });
                for (found, pooled) in out.iter().zip(&pooled) {
                    prop_assert!(close(*found, pooled / length, 1e-5), "{}", isa.name());
                }
                isa.run(Pool { states, first, rows, pooling, unit: false, out: &mut out });
                for (found, pooled) in out.iter().zip(&pooled) {
                    prop_assert!(close(*found, *pooled, 1e-5), "{}", isa.name());
                }
            }
        }
    }
}
