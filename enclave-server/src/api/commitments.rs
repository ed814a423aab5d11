//! Commits to the items of an answer, with one leaf for each: see [`protocol::items`].

use engine::{Embeddings, Inputs};
use protocol::items::{Input, TokenUsage, input_hash, item_salt, leaf, root, vector_hash};
use zeroize::Zeroizing;

/// Salt of the request, in its extensions.
#[derive(Clone)]
pub(super) struct Salt(pub(super) Zeroizing<[u8; 32]>);

/// Commitments to the inputs, made before their vectors are computed.
pub(super) struct Commitments(Vec<InputCommitment>);

struct InputCommitment {
    salt: Zeroizing<[u8; 32]>,
    hash: [u8; 32],
}

impl Commitments {
    /// Commits to `inputs`, in their order, each after `prompt`.
    pub(super) fn to(inputs: &Inputs, prompt: &str, salt: &Salt) -> Self {
        let commit = |(index, input): (u64, Input<'_>)| {
            let salt = item_salt(&salt.0, index);
            let hash = input_hash(&salt, input.after(prompt));
            InputCommitment { salt, hash }
        };
        Self(match inputs {
            Inputs::Texts(texts) => {
                let texts = texts.iter().map(|text| Input::Text(text));
                (0..).zip(texts).map(commit).collect()
            }
            Inputs::Pieces(lists) => {
                let lists = lists.iter().map(|list| Input::Tokens(list));
                (0..).zip(lists).map(commit).collect()
            }
        })
    }

    /// Root of the tree over all items, with the vectors of the answer.
    pub(super) fn root(&self, embeddings: &Embeddings) -> [u8; 32] {
        let rows = embeddings.values.chunks_exact(embeddings.dimension);
        let known = self.0.iter().zip(rows.zip(&embeddings.items));
        root((0..).zip(known).map(|(index, (input, (row, item)))| {
            let read = TokenUsage {
                tokens: u32::try_from(item.tokens).unwrap_or(u32::MAX),
                truncated: item.truncated,
            };
            leaf(index, &input.hash, &vector_hash(&input.salt, row), read)
        }))
    }
}
