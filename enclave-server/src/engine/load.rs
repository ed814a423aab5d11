//! Which engine runs a model, and why one may not.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{CandleEncoder, Encoder, FusedEncoder, Shape};
use crate::model::Weights;

/// The engine that a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineChoice {
    /// `fused` where it has kernels for the model's shape, else `candle`.
    Auto,
    /// The engine of this crate: packed weights, kernels for the processor at hand.
    Fused,
    /// The portable engine.
    Candle,
}

impl EngineChoice {
    /// Builds an encoder of `threads` threads out of `weights`, whose memory it takes over.
    ///
    /// # Errors
    /// [`LoadError`] names what does not fit: a member of `config.json`, or a tensor.
    pub fn build(
        self,
        shape: Shape,
        weights: Weights,
        threads: NonZeroUsize,
    ) -> Result<Arc<dyn Encoder>, LoadError> {
        let fused = match self {
            Self::Fused => true,
            Self::Candle => false,
            Self::Auto => match FusedEncoder::unsupported(&shape) {
                None => true,
                Some(reason) => {
                    tracing::warn!(
                        code = "ENGINE_FALLBACK",
                        reason,
                        "the fused engine has no kernels for this model; candle runs it"
                    );
                    false
                }
            },
        };
        Ok(if fused {
            Arc::new(FusedEncoder::new(shape, weights, threads)?)
        } else {
            Arc::new(CandleEncoder::new(shape, weights)?)
        })
    }
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
    /// Candle refused what was checked before.
    #[error("ENGINE_CANDLE: {0}")]
    Candle(#[from] candle_core::Error),
    /// Helper threads could not be started.
    #[error("ENGINE_THREADS: cannot start a thread: {0}; lower --threads")]
    Threads(#[from] std::io::Error),
}
