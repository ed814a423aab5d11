//! Azure's requests, whose path names the model.

use bytes::Bytes;
use protocol::json::JsonText;
use serde::Deserialize;

use crate::proxy::refusal::Refusal;

/// Adds the model to the body of an embeddings request. Returns other bodies unchanged: the enclave refuses them.
///
/// # Errors
/// The body names another model.
pub(in crate::proxy) fn name_model(body: Bytes, deployment: &str) -> Result<Bytes, Refusal> {
    let model = decode(deployment).ok_or(Refusal::NOT_FOUND)?;
    #[derive(Deserialize)]
    struct Members {
        model: Option<String>,
    }
    // The reader of the enclave, so that both find the same members.
    let Ok(text) = JsonText::read(&body) else {
        return Ok(body);
    };
    let Ok(Members { model: given }) = serde_json::from_str(&text) else {
        return Ok(body);
    };
    match given {
        Some(given) if given == model => Ok(body),
        Some(_) => Err(Refusal::MODEL.param("model")),
        None => match text.split_once('{') {
            Some((_, members)) => {
                let model = serde_json::Value::from(model);
                Ok(format!("{{\"model\":{model},{members}").into())
            }
            None => Ok(body),
        },
    }
}

/// RFC 3986 §2.1: clients write a slash in a name as `%2F`.
fn decode(segment: &str) -> Option<String> {
    let mut parts = segment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(base16ct::mixed::decode_vec(digits).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_model_and_the_body_may_repeat_it() {
        let named = |body: &'static str| {
            let body = name_model(Bytes::from_static(body.as_bytes()), "a%2Fb%22").ok()?;
            Some(String::from_utf8(body.into()).unwrap())
        };
        for (body, expected) in [
            (r#"{"input":"x"}"#, r#"{"model":"a/b\"","input":"x"}"#),
            (
                r#"{"input":"x","model":"a/b\""}"#,
                r#"{"input":"x","model":"a/b\""}"#,
            ),
            // The enclave refuses these.
            (r#"{"model":1}"#, r#"{"model":1}"#),
            ("[]", "[]"),
            ("{", "{"),
        ] {
            assert_eq!(named(body).as_deref(), Some(expected), "{body}");
        }
        assert_eq!(named(r#"{"input":"x","model":"other"}"#), None);
        for bad in ["%", "a%2", "%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
