//! The weights of a model in their storage precision.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::isa::{Bf16, Dots, Isa, Simd};
use super::panels::PANEL;
use super::precision::Precision;

/// A storage type of weights that are widened to f32 for computing.
pub(super) trait Float: Copy {
    /// Whether widening to f32 takes an instruction.
    const NARROW: bool = true;
    /// Loads the first [`Simd::WIDTH`] weights of `from`.
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Block;
    /// Returns the weights if they are stored as this type.
    fn from_packed(weights: PackedRef<'_>) -> Option<&[Self]>;
}

impl Float for f32 {
    const NARROW: bool = false;

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Block {
        simd.load(from)
    }

    fn from_packed(weights: PackedRef<'_>) -> Option<&[Self]> {
        match weights {
            PackedRef::Floats(FloatsRef::F32(values)) => Some(values),
            _ => None,
        }
    }
}

impl Float for f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Block {
        simd.load_f16(from)
    }

    fn from_packed(weights: PackedRef<'_>) -> Option<&[Self]> {
        match weights {
            PackedRef::Floats(FloatsRef::F16(values)) => Some(values),
            _ => None,
        }
    }
}

impl Float for bf16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self]) -> S::Block {
        simd.load_bf16(from)
    }

    fn from_packed(weights: PackedRef<'_>) -> Option<&[Self]> {
        match weights {
            PackedRef::Floats(FloatsRef::Bf16(values)) => Some(values),
            _ => None,
        }
    }
}

/// A storage type of quantized weights, which are multiplied as i16.
pub(super) trait Integer: Copy {
    /// Loads two weights for each lane: the first `2 · WIDTH` of `from`.
    fn load_pairs<D: Dots<i16>>(dots: D, from: &[Self]) -> D::Pairs;
}

impl Integer for i8 {
    #[inline(always)]
    fn load_pairs<D: Dots<i16>>(dots: D, from: &[Self]) -> D::Pairs {
        dots.load_kept_pairs(from)
    }
}

impl Integer for i16 {
    #[inline(always)]
    fn load_pairs<D: Dots<i16>>(dots: D, from: &[Self]) -> D::Pairs {
        dots.load_pairs(from)
    }
}

/// Floating-point weights.
pub(super) enum Floats {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

/// A slice of floating-point weights.
#[derive(Clone, Copy)]
pub(super) enum FloatsRef<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl Floats {
    /// The storage precision: f16 if int8 is requested.
    pub(super) fn storage_precision(precision: Precision) -> Precision {
        match precision {
            Precision::Int8 => Precision::F16,
            other => other,
        }
    }

    /// Rounds `values` to their [storage precision](Self::storage_precision).
    pub(super) fn round(values: Vec<f32>, precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32(values),
            Precision::F16 | Precision::Int8 => {
                let mut rounded = vec![f16::ZERO; values.len()];
                rounded.convert_from_f32_slice(&values);
                Self::F16(rounded)
            }
            Precision::Bf16 => {
                let mut rounded = vec![bf16::ZERO; values.len()];
                rounded.convert_from_f32_slice(&values);
                Self::Bf16(rounded)
            }
        }
    }

    /// Whether a finite `value` stays finite when rounded.
    pub(super) fn can_represent(precision: Precision, value: f32) -> bool {
        match precision {
            Precision::F32 => true,
            Precision::F16 | Precision::Int8 => f16::from_f32(value).is_finite(),
            Precision::Bf16 => bf16::from_f32(value).is_finite(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => size_of_val(values.as_slice()),
            Self::F16(values) => size_of_val(values.as_slice()),
            Self::Bf16(values) => size_of_val(values.as_slice()),
        }
    }

    pub(super) fn part(&self, range: Range<usize>) -> FloatsRef<'_> {
        match self {
            Self::F32(values) => FloatsRef::F32(&values[range]),
            Self::F16(values) => FloatsRef::F16(&values[range]),
            Self::Bf16(values) => FloatsRef::Bf16(&values[range]),
        }
    }

    pub(super) fn all(&self) -> FloatsRef<'_> {
        match self {
            Self::F32(values) => FloatsRef::F32(values),
            Self::F16(values) => FloatsRef::F16(values),
            Self::Bf16(values) => FloatsRef::Bf16(values),
        }
    }
}

/// The weights of a matrix in panels, in the order in which the kernels read them.
pub(super) enum Packed {
    /// [columns / width][depth][width]
    Floats(Floats),
    /// For an instruction set that multiplies bf16 directly.
    Bf16 {
        dots: Bf16,
        /// [columns / width][depth / 2][width][2]
        values: Vec<bf16>,
    },
    /// Integers, with a scale for every [`PANEL`] weights of a column.
    Int8 {
        /// [columns / width][depth / 2][width][2]
        values: Vec<i8>,
        /// [columns / width][depth / `PANEL`][width]
        scales: Vec<f32>,
    },
}

