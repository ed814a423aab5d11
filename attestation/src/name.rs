//! Distinguished names (RFC 5280 §4.1.2.4), and how they look to a reader (RFC 4514).
//!
//! Nothing is decided by the strings: check 15 compares names byte by byte.

use crate::der::{DerError, Element, Oid, Reader, tag};
use std::fmt::{self, Write as _};

/// id-at-commonName.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

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

/// A sequence of relative names, each a set of attributes. Displays as RFC 4514.
#[derive(Clone, Debug)]
pub(crate) struct Name<'a> {
    /// With tag and length.
    pub(crate) der: &'a [u8],
    /// Most often one attribute each.
    relative: Vec<Vec<Attribute<'a>>>,
}

#[derive(Clone, Copy, Debug)]
struct Attribute<'a> {
    oid: Oid<'a>,
    value: Element<'a>,
}

impl<'a> Name<'a> {
    /// Reads the next value, which must be a name.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DerError> {
        let element = reader.element(tag::SEQUENCE)?;
        let mut sequence = Reader::new(element.content);
        let mut relative = Vec::new();
        while !sequence.is_empty() {
            relative.push(relative_name(sequence.element(tag::SET)?.content)?);
        }
        Ok(Self {
            der: element.whole,
            relative,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.relative.is_empty()
    }

    /// The common name, where it is there once and is text.
    pub(crate) fn common_name(&self) -> Option<&'a str> {
        let mut found = self
            .relative
            .iter()
            .flatten()
            .filter(|attribute| attribute.oid.as_bytes() == COMMON_NAME);
        match (found.next(), found.next()) {
            (Some(only), None) => std::str::from_utf8(only.value.content).ok(),
            _ => None,
        }
    }
}

fn relative_name(set: &[u8]) -> Result<Vec<Attribute<'_>>, DerError> {
    let mut set = Reader::new(set);
    let mut attributes = Vec::new();
    let mut before: &[u8] = &[];
    while !set.is_empty() {
        let element = set.element(tag::SEQUENCE)?;
        // X.690 §11.6: in ascending order; and a set holds nothing twice.
        if element.whole <= before {
            return Err(DerError("a name whose set is not in order"));
        }
        before = element.whole;
        let mut pair = Reader::new(element.content);
        let (oid, value) = (pair.oid()?, pair.any()?);
        pair.finish()?;
        if !is_text(&value) {
            return Err(DerError("a name with a value that is no text"));
        }
        attributes.push(Attribute { oid, value });
    }
    match attributes.is_empty() {
        true => Err(DerError("a name with an empty set")),
        false => Ok(attributes),
    }
}

/// RFC 5280 §4.1.2.4 and appendix A.1: a DirectoryString or an IA5String. Of those that nobody should use any more, only
/// the type is asked.
fn is_text(value: &Element<'_>) -> bool {
    let content = value.content;
    match value.tag {
        tag::UTF8_STRING => std::str::from_utf8(content).is_ok(),
        tag::PRINTABLE_STRING => content
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(byte)),
        tag::IA5_STRING => content.is_ascii(),
        tag::TELETEX_STRING | tag::BMP_STRING => true,
        _ => false,
    }
}

/// `CN=…,OU=…,O=…,C=…`: the last element first (RFC 4514 §2.1), the attributes of one joined by `+` (§2.2).
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, attributes) in self.relative.iter().rev().enumerate() {
            for (beside, attribute) in attributes.iter().enumerate() {
                match (at, beside) {
                    (0, 0) => {}
                    (_, 0) => f.write_char(',')?,
                    _ => f.write_char('+')?,
                }
                write!(f, "{attribute}")?;
            }
        }
        Ok(())
    }
}

