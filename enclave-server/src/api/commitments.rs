//! Commits to the items of an answer, one leaf for each: see [`protocol::items`].

use engine::{Embeddings, Inputs};
use protocol::items::{Input, TokenUsage, input_hash, item_salt, leaf, root, vector_hash};
use zeroize::Zeroizing;

/// Salt of the request that is being answered, in its extensions.
#[derive(Clone)]
pub(super) struct Salt(pub(super) Zeroizing<[u8; 32]>);

/// What is known of the items before they are computed.
pub(super) struct Commitments(Vec<(Zeroizing<[u8; 32]>, [u8; 32])>);

impl Commitments {
    /// Commits to `inputs`, in their order.
    pub(super) fn to(inputs: &Inputs, salt: &Salt) -> Self {
        let of = |(index, input): (u64, Input<'_>)| {
            let salt = item_salt(&salt.0, index);
            let hash = input_hash(&salt, input);
            (salt, hash)
        };
        Self(match inputs {
            Inputs::Texts(texts) => {
                let texts = texts.iter().map(|text| Input::Text(text));
                (0..).zip(texts).map(of).collect()
            }
            Inputs::Pieces(lists) => {
                let lists = lists.iter().map(|list| Input::Tokens(list));
                (0..).zip(lists).map(of).collect()
            }
        })
    }

    /// Root over all items, with the vectors as they are answered.
    pub(super) fn root(&self, embeddings: &Embeddings) -> [u8; 32] {
        let rows = embeddings.values.chunks_exact(embeddings.dimension);
        let known = self.0.iter().zip(rows.zip(&embeddings.items));
        root(
            (0..)
                .zip(known)
                .map(|(index, ((salt, input), (row, item)))| {
                    let read = TokenUsage {
                        tokens: u32::try_from(item.tokens).unwrap_or(u32::MAX),
                        truncated: item.truncated,
                    };
                    leaf(index, input, &vector_hash(salt, row), read)
                }),
        )
    }
}
