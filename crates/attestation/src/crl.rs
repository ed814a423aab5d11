//! One certificate revocation list (RFC 5280 §5), in strict DER, read in place.
//!
//! `x509-cert` would collect the entries into a vector, about 100 bytes for each 20 that are sent. This reader makes one
//! pass and allocates nothing. The tests compare it with `x509-cert` and webpki.

use der::Decode;
use x509_cert::time::Time;

use crate::error::ErrorCode;

/// Upper bound on the revocation lists of one appraisal, in bytes together.
pub const MAX_CRLS: usize = 10 * 1024 * 1024;

/// AlgorithmIdentifier of ecdsa-with-SHA384 (RFC 5758 §3.2: without parameters).
const ECDSA_WITH_SHA384: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03,
];
/// RFC 5280 §4.1.2.5: a time is UTCTime before this second, and GeneralizedTime from it on.
const YEAR_2050: u64 = 2_524_608_000;

/// Tag octets (X.690 §8.1.2), with the constructed bit where DER sets it.
mod tag {
    pub(super) const BOOLEAN: u8 = 0x01;
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const BIT_STRING: u8 = 0x03;
    pub(super) const OCTET_STRING: u8 = 0x04;
    pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(super) const GENERALIZED_TIME: u8 = 0x18;
    pub(super) const SEQUENCE: u8 = 0x30;
    /// `[0]`, constructed.
    pub(super) const CONTEXT_0: u8 = 0xa0;
}

/// Why a list is refused, or is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: ErrorCode,
    pub(crate) what: &'static str,
}

const fn fault(code: ErrorCode, what: &'static str) -> Fault {
    Fault { code, what }
}

const fn malformed(what: &'static str) -> Fault {
    fault(ErrorCode::CrlMalformed, what)
}

const NOT_DER: Fault = malformed("not in DER");

/// A list up to its issuer: enough to decide whether it concerns a chain.
pub(crate) struct Crl<'a> {
    /// The bytes that the issuer signed.
    pub(crate) tbs: &'a [u8],
    /// The issuer's name, encoded.
    pub(crate) issuer: &'a [u8],
    /// The issuer's signature, an ECDSA value in DER.
    pub(crate) signature: &'a [u8],
    algorithms: [&'a [u8]; 2],
    /// Reader of the signed fields after the issuer's name.
    rest: Values<'a>,
}

/// The rest of a list, for one certificate.
pub(crate) struct Contents<'a> {
    /// Unix seconds.
    pub(crate) this_update: u64,
    /// Unix seconds.
    pub(crate) next_update: u64,
    /// Content of the issuingDistributionPoint.
    scope: Option<Values<'a>>,
    /// The entry of the certificate in question.
    pub(crate) revoked: Option<Revoked>,
}

/// A certificate's entry.
#[derive(Clone, Copy)]
pub(crate) struct Revoked {
    /// Unix seconds.
    pub(crate) since: u64,
    /// RFC 5280 §5.3.1.
    pub(crate) reason: &'static str,
}

impl<'a> Crl<'a> {
    /// RFC 5280 §5.1: takes the next list from `lists`, which are concatenated without separators.
    pub(crate) fn split(lists: &mut &'a [u8]) -> Result<Self, Fault> {
        let mut input = Values(lists);
        let mut outer = Values(input.expect(tag::SEQUENCE)?.content);
        *lists = input.0;
        let signed = outer.expect(tag::SEQUENCE)?;
        let outer_algorithm = outer.expect(tag::SEQUENCE)?.whole;
        let [0, signature @ ..] = outer.expect(tag::BIT_STRING)?.content else {
            return Err(malformed("a signature that does not end with a byte"));
        };
        outer.finish()?;
        let mut rest = Values(signed.content);
        // §5.1.2.1: version 2, encoded as 1. Version 1 has no extensions, so it could not state what it leaves out.
        if rest.expect(tag::INTEGER)?.content != [1] {
            return Err(malformed("not of version 2"));
        }
        Ok(Self {
            tbs: signed.whole,
            signature,
            algorithms: [rest.expect(tag::SEQUENCE)?.whole, outer_algorithm],
            issuer: rest.expect(tag::SEQUENCE)?.whole,
            rest,
        })
    }

