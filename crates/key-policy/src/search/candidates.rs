//! Facts that the search tries for each condition key.

use std::collections::{BTreeMap, BTreeSet};

use attestation::UnixMillis;

use super::{ATTESTABLE, Goal, Search};
use crate::accepted::{IMAGE, Platform, TIME};
use crate::condition::{Condition, Kind, Quantifier};
use crate::fact::{Fact, Truth, fold_case, has_wildcard};

/// A condition key, or two with the same meaning, and the facts to try.
pub(super) struct Variable {
    pub(super) keys: Vec<String>,
    pub(super) facts: Vec<Fact>,
}

impl Search<'_> {
    /// Every register that the policy or an accepted image names.
    pub(super) fn register_variables(&self, goal: &Goal<'_>) -> Vec<Variable> {
        if !ATTESTABLE.contains(&goal.action) {
            return Vec::new();
        }
        let images: Vec<_> = self
            .images
            .all()
            .filter(|image| image.platform == goal.platform)
            .collect();
        let mut variables = Vec::new();
        for (index, key) in goal.platform.registers().into_iter().enumerate() {
            let is_pcr0 = index == 0 && goal.platform == Platform::Enclave;
            let mut keys = vec![key.clone()];
            if is_pcr0 {
                keys.push(IMAGE.to_owned());
            }
            let mut values: BTreeSet<String> = BTreeSet::new();
            let mut named = is_pcr0;
            for condition in self.conditions(goal.action) {
                if keys.contains(&condition.key) {
                    named = true;
                    values.extend(literals(condition));
                }
            }
            for image in &images {
                if let Some(value) = image.registers.get(&key) {
                    named = true;
                    values.insert(value.clone());
                }
            }
            if !named {
                continue;
            }
            values.insert("0".repeat(96));
            // KMS sends registers in lower case.
            values.extend(
                values
                    .iter()
                    .map(|value| value.to_ascii_lowercase())
                    .collect::<Vec<_>>(),
            );
            variables.push(Variable {
                keys,
                facts: candidate_facts(values),
            });
        }
        variables
    }

    /// Every other single-valued key that the policy names for this action.
    pub(super) fn other_variables(&self, action: &str) -> Vec<Variable> {
        let mut by_key: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
        for condition in self.conditions(action) {
            if has_one_value(&condition.key) {
                by_key.entry(&condition.key).or_default().push(condition);
            }
        }
        let variables = by_key.into_iter().filter_map(|(key, conditions)| {
            let values = conditions.iter().flat_map(|it| literals(it)).collect();
            // AWS documents quantifiers for keys of several values only. Such a comparison with an empty value, or with two pairs of
            // an encryption context whose keys differ in case, is not decided.
            let is_quantified = |it: &&Condition| it.quantifier != Quantifier::None;
            if conditions.iter().any(is_quantified) {
                return None;
            }
            let facts = if key != TIME {
                let variants = find_case_variants(&values, &conditions);
                let mut facts = candidate_facts(values);
                facts.extend(variants);
                facts
            } else if conditions.iter().any(|it| it.compares_text()) {
                // The same moment can be written in several ways, so text comparisons are not decided.
                return None;
            } else {
                candidate_times(&values)
            };
            let keys = vec![key.to_owned()];
            Some(Variable { keys, facts })
        });
        variables.collect()
    }

    fn conditions(&self, action: &str) -> impl Iterator<Item = &Condition> {
        let statements = self
            .policy
            .statements
            .iter()
            .filter(move |statement| statement.names_action(action) != Truth::No);
        statements.flat_map(|statement| &statement.conditions)
    }
}

/// A value that is not named, each named value, and no value. The first is the likeliest to succeed, so it is tried first.
fn candidate_facts(values: BTreeSet<String>) -> Vec<Fact> {
    let values: Vec<String> = values.into_iter().collect();
    let mut facts = vec![Fact::NoneOf(values.clone())];
    facts.extend(values.into_iter().map(Fact::Is));
    facts.push(Fact::Absent);
    facts
}

