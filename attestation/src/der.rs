//! Strict DER (X.690 §8 and §10), as much of it as a certificate has.
//!
//! One value has one encoding: what BER would let pass is an error. Everything that is read borrows from the input.

use crate::time::UnixMillis;
use std::fmt;

/// Tag octets (X.690 §8.1.2), with the bit of constructed values where DER has it set.
pub(crate) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const PRINTABLE_STRING: u8 = 0x13;
    pub(crate) const TELETEX_STRING: u8 = 0x14;
    pub(crate) const IA5_STRING: u8 = 0x16;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const BMP_STRING: u8 = 0x1e;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
}

/// What is wrong with the bytes, in words that follow "the certificate: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DerError(pub(crate) &'static str);

impl fmt::Display for DerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

const ENDS_EARLY: DerError = DerError("the DER ends early");

/// One value: its tag octet, its content, and all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    pub(crate) whole: &'a [u8],
}

/// Reads values one after another.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may follow what was read.
    pub(crate) fn finish(self) -> Result<(), DerError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(DerError("bytes after the end of a value")),
        }
    }

    /// The next value, whatever it is.
    pub(crate) fn any(&mut self) -> Result<Element<'a>, DerError> {
        let start = self.rest;
        let [tag, first, after @ ..] = start else {
            return Err(ENDS_EARLY);
        };
        // X.690 §8.1.2.4: the form for tags from 31 on, which nothing in a certificate has.
        if tag & 0x1f == 0x1f {
            return Err(DerError("a tag of several bytes"));
        }
        // X.690 §10.1: the definite form, in the fewest bytes. A certificate has at most 1,024.
        let (length, after) = match (first, after) {
            (0..=0x7f, _) => (usize::from(*first), after),
            (0x81, [length @ 0x80..=0xff, after @ ..]) => (usize::from(*length), after),
            (0x82, [high @ 1..=0xff, low, after @ ..]) => {
                (usize::from(*high) << 8 | usize::from(*low), after)
            }
            _ => return Err(DerError("a length that is not in its shortest form")),
        };
        let (content, rest) = after.split_at_checked(length).ok_or(ENDS_EARLY)?;
        self.rest = rest;
        Ok(Element {
            tag: *tag,
            content,
            whole: &start[..start.len() - rest.len()],
        })
    }

    /// The next value, which must have this tag.
    pub(crate) fn element(&mut self, tag: u8) -> Result<Element<'a>, DerError> {
        let element = self.any()?;
        if element.tag == tag {
            Ok(element)
        } else {
            Err(DerError("a value of another type than expected"))
        }
    }

    /// The next value if it has this tag, else nothing is read.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, DerError> {
        if self.rest.first() == Some(&tag) {
            self.any().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(crate) fn sequence(&mut self) -> Result<Self, DerError> {
        Ok(Self::new(self.element(tag::SEQUENCE)?.content))
    }

    /// X.690 §8.3: a number that is not negative, without the zero byte that only keeps it from being negative.
    pub(crate) fn unsigned(&mut self) -> Result<&'a [u8], DerError> {
        match self.element(tag::INTEGER)?.content {
            [] => Err(DerError("an integer without bytes")),
            [0, second, ..] if *second < 0x80 => Err(DerError("an integer with a needless zero")),
            [0, magnitude @ ..] if !magnitude.is_empty() => Ok(magnitude),
            [0x80..=0xff, ..] => Err(DerError("a negative integer")),
            magnitude => Ok(magnitude),
        }
    }

    /// `BOOLEAN DEFAULT FALSE`: true is FF (X.690 §11.1), and the default is not written (§11.5).
    pub(crate) fn flag(&mut self) -> Result<bool, DerError> {
        match self.optional(tag::BOOLEAN)?.map(|value| value.content) {
            None => Ok(false),
            Some([0xff]) => Ok(true),
            Some([0]) => Err(DerError("a default that is spelt out")),
            Some(_) => Err(DerError("a boolean that is neither 00 nor FF")),
        }
    }

    /// X.690 §8.6 and §11.2.1: the bytes and how many bits of the last are unused, which are zero.
    pub(crate) fn bit_string(&mut self) -> Result<(&'a [u8], u8), DerError> {
        const BROKEN: DerError = DerError("a bit string with a wrong number of unused bits");
        let content = self.element(tag::BIT_STRING)?.content;
        let (unused @ 0..=7, bytes) = content.split_first().ok_or(BROKEN)? else {
            return Err(BROKEN);
        };
        match bytes.last() {
            None if *unused > 0 => Err(BROKEN),
            Some(last) if last & ((1 << unused) - 1) != 0 => {
                Err(DerError("a bit string whose unused bits are not zero"))
            }
            _ => Ok((bytes, *unused)),
        }
    }

    /// A bit string of whole bytes.
    pub(crate) fn whole_bytes(&mut self) -> Result<&'a [u8], DerError> {
        match self.bit_string()? {
            (bytes, 0) => Ok(bytes),
            _ => Err(DerError("a bit string that does not end with a byte")),
        }
    }

    pub(crate) fn oid(&mut self) -> Result<Oid<'a>, DerError> {
        Oid::new(self.element(tag::OBJECT_IDENTIFIER)?.content)
    }

    /// RFC 5280 §4.1.2.5: UTCTime until 2049 and GeneralizedTime from 2050 on, in UTC and whole seconds. Unix seconds.
    pub(crate) fn time(&mut self) -> Result<u64, DerError> {
        const BROKEN: DerError =
            DerError("a date that does not exist, or is not in UTC and whole seconds");
        let Element { tag, content, .. } = self.any()?;
        let (text, b"Z") = content
            .split_at_checked(content.len().saturating_sub(1))
            .ok_or(BROKEN)?
        else {
            return Err(BROKEN);
        };
        if !text.iter().all(u8::is_ascii_digit) {
            return Err(BROKEN);
        }
        let (century, text) = match (tag, text.len()) {
            // §4.1.2.5.1: 50 to 99 are of the twentieth century.
            (tag::UTC_TIME, 12) if text[0] >= b'5' => (19, text),
            (tag::UTC_TIME, 12) => (20, text),
            (tag::GENERALIZED_TIME, 14) => (pair(text, 0), &text[2..]),
            _ => return Err(BROKEN),
        };
        let year = century * 100 + pair(text, 0);
        if (tag == tag::GENERALIZED_TIME) != (year >= 2050) {
            return Err(DerError("a date in the wrong type for its year"));
        }
        let [month, day, hour, minute, second] = [2, 4, 6, 8, 10].map(|at| pair(text, at));
        UnixMillis::from_civil([year, month, day], [hour, minute, second])
            .map(UnixMillis::seconds)
            .ok_or(BROKEN)
    }
}

