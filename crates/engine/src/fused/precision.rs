//! The precision of stored weights, and its effect on embeddings.

/// Precision of the stored weights and of the products of a layer. Everything else is f32 in all of them: attention, norms,
/// activations between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Precision {
    /// As in the file.
    #[default]
    F32,
    /// Half the memory; widened to f32 for multiplication. Has the significand of a half-precision float.
    F16,
    /// Half the memory; widened to f32 for multiplication. Has the range of f32 and 8 bits of significand. On processors where it
    /// is faster, it is multiplied with activations in bf16, with sums in f32.
    Bf16,
    /// Slightly more than a quarter of the memory for matrices, and half of it for the embedding table. 8-bit integers with one
    /// scale per 32 of them, multiplied with 16-bit activations with one scale per token, and summed exactly in 32 bits.
    Int8,
}

impl Precision {
    /// All precisions.
    pub const ALL: &'static [Self] = &[Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// Name in flags and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Least cosine between an embedding of the pinned model in this precision and in f32, measured over a thousand texts in many
    /// scripts and rounded down. The benchmark `precision` measures it again and fails if it is lower.
    #[must_use]
    pub fn least_cosine(self) -> f64 {
        match self {
            Self::F32 => 1.0,
            Self::F16 => 0.999_999_5,
            Self::Bf16 => 0.999_96,
            Self::Int8 => 0.999_4,
        }
    }
}