/// For each value that an operator compares without case: a value that equals it then, and is not listed. Other operators may tell
/// the two apart.
fn find_case_variants(values: &BTreeSet<String>, conditions: &[&Condition]) -> Vec<Fact> {
    let ignores_case = |it: &&&Condition| it.operator.kind == Kind::EqualsIgnoreCase;
    let ignoring = conditions.iter().filter(ignores_case);
    let compared: BTreeSet<String> = ignoring
        .flat_map(|it| literals(it))
        .map(|value| value.to_ascii_lowercase())
        .collect();
    let variants = compared.into_iter().filter_map(|of| {
        let example = find_unlisted_case(&of, values).or_else(|| find_foreign_case(&of, values))?;
        let not = values.iter().cloned().collect();
        Some(Fact::CaseVariant { of, example, not })
    });
    variants.collect()
}

/// Finds a text that differs from `lower` only in the case of ASCII letters, and is not listed.
fn find_unlisted_case(lower: &str, listed: &BTreeSet<String>) -> Option<String> {
    // A text more than there are listed ones is enough, because the texts differ.
    (0..=listed.len()).find_map(|mut choice| {
        let mut text = String::new();
        for letter in lower.chars() {
            if letter.is_ascii_lowercase() {
                let upper = choice % 2 == 1;
                choice /= 2;
                text.push(if upper {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                });
            } else {
                text.push(letter);
            }
        }
        (choice == 0 && !listed.contains(&text)).then_some(text)
    })
}

/// Finds a text that equals `lower` only where letters outside ASCII are compared without case too. It may be listed, because other
/// such texts may not be.
fn find_foreign_case(lower: &str, listed: &BTreeSet<String>) -> Option<String> {
    let folded = fold_case(lower);
    let replaced = FOREIGN_LETTERS
        .iter()
        .map(|(from, to)| lower.replacen(from, to, 1));
    let cases = [lower.to_uppercase(), lower.to_lowercase(), folded.clone()];
    let foreign: Vec<_> = replaced
        .chain(cases)
        .filter(|text| !text.eq_ignore_ascii_case(lower) && fold_case(text) == folded)
        .collect();
    let unlisted = foreign.iter().find(|text| !listed.contains(*text));
    unlisted.or(foreign.first()).cloned()
}

/// ASCII letters, and letters outside ASCII with the same upper or lower case.
const FOREIGN_LETTERS: &[(&str, &str)] = &[
    ("k", "\u{212a}"),
    ("s", "\u{17f}"),
    ("i", "\u{131}"),
    ("ff", "\u{fb00}"),
    ("fl", "\u{fb02}"),
];

/// Times just before, at, and just after each named moment, and the earliest time.
fn candidate_times(values: &BTreeSet<String>) -> Vec<Fact> {
    let mut moments: BTreeSet<u64> = BTreeSet::from([0]);
    for value in values {
        if let Some(UnixMillis(moment)) = UnixMillis::from_rfc3339(value) {
            moments.extend([moment.saturating_sub(1), moment, moment + 1]);
        }
    }
    let facts = moments.into_iter().map(UnixMillis);
    facts.map(|moment| Fact::Is(moment.to_string())).collect()
}

/// Values without patterns and variables, which may match a value that is not named.
fn literals(condition: &Condition) -> impl Iterator<Item = String> {
    let values = condition.values.iter().filter(|value| {
        let variable = condition.variables && value.contains("${");
        let pattern = condition.is_pattern() && has_wildcard(value);
        !variable && !pattern
    });
    values.cloned()
}

/// Whether a request has at most one value for this key. AWS's references of global and of KMS condition keys call these
/// single-valued.
fn has_one_value(key: &str) -> bool {
    key.starts_with("kms:encryptioncontext:")
        || [
            TIME,
            "aws:principalaccount",
            "aws:principalarn",
            "aws:principalorgid",
            "aws:sourcevpc",
            "aws:sourcevpce",
            "aws:username",
            "aws:userid",
            "kms:calleraccount",
            "kms:viaservice",
        ]
        .contains(&key)
}
