//! A second reader of certificates, which shares no code with `x509-cert`: strict DER (X.690 §8 and §10), as far as
//! certificates use it. The tests compare the verifier with it.

use super::tests::Read;
use crate::time::UnixMillis;

/// Tag octets (X.690 §8.1.2), with the constructed bit where DER sets it.
pub(super) mod tag {
    pub(in crate::certificate) const BOOLEAN: u8 = 0x01;
    pub(in crate::certificate) const INTEGER: u8 = 0x02;
    pub(in crate::certificate) const BIT_STRING: u8 = 0x03;
    pub(in crate::certificate) const OCTET_STRING: u8 = 0x04;
    pub(in crate::certificate) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(in crate::certificate) const UTF8_STRING: u8 = 0x0c;
    pub(in crate::certificate) const PRINTABLE_STRING: u8 = 0x13;
    pub(in crate::certificate) const TELETEX_STRING: u8 = 0x14;
    pub(in crate::certificate) const IA5_STRING: u8 = 0x16;
    pub(in crate::certificate) const UTC_TIME: u8 = 0x17;
    pub(in crate::certificate) const GENERALIZED_TIME: u8 = 0x18;
    pub(in crate::certificate) const BMP_STRING: u8 = 0x1e;
    pub(in crate::certificate) const SEQUENCE: u8 = 0x30;
    pub(in crate::certificate) const SET: u8 = 0x31;
}

/// Reason of a refusal, for the panic message of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DerError(pub(super) &'static str);

const ENDS_EARLY: DerError = DerError("the DER ends early");

/// One value: its tag octet, its content, and all its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    pub(super) whole: &'a [u8],
}

/// Reads values one after another.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails if bytes are left.
    pub(super) fn finish(self) -> Result<(), DerError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(DerError("bytes after the end of a value")),
        }
    }

    /// The next value, of any tag.
    pub(super) fn any(&mut self) -> Result<Element<'a>, DerError> {
        let start = self.rest;
        let [tag, first, after @ ..] = start else {
            return Err(ENDS_EARLY);
        };
        // X.690 §8.1.2.4: the form for tags from 31 on, which certificates do not use.
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
    pub(super) fn element(&mut self, tag: u8) -> Result<Element<'a>, DerError> {
        let element = self.any()?;
        if element.tag == tag {
            Ok(element)
        } else {
            Err(DerError("a value of another type than expected"))
        }
    }

    /// The next value if it has this tag; otherwise reads nothing.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, DerError> {
        if self.rest.first() == Some(&tag) {
            self.any().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn sequence(&mut self) -> Result<Self, DerError> {
        Ok(Self::new(self.element(tag::SEQUENCE)?.content))
    }

    /// X.690 §8.3: a non-negative number, without the zero byte that only marks the sign.
    pub(super) fn unsigned(&mut self) -> Result<&'a [u8], DerError> {
        match self.element(tag::INTEGER)?.content {
            [] => Err(DerError("an integer without bytes")),
            [0, second, ..] if *second < 0x80 => Err(DerError("an integer with a needless zero")),
            [0, magnitude @ ..] if !magnitude.is_empty() => Ok(magnitude),
            [0x80..=0xff, ..] => Err(DerError("a negative integer")),
            magnitude => Ok(magnitude),
        }
    }

    /// `BOOLEAN DEFAULT FALSE`: true is FF (X.690 §11.1), and the default is not written (§11.5).
    pub(super) fn flag(&mut self) -> Result<bool, DerError> {
        match self.optional(tag::BOOLEAN)?.map(|value| value.content) {
            None => Ok(false),
            Some([0xff]) => Ok(true),
            Some([0]) => Err(DerError("a default that is spelt out")),
            Some(_) => Err(DerError("a boolean that is neither 00 nor FF")),
        }
    }

    /// X.690 §8.6 and §11.2.1: the bytes and how many bits of the last are unused, which are zero.
    pub(super) fn bit_string(&mut self) -> Result<(&'a [u8], u8), DerError> {
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
    pub(super) fn whole_bytes(&mut self) -> Result<&'a [u8], DerError> {
        match self.bit_string()? {
            (bytes, 0) => Ok(bytes),
            _ => Err(DerError("a bit string that does not end with a byte")),
        }
    }

    pub(super) fn oid(&mut self) -> Result<Oid<'a>, DerError> {
        Oid::new(self.element(tag::OBJECT_IDENTIFIER)?.content)
    }

    /// RFC 5280 §4.1.2.5: UTCTime until 2049 and GeneralizedTime from 2050 on, in UTC and whole seconds. Unix seconds.
    pub(super) fn time(&mut self) -> Result<u64, DerError> {
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
pub(super) struct Oid<'a>(&'a [u8]);

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
}

