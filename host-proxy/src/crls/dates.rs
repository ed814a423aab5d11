//! Reads the expiry of a revocation list, the only part of it that a host needs.

/// Reads nextUpdate (RFC 5280 §5.1.2.5), Unix seconds; `None` where `list` is not exactly one list in DER with such a date.
pub(super) fn next_update(list: &[u8]) -> Option<u64> {
    let (outer, []) = content(list, 0x30)? else {
        return None;
    };
    let (signed, _) = content(outer, 0x30)?;
    // Version, algorithm and issuer.
    let (_, rest) = content(signed, 0x02)?;
    let (_, rest) = content(rest, 0x30)?;
    let (_, rest) = content(rest, 0x30)?;
    let (_, rest) = time(rest)?;
    time(rest).map(|(next_update, _)| next_update)
}

/// Splits a value with this tag into its content and the bytes after it (X.690 §8.1, §10.1).
fn content(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match bytes {
        [found, length @ 0..=0x7f, rest @ ..] if *found == tag => (usize::from(*length), rest),
        [found, 0x81, length, rest @ ..] if *found == tag => (usize::from(*length), rest),
        [found, 0x82, a, b, rest @ ..] if *found == tag => {
            (usize::from(u16::from_be_bytes([*a, *b])), rest)
        }
        [found, 0x83, a, b, c, rest @ ..] if *found == tag => {
            (u32::from_be_bytes([0, *a, *b, *c]) as usize, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// Reads a UTCTime or GeneralizedTime, `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, as Unix seconds.
fn time(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (text, rest, century) = match content(bytes, 0x17) {
        Some((text, rest)) => (text, rest, true),
        None => content(bytes, 0x18).map(|(text, rest)| (text, rest, false))?,
    };
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) || digits.len() != if century { 12 } else { 14 } {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = digits.get(from..to)?.iter();
        Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    };
    // §4.1.2.5.1: 50 to 99 mean the twentieth century, from which an enclave has no list.
    let (year, at) = match century {
        true => (2000 + number(0, 2).filter(|year| *year < 50)?, 2),
        false => (number(0, 4)?, 4),
    };
    let [month, day, hour, minute, second] =
        [0, 2, 4, 6, 8].map(|field| number(at + field, at + field + 2));
    let days = days_since_1970(year, month?, day?)?;
    Some((days * 86_400 + hour? * 3_600 + minute? * 60 + second?, rest))
}

/// Counts the days from 1970-01-01 to this date. Years begin in March, so that the leap day is their last.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    // 1970-01-01 by the same count.
    days.checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        let of = |text: &[u8]| time(&[&[0x17, 13], text].concat()).map(|(seconds, _)| seconds);
        assert_eq!(of(b"000229000000Z"), Some(951_782_400));
        assert_eq!(of(b"270115080000Z"), Some(1_800_000_000));
        assert_eq!(of(b"491231235959Z"), Some(2_524_607_999));
        for wrong in [&b"270115080000+"[..], b"271315080000Z", b"2701150800 0Z"] {
            assert_eq!(of(wrong), None);
        }
        let late = [&[0x18, 15][..], b"20500101000000Z"].concat();
        let late = time(&late).map(|(seconds, _)| seconds);
        assert_eq!(late, Some(2_524_608_000));
    }
}
