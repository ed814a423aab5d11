//! One line of a `Condition` block: operator, key, values.

use crate::fact::{Fact, Request, Truth, has_wildcard, matches};
use attestation::UnixMillis;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) quantifier: Quantifier,
    pub(crate) operator: Operator,
    pub(crate) if_exists: bool,
    /// In lower case.
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
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
    Null,
    Before {
        inclusive: bool,
    },
    After {
        inclusive: bool,
    },
    /// Known to IAM and not computed here: whether it holds is not known.
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
            "ArnEquals" | "ArnLike" => (Kind::Like, false),
            "ArnNotEquals" | "ArnNotLike" => (Kind::Like, true),
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
    /// Whether it holds for a request.
    ///
    /// An absent key makes a negated operator true and any other false; `IfExists` and `ForAllValues` make both true,
    /// `ForAnyValue` both false. What `ForAnyValue` with `IfExists` makes of one AWS does not say, so it is nothing to rely on.
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
                } else {
                    absent.not()
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
                Quantifier::None => Truth::of(self.operator.negated),
            },
            Fact::Unknown => Truth::Maybe,
            known => {
                let equal = Truth::any(self.values.iter().map(|value| self.fits(value, known)));
                if self.operator.negated {
                    equal.not()
                } else {
                    equal
                }
            }
        }
    }

    fn fits(&self, value: &str, fact: &Fact) -> Truth {
        // A policy variable stands for something of the request.
        if value.contains("${") {
            return Truth::Maybe;
        }
        match (self.operator.kind, fact) {
            (Kind::Equals, Fact::Is(known)) => Truth::of(known == value),
            (Kind::EqualsIgnoreCase, Fact::Is(known)) => {
                Truth::of(known.eq_ignore_ascii_case(value))
            }
            (Kind::Like, Fact::Is(known)) => Truth::of(matches(value, known)),
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
            (Kind::Equals | Kind::EqualsIgnoreCase | Kind::Like, Fact::NoneOf(others)) => {
                let literal = self.operator.kind != Kind::Like || !has_wildcard(value);
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

fn compare(known: &str, value: &str, holds: impl Fn(UnixMillis, UnixMillis) -> bool) -> Truth {
    match (
        UnixMillis::from_rfc3339(known),
        UnixMillis::from_rfc3339(value),
    ) {
        (Some(known), Some(value)) => Truth::of(holds(known, value)),
        _ => Truth::Maybe,
    }
}
