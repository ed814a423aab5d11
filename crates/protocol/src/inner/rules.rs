//! Rules for control data and fields.

use super::{AUTHORITY, InnerError, MAX_FIELD_SECTION, MAX_FIELDS, MAX_PATH};

/// Fields with a meaning for a connection, a cache in between, or another reader of the same message.
///
/// RFC 9292 §3.6 and RFC 9110 §7.6.1 name the connection-specific ones. `host` would name the target a second time,
/// `cookie` would link requests that the seal keeps apart.
const FORBIDDEN: [&str; 10] = [
    "connection",
    "cookie",
    "host",
    "keep-alive",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn check_request_line(
    method: &str,
    scheme: &str,
    authority: &str,
    path: &str,
) -> Result<(), InnerError> {
    if method.is_empty()
        || method.len() > 16
        || !method.bytes().all(|byte| byte.is_ascii_uppercase())
    {
        return Err(InnerError::Control("method"));
    }
    if method == "CONNECT" {
        return Err(InnerError::Control("method"));
    }
    if scheme != "https" {
        return Err(InnerError::Control("scheme"));
    }
    // RFC 9458 §2: a gateway answers only for its own targets; this one's only target is itself.
    if !authority.is_empty() && authority != AUTHORITY {
        return Err(InnerError::Control("authority"));
    }
    if path.len() > MAX_PATH {
        return Err(InnerError::TooLarge("path"));
    }
    if !path.starts_with('/')
        || !path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err(InnerError::Control("path"));
    }
    Ok(())
}

pub(super) fn check_fields(
    headers: &[(String, String)],
    content_length: usize,
) -> Result<(), InnerError> {
    if headers.len() > MAX_FIELDS {
        return Err(InnerError::TooLarge("number of fields"));
    }
    let section: usize = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    // Each field costs at most 8 bytes of lengths at these sizes.
    if section + 8 * headers.len() > MAX_FIELD_SECTION {
        return Err(InnerError::TooLarge("header section"));
    }
    for (index, (name, value)) in headers.iter().enumerate() {
        if name.is_empty() || !name.bytes().all(is_field_name_byte) {
            return Err(InnerError::Field("a name that is not a lower-case token"));
        }
        if FORBIDDEN.contains(&name.as_str()) {
            return Err(InnerError::Field("connection-specific, host or cookie"));
        }
        if headers[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(InnerError::Field("sent twice"));
        }
        if !is_field_value(value) {
            return Err(InnerError::Field(
                "a value with control characters, spaces around it, or not ASCII",
            ));
        }
        // RFC 9112 §6.3, through RFC 9292 §4: a wrong length makes the message malformed.
        if name == "content-length" && *value != content_length.to_string() {
            return Err(InnerError::Field(
                "a content-length that is not the content's",
            ));
        }
    }
    Ok(())
}

/// RFC 9110 §5.6.2 `tchar`, without upper case (RFC 9292 §3.6).
fn is_field_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9110 §5.5, without `obs-text`.
fn is_field_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    bytes.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
        && !blank(bytes.first())
        && !blank(bytes.last())
}
