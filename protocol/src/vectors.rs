//! Embeddings as tensors: what an answer holds that asked for them with `encoding_format: "tensors"`.
//!
//! Three [tensors](crate::channel::tensor) after each other, each followed by zeros to a multiple of 8 bytes: `embedding`
//! (float32, rows × dimension), `tokens` (32-bit integers, rows) and `truncated` (bytes 0 or 1, rows).

use std::ops::Range;

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
        let layout = Layout::of(content)?;
        let at = |range: Range<usize>| content.get(range).ok_or(UNFIT);
        let floats = at(layout.values)?.as_chunks::<4>().0.iter();
        let counts = at(layout.tokens)?.as_chunks::<4>().0.iter();
        Ok(Self {
            values: floats.map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            dimension: layout.dimension,
            tokens: counts.map(|bytes| u32::from_le_bytes(*bytes)).collect(),
            truncated: at(layout.truncated)?
                .iter()
                .map(|flag| *flag == 1)
                .collect(),
        })
    }
}

/// Where the three tensors lie in what [`Vectors::encode`] wrote: for whoever reads them there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many texts.
    pub rows: usize,
    /// Length of a row.
    pub dimension: usize,
    /// Bytes of the rows, one after the other: float32, little-endian. Begins at a multiple of 8.
    pub values: Range<usize>,
    /// Bytes of the token counts: 32-bit integers, little-endian. Begins at a multiple of 8.
    pub tokens: Range<usize>,
    /// One byte a text, 0 or 1.
    pub truncated: Range<usize>,
}

impl Layout {
    /// Checks the three tensors and finds their data; nothing else may follow them.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`].
    pub fn of(content: &[u8]) -> Result<Self, ChannelError> {
        // Data goes before its padding, which goes before the rest.
        let place = |tensor: &Tensor<'_>, rest: &[u8]| {
            let length = tensor.data().len();
            let start = content.len() - rest.len() - length.next_multiple_of(8);
            start..start + length
        };
        let (embedding, rest) = Tensor::parse_first(content)?;
        let values = place(&embedding, rest);
        let (tokens, rest) = Tensor::parse_first(rest)?;
        let counts = place(&tokens, rest);
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
        let flags = truncated.data();
        if tokens.shape() != [rows] || truncated.shape() != [rows] || flags.iter().any(|it| *it > 1)
        {
            return Err(UNFIT);
        }
        Ok(Self {
            rows: usize::try_from(rows).map_err(|_| UNFIT)?,
            dimension: usize::try_from(dimension).map_err(|_| UNFIT)?,
            values,
            tokens: counts,
            truncated: place(&truncated, rest),
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
    fn the_layout_names_the_bytes_of_each_tensor() {
        let bytes = example().encode().unwrap();
        let layout = Layout::of(&bytes).unwrap();
        assert_eq!((layout.rows, layout.dimension), (3, 2));
        let Layout {
            values,
            tokens,
            truncated,
            ..
        } = layout;
        assert!(values.start.is_multiple_of(8) && tokens.start.is_multiple_of(8));
        let floats: Vec<u8> = example()
            .values
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect();
        assert_eq!(bytes[values], floats);
        assert_eq!(bytes[tokens], [3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(bytes[truncated], [0, 1, 0]);
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
