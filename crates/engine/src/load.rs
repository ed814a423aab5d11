//! Chooses the engine for a model, and reports why an engine cannot run it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{Encoder, FusedEncoder, Head, Precision, Shape};
use crate::weights::{Weights, WeightsError};

/// The engine that the operator selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum EngineChoice {
    /// `fused` if it has kernels for the model's shape, otherwise `candle`.
    Auto,
    /// The fused engine of this crate: packed weights, and kernels for this processor.
    Fused,
    /// Candle's engine, which runs BERTs of any size.
    Candle,
}

impl EngineChoice {
    /// Builds an encoder with `threads` threads from `weights`, reusing their memory and storing them in `precision`.
    ///
    /// # Errors
    /// [`LoadError`] names the mismatch: a member of `config.json`, a tensor, or a precision that the engine does not support.
    pub fn build(
        self,
        shape: Shape,
        weights: Weights,
        precision: Precision,
        threads: NonZeroUsize,
    ) -> Result<Arc<dyn Encoder>, LoadError> {
        let head = Head::unit(shape.hidden, shape.pooling);
        self.build_with(shape, head, weights, precision, threads)
    }

    /// Like [`build`](Self::build), with steps of a model after its encoder.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_with(
        self,
        shape: Shape,
        head: Head,
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
            let encoder = FusedEncoder::with_head(shape, head, weights, precision, threads)?;
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
        candle(shape, head, weights, reason)
    }
}

#[cfg(feature = "candle")]
fn candle(
    shape: Shape,
    head: Head,
    weights: Weights,
    _reason: &'static str,
) -> Result<Arc<dyn Encoder>, LoadError> {
    Ok(Arc::new(super::CandleEncoder::with_head(
        shape, head, weights,
    )?))
}

#[cfg(not(feature = "candle"))]
fn candle(
    _shape: Shape,
    _head: Head,
    _weights: Weights,
    reason: &'static str,
) -> Result<Arc<dyn Encoder>, LoadError> {
    Err(LoadError::NoCandle { reason })
}

