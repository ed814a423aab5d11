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
        let cosine = cosine(expected, found);
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

pub(super) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}
