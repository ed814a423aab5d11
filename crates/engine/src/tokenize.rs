//! Splits texts into tokens with the library `tokenizers`, in the form that the model was trained on.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `cut` | where a long text may be cut without changing a token |
//! | `pipeline` | whether the tokenizer's description allows such cuts |
//! | `description` | what `tokenizer.json` says: special tokens, padding, vocabulary |
//! | `pair` | how two texts become one sequence |
//! | `error` | why a text or a list of token ids is refused |

mod cut;
mod description;
mod error;
mod pair;
mod pipeline;

use cut::{WINDOW, cut};
use description::{largest_id, lower_case_first, padding_token, read, special_tokens};
pub use error::{MAX_PROMPT_BYTES, MAX_TEXT_BYTES, TokenizerError};
pub(crate) use pair::TokenizedText;
use pipeline::Pipeline;
use zeroize::{Zeroize as _, Zeroizing};

/// Tokens of one text, special tokens included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// 1..=`max_tokens` ids; zeroized when dropped, because they can be read as the text.
    pub ids: Zeroizing<Vec<u32>>,
    /// The text had more tokens than are kept.
    pub truncated: bool,
}

/// A `tokenizer.json` with this service's truncation and without padding.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    padding: Option<u32>,
    vocabulary: u32,
    max_tokens: usize,
    /// Bytes of a text that are tokenized at once, so that a text costs no more than the tokens that are kept of it.
    /// `usize::MAX` where a cut might change a token.
    window: usize,
    /// Placed before every text, unless a caller names another prompt.
    prompt: String,
    /// A text that is too long loses its beginning; the window is unbounded then.
    keep_end: bool,
    /// A text without a token is none: an encoder has no state to pool. The row of a table is zero.
    needs_token: bool,
    /// Two texts become one sequence: this is added to the ids of the second text where the model tells both apart.
    second: Option<u32>,
}

/// Settings of a model's folder for its tokenizer, beyond `tokenizer.json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenizerOptions {
    /// Lower-cases texts before anything else.
    pub(crate) lower_case: bool,
    /// Adds the special tokens around a text.
    pub(crate) special_tokens: bool,
    /// Truncates the beginning of a text instead of its end.
    pub(crate) keep_end: bool,
}

impl Tokenizer {
    /// Builds a tokenizer from the contents of `tokenizer.json`; texts are truncated to `max_tokens` tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Malformed`] where the file does not describe a tokenizer, or one that leaves no room for text.
    pub fn from_json(json: &[u8], max_tokens: usize) -> Result<Self, TokenizerError> {
        let options = TokenizerOptions {
            lower_case: false,
            special_tokens: true,
            keep_end: false,
        };
        Self::with_options(json, max_tokens, options)
    }

    pub(crate) fn with_options(
        json: &[u8],
        max_tokens: usize,
        options: TokenizerOptions,
    ) -> Result<Self, TokenizerError> {
        Self::with_window(json, max_tokens, options, WINDOW)
    }

    fn with_window(
        json: &[u8],
        max_tokens: usize,
        options: TokenizerOptions,
        window: usize,
    ) -> Result<Self, TokenizerError> {
        let malformed =
            |error: &dyn std::fmt::Display| TokenizerError::Malformed(error.to_string());
        let mut inner = read(json).map_err(|error| malformed(&error))?;
        let padding = padding_token(&inner);
        // The published file pads and truncates to 128 tokens; this service does its own truncation and needs no padding.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| malformed(&error))?;
        let (prefix, suffix) = match options.special_tokens {
            true => special_tokens(&inner)?,
            false => Default::default(),
        };
        if options.lower_case {
            lower_case_first(&mut inner).map_err(|error| malformed(&error))?;
        }
        if max_tokens <= prefix.len() + suffix.len() {
            return Err(TokenizerError::Malformed(format!(
                "{max_tokens} tokens leave no room next to the special tokens"
            )));
        }
        let largest = prefix
            .iter()
            .chain(&suffix)
            .copied()
            .chain(largest_id(&inner));
        let largest = largest.max();
        let pipeline: Pipeline = serde_json::from_slice(json).map_err(|error| malformed(&error))?;
        Ok(Self {
            prefix,
            suffix,
            padding,
            vocabulary: largest.map_or(0, |id| id.saturating_add(1)),
            max_tokens,
            prompt: String::new(),
            keep_end: options.keep_end,
            needs_token: options.special_tokens,
            second: None,
            window: if pipeline.allows_cuts() && !options.lower_case && !options.keep_end {
                window
            } else {
                usize::MAX
            },
            inner,
        })
    }

