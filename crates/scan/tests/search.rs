//! Results compared with a naive reference in f64.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use scan::{Block, Hit, Isa, Live, Precision, ScanError, Vectors, search, search_on};

type Ties = fn((usize, usize), (usize, usize)) -> Ordering;

/// The definition, row by row.
fn reference(blocks: &[Block<'_>], query: &[f32], k: usize, ties: Ties) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (block, Block { vectors, live }) in blocks.iter().enumerate() {
        for row in 0..vectors.len() {
            if live.is_some_and(|live| !live.get(row)) {
                continue;
            }
            let mut sum = 0_f64;
            for (stored, number) in vectors.row(row).unwrap().iter().zip(query) {
                sum += f64::from(*stored) * f64::from(*number);
            }
            let mut score = sum as f32;
            if score == 0.0 {
                score = 0.0;
            }
            hits.push(Hit { block, row, score });
        }
    }
    hits.sort_by(|a, b| {
        let order = b.score.partial_cmp(&a.score).unwrap();
        order.then_with(|| ties((a.block, a.row), (b.block, b.row)))
    });
    hits.truncate(k);
    hits
}

fn bits(hits: &[Hit]) -> Vec<(usize, usize, u32)> {
    hits.iter()
        .map(|hit| (hit.block, hit.row, hit.score.to_bits()))
        .collect()
}

fn forward(a: (usize, usize), b: (usize, usize)) -> Ordering {
    a.cmp(&b)
}

fn backward(a: (usize, usize), b: (usize, usize)) -> Ordering {
    b.cmp(&a)
}

/// Compares searches on all instruction sets with the reference, for several `k` and orders of ties.
fn check(blocks: &[Block<'_>], queries: &[&[f32]]) {
    let rows: usize = blocks.iter().map(|block| block.vectors.len()).sum();
    for ties in [forward as Ties, backward] {
        for k in [0, 1, 2, 10, rows, rows + 1, usize::MAX] {
            let expected: Vec<_> = queries
                .iter()
                .map(|query| bits(&reference(blocks, query, k, ties)))
                .collect();
            for (isa, threads) in Isa::available().zip([1, 3, 2]) {
                let threads = NonZeroUsize::new(threads).unwrap();
                let found = search_on(isa, blocks, queries, k, threads, &ties).unwrap();
                let found: Vec<_> = found.iter().map(|hits| bits(hits)).collect();
                assert_eq!(found, expected, "k {k}, {threads} threads, {}", isa.name());
            }
        }
    }
}

/// Checks one block of rows in every precision that can store them.
fn check_rows(dimensions: usize, rows: &[f32], queries: &[&[f32]]) {
    for precision in Precision::ALL {
        match Vectors::from_f32(dimensions, precision, rows) {
            Ok(vectors) => check(
                &[Block {
                    vectors: &vectors,
                    live: None,
                }],
                queries,
            ),
            Err(error) => assert!(
                precision == Precision::F16 && matches!(error, ScanError::OutOfRange { .. }),
                "{error}"
            ),
        }
    }
}

/// Uniform numbers in -1..1, from a linear congruential generator.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Some((self.0 >> 40) as f32 / 2_f32.powi(23) - 1.0)
    }
}

fn random(seed: u64, count: usize) -> Vec<f32> {
    Numbers(seed).take(count).collect()
}

fn slices(numbers: &[f32], dimensions: usize) -> Vec<&[f32]> {
    numbers.chunks(dimensions).collect()
}

#[test]
fn random_rows_of_many_shapes() {
    for dimensions in [
        1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 383, 385,
    ] {
        for rows in [1, 2, 15, 16, 17, 33, 100] {
            let numbers = random(dimensions as u64 * 1000 + rows as u64, rows * dimensions);
            let queries = random(7, 5 * dimensions);
            check_rows(dimensions, &numbers, &slices(&queries, dimensions));
        }
    }
}

#[test]
fn every_size_of_a_batch() {
    let rows = random(1, 70 * 12);
    let queries = random(2, 40 * 12);
    for count in 0..=40 {
        check_rows(12, &rows, &slices(&queries[..count * 12], 12));
    }
}

#[test]
fn the_widest_rows() {
    let rows = random(3, 20 * 4096);
    let queries = random(4, 2 * 4096);
    check_rows(4096, &rows, &slices(&queries, 4096));
}

