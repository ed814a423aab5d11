//! The parts of `tokenizer.json` that say whether a text may be cut.

use serde::Deserialize;

use super::begins_anew;

/// What becomes of a text, step by step.
#[derive(Deserialize)]
pub(super) struct Pipeline {
    normalizer: Option<Kind>,
    pre_tokenizer: Option<Kind>,
    model: Kind,
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
struct Added {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

impl Pipeline {
    /// Whether a text may be cut at the places of [`begins_anew`].
    pub(super) fn cuts_are_harmless(&self) -> bool {
        self.is_bert()
            && self.added_tokens.iter().all(|token| {
                !token.single_word
                    && !token.lstrip
                    && !token.rstrip
                    && !token.content.chars().skip(1).any(begins_anew)
            })
    }

    fn is_bert(&self) -> bool {
        let is = |step: &Option<Kind>, kind| step.as_ref().is_some_and(|step| step.kind == kind);
        is(&self.normalizer, "BertNormalizer")
            && is(&self.pre_tokenizer, "BertPreTokenizer")
            && self.model.kind == "WordPiece"
    }
}
