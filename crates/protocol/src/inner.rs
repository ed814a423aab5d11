//! The HTTP message inside the seal: Binary HTTP (RFC 9292, known-length form; the other one in `stream`), padded so that its length reveals little.
//!
//! The peer's bytes are untrusted even under a seal. Limits are enforced before memory is
//! allocated, and everything that two readers could interpret differently (two values of a field that has one,
//! connection-specific fields, a wrong `content-length`, nonzero padding) is refused.

mod rules;
#[cfg(not(target_family = "wasm"))]
pub mod stream;
mod survey;

use bhttp::{ControlData, Message, Mode, StatusCode};

use crate::padme::padded_len;
use survey::{Control, survey};

/// Longest encoded request, padding included, in bytes.
pub const MAX_REQUEST: usize = 4 * 1024 * 1024;
/// Longest encoded response, padding included, in bytes: 2,048 embeddings of 384 components as decimal numbers are 12 MiB.
pub const MAX_RESPONSE: usize = 16 * 1024 * 1024;
/// Most fields in a header section.
pub const MAX_FIELDS: usize = 64;
/// Longest header section in bytes.
pub const MAX_FIELD_SECTION: usize = 8 * 1024;
/// Longest request path, query included, in bytes.
pub const MAX_PATH: usize = 2 * 1024;
/// The authority of the requests that this crate writes. No authority is resolved: the seal selects the service.
pub const AUTHORITY: &str = "clearseal.internal";

const SCHEME: &str = "https";
/// Upper bound on the bytes of a section of fields and of control data, with their lengths.
#[cfg(not(target_family = "wasm"))]
const LONGEST_HEAD: usize = 2 * MAX_FIELD_SECTION + 16 * MAX_FIELDS + 64;

/// One request inside the seal. Has no `Debug`: it holds the user's text.
#[derive(Clone, PartialEq, Eq)]
pub struct InnerRequest {
    /// Method, upper case.
    pub method: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// Fields in order; names lower case, each at most once.
    pub headers: Vec<(String, String)>,
    /// Content.
    pub content: Vec<u8>,
}

/// One response inside the seal. Has no `Debug`: it holds the user's embeddings.
#[derive(Clone, PartialEq, Eq)]
pub struct InnerResponse {
    /// Final status code, 200..=599.
    pub status: u16,
    /// Fields in order; names lower case, each at most once.
    pub headers: Vec<(String, String)>,
    /// Content.
    pub content: Vec<u8>,
}

/// Why an inner message was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, error_codes::Coded)]
#[non_exhaustive]
pub enum InnerError {
    /// Over a limit of this module.
    #[error("the inner message exceeds the limit on its {0}")]
    #[coded("INNER_TOO_LARGE", remedy = "Send less in one request.")]
    TooLarge(&'static str),
    /// Cut off, or not Binary HTTP in its known-length form.
    #[error("the inner message is not a known-length Binary HTTP message ({0})")]
    #[coded("INNER_MALFORMED", remedy = "Check the encoder against RFC 9292.")]
    Malformed(&'static str),
    /// Bytes after the message that are not zero.
    #[error("the padding of the inner message holds something other than zeros")]
    #[coded("INNER_PADDING_NOT_ZERO", remedy = "Pad with zeros only.")]
    Padding,
    /// Control data that this service does not accept.
    #[error("the inner message has an unacceptable {0}")]
    #[coded(
        "INNER_BAD_CONTROL_DATA",
        remedy = "Send an absolute https URL, encoded according to RFC 9292."
    )]
    Control(&'static str),
    /// A field that Binary HTTP or this protocol does not allow.
    #[error("a field of the inner message is refused ({0})")]
    #[coded(
        "INNER_BAD_FIELD",
        remedy = "Send names in lower case, without connection-specific fields and cookies."
    )]
    Field(&'static str),
}

/// Finds a field by its exact name. Each name occurs at most once.
pub(crate) fn field<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(candidate, _)| candidate == name)
        .map(|(_, value)| value.as_str())
}

