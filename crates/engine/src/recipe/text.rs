//! Reads how a text becomes tokens: its length, its case, and whether the descriptions of the tokenizer agree.

use serde::Deserialize;
use serde_json::{Value, json};

use super::settings::{Problems, Settings};
use super::special_tokens;
use crate::architecture::Positions;
use crate::tokenize::{MAX_TEXT_BYTES, TokenizerOptions};
use crate::{Shape, Tokenizer, TokenizerError};

/// How a text becomes tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextOptions {
    /// Path of `tokenizer.json`.
    pub(super) file: String,
    /// Longest sequence, special tokens included.
    pub(super) max_tokens: usize,
    /// Texts are lower-cased before anything else.
    lower_case: bool,
    /// Adds the tokens that the tokenizer places around a text.
    special_tokens: bool,
    /// A text that is too long loses its beginning.
    keep_end: bool,
}

impl TextOptions {
    /// A table of words takes every text, without special tokens. The library truncates a text for it only where
    /// `tokenizer.json` does.
    pub(super) fn for_table(file: String, problems: &mut Problems<'_>) -> Self {
        let contents = problems.contents(&file).unwrap_or_default();
        let truncation = serde_json::from_slice(contents).unwrap_or_default();
        let Truncated { truncation } = truncation;
        // A token has one byte or more.
        let (mut max_tokens, mut keep_end) = (MAX_TEXT_BYTES, false);
        if let Some(truncation) = truncation {
            let length = truncation.get("max_length").and_then(Value::as_u64);
            let length = length.and_then(|length| usize::try_from(length).ok());
            let member = |name| truncation.get(name).and_then(Value::as_str);
            let side = member("direction").unwrap_or("Right");
            match (length, side, member("strategy")) {
                (Some(1..), "Left" | "Right", Some("LongestFirst" | "OnlyFirst")) => {
                    max_tokens = length.unwrap_or(max_tokens).min(max_tokens);
                    keep_end = side == "Left";
                }
                _ => problems.add(
                    &file,
                    format!("truncation is {truncation}, which is not understood"),
                ),
            }
        }
        Self {
            file,
            max_tokens,
            lower_case: false,
            special_tokens: false,
            keep_end,
        }
    }

    pub(super) fn build(&self, json: &[u8]) -> Result<Tokenizer, TokenizerError> {
        let options = TokenizerOptions {
            lower_case: self.lower_case,
            special_tokens: self.special_tokens,
            keep_end: self.keep_end,
        };
        Tokenizer::with_options(json, self.max_tokens, options)
    }
}

/// Names that sentence-transformers has given to the configuration of a Transformer.
const NAMES: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// Beyond every model's length: "no limit" in `tokenizer_config.json`.
const NO_LIMIT: usize = 1 << 40;

/// Longest sequence that this crate takes of a model that states no limit.
const MOST_TOKENS: usize = 1 << 16;

pub(super) fn read(
    folder: &str,
    shape: Option<&Shape>,
    problems: &mut Problems<'_>,
) -> Option<TextOptions> {
    let names = NAMES.map(|name| format!("{folder}{name}"));
    let path = names
        .iter()
        .find(|name| problems.has(name))
        .unwrap_or(&names[0]);
    let mut settings = problems.optional_settings(path);
    let stated = settings.optional_number("max_seq_length", problems);
    let lower_case = settings.flag("do_lower_case", problems);
    refuse_other_uses(&mut settings, problems);
    settings.finish(problems);

    let file = format!("{folder}tokenizer.json");
    let mut of_tokenizer = problems.optional_settings(&format!("{folder}tokenizer_config.json"));
    let limit = of_tokenizer.optional_number("model_max_length", problems);
    let side = of_tokenizer.text("truncation_side", problems);
    let keep_end = match side.as_deref() {
        None | Some("right") => false,
        Some("left") => true,
        Some(other) => {
            let message = format!(
                "truncation_side is `{}`, expected left or right",
                other.escape_default()
            );
            problems.add(&of_tokenizer.file, message);
            false
        }
    };
    compare_descriptions(folder, &file, &mut of_tokenizer, problems);

    let shape = shape?;
    let positions = shape.positions.saturating_sub(shape.first_position);
    let rows = match shape.block().positions {
        Positions::Rotary => MOST_TOKENS.min(positions),
        _ => positions,
    };
    let limit = limit.filter(|limit| *limit < NO_LIMIT);
    Some(TextOptions {
        file,
        max_tokens: stated.unwrap_or_else(|| limit.unwrap_or(rows).min(rows)),
        lower_case,
        special_tokens: true,
        keep_end,
    })
}

/// Refuses settings under which the module would do something else than to read a text's token states.
fn refuse_other_uses(settings: &mut Settings, problems: &mut Problems<'_>) {
    settings.ignore(&["unpad_inputs"]);
    settings.expect("transformer_task", &json!("feature-extraction"), problems);
    settings.expect("module_output_name", &json!("token_embeddings"), problems);
    if let Some(Value::Object(modalities)) = settings.take("modality_config") {
        if modalities.contains_key("message") {
            problems.add(
                &settings.file,
                "modality_config.message is set: texts would go through a chat template",
            );
        }
        let expected = json!({"method": "forward", "method_output_name": "last_hidden_state"});
        if modalities.get("text") != Some(&expected) {
            problems.add(
                &settings.file,
                format!("modality_config.text is not {expected}"),
            );
        }
    }
    for name in [
        "model_args",
        "model_kwargs",
        "config_args",
        "config_kwargs",
        "tokenizer_args",
        "processor_kwargs",
    ] {
        if let Some(mut arguments) = settings.object(name, problems) {
            // About where and how the library computes.
            arguments.ignore(&["attn_implementation", "device_map", "dtype", "torch_dtype"]);
            arguments.finish(problems);
        }
    }
}

