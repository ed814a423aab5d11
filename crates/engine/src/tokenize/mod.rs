//! Text to tokens by the library `tokenizers`, as the model was trained to see it. Where the pipeline is BERT's, the cost
//! of a long text is bounded by what is kept of it.

mod pipeline;

use pipeline::Pipeline;

/// Tokens of one text, special tokens included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// 1..=`max_tokens` ids.
    pub ids: Vec<u32>,
    /// The text had more tokens than are kept.
    pub truncated: bool,
}

/// A `tokenizer.json` with this service's truncation, and without its padding.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    padding: Option<u32>,
    vocabulary: u32,
    max_tokens: usize,
    /// Bytes that are tokenized at once where cutting is provably harmless; `usize::MAX` where it is not.
    window: usize,
}

impl Tokenizer {
    /// Builds a tokenizer from the contents of `tokenizer.json`; texts are truncated to `max_tokens` tokens.
    ///
    /// # Errors
    /// [`TokenizerError::Malformed`] where the file does not describe a tokenizer, or one that leaves no room for text.
    pub fn from_json(json: &[u8], max_tokens: usize) -> Result<Self, TokenizerError> {
        Self::with_window(json, max_tokens, WINDOW)
    }

    fn with_window(json: &[u8], max_tokens: usize, window: usize) -> Result<Self, TokenizerError> {
        let malformed =
            |error: &dyn std::fmt::Display| TokenizerError::Malformed(error.to_string());
        let mut inner = read(json).map_err(|error| malformed(&error))?;
        let padding = padding_token(&inner);
        // The published file pads to 128 and truncates there; both are this service's own business.
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|error| malformed(&error))?;
        let (prefix, suffix) = special_tokens(&inner)?;
        if max_tokens <= prefix.len() + suffix.len() {
            return Err(TokenizerError::Malformed(format!(
                "{max_tokens} tokens leave no room beside the special tokens"
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
            window: if pipeline.cuts_are_harmless() {
                window
            } else {
                usize::MAX
            },
            inner,
        })
    }

    /// One more than the largest id of a token, special tokens included: their number, unless ids are left out.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary as usize
    }

    /// Tokens of `text`: exactly those that tokenizing the whole of it would keep.
    ///
    /// # Errors
    /// [`TokenizerError`], without quoting the text.
    pub fn encode(&self, text: &str) -> Result<Tokens, TokenizerError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TokenizerError::TextTooLong { bytes: text.len() });
        }
        let room = self.room();
        let mut ids = Vec::with_capacity(self.max_tokens.min(text.len() / 2 + 4));
        ids.extend_from_slice(&self.prefix);
        let truncated = self.add_pieces(text, &mut ids, room)?;
        ids.extend_from_slice(&self.suffix);
        Ok(Tokens { ids, truncated })
    }

    /// Adds the tokens of `text` to `ids`, `room` at most; says whether there were more.
    fn add_pieces(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        room: usize,
    ) -> Result<bool, TokenizerError> {
        let most = ids.len() + room;
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
            ids.extend_from_slice(&pieces[..pieces.len().min(left)]);
        }
        Ok(truncated)
    }

    /// Makes a sequence of tokens that the caller made, and truncates it as [`encode`](Self::encode) does.
    ///
    /// Padding at either end is left out. Tokens with the model's special tokens at both ends stay as they are, tokens without any
    /// get them. Tokens with them at one end alone are refused: doubled or missing, they would give another vector.
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
        let kept = &pieces[..pieces.len().min(self.room())];
        Ok(Tokens {
            ids: [&self.prefix, kept, &self.suffix].concat(),
            truncated: kept.len() < pieces.len(),
        })
    }

    /// A tokenizer that pads gives every list the length of the longest, and a mask that a request has no place for.
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

    fn room(&self) -> usize {
        self.max_tokens - self.prefix.len() - self.suffix.len()
    }
}

