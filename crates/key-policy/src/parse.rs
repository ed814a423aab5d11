//! Reads a policy from JSON. One unknown element, and the whole policy is refused.

use crate::condition::{Condition, Kind, Operator, Quantifier};
use crate::fact::Truth;
use crate::json::Json;
use crate::policy::{Effect, KeyPolicy, Patterns, Principal, Principals, Statement};

/// Largest key policy that KMS accepts, in bytes.
pub const MAX_KEY_POLICY: usize = 32 * 1024;

/// Largest answer of `aws kms get-key-policy`, in bytes: its text escapes quotes and line breaks.
const MAX_WRAPPED: usize = 2 * MAX_KEY_POLICY;

/// The text is not a key policy, or has an element that this reader does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KEY_POLICY_UNREADABLE: {0}")]
pub struct PolicyError(String);

impl PolicyError {
    /// Stable code.
    pub const fn code(&self) -> &'static str {
        "KEY_POLICY_UNREADABLE"
    }
}

impl KeyPolicy {
    /// Reads a policy, or the answer of `aws kms get-key-policy` that holds one as text.
    ///
    /// # Errors
    /// [`PolicyError`] for repeated names, unknown elements and operators, and a policy of more than [`MAX_KEY_POLICY`] bytes.
    pub fn parse(json: &[u8]) -> Result<Self, PolicyError> {
        if json.len() > MAX_WRAPPED {
            return refuse(format!(
                "it is larger than {MAX_WRAPPED} bytes, the limit for a key policy as text in JSON"
            ));
        }
        let document = read_json(json)?;
        let Json::Map(entries) = document else {
            return refuse("it is not a JSON object".to_owned());
        };
        // Output of `aws kms get-key-policy`.
        if let Some((_, Json::Text(inner))) = entries.iter().find(|(name, _)| name == "Policy") {
            if entries
                .iter()
                .any(|(name, _)| name != "Policy" && name != "PolicyName")
            {
                return refuse("it has more than Policy and PolicyName".to_owned());
            }
            check_size(inner.as_bytes())?;
            return match read_json(inner.as_bytes())? {
                Json::Map(entries) => read_policy(entries),
                _ => refuse("Policy is not a JSON object".to_owned()),
            };
        }
        check_size(json.trim_ascii())?;
        read_policy(entries)
    }
}

fn check_size(policy: &[u8]) -> Result<(), PolicyError> {
    match policy.len() {
        0..=MAX_KEY_POLICY => Ok(()),
        size => refuse(format!(
            "the policy has {size} bytes, and KMS takes {MAX_KEY_POLICY}"
        )),
    }
}

fn read_json(json: &[u8]) -> Result<Json, PolicyError> {
    serde_json::from_slice(json).or_else(|error| refuse(error.to_string()))
}

fn read_policy(entries: Vec<(String, Json)>) -> Result<KeyPolicy, PolicyError> {
    let mut statements = None;
    let mut version = None;
    for (name, value) in entries {
        match name.as_str() {
            "Version" => version = Some(read_text(value, &name)?),
            "Id" => drop(read_text(value, &name)?),
            "Statement" => statements = Some(value),
            _ => return refuse(format!("{name:?} is not an element of a policy")),
        }
    }
    // The two versions that IAM defines; a policy without one is of the first, in which `${…}` is plain text.
    let variables = match version.as_deref() {
        None | Some("2008-10-17") => false,
        Some("2012-10-17") => true,
        Some(other) => return refuse(format!("{other:?} is not a version of policies")),
    };
    let list = match statements {
        Some(Json::List(list)) => list,
        Some(one @ Json::Map(_)) => vec![one],
        _ => return refuse("Statement is missing".to_owned()),
    };
    let statements = list
        .into_iter()
        .enumerate()
        .map(|(at, json)| read_statement(at, json, variables));
    let mut statements = statements.collect::<Result<Vec<_>, _>>()?;
    let partition = find_partition(&statements);
    for statement in &mut statements {
        statement.any_key = statement.names_resource(None, partition.as_deref());
    }
    Ok(KeyPolicy { statements })
}

/// The one partition (`aws`, `aws-cn`) of all principals, which is that of the key; `None` where they differ.
fn find_partition(statements: &[Statement]) -> Option<String> {
    let principals = statements
        .iter()
        .flat_map(|statement| &statement.principals.listed);
    let mut partitions = principals.filter_map(|principal| match principal {
        Principal::Aws(arn) => arn.strip_prefix("arn:")?.split_once(':'),
        _ => None,
    });
    let (first, _) = partitions.next()?;
    partitions
        .all(|(other, _)| other == first)
        .then(|| first.to_owned())
}