    /// Makes `prompt` the default one. Token ids from a caller are taken as they are.
    #[must_use]
    pub fn with_prompt(self, prompt: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            ..self
        }
    }

    /// The default prompt; empty if there is none.
    pub(crate) fn prompt(&self) -> &str {
        &self.prompt
    }

    /// One more than the largest token id, special tokens included. Equals the number of tokens where ids have no gaps.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary as usize
    }

    /// Returns the tokens of `text` after the default prompt: exactly those that would be kept if both were tokenized whole.
    ///
    /// # Errors
    /// [`TokenizerError`], without quoting the text.
    pub fn encode(&self, text: &str) -> Result<Tokens, TokenizerError> {
        self.encode_after(&self.prompt, text)
    }

    /// Like [`encode`](Self::encode), after `prompt` instead of the default one.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    pub fn encode_after(&self, prompt: &str, text: &str) -> Result<Tokens, TokenizerError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TokenizerError::TextTooLong { bytes: text.len() });
        }
        let most = self.text_tokens();
        let expected = self.max_tokens.min(text.len() / 2 + 4);
        let mut ids = Zeroizing::new(Vec::with_capacity(expected));
        extend(&mut ids, &self.prefix);
        let truncated = if prompt.is_empty() {
            self.add_pieces(text, &mut ids, most)?
        } else {
            let text = Zeroizing::new([prompt, text].concat());
            self.add_pieces(&text, &mut ids, most)?
        };
        extend(&mut ids, &self.suffix);
        if ids.is_empty() && self.needs_token {
            return Err(TokenizerError::NoToken);
        }
        Ok(Tokens { ids, truncated })
    }

    /// Adds at most `most` tokens of `text` to `ids`; returns whether there were more.
    fn add_pieces(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        most: usize,
    ) -> Result<bool, TokenizerError> {
        let most = ids.len() + most;
        let mut rest = text;
        let mut truncated = false;
        while !rest.is_empty() && !truncated {
            let (segment, after) = rest.split_at(cut(rest, self.window));
            rest = after;
            let encoding = self
                .inner
                .encode_fast(segment, false)
                .map_err(|_| TokenizerError::Failed)?;
            let pieces = encoding.get_ids();
            let left = most - ids.len();
            truncated = pieces.len() > left;
            extend(ids, self.keep(pieces, left));
        }
        Ok(truncated)
    }

    /// Turns token ids from a caller into a sequence, truncated as [`encode`](Self::encode) truncates a text.
    ///
    /// Removes padding at either end. Adds the model's special tokens where both ends lack them. Refuses ids that have them at one
    /// end only: a doubled or missing special token would give another embedding.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownToken`] where an id is outside the vocabulary, [`TokenizerError::OnlyPadding`] and
    /// [`TokenizerError::HalfWrapped`].
    pub fn wrap(&self, pieces: &[u32]) -> Result<Tokens, TokenizerError> {
        if pieces.iter().any(|id| *id >= self.vocabulary) {
            return Err(TokenizerError::UnknownToken {
                vocabulary: self.vocabulary,
            });
        }
        let pieces = self.without_special_tokens(self.without_padding(pieces)?)?;
        let kept = self.keep(pieces, self.text_tokens());
        Ok(Tokens {
            ids: Zeroizing::new([&self.prefix, kept, &self.suffix].concat()),
            truncated: kept.len() < pieces.len(),
        })
    }

    /// Removes padding: a tokenizer that pads fills every list up to the longest one, and a request has no attention mask.
    fn without_padding<'a>(&self, pieces: &'a [u32]) -> Result<&'a [u32], TokenizerError> {
        let text = |id: &u32| Some(*id) != self.padding;
        let first = pieces.iter().position(text);
        let last = pieces.iter().rposition(text);
        match (first, last) {
            (Some(first), Some(last)) => Ok(&pieces[first..=last]),
            _ => Err(TokenizerError::OnlyPadding),
        }
    }

    fn without_special_tokens<'a>(&self, pieces: &'a [u32]) -> Result<&'a [u32], TokenizerError> {
        let both = pieces
            .strip_prefix(&self.prefix[..])
            .and_then(|rest| rest.strip_suffix(&self.suffix[..]));
        if let Some(bare) = both {
            return Ok(bare);
        }
        let begins = !self.prefix.is_empty() && pieces.starts_with(&self.prefix);
        let ends = !self.suffix.is_empty() && pieces.ends_with(&self.suffix);
        match begins || ends {
            true => Err(TokenizerError::HalfWrapped),
            false => Ok(pieces),
        }
    }

    /// The first `most` pieces, or the last ones where a text loses its beginning.
    fn keep<'a>(&self, pieces: &'a [u32], most: usize) -> &'a [u32] {
        let kept = pieces.len().min(most);
        match self.keep_end {
            false => &pieces[..kept],
            true => &pieces[pieces.len() - kept..],
        }
    }

    /// Most tokens of a text that are kept, special tokens excluded.
    fn text_tokens(&self) -> usize {
        self.max_tokens - self.prefix.len() - self.suffix.len()
    }
}

/// Appends `more`. Memory that becomes too small is zeroized, which the growth of a `Vec` does not do.
fn extend(ids: &mut Vec<u32>, more: &[u32]) {
    let length = ids.len() + more.len();
    if length > ids.capacity() {
        let mut larger = Vec::with_capacity(length.max(2 * ids.capacity()));
        larger.extend_from_slice(ids);
        std::mem::replace(ids, larger).zeroize();
    }
    ids.extend_from_slice(more);
}

#[cfg(test)]
mod tests;
