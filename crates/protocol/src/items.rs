//! The tree over the items of an answer: which vector was computed from which text, one leaf for each.
//!
//! A leaf commits to an item's number, its text, its vector, and how much of the text was read, under a salt that only this item
//! has. The holder of a [`VectorProof`] and its [`Evidence`] can prove one item without disclosing the others: this vector was
//! computed from this text, by the model and in the image that the receipt names.
//!
//! `docs/RECEIPTS.md` defines every byte.

mod pairs;
mod proof;
mod row;

use base64ct::{Base64UrlUnpadded, Encoding};
use merkle::Hash;
use merkle::tree::Frontier;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::terms::SALT_LEN;
use crate::vectors;

pub use pairs::{PairRow, pair_hash, prove_pairs};
pub use proof::{
    EVIDENCE_FORMAT, Evidence, ItemsError, MAX_LINE, PROOF_FORMAT, VectorProof, prove, read_proof,
};
pub use row::{MAX_ROW, VectorRow};

/// Start of the JSON of an answer with items; the root follows, base64url without padding, and a quotation mark.
pub const MARKER: &str = r#"{"clearseal":{"items":""#;
/// Length of a root as base64url.
const ROOT_CHARS: usize = 43;

const SALT_LABEL: &[u8] = b"clearseal/1 item salt\0";
const INPUT_LABEL: &[u8] = b"clearseal/1 item input\0";
const VECTOR_LABEL: &[u8] = b"clearseal/1 item vector\0";
const ROOT_LABEL: &[u8] = b"clearseal/1 items\0";
const LEAF_LABEL: &[u8] = b"clearseal/1 item\0";

/// The input of an item. No `Debug`: it is the user's.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// A text.
    Text(&'a str),
    /// Token ids, without special tokens.
    Tokens(&'a [u32]),
    /// A text after a prompt that is not empty: the model read both as one text.
    Prompted(&'a str, &'a str),
}

impl<'a> Input<'a> {
    /// The text after `prompt`. An empty prompt changes nothing, and token ids are read without one.
    #[must_use]
    pub fn after(self, prompt: &'a str) -> Self {
        match self {
            Self::Text(text) if !prompt.is_empty() => Self::Prompted(prompt, text),
            other => other,
        }
    }
}

/// How much of an input the model read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens, special ones included.
    pub tokens: u32,
    /// Whether the input had more.
    pub truncated: bool,
}

/// Salt of one item: SHA-256("clearseal/1 item salt" ‖ 0x00 ‖ salt ‖ index, 8 bytes). Its holder can try texts and vectors
/// for this item only.
pub fn item_salt(salt: &[u8; SALT_LEN], index: u64) -> Zeroizing<[u8; 32]> {
    let hash = Sha256::new()
        .chain_update(SALT_LABEL)
        .chain_update(salt)
        .chain_update(index.to_be_bytes())
        .finalize();
    Zeroizing::new(hash.into())
}

/// Commitment to an input: SHA-256("clearseal/1 item input" ‖ 0x00 ‖ item salt ‖ 0x00 ‖ UTF-8), for token ids with 0x01 and 4
/// bytes each, big-endian; after a prompt with 0x02 ‖ length of the prompt, 8 bytes, big-endian ‖ prompt ‖ text.
pub fn input_hash(item_salt: &[u8; 32], input: Input<'_>) -> Hash {
    let mut hash = Sha256::new()
        .chain_update(INPUT_LABEL)
        .chain_update(item_salt);
    match input {
        Input::Text(text) => {
            hash.update([0]);
            hash.update(text);
        }
        Input::Prompted(prompt, text) => {
            hash.update([2]);
            hash.update((prompt.len() as u64).to_be_bytes());
            hash.update(prompt);
            hash.update(text);
        }
        Input::Tokens(tokens) => {
            hash.update([1]);
            for token in tokens {
                hash.update(token.to_be_bytes());
            }
        }
    }
    hash.finalize().into()
}

/// Commitment to a vector: SHA-256("clearseal/1 item vector" ‖ 0x00 ‖ item salt ‖ float32, little-endian).
pub fn vector_hash(item_salt: &[u8; 32], vector: &[f32]) -> Hash {
    let mut hash = Sha256::new()
        .chain_update(VECTOR_LABEL)
        .chain_update(item_salt);
    for value in vector {
        hash.update(value.to_le_bytes());
    }
    hash.finalize().into()
}

