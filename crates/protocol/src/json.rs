//! The text of a JSON request, in the forms that different clients write.

use std::ops::Deref;
use std::str::{self, Utf8Error};

use zeroize::Zeroizing;

/// Text that a JSON parser accepts. No `Debug`: it holds the user's content.
pub enum JsonText<'a> {
    /// Unchanged.
    Given(&'a str),
    /// With U+FFFD in place of lone surrogates.
    Mended(Zeroizing<String>),
}

impl<'a> JsonText<'a> {
    /// Reads UTF-8 without its byte order mark (RFC 8259 §8.1 allows readers to ignore one).
    ///
    /// A lone escaped surrogate (`\ud83d`) is valid JSON grammar, but not Unicode text (§8.2). Libraries write one when a
    /// string was cut between two UTF-16 units. It becomes U+FFFD, as in `TextEncoder`, so that one such item does
    /// not make the others fail. Positions in the text do not change.
    ///
    /// # Errors
    /// [`Utf8Error`] counts bytes after the byte order mark.
    pub fn read(json: &'a [u8]) -> Result<Self, Utf8Error> {
        let given = str::from_utf8(json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json))?;
        let mut lone = lone_surrogates(given.as_bytes()).peekable();
        if lone.peek().is_none() {
            return Ok(Self::Given(given));
        }
        let mut mended = Zeroizing::new(given.as_bytes().to_vec());
        for digits in lone {
            if let Some(place) = mended.get_mut(digits..digits + 4) {
                place.copy_from_slice(b"fffd");
            }
        }
        String::from_utf8(std::mem::take(&mut *mended))
            .map(|text| Self::Mended(Zeroizing::new(text)))
            .map_err(|error| error.utf8_error())
    }
}

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Mended(text) => text,
        }
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Offsets of the four digits of each lone escaped surrogate.
fn lone_surrogates(json: &[u8]) -> impl Iterator<Item = usize> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += json.get(at..)?.iter().position(|byte| *byte == b'\\')?;
            let unit = escaped_unit(json, at);
            let follower = || escaped_unit(json, at + 6);
            let (length, lone) = match unit {
                // `\\`, `\n` and similar: the next byte does not start an escape.
                None => (2, false),
                Some(0xd800..=0xdbff) => match follower() {
                    Some(0xdc00..=0xdfff) => (12, false),
                    _ => (6, true),
                },
                Some(0xdc00..=0xdfff) => (6, true),
                Some(_) => (6, false),
            };
            let digits = at + 2;
            at += length;
            if lone {
                return Some(digits);
            }
        }
    })
}

/// The UTF-16 unit whose escape, `\u` and four digits, begins at `at`.
fn escaped_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some((unit << 4) | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> String {
        String::from(&*JsonText::read(json.as_bytes()).unwrap())
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        for (json, expected) in [
            (r#"["\ud83d"]"#, r#"["\ufffd"]"#),
            (r#"["\uDC00 x","y"]"#, r#"["\ufffd x","y"]"#),
            (r#"["\ud83d\ud83d\ude00"]"#, r#"["\ufffd\ud83d\ude00"]"#),
            (r#"["\ude00\ud83d"]"#, r#"["\ufffd\ufffd"]"#),
            (r#"["\ud83dx\ude00"]"#, r#"["\ufffdx\ufffd"]"#),
            (r#"["\ud83d\n\ude00"]"#, r#"["\ufffd\n\ufffd"]"#),
            (r#"["\ud83d\u0041"]"#, r#"["\ufffd\u0041"]"#),
        ] {
            assert_eq!(read(json), expected, "{json}");
        }
    }

    #[test]
    fn what_is_no_lone_surrogate_stays() {
        for json in [
            "",
            "\\",
            "\\u",
            "\\ud83",
            r#"["\ud83d\ude00"]"#,
            // A backslash, and letters.
            r#"["\\ud83d"]"#,
            r#"["\\\\ud83d"]"#,
            r#"["\ud7ff\ue000\ufffd"]"#,
            r#"["\ux83d"]"#,
            "[\"größer 東京 😀\"]",
        ] {
            let text = JsonText::read(json.as_bytes()).unwrap();
            assert!(
                matches!(text, JsonText::Given(same) if same == json),
                "{json}"
            );
        }
        assert_eq!(read(r#"["\\\ud83d"]"#), r#"["\\\ufffd"]"#);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once_and_other_encodings_are_refused() {
        assert_eq!(read("\u{feff}{}"), "{}");
        assert_eq!(read("\u{feff}\u{feff}{}"), "\u{feff}{}");
        for other in [
            &b"\xff\xfe{\0}\0"[..],
            b"{\"a\":\"\xed\xa0\x80\"}",
            b"\x1f\x8b\x08",
        ] {
            assert!(JsonText::read(other).is_err());
        }
    }

    proptest! {
        /// Compares with the standard library's decoder of the same units.
        #[test]
        fn every_string_of_units_is_read_as_the_standard_library_reads_it(
            units in prop::collection::vec(prop_oneof![
                0xd7fe_u16..=0xe001, any::<u16>(), Just(0xd83d), Just(0xde00), Just(0x5c), Just(0x75),
            ], 0..12),
        ) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("\"{escaped}\"");
            let text = JsonText::read(json.as_bytes()).unwrap();
            let string: String = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(string, String::from_utf16_lossy(&units));
        }

        #[test]
        fn places_stay_and_nothing_panics(bytes in any::<Vec<u8>>()) {
            if let Ok(text) = JsonText::read(&bytes) {
                let given = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
                prop_assert_eq!(text.len(), given.len());
            }
        }
    }
}
