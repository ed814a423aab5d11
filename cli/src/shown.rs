//! Text of evidence as a terminal may show it.

use std::borrow::Cow;
use std::fmt::Write;

/// Signs outside ASCII that reports use themselves.
const REPORT_SIGNS: &str = "…≤≥–×§µ";

/// Makes `text` harmless to a terminal. Escape sequences, control characters, white space other than blanks, and whatever
/// turns the direction of text, hides it or joins it to its neighbour become `\u{…}`. Letters and digits of any script
/// stay. Unverified text could otherwise imitate a verdict.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let harmless = |sign: char| {
        matches!(sign, ' '..='~') || sign.is_alphanumeric() || REPORT_SIGNS.contains(sign)
    };
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let escape = |sign: char| match harmless(sign) {
        true => sign.to_string(),
        false => sign.escape_unicode().to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Rewrites JSON in ASCII (RFC 8259 §7): the same value, and nothing in it that a terminal acts on.
pub(crate) fn ascii_json(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for sign in json.chars() {
        // Line breaks are those of the layout: within strings serde_json escapes them.
        if matches!(sign, ' '..='~' | '\n') {
            ascii.push(sign);
            continue;
        }
        // Outside strings JSON is ASCII, so whatever is met here is inside one.
        for unit in sign.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_paints_or_turns_is_escaped_and_words_stay() {
        for (text, expected) in [
            (
                "PCR0 is 00…ff, at most 300 s",
                "PCR0 is 00…ff, at most 300 s",
            ),
            ("größer 東京", "größer 東京"),
            (
                "\u{1b}[2J\u{1b}[1;32mVERIFIED",
                "\\u{1b}[2J\\u{1b}[1;32mVERIFIED",
            ),
            ("a\r\nVERIFIED\t", "a\\u{d}\\u{a}VERIFIED\\u{9}"),
            ("\u{9b}1m", "\\u{9b}1m"),
            ("\u{202e}DEIFIREV\u{2066}", "\\u{202e}DEIFIREV\\u{2066}"),
            (
                "a\u{200b}\u{feff}\u{2028}b\u{e0041}",
                "a\\u{200b}\\u{feff}\\u{2028}b\\u{e0041}",
            ),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_acts_on_is_left(text in any::<String>()) {
            prop_assert!(!shown(&text).chars().any(char::is_control));
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            let ascii = ascii_json(&json);
            prop_assert!(ascii.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')));
            let [read] = serde_json::from_str::<[String; 1]>(&ascii).unwrap();
            prop_assert_eq!(read, text);
        }
    }
}