/// Why a tokenizer could not be built or used.
#[derive(Debug, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The description is not usable.
    #[error("the tokenizer is not usable: {0}")]
    #[coded(
        "TOKENIZER_MALFORMED",
        remedy = "Get the model again with `cargo xtask model`."
    )]
    Malformed(String),
    /// A text could not be tokenized.
    #[error("the text could not be split into tokens")]
    #[coded(
        "TOKENIZER_FAILED",
        remedy = "Send another text, and report this one as a defect of the tokenizer."
    )]
    Failed,
    /// A text is longer than any model reads.
    #[error("a text has {bytes} bytes; at most {MAX_TEXT_BYTES} are taken")]
    #[coded(
        "TEXT_TOO_LONG",
        remedy = "Split the text into parts of a few hundred words."
    )]
    TextTooLong {
        /// Its length.
        bytes: usize,
    },
    /// Tokens have the special tokens at one end.
    #[error("the token ids have the model's special tokens at one end and not at the other")]
    #[coded(
        "TOKENS_HALF_WRAPPED",
        remedy = "Send ids with the special tokens at both ends, as a tokenizer adds them by itself, or without any (add_special_tokens=False)."
    )]
    HalfWrapped,
    /// There is no token but padding.
    #[error("the token ids are padding alone")]
    #[coded("TOKENS_ONLY_PADDING", remedy = "Leave out items without a text.")]
    OnlyPadding,
    /// A token id does not exist.
    #[error("a token id is outside the vocabulary of {vocabulary} tokens")]
    #[coded("TOKEN_UNKNOWN", remedy = "Send token ids of this model's tokenizer.")]
    UnknownToken {
        /// See [`Tokenizer::vocabulary`].
        vocabulary: u32,
    },
}

/// Longest text in bytes: what the library does with one cannot be interrupted.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// 254 tokens of prose are some 1,200 bytes.
const WINDOW: usize = 2048;

/// Where to end the first piece of `text` that is tokenized: at most `window` bytes, if a harmless place exists there.
fn cut(text: &str, window: usize) -> usize {
    if text.len() <= window {
        return text.len();
    }
    let limit = text.floor_char_boundary(window);
    let before = text[..limit]
        .char_indices()
        .rev()
        .find(|(at, character)| *at > 0 && begins_anew(*character));
    let place = before.map(|(at, _)| at).or_else(|| {
        text[limit..]
            .char_indices()
            .map(|(at, character)| (limit + at, character))
            .find(|(at, character)| *at > 0 && begins_anew(*character))
            .map(|(at, _)| at)
    });
    place.unwrap_or(text.len())
}

/// Whether BERT's normaliser and pre-tokenizer treat what follows as if nothing came before.
///
/// All of these are starters (so canonical reordering of marks does not cross them) and end a word whatever precedes
/// them. `]` is left out because it ends `[CLS]` and its like, which are found before words are; form feed and its like
/// because BERT removes them instead of reading them as spaces.
fn begins_anew(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\n' | '\r' | '\u{4e00}'..='\u{9fff}'
    ) || (character.is_ascii_punctuation() && character != ']')
}

/// The library's tokenizer of this description.
///
/// Which kind of model it is the library finds out from a copy of the vocabulary, and the vocabulary from copies of that: read
/// as WordPiece, which BERT's is, it takes a fifth of the time and of the memory. Everything else is left to the library.
fn read(json: &[u8]) -> tokenizers::Result<tokenizers::Tokenizer> {
    type OfWordPiece = tokenizers::TokenizerImpl<
        tokenizers::models::wordpiece::WordPiece,
        tokenizers::NormalizerWrapper,
        tokenizers::PreTokenizerWrapper,
        tokenizers::PostProcessorWrapper,
        tokenizers::DecoderWrapper,
    >;
    match serde_json::from_slice::<OfWordPiece>(json) {
        Ok(tokenizer) => Ok(tokenizer.into()),
        Err(_) => tokenizers::Tokenizer::from_bytes(json),
    }
}

