//! One range of bytes (RFC 9110 §14).

use std::ops::Range;

use http::HeaderMap;
use http::header::{IF_RANGE, RANGE};

/// The requested part of a representation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All of it: the request has no range, or one of another version.
    Whole,
    /// These bytes; not empty, and inside the representation.
    Part(Range<u64>),
}

/// More than one range, another unit, or bytes outside the representation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidRange;

/// Reads `Range` and `If-Range` for a representation of `length` bytes.
pub(super) fn select(
    headers: &HeaderMap,
    length: u64,
    etag: &str,
) -> Result<Selection, InvalidRange> {
    let Some(range) = headers.get(RANGE) else {
        return Ok(Selection::Whole);
    };
    // RFC 9110 §13.1.5: a strong comparison. A part of another version would be useless.
    if headers
        .get(IF_RANGE)
        .is_some_and(|known| known.as_bytes() != etag.as_bytes())
    {
        return Ok(Selection::Whole);
    }
    let text = range.to_str().map_err(|_| InvalidRange)?;
    parse(text, length).map(Selection::Part).ok_or(InvalidRange)
}

fn parse(text: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (
        parse_number(first)?,
        match last {
            "" => length.checked_sub(1)?,
            last => parse_number(last)?.min(length.checked_sub(1)?),
        },
    );
    (first <= last).then_some(first..last + 1)
}

/// Parses digits only: `u64::from_str` also accepts a plus sign.
fn parse_number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn ask(range: &'static str, known: Option<&'static str>) -> Result<Selection, InvalidRange> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static(range));
        if let Some(known) = known {
            headers.insert(IF_RANGE, HeaderValue::from_static(known));
        }
        select(&headers, 100, "\"v1\"")
    }

    #[test]
    fn a_range_is_cut_to_the_representation() {
        for (text, range) in [
            ("bytes=0-", 0..100),
            ("bytes=99-", 99..100),
            ("bytes=10-19", 10..20),
            ("bytes=10-1000", 10..100),
        ] {
            assert_eq!(ask(text, None), Ok(Selection::Part(range)), "{text}");
        }
        assert_eq!(
            select(&HeaderMap::new(), 100, "\"v1\""),
            Ok(Selection::Whole)
        );
    }

    #[test]
    fn anything_but_a_single_range_is_refused() {
        for text in [
            "bytes=100-",
            "bytes=5-4",
            "bytes=-5",
            "bytes=0-1,3-4",
            "bytes=+1-2",
            "bytes=",
            "bytes=0",
            "items=0-1",
            "bytes=0-99999999999999999999",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(ask(text, None), Err(InvalidRange), "{text}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static("bytes=0-"));
        assert_eq!(select(&headers, 0, "\"v1\""), Err(InvalidRange));
    }

    #[test]
    fn a_range_of_another_version_selects_the_whole() {
        assert_eq!(
            ask("bytes=10-", Some("\"v1\"")),
            Ok(Selection::Part(10..100))
        );
        assert_eq!(ask("bytes=10-", Some("\"v0\"")), Ok(Selection::Whole));
        assert_eq!(ask("bytes=10-", Some("W/\"v1\"")), Ok(Selection::Whole));
    }
}
