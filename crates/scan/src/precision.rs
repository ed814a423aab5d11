//! Precision of stored vectors.

/// Storage type of a vector's numbers.
///
/// | precision | bytes per number | stored value of `x` |
/// | --- | --- | --- |
/// | `F32` | 4 | `x` |
/// | `F16` | 2 | the nearest IEEE 754 binary16, ties to even; a magnitude that rounds to infinity (65520 or more) is refused |
/// | `Int8` | 1, and 4 per row | `scale · code`, see below |
///
/// Int8 is symmetric, with one scale per row. With `m` the largest magnitude of the row, `scale` is `m / 127` rounded to the
/// nearest f32 and then truncated to 17 significant bits, and `code` is `x / scale` in f64, rounded to the nearest integer, ties
/// to even, and clamped to -127..=127. 17 and 7 bits make 24, so `scale · code` is an f32 without rounding. If `scale` would be
/// below 2⁻¹²⁶ (the smallest normal f32), scale and codes are 0: such a row has no magnitude of 1.5·10⁻³⁶ or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// Integers of 8 bits, and a scale for each row.
    Int8,
}

impl Precision {
    /// All precisions, the most exact first.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// Number of the precision in stored forms. Never changes its meaning.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Int8 => 2,
        }
    }

    /// The precision with this [`code`](Self::code).
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.code() == code)
    }

    /// `f32`, `f16` or `int8`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }

    /// Bytes of a row in the [stored form](crate::Vectors::to_bytes).
    #[must_use]
    pub fn row_bytes(self, dimensions: usize) -> usize {
        match self {
            Self::F32 => dimensions * size_of::<f32>(),
            Self::F16 => dimensions * size_of::<u16>(),
            Self::Int8 => SCALE_BYTES + dimensions,
        }
    }
}

/// Bytes of a row's scale.
pub(crate) const SCALE_BYTES: usize = size_of::<f32>();
