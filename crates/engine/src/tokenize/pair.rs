//! Turns a query and a document into one sequence, as the tokenizer's post-processor joins them.

use tokenizers::{Encoding, PostProcessor as _, TruncationDirection};
use zeroize::Zeroizing;

use super::{MAX_TEXT_BYTES, Tokenizer, TokenizerError, Tokens, cut};

/// A tokenized text, for pairs with any number of others. Has no `Debug`, because it holds the user's text.
pub(crate) struct TokenizedText {
    /// As many of its tokens as one sequence has room for.
    kept: Encoding,
    /// All tokens that were counted.
    total: usize,
}

/// Two texts that fit into one sequence.
struct CutPair {
    first: Encoding,
    second: Encoding,
    truncated: bool,
}

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
        refuse_too_long(query.len().max(document.len()))?;
        self.encode_document(&self.tokenize_query(query)?, document)
    }

    /// Tokenizes the first text of pairs.
    ///
    /// # Errors
    /// [`TokenizerError`], without quoting the text.
    pub(crate) fn tokenize_query(&self, query: &str) -> Result<TokenizedText, TokenizerError> {
        refuse_too_long(query.len())?;
        self.tokenize_until(query, usize::MAX)
    }

    /// Returns the tokens of the pair of a query and `document`, like [`encode_pair`](Self::encode_pair).
    ///
    /// # Errors
    /// [`TokenizerError`], without quoting a text.
    pub(crate) fn encode_document(
        &self,
        query: &TokenizedText,
        document: &str,
    ) -> Result<Tokens, TokenizerError> {
        refuse_too_long(document.len())?;
        let CutPair {
            first,
            second,
            truncated,
        } = self.cut_pair(query, document)?;
        let pair = self.inner.post_process(first, Some(second), true);
        let encoding = pair.map_err(|_| TokenizerError::Failed)?;
        let second = self.second.unwrap_or(0);
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids());
        let ids = tokens.map(|(id, kind)| if *kind > 0 { id + second } else { *id });
        Ok(Tokens {
            ids: Zeroizing::new(ids.collect()),
            truncated,
        })
    }

    fn cut_pair(&self, query: &TokenizedText, document: &str) -> Result<CutPair, TokenizerError> {
        let room = self.pair_room();
        // Enough to know which text is longer, and whether both fit: more tokens of the document change neither.
        let document = self.tokenize_until(document, query.total.max(room.saturating_add(1)))?;
        let (of_first, of_second) = share_room(room, query.total, document.total);
        let (mut first, mut second) = (query.kept.clone(), document.kept);
        self.shorten(&mut first, of_first);
        self.shorten(&mut second, of_second);
        let kinds = vec![1; second.len()];
        second.set_type_ids(kinds);
        Ok(CutPair {
            first,
            second,
            truncated: query.total + document.total > room,
        })
    }

    /// Tokenizes a text until `enough` tokens are counted, or all of it. The library's own truncation would stop early, and then
    /// compare lengths that are not the texts' own.
    fn tokenize_until(&self, text: &str, enough: usize) -> Result<TokenizedText, TokenizerError> {
        let room = self.pair_room();
        let (mut kept, mut total) = (Encoding::default(), 0);
        let mut rest = text;
        loop {
            let (segment, after) = rest.split_at(cut(rest, self.window));
            rest = after;
            let encoding = self.inner.encode_fast(segment, false);
            let mut encoding = encoding.map_err(|_| TokenizerError::Failed)?;
            total += encoding.len();
            // Where a text loses its beginning, it is one segment.
            self.shorten(&mut encoding, room - kept.len());
            kept.merge_with(encoding, false);
            if rest.is_empty() || total >= enough {
                return Ok(TokenizedText { kept, total });
            }
        }
    }

    /// Cuts `encoding` to `most` tokens. Drops the parts that the library cuts off and keeps: the post-processor would combine each
    /// of them with each part of the other text.
    fn shorten(&self, encoding: &mut Encoding, most: usize) {
        let direction = match self.keep_end {
            true => TruncationDirection::Left,
            false => TruncationDirection::Right,
        };
        encoding.truncate(most, 0, direction);
        drop(encoding.take_overflowing());
    }

    /// Most tokens of both texts together, special tokens excluded.
    fn pair_room(&self) -> usize {
        let processor = self.inner.get_post_processor();
        let special = processor.map_or(0, |processor| processor.added_tokens(true));
        self.max_tokens.saturating_sub(special)
    }
}

fn refuse_too_long(bytes: usize) -> Result<(), TokenizerError> {
    match bytes > MAX_TEXT_BYTES {
        true => Err(TokenizerError::TextTooLong { bytes }),
        false => Ok(()),
    }
}

/// Tokens that are kept of texts of `first` and `second` tokens: the library's `longest_first`.
fn share_room(room: usize, first: usize, second: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let shorter = first.min(second).min(room / 2);
    match first > second {
        true => (room - shorter, shorter),
        false => (shorter, room - shorter),
    }
}

#[cfg(test)]
mod tests;
