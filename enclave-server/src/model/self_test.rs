//! The self-test of a model: the engine embeds the lock's texts, and the vectors must be the lock's.

use engine::{EmbedError, Embedder, Inputs, Overlong, Precision};
use sealed_model::SelfTest;

use super::ModelError;

/// Embeds the texts of `tests`, and compares each vector with its own. Returns a [`ModelError::SelfTest`] for each text whose vector
/// differs, or that cannot be embedded.
pub async fn failures(
    embedder: &Embedder,
    precision: Precision,
    tests: &[SelfTest],
) -> Vec<ModelError> {
    let least = least_cosine(precision);
    let mut failures = Vec::new();
    for (index, test) in tests.iter().enumerate() {
        let vector = embed(embedder, &test.text).await;
        let compared = vector
            .map_err(SelfTestFault::Embed)
            .and_then(|vector| compare(&test.vector, &vector, least));
        if let Err(fault) = compared {
            failures.push(ModelError::SelfTest {
                number: index + 1,
                count: tests.len(),
                fault,
            });
        }
    }
    failures
}

/// Embeds one text, which must not be longer than the model's maximum.
///
/// # Errors
/// [`EmbedError`].
pub async fn embed(embedder: &Embedder, text: &str) -> Result<Vec<f32>, EmbedError> {
    let texts = Inputs::Texts(vec![text.to_owned()]);
    let embeddings = embedder.embed(texts, Overlong::Refuse).await?;
    Ok(embeddings.values.to_vec())
}

/// Why a text of the self-test failed. Contains neither the text nor a vector.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestFault {
    /// Another vector.
    #[error("the cosine to the lock's vector is {cosine:.6}, at least {least} is right")]
    Cosine {
        /// The cosine found.
        cosine: f64,
        /// The least that passes.
        least: f64,
    },
    /// A vector of another length.
    #[error("the vector has {observed} components, the lock's {expected}")]
    Dimension {
        /// Length of the lock's vector.
        expected: usize,
        /// Length found.
        observed: usize,
    },
    /// Another number, of a model that scores.
    #[error("the score is {observed}, and {expected} within a hundredth is right")]
    Score {
        /// The lock's number.
        expected: f32,
        /// The number found.
        observed: f32,
    },
    /// See [`EmbedError`].
    #[error("the text cannot be embedded: {0}")]
    Embed(EmbedError),
}

/// Engines differ by rounding: both f32 engines by less than 1e-9 over a thousand texts, where a wrong pooling or a missing
/// normalisation is far below 0.9999. A lower precision has its own distance to f32, doubled because it was measured on one model.
fn least_cosine(precision: Precision) -> f64 {
    (1.0 - 2.0 * (1.0 - precision.least_cosine())).min(0.9999)
}

fn compare(expected: &[f32], observed: &[f32], least: f64) -> Result<(), SelfTestFault> {
    if expected.len() != observed.len() {
        return Err(SelfTestFault::Dimension {
            expected: expected.len(),
            observed: observed.len(),
        });
    }
    // One number has no direction.
    if let ([expected], [observed]) = (expected, observed) {
        let (expected, observed) = (*expected, *observed);
        let is_close = (expected - observed).abs() <= 0.01 * expected.abs().max(0.01);
        return match is_close {
            true => Ok(()),
            false => Err(SelfTestFault::Score { expected, observed }),
        };
    }
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let lengths = (dot(expected, expected) * dot(observed, observed)).sqrt();
    let cosine = dot(expected, observed) / lengths;
    // Not a number where a vector is zero or has no number.
    match cosine >= least {
        true => Ok(()),
        false => Err(SelfTestFault::Cosine { cosine, least }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_direction_is_compared() {
        assert!(compare(&[1.0, 2.0], &[2.0, 4.0], 0.9999).is_ok());
        assert!(compare(&[1.0, 0.0], &[1.0, 0.01], 0.9999).is_ok());
        for other in [[1.0, 0.02], [-1.0, 0.0], [0.0, 0.0], [f32::NAN, 1.0]] {
            let fault = compare(&[1.0, 0.0], &other, 0.9999).unwrap_err();
            assert!(fault.to_string().contains("cosine"), "{fault}");
        }
        let fault = compare(&[1.0], &[1.0, 0.0], 0.9999).unwrap_err();
        let message = fault.to_string();
        assert_eq!(message, "the vector has 2 components, the lock's 1");
    }

    #[test]
    fn a_score_is_compared_as_a_number() {
        for (expected, observed) in [(0.5, 0.504), (-2.0, -2.01), (0.0, 0.0001)] {
            assert!(compare(&[expected], &[observed], 0.9999).is_ok());
        }
        for (expected, observed) in [(0.5, 0.6), (0.5, -0.5), (0.0, 0.01), (0.1, f32::NAN)] {
            let fault = compare(&[expected], &[observed], 0.9999).unwrap_err();
            assert!(fault.to_string().starts_with("the score"), "{fault}");
        }
    }

    #[test]
    fn a_lower_precision_has_room_for_its_rounding() {
        assert!(least_cosine(Precision::F32) == 0.9999);
        for precision in [Precision::F16, Precision::Bf16, Precision::Int8] {
            let least = least_cosine(precision);
            assert!((0.99..=0.9999).contains(&least), "{precision:?}: {least}");
            assert!(least < precision.least_cosine());
        }
    }
}
