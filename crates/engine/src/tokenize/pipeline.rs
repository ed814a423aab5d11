//! Decides from `tokenizer.json` whether a text may be cut.

use serde::Deserialize;

use super::cut::is_boundary;

/// The steps that a text goes through.
#[derive(Deserialize)]
pub(super) struct Pipeline {
    normalizer: Option<Kind>,
    pre_tokenizer: Option<Kind>,
    model: Kind,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type", default)]
    kind: String,
    /// Each Chinese character is a word.
    #[serde(default)]
    handle_chinese_chars: bool,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

impl Pipeline {
    /// Whether a cut at an [`is_boundary`] character changes no token.
    pub(super) fn allows_cuts(&self) -> bool {
        self.is_bert()
            && self.added_tokens.iter().all(|token| {
                !token.single_word
                    && !token.lstrip
                    && !token.rstrip
                    && !token.content.chars().skip(1).any(is_boundary)
            })
    }

    fn is_bert(&self) -> bool {
        let is = |step: &Option<Kind>, kind| step.as_ref().is_some_and(|step| step.kind == kind);
        let normalizer = self.normalizer.as_ref();
        is(&self.normalizer, "BertNormalizer")
            && normalizer.is_some_and(|step| step.handle_chinese_chars)
            && is(&self.pre_tokenizer, "BertPreTokenizer")
            && self.model.kind == "WordPiece"
    }
}
