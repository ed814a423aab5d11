//! Every architecture as the reference: f64, plain loops, nothing packed or shared.

use super::super::super::{Activation, Pooling, Shape};
use super::Tensors;
use crate::architecture::{Names, NormKind, NormPlace, Positions, Rows as Part};
use crate::fused::positions::bucket;

type Rows = Vec<Vec<f64>>;

/// The embedding of one sequence.
pub(super) fn embedding(tensors: &Tensors, shape: &Shape, tokens: &[u32]) -> Vec<f64> {
    let model = Model {
        tensors,
        shape,
        names: shape.architecture.names()[0],
    };
    let mut states = model.embed(tokens);
    for layer in 0..shape.layers {
        states = model.layer(layer, &states);
    }
    if let Some(norm) = model.names.final_norm {
        states = model.norm(norm, states);
    }
    let pooled = match shape.pooling {
        Pooling::First => states.swap_remove(0),
        Pooling::Last => states.pop().unwrap(),
        _ => {
            assert_eq!(shape.pooling, Pooling::Mean);
            let sum = states[1..]
                .iter()
                .fold(states[0].clone(), |a, b| add(&a, b));
            sum.iter().map(|x| x / tokens.len() as f64).collect()
        }
    };
    let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
    pooled.iter().map(|x| x / length).collect()
}

struct Model<'a> {
    tensors: &'a Tensors,
    shape: &'a Shape,
    names: &'static Names,
}

