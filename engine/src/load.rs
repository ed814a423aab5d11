//! Which engine runs a model, and why one may not.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{Encoder, FusedEncoder, Precision, Shape};
use crate::weights::Weights;

/// The engine that a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum EngineChoice {
    /// `fused` where it has kernels for the model's shape, else `candle`.
    Auto,
    /// The engine of this crate: packed weights, kernels for the processor at hand.
    Fused,
    /// Candle's, which runs any BERT.
    Candle,
}

impl EngineChoice {
    /// Builds an encoder of `threads` threads out of `weights`, whose memory it takes over and which it keeps as exactly as
    /// `precision` says.
    ///
    /// # Errors
    /// [`LoadError`] names what does not fit: a member of `config.json`, a tensor, or a precision that the engine has not.
    pub fn build(
        self,
        shape: Shape,
        weights: Weights,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Arc<dyn Encoder>, LoadError> {
        shape.check_sizes()?;
        let reason = match self {
            Self::Fused => None,
            Self::Candle => Some("--engine candle was asked for"),
            Self::Auto => FusedEncoder::unsupported(&shape),
        };
        let Some(reason) = reason else {
            let encoder = FusedEncoder::new(shape, weights, precision, threads)?;
            return Ok(Arc::new(encoder));
        };
        if precision != Precision::F32 {
            return Err(LoadError::Precision { precision, reason });
        }
        if self == Self::Auto {
            tracing::warn!(
                code = "ENGINE_FALLBACK",
                reason,
                "the fused engine has no kernels for this model; candle runs it"
            );
        }
        candle(shape, weights, reason)
    }
}

#[cfg(feature = "candle")]
fn candle(
    shape: Shape,
    weights: Weights,
    _reason: &'static str,
) -> Result<Arc<dyn Encoder>, LoadError> {
    Ok(Arc::new(super::CandleEncoder::new(shape, weights)?))
}

#[cfg(not(feature = "candle"))]
fn candle(
    _shape: Shape,
    _weights: Weights,
    reason: &'static str,
) -> Result<Arc<dyn Encoder>, LoadError> {
    Err(LoadError::NoCandle { reason })
}

/// Why a model could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// `config.json` describes what no engine here computes.
    #[error("ENGINE_CONFIG_UNSUPPORTED: config.json: {0}")]
    Config(String),
    /// The fused engine has no kernels for this shape.
    #[error(
        "ENGINE_SHAPE_UNSUPPORTED: {reason}; run this model with --engine candle, or leave the choice to --engine auto"
    )]
    Shape {
        /// Which number, and what it should be.
        reason: &'static str,
    },
    /// Candle runs the model, and computes in f32 alone.
    #[error(
        "ENGINE_PRECISION_UNSUPPORTED: --precision {}: only the fused engine has it, and candle is to run this model ({reason}); leave the precision out",
        .precision.name()
    )]
    Precision {
        /// What was asked for.
        precision: Precision,
        /// Why candle is to run it.
        reason: &'static str,
    },
    /// This build has no Candle, which would have to run the model.
    #[error(
        "ENGINE_NO_CANDLE: this build has only the fused engine ({reason}); build with the feature `candle`"
    )]
    NoCandle {
        /// Why candle is to run it.
        reason: &'static str,
    },
    /// A tensor is not in the file.
    #[error(
        "ENGINE_TENSOR_MISSING: no tensor `{name}` of shape {expected:?}, with or without the prefix `bert.`; the weights do not belong to config.json"
    )]
    Missing {
        /// Its name without prefix.
        name: String,
        /// Shape that follows from `config.json`.
        expected: Vec<usize>,
    },
    /// A tensor has another shape than `config.json` implies.
    #[error(
        "ENGINE_TENSOR_SHAPE: tensor `{name}` is {observed:?}, expected {expected:?}; the weights do not belong to config.json"
    )]
    TensorShape {
        /// Its name without prefix.
        name: String,
        /// Shape that follows from `config.json`.
        expected: Vec<usize>,
        /// Shape in the file.
        observed: Vec<usize>,
    },
    /// A weight is too large for the precision that was asked for.
    #[error(
        "ENGINE_TENSOR_RANGE: tensor `{name}` holds {largest}, which has no finite value in {}, as --precision {} keeps it; take another",
        .kept.name(), .precision.name()
    )]
    TensorRange {
        /// Its name without prefix.
        name: String,
        /// The largest absolute value in it.
        largest: f32,
        /// What was asked for.
        precision: Precision,
        /// How this tensor is kept then.
        kept: Precision,
    },
    /// `tokenizer.json` has word pieces that the model does not.
    #[error(
        "ENGINE_VOCABULARY: tokenizer.json numbers its word pieces below {tokenizer}, the model below {model}; they do not belong together"
    )]
    Vocabulary {
        /// One more than the largest id that a text may become.
        tokenizer: usize,
        /// Word pieces with an embedding.
        model: usize,
    },
    /// Candle refused what was checked before.
    #[cfg(feature = "candle")]
    #[error("ENGINE_CANDLE: {0}")]
    Candle(#[from] candle_core::Error),
    /// Helper threads could not be started.
    #[error("ENGINE_THREADS: cannot start a thread: {0}; lower --threads")]
    Threads(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::super::fused::tests::{TINY, random_model, weights};
    use super::*;

    #[test]
    fn the_name_says_engine_precision_and_instruction_set() {
        for (precision, prefix) in [
            (Precision::F32, "fused-f32-"),
            (Precision::F16, "fused-f16-"),
            (Precision::Bf16, "fused-bf16-"),
            (Precision::Int8, "fused-int8-"),
        ] {
            let weights = weights(&random_model(&TINY, 1), "");
            let built = EngineChoice::Auto.build(TINY, weights, precision, NonZeroUsize::MIN);
            let name = built.unwrap().name();
            assert!(name.starts_with(prefix), "{name}");
        }
    }

    #[cfg(feature = "candle")]
    #[test]
    fn candle_runs_what_the_fused_engine_has_no_kernels_for() {
        let shape = Shape { heads: 8, ..TINY };
        let build = |precision| {
            let weights = weights(&random_model(&shape, 1), "");
            EngineChoice::Auto.build(shape, weights, precision, NonZeroUsize::MIN)
        };
        assert_eq!(build(Precision::F32).unwrap().name(), "candle-f32");
        let error = build(Precision::F16).err().unwrap().to_string();
        let reason = FusedEncoder::unsupported(&shape).unwrap();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn candle_refuses_what_it_would_not_compute() {
        for precision in [Precision::F16, Precision::Bf16, Precision::Int8] {
            let weights = weights(&random_model(&TINY, 1), "");
            let built = EngineChoice::Candle.build(TINY, weights, precision, NonZeroUsize::MIN);
            let error = built.err().unwrap().to_string();
            let code = format!(
                "ENGINE_PRECISION_UNSUPPORTED: --precision {}: ",
                precision.name()
            );
            assert!(error.starts_with(&code), "{error}");
        }
    }
}
