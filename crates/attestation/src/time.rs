//! Moments, passed in as numbers: this crate has no clock.

use std::fmt;

/// 9999-12-31T23:59:59.999Z, the last moment that RFC 3339 and X.509 (RFC 5280 §4.1.2.5) can write.
pub(crate) const LAST_MOMENT: u64 = 253_402_300_799_999;

/// Names of the days, starting with that of 1970-01-01.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// How far an enclave's clock is ahead of another one, or behind it.
///
/// The estimate is the time in a document that answers a nonce: the enclave's own clock, authenticated, read while the
/// answer was in transit. Requests are dated and answers are checked by it, so that a client whose clock is wrong by minutes
/// agrees with the enclave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset {
    millis: i64,
}

impl ClockOffset {
    /// The offset, if the enclave's clock showed `enclave` when the local clock showed `local`.
    pub fn between(enclave: UnixMillis, local: UnixMillis) -> Self {
        let [enclave, local] =
            [enclave, local].map(|moment| i64::try_from(moment.0).unwrap_or(i64::MAX));
        Self {
            millis: enclave.saturating_sub(local),
        }
    }

    /// The enclave's time at this local time.
    #[must_use]
    pub const fn to_enclave(self, local: UnixMillis) -> UnixMillis {
        UnixMillis(local.0.saturating_add_signed(self.millis))
    }

    /// The local time at this time of the enclave.
    #[must_use]
    pub const fn to_local(self, enclave: UnixMillis) -> UnixMillis {
        UnixMillis(
            enclave
                .0
                .saturating_add_signed(self.millis.saturating_neg()),
        )
    }
}

/// A moment in Unix time, in milliseconds. Displays as RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The moment `seconds` after the epoch; saturates far beyond any date that can be written.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Whole seconds since the epoch. X.509 validity is compared in seconds (RFC 5280 §4.1.2.5).
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Reads a moment from 1970 to 9999 as RFC 3339 §5.6 writes it: `2026-11-20T14:03:00Z`, `2026-11-20T15:03:00.25+01:00`.
    ///
    /// `T` and `Z` may be lower case, and a space may replace `T`, as the notes of §5.6 allow. Decimals beyond
    /// milliseconds are dropped. `-00:00` is UTC (§4.3). A leap second is accepted only as the last second of June or
    /// December in UTC (§5.7). It is the first second of the next day, as Unix time counts.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (date_time, rest) = text.as_bytes().split_at_checked(19)?;
        let punctuation = [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")];
        let is_punctuated = |&(at, one_of): &(usize, &str)| {
            let byte = date_time.get(at);
            byte.is_some_and(|byte| one_of.as_bytes().contains(byte))
        };
        if !punctuation.iter().all(is_punctuated) {
            return None;
        }
        let number = |from: usize, to: usize| digits(date_time.get(from..to)?);
        let date = [number(0, 4)?, number(5, 7)?, number(8, 10)?];
        let [hour, minute, second] = [number(11, 13)?, number(14, 16)?, number(17, 19)?];
        let (millis, zone) = decimals(rest)?;
        let leap = u64::from(second == 60);
        let local = seconds_from_civil(date, [hour, minute, second - leap])? + leap;
        let seconds = from_zone(local, zone)?.checked_sub(EPOCH)?;
        if leap == 1 && !begins_half_year(seconds) {
            return None;
        }
        let moment = Self(seconds * 1000 + millis);
        (moment.0 <= LAST_MOMENT).then_some(moment)
    }

    /// The date in HTTP's format (RFC 9110 §5.6.7, IMF-fixdate): `Fri, 20 Nov 2026 14:03:00 GMT`, in whole seconds. `None`
    /// beyond the year 9999.
    pub fn to_http_date(self) -> Option<String> {
        if self.0 > LAST_MOMENT {
            return None;
        }
        let days = self.0 / 86_400_000;
        let (year, month, day) = civil_from_days(days);
        let (week_day, month) = (
            DAYS.get(days as usize % 7)?,
            MONTHS.get(month as usize - 1)?,
        );
        let second = self.seconds() % 86_400;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        Some(format!(
            "{week_day}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
        ))
    }

    /// Reads the format of [`to_http_date`](Self::to_http_date), but not the two formats that RFC 9110 calls obsolete.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| digits(text.as_bytes().get(from..to)?);
        let month = text.get(8..11)?;
        let month = 1 + MONTHS.iter().position(|name| *name == month)?;
        let date = [number(12, 16)?, u64::try_from(month).ok()?, number(5, 7)?];
        let time = [number(17, 19)?, number(20, 22)?, number(23, 25)?];
        // Formatting it again compares the separators and the day of the week.
        Self::from_civil(date, time).filter(|it| it.to_http_date().as_deref() == Some(text))
    }

    /// A date and a time of day in UTC, from 1970 on; `None` if the calendar has no such second.
    pub(crate) fn from_civil(date: [u64; 3], time: [u64; 3]) -> Option<Self> {
        let seconds = seconds_from_civil(date, time)?.checked_sub(EPOCH)?;
        Some(Self::from_seconds(seconds))
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > LAST_MOMENT {
            return write!(f, "{} ms, beyond the year 9999", self.0);
        }
        let (year, month, day) = civil_from_days(self.0 / 86_400_000);
        let in_day = self.0 % 86_400_000;
        let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
        let (second, millis) = (in_day / 1000 % 60, in_day % 1000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        if millis != 0 {
            write!(f, ".{millis:03}")?;
        }
        f.write_str("Z")
    }
}

fn digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + u64::from(byte - b'0'))
    })
}

