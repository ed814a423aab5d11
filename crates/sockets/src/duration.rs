//! Time spans with a unit.

use std::time::Duration;

/// Units and their seconds. `ms` is before `s`, which is a suffix of it.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Parses a time span above zero: a number, which may have a fraction, and a unit. For clap's `value_parser`.
///
/// # Errors
/// A message that names the expected form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = UNITS.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        // `f64` would also parse signs, exponents and `inf`.
        let is_decimal = number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let count: f64 = is_decimal.then(|| number.parse().ok())??;
        Duration::try_from_secs_f64(count * seconds).ok()
    });
    parsed
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write a number and a unit, such as 500ms, 30s, 10m or 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_a_duration() {
        for (text, expected) in [
            ("1ms", Duration::from_millis(1)),
            ("0.2s", Duration::from_millis(200)),
            ("90s", Duration::from_secs(90)),
            ("30m", Duration::from_secs(1800)),
            ("2h", Duration::from_secs(7200)),
            (".5h", Duration::from_secs(1800)),
        ] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "s",
            "30",
            "30 s",
            "30S",
            "-1s",
            "+1s",
            "0s",
            "0.0ms",
            "1e3s",
            "infs",
            "nans",
            "1d",
            "1.2.3s",
            "99999999999999999999h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