/// The largest id of a token. Where ids have no gaps that is their number less one, and the vocabulary, which the library
/// copies twice to give it away, is not asked for.
fn largest_id(inner: &tokenizers::Tokenizer) -> Option<u32> {
    let count = u32::try_from(inner.get_vocab_size(true)).ok()?;
    let without_gaps = (0..count).all(|id| inner.id_to_token(id).is_some());
    match without_gaps {
        true => count.checked_sub(1),
        false => inner.get_vocab(true).into_values().max(),
    }
}

/// The token with which shorter lists are filled up: the one that the description names, or else the usual one.
fn padding_token(tokenizer: &tokenizers::Tokenizer) -> Option<u32> {
    let named = tokenizer.get_padding().map(|padding| padding.pad_id);
    let usual = || {
        let names = ["[PAD]", "<pad>"].into_iter();
        names.filter_map(|name| tokenizer.token_to_id(name)).next()
    };
    named.or_else(usual)
}

/// What the post-processor puts before and after a text.
fn special_tokens(
    tokenizer: &tokenizers::Tokenizer,
) -> Result<(Vec<u32>, Vec<u32>), TokenizerError> {
    let ids = |special| {
        tokenizer
            .encode_fast("a", special)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| TokenizerError::Malformed(error.to_string()))
    };
    let (bare, full) = (ids(false)?, ids(true)?);
    full.windows(bare.len().max(1))
        .position(|window| window == bare)
        .map(|at| (full[..at].to_vec(), full[at + bare.len()..].to_vec()))
        .ok_or_else(|| {
            TokenizerError::Malformed("the post-processor changes the text's own tokens".to_owned())
        })
}

