//! Known and unknown facts of a request.

use std::collections::BTreeMap;

/// A truth value, *maybe* where facts are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// It does not hold.
    No,
    /// It depends on a fact that is unknown.
    Maybe,
    /// It holds.
    Yes,
}

impl Truth {
    pub(crate) fn from_bool(value: bool) -> Self {
        if value { Self::Yes } else { Self::No }
    }

    pub(crate) fn not(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Maybe => Self::Maybe,
            Self::Yes => Self::No,
        }
    }

    pub(crate) fn any(all: impl Iterator<Item = Self>) -> Self {
        all.max().unwrap_or(Self::No)
    }

    pub(crate) fn all(all: impl Iterator<Item = Self>) -> Self {
        all.min().unwrap_or(Self::Yes)
    }
}

/// The known part of one condition key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The request does not have the key.
    Absent,
    /// The request has this value.
    Is(String),
    /// The request has a value other than these, even if case is ignored.
    NoneOf(Vec<String>),
    /// The request has a value that differs from `of` only in case, and is none of `not`. Letters outside ASCII may make it equal
    /// too.
    CaseVariant {
        /// The value that it resembles.
        of: String,
        /// Such a value.
        example: String,
        /// Values that it does not have.
        not: Vec<String>,
    },
    /// Nothing is known.
    Unknown,
}

/// A request, of which facts may be unknown.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The operation, such as `kms:Decrypt`.
    pub action: &'a str,
    /// ARN of the caller; `None` for any caller.
    pub principal: Option<&'a str>,
    /// ARN of the key; `None` where it is unknown.
    pub key: Option<&'a str>,
    /// Facts by condition key in lower case.
    pub facts: BTreeMap<String, Fact>,
    /// The fact for keys that `facts` does not list.
    pub others: Fact,
}

impl Request<'_> {
    pub(crate) fn fact(&self, key: &str) -> &Fact {
        self.facts.get(key).unwrap_or(&self.others)
    }
}

/// Whether a text matches a pattern in which `*` is any text and `?` any character.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Position of the last star, and the end of the text that it has matched.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(expected) if *expected == '?' || Some(expected) == text.get(seen) => {
                (at, seen) = (at + 1, seen + 1);
            }
            _ => match star {
                Some((from, matched)) => {
                    star = Some((from, matched + 1));
                    (at, seen) = (from + 1, matched + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

/// Maps every text that some rule counts as equal, if case is ignored, to one text: simple and full folding of Unicode, and that of
/// a dotless `ı` and a dotted `İ`.
pub(crate) fn fold_case(text: &str) -> String {
    let upper = text.chars().flat_map(char::to_uppercase);
    let folded = upper.flat_map(char::to_lowercase);
    // The lower case of `İ` is `i` with this combining dot.
    folded.filter(|letter| *letter != '\u{307}').collect()
}

/// Whether two texts are equal if case is ignored. AWS does not document whether that applies to letters outside ASCII.
pub(crate) fn equals_ignoring_case(one: &str, other: &str) -> Truth {
    if one.eq_ignore_ascii_case(other) {
        Truth::Yes
    } else if fold_case(one) == fold_case(other) {
        Truth::Maybe
    } else {
        Truth::No
    }
}

pub(crate) fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}