    /// Reads the whole list, and finds the entry of this serial number: big-endian, without leading zeros.
    pub(crate) fn read(&self, serial: &[u8]) -> Result<Contents<'a>, Fault> {
        // §5.1.1.2: the outer algorithm repeats the signed one.
        if self.algorithms[0] != self.algorithms[1] {
            return Err(malformed("two signature algorithms that differ"));
        }
        if self.algorithms[0] != ECDSA_WITH_SHA384 {
            let what = "not signed with ECDSA and SHA-384";
            return Err(fault(ErrorCode::CrlAlgorithm, what));
        }
        let mut rest = Values(self.rest.0);
        let this_update = rest.time()?;
        // §5.1.2.5: required here too. A list without an end would stay valid forever.
        let next_update = match rest.0.first() {
            None | Some(&(tag::SEQUENCE | tag::CONTEXT_0)) => {
                return Err(malformed("no nextUpdate"));
            }
            Some(_) => rest.time()?,
        };
        let mut revoked = None;
        if let Some(entries) = rest.optional(tag::SEQUENCE)? {
            let mut entries = Values(entries);
            while !entries.is_empty() {
                let entry = Values(entries.expect(tag::SEQUENCE)?.content);
                let (of, found) = read_entry(entry)?;
                if of == serial {
                    revoked.get_or_insert(found);
                }
            }
        }
        let mut scope = None;
        if let Some(extensions) = rest.optional(tag::CONTEXT_0)? {
            read_extensions(Values(extensions), |arc, critical, value| {
                match arc {
                    // §5.2.4: a list of changes to another list.
                    Some(27) => return Err(fault(ErrorCode::CrlDelta, "a delta CRL")),
                    // §5.2.5.
                    Some(28) => scope = Some(Values(Values(value).only(tag::SEQUENCE)?)),
                    // §5.2: a list with an unrecognised critical extension cannot be used for any certificate.
                    _ if critical => return Err(UNKNOWN_CRITICAL),
                    _ => {}
                }
                Ok(())
            })?;
        }
        rest.finish()?;
        if let Some(scope) = &scope {
            check_scope(scope)?;
        }
        Ok(Contents {
            this_update,
            next_update,
            scope,
            revoked,
        })
    }
}

const UNKNOWN_CRITICAL: Fault = fault(
    ErrorCode::CrlCriticalExtension,
    "a critical extension that this verifier does not know",
);

/// RFC 5280 §5.2.5: one element of an issuingDistributionPoint changes which certificates the entries belong to.
fn check_scope(scope: &Values<'_>) -> Result<(), Fault> {
    let mut elements = Values(scope.0);
    let mut before = 0;
    while !elements.is_empty() {
        let element = elements.next()?;
        // In order and once each; a flag is present only if it is set (X.690 §11.5).
        let known = matches!(
            (element.tag, element.content),
            (0xa0 | 0x83, _) | (0x81 | 0x82 | 0x84 | 0x85, [0xff])
        );
        let place = element.tag & 0x1f;
        if !known || place < before {
            return Err(malformed("a broken issuingDistributionPoint"));
        }
        before = place + 1;
        if element.tag == 0x84 {
            let what = "an indirect CRL, which speaks for other issuers too";
            return Err(fault(ErrorCode::CrlIndirect, what));
        }
    }
    Ok(())
}