/// Data of a leaf: SHA-256("clearseal/1 item" ‖ 0x00 ‖ index, 8 bytes ‖ input hash ‖ vector hash ‖ tokens, 4 bytes ‖ truncated, 0
/// or 1); numbers big-endian. The tree hashes it again, as RFC 9162 §2.1.1 specifies.
pub fn leaf(index: u64, input: &Hash, vector: &Hash, read: TokenUsage) -> Hash {
    Sha256::new()
        .chain_update(LEAF_LABEL)
        .chain_update(index.to_be_bytes())
        .chain_update(input)
        .chain_update(vector)
        .chain_update(read.tokens.to_be_bytes())
        .chain_update([u8::from(read.truncated)])
        .finalize()
        .into()
}

/// Root over leaves, in order of their index.
pub fn root(leaves: impl IntoIterator<Item = Hash>) -> Hash {
    let mut tree = Frontier::new();
    for leaf in leaves {
        tree.append(&leaf, |_, _| {});
    }
    bind_count(tree.size(), &tree.root())
}

/// SHA-256("clearseal/1 items" ‖ 0x00 ‖ number of items, 8 bytes ‖ root of the tree, RFC 9162 §2.1.1): a path alone does not
/// determine the number of leaves.
fn bind_count(count: u64, tree: &Hash) -> Hash {
    Sha256::new()
        .chain_update(ROOT_LABEL)
        .chain_update(count.to_be_bytes())
        .chain_update(tree)
        .finalize()
        .into()
}

/// The root at the beginning of an answer's content, if it states one: JSON, or [tensors](crate::vectors).
pub fn stated_root(content: &[u8]) -> Option<Hash> {
    json_root(content).or_else(|| vectors::stated_root(content))
}

fn json_root(content: &[u8]) -> Option<Hash> {
    let rest = content.strip_prefix(MARKER.as_bytes())?;
    let (root, rest) = rest.split_at_checked(ROOT_CHARS)?;
    let mut bytes = [0; 32];
    let decoded = Base64UrlUnpadded::decode(root, &mut bytes).ok()?;
    (decoded.len() == bytes.len() && rest.first() == Some(&b'"')).then_some(bytes)
}

/// The text form of a root, as [`stated_root`] reads it.
pub fn root_text(root: &Hash) -> String {
    Base64UrlUnpadded::encode_string(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_read_from_the_beginning_alone() {
        let root = [7; 32];
        let text = root_text(&root);
        let content = format!("{MARKER}{text}\"}},\"data\":[]}}");
        assert_eq!(stated_root(content.as_bytes()), Some(root));
        for other in [
            format!(" {content}"),
            content.replace("items", "item"),
            format!("{MARKER}{}", &text[1..]),
            format!("{MARKER}{text}"),
            format!("{MARKER}{text}A\""),
            format!("{MARKER}{}\"", "!".repeat(43)),
            String::new(),
        ] {
            assert_eq!(stated_root(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn every_part_of_an_item_is_in_its_leaf() {
        let salt = item_salt(&[1; 32], 0);
        let read = TokenUsage {
            tokens: 3,
            truncated: false,
        };
        let of = |salt: &[u8; 32], index, input, vector: &[f32], read| {
            leaf(
                index,
                &input_hash(salt, input),
                &vector_hash(salt, vector),
                read,
            )
        };
        let text = Input::Text("abcd");
        let all = [
            of(&salt, 0, text, &[1.0], read),
            of(&item_salt(&[1; 32], 1), 0, text, &[1.0], read),
            of(&item_salt(&[2; 32], 0), 0, text, &[1.0], read),
            of(&salt, 1, text, &[1.0], read),
            of(&salt, 0, Input::Text("abce"), &[1.0], read),
            of(&salt, 0, text.after("ab"), &[1.0], read),
            of(&salt, 0, Input::Text("cd").after("ab"), &[1.0], read),
            of(&salt, 0, Input::Text("d").after("abc"), &[1.0], read),
            of(&salt, 0, Input::Tokens(&[0x6162_6364]), &[1.0], read),
            of(&salt, 0, text, &[1.5], read),
            of(&salt, 0, text, &[1.0, 0.0], read),
            of(&salt, 0, text, &[1.0], TokenUsage { tokens: 4, ..read }),
            of(
                &salt,
                0,
                text,
                &[1.0],
                TokenUsage {
                    truncated: true,
                    ..read
                },
            ),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{place}");
        }
    }
}
