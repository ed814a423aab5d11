//! A second evaluator, written only from AWS's documentation, for requests without unknown facts.
//!
//! Sources: "Policy evaluation logic" (an explicit Deny outweighs every Allow, and without an Allow the answer is an implicit Deny),
//! "IAM JSON policy elements: Condition operators" (operators, `IfExists`, `Null`), "Multivalued context keys" (quantifiers), and
//! "Grammar of the IAM JSON policy language" (elements that take one value or a list).

use std::collections::BTreeMap;

use serde_json::Value;

/// A request of one caller. Every key in it has one value.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) action: &'static str,
    pub(crate) caller: String,
    pub(crate) key: String,
    /// By condition key, in lower case.
    pub(crate) context: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allow,
    ExplicitDeny,
    ImplicitDeny,
}

pub(crate) fn decide(policy: &Value, request: &Request) -> Decision {
    let applying: Vec<&str> = list(&policy["Statement"])
        .into_iter()
        .filter(|statement| applies(statement, request))
        .map(|statement| statement["Effect"].as_str().unwrap())
        .collect();
    if applying.contains(&"Deny") {
        Decision::ExplicitDeny
    } else if applying.contains(&"Allow") {
        Decision::Allow
    } else {
        Decision::ImplicitDeny
    }
}

fn applies(statement: &Value, request: &Request) -> bool {
    let element = |name: &str, fits: &dyn Fn(&Value) -> bool| match statement.get(name) {
        Some(listed) => list(listed).into_iter().any(fits),
        None => {
            let negated = format!("Not{name}");
            !list(&statement[negated.as_str()]).into_iter().any(fits)
        }
    };
    element("Action", &|pattern| {
        glob(
            &text(pattern).to_lowercase(),
            &request.action.to_lowercase(),
        )
    }) && element("Resource", &|pattern| glob(&text(pattern), &request.key))
        && element("Principal", &|principal| {
            let names = principal.get("AWS").unwrap_or(principal);
            list(names)
                .into_iter()
                .any(|name| text(name) == "*" || text(name) == request.caller)
        })
        && statement.get("Condition").is_none_or(|block| {
            block.as_object().unwrap().iter().all(|(operator, keys)| {
                keys.as_object()
                    .unwrap()
                    .iter()
                    .all(|(key, values)| condition(operator, key, &list(values), request))
            })
        })
}

fn condition(written: &str, key: &str, values: &[&Value], request: &Request) -> bool {
    let present = request.context.get(&key.to_lowercase());
    if written == "Null" {
        return values
            .iter()
            .any(|value| (text(value) == "true") == present.is_none());
    }
    let (quantifier, operator) = written.split_once(':').unwrap_or(("", written));
    let (operator, if_exists) = match operator.strip_suffix("IfExists") {
        Some(operator) => (operator, true),
        None => (operator, false),
    };
    let negated = operator.contains("Not");
    let Some(present) = present else {
        return if_exists || quantifier == "ForAllValues" || negated && quantifier.is_empty();
    };
    let one = |value: &&Value| {
        let value = text(value);
        match operator.replace("Not", "").as_str() {
            "StringEquals" => *present == value,
            "StringEqualsIgnoreCase" => present.to_lowercase() == value.to_lowercase(),
            "StringLike" => glob(&value, present),
            "ArnEquals" | "ArnLike" => {
                let parts = |arn: &str| arn.splitn(6, ':').map(str::to_owned).collect::<Vec<_>>();
                let (pattern, arn) = (parts(&value), parts(present));
                pattern.len() == arn.len()
                    && pattern
                        .iter()
                        .zip(&arn)
                        .all(|(one, other)| glob(one, other))
            }
            // All dates here have one format, so their order is that of their texts.
            "DateLessThan" => *present < value,
            "DateGreaterThanEquals" => *present >= value,
            other => panic!("{other} is not generated"),
        }
    };
    values.iter().any(one) != negated
}

/// `*` is any text, `?` any one character.
fn glob(pattern: &str, text: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return text.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    if first == '*' {
        let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        return ends.any(|at| glob(rest, &text[at..]));
    }
    let mut characters = text.chars();
    let next = characters.next();
    next.is_some_and(|next| (first == '?' || first == next) && glob(rest, characters.as_str()))
}

fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
