//! How positions enter attention: rotations of queries and keys, and biases for distances.

use crate::shape::DISTANCE_BUCKETS;

/// Cosines and sines of the angles by which the features of a head are rotated.
pub(super) struct Rotations {
    /// [positions][half a head]
    cosines: Vec<f32>,
    /// [positions][half a head]
    sines: Vec<f32>,
    half: usize,
}

impl Rotations {
    /// For `positions` tokens and heads of `head` features. The angle of feature i at position p is p / theta^(2 i / head).
    pub(super) fn new(theta: f32, head: usize, positions: usize) -> Self {
        let half = head / 2;
        // As PyTorch computes them: frequencies and angles are rounded to f32.
        let frequency = |feature: usize| theta.powf((2 * feature) as f32 / head as f32).recip();
        let frequencies: Vec<f32> = (0..half).map(frequency).collect();
        let angles = (0..positions).flat_map(|position| {
            let angle = move |frequency: &f32| position as f32 * frequency;
            frequencies.iter().map(angle)
        });
        let (sines, cosines) = angles
            .map(|angle| f64::from(angle).sin_cos())
            .map(round)
            .unzip();
        Self {
            cosines,
            sines,
            half,
        }
    }

    /// Cosines and sines of one position, for half a head each.
    pub(super) fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.half..(position + 1) * self.half;
        (&self.cosines[range.clone()], &self.sines[range])
    }
}

fn round((sine, cosine): (f64, f64)) -> (f32, f32) {
    (sine as f32, cosine as f32)
}

/// Biases that MPNet adds to scores, by the distance of key and query.
pub(super) struct Distances {
    /// [heads][2 · longest − 1]: from a key `longest` − 1 tokens before the query to one as many after it.
    biases: Vec<f32>,
    longest: usize,
}

impl Distances {
    /// `table` is [buckets][heads].
    pub(super) fn new(table: &[f32], heads: usize, longest: usize) -> Self {
        let width = 2 * longest - 1;
        let biases = (0..heads * width).map(|index| {
            let (head, at) = (index / width, index % width);
            let distance = at.abs_diff(longest - 1);
            table[bucket(distance, at >= longest) * heads + head]
        });
        Self {
            biases: biases.collect(),
            longest,
        }
    }

    /// Biases of `head` for the query at `position`: index j belongs to the key at position j.
    #[inline(always)]
    pub(super) fn from(&self, head: usize, position: usize) -> &[f32] {
        let width = 2 * self.longest - 1;
        &self.biases[head * width..][..width][self.longest - 1 - position..]
    }
}

/// The bucket of a distance: half of the buckets for keys before the query, half for those after it; near distances have one each,
/// far ones share, in steps that grow with the logarithm up to 128.
pub(super) fn bucket(distance: usize, after: bool) -> usize {
    const HALF: usize = DISTANCE_BUCKETS / 2;
    const NEAR: usize = HALF / 2;
    const FAR: f32 = 128.0;
    let bucket = if distance < NEAR {
        distance
    } else {
        // In f32, like PyTorch: at a border, rounding decides.
        let steps = (distance as f32 / NEAR as f32).ln() / (FAR / NEAR as f32).ln();
        (NEAR + (steps * NEAR as f32) as usize).min(HALF - 1)
    };
    bucket + if after { HALF } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_t5() {
        let before = [
            0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 32, 64, 90, 91, 127, 128, 4000,
        ];
        let expected = [0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 12, 14, 14, 15, 15, 15, 15];
        assert_eq!(before.map(|distance| bucket(distance, false)), expected);
        assert_eq!(bucket(1, true), 17);
        assert_eq!(bucket(4000, true), 31);
    }

    #[test]
    fn a_head_finds_the_bias_of_each_key() {
        let heads = 2;
        let table: Vec<f32> = (0..DISTANCE_BUCKETS * heads).map(|n| n as f32).collect();
        let distances = Distances::new(&table, heads, 40);
        for position in [0, 3, 39] {
            let biases = distances.from(1, position);
            for (key, bias) in biases[..40].iter().enumerate() {
                let expected = bucket(key.abs_diff(position), key > position) * heads + 1;
                assert_eq!(*bias, expected as f32, "{position} {key}");
            }
        }
    }

    #[test]
    fn rotations_keep_length_and_begin_at_rest() {
        let rotations = Rotations::new(10_000.0, 64, 9);
        assert_eq!(rotations.at(0), (&[1.0; 32][..], &[0.0; 32][..]));
        let (cosines, sines) = rotations.at(8);
        assert!((cosines[0] - 8_f32.cos()).abs() < 1e-6 && (sines[0] - 8_f32.sin()).abs() < 1e-6);
        for (cosine, sine) in cosines.iter().zip(sines) {
            assert!((cosine * cosine + sine * sine - 1.0).abs() < 1e-6);
        }
    }
}
