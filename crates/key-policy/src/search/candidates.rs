//! Facts that the search tries for each condition key.

use std::collections::{BTreeMap, BTreeSet};

use attestation::UnixMillis;

use super::{ATTESTABLE, Goal, Search};
use crate::accepted::{IMAGE, Platform, TIME};
use crate::condition::{Condition, Kind};
use crate::fact::{Fact, Truth, has_wildcard};

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
            let facts = if key != TIME {
                candidate_facts(add_case_variants(values, &conditions))
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
            .filter(move |statement| statement.names_action(action) == Truth::Yes);
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

/// Adds variants that differ only in case, where an operator ignores case: another operator may not ignore it.
fn add_case_variants(values: BTreeSet<String>, conditions: &[&Condition]) -> BTreeSet<String> {
    let ignores_case = |condition: &&Condition| condition.operator.kind == Kind::EqualsIgnoreCase;
    if !conditions.iter().any(ignores_case) {
        return values;
    }
    let mut all = values.clone();
    for value in &values {
        let mut invert = value.clone().into_bytes();
        for byte in &mut invert {
            if byte.is_ascii_alphabetic() {
                *byte ^= 0x20;
            }
        }
        let inverted = String::from_utf8(invert).ok();
        let others = [value.to_ascii_lowercase(), value.to_ascii_uppercase()];
        all.extend(others.into_iter().chain(inverted));
    }
    all
}

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
