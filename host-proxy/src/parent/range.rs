//! One range of bytes (RFC 9110 §14).

use http::HeaderMap;
use http::header::{IF_RANGE, RANGE};
use std::ops::Range;

/// What of a representation was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it: no range, or one of another version.
    Whole,
    /// These bytes of it; not empty, and all there.
    Part(Range<u64>),
}

/// More than one range, another unit, or bytes that are not there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidRange;

/// Reads `Range` and `If-Range` for a representation of `length` bytes.
pub(super) fn wanted(headers: &HeaderMap, length: u64, etag: &str) -> Result<Wanted, InvalidRange> {
    let Some(range) = headers.get(RANGE) else {
        return Ok(Wanted::Whole);
    };
    // RFC 9110 §13.1.5: compared strongly; a part of another version would be worth nothing.
    if headers
        .get(IF_RANGE)
        .is_some_and(|known| known.as_bytes() != etag.as_bytes())
    {
        return Ok(Wanted::Whole);
    }
    let text = range.to_str().map_err(|_| InvalidRange)?;
    parse(text, length).map(Wanted::Part).ok_or(InvalidRange)
}

fn parse(text: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (
        number(first)?,
        match last {
            "" => length.checked_sub(1)?,
            last => number(last)?.min(length.checked_sub(1)?),
        },
    );
    (first <= last).then_some(first..last + 1)
}

/// Digits alone: `u64::from_str` takes a plus sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn ask(range: &'static str, known: Option<&'static str>) -> Result<Wanted, InvalidRange> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static(range));
        if let Some(known) = known {
            headers.insert(IF_RANGE, HeaderValue::from_static(known));
        }
        wanted(&headers, 100, "\"v1\"")
    }

    #[test]
    fn one_range_is_cut_to_what_is_there() {
        for (text, range) in [
            ("bytes=0-", 0..100),
            ("bytes=99-", 99..100),
            ("bytes=10-19", 10..20),
            ("bytes=10-1000", 10..100),
        ] {
            assert_eq!(ask(text, None), Ok(Wanted::Part(range)), "{text}");
        }
        assert_eq!(wanted(&HeaderMap::new(), 100, "\"v1\""), Ok(Wanted::Whole));
    }

    #[test]
    fn what_is_no_single_range_is_refused() {
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
        assert_eq!(wanted(&headers, 0, "\"v1\""), Err(InvalidRange));
    }

    #[test]
    fn a_part_of_another_version_is_not_given() {
        assert_eq!(ask("bytes=10-", Some("\"v1\"")), Ok(Wanted::Part(10..100)));
        assert_eq!(ask("bytes=10-", Some("\"v0\"")), Ok(Wanted::Whole));
        assert_eq!(ask("bytes=10-", Some("W/\"v1\"")), Ok(Wanted::Whole));
    }
}
