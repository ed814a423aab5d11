//! Attention over sequences in bands.

use proptest::prelude::*;

use super::super::Numbers;
use super::{cases, close, each_band, in_bands, random_rows};
use crate::fused::bands::{Banded, Bands};
use crate::fused::isa::Isa;
use crate::fused::kernels::{AttentionHead, AttentionScratch, Mask};
use crate::fused::panels::PANEL;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn attention_matches_f64(
        seed: u64,
        lengths in prop::collection::vec(1_usize..75, 1..4),
        wide in 1_usize..3,
        threads in 1_usize..9,
        sharpness in 0.1_f32..6.0,
        causal: bool,
        reach in prop::option::of(0_usize..80),
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
                mask: Mask { causal, reach, distances: None },
                scratch: &mut AttentionScratch::new(80, head),
                out: each_band(&mut out, bands),
            });
            let out = Banded::new(&out, bands, wide);
            for (first, length) in &sequences {
                let rows = *first..first + length;
                for row in rows.clone() {
                    let scores = rows.clone().map(|key| {
                        let far = reach.is_some_and(|reach| row.abs_diff(key) > reach);
                        if far || causal && key > row {
                            return f64::NEG_INFINITY;
                        }
                        let terms = queries[row].iter().zip(&keys[key]);
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
}
