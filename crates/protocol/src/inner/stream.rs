//! Binary HTTP of indeterminate length (RFC 9292 §3.2): content that is written and read while it is made.
//!
//! The rules of the parent module hold for both forms. The receipt of a streamed answer is a trailer, because it covers the
//! content before it.

use super::survey::{self, Control, Walk};
use super::{
    InnerError, InnerRequest, InnerResponse, LONGEST_HEAD, Line, MAX_FIELD_SECTION, MAX_FIELDS,
    MAX_REQUEST, MAX_RESPONSE, OTHER_KIND, join_fields, rules,
};
use crate::ohttp::chunked::{append_varint, read_varint};
use crate::padme::padded_len;

const KNOWN_RESPONSE: u64 = 1;
const REQUEST: u64 = 2;
const RESPONSE: u64 = 3;

type Fields = Vec<(String, String)>;

impl InnerRequest {
    /// Reads a padded request of either form; returns it, and its length without padding, which the commitments of a receipt cover.
    ///
    /// # Errors
    /// [`InnerError`] for everything that the rules of the parent module refuse.
    pub fn decode_any(bytes: &[u8]) -> Result<(Self, usize), InnerError> {
        match read_varint(bytes) {
            Some((REQUEST, _)) => decode_request(bytes),
            _ => Ok((Self::decode(bytes)?, super::unpadded_len(bytes)?)),
        }
    }
}

fn decode_request(bytes: &[u8]) -> Result<(InnerRequest, usize), InnerError> {
    if bytes.len() > MAX_REQUEST {
        return Err(InnerError::TooLarge(survey::SIZE));
    }
    let mut walk = Walk { rest: bytes };
    walk.integer()?;
    let Control::Request(control) = walk.request_control()? else {
        return Err(OTHER_KIND);
    };
    let fields = list_fields(&mut walk)?;
    let mut content = Vec::new();
    // RFC 9292 §3.8: a message may end before its content.
    while !walk.rest.is_empty() {
        match walk.span(MAX_REQUEST, survey::SIZE)? {
            [] => break,
            chunk => content.extend_from_slice(chunk),
        }
        if walk.rest.is_empty() {
            return Err(survey::CUT_OFF);
        }
    }
    let trailers = list_fields(&mut walk)?;
    let end = bytes.len() - walk.rest.len();
    if walk.rest.iter().any(|byte| *byte != 0) {
        return Err(InnerError::Padding);
    }
    let request =
        InnerRequest::checked(control, fields.into_iter(), trailers.into_iter(), &content)?;
    Ok((request, end))
}

/// The lines of a section that ends with a zero, or that was left out at the end of the message (RFC 9292 §3.8).
fn list_fields<'a>(walk: &mut Walk<'a>) -> Result<Vec<Line<'a>>, InnerError> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    if walk.rest.is_empty() {
        return Ok(lines);
    }
    loop {
        let name = walk.span(MAX_FIELD_SECTION, "field name, 8 KiB")?;
        if name.is_empty() {
            return Ok(lines);
        }
        let value = walk.span(MAX_FIELD_SECTION, "field value, 8 KiB")?;
        bytes += name.len() + value.len();
        if lines.len() == MAX_FIELDS {
            return Err(InnerError::TooLarge("number of fields, 64"));
        }
        if bytes > MAX_FIELD_SECTION {
            return Err(InnerError::TooLarge("field section, 8 KiB"));
        }
        lines.push((name, value));
    }
}

/// Writes a response whose content is not known yet.
pub struct ResponseWriter {
    written: usize,
}

impl ResponseWriter {
    /// Begins a response; returns its first bytes.
    ///
    /// # Errors
    /// [`InnerError`] if the head breaks a rule that the receiver enforces.
    pub fn begin(status: u16, headers: &[(String, String)]) -> Result<(Self, Vec<u8>), InnerError> {
        let status = survey::check_status(status.into())?;
        rules::check_fields(headers, 0)?;
        let mut bytes = Vec::new();
        append_varint(3, &mut bytes);
        append_varint(status.into(), &mut bytes);
        append_fields(headers, &mut bytes);
        let written = bytes.len();
        Ok((Self { written }, bytes))
    }

    /// Appends a part of the content to `bytes`. An empty part changes nothing.
    pub fn content(&mut self, part: &[u8], bytes: &mut Vec<u8>) {
        if part.is_empty() {
            return;
        }
        let before = bytes.len();
        append_varint(part.len(), bytes);
        bytes.extend_from_slice(part);
        self.written += bytes.len() - before;
    }

    /// Ends the response: trailers, and zeros up to the next PADMÉ length of the whole message.
    ///
    /// # Errors
    /// [`InnerError`] if a trailer breaks a rule, or if the message is over [`MAX_RESPONSE`].
    pub fn finish(self, trailers: &[(String, String)]) -> Result<Vec<u8>, InnerError> {
        rules::check_fields(trailers, 0)?;
        let mut bytes = vec![0];
        append_fields(trailers, &mut bytes);
        let length = self.written + bytes.len();
        let padded = padded_len(length);
        if padded > MAX_RESPONSE {
            return Err(InnerError::TooLarge(survey::SIZE));
        }
        bytes.resize(bytes.len() + padded - length, 0);
        Ok(bytes)
    }
}

