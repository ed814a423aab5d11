//! From token states to an embedding: sentence-transformers' `Pooling` and the modules after it.

use zeroize::Zeroizing;

use crate::{Activation, LoadError, Pooling};

/// How token states are pooled, and the steps that turn the pooled row into an embedding.
#[derive(Clone, Debug)]
pub struct Head {
    /// Features of a token.
    features: usize,
    /// One or more; their rows are joined.
    poolings: Vec<Pooling>,
    steps: Vec<HeadStep>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HeadStep {
    /// activation(W x + b)
    Dense {
        /// A row for each output, of as many weights as there are inputs.
        weights: Vec<f32>,
        /// One for each output.
        bias: Vec<f32>,
        /// Applied to each output.
        activation: HeadActivation,
        /// Added to the result.
        residual: Residual,
    },
    /// (x − mean) / deviation · scale + shift, with PyTorch's epsilon 10⁻⁵.
    LayerNorm {
        /// One for each feature.
        scale: Vec<f32>,
        /// One for each feature.
        shift: Vec<f32>,
    },
    /// x / |x|
    Normalise,
    /// The first features, as many as the number says.
    Truncate(usize),
}

/// A summand of the result of [`HeadStep::Dense`].
#[derive(Clone, Debug, PartialEq)]
pub enum Residual {
    /// Nothing.
    None,
    /// Its input.
    Input,
    /// The product of its input and these weights: a row for each output.
    Product(Vec<f32>),
}

/// Activation of [`HeadStep::Dense`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadActivation {
    /// `torch.nn.modules.linear.Identity`
    Identity,
    /// `torch.nn.modules.activation.Tanh`
    Tanh,
    /// `torch.nn.modules.activation.Sigmoid`
    Sigmoid,
    /// Those of the feed-forward network.
    Of(Activation),
}

impl HeadStep {
    /// Features of the result for a row of `width` features; `None` where the step takes other rows, or leaves nothing.
    fn outputs(&self, width: usize) -> Option<usize> {
        let outputs = match self {
            Self::Dense {
                weights,
                bias,
                residual,
                ..
            } => {
                let fits = match residual {
                    Residual::None => true,
                    Residual::Input => bias.len() == width,
                    Residual::Product(product) => product.len() == weights.len(),
                };
                let product = bias.len().checked_mul(width);
                (fits && product == Some(weights.len())).then_some(bias.len())
            }
            Self::LayerNorm { scale, shift } => {
                (scale.len() == width && shift.len() == width).then_some(width)
            }
            Self::Normalise => Some(width),
            Self::Truncate(length) => Some(width.min(*length)),
        };
        outputs.filter(|outputs| *outputs > 0)
    }
}

impl Head {
    /// Pools tokens of so many features, and scales the row to unit length.
    #[must_use]
    pub fn unit(features: usize, pooling: Pooling) -> Self {
        Self::new(features, vec![pooling], vec![HeadStep::Normalise])
    }

    /// One or more poolings of tokens of so many features, and the steps after them.
    #[must_use]
    pub fn new(features: usize, poolings: Vec<Pooling>, steps: Vec<HeadStep>) -> Self {
        Self {
            features,
            poolings,
            steps,
        }
    }

    /// Refuses a head for tokens of other than `features` features, and steps whose sizes do not fit each other.
    pub(crate) fn check(&self, features: usize) -> Result<(), LoadError> {
        if self.features != features || self.poolings.is_empty() {
            return Err(LoadError::Config(format!(
                "{} poolings of {} features cannot follow an encoder of {features}",
                self.poolings.len(),
                self.features
            )));
        }
        let mut width = self.width();
        for (number, step) in (1..).zip(&self.steps) {
            width = step.outputs(width).ok_or_else(|| {
                LoadError::Config(format!(
                    "step {number} after pooling does not fit rows of {width} features"
                ))
            })?;
        }
        Ok(())
    }

    /// The poolings, in the order of their rows.
    pub(crate) fn poolings(&self) -> &[Pooling] {
        &self.poolings
    }

    /// Features of a pooled row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.features * self.poolings.len()
    }

    /// Length of an embedding; 0 where the steps do not fit each other, which no encoder accepts.
    #[must_use]
    pub fn dimension(&self) -> usize {
        let mut steps = self.steps.iter();
        let outputs = steps.try_fold(self.width(), |width, step| step.outputs(width));
        outputs.unwrap_or(0)
    }

    /// Whether embeddings have unit length.
    #[must_use]
    pub fn is_normalised(&self) -> bool {
        self.steps.last() == Some(&HeadStep::Normalise)
    }

    /// The pooling, where it is one and the only step is to scale its row to unit length.
    pub(crate) fn only_normalised(&self) -> Option<Pooling> {
        match (&self.poolings[..], &self.steps[..]) {
            ([pooling], [HeadStep::Normalise]) => Some(*pooling),
            _ => None,
        }
    }

    /// Writes the embedding of a pooled row.
    pub(crate) fn apply(&self, pooled: &[f32], out: &mut [f32]) {
        // Every row on the way could be turned back into the text's embedding.
        let mut row = Zeroizing::new(pooled.to_vec());
        for step in &self.steps {
            match step {
                HeadStep::Dense {
                    weights,
                    bias,
                    activation,
                    residual,
                } => {
                    let columns = weights.chunks_exact(row.len()).zip(bias).enumerate();
                    let outputs = columns.map(|(output, (column, bias))| {
                        let value = activation.apply(f64::from(multiply(column, &row) + bias));
                        value as f32 + residual.of(&row, output)
                    });
                    row = Zeroizing::new(outputs.collect());
                }
                HeadStep::LayerNorm { scale, shift } => normalise_layer(&mut row, scale, shift),
                HeadStep::Normalise => crate::normalise(&mut row),
                HeadStep::Truncate(length) => row.truncate(*length),
            }
        }
        out.copy_from_slice(&row);
    }
}

