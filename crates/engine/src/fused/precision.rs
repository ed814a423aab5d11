//! How exactly weights are kept: what a smaller or faster model costs.

/// How weights are kept, and what the products of a layer are computed in. Everything else is f32 in each of them:
/// attention, norms, activations between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Precision {
    /// As they are in the file.
    #[default]
    F32,
    /// Half the memory, widened to f32 to be multiplied: as many bits as a half has.
    F16,
    /// Half the memory, widened to f32 to be multiplied: the range of f32, 8 bits of significand. Where that is faster, it is
    /// multiplied by activations in bf16 instead, with sums in f32.
    Bf16,
    /// Not much more than a quarter of the memory for matrices, and half of it for the table of words. Integers of 8
    /// bits with a scale for every 32 of them, times activations of 16 bits with a scale for each token, added up
    /// exactly in 32 bits.
    Int8,
}

impl Precision {
    /// Every precision.
    pub const ALL: &'static [Self] = &[Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// The name in flags and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }

    /// Least cosine between an embedding of the pinned model in this precision and the same in f32, as measured over a
    /// thousand texts of every script and rounded down. The benchmark `precision` measures it anew and fails below it.
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