fn append_fields(fields: &[(String, String)], bytes: &mut Vec<u8>) {
    for (name, value) in fields {
        for part in [name, value] {
            append_varint(part.len(), bytes);
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    bytes.push(0);
}

/// A response that was read to its end. No `Debug`: it holds the user's content.
pub struct ReadResponse {
    /// Status, header and content.
    pub response: InnerResponse,
    /// Fields after the content; always empty for a response of known length.
    pub trailers: Fields,
}

/// Reads a response of either form while it arrives. One of known length is read at its end.
#[derive(Default)]
pub struct ResponseReader {
    /// Bytes that are not read yet.
    pending: Vec<u8>,
    read: usize,
    stage: Stage,
    head: Option<(u16, Fields)>,
    content: Vec<u8>,
    trailers: Fields,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    #[default]
    Head,
    /// A response of known length.
    Known,
    Content,
    /// Bytes of the current part that are missing.
    Part(usize),
    Trailers,
    Padding,
}

impl ResponseReader {
    /// Takes bytes as they arrive, in pieces of any length.
    ///
    /// # Errors
    /// [`InnerError`] for everything that the rules of the parent module refuse.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), InnerError> {
        self.read += bytes.len();
        if self.read > MAX_RESPONSE {
            return Err(InnerError::TooLarge(survey::SIZE));
        }
        self.pending.extend_from_slice(bytes);
        while self.step()? {}
        Ok(())
    }

    /// Status and fields, once they have arrived. `None` until the end for a response of known length.
    pub fn head(&self) -> Option<(u16, &[(String, String)])> {
        let (status, fields) = self.head.as_ref()?;
        Some((*status, fields))
    }

    /// The content that has arrived; empty until the end for a response of known length.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Ends the message where it ended.
    ///
    /// # Errors
    /// [`InnerError`] if it is not complete.
    pub fn finish(self) -> Result<ReadResponse, InnerError> {
        // RFC 9292 §3.8: a message may end before its content, or before its trailers.
        let is_complete = match self.stage {
            Stage::Known => {
                return Ok(ReadResponse {
                    response: InnerResponse::decode(&self.pending)?,
                    trailers: Vec::new(),
                });
            }
            Stage::Content => self.content.is_empty(),
            Stage::Trailers => true,
            Stage::Padding => true,
            Stage::Head | Stage::Part(_) => false,
        };
        let (Some((status, headers)), true, true) =
            (self.head, is_complete, self.pending.is_empty())
        else {
            return Err(survey::CUT_OFF);
        };
        rules::check_fields(&headers, self.content.len())?;
        rules::check_fields(&self.trailers, self.content.len())?;
        let response = InnerResponse {
            status,
            headers,
            content: self.content,
        };
        Ok(ReadResponse {
            response,
            trailers: self.trailers,
        })
    }

    /// Reads the next part of the message; returns whether it had arrived.
    fn step(&mut self) -> Result<bool, InnerError> {
        match self.stage {
            Stage::Head => {
                let Some((kind, _)) = read_varint(&self.pending) else {
                    return Ok(false);
                };
                match kind {
                    KNOWN_RESPONSE => self.stage = Stage::Known,
                    RESPONSE => {
                        let Some((read, head)) = whole(&self.pending, read_head)? else {
                            return Ok(false);
                        };
                        self.head = Some(head);
                        self.take(read, Stage::Content);
                    }
                    0 | REQUEST => return Err(OTHER_KIND),
                    _ => {
                        return Err(InnerError::Malformed(
                            "framing indicator, 1 or 3 for responses",
                        ));
                    }
                }
                Ok(true)
            }
            Stage::Known => Ok(false),
            Stage::Content => {
                let Some((length, read)) = read_varint(&self.pending) else {
                    return Ok(false);
                };
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > MAX_RESPONSE {
                    return Err(InnerError::TooLarge(survey::SIZE));
                }
                self.take(
                    read,
                    match length {
                        0 => Stage::Trailers,
                        length => Stage::Part(length),
                    },
                );
                Ok(true)
            }
            Stage::Part(missing) => {
                let length = missing.min(self.pending.len());
                self.content.extend_from_slice(&self.pending[..length]);
                self.take(
                    length,
                    match missing - length {
                        0 => Stage::Content,
                        missing => Stage::Part(missing),
                    },
                );
                Ok(length == missing)
            }
            Stage::Trailers => {
                if self.pending.is_empty() {
                    return Ok(false);
                }
                let read = |walk: &mut Walk<'_>| join_fields(list_fields(walk)?.into_iter());
                let Some((read, trailers)) = whole(&self.pending, read)? else {
                    return Ok(false);
                };
                self.trailers = trailers;
                self.take(read, Stage::Padding);
                Ok(true)
            }
            Stage::Padding => {
                let is_zero = self.pending.iter().all(|byte| *byte == 0);
                self.pending.clear();
                match is_zero {
                    true => Ok(false),
                    false => Err(InnerError::Padding),
                }
            }
        }
    }

    fn take(&mut self, read: usize, next: Stage) {
        self.pending.drain(..read);
        self.stage = next;
    }
}

fn read_head(walk: &mut Walk<'_>) -> Result<(u16, Fields), InnerError> {
    walk.integer()?;
    let status = survey::check_status(walk.integer()?)?;
    if walk.rest.is_empty() {
        return Err(survey::CUT_OFF);
    }
    let headers = join_fields(list_fields(walk)?.into_iter())?;
    Ok((status, headers))
}

/// Reads a part with a bounded length from the start of `bytes`; `None` if it has not arrived as a whole.
fn whole<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Walk<'_>) -> Result<T, InnerError>,
) -> Result<Option<(usize, T)>, InnerError> {
    let mut walk = Walk { rest: bytes };
    match read(&mut walk) {
        Ok(part) => Ok(Some((bytes.len() - walk.rest.len(), part))),
        Err(error) if error == survey::CUT_OFF && bytes.len() < LONGEST_HEAD => Ok(None),
        Err(error) => Err(error),
    }
}
