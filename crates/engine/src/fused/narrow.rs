//! Activations in less than f32, for products of bf16 or integers.

use half::bf16;

use super::bands::Banded;
use super::isa::Isa;
use super::kernels::{Left, QuantisedRows};
use super::panels::Panels;
use super::precision::Precision;

/// Memory for converted activations; empty if a product multiplies floats.
#[derive(Default)]
pub(super) struct NarrowMemory {
    /// In panels, like the floats that they are rounded from.
    pub(super) rounded: Vec<bf16>,
    /// In panels, like the floats that they are quantized from.
    pub(super) integers: Vec<i16>,
    /// Scale of each row of integers.
    pub(super) scales: Vec<f32>,
}

impl NarrowMemory {
    /// For at most `numbers` numbers in `rows` rows.
    pub(super) fn new(precision: Precision, isa: Isa, numbers: usize, rows: usize) -> Self {
        let mut memory = Self::default();
        match precision {
            Precision::Bf16 if isa.bf16().is_some() => memory.rounded = vec![bf16::NAN; numbers],
            Precision::F32 | Precision::F16 | Precision::Bf16 => {}
            Precision::Int8 => {
                memory.integers = vec![0; numbers];
                memory.scales = vec![f32::NAN; rows];
            }
        }
        memory
    }
}

/// Converted activations, split into bands.
#[derive(Clone, Copy)]
pub(super) enum Narrow<'a> {
    Nothing,
    Bf16(Banded<'a, bf16>),
    Int8 {
        values: Banded<'a, i16>,
        scales: &'a [f32],
    },
}

impl<'a> Narrow<'a> {
    /// The left operand of a product in `band`, whose floats are `floats`.
    pub(super) fn left(self, floats: Panels<'a>, band: usize) -> Left<'a> {
        match self {
            Self::Nothing => Left::Floats(floats),
            Self::Bf16(values) => Left::Bf16(values.band(band)),
            Self::Int8 { values, scales } => Left::Int8(QuantisedRows {
                values: values.band(band),
                scales: &scales[values.bands().rows(band)],
            }),
        }
    }
}
