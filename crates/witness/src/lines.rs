//! Numbers, hashes and lines, as all of C2SP's text formats write them.

use base64ct::{Base64, Encoding as _};
use merkle::{Hash, MAX_PATH};

/// Reads a decimal number in its only form: ASCII digits, without a leading zero or a sign.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.is_empty() && !text.starts_with('0'));
    is_canonical.then(|| text.parse().ok())?
}

/// Reads 32 bytes in base64 with padding.
pub(crate) fn hash(text: &str) -> Option<Hash> {
    let mut bytes = [0; 32];
    let read = Base64::decode(text, &mut bytes).ok()?;
    (read.len() == 32).then_some(bytes)
}

/// Writes bytes in base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// Takes the next line, which a newline ends.
pub(crate) fn take_line<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (line, after) = rest.split_once('\n')?;
    *rest = after;
    Some(line)
}

/// Takes the hashes up to an empty line, at most [`MAX_PATH`] of them.
pub(crate) fn take_path(rest: &mut &str) -> Option<Vec<Hash>> {
    let mut path = Vec::new();
    loop {
        match take_line(rest)? {
            "" => return Some(path),
            _ if path.len() == MAX_PATH => return None,
            line => path.push(hash(line)?),
        }
    }
}

/// Writes hashes, one in a line, and the empty line that ends them.
pub(crate) fn push_path(out: &mut String, path: &[Hash]) {
    for hash in path {
        out.push_str(&base64(hash));
        out.push('\n');
    }
    out.push('\n');
}
