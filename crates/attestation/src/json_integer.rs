//! Integers in JSON, which has one kind of number (RFC 8259 §6): `300`, `300.0` and `3e2` are equal.

use std::fmt::{self, Formatter};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// A non-negative integer, in any JSON notation. Refuses fractions, and values that `T` cannot hold.
///
/// Digits alone are read exactly. A number with a point or an exponent is read as a double, as most programs do, and refused from
/// 2^50 on: the last bits of a double may be wrong, and below 2^50 such an error leaves a fraction.
pub struct JsonInteger<T>(pub T);

/// The integer equal to `number`, if it is between 0 and 2^50 - 1.
pub fn integer_from_f64(number: f64) -> Option<u64> {
    const LIMIT: f64 = 1_125_899_906_842_624.0;
    // Within these bounds the cast is exact.
    ((0.0..LIMIT).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

impl<'de, T: TryFrom<u64>> Deserialize<'de> for JsonInteger<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<T>(PhantomData<T>);

        impl<T: TryFrom<u64>> Visitor<'_> for Number<T> {
            type Value = JsonInteger<T>;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<JsonInteger<T>, E> {
                let refused = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
                T::try_from(number).map(JsonInteger).map_err(refused)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<JsonInteger<T>, E> {
                match integer_from_f64(number) {
                    Some(number) => self.visit_u64(number),
                    None => Err(E::invalid_value(Unexpected::Float(number), &self)),
                }
            }
        }

        // Only a hint: readers still give an integer as an integer. With an integer hint, an untagged enum would refuse a double.
        deserializer.deserialize_f64(Number(PhantomData))
    }
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    JsonInteger::deserialize(deserializer).map(|JsonInteger(number)| number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse<T: TryFrom<u64>>(json: &str) -> Option<T> {
        serde_json::from_str::<JsonInteger<T>>(json)
            .ok()
            .map(|it| it.0)
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        for json in [
            "384", "384.0", "384.000", "3.84e2", "3.84E+2", "38400e-2", "0.384e3",
        ] {
            assert_eq!(parse::<u64>(json), Some(384), "{json}");
            assert_eq!(parse::<u16>(json), Some(384), "{json}");
            assert_eq!(parse::<u8>(json), None, "{json}");
        }
        for (json, number) in [("0", 0), ("0.0", 0), ("-0", 0), ("-0.0", 0), ("0e9", 0)] {
            assert_eq!(parse::<u64>(json), Some(number), "{json}");
        }
    }

    #[test]
    fn large_numbers_are_exact_or_refused() {
        for number in [
            (1 << 53) - 1,
            1 << 53,
            (1 << 53) + 1,
            u64::MAX - 1,
            u64::MAX,
        ] {
            assert_eq!(parse(&number.to_string()), Some(number));
        }
        assert_eq!(parse("1125899906842623.0"), Some((1_u64 << 50) - 1));
        // 2^32 - 1, with more zeros than a double has digits.
        for zeros in 1..30 {
            let json = format!("4294967295.{}", "0".repeat(zeros));
            assert!(matches!(parse(&json), None | Some(u32::MAX)), "{json}");
        }
        for json in [
            "1125899906842624.0",
            "9007199254740991.0",
            "9007199254740993.0",
            "1e16",
            "1.8446744073709551615e19",
        ] {
            assert_eq!(parse::<u64>(json), None, "{json}");
        }
    }

    #[test]
    fn other_values_are_refused() {
        for json in [
            "384.5",
            "0.1",
            "1e-1",
            "-1",
            "-1.0",
            "-384e0",
            "1e400",
            "-1e400",
            "1e999999999999",
            "18446744073709551616",
            "NaN",
            "Infinity",
            "\"384\"",
            "true",
            "null",
            "[384]",
            "384.",
            ".5",
            "0384",
            "+384",
        ] {
            assert_eq!(parse::<u64>(json), None, "{json}");
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.5] {
            assert_eq!(integer_from_f64(number), None, "{number}");
        }
    }

    /// Serde buffers the value of an untagged enum, and its buffer yields a double only if one is requested.
    #[test]
    fn a_buffered_number_is_read_alike() {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(JsonInteger<u32>),
            Numbers(Vec<JsonInteger<u32>>),
        }
        for json in ["7592", "7592.0", "[7592.0]", "[7592]"] {
            let number = match serde_json::from_str(json).unwrap() {
                Either::Number(JsonInteger(number)) => number,
                Either::Numbers(numbers) => numbers[0].0,
            };
            assert_eq!(number, 7592, "{json}");
        }
    }
}
