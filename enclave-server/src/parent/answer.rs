//! An answer of the parent: a bounded head, and a body of the stated length.

use httparse::{EMPTY_HEADER, Response, Status};

use super::ParentError;
use super::connection::Connection;

/// Longest head in bytes.
const HEAD_MAX: usize = 16 * 1024;
/// Most headers.
const HEADERS_MAX: usize = 32;

/// Status and headers; the body is not read yet.
pub struct Answer {
    status: u16,
    etag: Option<String>,
    content_range: Option<String>,
    body: Body,
}

/// The body: exactly as many bytes as the head stated, or an error.
pub struct Body {
    connection: Connection,
    /// Bytes that arrived together with the head.
    early: Vec<u8>,
    taken: usize,
    left: u64,
}

impl Answer {
    pub(super) fn read(mut connection: Connection) -> Result<Self, ParentError> {
        let due = connection.head_due();
        let mut bytes = vec![0; HEAD_MAX];
        let mut filled = 0;
        loop {
            if filled == HEAD_MAX {
                return Err(ParentError::Invalid("the head is longer than 16 KiB"));
            }
            let count = connection.read_by(&mut bytes[filled..], due)?;
            if count == 0 {
                return Err(ParentError::Broken(
                    std::io::ErrorKind::UnexpectedEof.into(),
                ));
            }
            filled += count;
            let Some((head, length)) = Head::parse(&bytes[..filled])? else {
                continue;
            };
            let early = bytes[length..filled].to_vec();
            if early.len() as u64 > head.content_length {
                return Err(ParentError::Invalid(
                    "more bytes follow the head than it states",
                ));
            }
            let left = head.content_length;
            return Ok(Self {
                status: head.status,
                etag: head.etag,
                content_range: head.content_range,
                body: Body {
                    connection,
                    early,
                    taken: 0,
                    left,
                },
            });
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The `ETag` header.
    pub fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// The `Content-Range` header.
    pub fn content_range(&self) -> Option<&str> {
        self.content_range.as_deref()
    }

    /// The body.
    pub fn into_body(self) -> Body {
        self.body
    }
}

impl Body {
    /// Bytes that have not been read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Reads a part of the body; returns zero only at its end.
    ///
    /// # Errors
    /// [`ParentError`] where it ends early, or comes too slowly.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ParentError> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let buffer = &mut buffer[..most];
        if buffer.is_empty() {
            return Ok(0);
        }
        let early = &self.early[self.taken..];
        let count = if early.is_empty() {
            self.connection.read_paced(buffer)?
        } else {
            let count = early.len().min(buffer.len());
            buffer[..count].copy_from_slice(&early[..count]);
            self.taken += count;
            count
        };
        if count == 0 {
            return Err(ParentError::Broken(
                std::io::ErrorKind::UnexpectedEof.into(),
            ));
        }
        self.left -= count as u64;
        Ok(count)
    }

    /// Reads the whole body, of at most `limit` bytes.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and [`ParentError::TooLarge`] before anything is allocated.
    pub fn collect(mut self, limit: usize) -> Result<Vec<u8>, ParentError> {
        let length = usize::try_from(self.left)
            .ok()
            .filter(|length| *length <= limit)
            .ok_or(ParentError::TooLarge {
                length: self.left,
                limit,
            })?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            filled += self.read(&mut bytes[filled..])?;
        }
        Ok(bytes)
    }
}

struct Head {
    status: u16,
    content_length: u64,
    etag: Option<String>,
    content_range: Option<String>,
}

impl Head {
    /// Parses the head; `None` while it is incomplete. Also returns its length.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ParentError> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let length = match response.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(ParentError::Invalid("the answer is not HTTP/1.1")),
        };
        let mut head = Self {
            status: response.code.unwrap_or(0),
            content_length: 0,
            etag: None,
            content_range: None,
        };
        let mut stated = None;
        for header in response.headers.iter() {
            let value = || std::str::from_utf8(header.value).map(str::to_owned).ok();
            if header.name.eq_ignore_ascii_case("content-length") {
                let count = value().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let count = count.and_then(|text| text.parse::<u64>().ok());
                if stated.is_some() || count.is_none() {
                    return Err(ParentError::Invalid(
                        "the answer's length is not one number",
                    ));
                }
                stated = count;
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(ParentError::Invalid("the answer has no stated length"));
            } else if header.name.eq_ignore_ascii_case("etag") {
                head.etag = value();
            } else if header.name.eq_ignore_ascii_case("content-range") {
                head.content_range = value();
            }
        }
        head.content_length =
            stated.ok_or(ParentError::Invalid("the answer has no stated length"))?;
        // After an informational answer another head would follow; this client never requests one.
        if head.status < 200 {
            return Err(ParentError::Invalid("the answer is only informational"));
        }
        Ok(Some((head, length)))
    }
}
