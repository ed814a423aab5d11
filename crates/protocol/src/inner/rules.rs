//! Rules for control data and fields.

use super::{InnerError, MAX_FIELD_SECTION, MAX_FIELDS, MAX_PATH};

/// Fields with a meaning for a connection, a cache in between, or another reader of the same message.
///
/// RFC 9292 §3.6 and RFC 9110 §7.6.1 name the connection-specific ones. `host` repeats the authority and is removed before,
/// `cookie` would link requests that the seal keeps apart.
const FORBIDDEN: [&str; 9] = [
    "connection",
    "cookie",
    "host",
    "keep-alive",
    "proxy-connection",
    "set-cookie",
    "te",
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
        || method == "CONNECT"
    {
        return Err(InnerError::Control(
            "method; send at most 16 capital letters, not CONNECT",
        ));
    }
    // RFC 3986 §3.1: in any case.
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(InnerError::Control("scheme; send https"));
    }
    // RFC 9458 §2: a gateway answers only for its own targets. This one's only target is itself, under each name that its
    // operator gives it; the seal has selected it already.
    if !authority.is_empty() && !is_authority(authority) {
        return Err(InnerError::Control(
            "authority; send host or host:port, without a user",
        ));
    }
    if path.len() > MAX_PATH {
        return Err(InnerError::TooLarge("path, 2,048 bytes"));
    }
    if !path.starts_with('/')
        || !path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err(InnerError::Control(
            "path; begin with /, and percent-encode # and all but visible ASCII",
        ));
    }
    Ok(())
}

/// RFC 9110 §7.2, §4.2.3: equal to the authority, in any case, with or without the default port.
pub(super) fn check_host(authority: &str, host: &str) -> Result<(), InnerError> {
    let is_same = authority.is_empty()
        || without_default_port(host).eq_ignore_ascii_case(without_default_port(authority));
    match is_same && is_authority(host) {
        true => Ok(()),
        false => Err(InnerError::Field(
            "host; send the authority of the URL, or leave it out",
        )),
    }
}

fn without_default_port(authority: &str) -> &str {
    let port = authority.strip_suffix("443").unwrap_or(authority);
    port.strip_suffix(':').unwrap_or(authority)
}

/// RFC 3986 §3.2 with a host and without a user (RFC 9110 §4.2.4).
fn is_authority(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte);
    !text.starts_with(':') && !text.is_empty() && text.bytes().all(is_allowed)
}

/// Fields that have one value and a meaning for this service.
const SINGLE: [&str; 5] = [
    "authorization",
    "content-length",
    "content-type",
    "date",
    "host",
];

/// Appends a further line of the list `name` (RFC 9110 §5.3). Empty elements are left out (§5.6.1).
pub(super) fn append_line(name: &str, list: &mut String, value: &str) -> Result<(), InnerError> {
    if SINGLE.contains(&name) || name.starts_with("clearseal-") {
        return Err(InnerError::Field("sent twice, but it has one value"));
    }
    if !list.is_empty() && !value.is_empty() {
        list.push_str(", ");
    }
    list.push_str(value);
    Ok(())
}

pub(super) fn check_fields(
    headers: &[(String, String)],
    content_length: usize,
) -> Result<(), InnerError> {
    if headers.len() > MAX_FIELDS {
        return Err(InnerError::TooLarge("number of fields, 64"));
    }
    let section: usize = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    // Each field costs at most 8 bytes of lengths at these sizes.
    if section + 8 * headers.len() > MAX_FIELD_SECTION {
        return Err(InnerError::TooLarge("header section, 8 KiB"));
    }
    for (index, (name, value)) in headers.iter().enumerate() {
        if name.is_empty() || !name.bytes().all(is_field_name_byte) {
            return Err(InnerError::Field("a name that is not a lower-case token"));
        }
        if let Some(name) = FORBIDDEN.iter().find(|forbidden| *forbidden == name) {
            return Err(InnerError::Field(name));
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
