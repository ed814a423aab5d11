//! Generates the requests that must not succeed, and finds one that may.
//!
//! A value matters only as far as the policy can tell it from others. So each register takes: a value that nothing names, every
//! value that the policy or an accepted image names, zero, and no value. Every other condition key with one value takes no value,
//! each value that the policy names, and one that it does not name. Keys with several values, and all that is not computed, stay
//! unknown. Registers of an image that is accepted, of several, and of none are combined in every way.
//!
//! The combinations are walked as a tree, one key at a level. A branch ends early where the policy certainly denies the request
//! whatever the remaining keys are, or where the request is not one of those that must fail.

use std::collections::{BTreeMap, BTreeSet};

use attestation::UnixMillis;

use crate::accepted::{ATTESTATION, IMAGE, Images, Platform, TIME};
use crate::condition::{Condition, Kind};
use crate::fact::{Fact, Request, Truth, has_wildcard};
use crate::policy::KeyPolicy;

/// Requests that are generated for one question, at most. Beyond it the question counts as not decided, which refuses the policy.
pub(crate) const MAX_REQUESTS: usize = 50_000;

/// Requests of one question that are reported. The first alone refuses the policy; more of them name more of its faults.
const MAX_REPORTED: usize = 16;

pub(crate) const DECRYPT: &str = "kms:Decrypt";

/// Operations that take a document. KMS sends condition keys about attestation with these alone.
const ATTESTABLE: &[&str] = &[
    DECRYPT,
    "kms:DeriveSharedSecret",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyPair",
    "kms:GenerateRandom",
];

/// Requests to generate.
pub(crate) struct Goal<'a> {
    pub(crate) action: &'static str,
    pub(crate) platform: Platform,
    /// Facts that all of them have.
    pub(crate) fixed: BTreeMap<String, Fact>,
    /// Whether a request must fail; asked of unfinished requests too.
    pub(crate) must_fail: &'a dyn Fn(&Request<'_>) -> Truth,
}

/// Source of the permission that a request relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// A statement that allows it.
    Statement,
    /// A grant, which no statement has to allow.
    Grant,
}

/// A request that may succeed, and must not.
pub(crate) struct Hole<'a> {
    /// Registers and fixed facts, all else unknown: each of these requests that is not denied shows what is wrong.
    pub(crate) registers: Request<'a>,
    /// One request with every fact that the policy asks for.
    pub(crate) whole: Request<'a>,
}

/// The question was not decided within [`MAX_REQUESTS`].
pub(crate) struct Undecided;

pub(crate) struct Search<'a> {
    pub(crate) policy: &'a KeyPolicy,
    pub(crate) images: &'a Images,
    pub(crate) key: Option<&'a str>,
}

/// A condition key, or two of one meaning, and the facts that it takes in turn.
struct Variable {
    keys: Vec<String>,
    facts: Vec<Fact>,
}

impl<'a> Search<'a> {
    /// Finds requests of `goal` that may succeed with `permission`.
    ///
    /// # Errors
    /// [`Undecided`], where none was found by then.
    pub(crate) fn find(
        &self,
        goal: &Goal<'_>,
        permission: Permission,
    ) -> Result<Vec<Hole<'a>>, Undecided> {
        let mut request = self.request(goal);
        let free = |variable: &Variable| {
            let mut keys = variable.keys.iter();
            keys.all(|key| !goal.fixed.contains_key(key))
        };
        let mut registers = self.registers(goal);
        registers.retain(free);
        let mut others = self.others(goal.action);
        others.retain(free);
        let mut walk = Walk {
            search: self,
            goal,
            permission,
            others: &others,
            left: MAX_REQUESTS,
            found: Vec::new(),
        };
        match walk.registers(&mut request, &registers) {
            Err(undecided) if walk.found.is_empty() => Err(undecided),
            _ => Ok(walk.found),
        }
    }

    /// A request of which only the platform and the fixed facts are known.
    pub(crate) fn request(&self, goal: &Goal<'_>) -> Request<'a> {
        let mut facts = BTreeMap::new();
        let attestable = ATTESTABLE.contains(&goal.action);
        for platform in [Platform::Enclave, Platform::Instance] {
            if platform != goal.platform || !attestable {
                facts.extend(
                    platform
                        .registers()
                        .into_iter()
                        .map(|key| (key, Fact::Absent)),
                );
            }
        }
        if goal.platform != Platform::Enclave || !attestable {
            facts.insert(IMAGE.to_owned(), Fact::Absent);
        }
        facts.extend(goal.fixed.clone());
        Request {
            action: goal.action,
            principal: None,
            key: self.key,
            facts,
            others: Fact::Unknown,
        }
    }

    /// Every register that the policy or an accepted image names.
    fn registers(&self, goal: &Goal<'_>) -> Vec<Variable> {
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
            // KMS writes registers in lower case.
            values.extend(
                values
                    .iter()
                    .map(|value| value.to_ascii_lowercase())
                    .collect::<Vec<_>>(),
            );
            variables.push(Variable {
                keys,
                facts: take_in_turn(values),
            });
        }
        variables
    }

    /// Every other key that the policy names for this action and that has one value.
    fn others(&self, action: &str) -> Vec<Variable> {
        let mut by_key: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
        for condition in self.conditions(action) {
            if has_one_value(&condition.key) {
                by_key.entry(&condition.key).or_default().push(condition);
            }
        }
        let variables = by_key.into_iter().filter_map(|(key, conditions)| {
            let values = conditions.iter().flat_map(|it| literals(it)).collect();
            let facts = if key != TIME {
                take_in_turn(with_other_case(values, &conditions))
            } else if conditions.iter().any(|it| it.compares_text()) {
                // A moment is written in more than one way.
                return None;
            } else {
                moments(&values)
            };
            let keys = vec![key.to_owned()];
            Some(Variable { keys, facts })
        });
        variables.collect()
    }

    fn conditions(&self, action: &str) -> impl Iterator<Item = &Condition> {
        let naming = self
            .policy
            .statements
            .iter()
            .filter(move |statement| statement.names_action(action) == Truth::Yes);
        naming.flat_map(|statement| &statement.conditions)
    }
}