impl Contents<'_> {
    /// RFC 5280 §6.3.3 (b): whether the absence of a certificate from this list means that it is not revoked. `points` is the
    /// value of the certificate's cRLDistributionPoints.
    pub(crate) fn covers(&self, ca: bool, points: Option<&[u8]>) -> Result<(), &'static str> {
        let mut scope = Values(self.scope.as_ref().map_or(&[], |scope| scope.0));
        while let Ok(element) = scope.next() {
            match element.tag {
                0xa0 if !points.is_some_and(|points| names_point(points, element.content)) => {
                    return Err("of another distribution point than the certificate names");
                }
                0x81 if ca => return Err("of certificates that are not CAs alone"),
                0x82 if !ca => return Err("of CA certificates alone"),
                0x83 => return Err("of some reasons alone"),
                0x85 => return Err("of attribute certificates alone"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// RFC 5280 §6.3.3 (b)(2)(i): whether the list and the certificate have an address in common. `points` is the value of
/// cRLDistributionPoints (§4.2.1.13), `own` the DistributionPointName of the list. Unreadable values match nothing.
fn names_point(points: &[u8], own: &[u8]) -> bool {
    let search = || {
        let own = Values(own).only(tag::CONTEXT_0)?;
        let mut points = Values(Values(points).only(tag::SEQUENCE)?);
        while !points.is_empty() {
            let mut point = Values(points.expect(tag::SEQUENCE)?.content);
            let name = point.optional(tag::CONTEXT_0)?;
            // A point with reasons or with a cRLIssuer belongs to partial or indirect lists.
            let (Some(name), true) = (name, point.is_empty()) else {
                continue;
            };
            let mut names = Values(Values(name).only(tag::CONTEXT_0)?);
            while !names.is_empty() {
                let name = names.next()?;
                let mut own = Values(own);
                while !own.is_empty() {
                    if own.next()?.whole == name.whole {
                        return Ok(true);
                    }
                }
            }
        }
        Ok::<_, Fault>(false)
    };
    search() == Ok(true)
}

/// RFC 5280 §5.1.2.6 and §5.3: the serial number, and the entry for it.
fn read_entry(mut entry: Values<'_>) -> Result<(&[u8], Revoked), Fault> {
    let serial = match entry.expect(tag::INTEGER)?.content {
        // §4.1.2.2: positive. X.690 §8.3.2: in the fewest bytes.
        [] | [0x80..=0xff, ..] | [0, 0..=0x7f, ..] => {
            return Err(malformed("a broken serial number"));
        }
        [0, magnitude @ ..] if !magnitude.is_empty() => magnitude,
        magnitude => magnitude,
    };
    if serial.len() > 20 {
        return Err(malformed("a serial number of more than 20 bytes"));
    }
    let since = entry.time()?;
    let mut reason = "no reason given";
    if !entry.is_empty() {
        read_extensions(Values(entry.0), |arc, critical, value| {
            match arc {
                // §5.3.1: removeFromCRL (8) occurs only in delta CRLs, and 7 is not used.
                Some(21) => {
                    reason = match value {
                        [0x0a, 1, 0] => "unspecified",
                        [0x0a, 1, 1] => "keyCompromise",
                        [0x0a, 1, 2] => "cACompromise",
                        [0x0a, 1, 3] => "affiliationChanged",
                        [0x0a, 1, 4] => "superseded",
                        [0x0a, 1, 5] => "cessationOfOperation",
                        [0x0a, 1, 6] => "certificateHold",
                        [0x0a, 1, 9] => "privilegeWithdrawn",
                        [0x0a, 1, 10] => "aACompromise",
                        _ => return Err(malformed("a reason that a complete CRL cannot have")),
                    }
                }
                // §5.3.3.
                Some(29) => {
                    let what = "an entry that speaks for another issuer";
                    return Err(fault(ErrorCode::CrlIndirect, what));
                }
                _ if critical => return Err(UNKNOWN_CRITICAL),
                _ => {}
            }
            Ok(())
        })?;
    }
    Ok((serial, Revoked { since, reason }))
}

/// RFC 5280 §4.2: a sequence of at least one extension. `take` receives the last arc of an identifier under id-ce (2.5.29), the
/// criticality, and the value.
fn read_extensions<'a>(
    mut outer: Values<'a>,
    mut take: impl FnMut(Option<u8>, bool, &'a [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut list = Values(outer.expect(tag::SEQUENCE)?.content);
    outer.finish()?;
    if list.is_empty() {
        return Err(malformed("an empty list of extensions"));
    }
    let mut seen = 0u128;
    while !list.is_empty() {
        let mut extension = Values(list.expect(tag::SEQUENCE)?.content);
        let arc = match extension.expect(tag::OBJECT_IDENTIFIER)?.content {
            [0x55, 0x1d, arc @ 0..=0x7f] => Some(*arc),
            _ => None,
        };
        // X.690 §11.1 and §11.5: true is FF, and the default is not written.
        let critical = match extension.optional(tag::BOOLEAN)? {
            None => false,
            Some([0xff]) => true,
            Some(_) => return Err(NOT_DER),
        };
        let value = extension.expect(tag::OCTET_STRING)?.content;
        extension.finish()?;
        if let Some(arc) = arc {
            // §4.2: not more than one instance. For extensions that are not read, it does not matter.
            if seen & 1 << arc != 0 {
                return Err(malformed("an extension twice"));
            }
            seen |= 1 << arc;
        }
        take(arc, critical, value)?;
    }
    Ok(())
}

/// One value: its tag octet, its content, and all its bytes.
struct Value<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// Values one after another (X.690 §8.1 and §10.1).
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if bytes are left.
    fn finish(&self) -> Result<(), Fault> {
        match self.0 {
            [] => Ok(()),
            _ => Err(NOT_DER),
        }
    }

    /// The next value, of any tag.
    fn next(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.0;
        let [tag, first, rest @ ..] = start else {
            return Err(NOT_DER);
        };
        // The definite form, in the fewest bytes; 3 are enough for MAX_CRLS. A list has no multi-byte tags.
        let (size, rest) = match (first, rest) {
            (0..=0x7f, _) => (u32::from(*first), rest),
            (0x81, [a @ 0x80..=0xff, rest @ ..]) => (u32::from(*a), rest),
            (0x82, [a @ 1..=0xff, b, rest @ ..]) => (u32::from_be_bytes([0, 0, *a, *b]), rest),
            (0x83, [a @ 1..=0xff, b, c, rest @ ..]) => (u32::from_be_bytes([0, *a, *b, *c]), rest),
            _ => return Err(NOT_DER),
        };
        let split = rest.split_at_checked(size as usize);
        let (content, rest) = split.ok_or(NOT_DER)?;
        self.0 = rest;
        Ok(Value {
            tag: *tag,
            content,
            whole: &start[..start.len() - rest.len()],
        })
    }

    /// The next value, which must have this tag.
    fn expect(&mut self, tag: u8) -> Result<Value<'a>, Fault> {
        let value = self.next()?;
        match value.tag == tag {
            true => Ok(value),
            false => Err(NOT_DER),
        }
    }

    /// Content of the next value if it has this tag; otherwise reads nothing.
    fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Fault> {
        match self.0.first() == Some(&tag) {
            true => Ok(Some(self.next()?.content)),
            false => Ok(None),
        }
    }

    /// Content of the only value, which must have this tag.
    fn only(mut self, tag: u8) -> Result<&'a [u8], Fault> {
        let content = self.expect(tag)?.content;
        self.finish()?;
        Ok(content)
    }

    /// RFC 5280 §5.1.2.4: as in certificates. Unix seconds.
    fn time(&mut self) -> Result<u64, Fault> {
        let value = self.next()?;
        let time = Time::from_der(value.whole).map_err(|_| malformed("a broken time"))?;
        let seconds = time.to_unix_duration().as_secs();
        match (value.tag == tag::GENERALIZED_TIME) == (seconds >= YEAR_2050) {
            true => Ok(seconds),
            false => Err(malformed("a time in the wrong type for its year")),
        }
    }
}
