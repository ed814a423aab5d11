//! Similarity of embeddings to those of a reference.

use anyhow::{Result, ensure};

use super::Run;
use crate::record::{Parameter, Unit};

/// Similarity over all texts so far.
pub(super) struct Nearness {
    least_cosine: f64,
    /// Largest difference of a component.
    pub(super) largest_difference: f64,
}

impl Nearness {
    pub(super) fn new() -> Self {
        Self {
            least_cosine: 1.0,
            largest_difference: 0.0,
        }
    }

    /// Adds one embedding; returns its cosine.
    pub(super) fn add(&mut self, expected: &[f32], found: &[f32]) -> Result<f64> {
        ensure!(
            found.len() == expected.len(),
            "an embedding has {} numbers",
            found.len()
        );
        let cosine = cosine(expected, found)?;
        self.least_cosine = self.least_cosine.min(cosine);
        for (a, b) in expected.iter().zip(found) {
            self.largest_difference = self.largest_difference.max(f64::from((a - b).abs()));
        }
        Ok(cosine)
    }

    pub(super) fn record(&self, run: &mut Run, parameters: &[(&str, Parameter)]) {
        let (cosine, difference) = (self.least_cosine, self.largest_difference);
        run.value("quality.cosine", parameters, Unit::Ratio, cosine);
        run.value("quality.max_abs_diff", parameters, Unit::Ratio, difference);
    }
}

/// Cosine of two rows.
///
/// # Errors
/// If it is not a number: a row has a NaN, is infinite, or has only zeros; or their lengths differ.
pub(super) fn cosine(a: &[f32], b: &[f32]) -> Result<f64> {
    ensure!(
        a.len() == b.len(),
        "embeddings of {} and of {} numbers",
        a.len(),
        b.len()
    );
    let dot = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    ensure!(
        cosine.is_finite(),
        "the cosine of two embeddings is {cosine}"
    );
    Ok(cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_is_a_number_or_an_error() {
        assert_eq!(cosine(&[2.0, 0.0], &[3.0, 0.0]).unwrap(), 1.0);
        assert_eq!(cosine(&[2.0, 0.0], &[0.0, 1.0]).unwrap(), 0.0);
        let wrong: [&[f32]; 4] = [&[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[1.0]];
        for row in wrong {
            assert!(cosine(&[1.0, 0.0], row).is_err(), "{row:?}");
            assert!(Nearness::new().add(&[1.0, 0.0], row).is_err(), "{row:?}");
        }
    }
}
