//! Walks over a Binary HTTP message without allocating: finds its end and enforces every size limit.

use super::{InnerError, MAX_FIELD_SECTION, MAX_FIELDS, MAX_PATH, MAX_REQUEST, MAX_RESPONSE};

/// One message, in place.
pub(super) struct Survey<'a> {
    pub(super) control: Control<'a>,
    pub(super) fields: Section<'a>,
    pub(super) content: &'a [u8],
    pub(super) trailers: Section<'a>,
    /// Offset of the first byte of padding.
    pub(super) end: usize,
}

/// Control data of the two known-length forms of a message (RFC 9292 §3.3).
pub(super) enum Control<'a> {
    /// Method, scheme, authority and path.
    Request([&'a [u8]; 4]),
    /// The status.
    Response(u16),
}

const LONGEST_TOKEN: usize = 256;
pub(super) const SIZE: &str = "size, 4 MiB a request and 16 MiB a response";

/// Walks over one message and its padding.
pub(super) fn survey(bytes: &[u8]) -> Result<Survey<'_>, InnerError> {
    let mut walk = Walk { rest: bytes };
    let (is_request, most) = match walk.integer()? {
        0 => (true, MAX_REQUEST),
        1 => (false, MAX_RESPONSE),
        _ => {
            return Err(InnerError::Malformed(
                "framing indicator, 0 for requests, 1 for responses",
            ));
        }
    };
    if bytes.len() > most {
        return Err(InnerError::TooLarge(SIZE));
    }
    let control = match is_request {
        true => walk.request_control()?,
        // The number of informational responses is unbounded, and this service sends none.
        false => Control::Response(check_status(walk.integer()?)?),
    };
    let fields = walk.fields("header section, 8 KiB")?;
    // RFC 9292 §3.8: a message may end before its content.
    let content = walk.section(most, SIZE)?;
    let trailers = walk.fields("trailer section, 8 KiB")?;
    let end = bytes.len() - walk.rest.len();
    // RFC 9292 §3.8: nonzero bytes after the message make it invalid.
    if walk.rest.iter().any(|byte| *byte != 0) {
        return Err(InnerError::Padding);
    }
    Ok(Survey {
        control,
        fields,
        content,
        trailers,
        end,
    })
}

/// Returns a final status code.
pub(super) fn check_status(code: u64) -> Result<u16, InnerError> {
    match u16::try_from(code) {
        Ok(code @ 200..=599) => Ok(code),
        _ => Err(InnerError::Control("status code; send 200 to 599")),
    }
}

/// The field lines of a section whose lengths were checked.
pub(super) struct Section<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Section<'a> {
    /// Name and value.
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let mut walk = Walk { rest: self.rest };
        let line = walk.line().ok()?;
        self.rest = walk.rest;
        Some(line)
    }
}

pub(super) struct Walk<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Walk<'a> {
    #[inline]
    pub(super) fn request_control(&mut self) -> Result<Control<'a>, InnerError> {
        Ok(Control::Request([
            self.span(LONGEST_TOKEN, "method, 16 letters")?,
            self.span(LONGEST_TOKEN, "scheme, https")?,
            self.span(LONGEST_TOKEN, "authority, 256 bytes")?,
            self.span(MAX_PATH, "path, 2,048 bytes")?,
        ]))
    }

    /// A variable-length integer of QUIC (RFC 9000 §16).
    pub(super) fn integer(&mut self) -> Result<u64, InnerError> {
        let first = *self.rest.first().ok_or(CUT_OFF)?;
        let length = 1usize << (first >> 6);
        let encoded = self.take(length)?;
        let tail = encoded[1..]
            .iter()
            .fold(u64::from(first & 0x3f), |value, byte| {
                value << 8 | u64::from(*byte)
            });
        Ok(tail)
    }

    /// A length, then that many bytes.
    pub(super) fn span(
        &mut self,
        limit: usize,
        what: &'static str,
    ) -> Result<&'a [u8], InnerError> {
        let length = self.integer()?;
        match usize::try_from(length) {
            Ok(length) if length <= limit => self.take(length),
            _ => Err(InnerError::TooLarge(what)),
        }
    }

    /// Like [`Self::span`]; RFC 9292 §3.8 lets a sender omit empty sections at the end.
    fn section(&mut self, limit: usize, what: &'static str) -> Result<&'a [u8], InnerError> {
        if self.rest.is_empty() {
            Ok(&[])
        } else {
            self.span(limit, what)
        }
    }

    /// A section of field lines.
    fn fields(&mut self, what: &'static str) -> Result<Section<'a>, InnerError> {
        let section = self.section(MAX_FIELD_SECTION, what)?;
        let mut walk = Walk { rest: section };
        for count in 0.. {
            if walk.rest.is_empty() {
                break;
            }
            if count == MAX_FIELDS {
                return Err(InnerError::TooLarge("number of fields, 64"));
            }
            walk.line()?;
        }
        Ok(Section { rest: section })
    }

    /// A field's name and value.
    fn line(&mut self) -> Result<(&'a [u8], &'a [u8]), InnerError> {
        let name = self.span(MAX_FIELD_SECTION, "field name, 8 KiB")?;
        Ok((name, self.span(MAX_FIELD_SECTION, "field value, 8 KiB")?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], InnerError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }
}

pub(super) const CUT_OFF: InnerError = InnerError::Malformed("it ends early");
