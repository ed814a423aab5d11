//! Generates the requests that must not succeed, and finds one that may.
//!
//! Values that the policy cannot tell apart need only one representative. So the search tries for each register: a value that
//! nothing names, every value that the policy or an accepted image names, zero, and no value. For every other single-valued
//! condition key it tries no value, each value that the policy names, one that differs from them only in case where an operator
//! ignores case, and one that the policy does not name. Multi-valued keys, quantifiers, and operators that are not computed, stay
//! unknown. Registers of accepted images and other values are combined in every way.
//!
//! The combinations form a tree with one key for each level. A branch ends early where the policy certainly denies the request
//! with any remaining keys, or where the request is not one of those that must fail.

use std::collections::BTreeMap;

use crate::accepted::{IMAGE, Images, Platform};
use crate::fact::{Fact, Request, Truth};
use crate::policy::KeyPolicy;

mod candidates;

use candidates::Variable;

/// Most requests generated for one question. Beyond it the question is undecided, which refuses the policy.
pub(crate) const MAX_REQUESTS: usize = 50_000;

/// Most requests reported for one question. One is enough to refuse the policy; further ones show further faults.
const MAX_REPORTED: usize = 16;

pub(crate) const DECRYPT: &str = "kms:Decrypt";

/// Operations that accept an attestation document. KMS sends condition keys about attestation only with these.
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
    /// Whether a request must fail. Also evaluated for partial requests.
    pub(crate) must_fail: &'a dyn Fn(&Request<'_>) -> Truth,
}

/// Source of the permission that a request relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// A statement that allows it.
    Statement,
    /// A grant, which needs no statement.
    Grant,
}

/// A request that may succeed, and must not.
pub(crate) struct Counterexample<'a> {
    /// The request with its registers and fixed facts; everything else is unknown. Used to explain the fault.
    pub(crate) attested_request: Request<'a>,
    /// A request with every fact that the policy compares.
    pub(crate) complete: Request<'a>,
}

/// The question was not decided within [`MAX_REQUESTS`].
pub(crate) struct Undecided;

pub(crate) struct Search<'a> {
    pub(crate) policy: &'a KeyPolicy,
    pub(crate) images: &'a Images,
    pub(crate) key: Option<&'a str>,
}

impl<'a> Search<'a> {
    /// Finds requests of `goal` that may succeed with `permission`.
    ///
    /// # Errors
    /// [`Undecided`] where [`MAX_REQUESTS`] were generated and none of them may succeed.
    pub(crate) fn find(
        &self,
        goal: &Goal<'_>,
        permission: Permission,
    ) -> Result<Vec<Counterexample<'a>>, Undecided> {
        let mut request = self.request(goal);
        let is_free = |variable: &Variable| {
            let mut keys = variable.keys.iter();
            keys.all(|key| !goal.fixed.contains_key(key))
        };
        let mut registers = self.register_variables(goal);
        registers.retain(is_free);
        let mut others = self.other_variables(goal.action);
        others.retain(is_free);
        let mut walk = TreeSearch {
            search: self,
            goal,
            permission,
            others: &others,
            left: MAX_REQUESTS,
            found: Vec::new(),
        };
        match walk.search_registers(&mut request, &registers) {
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
}

struct TreeSearch<'s, 'a> {
    search: &'s Search<'a>,
    goal: &'s Goal<'s>,
    permission: Permission,
    others: &'s [Variable],
    left: usize,
    found: Vec<Counterexample<'a>>,
}

impl<'a> TreeSearch<'_, 'a> {
    fn search_registers(
        &mut self,
        request: &mut Request<'a>,
        rest: &[Variable],
    ) -> Result<(), Undecided> {
        let images = self.search.images;
        if self.found.len() == MAX_REPORTED
            || !images.can_exist(request)
            || (self.goal.must_fail)(request) == Truth::No
            || !self.may_succeed(request)?
        {
            return Ok(());
        }
        let Some((variable, rest)) = rest.split_first() else {
            let attested_request = request.clone();
            if let Some(complete) = self.complete(request, 0)? {
                self.found.push(Counterexample {
                    attested_request,
                    complete,
                });
            }
            return Ok(());
        };
        for fact in &variable.facts {
            set_fact(request, variable, Some(fact));
            self.search_registers(request, rest)?;
        }
        set_fact(request, variable, None);
        Ok(())
    }

    /// Searches for a request with these registers that may succeed.
    fn complete(
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
            set_fact(request, variable, Some(fact));
            found = self.complete(request, level + 1)?;
            if found.is_some() {
                break;
            }
        }
        set_fact(request, variable, None);
        Ok(found)
    }

    /// Sound, because a Deny counts only where it certainly applies, and an Allow wherever it may.
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

fn set_fact(request: &mut Request<'_>, variable: &Variable, fact: Option<&Fact>) {
    for key in &variable.keys {
        match fact {
            Some(fact) => request.facts.insert(key.clone(), fact.clone()),
            None => request.facts.remove(key),
        };
    }
}
