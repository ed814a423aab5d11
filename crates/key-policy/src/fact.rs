//! What is known of a request.

use std::collections::BTreeMap;

/// An answer, where facts may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// It does not hold.
    No,
    /// It depends on something that is not known.
    Maybe,
    /// It holds.
    Yes,
}

impl Truth {
    pub(crate) fn of(value: bool) -> Self {
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

/// What is known of one condition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The request does not have it.
    Absent,
    /// The request has this value.
    Is(String),
    /// The request has some value that is none of these.
    NoneOf(Vec<String>),
    /// Nothing is known.
    Unknown,
}

/// A request as far as it is known.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// As `kms:Decrypt`.
    pub action: &'a str,
    /// ARN of the caller; `None` for anybody.
    pub principal: Option<&'a str>,
    /// ARN of the key; `None` where it is not known.
    pub key: Option<&'a str>,
    /// Facts by condition key in lower case.
    pub facts: BTreeMap<String, Fact>,
    /// What holds for keys that `facts` does not name.
    pub others: Fact,
}

impl Request<'_> {
    pub(crate) fn fact(&self, key: &str) -> &Fact {
        self.facts.get(key).unwrap_or(&self.others)
    }
}

/// Whether a text fits a pattern in which `*` is any text and `?` any character.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Where the last star stands, and up to where it has eaten.
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
                Some((from, eaten)) => {
                    star = Some((from, eaten + 1));
                    (at, seen) = (from + 1, eaten + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

pub(crate) fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}