/// Milliseconds from the decimals of a second, if there are any, and the rest of the text.
fn decimals(rest: &[u8]) -> Option<(u64, &[u8])> {
    let Some(decimals) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let end = decimals.iter().position(|byte| !byte.is_ascii_digit())?;
    let (decimals, zone) = decimals.split_at(end);
    let kept = &decimals[..end.min(3)];
    let scale = [0, 100, 10, 1]
        .get(kept.len())
        .filter(|scale| **scale > 0)?;
    Some((digits(kept)? * scale, zone))
}

/// Converts a second in `zone` to UTC. `zone` is `Z`, or hours and minutes east or west of Greenwich.
fn from_zone(local: u64, zone: &[u8]) -> Option<u64> {
    let [sign, h1, h2, b':', m1, m2] = zone else {
        return matches!(zone, b"Z" | b"z").then_some(local);
    };
    let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = (hours * 60 + minutes) * 60;
    match sign {
        b'+' => local.checked_sub(offset),
        b'-' => Some(local + offset),
        _ => None,
    }
}

/// Whether a second since 1970 is the first one of January or July, which may follow a leap second.
fn begins_half_year(seconds: u64) -> bool {
    let (_, month, day) = civil_from_days(seconds / 86_400);
    seconds.is_multiple_of(86_400) && matches!((month, day), (1 | 7, 1))
}

/// Seconds from 0000-03-01 to a date and a time of day; `None` if the calendar has no such second.
fn seconds_from_civil(
    [year, month, day]: [u64; 3],
    [hour, minute, second]: [u64; 3],
) -> Option<u64> {
    if year < 1 || !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from 0000-03-01 to 1970-01-01.
const DAY_ZERO: u64 = 719_468;
/// The same in seconds.
const EPOCH: u64 = DAY_ZERO * 86_400;

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-03-01 to a date of year 1 or later. Years are counted from March, so that the leap day comes last.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year
}

fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + DAY_ZERO;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_read_and_write() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-11-20T14:03:00.25Z", 1_795_183_380_250),
            ("9999-12-31T23:59:59.999Z", LAST_MOMENT),
            ("9999-12-31T23:59:59.9999999Z", LAST_MOMENT),
            ("2026-11-20t14:03:00.25z", 1_795_183_380_250),
            ("2026-11-20 14:03:00.250000+00:00", 1_795_183_380_250),
            ("2026-11-20T14:03:00.250999999Z", 1_795_183_380_250),
            ("2026-11-20T14:03:00.2-00:00", 1_795_183_380_200),
            ("2026-11-20T15:03:00.25+01:00", 1_795_183_380_250),
            ("2026-11-20T06:33:00.25-07:30", 1_795_183_380_250),
            ("2026-11-21T14:02:00.25+23:59", 1_795_183_380_250),
            // Before 1970 by its own clock.
            ("1969-12-31T23:30:00-01:00", 1_800_000),
            // The first two are the examples of RFC 3339 §5.8.
            ("1990-12-31T23:59:60Z", 662_688_000_000),
            ("1990-12-31T15:59:60-08:00", 662_688_000_000),
            ("2015-06-30T23:59:60.5Z", 1_435_708_800_500),
        ] {
            assert_eq!(
                UnixMillis::from_rfc3339(text),
                Some(UnixMillis(millis)),
                "{text}"
            );
        }
        assert_eq!(
            UnixMillis(1_616_018_515_685).to_string(),
            "2021-03-17T22:01:55.685Z"
        );
        assert_eq!(
            UnixMillis(951_825_600_000).to_string(),
            "2000-02-29T12:00:00Z"
        );
    }

    #[test]
    fn every_day_survives_the_round_trip() {
        for day in (0..2_932_897u64).step_by(7) {
            let moment = UnixMillis(day * 86_400_000 + 1);
            assert_eq!(UnixMillis::from_rfc3339(&moment.to_string()), Some(moment));
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for text in [
            "",
            "2026-02-30T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01",
            "2026-01-01T00:00Z",
            "2026-01-01_00:00:00Z",
            "2026-01-01  00:00:00Z",
            " 2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z ",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.",
            "2026-01-01T00:00:00.5",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00.5xZ",
            "2026-01-01T00:00:00UTC",
            "2026-01-01T00:00:00+00",
            "2026-01-01T00:00:00+0000",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+00:60",
            "2026-01-01T00:00:00 +00:00",
            "2026-01-01T00:00:00Z+00:00",
            "2026-01-01T00:00:00+01:00[Europe/Paris]",
            "20260101T000000Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:59:59+01:00",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-00:01",
            // A leap second in the middle of a day, of a month without one, of a time zone alone, and the one after.
            "2026-12-31T12:59:60Z",
            "2026-11-30T23:59:60Z",
            "2026-12-31T23:59:60+01:00",
            "2026-12-31T23:59:61Z",
            "２026-01-01T00:00:00Z",
        ] {
            assert_eq!(UnixMillis::from_rfc3339(text), None, "{text}");
        }
    }
    #[test]
    fn http_dates_read_and_write_in_one_form() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Fri, 31 Dec 9999 23:59:59 GMT", LAST_MOMENT / 1000),
        ] {
            let moment = UnixMillis::from_seconds(seconds);
            assert_eq!(moment.to_http_date().as_deref(), Some(text));
            assert_eq!(UnixMillis::from_http_date(text), Some(moment));
        }
        assert_eq!(UnixMillis(LAST_MOMENT + 1).to_http_date(), None);
        for text in [
            "",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:60 GMT",
            "Wed, 30 Feb 2000 00:00:00 GMT",
            "Wed, 31 Dec 1969 23:59:59 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Növ 1994 08:49:3 GMT",
        ] {
            assert_eq!(UnixMillis::from_http_date(text), None, "{text}");
        }
    }
}