fn read_statement(at: usize, json: Json, variables: bool) -> Result<Statement, PolicyError> {
    let number = format!("{}", at + 1);
    let Json::Map(entries) = json else {
        return refuse(format!("statement {number} is not an object"));
    };
    let (mut sid, mut effect, mut principals) = (None, None, None);
    let (mut actions, mut resources, mut conditions) = (None, None, Vec::new());
    for (name, value) in entries {
        match name.as_str() {
            "Sid" => sid = Some(read_text(value, &name)?),
            "Effect" => {
                effect = Some(match read_text(value, &name)?.as_str() {
                    "Allow" => Effect::Allow,
                    "Deny" => Effect::Deny,
                    other => return refuse(format!("{other:?} is not an effect")),
                });
            }
            "Principal" | "NotPrincipal" => {
                set_once(
                    &mut principals,
                    read_principals(value, name == "NotPrincipal")?,
                    &name,
                )?;
            }
            "Action" | "NotAction" => {
                set_once(&mut actions, read_patterns(value, &name)?, &name)?;
            }
            "Resource" | "NotResource" => {
                set_once(&mut resources, read_patterns(value, &name)?, &name)?;
            }
            "Condition" => conditions = read_conditions(value, variables)?,
            _ => return refuse(format!("{name:?} is not an element of statement {number}")),
        }
    }
    let missing = |what: &str| PolicyError(format!("statement {number} has no {what}"));
    Ok(Statement {
        name: sid
            .filter(|sid| !sid.is_empty())
            .unwrap_or_else(|| format!("number {number}")),
        effect: effect.ok_or_else(|| missing("Effect"))?,
        principals: principals.ok_or_else(|| missing("Principal"))?,
        actions: actions.ok_or_else(|| missing("Action"))?,
        resources: resources.ok_or_else(|| missing("Resource"))?,
        any_key: Truth::Maybe,
        variables,
        conditions,
    })
}

fn read_principals(json: Json, negated: bool) -> Result<Principals, PolicyError> {
    let mut listed = Vec::new();
    match json {
        Json::Text(star) if star == "*" => listed.push(Principal::Everyone),
        Json::Map(kinds) => {
            for (kind, names) in kinds {
                for name in read_texts(names, "Principal")? {
                    listed.push(match kind.as_str() {
                        "AWS" if name == "*" => Principal::Everyone,
                        "AWS" => Principal::Aws(name),
                        "Service" => Principal::Service(name),
                        "Federated" | "CanonicalUser" => Principal::Other(name),
                        _ => return refuse(format!("{kind:?} is not a kind of principal")),
                    });
                }
            }
        }
        _ => return refuse("a principal is neither \"*\" nor an object".to_owned()),
    }
    Ok(Principals { negated, listed })
}

fn read_conditions(json: Json, variables: bool) -> Result<Vec<Condition>, PolicyError> {
    let Json::Map(operators) = json else {
        return refuse("Condition is not an object".to_owned());
    };
    let mut conditions = Vec::new();
    for (written, keys) in operators {
        let (quantifier, name) = match written.split_once(':') {
            Some(("ForAnyValue", name)) => (Quantifier::ForAnyValue, name),
            Some(("ForAllValues", name)) => (Quantifier::ForAllValues, name),
            _ => (Quantifier::None, written.as_str()),
        };
        let (name, if_exists) = match name.strip_suffix("IfExists") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(operator) = Operator::parse(name) else {
            return refuse(format!("{written:?} is not an operator of a condition"));
        };
        // IAM tests for presence without a quantifier, and refuses `NullIfExists`.
        if operator.kind == Kind::Null && (if_exists || quantifier != Quantifier::None) {
            return refuse(format!("{written:?} is not an operator of a condition"));
        }
        let Json::Map(keys) = keys else {
            return refuse(format!("{written} does not hold an object"));
        };
        for (key, values) in keys {
            let values = read_texts(values, &key)?;
            conditions.push(Condition {
                quantifier,
                operator,
                if_exists,
                key: key.to_ascii_lowercase(),
                values,
                variables,
            });
        }
    }
    Ok(conditions)
}

fn read_patterns(json: Json, name: &str) -> Result<Patterns, PolicyError> {
    Ok(Patterns {
        negated: name.starts_with("Not"),
        listed: read_texts(json, name)?,
    })
}

fn set_once<T>(slot: &mut Option<T>, value: T, name: &str) -> Result<(), PolicyError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => refuse(format!("{name} and its opposite are both present")),
    }
}

fn read_texts(json: Json, name: &str) -> Result<Vec<String>, PolicyError> {
    let list = match json {
        Json::List(list) => list
            .into_iter()
            .map(|item| read_text(item, name))
            .collect::<Result<_, _>>()?,
        one => vec![read_text(one, name)?],
    };
    if list.is_empty() {
        return refuse(format!("{name} is empty"));
    }
    Ok(list)
}

fn read_text(json: Json, name: &str) -> Result<String, PolicyError> {
    match json {
        Json::Text(text) => Ok(text),
        _ => refuse(format!("{name} is not a text")),
    }
}

fn refuse<T>(reason: String) -> Result<T, PolicyError> {
    Err(PolicyError(reason))
}
