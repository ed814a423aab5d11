//! Comparison of media types (RFC 9110 §8.3.1).

/// Returns whether a field value has this media type, in any case and with any parameters.
pub fn matches(value: &[u8], media_type: &str) -> bool {
    let end = value.iter().position(|byte| *byte == b';');
    let value = value[..end.unwrap_or(value.len())].trim_ascii();
    value.eq_ignore_ascii_case(media_type.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_parameters_do_not_count() {
        for value in [
            "message/ohttp-req",
            "Message/OHTTP-Req",
            "message/ohttp-req;v=1",
            "message/ohttp-req ; v=\"1;2\"",
        ] {
            assert!(matches(value.as_bytes(), "message/ohttp-req"), "{value}");
        }
        for value in [
            "",
            ";",
            "message",
            "message/ohttp-req2",
            "message/ohttp-req, a/b",
        ] {
            assert!(!matches(value.as_bytes(), "message/ohttp-req"), "{value}");
        }
    }
}
