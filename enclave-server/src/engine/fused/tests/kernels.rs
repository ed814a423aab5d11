//! Each kernel against f64, on every instruction set, over random shapes and odd sizes; what a
//! kernel must not touch is NaN before and after.

use proptest::prelude::*;

use super::super::super::Pooling;
use super::super::isa::Isa;
use super::super::kernels::{
    AttentionHead, AttentionScratch, Embed, Finish, Norm, Normalise, Pool, Product,
};
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

fn random_rows(numbers: &mut Numbers, rows: usize, features: usize) -> Vec<Vec<f32>> {
    (0..rows).map(|_| numbers.units(features)).collect()
}

fn close(found: f32, expected: f64, tolerance: f64) -> bool {
    (f64::from(found) - expected).abs() <= tolerance
}

/// Packs [columns][depth] as [columns / width][depth][width].
fn pack(matrix: &[Vec<f32>], width: usize) -> Vec<f32> {
    let panels = matrix.chunks_exact(width);
    panels
        .flat_map(|columns| {
            (0..columns[0].len()).flat_map(move |k| columns.iter().map(move |column| column[k]))
        })
        .collect()
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(effort(48, 8, 2) as u32)
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
    ) {
        let mut numbers = Numbers(seed);
        let (depth, columns) = (inner * PANEL, outer * PANEL);
        let left = random_rows(&mut numbers, rows, depth);
        let matrix = random_rows(&mut numbers, columns, depth);
        let bias = numbers.units(columns);
        let before = random_rows(&mut numbers, rows, columns);
        let stride = stride(rows);
        for isa in Isa::available() {
            let mut out = match finish {
                Finish::AddToOutput => panels(&before, stride),
                _ => vec![f32::NAN; outer * stride],
            };
            isa.run(Product {
                left: Panels::new(&panels(&left, stride), stride),
                rows,
                depth,
                weights: &pack(&matrix, isa.width()),
                bias: &bias,
                finish,
                out: &mut out,
            });
            for row in 0..rows {
                for column in 0..columns {
                    let terms = left[row].iter().zip(&matrix[column]);
                    let sum: f64 = terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let sum = sum + f64::from(bias[column]);
                    let expected = match finish {
                        Finish::Store => sum,
                        Finish::Gelu => reference::gelu(sum),
                        Finish::AddToOutput => sum + f64::from(before[row][column]),
                    };
                    let found = at(&out, stride, row, column);
                    prop_assert!(
                        close(found, expected, 3e-5),
                        "{} ({row}, {column}): {found} for {expected}", isa.name(),
                    );
                }
            }
            let untouched = out.chunks_exact(stride).all(|panel| {
                panel[rows * PANEL..].iter().all(|value| value.is_nan())
            });
            prop_assert!(untouched, "{} wrote beyond the last row", isa.name());
        }
    }

    #[test]
    fn attention_matches_f64(
        seed: u64,
        lengths in prop::collection::vec(1_usize..75, 1..4),
        wide in 1_usize..3,
        sharpness in 0.1_f32..6.0,
    ) {
        let mut numbers = Numbers(seed);
        let head = wide * PANEL;
        let rows = lengths.iter().sum();
        let mut queries = random_rows(&mut numbers, rows, head);
        queries.iter_mut().flatten().for_each(|value| *value *= sharpness);
        let keys = random_rows(&mut numbers, rows, head);
        let values = random_rows(&mut numbers, rows, head);
        let stride = stride(rows);
        let mut sequences = Vec::new();
        for length in lengths {
            let first = sequences.last().map_or(0, |(first, length)| first + length);
            sequences.push((first, length));
        }
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; wide * stride];
            isa.run(AttentionHead {
                queries: Panels::new(&panels(&queries, stride), stride),
                keys: Panels::new(&panels(&keys, stride), stride),
                values: Panels::new(&panels(&values, stride), stride),
                head,
                sequences: &sequences,
                scratch: &mut AttentionScratch::new(80, head),
                out: &mut out,
            });
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
                        let found = at(&out, stride, row, feature);
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
                    words: &words.concat(),
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
    fn pooling_matches_f64(seed: u64, first in 0_usize..9, rows in 1_usize..40, wide in 1_usize..9) {
        let mut numbers = Numbers(seed);
        let states = random_rows(&mut numbers, first + rows, wide * PANEL);
        let stride = stride(first + rows);
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
                let data = panels(&states, stride);
                let states = Panels::new(&data, stride);
                isa.run(Pool { states, first, rows, pooling, out: &mut out });
                for (found, pooled) in out.iter().zip(&pooled) {
                    prop_assert!(close(*found, pooled / length, 1e-5), "{}", isa.name());
                }
            }
        }
    }
}