impl InnerRequest {
    /// Value of a field; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        field(&self.headers, name)
    }

    /// Encodes and pads with zeros to the next PADMÉ length.
    ///
    /// # Errors
    /// [`InnerError`] if the message breaks a rule that the receiver enforces.
    pub fn encode_padded(&self) -> Result<Vec<u8>, InnerError> {
        rules::check_request_line(&self.method, SCHEME, AUTHORITY, &self.path)?;
        let control = ControlData::Request {
            method: self.method.clone().into(),
            scheme: SCHEME.into(),
            authority: AUTHORITY.into(),
            path: self.path.clone().into(),
        };
        encode(control, &self.headers, &self.content, MAX_REQUEST)
    }

    /// Reads a padded request.
    ///
    /// # Errors
    /// [`InnerError`] for everything that the rules of this module refuse.
    pub fn decode(bytes: &[u8]) -> Result<Self, InnerError> {
        let found = survey(bytes)?;
        let Control::Request(control) = found.control else {
            return Err(OTHER_KIND);
        };
        Self::checked(control, found.fields, found.trailers, found.content)
    }

    #[inline]
    fn checked<'a>(
        [method, scheme, authority, path]: [&'a [u8]; 4],
        fields: impl Iterator<Item = Line<'a>>,
        trailers: impl Iterator<Item = Line<'a>>,
        content: &[u8],
    ) -> Result<Self, InnerError> {
        let [method, scheme, authority, path] = [
            text(method, "method")?,
            text(scheme, "scheme")?,
            text(authority, "authority")?,
            text(path, "path")?,
        ];
        rules::check_request_line(method, scheme, authority, path)?;
        let mut headers = join_fields(fields)?;
        // RFC 9110 §7.2: `host` repeats the authority.
        if let Some(at) = headers.iter().position(|(name, _)| name == "host") {
            let (_, host) = headers.remove(at);
            rules::check_host(authority, &host)?;
        }
        check_sections(&headers, trailers, content)?;
        Ok(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            content: content.to_vec(),
        })
    }
}

impl InnerResponse {
    /// Value of a field; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        field(&self.headers, name)
    }

    /// Encodes and pads with zeros to the next PADMÉ length.
    ///
    /// # Errors
    /// [`InnerError`] if the message breaks a rule that the receiver enforces.
    pub fn encode_padded(&self) -> Result<Vec<u8>, InnerError> {
        let status = survey::check_status(self.status.into())?;
        let status = StatusCode::try_from(u64::from(status));
        let control = ControlData::Response(status.map_err(|_| CANNOT_BE_ENCODED)?);
        encode(control, &self.headers, &self.content, MAX_RESPONSE)
    }

    /// Reads a padded response.
    ///
    /// # Errors
    /// [`InnerError`] for everything that the rules of this module refuse.
    pub fn decode(bytes: &[u8]) -> Result<Self, InnerError> {
        let found = survey(bytes)?;
        let Control::Response(status) = found.control else {
            return Err(OTHER_KIND);
        };
        let headers = join_fields(found.fields)?;
        check_sections(&headers, found.trailers, found.content)?;
        Ok(Self {
            status,
            headers,
            content: found.content.to_vec(),
        })
    }
}

/// Length of the message at the start of `bytes` without its padding: the part that the commitments of a receipt cover.
///
/// # Errors
/// [`InnerError`] if `bytes` are not one message followed by zeros.
pub fn unpadded_len(bytes: &[u8]) -> Result<usize, InnerError> {
    Ok(survey(bytes)?.end)
}

fn encode(
    control: ControlData,
    headers: &[(String, String)],
    content: &[u8],
    most: usize,
) -> Result<Vec<u8>, InnerError> {
    rules::check_fields(headers, content.len())?;
    let mut message = match control {
        ControlData::Request {
            method,
            scheme,
            authority,
            path,
        } => Message::request(method, scheme, authority, path),
        ControlData::Response(status) => Message::response(status),
    };
    for (name, value) in headers {
        message.put_header(name.as_str(), value.as_str());
    }
    message.write_content(content);
    let mut bytes = Vec::with_capacity(padded_len(content.len() + MAX_FIELD_SECTION));
    message
        .write_bhttp(Mode::KnownLength, &mut bytes)
        .map_err(|_| CANNOT_BE_ENCODED)?;
    let padded = padded_len(bytes.len());
    if padded > most {
        return Err(InnerError::TooLarge(survey::SIZE));
    }
    // RFC 9292 §3.8: padding is zeros after the message.
    bytes.resize(padded, 0);
    Ok(bytes)
}

/// Name and value of a field.
type Line<'a> = (&'a [u8], &'a [u8]);

/// Reads a section; lines of one list are joined (RFC 9110 §5.3).
fn join_fields<'a>(
    section: impl Iterator<Item = Line<'a>>,
) -> Result<Vec<(String, String)>, InnerError> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in section {
        let (name, value) = (text(name, "field name")?, text(value, "field value")?);
        match headers.iter_mut().find(|(earlier, _)| earlier == name) {
            None => headers.push((name.to_owned(), value.to_owned())),
            Some((_, list)) => rules::append_line(name, list, value)?,
        }
    }
    Ok(headers)
}

/// Checks both sections. Trailers have no meaning here (RFC 9110 §6.5.1), but must not hide what a header may not contain.
fn check_sections<'a>(
    headers: &[(String, String)],
    trailers: impl Iterator<Item = Line<'a>>,
    content: &[u8],
) -> Result<(), InnerError> {
    rules::check_fields(headers, content.len())?;
    rules::check_fields(&join_fields(trailers)?, content.len())
}

fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, InnerError> {
    str::from_utf8(bytes).map_err(|_| InnerError::Malformed(what))
}

const OTHER_KIND: InnerError =
    InnerError::Malformed("a request where a response belongs, or the reverse");
const CANNOT_BE_ENCODED: InnerError = InnerError::Malformed("cannot be encoded");