/// The part of `tokenizer.json` that says how a text is truncated.
#[derive(Deserialize, Default)]
struct Truncated {
    truncation: Option<Value>,
}

/// The parts of `tokenizer.json` that other files may contradict.
#[derive(Deserialize)]
pub(super) struct Description {
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    pub(super) post_processor: Option<Value>,
    pub(super) model: Model,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(default)]
    pub(super) unk_token: Value,
}

#[derive(Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u64,
    pub(super) content: String,
}

/// Refuses a `tokenizer_config.json` that asks for something else than `tokenizer.json` does: the library builds the tokenizer from
/// either of them, depending on its version.
fn compare_descriptions(
    folder: &str,
    file: &str,
    settings: &mut Settings,
    problems: &mut Problems<'_>,
) {
    let Some(contents) = problems.contents(file) else {
        problems.add(file, "the file is missing");
        return;
    };
    let description: Description = match serde_json::from_slice(contents) {
        Ok(description) => description,
        Err(error) => {
            problems.add(file, format!("the file describes no tokenizer: {error}"));
            return;
        }
    };
    let class = settings
        .text("tokenizer_class", problems)
        .unwrap_or_default();
    special_tokens::compare(&description, &class, folder, settings, problems);
    let normalizer = description.normalizer;
    match class.trim_end_matches("Fast") {
        "BertTokenizer" | "DistilBertTokenizer" | "MPNetTokenizer" => {
            let or = |value: Option<Value>, default| value.unwrap_or(default);
            let expected = json!({
                "type": "BertNormalizer",
                "clean_text": true,
                "handle_chinese_chars": or(settings.take("tokenize_chinese_chars"), json!(true)),
                "strip_accents": or(settings.take("strip_accents"), json!(null)),
                "lowercase": or(settings.take("do_lower_case"), json!(true)),
            });
            compare_normalizer(&class, &expected, normalizer.as_ref(), settings, problems);
        }
        "RobertaTokenizer" => compare_steps(&class, &[], normalizer.as_ref(), settings, problems),
        "XLMRobertaTokenizer" | "CamembertTokenizer" => {
            let steps = ["Precompiled", "Replace"];
            compare_steps(&class, &steps, normalizer.as_ref(), settings, problems);
        }
        "Qwen2Tokenizer" => {
            compare_steps(&class, &["NFC"], normalizer.as_ref(), settings, problems);
        }
        "GemmaTokenizer" => {
            compare_steps(
                &class,
                &["Replace"],
                normalizer.as_ref(),
                settings,
                problems,
            );
        }
        _ => {
            let bert = find(normalizer.as_ref(), "BertNormalizer");
            compare_member("do_lower_case", bert, "lowercase", settings, problems);
            compare_member("strip_accents", bert, "strip_accents", settings, problems);
        }
    }
    let bytes = find(description.pre_tokenizer.as_ref(), "ByteLevel");
    compare_member(
        "add_prefix_space",
        bytes,
        "add_prefix_space",
        settings,
        problems,
    );
}

/// Refuses a normalizer that the class would replace by another one.
fn compare_normalizer(
    class: &str,
    expected: &Value,
    found: Option<&Value>,
    settings: &Settings,
    problems: &mut Problems<'_>,
) {
    let found = found.unwrap_or(&Value::Null);
    if found != expected {
        problems.add(
            &settings.file,
            format!(
                "tokenizer_class {} with do_lower_case and its like means the normalizer {expected}, but tokenizer.json has {found}",
                class.escape_default()
            ),
        );
    }
}

/// Refuses steps of a normalizer that the class would drop.
fn compare_steps(
    class: &str,
    expected: &[&str],
    found: Option<&Value>,
    settings: &Settings,
    problems: &mut Problems<'_>,
) {
    for kind in kinds(found) {
        if !expected.contains(&kind) {
            problems.add(
                &settings.file,
                format!(
                    "tokenizer_class {} drops the step {kind} of the normalizer in tokenizer.json",
                    class.escape_default()
                ),
            );
        }
    }
}

/// The types of a normalizer's steps.
fn kinds(step: Option<&Value>) -> Vec<&str> {
    let Some(step) = step else { return Vec::new() };
    match step.get("normalizers").and_then(Value::as_array) {
        Some(parts) => parts.iter().flat_map(|part| kinds(Some(part))).collect(),
        None => step
            .get("type")
            .and_then(Value::as_str)
            .into_iter()
            .collect(),
    }
}

/// Refuses a member that asks for something else than a step of `tokenizer.json`.
fn compare_member(
    asked: &str,
    step: Option<&Value>,
    member: &str,
    settings: &mut Settings,
    problems: &mut Problems<'_>,
) {
    let (Some(value), Some(step)) = (settings.take(asked), step) else {
        return;
    };
    let found = step.get(member).cloned().unwrap_or(Value::Null);
    if value != found {
        let message = format!("{asked} is {value}, but tokenizer.json says {found}");
        problems.add(&settings.file, message);
    }
}

/// The step of this type, itself or in a sequence.
fn find<'v>(step: Option<&'v Value>, kind: &str) -> Option<&'v Value> {
    let step = step?;
    if step.get("type").and_then(Value::as_str) == Some(kind) {
        return Some(step);
    }
    let parts = step
        .get("normalizers")
        .or_else(|| step.get("pretokenizers"));
    parts?
        .as_array()?
        .iter()
        .find_map(|part| find(Some(part), kind))
}
