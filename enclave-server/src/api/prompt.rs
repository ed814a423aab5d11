//! The prompt of an embeddings request: the text that the model reads before each input.

use engine::{Inputs, MAX_PROMPT_BYTES, Prompts};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::error::ApiError;

/// A purpose of texts, for which a model may have a prompt.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputType {
    /// Texts to search with: the model's prompt `query`.
    Query,
    /// Texts to be found: the model's prompt `document`, otherwise `passage`.
    Document,
}

impl InputType {
    /// Names of its prompt, in the order of sentence-transformers.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["query"],
            Self::Document => &["document", "passage"],
        }
    }
}

/// The members of a request that choose the prompt. At most one may be there (`PROMPT_AMBIGUOUS`).
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Default)]
pub(super) struct PromptChoice {
    /// Name of one of the model's prompts, as `GET /v1/models` lists them (`PROMPT_UNKNOWN`).
    #[cfg_attr(test, schemars(rename = "prompt_name"))]
    pub(super) name: Option<String>,
    /// Text to read before each input; empty for none, also where the model has a default prompt.
    #[cfg_attr(test, schemars(rename = "prompt"))]
    pub(super) text: Option<String>,
    /// Purpose of the inputs, for which the model must have a prompt (`PROMPT_UNKNOWN`).
    pub(super) input_type: Option<InputType>,
}

/// Upper bound on the names in an answer, in bytes. An answer that lists them states no prompt, whose room they take.
const MAX_NAMES_BYTES: usize = MAX_PROMPT_BYTES / 2;

impl PromptChoice {
    /// Names of the model's prompts, where it reads texts without one although it has some, and the request did not choose that.
    pub(super) fn list_unused<'a>(&self, prompts: &'a Prompts, inputs: &Inputs) -> Vec<&'a str> {
        let chooses = self.name.is_some() || self.text.is_some() || self.input_type.is_some();
        let default = prompts.default_text().unwrap_or_default();
        let has_text = prompts.texts.values().any(|text| !text.is_empty());
        if chooses || !default.is_empty() || !has_text || matches!(inputs, Inputs::Pieces(_)) {
            return Vec::new();
        }
        let mut bytes = 0;
        let names = prompts.texts.keys().map(String::as_str);
        names
            .take_while(|name| {
                bytes += name.len() + 3;
                bytes <= MAX_NAMES_BYTES
            })
            .collect()
    }

    /// The text to put before each input: the chosen one, otherwise the model's default; empty if there is none.
    ///
    /// # Errors
    /// `PROMPT_AMBIGUOUS`, `PROMPT_UNKNOWN`, `PROMPT_TOO_LONG` and `PROMPT_WITH_TOKENS`.
    pub(super) fn resolve(
        self,
        prompts: &Prompts,
        inputs: &Inputs,
    ) -> Result<Zeroizing<String>, ApiError> {
        let named = |names: &[&str], member: &'static str| {
            let text = names.iter().find_map(|name| prompts.texts.get(*name));
            text.cloned().ok_or_else(|| refuse_name(prompts, member))
        };
        let (text, member) = match (self.name, self.text, self.input_type) {
            (None, None, None) => {
                return Ok(Zeroizing::new(match inputs {
                    Inputs::Texts(_) => prompts.default_text().unwrap_or_default().to_owned(),
                    Inputs::Pieces(_) => String::new(),
                }));
            }
            (Some(name), None, None) => (named(&[&name], "prompt_name")?, "prompt_name"),
            (None, Some(text), None) => (text, "prompt"),
            (None, None, Some(kind)) => (named(kind.names(), "input_type")?, "input_type"),
            _ => {
                return Err(ApiError::bad_request(
                    "PROMPT_AMBIGUOUS",
                    "the request chooses its prompt more than once; send one of `prompt_name`, `prompt` and `input_type`",
                )
                .param("prompt"));
            }
        };
        if text.len() > MAX_PROMPT_BYTES {
            return Err(ApiError::bad_request(
                "PROMPT_TOO_LONG",
                format!("`prompt` is longer than {MAX_PROMPT_BYTES} bytes; send a shorter one"),
            )
            .param(member));
        }
        if !text.is_empty() && matches!(inputs, Inputs::Pieces(_)) {
            return Err(ApiError::bad_request(
                "PROMPT_WITH_TOKENS",
                "`input` holds token ids, which are read unchanged, so no prompt can precede them; send texts, or put the prompt's tokens before each list",
            )
            .param(member));
        }
        Ok(Zeroizing::new(text))
    }
}