/// Why a model could not be built.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum LoadError {
    /// `config.json` describes a model that no engine here computes.
    #[error("config.json: {0}")]
    #[coded(
        "ENGINE_CONFIG_UNSUPPORTED",
        remedy = "Use a model whose settings docs/MODELS.md lists."
    )]
    Config(String),
    /// The fused engine has no kernels for this shape.
    #[error("the fused engine has no kernels for this model: {reason}")]
    #[coded(
        "ENGINE_SHAPE_UNSUPPORTED",
        remedy = "Run this model with --engine candle, or leave the choice to --engine auto."
    )]
    Shape {
        /// The number that is not supported, and its required value.
        reason: &'static str,
    },
    /// Candle has to run the model, and computes only in f32.
    #[error(
        "--precision {}: only the fused engine has it, and candle is to run this model ({reason})",
        .precision.name()
    )]
    #[coded("ENGINE_PRECISION_UNSUPPORTED", remedy = "Leave --precision out.")]
    Precision {
        /// The requested precision.
        precision: Precision,
        /// Why candle has to run it.
        reason: &'static str,
    },
    /// This build does not include Candle, which would have to run the model.
    #[error("this build has only the fused engine ({reason})")]
    #[coded("ENGINE_NO_CANDLE", remedy = "Build with the feature `candle`.")]
    NoCandle {
        /// Why candle has to run it.
        reason: &'static str,
    },
    /// A tensor is missing from the file.
    #[error("no tensor `{name}` of shape {expected:?}, with or without a prefix such as `bert.`")]
    #[coded(
        "ENGINE_TENSOR_MISSING",
        remedy = "Get weights and config.json of one model."
    )]
    Missing {
        /// Its name without prefix.
        name: String,
        /// Shape implied by `config.json`.
        expected: Vec<usize>,
    },
    /// A tensor's shape differs from the one implied by `config.json`.
    #[error("tensor `{name}` is {observed:?}, expected {expected:?}")]
    #[coded(
        "ENGINE_TENSOR_SHAPE",
        remedy = "Get weights and config.json of one model."
    )]
    TensorShape {
        /// Its name without prefix.
        name: String,
        /// Shape implied by `config.json`.
        expected: Vec<usize>,
        /// Shape in the file.
        observed: Vec<usize>,
    },
    /// A module's file has a tensor that its `config.json` does not use.
    #[error("the module's config.json uses no tensor `{name}`")]
    #[coded(
        "ENGINE_TENSOR_UNUSED",
        remedy = "Get weights and config.json of one model."
    )]
    Unused {
        /// Its file and name.
        name: String,
    },
    /// A weight is too large for the requested precision.
    #[error(
        "tensor `{name}` holds {largest}, which has no finite value in {}, as --precision {} keeps it",
        .kept.name(), .precision.name()
    )]
    #[coded("ENGINE_TENSOR_RANGE", remedy = "Take another --precision.")]
    TensorRange {
        /// Its name without prefix.
        name: String,
        /// Its largest absolute value.
        largest: f32,
        /// The requested precision.
        precision: Precision,
        /// The storage precision of this tensor.
        kept: Precision,
    },
    /// `tokenizer.json` has tokens that the model does not.
    #[error("tokenizer.json numbers its tokens below {tokenizer}, the model below {model}")]
    #[coded(
        "ENGINE_VOCABULARY",
        remedy = "Get tokenizer.json and config.json of one model."
    )]
    Vocabulary {
        /// One more than the tokenizer's largest id.
        tokenizer: usize,
        /// Tokens that have an embedding.
        model: usize,
    },
    /// Files of weights contradict each other.
    #[error(transparent)]
    #[coded(transparent)]
    Weights(#[from] WeightsError),
    /// Candle has no kernels for this architecture, or not in this form.
    #[error("candle does not run this model: {reason}")]
    #[coded(
        "ENGINE_CANDLE_UNSUPPORTED",
        remedy = "Run this model with --engine fused, or leave the choice to --engine auto."
    )]
    CandleShape {
        /// The property that is not supported.
        reason: &'static str,
    },
    /// Candle refused a model that passed the checks.
    #[cfg(feature = "candle")]
    #[error("candle refused the model: {0}")]
    #[coded(
        "ENGINE_CANDLE",
        remedy = "Report this as a defect: the model was checked before."
    )]
    Candle(#[from] candle_core::Error),
    /// Helper threads could not be started.
    #[error("cannot start a thread: {0}")]
    #[coded("ENGINE_THREADS", remedy = "Lower --threads.")]
    Threads(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::super::fused::tests::{TINY, random_model, weights, with_heads};
    use super::*;

    #[test]
    fn the_name_states_engine_precision_and_instruction_set() {
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

    /// Rows of a model whose normalisations have the names used in files from TensorFlow.
    #[test]
    fn every_engine_reads_older_names() {
        let model = random_model(&TINY, 1);
        let older = model
            .iter()
            .map(|(name, tensor)| {
                let name = name
                    .replace("LayerNorm.weight", "LayerNorm.gamma")
                    .replace("LayerNorm.bias", "LayerNorm.beta");
                (name, tensor.clone())
            })
            .collect();
        let engines = [EngineChoice::Fused, EngineChoice::Candle];
        for engine in &engines[..1 + usize::from(cfg!(feature = "candle"))] {
            let encode = |tensors| {
                let weights = weights(tensors, "bert.");
                let built = engine.build(TINY, weights, Precision::F32, NonZeroUsize::MIN);
                built.unwrap().encode(&[&[1, 2, 3]]).unwrap()
            };
            assert_eq!(encode(&older), encode(&model), "{engine:?}");
        }
    }

    #[cfg(feature = "candle")]
    #[test]
    fn candle_runs_what_the_fused_engine_has_no_kernels_for() {
        let shape = with_heads(TINY, 8);
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
            let error = built.err().unwrap();
            assert_eq!(error.code(), "ENGINE_PRECISION_UNSUPPORTED");
            let start = format!("--precision {}: ", precision.name());
            assert!(error.to_string().starts_with(&start), "{error}");
        }
    }
}
