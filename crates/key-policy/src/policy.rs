//! A key policy, and how IAM evaluates one.

use crate::condition::Condition;
use crate::fact::{Request, Truth, matches};
use crate::resource::names_key;

/// A policy of a KMS key. Read by [`KeyPolicy::parse`](Self::parse).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPolicy {
    pub(crate) statements: Vec<Statement>,
}

/// Effect of a statement that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Permits.
    Allow,
    /// Forbids, even if another statement, an IAM policy or a grant permits.
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its `Sid`, or its number from 1.
    pub(crate) name: String,
    pub(crate) effect: Effect,
    pub(crate) principals: Principals,
    pub(crate) actions: Patterns,
    pub(crate) resources: Patterns,
    /// Whether the resources name the key, for a request whose key ARN is unknown.
    pub(crate) any_key: Truth,
    /// Whether `${…}` in a resource is a variable.
    pub(crate) variables: bool,
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principals {
    /// Whether the element is `NotPrincipal`.
    pub(crate) negated: bool,
    pub(crate) listed: Vec<Principal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    Everyone,
    Aws(String),
    Service(String),
    /// Federated and canonical users.
    Other(String),
}

impl Principal {
    /// Whether this is an account, which delegates the decision to IAM policies.
    pub(crate) fn is_account(&self) -> bool {
        matches!(self, Self::Aws(arn) if arn.ends_with(":root") || arn.len() == 12 && arn.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patterns {
    /// Whether the element is `NotAction` or `NotResource`.
    pub(crate) negated: bool,
    pub(crate) listed: Vec<String>,
}

/// Result of evaluating a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether a statement allows it.
    pub allowed: Truth,
    /// Whether a statement denies it.
    pub denied: Truth,
}

impl Outcome {
    /// Whether the request certainly succeeds.
    pub fn succeeds(self) -> bool {
        self.allowed == Truth::Yes && self.denied == Truth::No
    }
}

impl KeyPolicy {
    /// Evaluates a request as IAM does.
    pub fn evaluate(&self, request: &Request<'_>) -> Outcome {
        let any_applies = |effect| {
            let statements = self
                .statements
                .iter()
                .filter(move |statement| statement.effect == effect);
            Truth::any(statements.map(|statement| statement.applies(request)))
        };
        Outcome {
            allowed: any_applies(Effect::Allow),
            denied: any_applies(Effect::Deny),
        }
    }
}

impl Statement {
    pub(crate) fn applies(&self, request: &Request<'_>) -> Truth {
        let conditions = Truth::all(
            self.conditions
                .iter()
                .map(|condition| condition.holds(request)),
        );
        self.names_action(request.action)
            .min(self.matches_principal(request.principal))
            .min(self.matches_resource(request.key))
            .min(conditions)
    }

    /// *Maybe* for a pattern with a wildcard in the prefix of the service, which AWS does not document.
    pub(crate) fn names_action(&self, action: &str) -> Truth {
        let action = action.to_ascii_lowercase();
        let listed = Truth::any(self.actions.listed.iter().map(|pattern| {
            let pattern = pattern.to_ascii_lowercase();
            if !matches(&pattern, &action) {
                Truth::No
            } else if pattern == "*" || pattern.starts_with("kms:") {
                Truth::Yes
            } else {
                Truth::Maybe
            }
        }));
        if self.actions.negated {
            listed.not()
        } else {
            listed
        }
    }

    pub(crate) fn matches_principal(&self, caller: Option<&str>) -> Truth {
        let listed =
            Truth::any(
                self.principals
                    .listed
                    .iter()
                    .map(|principal| match (principal, caller) {
                        (Principal::Everyone, _) => Truth::Yes,
                        (Principal::Aws(arn), Some(caller)) if !principal.is_account() => {
                            Truth::from_bool(arn == caller)
                        }
                        _ => Truth::Maybe,
                    }),
            );
        if self.principals.negated {
            listed.not()
        } else {
            listed
        }
    }

    pub(crate) fn matches_resource(&self, key: Option<&str>) -> Truth {
        match key {
            None => self.any_key,
            Some(_) => self.names_resource(key, None),
        }
    }

    /// Whether the resources name the key with this ARN, or for `None` every key of `partition`.
    pub(crate) fn names_resource(&self, key: Option<&str>, partition: Option<&str>) -> Truth {
        let listed = Truth::any(self.resources.listed.iter().map(|pattern| {
            if self.variables && pattern.contains("${") {
                Truth::Maybe
            } else {
                names_key(pattern, key, partition)
            }
        }));
        if self.resources.negated {
            listed.not()
        } else {
            listed
        }
    }
}
