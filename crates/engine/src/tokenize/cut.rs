//! Finds places at which a text may be cut without changing a token.

/// Bytes that are tokenized at once: 254 tokens of prose are about 1,200 bytes.
pub(super) const WINDOW: usize = 2048;

/// Returns the length of the first segment of `text` to tokenize: at most `window` bytes if a safe boundary exists there,
/// otherwise up to the next one.
pub(super) fn cut(text: &str, window: usize) -> usize {
    if text.len() <= window {
        return text.len();
    }
    let limit = text.floor_char_boundary(window);
    let before = text[..limit]
        .char_indices()
        .rev()
        .find(|(at, character)| *at > 0 && is_boundary(*character));
    let place = before.map(|(at, _)| at).or_else(|| {
        text[limit..]
            .char_indices()
            .map(|(at, character)| (limit + at, character))
            .find(|(at, character)| *at > 0 && is_boundary(*character))
            .map(|(at, _)| at)
    });
    place.unwrap_or(text.len())
}

/// Whether BERT's normalizer and pre-tokenizer handle the text from `character` on independently of the text before it.
///
/// All these characters are starters, so canonical reordering of marks does not cross them, and each ends the preceding word.
/// `]` is excluded because it ends `[CLS]` and similar tokens, which are matched before words. Form feed and similar controls
/// are excluded because BERT removes them instead of treating them as spaces.
pub(super) fn is_boundary(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\n' | '\r' | '\u{4e00}'..='\u{9fff}'
    ) || (character.is_ascii_punctuation() && character != ']')
}
