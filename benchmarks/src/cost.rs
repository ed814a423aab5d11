//! Computes the cost of inferences on a machine whose price is known.

use crate::record::{Measurement, Parameter, Qualifier, Record, Statistics, Unit};

/// Length in tokens at which the reports state throughput and cost; they pad every text to it.
const TOKENS: f64 = 128.0;

const PRICE: &str = "cost.hourly_price";
const HOURLY: &str = "cost.inferences_per_hour";
const THOUSAND: &str = "cost.per_thousand";
const MILLION: &str = "cost.per_million";

/// Parses the hourly price in US dollars: up to six digits before the decimal point and six after it.
///
/// # Errors
/// A message, if `text` is not a price.
pub fn parse_price(text: &str) -> Result<f64, String> {
    let digits = text.strip_prefix('$').unwrap_or(text);
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, "0"));
    let counted = |part: &str| {
        (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let price = digits.parse().unwrap_or(0.0);
    if counted(whole) && counted(rest) && price > 0.0 {
        Ok(price)
    } else {
        Err(
            "a price is above 0, with at most six digits before the point and six after it"
                .to_owned(),
        )
    }
}

/// Returns the hourly price stated in `record`.
pub fn stated_price(record: &Record) -> Option<f64> {
    let mut figures = record.measurements.iter();
    figures
        .find(|figure| figure.subject == PRICE)?
        .statistics
        .value
}

/// Adds to `record` the cost of inferences on a machine at `price` US dollars an hour. Replaces an earlier cost.
pub fn add(price: f64, record: &mut Record) {
    let figures = &mut record.measurements;
    figures.retain(|figure| ![PRICE, HOURLY, THOUSAND, MILLION].contains(&figure.subject.as_str()));
    let mut found = vec![Measurement {
        note: Some("As given by --price.".to_owned()),
        ..Measurement::new(PRICE, &[], Unit::Dollars, Statistics::of_one(price))
    }];
    for figure in figures
        .iter()
        .filter(|figure| figure.subject == "inference.throughput")
    {
        let length = figure.parameters.get("tokens");
        let rate = figure
            .statistics
            .mean
            .or(figure.statistics.value)
            .filter(|rate| *rate > 0.0);
        let (Some(rate), Some(Parameter::Number(TOKENS)) | None) = (rate, length) else {
            continue;
        };
        let hour = rate * 3_600.0;
        for (subject, unit, value) in [
            (HOURLY, Unit::Count, hour),
            (THOUSAND, Unit::Dollars, price / hour * 1e3),
            (MILLION, Unit::Dollars, price / hour * 1e6),
        ] {
            found.push(Measurement {
                parameters: figure.parameters.clone(),
                qualifier: Some(Qualifier::Derived),
                note: Some("From its inferences a second.".to_owned()),
                ..Measurement::new(subject, &[], unit, Statistics::of_one(value))
            });
        }
    }
    figures.append(&mut found);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(figures: &[(f64, f64)]) -> Record {
        let figure = |(tokens, rate): &(f64, f64)| {
            let parameters = [("tokens", Parameter::Number(*tokens))];
            let rate = Statistics::of_one(*rate);
            Measurement::new(
                "inference.throughput",
                &parameters,
                Unit::InferencesPerSecond,
                rate,
            )
        };
        Record {
            measurements: figures.iter().map(figure).collect(),
            ..Record::default()
        }
    }

    #[test]
    fn costs_follow_from_the_throughput_at_the_padded_length() {
        let mut record = record(&[(128.0, 12.5), (32.0, 50.0), (128.0, 0.0)]);
        add(0.192, &mut record);
        let value = |subject: &str| {
            let mut all = record
                .measurements
                .iter()
                .filter(|figure| figure.subject == subject);
            let value = all
                .next()
                .and_then(|figure| figure.statistics.value)
                .unwrap();
            assert!(all.next().is_none(), "{subject}");
            value
        };
        assert!((value(HOURLY) - 45_000.0).abs() < 1e-6);
        assert!((value(THOUSAND) - 0.004_266).abs() < 1e-5);
        assert!((value(MILLION) - 4.266_666).abs() < 1e-5);
        assert_eq!(stated_price(&record), Some(0.192));
    }

    #[test]
    fn another_price_replaces_the_first_one() {
        let mut twice = record(&[(128.0, 12.5)]);
        add(1.0, &mut twice);
        add(2.0, &mut twice);
        let mut once = record(&[(128.0, 12.5)]);
        add(2.0, &mut once);
        assert_eq!(twice, once);
        assert_eq!(stated_price(&record(&[])), None);
    }

    #[test]
    fn a_price_is_read_as_the_page_reads_it() {
        assert_eq!(parse_price("0.192"), Ok(0.192));
        assert_eq!(parse_price("$3"), Ok(3.0));
        for wrong in [
            "",
            "0",
            "-1",
            "inf",
            "NaN",
            "1e305",
            "1234567",
            "0.1234567",
            ".5",
            "5.",
            "1 000",
        ] {
            assert!(parse_price(wrong).is_err(), "{wrong}");
        }
    }
}