/// RFC 5280 §4.1: Certificate, and the TBSCertificate inside.
pub(super) fn read(der: &[u8]) -> Result<Read, DerError> {
    let mut input = Reader::new(der);
    let mut outer = input.sequence()?;
    input.finish()?;
    let signed = outer.element(tag::SEQUENCE)?;
    let algorithm = algorithm(&mut outer)?;
    let signature = outer.whole_bytes()?;
    outer.finish()?;

    let mut tbs = Reader::new(signed.content);
    // §4.1.2.1: with extensions, version 3, which is written as 2.
    match tbs.optional(0xa0)? {
        Some(version) if version.content == [tag::INTEGER, 1, 2] => {}
        _ => return Err(DerError("not of version 3")),
    }
    let serial = tbs.unsigned()?;
    if serial.len() > 20 {
        return Err(DerError("a serial number of more than 20 bytes"));
    }
    // §4.1.1.2: the outer algorithm repeats the signed one.
    if self::algorithm(&mut tbs)? != algorithm {
        return Err(DerError("two signature algorithms that differ"));
    }
    let issuer = name(&mut tbs)?;
    if issuer == [0x30, 0] {
        return Err(DerError("an empty issuer"));
    }
    let mut validity = tbs.sequence()?;
    let (not_before, not_after) = (validity.time()?, validity.time()?);
    validity.finish()?;
    let subject = name(&mut tbs)?;
    let mut key_info = tbs.sequence()?;
    self::algorithm(&mut key_info)?;
    let key = key_info.whole_bytes()?;
    key_info.finish()?;
    let (constraints, usage) = match tbs.optional(0xa3)? {
        Some(extensions) => read_extensions(extensions.content)?,
        None => (None, None),
    };
    tbs.finish()?;
    Ok(Read {
        tbs: signed.whole.to_vec(),
        serial: serial.to_vec(),
        names: [issuer.to_vec(), subject.to_vec()],
        validity: [not_before, not_after],
        constraints,
        usage,
        key: key.to_vec(),
        signature: signature.to_vec(),
    })
}

/// RFC 5280 §4.1.1.2: an identifier and, for some, parameters. Returns the content.
fn algorithm<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DerError> {
    let element = reader.element(tag::SEQUENCE)?;
    let mut parts = Reader::new(element.content);
    parts.oid()?;
    if !parts.is_empty() {
        parts.any()?;
    }
    parts.finish()?;
    Ok(element.content)
}

/// RFC 5280 §4.1.2.4: a sequence of relative names, each a set of attributes. Returns all its bytes.
fn name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DerError> {
    let element = reader.element(tag::SEQUENCE)?;
    let mut sequence = Reader::new(element.content);
    while !sequence.is_empty() {
        let mut set = Reader::new(sequence.element(tag::SET)?.content);
        let mut before: &[u8] = &[];
        while !set.is_empty() {
            let attribute = set.element(tag::SEQUENCE)?;
            // X.690 §11.6: in ascending order, without repetition.
            if attribute.whole <= before {
                return Err(DerError("a name whose set is not in order"));
            }
            before = attribute.whole;
            let mut pair = Reader::new(attribute.content);
            pair.oid()?;
            if !is_text(&pair.any()?) {
                return Err(DerError("a name with a value that is not text"));
            }
            pair.finish()?;
        }
        if before.is_empty() {
            return Err(DerError("a name with an empty set"));
        }
    }
    Ok(element.whole)
}

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

type Recognised = (Option<(bool, bool, Option<u8>)>, Option<Vec<bool>>);

/// RFC 5280 §4.2. `der` is inside the explicit tag.
fn read_extensions(der: &[u8]) -> Result<Recognised, DerError> {
    let mut input = Reader::new(der);
    let mut list = input.sequence()?;
    input.finish()?;
    if list.is_empty() {
        return Err(DerError("an empty list of extensions"));
    }
    let (mut constraints, mut usage) = (None, None);
    let mut seen: Vec<Oid<'_>> = Vec::new();
    while !list.is_empty() {
        let mut extension = list.sequence()?;
        let oid = extension.oid()?;
        let critical = extension.flag()?;
        let value = extension.element(tag::OCTET_STRING)?.content;
        extension.finish()?;
        if seen.contains(&oid) {
            return Err(DerError("an extension twice"));
        }
        seen.push(oid);
        match oid.0 {
            [0x55, 0x1d, 19] => {
                let (ca, path_length) = basic_constraints(value)?;
                constraints = Some((critical, ca, path_length));
            }
            [0x55, 0x1d, 15] => usage = Some(key_usage(value)?),
            _ if critical => return Err(DerError("an unknown critical extension")),
            _ => {}
        }
    }
    Ok((constraints, usage))
}

fn basic_constraints(der: &[u8]) -> Result<(bool, Option<u8>), DerError> {
    let mut input = Reader::new(der);
    let mut sequence = input.sequence()?;
    input.finish()?;
    let ca = sequence.flag()?;
    let path_length = match sequence.is_empty() {
        true => None,
        false => match sequence.unsigned()? {
            [length] => Some(*length),
            _ => return Err(DerError("a path length over 255")),
        },
    };
    sequence.finish()?;
    Ok((ca, path_length))
}

fn key_usage(der: &[u8]) -> Result<Vec<bool>, DerError> {
    let mut input = Reader::new(der);
    let (bytes, unused) = input.bit_string()?;
    input.finish()?;
    // X.690 §11.2.2: a list of named bits ends with the last that is set.
    if bytes.last().is_some_and(|last| last >> unused & 1 == 0) {
        return Err(DerError("a key usage that ends with bits that are not set"));
    }
    let bits = match *bytes {
        [] => 0,
        [first] => u16::from_be_bytes([first, 0]),
        [first, 0x80] => u16::from_be_bytes([first, 0x80]),
        _ => return Err(DerError("an unknown key usage")),
    };
    Ok((0..9).map(|bit| bits << bit & 0x8000 != 0).collect())
}