impl Residual {
    fn of(&self, row: &[f32], output: usize) -> f32 {
        match self {
            Self::None => 0.0,
            Self::Input => row[output],
            Self::Product(weights) => multiply(&weights[output * row.len()..][..row.len()], row),
        }
    }
}

/// The sum of products, in lanes that the compiler computes at once.
fn multiply(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += a[lane] * b[lane];
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a * b);
    sums.iter().sum::<f32>() + rest.sum::<f32>()
}

fn normalise_layer(row: &mut [f32], scale: &[f32], shift: &[f32]) {
    const EPSILON: f64 = 1e-5;
    let count = row.len() as f64;
    let mean = row.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let squares = row.iter().map(|value| (f64::from(*value) - mean).powi(2));
    let deviation = (squares.sum::<f64>() / count + EPSILON).sqrt();
    for ((value, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
        let unit = (f64::from(*value) - mean) / deviation;
        *value = (unit * f64::from(*scale) + f64::from(*shift)) as f32;
    }
}

impl HeadActivation {
    fn apply(self, x: f64) -> f64 {
        match self {
            Self::Identity => x,
            Self::Tanh => x.tanh(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Of(activation) => activation.apply(x),
        }
    }
}

impl Activation {
    /// The activation of one number, in f64.
    pub(crate) fn apply(self, x: f64) -> f64 {
        match self {
            Self::Gelu => x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => {
                let root = (2.0 / std::f64::consts::PI).sqrt();
                0.5 * x * (1.0 + (root * (x + 0.044_715 * x.powi(3))).tanh())
            }
            Self::Relu => x.max(0.0),
            Self::Silu => x / (1.0 + (-x).exp()),
        }
    }
}

/// The error function: by its series near zero, by its continued fraction in the tails.
fn erf(x: f64) -> f64 {
    let (size, root) = (x.abs(), std::f64::consts::PI.sqrt());
    let value = if size < 2.0 {
        let (mut term, mut sum) = (size, size);
        for n in 1..60 {
            term *= -size * size / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        2.0 / root * sum
    } else {
        let fraction = (1..60)
            .rev()
            .fold(size, |below, n| size + f64::from(n) / 2.0 / below);
        1.0 - (-size * size).exp() / (root * fraction)
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_have_known_values() {
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        close(erf(0.5), 0.520_499_877_813_046_5);
        close(erf(-1.0), -0.842_700_792_949_714_9);
        close(erf(3.0), 0.999_977_909_503_001_4);
        close(Activation::Gelu.apply(1.0), 0.841_344_746_068_543);
        close(Activation::GeluTanh.apply(1.0), 0.841_191_990_608_276_8);
        close(Activation::Silu.apply(-2.0), -0.238_405_844_044_234_5);
        close(Activation::Relu.apply(-2.0), 0.0);
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let dense = |weights: usize, outputs: usize, residual| HeadStep::Dense {
            weights: vec![0.0; weights],
            bias: vec![0.0; outputs],
            activation: HeadActivation::Identity,
            residual,
        };
        let norm = |scale: usize, shift: usize| HeadStep::LayerNorm {
            scale: vec![0.0; scale],
            shift: vec![0.0; shift],
        };
        for (steps, dimension) in [
            (vec![], 2),
            (vec![dense(6, 3, Residual::None), norm(3, 3)], 3),
            (vec![dense(4, 2, Residual::Input)], 2),
            (vec![dense(6, 3, Residual::Product(vec![0.0; 6]))], 3),
            (vec![HeadStep::Truncate(1), dense(3, 3, Residual::None)], 3),
            (vec![HeadStep::Truncate(9)], 2),
            (vec![dense(7, 3, Residual::None)], 0),
            (vec![dense(0, 0, Residual::None)], 0),
            (vec![dense(6, 3, Residual::Input)], 0),
            (vec![dense(6, 3, Residual::Product(vec![0.0; 5]))], 0),
            (vec![norm(2, 1)], 0),
            (vec![norm(3, 3)], 0),
            (vec![HeadStep::Truncate(0)], 0),
        ] {
            let head = Head::new(2, vec![Pooling::Mean], steps);
            assert_eq!(head.dimension(), dimension, "{head:?}");
            assert_eq!(head.check(2).is_ok(), dimension > 0, "{head:?}");
        }
        assert!(Head::unit(2, Pooling::Mean).check(3).is_err());
        assert!(Head::new(2, Vec::new(), Vec::new()).check(2).is_err());
    }

    #[test]
    fn steps_run_in_order() {
        let dense = HeadStep::Dense {
            weights: vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0],
            bias: vec![0.0, 0.0, -3.0],
            activation: HeadActivation::Identity,
            residual: Residual::None,
        };
        let mean = || vec![Pooling::Mean];
        let head = Head::new(2, mean(), vec![dense.clone(), HeadStep::Normalise]);
        assert_eq!(
            (head.width(), head.dimension(), head.is_normalised()),
            (2, 3, true)
        );
        let mut out = [0.0; 3];
        head.apply(&[2.0, 1.0], &mut out);
        let expected = [2.0, 1.0, 0.0].map(|x: f32| x / 5_f32.sqrt());
        for (found, expected) in out.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{out:?}");
        }
        let head = Head::new(2, mean(), vec![dense]);
        assert!(!head.is_normalised());
        head.apply(&[2.0, 1.0], &mut out);
        assert_eq!(out, [2.0, 1.0, 0.0]);
    }
}
