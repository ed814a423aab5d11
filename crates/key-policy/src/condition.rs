//! One line of a `Condition` block: operator, key, values.

use attestation::UnixMillis;

use crate::fact::{Fact, Request, Truth, has_wildcard, matches};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) quantifier: Quantifier,
    pub(crate) operator: Operator,
    pub(crate) if_exists: bool,
    /// In lower case.
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
    /// Whether `${…}` in a value is a variable, as in version 2012-10-17; before that it is plain text.
    pub(crate) variables: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    None,
    ForAnyValue,
    ForAllValues,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) kind: Kind,
    pub(crate) negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Equals,
    EqualsIgnoreCase,
    Like,
    ArnLike,
    Null,
    Before {
        inclusive: bool,
    },
    After {
        inclusive: bool,
    },
    /// An operator of IAM that is not computed here: whether it holds is unknown.
    NotComputed,
}

impl Operator {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (kind, negated) = match name {
            "StringEquals" => (Kind::Equals, false),
            "StringNotEquals" => (Kind::Equals, true),
            "StringEqualsIgnoreCase" => (Kind::EqualsIgnoreCase, false),
            "StringNotEqualsIgnoreCase" => (Kind::EqualsIgnoreCase, true),
            "StringLike" => (Kind::Like, false),
            "StringNotLike" => (Kind::Like, true),
            // Case does not matter for a Boolean.
            "Bool" => (Kind::EqualsIgnoreCase, false),
            "Null" => (Kind::Null, false),
            "ArnEquals" | "ArnLike" => (Kind::ArnLike, false),
            "ArnNotEquals" | "ArnNotLike" => (Kind::ArnLike, true),
            "DateLessThan" => (Kind::Before { inclusive: false }, false),
            "DateLessThanEquals" => (Kind::Before { inclusive: true }, false),
            "DateGreaterThan" => (Kind::After { inclusive: false }, false),
            "DateGreaterThanEquals" => (Kind::After { inclusive: true }, false),
            "DateEquals"
            | "NumericEquals"
            | "NumericLessThan"
            | "NumericLessThanEquals"
            | "NumericGreaterThan"
            | "NumericGreaterThanEquals"
            | "IpAddress"
            | "BinaryEquals" => (Kind::NotComputed, false),
            "DateNotEquals" | "NumericNotEquals" | "NotIpAddress" => (Kind::NotComputed, true),
            _ => return None,
        };
        Some(Self { kind, negated })
    }
}

impl Condition {
    /// Whether it compares characters, not moments, numbers or addresses.
    pub(crate) fn compares_text(&self) -> bool {
        matches!(
            self.operator.kind,
            Kind::Equals | Kind::EqualsIgnoreCase | Kind::Like | Kind::ArnLike
        )
    }

    /// Whether its values are patterns.
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self.operator.kind, Kind::Like | Kind::ArnLike)
    }

    /// Whether it holds for a request.
    ///
    /// For an absent key a negated operator is true and any other false; with `IfExists` or `ForAllValues` both are true, with
    /// `ForAnyValue` both false. AWS does not document `ForAnyValue` together with `IfExists`, so that result is *maybe*.
    pub(crate) fn holds(&self, request: &Request<'_>) -> Truth {
        let fact = request.fact(&self.key);
        if self.operator.kind == Kind::Null {
            let absent = match fact {
                Fact::Absent => Truth::Yes,
                Fact::Is(_) | Fact::NoneOf(_) => Truth::No,
                Fact::Unknown => Truth::Maybe,
            };
            return Truth::any(self.values.iter().map(|value| {
                if value.eq_ignore_ascii_case("true") {
                    absent
                } else if value.eq_ignore_ascii_case("false") {
                    absent.not()
                } else {
                    Truth::Maybe
                }
            }));
        }
        match fact {
            Fact::Absent if self.if_exists && self.quantifier == Quantifier::ForAnyValue => {
                Truth::Maybe
            }
            Fact::Absent if self.if_exists => Truth::Yes,
            Fact::Absent => match self.quantifier {
                Quantifier::ForAllValues => Truth::Yes,
                Quantifier::ForAnyValue => Truth::No,
                Quantifier::None => Truth::from_bool(self.operator.negated),
            },
            Fact::Unknown => Truth::Maybe,
            known => {
                let equal = Truth::any(
                    self.values
                        .iter()
                        .map(|value| self.matches_value(value, known)),
                );
                if self.operator.negated {
                    equal.not()
                } else {
                    equal
                }
            }
        }
    }

    fn matches_value(&self, value: &str, fact: &Fact) -> Truth {
        // A policy variable is replaced by a value of the request.
        if self.variables && value.contains("${") {
            return Truth::Maybe;
        }
        match (self.operator.kind, fact) {
            (Kind::Equals, Fact::Is(known)) => Truth::from_bool(known == value),
            (Kind::EqualsIgnoreCase, Fact::Is(known)) => {
                Truth::from_bool(known.eq_ignore_ascii_case(value))
            }
            (Kind::Like, Fact::Is(known)) => Truth::from_bool(matches(value, known)),
            (Kind::ArnLike, Fact::Is(known)) => matches_arn(value, known),
            (Kind::Like, Fact::NoneOf(_)) if matches_everything(value) => Truth::Yes,
            (Kind::Before { inclusive }, Fact::Is(known)) => {
                compare(known, value, |known, value| {
                    known < value || inclusive && known == value
                })
            }
            (Kind::After { inclusive }, Fact::Is(known)) => {
                compare(known, value, |known, value| {
                    known > value || inclusive && known == value
                })
            }
            (
                Kind::Equals | Kind::EqualsIgnoreCase | Kind::Like | Kind::ArnLike,
                Fact::NoneOf(others),
            ) => {
                let literal = !self.is_pattern() || !has_wildcard(value);
                let excluded = others.iter().any(|other| other.eq_ignore_ascii_case(value));
                if literal && excluded {
                    Truth::No
                } else {
                    Truth::Maybe
                }
            }
            _ => Truth::Maybe,
        }
    }
}

/// Compares ARNs part by part, as IAM does: `*` does not match a colon, except in the last part. For a text that is not an ARN the
/// result is *maybe*, because AWS does not document it.
fn matches_arn(pattern: &str, arn: &str) -> Truth {
    let parts = |text: &str| -> Vec<String> { text.splitn(6, ':').map(str::to_owned).collect() };
    let (pattern, arn) = (parts(pattern), parts(arn));
    if pattern.len() < 6 || arn.len() < 6 {
        return Truth::Maybe;
    }
    let mut pairs = pattern.iter().zip(&arn);
    Truth::from_bool(pairs.all(|(pattern, part)| matches(pattern, part)))
}

fn matches_everything(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.chars().all(|character| character == '*')
}

fn compare(known: &str, value: &str, holds: impl Fn(UnixMillis, UnixMillis) -> bool) -> Truth {
    match (
        UnixMillis::from_rfc3339(known),
        UnixMillis::from_rfc3339(value),
    ) {
        (Some(known), Some(value)) => Truth::from_bool(holds(known, value)),
        _ => Truth::Maybe,
    }
}
