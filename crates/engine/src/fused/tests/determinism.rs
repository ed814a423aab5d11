//! An embedding depends only on its text: it has the same bits in every batch and on any team.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::super::super::{Encoder, Shape};
use super::super::isa::Isa;
use super::super::{FusedEncoder, Precision, Weights, Worker};
use super::{Numbers, TINY, effort, random_model, slices};

fn weights(shape: Shape, precision: Precision, isa: Isa) -> Arc<Weights> {
    let weights = super::weights(&random_model(&shape, 7), "");
    Arc::new(Weights::load_for(weights, shape, precision, isa).unwrap())
}

/// Every instruction set with every precision.
fn engines() -> impl Iterator<Item = (Isa, Precision)> {
    Isa::available().flat_map(|isa| Precision::ALL.iter().map(move |p| (isa, *p)))
}

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Sequences of every length from one up (in a release build), with more tokens than one group.
fn sequences() -> Vec<Vec<u32>> {
    let mut numbers = Numbers(3);
    let longest = if cfg!(miri) { 2 } else { TINY.positions };
    let lengths = (1..=longest)
        .rev()
        .step_by(effort(1, 5, 1))
        .chain([9, 1, 33, 64, 65].map(|n: usize| n.min(longest)))
        .take(effort(usize::MAX, usize::MAX, 2));
    lengths
        .map(|length| numbers.tokens(length, TINY.vocabulary))
        .collect()
}

#[test]
fn a_batch_gives_what_each_sequence_gives_alone() {
    let sequences = sequences();
    for (isa, precision) in engines() {
        let mut worker = Worker::new(weights(TINY, precision, isa), threads(1)).unwrap();
        let mut alone = Vec::new();
        for sequence in &sequences {
            let mut out = vec![0.0; TINY.hidden];
            worker.encode(&[sequence], &mut out).unwrap();
            alone.extend(out);
        }
        let mut together = vec![0.0; alone.len()];
        worker.encode(&slices(&sequences), &mut together).unwrap();
        assert_eq!(bits(&alone), bits(&together), "{}", isa.name());

        let backwards: Vec<&[u32]> = sequences.iter().rev().map(Vec::as_slice).collect();
        worker.encode(&backwards, &mut together).unwrap();
        let rows = together.chunks_exact(TINY.hidden).rev().flatten().copied();
        assert_eq!(
            bits(&alone),
            bits(&rows.collect::<Vec<_>>()),
            "{}",
            isa.name()
        );
    }
}

#[test]
fn engines_of_one_name_give_the_same_bits() {
    let sequences = sequences();
    let mut named: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (isa, precision) in engines() {
        let mut worker = Worker::new(weights(TINY, precision, isa), threads(1)).unwrap();
        let mut out = vec![0.0; sequences.len() * TINY.hidden];
        worker.encode(&slices(&sequences), &mut out).unwrap();
        let name = isa.engine(precision);
        let expected = named.entry(name).or_insert_with(|| bits(&out));
        assert_eq!(*expected, bits(&out), "{name}, by {}", isa.name());
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let sequences = sequences();
    for (isa, precision) in engines() {
        let weights = weights(TINY, precision, isa);
        let mut expected = Vec::new();
        for &count in &[1, 2, 3, 5][..effort(4, 4, 2)] {
            let mut worker = Worker::new(Arc::clone(&weights), threads(count)).unwrap();
            for _ in 0..2 {
                let mut out = vec![0.0; sequences.len() * TINY.hidden];
                worker.encode(&slices(&sequences), &mut out).unwrap();
                if expected.is_empty() {
                    expected = bits(&out);
                }
                assert_eq!(expected, bits(&out), "{}, {count} threads", isa.name());
            }
        }
    }
}

#[test]
fn calls_at_the_same_time_get_the_same_bits() {
    let sequences = sequences();
    let encoder =
        FusedEncoder::with_weights(weights(TINY, Precision::F32, Isa::best()), threads(2)).unwrap();
    let expected = bits(&encoder.encode(&slices(&sequences)).unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..effort(8, 2, 1) {
                    assert_eq!(
                        expected,
                        bits(&encoder.encode(&slices(&sequences)).unwrap())
                    );
                }
            });
        }
    });
}

#[test]
fn memory_that_grew_changes_nothing() {
    let longest = effort(700, 700, 300);
    let shape = Shape {
        layers: 1,
        positions: longest,
        max_tokens: longest,
        ..TINY
    };
    let mut numbers = Numbers(5);
    let lengths = [9, 300, longest, 20];
    let sequences = lengths.map(|length| numbers.tokens(length.min(longest), shape.vocabulary));
    let weights = weights(shape, Precision::F32, Isa::best());
    let mut grown = Worker::new(Arc::clone(&weights), threads(2)).unwrap();
    for sequence in &sequences {
        let mut fresh = Worker::new(Arc::clone(&weights), threads(1)).unwrap();
        let [mut found, mut expected] = [vec![0.0; shape.hidden], vec![0.0; shape.hidden]];
        grown.encode(&[sequence], &mut found).unwrap();
        fresh.encode(&[sequence], &mut expected).unwrap();
        assert_eq!(bits(&found), bits(&expected));
    }
    let mut together = vec![0.0; sequences.len() * shape.hidden];
    grown.encode(&slices(&sequences), &mut together).unwrap();
    assert!(together.iter().all(|value| value.is_finite()));
}