/// Two decimal digits.
fn pair(digits: &[u8], at: usize) -> u64 {
    let digit = |at: usize| u64::from(digits[at] - b'0');
    digit(at) * 10 + digit(at + 1)
}

/// An object identifier (X.690 §8.19), as its content octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oid<'a>(&'a [u8]);

impl<'a> Oid<'a> {
    /// Seven bits a byte, each arc in the fewest bytes and within 32 bits, of which the longest in use has 30.
    fn new(content: &'a [u8]) -> Result<Self, DerError> {
        let mut arcs = content.split_inclusive(|byte| *byte < 0x80).peekable();
        let sound = arcs.peek().is_some()
            && arcs.all(|arc| {
                let ends = arc.last().is_some_and(|byte| *byte < 0x80);
                ends && arc[0] != 0x80 && (arc.len() < 5 || arc.len() == 5 && arc[0] <= 0x8f)
            });
        if sound {
            Ok(Self(content))
        } else {
            Err(DerError("a broken object identifier"))
        }
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Display for Oid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arcs = self.0.split_inclusive(|byte| *byte < 0x80);
        for (at, arc) in arcs.enumerate() {
            let value = arc
                .iter()
                .fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
            match at {
                // X.690 §8.19.4: the first two arcs share a number.
                0 => write!(
                    f,
                    "{}.{}",
                    (value / 40).min(2),
                    value - (value / 40).min(2) * 40
                )?,
                _ => write!(f, ".{value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_value_has_one_head() {
        let long = |head: &[u8], length: usize| [head, &vec![7; length]].concat();
        for (bytes, length) in [
            (vec![4, 0], 0),
            (long(&[4, 0x7f], 127), 127),
            (long(&[4, 0x81, 0x80], 128), 128),
            (long(&[4, 0x81, 0xff], 255), 255),
            (long(&[4, 0x82, 1, 0], 256), 256),
        ] {
            let element = Reader::new(&bytes).element(tag::OCTET_STRING).unwrap();
            assert_eq!(element.content.len(), length);
            assert_eq!(element.whole, bytes);
            // One byte fewer is too few, one more is left.
            let shorter = &bytes[..bytes.len() - 1];
            assert!(Reader::new(shorter).any().is_err(), "{length}");
            let more = [&bytes[..], &[0]].concat();
            let mut reader = Reader::new(&more);
            reader.any().unwrap();
            assert!(reader.finish().is_err());
        }
        for bytes in [
            vec![],
            vec![4],
            // Indefinite, and each length in more bytes than it needs.
            vec![4, 0x80, 0, 0],
            long(&[4, 0x81, 0x7f], 127),
            long(&[4, 0x82, 0, 0xff], 255),
            long(&[4, 0x83, 0, 1, 0], 256),
            vec![4, 0xff],
            // A tag of several bytes.
            vec![0x1f, 4, 0],
            vec![0xbf, 0x21, 0],
        ] {
            assert!(Reader::new(&bytes).any().is_err(), "{bytes:02x?}");
        }
    }

    #[test]
    fn another_type_is_not_read_as_the_expected_one() {
        // Constructed, of another class, of another number.
        for first in [0x24, 0x84, 5] {
            assert!(Reader::new(&[first, 0]).element(tag::OCTET_STRING).is_err());
        }
        let mut reader = Reader::new(&[5, 0]);
        assert_eq!(reader.optional(tag::OCTET_STRING), Ok(None));
        assert_eq!(reader.any().unwrap().tag, 5);
        assert!(reader.is_empty());
    }

    #[test]
    fn integers_are_read_without_their_sign() {
        for (content, magnitude) in [
            (&[0][..], &[0][..]),
            (&[1], &[1]),
            (&[0x7f, 0xff], &[0x7f, 0xff]),
            (&[0, 0x80], &[0x80]),
        ] {
            let der = [&[2, u8::try_from(content.len()).unwrap()], content].concat();
            assert_eq!(Reader::new(&der).unsigned(), Ok(magnitude));
        }
        for content in [&[][..], &[0, 1], &[0, 0x7f, 1], &[0x80], &[0xff, 0xff]] {
            let der = [&[2, u8::try_from(content.len()).unwrap()], content].concat();
            assert!(Reader::new(&der).unsigned().is_err(), "{content:02x?}");
        }
    }

    #[test]
    fn dates_are_read_in_the_type_of_their_year() {
        let read = |tag: u8, text: &str| {
            let der = [&[tag, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            Reader::new(&der).time().ok()
        };
        for (tag, text, seconds) in [
            (tag::UTC_TIME, "700101000000Z", 0),
            (tag::UTC_TIME, "000229120000Z", 951_825_600),
            (tag::UTC_TIME, "491231235959Z", 2_524_607_999),
            (tag::GENERALIZED_TIME, "20500101000000Z", 2_524_608_000),
            (tag::GENERALIZED_TIME, "99991231235959Z", 253_402_300_799),
        ] {
            assert_eq!(read(tag, text), Some(seconds), "{text}");
        }
        for (tag, text) in [
            (tag::UTC_TIME, ""),
            (tag::UTC_TIME, "Z"),
            (tag::UTC_TIME, "491231235959"),
            (tag::UTC_TIME, "4912312359Z"),
            (tag::UTC_TIME, "491231235959+0000"),
            (tag::UTC_TIME, "491231235960Z"),
            (tag::UTC_TIME, "490229000000Z"),
            (tag::UTC_TIME, "491331000000Z"),
            (tag::UTC_TIME, "49123124000 Z"),
            (tag::UTC_TIME, "500101000000Z"),
            (tag::GENERALIZED_TIME, "20491231235959Z"),
            (tag::GENERALIZED_TIME, "20500101000000.5Z"),
            (tag::GENERALIZED_TIME, "205001010000Z"),
            (tag::OCTET_STRING, "491231235959Z"),
        ] {
            assert_eq!(read(tag, text), None, "{text}");
        }
    }

    #[test]
    fn identifiers_are_read_and_written() {
        for (content, text) in [
            (&[0x55, 0x1d, 0x13][..], "2.5.29.19"),
            (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], "1.2.840.10045.2.1"),
            (&[0x27], "0.39"),
            (&[0x28], "1.0"),
            (&[0x88, 0x37], "2.999"),
            (&[0x2a, 0x86, 0x80, 1], "1.2.98305"),
            (&[0x2a, 0x8f, 0xff, 0xff, 0xff, 0x7f], "1.2.4294967295"),
        ] {
            assert_eq!(Oid::new(content).unwrap().to_string(), text);
        }
        for content in [
            &[][..],
            &[0x80],
            &[0x2a, 0x80, 1],
            &[0x2a, 0x86],
            &[0x2a, 0x90, 0x80, 0x80, 0x80, 0],
            &[0x2a, 0x81, 0x80, 0x80, 0x80, 0x80, 0],
        ] {
            assert!(Oid::new(content).is_err(), "{content:02x?}");
        }
    }
}
