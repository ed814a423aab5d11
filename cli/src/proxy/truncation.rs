//! Texts that are longer than the model reads: their refusal with --refuse-long, and their number.

use bytes::Bytes;
use protocol::json::JsonText;
use protocol::vectors::{self, Vectors};
use serde::{Deserialize, Deserializer};

/// A client asked for truncation.
#[derive(Debug, PartialEq)]
pub(super) struct TruncationRequested;

/// Adds `"truncate": false` to the body of an embeddings request. Returns other bodies unchanged: the enclave refuses them.
pub(super) fn forbid_truncation(body: Bytes) -> Result<Bytes, TruncationRequested> {
    // The reader of the enclave, so that both find the same members.
    let Ok(text) = JsonText::read(&body) else {
        return Ok(body);
    };
    let Ok(Members { truncate }) = serde_json::from_str(&text) else {
        return Ok(body);
    };
    match truncate {
        Some(Some(false)) => Ok(body),
        Some(_) => Err(TruncationRequested),
        None => match text.split_once('{') {
            Some((_, members)) => Ok(format!("{{\"truncate\":false,{members}").into()),
            None => Ok(body),
        },
    }
}

#[derive(Deserialize)]
struct Members {
    #[serde(default, deserialize_with = "present")]
    truncate: Option<Option<bool>>,
}

/// Tells null from a missing member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<bool>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Counts the items of an answer whose texts were truncated.
pub(super) fn count_truncated(media_type: &[u8], content: &[u8]) -> usize {
    if protocol::media_type::matches(media_type, vectors::MEDIA_TYPE) {
        let vectors = Vectors::decode(content);
        return vectors.map_or(0, |vectors| {
            vectors.truncated.iter().filter(|it| **it).count()
        });
    }
    // The enclave writes no spaces. In a string the quotes would be escaped, so this is the member of an item.
    let member = br#""truncated":true"#;
    content
        .windows(member.len())
        .filter(|part| part == member)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(body: &'static str) -> Option<String> {
        let body = forbid_truncation(Bytes::from_static(body.as_bytes())).ok()?;
        Some(String::from_utf8(body.into()).unwrap())
    }

    #[test]
    fn the_member_is_added_to_embeddings_requests_alone() {
        for (body, expected) in [
            (r#"{"input":"a"}"#, r#"{"truncate":false,"input":"a"}"#),
            (
                "\u{feff} {\"input\":\"{\\ud800\"}",
                "{\"truncate\":false,\"input\":\"{\\ufffd\"}",
            ),
            (
                r#"{"input":"a","truncate":false}"#,
                r#"{"input":"a","truncate":false}"#,
            ),
            (
                r#"{"x":{"truncate":true},"input":1e999}"#,
                r#"{"truncate":false,"x":{"truncate":true},"input":1e999}"#,
            ),
            // The enclave refuses these.
            (r#"{"truncate":"no"}"#, r#"{"truncate":"no"}"#),
            (
                r#"{"truncate":false,"truncate":true}"#,
                r#"{"truncate":false,"truncate":true}"#,
            ),
            ("[]", "[]"),
            ("{", "{"),
            ("", ""),
        ] {
            assert_eq!(forbidden(body).as_deref(), Some(expected), "{body}");
        }
        for body in [
            r#"{"input":"a","truncate":true}"#,
            r#"{"truncate":null,"input":"a"}"#,
            r#"{"trunc\u0061te":true,"input":"a"}"#,
        ] {
            assert_eq!(forbidden(body), None, "{body}");
        }
    }

    #[test]
    fn truncated_items_are_counted_in_each_format() {
        let json = br#"{"clearseal":{"ignored":["\"truncated\":true"]},"data":[{"clearseal":{"tokens":9,"truncated":true}},{"clearseal":{"tokens":9,"truncated":false}},{"clearseal":{"tokens":9,"truncated":true}}]}"#;
        assert_eq!(count_truncated(b"application/json", json), 2);
        let vectors = Vectors {
            items: None,
            tokens: vec![9, 9],
            truncated: vec![false, true],
            dimension: 1,
            values: vec![1.0, 1.0],
        };
        let tensors = vectors.encode().unwrap();
        assert_eq!(count_truncated(vectors::MEDIA_TYPE.as_bytes(), &tensors), 1);
        assert_eq!(count_truncated(vectors::MEDIA_TYPE.as_bytes(), b""), 0);
    }
}
