//! Display form of a distinguished name (RFC 4514). No decision depends on these strings.
//!
//! `x509-cert` produces the same form, but its dictionary of all X.509 names adds 24 kB to every page.

use std::fmt::{self, Write as _};

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::{Encode, Tag, Tagged};
use x509_cert::name::Name;

/// RFC 4514 §3: the short names that every implementation knows, all under 2.5.4.
const SHORT: [(u8, &str); 7] = [
    (3, "CN"),
    (6, "C"),
    (7, "L"),
    (8, "ST"),
    (9, "STREET"),
    (10, "O"),
    (11, "OU"),
];

/// `CN=…,OU=…,O=…,C=…`: the last element first (RFC 4514 §2.1), the attributes of one joined by `+` (§2.2).
pub(crate) struct DisplayName<'a>(pub(crate) &'a Name);

impl fmt::Display for DisplayName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter_rdn().collect();
        for (at, part) in parts.iter().rev().enumerate() {
            for (index, attribute) in part.iter().enumerate() {
                match (at, index) {
                    (0, 0) => {}
                    (_, 0) => f.write_char(',')?,
                    _ => f.write_char('+')?,
                }
                write_attribute(attribute, f)?;
            }
        }
        Ok(())
    }
}

/// RFC 4514 §2.3: a known type with its text; other values as numbers and hexadecimal DER.
fn write_attribute(attribute: &AttributeTypeAndValue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let short = match attribute.oid.as_bytes() {
        [0x55, 4, last] => SHORT.iter().find(|(arc, _)| arc == last),
        _ => None,
    };
    let value = &attribute.value;
    let text = match value.tag() {
        Tag::PrintableString | Tag::Utf8String | Tag::Ia5String => {
            std::str::from_utf8(value.value()).ok()
        }
        _ => None,
    };
    if let (Some((_, short)), Some(text)) = (short, text) {
        write!(f, "{short}=")?;
        return escape(text, f);
    }
    write!(f, "{}=#", attribute.oid)?;
    let der = value.to_der().map_err(|_| fmt::Error)?;
    der.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// RFC 4514 §2.4.
fn escape(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let last = text.char_indices().last().map_or(0, |(at, _)| at);
    for (at, char) in text.char_indices() {
        match char {
            '#' if at == 0 => f.write_str("\\#")?,
            ' ' if at == 0 || at == last => f.write_str("\\ ")?,
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => write!(f, "\\{char}")?,
            '\x00'..='\x1f' | '\x7f' => write!(f, "\\{:02x}", char as u32)?,
            _ => f.write_char(char)?,
        }
    }
    Ok(())
}