struct Walk<'s, 'a> {
    search: &'s Search<'a>,
    goal: &'s Goal<'s>,
    permission: Permission,
    others: &'s [Variable],
    left: usize,
    found: Vec<Hole<'a>>,
}

impl<'a> Walk<'_, 'a> {
    fn registers(&mut self, request: &mut Request<'a>, rest: &[Variable]) -> Result<(), Undecided> {
        let images = self.search.images;
        if self.found.len() == MAX_REPORTED
            || !images.can_exist(request)
            || (self.goal.must_fail)(request) == Truth::No
            || !self.may_succeed(request)?
        {
            return Ok(());
        }
        let Some((variable, rest)) = rest.split_first() else {
            let registers = request.clone();
            if let Some(whole) = self.open(request, 0)? {
                self.found.push(Hole { registers, whole });
            }
            return Ok(());
        };
        for fact in &variable.facts {
            set(request, variable, Some(fact));
            self.registers(request, rest)?;
        }
        set(request, variable, None);
        Ok(())
    }

    /// Looks for a request with these registers that may succeed.
    fn open(
        &mut self,
        request: &mut Request<'a>,
        level: usize,
    ) -> Result<Option<Request<'a>>, Undecided> {
        if !self.may_succeed(request)? {
            return Ok(None);
        }
        let others = self.others;
        let Some(variable) = others.get(level) else {
            return Ok(Some(request.clone()));
        };
        let mut found = None;
        for fact in &variable.facts {
            set(request, variable, Some(fact));
            found = self.open(request, level + 1)?;
            if found.is_some() {
                break;
            }
        }
        set(request, variable, None);
        Ok(found)
    }

    /// Sound: only a Deny that certainly applies counts, and every Allow that may.
    fn may_succeed(&mut self, request: &Request<'_>) -> Result<bool, Undecided> {
        self.left = self.left.checked_sub(1).ok_or(Undecided)?;
        let outcome = self.search.policy.evaluate(request);
        let permitted = match self.permission {
            Permission::Statement => outcome.allowed != Truth::No,
            Permission::Grant => true,
        };
        Ok(permitted && outcome.denied != Truth::Yes)
    }
}

fn set(request: &mut Request<'_>, variable: &Variable, fact: Option<&Fact>) {
    for key in &variable.keys {
        match fact {
            Some(fact) => request.facts.insert(key.clone(), fact.clone()),
            None => request.facts.remove(key),
        };
    }
}

/// A value that is not named, each that is, and none. The first is the likeliest to be let through.
fn take_in_turn(values: BTreeSet<String>) -> Vec<Fact> {
    let values: Vec<String> = values.into_iter().collect();
    let mut facts = vec![Fact::NoneOf(values.clone())];
    facts.extend(values.into_iter().map(Fact::Is));
    facts.push(Fact::Absent);
    facts
}

/// Adds to each value one that differs in case alone, where an operator ignores case: another operator may not.
fn with_other_case(values: BTreeSet<String>, conditions: &[&Condition]) -> BTreeSet<String> {
    let ignored = |condition: &&Condition| condition.operator.kind == Kind::EqualsIgnoreCase;
    if !conditions.iter().any(ignored) {
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

/// Before all moments, at each, and just after each.
fn moments(values: &BTreeSet<String>) -> Vec<Fact> {
    let mut moments: BTreeSet<u64> = BTreeSet::from([0]);
    for value in values {
        if let Some(UnixMillis(moment)) = UnixMillis::from_rfc3339(value) {
            moments.extend([moment.saturating_sub(1), moment, moment + 1]);
        }
    }
    let facts = moments.into_iter().map(UnixMillis);
    facts.map(|moment| Fact::Is(moment.to_string())).collect()
}

/// Values that stand for themselves. Patterns and variables do not: they fit, perhaps, a value that is not named.
fn literals(condition: &Condition) -> impl Iterator<Item = String> {
    let values = condition.values.iter().filter(|value| {
        let variable = condition.variables && value.contains("${");
        let pattern = condition.is_pattern() && has_wildcard(value);
        !variable && !pattern
    });
    values.cloned()
}

/// Whether a request has at most one value for this key (AWS's references of global keys and of KMS's call these single-valued).
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

/// Facts of a request in words, by condition key.
pub(crate) fn describe(request: &Request<'_>) -> BTreeMap<String, String> {
    let platforms = [Platform::Enclave, Platform::Instance];
    let absent = |key: &str| {
        let mut platforms = platforms.iter();
        key == IMAGE || platforms.any(|platform| platform.registers().iter().any(|it| it == key))
    };
    let facts = request.facts.iter().filter_map(|(key, fact)| {
        let words = match fact {
            Fact::Is(value) => value.clone(),
            Fact::NoneOf(_) => "a value that is not named".to_owned(),
            Fact::Absent if absent(key) => return None,
            Fact::Absent => "absent".to_owned(),
            Fact::Unknown => return None,
        };
        let key = key
            .strip_prefix(ATTESTATION)
            .map_or_else(|| key.clone(), display_register);
        (key != "ImageSha384").then_some((key, words))
    });
    facts.collect()
}

fn display_register(key: &str) -> String {
    match key {
        "imagesha384" => "ImageSha384".to_owned(),
        _ => key.replace("nitrotpm", "NitroTPM").replace("pcr", "PCR"),
    }
}
