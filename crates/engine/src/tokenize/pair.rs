//! Turns a query and a document into one sequence, as the tokenizer's post-processor joins them.

use tokenizers::tokenizer::truncate_encodings;
use tokenizers::{
    Encoding, PostProcessor as _, TruncationDirection, TruncationParams, TruncationStrategy,
};
use zeroize::Zeroizing;

use super::{MAX_TEXT_BYTES, Tokenizer, TokenizerError, Tokens};

impl Tokenizer {
    /// The tokenizer of a model that reads pairs. The model has `types` types of tokens, or is given none if that is 0; `second` is
    /// added to the ids of tokens of type 1.
    ///
    /// # Errors
    /// [`TokenizerError::Malformed`] where a pair has types that the model lacks, or the sequence leaves no room for it.
    pub fn into_pairs(mut self, types: usize, second: usize) -> Result<Self, TokenizerError> {
        let malformed = |message: String| Err(TokenizerError::Malformed(message));
        let pair = self.inner.encode_fast(("a", "a"), true);
        let pair = pair.map_err(|error| TokenizerError::Malformed(error.to_string()))?;
        if pair.len() > self.max_tokens {
            let most = self.max_tokens;
            return malformed(format!("{most} tokens leave no room for two texts"));
        }
        let largest = pair.get_type_ids().iter().max();
        let largest = largest.map_or(0, |largest| *largest as usize);
        if types > 0 && largest >= types.min(2) {
            return malformed(format!(
                "tokens of a pair have type {largest}, but the model has {types} types"
            ));
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
        let first = self.encode_whole(query)?;
        let mut second = self.encode_whole(document)?;
        let kinds = vec![1; second.len()];
        second.set_type_ids(kinds);
        let processor = self.inner.get_post_processor();
        let special = processor.map_or(0, |processor| processor.added_tokens(true));
        let truncation = TruncationParams {
            direction: match self.keep_end {
                true => TruncationDirection::Left,
                false => TruncationDirection::Right,
            },
            max_length: self.max_tokens.saturating_sub(special),
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let truncated = first.len() + second.len() > truncation.max_length;
        let pair = truncate_encodings(first, Some(second), &truncation)
            .and_then(|(first, second)| self.inner.post_process(first, second, true));
        let encoding = pair.map_err(|_| TokenizerError::Failed)?;
        let second = self.second.unwrap_or(0);
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids());
        let ids = tokens.map(|(id, kind)| if *kind > 0 { id + second } else { *id });
        Ok(Tokens {
            ids: Zeroizing::new(ids.collect()),
            truncated,
        })
    }

    /// Tokenizes all of a text. The library's own truncation stops early, and then compares lengths that are not the texts' own.
    fn encode_whole(&self, text: &str) -> Result<Encoding, TokenizerError> {
        let encoding = self.inner.encode_fast(text, false);
        encoding.map_err(|_| TokenizerError::Failed)
    }
}
