//! The parts of `tokenizer.json` that this service has to know itself.

use serde::Deserialize;

use super::begins_anew;

/// What becomes of a text, step by step.
#[derive(Deserialize)]
pub(super) struct Pipeline {
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<Kind>,
    pub(super) model: Model,
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    clean_text: bool,
    #[serde(default)]
    lowercase: bool,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type", default)]
    kind: String,
}

/// Fields of WordPiece; another model has others.
#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type", default)]
    kind: String,
    pub(super) unk_token: Option<String>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) max_input_chars_per_word: Option<usize>,
}

#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) content: String,
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
        self.bert().is_some()
            && self.added_tokens.iter().all(|token| {
                !token.single_word
                    && !token.lstrip
                    && !token.rstrip
                    && !token.content.chars().skip(1).any(begins_anew)
            })
    }

    /// Whether words are made small, where this is BERT's pipeline and control characters are left out.
    pub(super) fn cleans_and_lowers(&self) -> Option<bool> {
        let normalizer = self.bert()?;
        normalizer.clean_text.then_some(normalizer.lowercase)
    }

    /// The normaliser, where this is BERT's pipeline.
    fn bert(&self) -> Option<&Normalizer> {
        let (normalizer, pre_tokenizer) = (self.normalizer.as_ref()?, self.pre_tokenizer.as_ref()?);
        let bert = normalizer.kind == "BertNormalizer"
            && pre_tokenizer.kind == "BertPreTokenizer"
            && self.model.kind == "WordPiece";
        bert.then_some(normalizer)
    }
}
