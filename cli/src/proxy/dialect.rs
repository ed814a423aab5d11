//! Embedding APIs of other vendors: their requests are translated to the one sealed request, and its answer to theirs.
//!
//! A member that cannot be obeyed is refused. Ignoring it would return other vectors than the client asked for.

mod answer;
mod deployment;
mod members;
pub(super) mod rerank;

use http::StatusCode;
use serde_json::{Value, json};

pub(super) use answer::{
    Embedded, MAX_TEXTS, has_prompts, write_info, write_models, write_version,
};
pub(super) use deployment::name_model;
pub(super) use members::Asked;
use members::{Member, Rule, optional, required};

/// A vendor's form of requests, answers and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Azure,
    Ollama,
    Tei,
    Cohere,
}

impl Dialect {
    /// The dialect of a path that is not in the table.
    pub(super) fn of_unknown_path(path: &str) -> Self {
        match path.split('/').nth(1) {
            Some("openai") => Self::Azure,
            Some("api") => Self::Ollama,
            Some("v2") => Self::Cohere,
            _ => Self::OpenAi,
        }
    }

    /// Writes an error as the vendor's own client reads it. A form without a place for the code has it in the message.
    pub(super) fn error(
        self,
        status: StatusCode,
        code: &str,
        message: &str,
        param: Option<&str>,
    ) -> Value {
        let text = || format!("{message} ({code})");
        match self {
            Self::OpenAi | Self::Azure => {
                let kind = match status.is_server_error() {
                    true => "server_error",
                    false => "invalid_request_error",
                };
                json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
            }
            Self::Ollama => json!({"error": text()}),
            Self::Tei => {
                let kind = match status {
                    StatusCode::SERVICE_UNAVAILABLE => "Unhealthy",
                    StatusCode::TOO_MANY_REQUESTS => "Overloaded",
                    status if status.is_server_error() => "Backend",
                    _ => "Validation",
                };
                json!({"error": text(), "error_type": kind})
            }
            Self::Cohere => json!({"message": text()}),
        }
    }
}

/// A vendor's request for embeddings, and its answer.
pub(super) struct Form {
    /// All members that the request may have.
    members: &'static [Member],
    write: fn(&Asked, &Embedded) -> serde_json::Result<Vec<u8>>,
}

pub(super) static OLLAMA_EMBED: Form = Form {
    members: &[
        required("model", Rule::ModelTag),
        required("input", Rule::Texts),
        optional("truncate", Rule::Truncate),
        optional("dimensions", Rule::Dimensions),
        optional("options", Rule::NoOptions),
        optional("keep_alive", Rule::KeepLoaded),
    ],
    write: answer::write_ollama_batch,
};

pub(super) static OLLAMA_EMBEDDINGS: Form = Form {
    members: &[
        required("model", Rule::ModelTag),
        required("prompt", Rule::Text),
        optional("options", Rule::NoOptions),
        optional("keep_alive", Rule::KeepLoaded),
    ],
    write: answer::write_ollama_vector,
};

pub(super) static TEI_EMBED: Form = Form {
    members: &[
        required("inputs", Rule::Texts),
        optional("truncate", Rule::Truncate),
        optional("truncation_direction", Rule::Only(&["Right", "right"])),
        // The engine refuses models whose vectors do not have length 1.
        optional("normalize", Rule::OnlyTrue),
        optional("prompt_name", Rule::PromptName),
        optional("dimensions", Rule::Dimensions),
    ],
    write: answer::write_tei,
};

pub(super) static COHERE_EMBED: Form = Form {
    members: &[
        required("model", Rule::Model),
        required("texts", Rule::List),
        required("input_type", Rule::Purpose),
        optional("embedding_types", Rule::OnlyFloats),
        optional("output_dimension", Rule::Dimensions),
        optional("truncate", Rule::TruncateEnd),
    ],
    write: answer::write_cohere,
};

/// Version 1 of the API, which langchain-cohere uses. It has no dimensions, and a list of plain vectors where no type is named.
pub(super) static COHERE_EMBED_V1: Form = Form {
    members: &[
        required("model", Rule::Model),
        required("texts", Rule::List),
        optional("input_type", Rule::Purpose),
        optional("embedding_types", Rule::OnlyFloats),
        optional("truncate", Rule::TruncateEnd),
    ],
    write: answer::write_cohere_v1,
};
