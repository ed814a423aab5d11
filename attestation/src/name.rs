//! Distinguished names for a reader (RFC 4514).
//!
//! Nothing is decided by these strings: check 15 compares names byte by byte. `x509-cert` can print names too, with the
//! names of all known object identifiers, which is 36 kB in a browser for the seven that occur.

use der::asn1::ObjectIdentifier;
use der::{Encode, Tag, Tagged};
use std::fmt::{self, Write as _};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::name::{Name, RelativeDistinguishedName};

/// RFC 4514 §3: the short names that every implementation knows.
const SHORT: [(ObjectIdentifier, &str); 7] = [
    (ObjectIdentifier::new_unwrap("2.5.4.3"), "CN"),
    (ObjectIdentifier::new_unwrap("2.5.4.6"), "C"),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), "L"),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), "ST"),
    (ObjectIdentifier::new_unwrap("2.5.4.9"), "STREET"),
    (ObjectIdentifier::new_unwrap("2.5.4.10"), "O"),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), "OU"),
];

/// `CN=…,OU=…,O=…,C=…`: the last element first (RFC 4514 §2.1).
pub(crate) fn display(name: &Name) -> String {
    let mut parts: Vec<String> = name.iter_rdn().map(relative).collect();
    parts.reverse();
    parts.join(",")
}

/// RFC 4514 §2.2.
fn relative(part: &RelativeDistinguishedName) -> String {
    let attributes: Vec<String> = part.iter().map(attribute).collect();
    attributes.join("+")
}

/// RFC 4514 §2.3: a known type with its text, anything else as numbers and hexadecimal DER.
fn attribute(attribute: &AttributeTypeAndValue) -> String {
    let short = SHORT.iter().find(|(oid, _)| *oid == attribute.oid);
    let text = match attribute.value.tag() {
        Tag::PrintableString | Tag::Utf8String | Tag::Ia5String => {
            std::str::from_utf8(attribute.value.value()).ok()
        }
        _ => None,
    };
    match (short, text) {
        (Some((_, short)), Some(text)) => format!("{short}={}", Escaped(text)),
        _ => {
            let mut out = format!("{}=#", attribute.oid);
            for byte in attribute.value.to_der().unwrap_or_default() {
                // Writing to a string cannot fail.
                let _ = write!(out, "{byte:02x}");
            }
            out
        }
    }
}

/// RFC 4514 §2.4.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.char_indices().last().map_or(0, |(at, _)| at);
        for (at, char) in self.0.char_indices() {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrustAnchor;
    use der::Decode;

    /// A name of one part with one attribute.
    fn name(oid: &[u8], tag: u8, value: &[u8]) -> Name {
        let wrap = |tag: u8, content: &[u8]| {
            let mut out = vec![tag, u8::try_from(content.len()).unwrap()];
            out.extend_from_slice(content);
            out
        };
        let inner = [wrap(6, oid), wrap(tag, value)].concat();
        Name::from_der(&wrap(0x30, &wrap(0x31, &wrap(0x30, &inner)))).unwrap()
    }

    #[test]
    fn the_root_names_itself() {
        let root = TrustAnchor::aws_nitro_g1();
        let root = x509_cert::Certificate::from_der(root.der()).unwrap();
        let subject = root.tbs_certificate().subject();
        assert_eq!(
            display(subject),
            "CN=aws.nitro-enclaves,OU=AWS,O=Amazon,C=US"
        );
        assert_eq!(display(subject), subject.to_string());
    }

    #[test]
    fn text_is_escaped() {
        for (value, shown) in [
            ("plain", "CN=plain"),
            ("#5 a,b", "CN=\\#5 a\\,b"),
            (" edge ", "CN=\\ edge\\ "),
            ("a\\\"+;<>", "CN=a\\\\\\\"\\+\\;\\<\\>"),
            ("line\nbreak", "CN=line\\0abreak"),
            ("é", "CN=é"),
            ("", "CN="),
        ] {
            let name = name(&[0x55, 4, 3], 0x0c, value.as_bytes());
            assert_eq!(display(&name), shown);
            assert_eq!(display(&name), name.to_string(), "as x509-cert prints it");
        }
    }

    #[test]
    fn what_is_unknown_is_shown_in_numbers() {
        // An unknown type, and a known one with a value that is no text.
        assert_eq!(display(&name(&[0x2a, 3], 0x0c, b"x")), "1.2.3=#0c0178");
        assert_eq!(display(&name(&[0x55, 4, 3], 2, &[5])), "2.5.4.3=#020105");
    }
}
