//! A `tokenizer.json` like BERT's, with a test's own vocabulary.

use serde_json::{Map, Value, json};

const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// The special tokens followed by `pieces`, numbered in order.
pub(crate) fn tokenizer_json(pieces: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut vocab = Map::new();
    for piece in SPECIAL.map(str::to_owned).into_iter().chain(pieces) {
        let before = vocab.insert(piece, vocab.len().into());
        assert_eq!(before, None, "a duplicate piece");
    }
    let added = SPECIAL.map(|content| json!({"id": vocab[content], "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}));
    let whole: Value = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
    });
    whole.to_string().into_bytes()
}
