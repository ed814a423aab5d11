//! ASCII text to word pieces, in one pass and without allocating for each word.
//!
//! Most texts are ASCII, where BERT's rules are few: control characters vanish, spaces part words, each punctuation mark
//! is a word. The library keeps for every character where it came from, which nobody here asks for, and takes some
//! twenty times as long over plain words.

use super::pipeline::Pipeline;

/// Longest word that may be spelt here: the time that one takes grows with its square. BERT's own limit is 100.
const LONGEST_WORD: usize = 1000;

/// WordPiece over ASCII text: gives what the library would give, from the library's vocabulary.
pub(super) struct Ascii {
    /// Marks the pieces that a word goes on with.
    prefix: String,
    /// Bytes of the prefix and of the longest word that is spelt.
    longest: usize,
    /// Stands for a word that the vocabulary cannot spell.
    unknown: u32,
    lowercase: bool,
    /// Bytes that make a text the library's: beyond ASCII, or what a special token's name begins with.
    foreign: [bool; 256],
}

impl Ascii {
    /// Nothing where `pipeline` is not BERT's, or spells words of any length. `vocabulary` has the number of a piece.
    pub(super) fn new(
        pipeline: &Pipeline,
        vocabulary: impl Fn(&str) -> Option<u32>,
    ) -> Option<Self> {
        let lowercase = pipeline.cleans_and_lowers()?;
        let model = &pipeline.model;
        let mut foreign = std::array::from_fn(|byte| byte >= 128);
        for token in &pipeline.added_tokens {
            let first = *token.content.as_bytes().first()?;
            // A name may be looked for in what the normaliser made of the text.
            for byte in [
                first,
                first.to_ascii_lowercase(),
                first.to_ascii_uppercase(),
            ] {
                foreign[usize::from(byte)] = true;
            }
        }
        let longest_word = model.max_input_chars_per_word;
        let longest_word = longest_word.filter(|longest| *longest <= LONGEST_WORD)?;
        let prefix = model.continuing_subword_prefix.clone();
        let prefix = prefix.filter(|prefix| prefix.is_ascii())?;
        Some(Self {
            longest: prefix.len() + longest_word,
            prefix,
            unknown: vocabulary(model.unk_token.as_deref()?)?,
            lowercase,
            foreign,
        })
    }

    /// Adds the word pieces of `text` to `ids`, `room` at most; says whether there were more. Nothing, and no piece, where
    /// the text is the library's.
    pub(super) fn encode(
        &self,
        text: &str,
        vocabulary: impl Fn(&str) -> Option<u32>,
        ids: &mut Vec<u32>,
        room: usize,
    ) -> Option<bool> {
        if text.bytes().any(|byte| self.foreign[usize::from(byte)]) {
            return None;
        }
        let most = ids.len() + room;
        let mut word = self.prefix.clone();
        for byte in text.bytes().chain([b' ']) {
            let mark = byte.is_ascii_punctuation();
            if mark || matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                self.spell(&mut word, &vocabulary, ids);
            } else if !byte.is_ascii_control() && word.len() <= self.longest {
                word.push(char::from(if self.lowercase {
                    byte.to_ascii_lowercase()
                } else {
                    byte
                }));
            }
            if mark {
                word.push(char::from(byte));
                self.spell(&mut word, &vocabulary, ids);
            }
            if ids.len() > most {
                ids.truncate(most);
                return Some(true);
            }
        }
        Some(false)
    }

    /// Takes the word after the prefix out of `word`, and adds its pieces.
    fn spell(
        &self,
        word: &mut String,
        vocabulary: impl Fn(&str) -> Option<u32>,
        ids: &mut Vec<u32>,
    ) {
        let before = ids.len();
        if self.pieces(word, vocabulary, ids).is_none() {
            ids.truncate(before);
            ids.push(self.unknown);
        }
        word.truncate(self.prefix.len());
    }

    /// The longest piece that fits, again and again; nothing where the word cannot be spelt. Spoils `word`, and leaves in
    /// `ids` what it has spelt.
    fn pieces(
        &self,
        word: &mut String,
        vocabulary: impl Fn(&str) -> Option<u32>,
        ids: &mut Vec<u32>,
    ) -> Option<()> {
        if word.len() > self.longest {
            return None;
        }
        let start = self.prefix.len();
        let (mut from, mut rest) = (start, start);
        while rest < word.len() {
            let (end, id) = (rest + 1..=word.len())
                .rev()
                .find_map(|end| Some((end, vocabulary(&word[from..end])?)))?;
            ids.push(id);
            // The prefix takes the place of what was spelt just now, or before that.
            (from, rest) = (end - start, end);
            word.replace_range(from..rest, &self.prefix);
        }
        Some(())
    }
}
