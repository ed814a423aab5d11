//! Embeddings as tensors: the content of an answer with `encoding_format: "tensors"`.
//!
//! [Tensors](crate::channel::tensor) after each other, each followed by zeros to a multiple of 8 bytes: `embedding` (float32,
//! rows × dimension), `tokens` (32-bit integers, rows) and `truncated` (bytes 0 or 1, rows). If the enclave commits to its
//! [items](crate::items), `items` (32 bytes) comes first: the root of the tree over them. If the model read a prompt before each
//! text, `prompt` (bytes, UTF-8) comes last.

use std::ops::Range;

use merkle::Hash;

use crate::channel::ChannelError;
use crate::channel::tensor::{Dtype, Tensor, append_floats, append_header};

/// Media type of such an answer.
pub const MEDIA_TYPE: &str = "application/vnd.clearseal.tensors";

const EMBEDDING: &str = "embedding";
const TOKENS: &str = "tokens";
const TRUNCATED: &str = "truncated";
const PROMPT: &str = "prompt";

/// Header of the tensor `items`, with which content that states a root begins.
const ITEMS_HEADER: &[u8; 24] = b"\x01\x05\x01\x05\0\0\0\0\x20\0\0\0\0\0\0\0items\0\0\0";

/// Vectors, with token counts and truncation flags. Has no `Debug`: it holds a user's embeddings.
#[derive(Clone, PartialEq)]
pub struct Vectors {
    /// Root of the tree over the items, if there is one.
    pub items: Option<Hash>,
    /// Rows, one after the other.
    pub values: Vec<f32>,
    /// Length of a row.
    pub dimension: usize,
    /// Number of tokens that the model read of each text.
    pub tokens: Vec<u32>,
    /// Whether each text is longer than what the model reads.
    pub truncated: Vec<bool>,
}