/// RFC 4514 §2.3: a known type with its text, anything else as numbers and hexadecimal DER.
impl fmt::Display for Attribute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = match self.oid.as_bytes() {
            [0x55, 4, last] => SHORT.iter().find(|(arc, _)| arc == last),
            _ => None,
        };
        let text = match self.value.tag {
            tag::PRINTABLE_STRING | tag::UTF8_STRING | tag::IA5_STRING => {
                std::str::from_utf8(self.value.content).ok()
            }
            _ => None,
        };
        if let (Some((_, short)), Some(text)) = (short, text) {
            return write!(f, "{short}={}", Escaped(text));
        }
        write!(f, "{}=#", self.oid)?;
        self.value
            .whole
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
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
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::TrustAnchor;
    use der::Decode;

    fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn attribute(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        wrap(0x30, &[wrap(6, oid), wrap(tag, value)].concat())
    }

    /// A name of one part with these attributes.
    fn name(attributes: &[Vec<u8>]) -> Vec<u8> {
        wrap(0x30, &wrap(0x31, &attributes.concat()))
    }

    fn read(der: &[u8]) -> Result<Name<'_>, DerError> {
        Name::read(&mut Reader::new(der))
    }

    /// What we print, and what `x509-cert` prints of the same bytes.
    fn shown(der: &[u8]) -> (String, String) {
        let theirs = x509_cert::name::Name::from_der(der).unwrap();
        (read(der).unwrap().to_string(), theirs.to_string())
    }

    #[test]
    fn the_root_names_itself() {
        let root = TrustAnchor::aws_nitro_g1();
        let root = x509_cert::Certificate::from_der(root.der()).unwrap();
        let subject = der::Encode::to_der(root.tbs_certificate().subject()).unwrap();
        let (ours, theirs) = shown(&subject);
        assert_eq!(ours, "CN=aws.nitro-enclaves,OU=AWS,O=Amazon,C=US");
        assert_eq!(ours, theirs);
        assert_eq!(
            read(&subject).unwrap().common_name(),
            Some("aws.nitro-enclaves")
        );
    }

    #[test]
    fn text_is_escaped() {
        for (value, expected) in [
            ("plain", "CN=plain"),
            ("#5 a,b", "CN=\\#5 a\\,b"),
            (" edge ", "CN=\\ edge\\ "),
            ("a\\\"+;<>", "CN=a\\\\\\\"\\+\\;\\<\\>"),
            ("line\nbreak", "CN=line\\0abreak"),
            ("é", "CN=é"),
            ("", "CN="),
        ] {
            let (ours, theirs) = shown(&name(&[attribute(COMMON_NAME, 0x0c, value.as_bytes())]));
            assert_eq!(ours, expected);
            assert_eq!(ours, theirs, "as x509-cert prints it");
        }
    }

    #[test]
    fn attributes_of_one_part_are_joined_and_a_second_common_name_is_none() {
        let two = name(&[
            attribute(COMMON_NAME, 0x13, b"a"),
            attribute(COMMON_NAME, 0x13, b"b"),
        ]);
        assert_eq!(shown(&two).0, "CN=a+CN=b");
        assert_eq!(read(&two).unwrap().common_name(), None);
    }

    #[test]
    fn what_is_unknown_is_shown_in_numbers() {
        // An unknown type, and a known one whose text is of a type that nobody should use.
        for (oid, tag, expected) in [
            (&[0x2a, 3][..], 0x0c, "1.2.3=#0c0178"),
            (&[0x88, 0x37, 3], 0x0c, "2.999.3=#0c0178"),
            (COMMON_NAME, 0x1e, "2.5.4.3=#1e0178"),
        ] {
            let name = name(&[attribute(oid, tag, b"x")]);
            assert_eq!(read(&name).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let (a, b) = (
            attribute(COMMON_NAME, 0x13, b"a"),
            attribute(COMMON_NAME, 0x13, b"b"),
        );
        for (what, der) in [
            (
                "a number for a text",
                name(&[attribute(COMMON_NAME, 2, &[5])]),
            ),
            ("no UTF-8", name(&[attribute(COMMON_NAME, 0x0c, &[0xff])])),
            (
                "not printable",
                name(&[attribute(COMMON_NAME, 0x13, b"a*b")]),
            ),
            ("not ASCII", name(&[attribute(COMMON_NAME, 0x16, &[0x80])])),
            ("out of order", name(&[b, a.clone()])),
            ("twice the same", name(&[a.clone(), a])),
            ("an empty set", name(&[])),
            ("no identifier", name(&[attribute(&[], 0x0c, b"x")])),
            (
                "an identifier that ends early",
                name(&[attribute(&[0x88], 0x0c, b"x")]),
            ),
            (
                "an identifier with padding",
                name(&[attribute(&[0x2a, 0x80, 3], 0x0c, b"x")]),
            ),
        ] {
            assert!(read(&der).is_err(), "{what}");
        }
    }
}
