//! Once warm, the fused encoder allocates no memory, and touches no new page.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use engine::{
    Activation, Architecture, Attention, Biases, Encoder, FusedEncoder, Pooling, Precision, Rotary,
    Shape,
};
use engine::{Weight, Weights};
use fixtures::allocator::{Counting, Watch};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SHAPE: Shape = Shape {
    architecture: Architecture::Bert,
    hidden: 64,
    heads: 2,
    key_value_heads: 2,
    head: 32,
    layers: 2,
    feed_forward: 128,
    vocabulary: 50,
    positions: 300,
    first_position: 0,
    token_types: 2,
    norm_epsilon: 1e-12,
    activation: Activation::Gelu,
    biases: Biases::ALL,
    attention: Attention::FULL,
    rotary: Rotary::UNUSED,
    // One over the root of 32.
    query_scale: 0.176_776_7,
    max_tokens: 256,
    pooling: Pooling::Mean,
};

/// Weights of a BERT model of `SHAPE`, with small values.
fn weights() -> Weights {
    let tensors: BTreeMap<_, _> = SHAPE
        .tensors()
        .into_iter()
        .map(|(name, shape)| {
            let values = (0..shape.iter().product::<usize>())
                .map(|at| ((at * 37 + name.len()) % 101) as f32 / 505.0)
                .collect();
            (name, Weight { shape, values })
        })
        .collect();
    Weights::new(tensors).unwrap()
}

/// Minor page faults of this process so far: field 10 of `/proc/self/stat`, counted after the name in parentheses.
fn page_faults() -> usize {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

// The only test of this program, so that no other one allocates meanwhile.
#[test]
fn a_request_allocates_nothing_and_touches_no_new_page() {
    // Floating-point and integer weights are multiplied by different code, with different buffers.
    for precision in [Precision::F32, Precision::Int8] {
        let threads = NonZeroUsize::new(2).unwrap();
        let encoder = FusedEncoder::new(SHAPE, weights(), precision, threads).unwrap();
        watch(&encoder);
    }
}

fn watch(encoder: &FusedEncoder) {
    let long = [7_u32; 256];
    let (middle, short): (&[u32], &[u32]) = (&[9; 33], &[1, 2, 3]);
    let batches: [&[&[u32]]; 4] = [&[short], &[&long], &[&long, short, &long], &[middle; 9]];
    let mut rows = vec![0.0; 9 * SHAPE.hidden];
    let mut encode = |batch: &[&[u32]]| {
        let rows = &mut rows[..batch.len() * SHAPE.hidden];
        encoder.encode_into(batch, rows).unwrap();
    };
    batches.iter().for_each(|batch| encode(batch));
    let faults = page_faults();
    let watch = Watch::start();
    // Ends before the minute after which the test harness allocates to report a slow test.
    let rounds = if cfg!(debug_assertions) { 5 } else { 25 };
    for _ in 0..rounds {
        batches.iter().for_each(|batch| encode(batch));
    }
    let allocated = watch.count();
    let faulted = page_faults() - faults;
    println!(
        "{allocated} allocations, {faulted} page faults in {} calls",
        rounds * batches.len()
    );
    assert_eq!(allocated, 0);
    // Reading the counter may cause a few faults; one fault for each call would be four times as many.
    assert!(faulted < rounds, "{faulted}");
}