#[cfg(test)]
#[path = "../../tests/bert/mod.rs"]
pub(super) mod bert;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// BERT's pipeline over a vocabulary of single characters and a few words.
    fn small_json() -> Vec<u8> {
        let words = ["hello", "world", "##ing", "tok", "##en"].map(str::to_owned);
        let letters = ('a'..='z')
            .chain('0'..='9')
            .flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
        let others = "[](){}.,;:!?'\"-_/人工智能日本語éλσß".chars();
        let others = others.map(String::from);
        bert::tokenizer_json(words.into_iter().chain(letters).chain(others))
    }

    fn small(max_tokens: usize, window: usize) -> Tokenizer {
        Tokenizer::with_window(&small_json(), max_tokens, window).unwrap()
    }

    #[test]
    fn special_tokens_surround_the_text() {
        let tokenizer = small(16, WINDOW);
        assert_eq!(
            tokenizer.encode("hello world").unwrap(),
            Tokens {
                ids: vec![2, 5, 6, 3],
                truncated: false
            }
        );
        assert_eq!(
            tokenizer.encode("").unwrap(),
            Tokens {
                ids: vec![2, 3],
                truncated: false
            }
        );
        assert_eq!(
            tokenizer.wrap(&[5, 6]).unwrap(),
            Tokens {
                ids: vec![2, 5, 6, 3],
                truncated: false
            }
        );
    }

    #[test]
    fn the_library_reads_the_same_from_a_description() {
        for change in [
            ("", ""),
            (
                "\"decoder\":null",
                "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
            ),
            (
                "\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\"",
                "\"type\":\"WordLevel\",\"unk_token\":\"[UNK]\"",
            ),
            (
                "\"max_input_chars_per_word\":100,\"type\":\"WordPiece\"",
                "\"max_input_chars_per_word\":7",
            ),
        ] {
            let json = String::from_utf8(small_json()).unwrap();
            assert!(json.contains(change.0), "{change:?}");
            let json = json.replace(change.0, change.1);
            let (ours, theirs) = (
                read(json.as_bytes()),
                tokenizers::Tokenizer::from_bytes(&json),
            );
            let text = |read: tokenizers::Result<tokenizers::Tokenizer>| {
                read.unwrap().to_string(true).unwrap()
            };
            assert_eq!(text(ours), text(theirs), "{change:?}");
        }
        for broken in ["", "{}", "{\"model\":{\"type\":\"WordPiece\"}}", "nothing"] {
            assert!(read(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn the_library_reads_the_same_from_the_real_description() {
        let Some(folder) = std::env::var_os("CLEARSEAL_MODEL") else {
            println!("skipped: CLEARSEAL_MODEL names no folder");
            return;
        };
        let json = std::fs::read(std::path::Path::new(&folder).join("tokenizer.json")).unwrap();
        let theirs = tokenizers::Tokenizer::from_bytes(&json).unwrap();
        let same =
            read(&json).unwrap().to_string(false).unwrap() == theirs.to_string(false).unwrap();
        assert!(same);
    }

    #[test]
    fn truncation_is_exact_and_reported() {
        let tokenizer = small(6, 8);
        let four = tokenizer.encode("hello world hello world").unwrap();
        assert_eq!((four.ids.len(), four.truncated), (6, false));
        assert!(
            !tokenizer
                .encode(&format!("hello world hello world{}", " ".repeat(100)))
                .unwrap()
                .truncated
        );
        let five = tokenizer.encode("hello world hello world hello").unwrap();
        assert_eq!((five.ids, five.truncated), (four.ids, true));
        assert!(tokenizer.wrap(&[5; 5]).unwrap().truncated);
    }

    #[test]
    fn ids_outside_the_vocabulary_are_refused() {
        assert!(matches!(
            small(6, 8).wrap(&[u32::MAX]),
            Err(TokenizerError::UnknownToken { .. })
        ));
    }

    /// `[CLS]` is 2, `[SEP]` 3, `[PAD]` 0; `hello world` is 5, 6.
    #[test]
    fn token_ids_that_have_their_special_tokens_are_read_as_they_are() {
        let tokenizer = small(16, WINDOW);
        let text = tokenizer.encode("hello world").unwrap();
        for same in [
            &[5, 6][..],
            &[2, 5, 6, 3],
            &[2, 5, 6, 3, 0, 0, 0],
            &[0, 0, 2, 5, 6, 3],
            &[5, 6, 0],
        ] {
            assert_eq!(tokenizer.wrap(same).unwrap(), text, "{same:?}");
        }
        // Special tokens within a text are its own.
        for ids in [&[2, 2, 5, 3][..], &[2, 5, 3, 6, 3], &[2, 5, 0, 6, 3]] {
            assert_eq!(tokenizer.wrap(ids).unwrap().ids, ids);
        }
        assert_eq!(tokenizer.wrap(&[2, 3]).unwrap().ids, [2, 3]);
        for half in [&[2, 5, 6][..], &[5, 6, 3], &[2], &[3], &[2, 5, 0, 0]] {
            let refused = tokenizer.wrap(half);
            assert!(
                matches!(refused, Err(TokenizerError::HalfWrapped)),
                "{half:?}"
            );
        }
        for nothing in [&[][..], &[0], &[0, 0]] {
            let refused = tokenizer.wrap(nothing);
            assert!(
                matches!(refused, Err(TokenizerError::OnlyPadding)),
                "{nothing:?}"
            );
        }
    }

    #[test]
    fn token_ids_are_truncated_between_their_special_tokens() {
        let tokenizer = small(6, 8);
        for (ids, truncated) in [
            (&[2, 5, 6, 5, 6, 3][..], false),
            (&[2, 5, 6, 5, 6, 5, 3], true),
            (&[5, 6, 5, 6, 5], true),
        ] {
            let tokens = tokenizer.wrap(ids).unwrap();
            assert_eq!(tokens.ids, [2, 5, 6, 5, 6, 3], "{ids:?}");
            assert_eq!(tokens.truncated, truncated, "{ids:?}");
        }
    }

    #[test]
    fn the_padding_token_is_the_one_that_the_description_names() {
        let named = changed(
            "\"padding\":null",
            "\"padding\":{\"strategy\":{\"Fixed\":128},\"direction\":\"Right\",\"pad_to_multiple_of\":null,\"pad_id\":4,\"pad_type_id\":0,\"pad_token\":\"[MASK]\"}",
        );
        assert_eq!(named.wrap(&[5, 4, 4]).unwrap().ids, [2, 5, 3]);
        assert_eq!(named.wrap(&[5, 0]).unwrap().ids, [2, 5, 0, 3]);
        // Texts are never padded.
        assert_eq!(named.encode("hello").unwrap().ids, [2, 5, 3]);
    }

    #[test]
    fn a_pipeline_without_special_tokens_adds_and_removes_none() {
        let template = "[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}]";
        let bare = changed(template, "[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]");
        assert_eq!(bare.wrap(&[2, 5, 3]).unwrap().ids, [2, 5, 3]);
        let end = changed(
            template,
            "[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}]",
        );
        assert_eq!(end.wrap(&[5, 3]).unwrap().ids, [5, 3]);
        assert_eq!(end.wrap(&[5]).unwrap().ids, [5, 3]);
    }

    #[test]
    fn the_vocabulary_ends_with_the_largest_id() {
        assert!(small(6, 8).vocabulary() < 400);
        let piece = changed("\"##ing\":7", "\"##ing\":400");
        assert_eq!(piece.vocabulary(), 401);
        assert!(piece.wrap(&[400]).is_ok());
        let special = changed("\"ids\":[3]", "\"ids\":[500]");
        assert_eq!(special.vocabulary(), 501);
    }

    fn changed(from: &str, to: &str) -> Tokenizer {
        let json = String::from_utf8(small_json()).unwrap();
        assert!(json.contains(from), "{from}");
        Tokenizer::from_json(json.replace(from, to).as_bytes(), 8).unwrap()
    }

    #[test]
    fn an_unknown_pipeline_is_left_to_the_library_and_never_cut() {
        let unknown = changed("BertPreTokenizer", "Whitespace");
        assert_eq!(unknown.window, usize::MAX);
        assert_eq!(small(8, 5).window, 5);
    }

    #[test]
    fn a_text_longer_than_any_model_reads_is_refused() {
        let tokenizer = small(8, WINDOW);
        let longest = "hello ".repeat(MAX_TEXT_BYTES / 6);
        assert!(tokenizer.encode(&longest).unwrap().truncated);
        let refused = tokenizer.encode(&"x".repeat(MAX_TEXT_BYTES + 1));
        assert!(
            matches!(refused, Err(TokenizerError::TextTooLong { bytes }) if bytes == MAX_TEXT_BYTES + 1)
        );
    }

    #[test]
    fn a_cased_vocabulary_is_read_as_it_is_cased() {
        let cased = changed("\"lowercase\":true", "\"lowercase\":false");
        assert_eq!(cased.encode("hello Hello").unwrap().ids, [2, 5, 1, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn cutting_changes_no_kept_token(
            parts in prop::collection::vec(prop_oneof![
                Just("hello".to_owned()), Just("token".to_owned()), Just("[CLS]".to_owned()), Just("[".to_owned()), Just("]".to_owned()),
                Just("\u{301}".to_owned()), Just("\u{c}".to_owned()), Just("\u{a0}".to_owned()), Just("\u{2028}".to_owned()), Just(" ".to_owned()),
                Just("人工".to_owned()), Just("Σ".to_owned()), Just("İ".to_owned()), Just("\u{200d}".to_owned()), Just("a".repeat(120)),
                "[a-z]{1,6}", "[ -~]{1,8}", "\\PC{1,4}", any::<char>().prop_map(String::from),
            ], 0..40),
            window in 4usize..40,
            max_tokens in 3usize..24,
        ) {
            let text = parts.concat();
            let (mut cut, mut whole) = (Vec::new(), Vec::new());
            let (cuts, room) = (small(max_tokens, window), max_tokens - 2);
            let truncated = cuts.add_pieces(&text, &mut cut, room).unwrap();
            prop_assert_eq!(truncated, small(max_tokens, usize::MAX).add_pieces(&text, &mut whole, room).unwrap());
            prop_assert_eq!(cut, whole);
        }
    }
}
