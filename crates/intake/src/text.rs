//! Text encodings of bytes.

use base64ct::{Base64, Base64Unpadded, Base64Url, Base64UrlUnpadded, Encoding as _};

/// Text encoding of an item's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not encoded.
    Raw,
    /// Hexadecimal digits.
    Hex,
    /// Base64 or base64url, padded or not.
    Base64,
    /// Base64 between two lines that name it.
    Pem,
    /// A JSON object, or a JSON string.
    Json,
    /// `receipt.document.manifest`, base64url each: the format of links.
    Compact,
}

impl Encoding {
    /// Name for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw bytes",
            Self::Hex => "hex",
            Self::Base64 => "base64",
            Self::Pem => "PEM",
            Self::Json => "JSON",
            Self::Compact => "link",
        }
    }
}

/// Decodes `bytes` if they are a text encoding; ignores whitespace.
///
/// A CBOR item or a DER certificate always contains bytes that no text encoding uses, so the result is unambiguous.
pub fn decode(bytes: Vec<u8>) -> Vec<u8> {
    match std::str::from_utf8(&bytes).ok().and_then(decode_text) {
        Some((decoded, _)) => decoded,
        None => bytes,
    }
}

pub(crate) fn decode_text(text: &str) -> Option<(Vec<u8>, Encoding)> {
    let text = strip_bom(text);
    if let Some(body) = pem_body(text) {
        return Some((decode_text(body)?.0, Encoding::Pem));
    }
    if let Some(decoded) = grouped_hex(text) {
        return Some((decoded, Encoding::Hex));
    }
    let compact: String = text
        .chars()
        .filter(|char| !char.is_ascii_whitespace())
        .collect();
    if compact.is_empty() {
        return None;
    }
    if let Ok(decoded) = base16ct::mixed::decode_vec(&compact) {
        return Some((decoded, Encoding::Hex));
    }
    let decode = [
        Base64::decode_vec,
        Base64Unpadded::decode_vec,
        Base64Url::decode_vec,
        Base64UrlUnpadded::decode_vec,
    ];
    let decoded = decode.iter().find_map(|decode| decode(&compact).ok())?;
    Some((decoded, Encoding::Base64))
}

/// The text without the byte order mark that editors write.
pub fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The body of a PEM wrapper with any label (RFC 7468 §2); one wrapper, without headers.
fn pem_body(text: &str) -> Option<&str> {
    let rest = text.trim().strip_prefix("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let body = rest.trim_end().strip_suffix("-----")?;
    let (body, end) = body.rsplit_once("-----END ")?;
    (end == label && !body.contains("-----")).then_some(body)
}

/// Hex as other programs print it: `d2:84:46`, `0xd284`, `0xd2, 0x84`.
fn grouped_hex(text: &str) -> Option<Vec<u8>> {
    let groups = text.split(|char: char| char.is_ascii_whitespace() || matches!(char, ':' | ','));
    let mut digits = String::with_capacity(text.len());
    for group in groups {
        let group = group
            .strip_prefix("0x")
            .or_else(|| group.strip_prefix("0X"))
            .unwrap_or(group);
        digits.push_str(group);
    }
    if digits.is_empty() {
        return None;
    }
    base16ct::mixed::decode_vec(&digits).ok()
}

/// The elements of a JSON array as written; `None` if it does not close.
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                found.push(inner[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(inner[start..].trim());
    (depth == 0 && !quoted).then_some(found)
}
