//! One line of a `Condition` block: operator, key, values.

use attestation::UnixMillis;

use crate::fact::{Fact, Request, Truth, equals_ignoring_case, has_wildcard, matches};

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
    Bool,
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
            "Bool" => (Kind::Bool, false),
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
            Kind::Equals | Kind::EqualsIgnoreCase | Kind::Like | Kind::ArnLike | Kind::Bool
        )
    }

    /// Whether its values are patterns.
    pub(crate) fn is_pattern(&self) -> bool {
        matches!(self.operator.kind, Kind::Like | Kind::ArnLike)
    }

    /// Whether it holds for a request.
    pub(crate) fn holds(&self, request: &Request<'_>) -> Truth {
        let fact = request.fact(&self.key);
        if self.operator.kind == Kind::Null {
            let absent = match fact {
                Fact::Absent => Truth::Yes,
                Fact::Is(_) | Fact::NoneOf(_) | Fact::CaseVariant { .. } => Truth::No,
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
            Fact::Absent => self.holds_for_absent_key(),
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

    /// Whether it holds for a request without the key:
    ///
    /// | quantifier | operator | negated operator | either with `IfExists` |
    /// | --- | --- | --- | --- |
    /// | none | no | yes | yes |
    /// | `ForAnyValue` | no | no | maybe: not documented |
    /// | `ForAllValues` | yes | yes | yes |
    fn holds_for_absent_key(&self) -> Truth {
        match (self.quantifier, self.operator.negated, self.if_exists) {
            (Quantifier::None, false, false) => Truth::No,
            (Quantifier::None, true, _) | (Quantifier::None, _, true) => Truth::Yes,
            (Quantifier::ForAnyValue, _, false) => Truth::No,
            (Quantifier::ForAnyValue, _, true) => Truth::Maybe,
            (Quantifier::ForAllValues, _, _) => Truth::Yes,
        }
    }

    fn matches_value(&self, value: &str, fact: &Fact) -> Truth {
        // A policy variable is replaced by a value of the request.
        if self.variables && value.contains("${") {
            return Truth::Maybe;
        }
        match fact {
            Fact::Is(known) => self.matches_known(value, known),
            _ if self.operator.kind == Kind::Like && matches_everything(value) => Truth::Yes,
            _ if self.is_pattern() && has_wildcard(value) => Truth::Maybe,
            Fact::NoneOf(others) => {
                let excluded = others.iter().any(|other| other.eq_ignore_ascii_case(value));
                self.matches_other_value(value, excluded)
            }
            Fact::CaseVariant { of, not, .. } => match equals_ignoring_case(of, value) {
                Truth::No => self.matches_other_value(value, true),
                equal if self.operator.kind == Kind::EqualsIgnoreCase => equal,
                _ => self.matches_other_value(value, not.iter().any(|other| other == value)),
            },
            Fact::Absent | Fact::Unknown => Truth::Maybe,
        }
    }

    fn matches_known(&self, value: &str, known: &str) -> Truth {
        match self.operator.kind {
            Kind::Equals => Truth::from_bool(known == value),
            Kind::EqualsIgnoreCase => equals_ignoring_case(known, value),
            // AWS does not document which characters outside ASCII `?` counts as one.
            Kind::Like if value.contains('?') && !known.is_ascii() => Truth::Maybe,
            Kind::Like => Truth::from_bool(matches(value, known)),
            Kind::ArnLike => matches_arn(value, known),
            Kind::Bool => match (read_bool(known), read_bool(value)) {
                (Some(known), Some(value)) => Truth::from_bool(known == value),
                _ => Truth::Maybe,
            },
            Kind::Before { inclusive } => compare(known, value, |known, value| {
                known < value || inclusive && known == value
            }),
            Kind::After { inclusive } => compare(known, value, |known, value| {
                known > value || inclusive && known == value
            }),
            Kind::Null | Kind::NotComputed => Truth::Maybe,
        }
    }

    /// Whether `value` matches a value of the request that is not known, and certainly another one if `differs`.
    fn matches_other_value(&self, value: &str, differs: bool) -> Truth {
        let is_decided = match self.operator.kind {
            Kind::Equals | Kind::EqualsIgnoreCase | Kind::Like => true,
            // The result for a text that is not an ARN is not documented.
            Kind::ArnLike => self.key == PRINCIPAL_ARN && value.split(':').count() >= 6,
            _ => false,
        };
        if differs && is_decided {
            Truth::No
        } else {
            Truth::Maybe
        }
    }
}

/// Its value is always an ARN.
const PRINCIPAL_ARN: &str = "aws:principalarn";

fn read_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
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
