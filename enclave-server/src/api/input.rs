//! The member `input` of an embeddings request: read as a stream, bounded while it is read, and stored only in its final form.

use std::fmt;

use attestation::{JsonInteger, integer_from_f64};
use engine::Inputs;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use zeroize::{Zeroize, Zeroizing};

use super::error::ApiError;

/// A string, a list of strings, token ids, or a list of lists of token ids.
pub(super) enum Input {
    Text(String),
    Texts(Vec<String>),
    Pieces(Vec<u32>),
    Lists(Vec<Vec<u32>>),
}

impl Input {
    /// Converts to the engine's inputs; refuses empty items.
    pub(super) fn into_inputs(self) -> Result<Inputs, ApiError> {
        let inputs = match self {
            Self::Text(text) => Inputs::Texts(vec![text]),
            Self::Texts(texts) => Inputs::Texts(texts),
            Self::Pieces(pieces) => Inputs::Pieces(vec![pieces]),
            Self::Lists(lists) => Inputs::Pieces(lists),
        };
        let empty = match &inputs {
            Inputs::Texts(texts) => texts.is_empty() || texts.iter().any(String::is_empty),
            Inputs::Pieces(lists) => lists.is_empty() || lists.iter().any(Vec::is_empty),
        };
        if empty {
            return Err(ApiError::bad_request(
                "INPUT_EMPTY",
                "`input` holds nothing to embed, or an empty item; leave empty items out",
            )
            .param("input"));
        }
        Ok(inputs)
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputVisitor;
        impl<'de> Visitor<'de> for InputVisitor {
            type Value = Input;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a string, a list of strings, token ids, or a list of lists of token ids",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Input, E> {
                Ok(Input::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Input, E> {
                Ok(Input::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Input, A::Error> {
                // The first item determines the type; the type of the rest refuses a mixed list.
                match items.next_element::<Item>()? {
                    None => Ok(Input::Texts(Vec::new())),
                    Some(Item::Text(first)) => {
                        let all = collect_bounded(first, items, MAX_INPUTS, |text: String| text);
                        all.map(Input::Texts)
                    }
                    Some(Item::Piece(first)) => read_tokens(first, items).map(Input::Pieces),
                    Some(Item::List(first)) => read_lists(first, items).map(Input::Lists),
                }
            }
        }
        deserializer.deserialize_any(InputVisitor)
    }
}

/// The first item of a list. Serde's untagged enums buffer every number in 32 bytes; this reads each item once.
enum Item {
    Text(String),
    Piece(u32),
    List(TokenList),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a token id, or a list of token ids")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Item, E> {
                Ok(Item::Text(text.to_owned()))
            }

            fn visit_f64<E: de::Error>(self, id: f64) -> Result<Item, E> {
                let fraction =
                    || -> E { de::Error::custom("a token id that is not a whole number") };
                self.visit_u64(integer_from_f64(id).ok_or_else(fraction)?)
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Item, E> {
                let id = u32::try_from(id);
                id.map(Item::Piece)
                    .map_err(|_| de::Error::custom("a token id over 32 bits"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Item, A::Error> {
                read_list(items).map(Item::List)
            }
        }
        deserializer.deserialize_any(ItemVisitor)
    }
}

/// At most [`MAX_PIECES`] token ids.
struct TokenList(Vec<u32>);

impl<'de> Deserialize<'de> for TokenList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = TokenList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of token ids")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<TokenList, A::Error> {
                read_list(items)
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

fn read_list<'de, A: SeqAccess<'de>>(mut items: A) -> Result<TokenList, A::Error> {
    match items.next_element()? {
        None => Ok(TokenList(Vec::new())),
        Some(JsonInteger(first)) => read_tokens(first, items).map(TokenList),
    }
}

fn read_tokens<'de, A: SeqAccess<'de>>(first: u32, items: A) -> Result<Vec<u32>, A::Error> {
    collect_bounded(first, items, MAX_PIECES, |JsonInteger(id)| id)
}

/// Reads at most [`MAX_INPUTS`] lists with at most [`MAX_TOKENS`] token ids in total.
fn read_lists<'de, A: SeqAccess<'de>>(
    first: TokenList,
    mut items: A,
) -> Result<Vec<Vec<u32>>, A::Error> {
    let mut total = first.0.len();
    let mut lists = vec![first.0];
    while let Some(TokenList(list)) = items.next_element()? {
        total += list.len();
        if lists.len() == MAX_INPUTS || total > MAX_TOKENS {
            return Err(de::Error::custom(TOO_MANY));
        }
        lists.push(list);
    }
    Ok(lists)
}

/// Most items in one request, as with OpenAI.
pub(super) const MAX_INPUTS: usize = 2048;
/// Most token ids in one item: far more than any model reads.
pub(super) const MAX_PIECES: usize = 65_536;
/// Most token ids in one request: 512 for each item.
pub(super) const MAX_TOKENS: usize = 512 * MAX_INPUTS;

/// Collects a list of at most `max` items, and zeroizes them where the rest of the list is refused.
pub(super) fn collect_bounded<'de, T: Zeroize, R: Deserialize<'de>, A: SeqAccess<'de>>(
    first: T,
    mut items: A,
    max: usize,
    convert: impl Fn(R) -> T,
) -> Result<Vec<T>, A::Error> {
    let mut all = Zeroizing::new(vec![first]);
    while let Some(item) = items.next_element()? {
        if all.len() == max {
            return Err(de::Error::custom(TOO_MANY));
        }
        all.push(convert(item));
    }
    Ok(std::mem::take(&mut all))
}

pub(super) const TOO_MANY: &str = "too many inputs";
