//! A straightforward BERT as the reference: f64, plain loops, nothing packed or shared.

use super::super::super::{Pooling, Shape};
use super::Tensors;

type Rows = Vec<Vec<f64>>;

/// The embedding of one sequence.
pub(super) fn embedding(tensors: &Tensors, shape: &Shape, tokens: &[u32]) -> Vec<f64> {
    let row = |name: &str, row: usize| -> Vec<f64> {
        let (_, values) = &tensors[&format!("embeddings.{name}_embeddings.weight")];
        let values = &values[row * shape.hidden..(row + 1) * shape.hidden];
        values.iter().map(|value| f64::from(*value)).collect()
    };
    let embedded = tokens.iter().enumerate().map(|(position, token)| {
        let word = row("word", *token as usize);
        add(
            &add(&word, &row("position", position)),
            &row("token_type", 0),
        )
    });
    let mut states = norm(tensors, shape, "embeddings.LayerNorm", embedded.collect());
    for layer in 0..shape.layers {
        let at = |name: &str| format!("encoder.layer.{layer}.{name}");
        let project = |name: &str, rows: &Rows| linear(tensors, &at(name), rows);
        let context = attention(
            shape,
            &project("attention.self.query", &states),
            &project("attention.self.key", &states),
            &project("attention.self.value", &states),
        );
        let output = project("attention.output.dense", &context);
        let sums = states.iter().zip(&output).map(|(a, b)| add(a, b)).collect();
        states = norm(tensors, shape, &at("attention.output.LayerNorm"), sums);
        let mut wide = project("intermediate.dense", &states);
        wide.iter_mut().flatten().for_each(|x| *x = gelu(*x));
        let output = project("output.dense", &wide);
        let sums = states.iter().zip(&output).map(|(a, b)| add(a, b)).collect();
        states = norm(tensors, shape, &at("output.LayerNorm"), sums);
    }
    let pooled = match shape.pooling {
        Pooling::First => states.swap_remove(0),
        Pooling::Mean => {
            let sum = states[1..]
                .iter()
                .fold(states[0].clone(), |a, b| add(&a, b));
            sum.iter().map(|x| x / tokens.len() as f64).collect()
        }
    };
    let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
    pooled.iter().map(|x| x / length).collect()
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn linear(tensors: &Tensors, name: &str, rows: &Rows) -> Rows {
    let (shape, weight) = &tensors[&format!("{name}.weight")];
    let (_, bias) = &tensors[&format!("{name}.bias")];
    let weight: Vec<f64> = weight.iter().map(|w| f64::from(*w)).collect();
    let output = |row: &Vec<f64>| {
        let columns = weight.chunks_exact(shape[1]).zip(bias);
        columns
            .map(|(column, bias)| dot(row, column) + f64::from(*bias))
            .collect()
    };
    rows.iter().map(output).collect()
}

fn norm(tensors: &Tensors, shape: &Shape, name: &str, mut rows: Rows) -> Rows {
    let (_, scale) = &tensors[&format!("{name}.weight")];
    let (_, shift) = &tensors[&format!("{name}.bias")];
    for row in &mut rows {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let deviation = (variance + f64::from(shape.norm_epsilon)).sqrt();
        for ((x, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
            *x = (*x - mean) / deviation * f64::from(*scale) + f64::from(*shift);
        }
    }
    rows
}

fn attention(shape: &Shape, queries: &Rows, keys: &Rows, values: &Rows) -> Rows {
    let head = shape.hidden / shape.heads;
    let mut context = vec![vec![0.0; shape.hidden]; queries.len()];
    for (query, context) in queries.iter().zip(&mut context) {
        for at in (0..shape.hidden).step_by(head) {
            let part = at..at + head;
            let scores = keys
                .iter()
                .map(|key| dot(&query[part.clone()], &key[part.clone()]) / (head as f64).sqrt());
            let shares: Vec<f64> = scores.map(f64::exp).collect();
            let sum: f64 = shares.iter().sum();
            for (share, value) in shares.iter().zip(values) {
                for feature in part.clone() {
                    context[feature] += share / sum * value[feature];
                }
            }
        }
    }
    context
}

/// x Φ(x)
pub(super) fn gelu(x: f64) -> f64 {
    x * (1.0 - upper_tail(x))
}

/// 1 − Φ(x), the upper tail of the normal distribution: by its series near zero, where terms decrease fast, and by its continued
/// fraction (Laplace) in the tails, where the series loses digits.
fn upper_tail(x: f64) -> f64 {
    if x < 0.0 {
        return 1.0 - upper_tail(-x);
    }
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x < 3.0 {
        // Φ(x) − ½ = φ(x) (x + x³/3 + x⁵/(3·5) + …)
        let (mut term, mut sum) = (x, x);
        for odd in (3..200).step_by(2) {
            term *= x * x / f64::from(odd);
            sum += term;
        }
        0.5 - density * sum
    } else {
        density / (1..200).rev().fold(x, |below, n| x + f64::from(n) / below)
    }
}

#[test]
fn the_reference_matches_published_tables() {
    // Φ(1), Φ(2.5), Φ(4) to 15 digits, from tables of the normal distribution.
    for (x, phi) in [
        (0.0, 0.5),
        (1.0, 0.841_344_746_068_543),
        (2.5, 0.993_790_334_674_224),
        (4.0, 0.999_968_328_758_167),
    ] {
        assert!((1.0 - upper_tail(x) - phi).abs() < 1e-14, "Φ({x})");
        assert!((upper_tail(-x) - phi).abs() < 1e-14, "Φ({x})");
    }
}