#[test]
fn equal_rows() {
    let row = random(5, 24);
    let rows = row.repeat(500);
    check_rows(24, &rows, &[&row, &random(6, 24)]);
}

#[test]
fn rows_of_zeros() {
    let mut rows = vec![0.0; 10 * 300];
    rows[10 * 150..10 * 151].copy_from_slice(&random(8, 10));
    check_rows(10, &rows, &[&[0.0; 10], &random(9, 10), &[-0.0; 10]]);
}

#[test]
fn scores_that_round_to_equal_floats() {
    // Sums in f64 differ by less than a unit of f32's last place, so the order is the caller's.
    let mut rows = Vec::new();
    for row in 0..200 {
        rows.extend([1.0, (row % 7) as f32 * 2_f32.powi(-30), 0.0]);
    }
    check_rows(3, &rows, &[&[1.0, 1.0, 1.0], &[-1.0, 1.0, 1.0]]);
}

#[test]
fn denormal_numbers() {
    let tiny: Vec<f32> = random(10, 100 * 9).iter().map(|x| x * 1e-42).collect();
    let queries = random(11, 3 * 9);
    let small: Vec<f32> = queries.iter().map(|x| x * 1e-40).collect();
    let mut all = slices(&queries, 9);
    all.extend(slices(&small, 9));
    check_rows(9, &tiny, &all);
    check_rows(9, &random(12, 100 * 9), &all);
}

#[test]
fn huge_and_tiny_numbers_mixed() {
    let scales = [1e38, 1e-38, 1.0, 1e20, -3e38, 1e-45, 6e4, 1e-7];
    let rows: Vec<f32> = random(13, 200 * 16)
        .iter()
        .zip(scales.iter().cycle())
        .map(|(x, scale)| x * scale)
        .collect();
    let queries: Vec<f32> = random(14, 4 * 16)
        .iter()
        .zip(scales.iter().rev().cycle())
        .map(|(x, scale)| x * scale)
        .collect();
    let mut all = slices(&queries, 16);
    let ordinary = random(15, 16);
    all.push(&ordinary);
    check_rows(16, &rows, &all);
    // Rows of one magnitude each.
    let rows: Vec<f32> = random(16, 200 * 16)
        .iter()
        .enumerate()
        .map(|(n, x)| x * scales[n / 16 % scales.len()])
        .collect();
    check_rows(16, &rows, &all);
}

#[test]
fn products_beyond_f32_that_cancel() {
    // f32 would overflow and compute infinity minus infinity; the exact sums are small.
    let mut rows = Vec::new();
    for row in 0..60 {
        rows.extend([3e38, 3e38, row as f32, -3e38]);
    }
    check_rows(
        4,
        &rows,
        &[
            &[3e38, -3e38, 1.0, 0.0],
            &[1.0, 0.0, 1e-3, 1.0],
            &[3e38, 3e38, 1.0, 1.0],
        ],
    );
}

