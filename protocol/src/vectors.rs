//! Embeddings as tensors: what an answer holds that asked for them with `encoding_format: "tensors"`.
//!
//! Three [tensors](crate::channel::tensor) after each other, each followed by zeros to a multiple of 8 bytes: `embedding`
//! (float32, rows × dimension), `tokens` (32-bit integers, rows) and `truncated` (bytes 0 or 1, rows).

use crate::channel::ChannelError;
use crate::channel::tensor::{Dtype, Tensor, append_floats, append_header};

/// Media type of such an answer.
pub const MEDIA_TYPE: &str = "application/vnd.clearseal.tensors";

const EMBEDDING: &str = "embedding";
const TOKENS: &str = "tokens";
const TRUNCATED: &str = "truncated";

/// Vectors, and what became of each text. Has no `Debug`: it holds a user's embeddings.
#[derive(Clone, PartialEq)]
pub struct Vectors {
    /// Rows, one after the other.
    pub values: Vec<f32>,
    /// Length of a row.
    pub dimension: usize,
    /// Tokens that the model read, of each text.
    pub tokens: Vec<u32>,
    /// Whether a text is longer than what the model reads, of each text.
    pub truncated: Vec<bool>,
}

impl Vectors {
    /// Bytes that one row takes, its tokens and flag included, and those of all headers together at most.
    pub const fn size(dimension: usize) -> (usize, usize) {
        (dimension * 4 + 5, 256)
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimension.max(1))
    }

    /// Writes the three tensors.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`] where the parts do not fit each other.
    pub fn encode(&self) -> Result<Vec<u8>, ChannelError> {
        let rows = self.tokens.len();
        let (row, headers) = Self::size(self.dimension);
        let mut out = Vec::with_capacity(rows.saturating_mul(row).saturating_add(headers));
        let shape = [rows as u64, self.dimension as u64];
        append_floats(&shape, EMBEDDING, &self.values, &mut out)?;
        pad(&mut out);
        append_header(Dtype::I32, &shape[..1], TOKENS, &mut out)?;
        out.extend(self.tokens.iter().flat_map(|count| count.to_le_bytes()));
        pad(&mut out);
        if self.truncated.len() != rows {
            return Err(UNFIT);
        }
        append_header(Dtype::U8, &shape[..1], TRUNCATED, &mut out)?;
        out.extend(self.truncated.iter().map(|flag| u8::from(*flag)));
        pad(&mut out);
        Ok(out)
    }

    /// Reads the three tensors; nothing else may follow them.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`].
    pub fn decode(content: &[u8]) -> Result<Self, ChannelError> {
        let (embedding, rest) = Tensor::parse_first(content)?;
        let (tokens, rest) = Tensor::parse_first(rest)?;
        let (truncated, rest) = Tensor::parse_first(rest)?;
        let names = [embedding.name(), tokens.name(), truncated.name()];
        let types = [embedding.dtype(), tokens.dtype(), truncated.dtype()];
        let (&[rows, dimension], true) = (
            embedding.shape(),
            names == [EMBEDDING, TOKENS, TRUNCATED]
                && types == [Dtype::F32, Dtype::I32, Dtype::U8]
                && rest.is_empty(),
        ) else {
            return Err(UNFIT);
        };
        if tokens.shape() != [rows] || truncated.shape() != [rows] {
            return Err(UNFIT);
        }
        let counts = tokens.data().as_chunks::<4>().0.iter();
        let flags = truncated.data().iter().map(|flag| match flag {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(UNFIT),
        });
        Ok(Self {
            values: embedding.to_floats()?,
            dimension: usize::try_from(dimension).map_err(|_| UNFIT)?,
            tokens: counts.map(|bytes| u32::from_le_bytes(*bytes)).collect(),
            truncated: flags.collect::<Result<_, _>>()?,
        })
    }
}

const UNFIT: ChannelError = ChannelError::Tensor("not the tensors of embeddings");

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vectors {
        Vectors {
            values: vec![0.6, 0.8, 1.0, 0.0, 0.0, 1.0],
            dimension: 2,
            tokens: vec![3, 4, 5],
            truncated: vec![false, true, false],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = example().encode().unwrap();
        assert!(bytes.len().is_multiple_of(8));
        assert!(Vectors::decode(&bytes).unwrap() == example());
        let rows: Vec<_> = example().rows().map(<[f32]>::to_vec).collect();
        assert_eq!(rows, [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]);
        let (row, headers) = Vectors::size(2);
        assert!(bytes.len() <= 3 * row + headers);
    }

    #[test]
    fn every_cut_and_everything_after_is_refused() {
        let bytes = example().encode().unwrap();
        for end in 0..bytes.len() {
            assert!(Vectors::decode(&bytes[..end]).is_err(), "{end}");
        }
        assert!(Vectors::decode(&[&bytes[..], &[0; 8]].concat()).is_err());
        let mut flag = bytes.clone();
        let at = flag.len() - 8;
        flag[at] = 2;
        assert!(Vectors::decode(&flag).is_err());
    }

    #[test]
    fn parts_that_do_not_fit_are_not_written() {
        for wrong in [
            Vectors {
                tokens: vec![1],
                ..example()
            },
            Vectors {
                truncated: vec![],
                ..example()
            },
            Vectors {
                dimension: 3,
                ..example()
            },
        ] {
            assert!(wrong.encode().is_err());
        }
    }
}