impl Model<'_> {
    fn embed(&self, tokens: &[u32]) -> Rows {
        let (shape, names) = (self.shape, self.names);
        let row = |name: &str, row: usize| -> Vec<f64> {
            let (_, values) = &self.tensors[&format!("{name}.weight")];
            let values = &values[row * shape.hidden..(row + 1) * shape.hidden];
            values.iter().map(|value| f64::from(*value)).collect()
        };
        let mut counted = 0;
        let embedded = tokens.iter().map(|token| {
            // Padding that a text holds has the row before the first token's, and is not counted.
            let padding = shape.first_position.checked_sub(1);
            let position = match padding.filter(|padding| *padding == *token as usize) {
                Some(padding) => padding,
                None => {
                    counted += 1;
                    shape.first_position + counted - 1
                }
            };
            let mut word = row(names.words, *token as usize);
            if shape.block().scaled_words {
                let factor = (shape.hidden as f64).sqrt();
                word.iter_mut().for_each(|value| *value *= factor);
            }
            if let Some(table) = names.positions {
                word = add(&word, &row(table, position));
            }
            if let Some(table) = names.token_types.filter(|_| shape.token_types > 0) {
                word = add(&word, &row(table, 0));
            }
            word
        });
        let embedded = embedded.collect();
        match names.embedding_norm {
            Some(norm) => self.norm(norm, embedded),
            None => embedded,
        }
    }

    fn layer(&self, layer: usize, states: &Rows) -> Rows {
        let (shape, names) = (self.shape, self.names);
        let at = |name: &str| format!("{}.{layer}.{name}", names.layer);
        let before = |name: Option<&str>, states: &Rows| match name {
            Some(name) if self.tensors.contains_key(&format!("{}.weight", at(name))) => {
                self.norm(&at(name), states.clone())
            }
            _ => states.clone(),
        };
        let merge = |name: Option<&str>, states: &Rows, branch: Rows| {
            let after = name.map(at);
            let sum = |a: &Rows, b: &Rows| a.iter().zip(b).map(|(a, b)| add(a, b)).collect();
            match (shape.block().place, after) {
                (NormPlace::Around, Some(norm)) => sum(states, &self.norm(&norm, branch)),
                (_, Some(norm)) => self.norm(&norm, sum(states, &branch)),
                (_, None) => sum(states, &branch),
            }
        };

        let input = before(names.before_attention, states);
        let part = |part: Part| self.linear(&at(part.name), part, &input);
        let heads = |rows: Rows, norm: Option<&str>, turned: bool| -> Vec<Rows> {
            let rows: Vec<Rows> = rows
                .iter()
                .map(|row| row.chunks(shape.head).map(<[f64]>::to_vec).collect())
                .collect();
            let heads = rows
                .into_iter()
                .enumerate()
                .map(|(position, mut heads): (usize, Rows)| {
                    if let Some(norm) = norm {
                        heads = self.norm(&at(norm), heads);
                    }
                    if turned && shape.block().positions == Positions::Rotary {
                        heads
                            .iter_mut()
                            .for_each(|head| self.rotate(layer, position, head));
                    }
                    heads
                });
            heads.collect()
        };
        let queries = heads(part(names.query), names.query_norm, true);
        let keys = heads(part(names.key), names.key_norm, true);
        let values = heads(part(names.value), None, false);
        let context = self.attention(layer, &queries, &keys, &values);
        let output = self.linear(&at(names.attention_output), WHOLE, &context);
        let states = merge(names.after_attention, states, output);

        let input = before(names.before_feed_forward, &states);
        let mut wide = self.linear(&at(names.up.name), names.up, &input);
        let activate = |x: f64| match shape.activation {
            Activation::Gelu => gelu(x),
            other => other.apply(x),
        };
        match names.gate {
            Some(gate) => {
                let gate = self.linear(&at(gate.name), gate, &input);
                for (x, gate) in wide.iter_mut().flatten().zip(gate.iter().flatten()) {
                    *x *= activate(*gate);
                }
            }
            None => wide.iter_mut().flatten().for_each(|x| *x = activate(*x)),
        }
        let output = self.linear(&at(names.down), WHOLE, &wide);
        merge(names.after_feed_forward, &states, output)
    }

    fn rotate(&self, layer: usize, position: usize, head: &mut [f64]) {
        let rotary = self.shape.rotary;
        let theta = match self.shape.reach(layer) {
            Some(_) => rotary.local_theta,
            None => rotary.theta,
        };
        let half = head.len() / 2;
        for i in 0..half {
            let angle = position as f64 / f64::from(theta).powf(2.0 * i as f64 / head.len() as f64);
            let (x, y) = (head[i], head[half + i]);
            head[i] = x * angle.cos() - y * angle.sin();
            head[half + i] = y * angle.cos() + x * angle.sin();
        }
    }

    /// [positions][heads][features]
    fn attention(&self, layer: usize, queries: &[Rows], keys: &[Rows], values: &[Rows]) -> Rows {
        let shape = self.shape;
        let sharing = shape.heads / shape.key_value_heads;
        let bias = |head: usize, query: usize, key: usize| {
            let Some(table) = self.names.distances else {
                return 0.0;
            };
            let (_, table) = &self.tensors[&format!("{table}.weight")];
            let row = bucket(key.abs_diff(query), key > query);
            f64::from(table[row * shape.heads + head])
        };
        let context = queries.iter().enumerate().map(|(position, query)| {
            let mut row = Vec::new();
            for head in 0..shape.heads {
                let sees = |key: usize| {
                    let far = shape
                        .reach(layer)
                        .is_some_and(|reach| key.abs_diff(position) > reach);
                    !(far || shape.attention.causal && key > position)
                };
                let seen: Vec<usize> = (0..keys.len()).filter(|key| sees(*key)).collect();
                let shares: Vec<f64> = seen
                    .iter()
                    .map(|key| {
                        let product = dot(&query[head], &keys[*key][head / sharing]);
                        (product * f64::from(shape.query_scale) + bias(head, position, *key)).exp()
                    })
                    .collect();
                let sum: f64 = shares.iter().sum();
                let mut features = vec![0.0; shape.head];
                for (share, key) in shares.iter().zip(&seen) {
                    for (feature, value) in features.iter_mut().zip(&values[*key][head / sharing]) {
                        *feature += share / sum * value;
                    }
                }
                row.extend(features);
            }
            row
        });
        context.collect()
    }

    fn linear(&self, name: &str, part: Part, rows: &Rows) -> Rows {
        let (dimensions, weight) = &self.tensors[&format!("{name}.weight")];
        let weight: Vec<f64> = weight.iter().map(|w| f64::from(*w)).collect();
        let bias = self.tensors.get(&format!("{name}.bias"));
        let bias = bias.map_or(vec![0.0; dimensions[0]], |(_, bias)| bias.clone());
        let outputs = dimensions[0] / part.of;
        let range = part.part * outputs..(part.part + 1) * outputs;
        let output = |row: &Vec<f64>| {
            let columns = weight.chunks_exact(dimensions[1]).zip(&bias);
            let columns = columns.skip(range.start).take(outputs);
            columns
                .map(|(column, bias)| dot(row, column) + f64::from(*bias))
                .collect()
        };
        rows.iter().map(output).collect()
    }

    fn norm(&self, name: &str, mut rows: Rows) -> Rows {
        let (_, scale) = &self.tensors[&format!("{name}.weight")];
        let shift = self.tensors.get(&format!("{name}.bias"));
        let kind = self.shape.block().norm;
        for row in &mut rows {
            let count = row.len() as f64;
            let mean = match kind {
                NormKind::Layer => row.iter().sum::<f64>() / count,
                NormKind::Rms | NormKind::RmsFromOne => 0.0,
            };
            let from = if kind == NormKind::RmsFromOne {
                1.0
            } else {
                0.0
            };
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let deviation = (variance + f64::from(self.shape.norm_epsilon)).sqrt();
            for (feature, (x, scale)) in row.iter_mut().zip(scale).enumerate() {
                let shift = shift.map_or(0.0, |(_, shift)| f64::from(shift[feature]));
                *x = (*x - mean) / deviation * (from + f64::from(*scale)) + shift;
            }
        }
        rows
    }
}

const WHOLE: Part = Part {
    name: "",
    part: 0,
    of: 1,
};

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