/// The requested name belongs to the user, so it is not quoted.
fn refuse_name(prompts: &Prompts, member: &'static str) -> ApiError {
    let names: Vec<_> = prompts
        .texts
        .keys()
        .map(|name| format!("`{name}`"))
        .collect();
    let known = match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    };
    ApiError::bad_request(
        "PROMPT_UNKNOWN",
        format!(
            "the model has no prompt for this `{member}`, its prompts are: {known}; send one of these as `prompt_name`, the text itself as `prompt`, or neither"
        ),
    )
    .param(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(texts: &[(&str, &str)], default: Option<&str>) -> Prompts {
        let texts = texts.iter();
        Prompts {
            texts: texts
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
            default: default.map(str::to_owned),
        }
    }

    fn texts() -> Inputs {
        Inputs::Texts(vec!["x".to_owned()])
    }

    fn name(name: &str) -> PromptChoice {
        PromptChoice {
            name: Some(name.to_owned()),
            ..PromptChoice::default()
        }
    }

    fn text(text: &str) -> PromptChoice {
        PromptChoice {
            text: Some(text.to_owned()),
            ..PromptChoice::default()
        }
    }

    fn of_type(kind: InputType) -> PromptChoice {
        PromptChoice {
            input_type: Some(kind),
            ..PromptChoice::default()
        }
    }

    fn code(choice: PromptChoice, prompts: &Prompts, inputs: &Inputs) -> &'static str {
        match choice.resolve(prompts, inputs) {
            Ok(_) => "",
            Err(error) => error.code,
        }
    }

    fn chosen(choice: PromptChoice, prompts: &Prompts) -> Option<String> {
        let text = choice.resolve(prompts, &texts()).ok()?;
        Some(text.to_string())
    }

    #[test]
    fn each_member_chooses_the_models_own_text() {
        let all = prompts(
            &[("query", "q: "), ("passage", "p: "), ("s2s", "s: ")],
            Some("s2s"),
        );
        let chosen = |choice| chosen(choice, &all);
        assert_eq!(chosen(PromptChoice::default()).as_deref(), Some("s: "));
        assert_eq!(chosen(name("query")).as_deref(), Some("q: "));
        assert_eq!(chosen(text("own: ")).as_deref(), Some("own: "));
        assert_eq!(chosen(text("")).as_deref(), Some(""));
        assert_eq!(chosen(of_type(InputType::Query)).as_deref(), Some("q: "));
        let document = of_type(InputType::Document);
        assert_eq!(chosen(document).as_deref(), Some("p: "));
    }

    #[test]
    fn the_prompt_document_precedes_passage() {
        let both = prompts(&[("document", ""), ("passage", "p: ")], None);
        let document = of_type(InputType::Document);
        assert_eq!(chosen(document, &both).as_deref(), Some(""));
    }

    #[test]
    fn a_name_that_the_model_lacks_is_refused_with_its_names() {
        let some = prompts(&[("query", "q: "), ("s2s", "s: ")], None);
        for choice in [name("SECRET"), name(""), of_type(InputType::Document)] {
            let Err(error) = choice.resolve(&some, &texts()) else {
                panic!("accepted")
            };
            assert_eq!((error.status.as_u16(), error.code), (400, "PROMPT_UNKNOWN"));
            assert!(
                error.message.contains("`query`, `s2s`"),
                "{}",
                error.message
            );
            assert!(!error.message.contains("SECRET"), "{}", error.message);
        }
        let none = Prompts::default();
        let query = of_type(InputType::Query);
        assert_eq!(code(query, &none, &texts()), "PROMPT_UNKNOWN");
    }

    #[test]
    fn the_names_are_listed_where_none_was_chosen() {
        let listed = |choice: PromptChoice, texts: &[(&str, &str)], default, inputs: &Inputs| {
            let prompts = prompts(texts, default);
            choice.list_unused(&prompts, inputs).join(" ")
        };
        let some = &[("query", "q: "), ("document", "")][..];
        let none = PromptChoice::default;
        assert_eq!(listed(none(), some, None, &texts()), "document query");
        assert_eq!(
            listed(none(), some, Some("document"), &texts()),
            "document query"
        );
        assert_eq!(listed(none(), some, Some("query"), &texts()), "");
        assert_eq!(listed(none(), &[("query", "")], None, &texts()), "");
        assert_eq!(listed(none(), &[], None, &texts()), "");
        let ids = Inputs::Pieces(vec![vec![5]]);
        assert_eq!(listed(none(), some, None, &ids), "");
        for choice in [name("document"), text(""), of_type(InputType::Document)] {
            assert_eq!(listed(choice, some, None, &texts()), "");
        }
        let long = ["a", "b"].map(|name| name.repeat(1500));
        let long = [(&*long[0], "q: "), (&*long[1], "q: ")];
        assert_eq!(listed(none(), &long, None, &texts()).len(), 1500);
    }

    #[test]
    fn two_choices_are_refused() {
        let all = prompts(&[("query", "q: ")], None);
        for choice in [
            PromptChoice {
                name: Some("query".to_owned()),
                ..text("")
            },
            PromptChoice {
                name: Some("query".to_owned()),
                ..of_type(InputType::Query)
            },
            PromptChoice {
                text: Some(String::new()),
                ..of_type(InputType::Query)
            },
        ] {
            assert_eq!(code(choice, &all, &texts()), "PROMPT_AMBIGUOUS");
        }
    }

    #[test]
    fn token_ids_take_no_prompt() {
        let all = prompts(&[("query", "q: "), ("document", "")], Some("query"));
        let ids = Inputs::Pieces(vec![vec![5]]);
        assert_eq!(code(name("query"), &all, &ids), "PROMPT_WITH_TOKENS");
        assert_eq!(code(text("q: "), &all, &ids), "PROMPT_WITH_TOKENS");
        assert_eq!(code(name("document"), &all, &ids), "");
        let Ok(default) = PromptChoice::default().resolve(&all, &ids) else {
            panic!("refused")
        };
        assert_eq!(*default, "");
    }

    #[test]
    fn a_prompt_is_bounded() {
        let none = Prompts::default();
        let of = |length| text(&"a".repeat(length));
        assert_eq!(code(of(MAX_PROMPT_BYTES), &none, &texts()), "");
        let longer = of(MAX_PROMPT_BYTES + 1);
        assert_eq!(code(longer, &none, &texts()), "PROMPT_TOO_LONG");
    }
}