impl Vectors {
    /// Bytes of one row with its tokens and flag, and upper bound on the bytes of all headers together.
    pub const fn size(dimension: usize) -> (usize, usize) {
        (dimension * 4 + 5, 256)
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimension.max(1))
    }

    /// Writes the tensors.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`] if the lengths of the parts disagree.
    pub fn encode(&self) -> Result<Vec<u8>, ChannelError> {
        let rows = self.tokens.len();
        let (row, headers) = Self::size(self.dimension);
        let mut out = Vec::with_capacity(rows.saturating_mul(row).saturating_add(headers));
        let shape = [rows as u64, self.dimension as u64];
        if let Some(root) = &self.items {
            out.extend_from_slice(ITEMS_HEADER);
            out.extend_from_slice(root);
        }
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

    /// Reads the tensors; nothing else may follow them.
    ///
    /// # Errors
    /// [`ChannelError::Tensor`].
    pub fn decode(content: &[u8]) -> Result<Self, ChannelError> {
        let layout = Layout::of(content)?;
        let at = |range: Range<usize>| content.get(range).ok_or(UNFIT);
        let floats = at(layout.values)?.as_chunks::<4>().0.iter();
        let counts = at(layout.tokens)?.as_chunks::<4>().0.iter();
        Ok(Self {
            items: stated_root(content),
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

/// The root that tensors state at their beginning, if any.
pub(crate) fn stated_root(content: &[u8]) -> Option<Hash> {
    let (root, _) = content
        .strip_prefix(ITEMS_HEADER)?
        .split_first_chunk::<32>()?;
    Some(*root)
}

/// Appends to tensors the prompt that the model read before each text.
///
/// # Errors
/// [`ChannelError::Tensor`].
pub fn append_prompt(prompt: &str, out: &mut Vec<u8>) -> Result<(), ChannelError> {
    append_header(Dtype::U8, &[prompt.len() as u64], PROMPT, out)?;
    out.extend_from_slice(prompt.as_bytes());
    pad(out);
    Ok(())
}

/// The prompt that tensors state, if any.
pub fn stated_prompt(content: &[u8]) -> Option<&str> {
    let rest = content.get(Layout::of(content).ok()?.end..)?;
    let (prompt, _) = Tensor::parse_first(rest).ok()?;
    std::str::from_utf8(prompt.data()).ok()
}

/// Positions of the tensors in the output of [`Vectors::encode`], for readers that use them in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of texts.
    pub rows: usize,
    /// Length of a row.
    pub dimension: usize,
    /// Bytes of the rows, one after the other: float32, little-endian. Begins at a multiple of 8.
    pub values: Range<usize>,
    /// Bytes of the token counts: 32-bit integers, little-endian. Begins at a multiple of 8.
    pub tokens: Range<usize>,
    /// One byte a text, 0 or 1.
    pub truncated: Range<usize>,
    /// End of these tensors. The prompt follows, if there is one.
    end: usize,
}

impl Layout {
    /// Checks the tensors and finds their data; nothing else may follow them.
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
        let texts = match stated_root(content) {
            Some(root) => content
                .get(ITEMS_HEADER.len() + root.len()..)
                .ok_or(UNFIT)?,
            None => content,
        };
        let (embedding, rest) = Tensor::parse_first(texts)?;
        let values = place(&embedding, rest);
        let (tokens, rest) = Tensor::parse_first(rest)?;
        let counts = place(&tokens, rest);
        let (truncated, rest) = Tensor::parse_first(rest)?;
        let flagged = place(&truncated, rest);
        let end = content.len() - rest.len();
        if !rest.is_empty() {
            let (prompt, rest) = Tensor::parse_first(rest)?;
            if prompt.name() != PROMPT || prompt.dtype() != Dtype::U8 || !rest.is_empty() {
                return Err(UNFIT);
            }
        }
        let names = [embedding.name(), tokens.name(), truncated.name()];
        let types = [embedding.dtype(), tokens.dtype(), truncated.dtype()];
        let (&[rows, dimension], true) = (
            embedding.shape(),
            names == [EMBEDDING, TOKENS, TRUNCATED] && types == [Dtype::F32, Dtype::I32, Dtype::U8],
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
            truncated: flagged,
            end,
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
            items: None,
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
    fn a_root_stands_before_the_others() {
        let rooted = Vectors {
            items: Some([7; 32]),
            ..example()
        };
        let bytes = rooted.encode().unwrap();
        assert!(Vectors::decode(&bytes).unwrap() == rooted);
        assert_eq!(stated_root(&bytes), Some([7; 32]));
        assert_eq!(stated_root(&example().encode().unwrap()), None);
        let (items, rest) = Tensor::parse_first(&bytes).unwrap();
        assert_eq!((items.name(), items.dtype()), ("items", Dtype::U8));
        assert_eq!((items.shape(), items.data()), (&[32][..], &[7; 32][..]));
        assert_eq!(rest, example().encode().unwrap());
        assert_eq!(Layout::of(&bytes).unwrap().values.start % 8, 0);
        // `encode` never writes it twice, or after the others.
        assert!(Vectors::decode(&[&bytes[..56], &bytes[..]].concat()).is_err());
        assert!(Vectors::decode(&[rest, &bytes[..56]].concat()).is_err());
    }

    #[test]
    fn every_cut_and_everything_after_is_refused() {
        let rooted = Vectors {
            items: Some([7; 32]),
            ..example()
        };
        let whole = rooted.encode().unwrap();
        for end in 0..whole.len() {
            assert!(Vectors::decode(&whole[..end]).is_err(), "{end}");
        }
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
    fn a_prompt_follows_the_others() {
        let bare = example().encode().unwrap();
        assert_eq!(stated_prompt(&bare), None);
        let mut bytes = bare.clone();
        append_prompt("query: é", &mut bytes).unwrap();
        assert!(bytes.len().is_multiple_of(8));
        assert_eq!(stated_prompt(&bytes), Some("query: é"));
        assert!(Vectors::decode(&bytes).unwrap() == example());
        for end in bare.len() + 1..bytes.len() {
            assert!(Vectors::decode(&bytes[..end]).is_err(), "{end}");
        }
        append_prompt("again", &mut bytes).unwrap();
        assert!(Vectors::decode(&bytes).is_err());
        let other = bare.len()
            + bytes[bare.len()..]
                .windows(6)
                .position(|it| it == b"prompt")
                .unwrap();
        bytes.truncate(bytes.len() - 40);
        bytes[other] = b'P';
        assert!(Vectors::decode(&bytes).is_err());
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
