//! Compares the special tokens that other files name with those of `tokenizer.json`: the library adds the ones that are missing, and
//! gives some of them new roles.

use serde_json::Value;

use super::settings::{Problems, Settings};
use super::text::{AddedToken, Description};

/// Members that name one token.
const SINGLE: [&str; 7] = [
    "bos_token",
    "cls_token",
    "eos_token",
    "mask_token",
    "pad_token",
    "sep_token",
    "unk_token",
];

/// Members that name several.
const SEVERAL: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Classes that place `cls_token` and `sep_token` around a text, whatever `tokenizer.json` places there.
const WRAPPING: [&str; 4] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "MPNetTokenizer",
    "RobertaTokenizer",
];

/// Refuses tokens of `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` that `tokenizer.json` does not add,
/// or uses otherwise.
pub(super) fn compare(
    description: &Description,
    class: &str,
    folder: &str,
    settings: &mut Settings,
    problems: &mut Problems<'_>,
) {
    if settings.flag("split_special_tokens", problems) {
        let message = "split_special_tokens is true, expected false";
        problems.add(&settings.file, message);
    }
    compare_decoder(&description.added_tokens, settings, problems);
    compare_roles(description, class, settings, problems);
    let map = format!("{folder}special_tokens_map.json");
    if problems.contents(&map).is_some() {
        let mut settings = problems.optional_settings(&map);
        compare_roles(description, class, &mut settings, problems);
    }
    let added = format!("{folder}added_tokens.json");
    if problems.contents(&added).is_some()
        && let Some(Value::Object(added_tokens)) = problems.parse(&added)
    {
        for (content, id) in added_tokens {
            let same = |token: &AddedToken| token.content == content && id == token.id;
            if !description.added_tokens.iter().any(same) {
                report_missing(&added, &content, &id, problems);
            }
        }
    }
}

/// Compares the tokens that `tokenizer_config.json` lists by their ids.
fn compare_decoder(added: &[AddedToken], settings: &mut Settings, problems: &mut Problems<'_>) {
    let Some(Value::Object(asked)) = settings.take("added_tokens_decoder") else {
        return;
    };
    for (id, token) in asked {
        let content = content(&token).unwrap_or_default();
        let is_added = |token: &AddedToken| token.id.to_string() == id && token.content == content;
        if !added.iter().any(is_added) {
            let id = id.escape_default();
            let message =
                format!("added_tokens_decoder has token {id}, which tokenizer.json does not add");
            problems.add(&settings.file, message);
        }
    }
}

/// Compares the tokens that have a role.
fn compare_roles(
    description: &Description,
    class: &str,
    settings: &mut Settings,
    problems: &mut Problems<'_>,
) {
    let added = |content: &str| {
        let mut added = description.added_tokens.iter();
        added.any(|token| token.content == content)
    };
    let wraps = WRAPPING.contains(&class.trim_end_matches("Fast"));
    let (first, last) = ends(description.post_processor.as_ref()).unwrap_or_default();
    for name in SINGLE {
        let Some(value) = settings.take(name) else {
            continue;
        };
        let Some(content) = content(&value) else {
            settings.report(name, &value, "a token", problems);
            continue;
        };
        if !added(content) {
            report_missing(&settings.file, name, &value, problems);
        }
        let used = match name {
            "cls_token" => first,
            "sep_token" => last,
            "unk_token" => description.model.unk_token.as_str(),
            _ => None,
        };
        if let Some(used) = used.filter(|used| wraps && *used != content) {
            let used = Value::from(used);
            settings.report(name, &value, &format!("{used} of tokenizer.json"), problems);
        }
    }
    for name in SEVERAL {
        let tokens = match settings.take(name) {
            Some(Value::Array(tokens)) => tokens,
            Some(Value::Object(tokens)) => tokens.into_iter().map(|(_, token)| token).collect(),
            _ => continue,
        };
        for token in tokens {
            if !content(&token).is_some_and(added) {
                report_missing(&settings.file, name, &token, problems);
            }
        }
    }
}

fn report_missing(file: &str, name: &str, token: &Value, problems: &mut Problems<'_>) {
    let shown: String = token.to_string().chars().take(60).collect();
    let name = name.escape_default();
    problems.add(
        file,
        format!("{name} has {shown}, which tokenizer.json does not add"),
    );
}

/// The text of a token, which is written alone or with its properties.
fn content(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// The tokens before and after a text.
fn ends(step: Option<&Value>) -> Option<(Option<&str>, Option<&str>)> {
    let step = step?;
    if let Some(steps) = step.get("processors") {
        let mut steps = steps.as_array()?.iter();
        return steps.find_map(|step| ends(Some(step)));
    }
    if let Some(parts) = step.get("single") {
        let parts = parts.as_array()?;
        return Some((special(parts.first()), special(parts.last())));
    }
    let token = |name| step.get(name)?.get(0)?.as_str();
    Some((token("cls"), token("sep"))).filter(|ends| *ends != (None, None))
}

/// The token that a part of a template places, unless it is the text.
fn special(part: Option<&Value>) -> Option<&str> {
    part?.get("SpecialToken")?.get("id")?.as_str()
}
