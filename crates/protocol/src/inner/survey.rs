//! Walks over a Binary HTTP message without allocating: finds its end and enforces every size limit.

use std::ops::Range;

use super::{InnerError, MAX_FIELD_SECTION, MAX_FIELDS, MAX_PATH, MAX_REQUEST, MAX_RESPONSE};

/// The two known-length forms of a message (RFC 9292 §3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
}

pub(super) struct Survey {
    pub(super) kind: Kind,
    /// Offset of the first byte after the header section.
    pub(super) head: usize,
    /// Range of the content.
    pub(super) content: Range<usize>,
    /// Offset of the first byte of padding.
    pub(super) end: usize,
}

const LONGEST_TOKEN: usize = 256;

/// Walks over one message and its padding.
pub(super) fn survey(bytes: &[u8]) -> Result<Survey, InnerError> {
    let mut walk = Walk { rest: bytes };
    let kind = match walk.integer()? {
        0 => Kind::Request,
        1 => Kind::Response,
        _ => return Err(InnerError::Malformed("framing indicator")),
    };
    let most = match kind {
        Kind::Request => MAX_REQUEST,
        Kind::Response => MAX_RESPONSE,
    };
    if bytes.len() > most {
        return Err(InnerError::TooLarge("size"));
    }
    match kind {
        Kind::Request => {
            walk.span(LONGEST_TOKEN, "method")?;
            walk.span(LONGEST_TOKEN, "scheme")?;
            walk.span(LONGEST_TOKEN, "authority")?;
            walk.span(MAX_PATH, "path")?;
        }
        Kind::Response => {
            // The number of informational responses is unbounded, and this service sends none.
            if !(200..=599).contains(&walk.integer()?) {
                return Err(InnerError::Control("status code"));
            }
        }
    }
    let mut fields = Walk {
        rest: walk.section(MAX_FIELD_SECTION, "header section")?,
    };
    for count in 0.. {
        if fields.rest.is_empty() {
            break;
        }
        if count == MAX_FIELDS {
            return Err(InnerError::TooLarge("number of fields"));
        }
        if fields.span(MAX_FIELD_SECTION, "field name")?.is_empty() {
            return Err(InnerError::Field("empty name"));
        }
        fields.span(MAX_FIELD_SECTION, "field value")?;
    }
    let head = bytes.len() - walk.rest.len();
    let length = walk.section(most, "content")?.len();
    let content_end = bytes.len() - walk.rest.len();
    if !walk
        .section(MAX_FIELD_SECTION, "trailer section")?
        .is_empty()
    {
        return Err(InnerError::Field("trailers"));
    }
    let end = bytes.len() - walk.rest.len();
    // RFC 9292 §3.8: nonzero bytes after the message make it invalid.
    if walk.rest.iter().any(|byte| *byte != 0) {
        return Err(InnerError::Padding);
    }
    Ok(Survey {
        kind,
        head,
        content: content_end - length..content_end,
        end,
    })
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// A variable-length integer of QUIC (RFC 9000 §16).
    fn integer(&mut self) -> Result<u64, InnerError> {
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
    fn span(&mut self, limit: usize, what: &'static str) -> Result<&'a [u8], InnerError> {
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

    fn take(&mut self, length: usize) -> Result<&'a [u8], InnerError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT_OFF)?;
        self.rest = rest;
        Ok(taken)
    }
}

const CUT_OFF: InnerError = InnerError::Malformed("it ends early");