#[test]
fn sums_whose_error_is_as_large_as_they_are() {
    // Large numbers cancel; the rest, far below the error of a sum in f32, decides the order.
    let dimensions = 384;
    let mut rows = Vec::new();
    for row in 0..300 {
        let noise = random(row, dimensions);
        for pair in noise.chunks(2) {
            rows.extend([
                1000.0 + pair[0].abs(),
                1000.0 + pair[0].abs() + pair[1] * 1e-4,
            ]);
        }
    }
    let query: Vec<f32> = (0..dimensions)
        .map(|n| if n % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    check_rows(dimensions, &rows, &[&query]);
}

#[test]
fn rows_that_hardly_differ() {
    let base = random(20, 64);
    let mut rows = Vec::new();
    for row in 0..400 {
        rows.extend(
            base.iter()
                .zip(random(row, 64))
                .map(|(x, noise)| x + noise * 1e-7),
        );
    }
    check_rows(64, &rows, &[&base, &random(21, 64)]);
}

#[test]
fn rows_sorted_by_score() {
    // Every row is better than all before, or worse.
    let query = random(22, 32);
    for sign in [1.0, -1.0] {
        let mut rows = Vec::new();
        for row in 0..3000 {
            rows.extend(query.iter().map(|x| x * row as f32 * sign));
        }
        check_rows(32, &rows, &[&query]);
    }
}

#[test]
fn only_live_rows_of_several_blocks() {
    let precisions = [
        Precision::F32,
        Precision::Int8,
        Precision::F16,
        Precision::F32,
    ];
    let blocks: Vec<Vectors> = [40, 1, 0, 133]
        .into_iter()
        .zip(precisions)
        .map(|(rows, precision)| {
            Vectors::from_f32(20, precision, &random(rows as u64, rows * 20)).unwrap()
        })
        .collect();
    let queries = random(30, 3 * 20);
    for keep in [0, 1, 2, 3] {
        let lives: Vec<Live> = blocks
            .iter()
            .map(|vectors| {
                let mut live = Live::all(vectors.len());
                for row in 0..vectors.len() {
                    if row % 3 >= keep {
                        live.clear(row);
                    }
                }
                live
            })
            .collect();
        let blocks: Vec<Block<'_>> = blocks
            .iter()
            .zip(&lives)
            .map(|(vectors, live)| Block {
                vectors,
                live: Some(live),
            })
            .collect();
        check(&blocks, &slices(&queries, 20));
    }
}

#[test]
fn unusable_queries_and_bitmaps_are_refused() {
    let vectors = Vectors::from_f32(2, Precision::F32, &[1.0, 2.0]).unwrap();
    let run = |live: Option<&Live>, query: &[f32]| {
        let block = Block {
            vectors: &vectors,
            live,
        };
        search(
            &[block],
            &[&[0.0, 0.0], query],
            1,
            NonZeroUsize::MIN,
            &forward,
        )
    };
    let refused = run(None, &[1.0]).unwrap_err();
    assert_eq!(refused, ScanError::Query { query: 1, block: 0 });
    for bad in [f32::NAN, f32::INFINITY] {
        let refused = run(None, &[1.0, bad]).unwrap_err();
        assert_eq!(refused, ScanError::NotFinite { row: 1 });
    }
    let refused = run(Some(&Live::all(2)), &[1.0, 1.0]).unwrap_err();
    assert_eq!(refused, ScanError::Live { block: 0 });
}

#[test]
fn no_block_has_no_hit() {
    let found = search(&[], &[&[1.0]], 3, NonZeroUsize::MIN, &forward).unwrap();
    assert_eq!(found, [Vec::new()]);
}

#[test]
fn bitmaps_set_clear_count_and_intersect() {
    let mut live = Live::all(130);
    assert_eq!((live.count(), live.rows()), (130, 130));
    live.clear(0);
    live.clear(129);
    live.clear(500);
    live.set(130);
    live.set(500);
    assert_eq!(live.count(), 128);
    assert!(!live.get(0) && live.get(1) && !live.get(129) && !live.get(130));
    let mut other = Live::none(130);
    other.set(0);
    other.set(1);
    assert_eq!(live.and(&other).count(), 1);
    assert!(live.and(&other).get(1));
    assert_eq!(live.and(&Live::all(10)).count(), 9);
    assert_eq!(Live::all(0).count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn results_are_those_of_the_reference(
        seed: u64,
        dimensions in 1..70_usize,
        rows in prop::collection::vec(0..90_usize, 1..4),
        queries in 1..11_usize,
        // Few different values make many ties.
        values in prop_oneof![Just(2_f32), Just(4.0), Just(1e4), Just(8e6)],
        exponents in 0..60_i32,
        code in 0..4_u8,
        dead in 0..4_u64,
    ) {
        let mut numbers = Numbers(seed);
        let mut draw = |count: usize| -> Vec<f32> {
            (0..count)
                .map(|n| {
                    let exponent = (n as i32 * 7 % (exponents + 1)) - exponents / 2;
                    (numbers.next().unwrap() * values).round() / values * 2_f32.powi(exponent / 4)
                })
                .collect()
        };
        let blocks: Vec<(Vectors, Live)> = rows
            .iter()
            .enumerate()
            .map(|(n, rows)| {
                let precision = Precision::from_code(code).unwrap_or(Precision::ALL[n % 3]);
                let vectors = Vectors::from_f32(dimensions, precision, &draw(rows * dimensions)).unwrap();
                let mut live = Live::all(*rows);
                for row in 0..*rows {
                    if dead > 0 && (seed >> (row % 50)) % (dead + 1) != 0 {
                        live.clear(row);
                    }
                }
                (vectors, live)
            })
            .collect();
        let blocks: Vec<Block<'_>> = blocks
            .iter()
            .map(|(vectors, live)| Block { vectors, live: (dead > 0).then_some(live) })
            .collect();
        let queries = draw(queries * dimensions);
        check(&blocks, &slices(&queries, dimensions));
    }
}
