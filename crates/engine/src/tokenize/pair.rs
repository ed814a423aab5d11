//! Turns a query and a document into one sequence, as the tokenizer's post-processor joins them.

use tokenizers::{TruncationDirection, TruncationParams, TruncationStrategy};
use zeroize::Zeroizing;

use super::{MAX_TEXT_BYTES, Tokenizer, TokenizerError, Tokens};

impl Tokenizer {
    /// The tokenizer of a model that reads pairs. The model has `types` types of tokens; `second` is added to the ids of tokens
    /// of type 1.
    ///
    /// # Errors
    /// [`TokenizerError::Malformed`] where a pair has types that the model lacks, or the sequence leaves no room for it.
    pub(crate) fn into_pairs(mut self, types: usize, second: usize) -> Result<Self, TokenizerError> {
        let malformed = |message: String| Err(TokenizerError::Malformed(message));
        let truncation = TruncationParams {
            direction: match self.keep_end {
                true => TruncationDirection::Left,
                false => TruncationDirection::Right,
            },
            max_length: self.max_tokens,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let pair = self.inner.encode_fast(("a", "a"), true);
        let pair = pair.map_err(|error| TokenizerError::Malformed(error.to_string()))?;
        if pair.len() > self.max_tokens {
            let most = self.max_tokens;
            return malformed(format!("{most} tokens leave no room for two texts"));
        }
        let largest = pair.get_type_ids().iter().max();
        let largest = largest.map_or(0, |largest| *largest as usize);
        // A model with one type is given none.
        if types > 1 && largest >= types.min(2) {
            return malformed(format!(
                "tokens of a pair have type {largest}, but the model has {types} types"
            ));
        }
        if let Err(error) = self.inner.with_truncation(Some(truncation)) {
            return malformed(error.to_string());
        }
        let Ok(second) = u32::try_from(second) else {
            return malformed("the vocabulary is too large".to_owned());
        };
        self.vocabulary = self.vocabulary.saturating_add(second);
        self.second = Some(second);
        Ok(self)
    }

    /// Whether two texts become one sequence.
    #[must_use]
    pub fn reads_pairs(&self) -> bool {
        self.second.is_some()
    }

    /// Returns the tokens of a pair. Where there are too many, the longer text loses its end, then both (`longest_first`).
    ///
    /// # Errors
    /// [`TokenizerError`], without quoting a text.
    pub fn encode_pair(&self, query: &str, document: &str) -> Result<Tokens, TokenizerError> {
        let bytes = query.len().max(document.len());
        if bytes > MAX_TEXT_BYTES {
            return Err(TokenizerError::TextTooLong { bytes });
        }
        let encoding = self.inner.encode_fast((query, document), true);
        let encoding = encoding.map_err(|_| TokenizerError::Failed)?;
        let second = self.second.unwrap_or(0);
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids());
        let ids = tokens.map(|(id, kind)| if *kind > 0 { id + second } else { *id });
        Ok(Tokens {
            ids: Zeroizing::new(ids.collect()),
            truncated: !encoding.get_overflowing().is_empty(),
        })
    }
}