/// A range of panels.
#[derive(Clone, Copy)]
pub(super) enum PackedRef<'a> {
    Floats(FloatsRef<'a>),
    Bf16 { dots: Bf16, values: &'a [bf16] },
    Int8 { values: &'a [i8], scales: &'a [f32] },
}

impl Packed {
    /// Packs [columns][depth], multiplied by `factor`. The number of columns is a multiple of the instruction set's width, the
    /// depth of [`PANEL`].
    pub(super) fn new(
        weights: Vec<f32>,
        depth: usize,
        factor: f32,
        precision: Precision,
        isa: Isa,
    ) -> Self {
        let width = isa.width();
        match (precision, isa.bf16()) {
            (Precision::Int8, _) => quantised(&weights, depth, factor, width),
            (Precision::Bf16, Some(dots)) => Self::Bf16 {
                dots,
                values: in_pairs(&weights, depth, factor, width),
            },
            _ => Self::Floats(Floats::round(
                in_panels(weights, depth, factor, width),
                precision,
            )),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Floats(values) => values.bytes(),
            Self::Bf16 { values, .. } => size_of_val(values.as_slice()),
            Self::Int8 { values, scales } => values.len() + size_of_val(scales.as_slice()),
        }
    }

    /// A range of columns; both ends are multiples of the width.
    pub(super) fn columns(&self, columns: Range<usize>, depth: usize) -> PackedRef<'_> {
        let part = |depth| columns.start * depth..columns.end * depth;
        match self {
            Self::Floats(values) => PackedRef::Floats(values.part(part(depth))),
            Self::Bf16 { dots, values } => PackedRef::Bf16 {
                dots: *dots,
                values: &values[part(depth)],
            },
            Self::Int8 { values, scales } => PackedRef::Int8 {
                values: &values[part(depth)],
                scales: &scales[part(depth / PANEL)],
            },
        }
    }
}

/// Packs in place: a panel occupies the memory of the rows that it consists of.
fn in_panels(mut weights: Vec<f32>, depth: usize, factor: f32, width: usize) -> Vec<f32> {
    let mut rows = vec![0.0; depth * width];
    for panel in weights.chunks_exact_mut(depth * width) {
        rows.copy_from_slice(panel);
        for (column, row) in rows.chunks_exact(depth).enumerate() {
            for (to, value) in panel[column..].iter_mut().step_by(width).zip(row) {
                *to = value * factor;
            }
        }
    }
    weights
}

/// Rounds, and packs two weights of a column next to each other.
fn in_pairs(weights: &[f32], depth: usize, factor: f32, width: usize) -> Vec<bf16> {
    let mut values = vec![bf16::ZERO; weights.len()];
    let panels = values.chunks_exact_mut(depth * width);
    for (panel, rows) in panels.zip(weights.chunks_exact(depth * width)) {
        for (column, row) in rows.chunks_exact(depth).enumerate() {
            let pairs = panel.chunks_exact_mut(2 * width);
            for (to, pair) in pairs.zip(row.chunks_exact(2)) {
                for (to, value) in to[2 * column..].iter_mut().zip(pair) {
                    *to = bf16::from_f32(value * factor);
                }
            }
        }
    }
    values
}

/// Quantizes: the largest of [`PANEL`] weights becomes 127.
fn quantised(weights: &[f32], depth: usize, factor: f32, width: usize) -> Packed {
    let mut values = vec![0; weights.len()];
    let mut scales = vec![0.0; weights.len() / PANEL];
    let panels = values.chunks_exact_mut(depth * width);
    let panels = panels.zip(scales.chunks_exact_mut(depth / PANEL * width));
    for ((values, scales), rows) in panels.zip(weights.chunks_exact(depth * width)) {
        for (column, row) in rows.chunks_exact(depth).enumerate() {
            let groups = values.chunks_exact_mut(PANEL * width);
            let groups = groups.zip(scales.chunks_exact_mut(width));
            for ((values, scales), group) in groups.zip(row.chunks_exact(PANEL)) {
                let largest = group.iter().fold(0_f32, |largest, x| largest.max(x.abs()));
                let step = largest / f32::from(i8::MAX);
                scales[column] = step * factor;
                let pairs = values.chunks_exact_mut(2 * width);
                for (values, pair) in pairs.zip(group.chunks_exact(2)) {
                    for (to, value) in values[2 * column..].iter_mut().zip(pair) {
                        // If all are zero, so is the step: 0 / 0 is NaN, which is converted to 0.
                        *to = (value / step).round() as i8;
                    }
                }
            }
        }
    }
    Packed::Int8 { values, scales }
}
