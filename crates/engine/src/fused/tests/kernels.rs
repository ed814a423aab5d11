//! Each kernel against f64, on every instruction set, with random shapes and odd sizes. Memory that a kernel must not access is
//! NaN before and after.

mod attention;
mod overflow;
mod products;
mod rows;

use half::bf16;
use proptest::prelude::*;

use super::super::bands::{Bands, MAX_BANDS};
use super::super::isa::Isa;
use super::super::kernels::{Mask, Quantise, QuantisedRows, Round};
use super::super::panels::{PANEL, Panels, RowBlocks};
use super::{Numbers, effort};

/// Every token attends to all.
const EVERYTHING: Mask<'_> = Mask {
    causal: false,
    reach: None,
    distances: None,
};

fn cases() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(effort(48, 8, 2) as u32)
    }
}

/// Stores `rows` of features in panels, with NaN in between.
fn panels(rows: &[Vec<f32>], stride: usize) -> Vec<f32> {
    let mut data = vec![f32::NAN; rows[0].len() / PANEL * stride];
    for (row, features) in rows.iter().enumerate() {
        for (feature, value) in features.iter().enumerate() {
            data[feature / PANEL * stride + row * PANEL + feature % PANEL] = *value;
        }
    }
    data
}

/// Reads a feature of a row from the layout of [`panels`].
fn at<T: Copy>(data: &[T], stride: usize, row: usize, feature: usize) -> T {
    data[feature / PANEL * stride + row * PANEL + feature % PANEL]
}

/// Stores rows in panels, band after band.
fn in_bands(rows: &[Vec<f32>], bands: Bands) -> Vec<f32> {
    let data = bands.iter().map(|band| panels(&rows[band], bands.stride()));
    data.collect::<Vec<_>>().concat()
}

/// One slice per band.
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

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// A matrix of integers; 7 in between.
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

/// Quantizes all rows of `floats`, at most `share` at a time.
fn quantise(isa: Isa, floats: Panels<'_>, share: usize, depth: usize) -> Quantised {
    let rows = floats.stride / PANEL;
    let mut values = vec![7; depth / PANEL * floats.stride];
    let mut scales = vec![f32::NAN; rows];
    let blocks = RowBlocks::new(&mut values, floats.stride, rows, share);
    for (rows, scales) in blocks.zip(scales.chunks_mut(share)) {
        isa.ints().run(Quantise {
            floats,
            rows,
            scales,
        });
    }
    Quantised { values, scales }
}

/// Rounds all rows of `floats` to bf16, at most `share` at a time, if the instruction set multiplies it; 7 in between.
fn round(isa: Isa, floats: Panels<'_>, share: usize, depth: usize) -> Vec<bf16> {
    let seven = bf16::from_f32(7.0);
    let mut values = vec![seven; depth / PANEL * floats.stride];
    if let Some(dots) = isa.bf16() {
        let rows = floats.stride / PANEL;
        for rows in RowBlocks::new(&mut values, floats.stride, rows, share) {
            dots.run(Round { floats, rows });
        }
    }
    values
}
