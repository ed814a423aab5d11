//! Whether a pattern of a `Resource` element names the key.

use crate::fact::{Truth, matches};

/// Whether `pattern` names the key with this ARN, or, for `None`, whether it names every key of `partition`.
///
/// KMS evaluates a key policy only for the key that it belongs to. The resource of such a request is an ARN of the form
/// `arn:PARTITION:kms:REGION:ACCOUNT:key/ID`, never an alias.
pub(crate) fn names_key(pattern: &str, key: Option<&str>, partition: Option<&str>) -> Truth {
    // In a key policy `*` means this key.
    if pattern == "*" {
        return Truth::Yes;
    }
    if let Some(key) = key {
        return Truth::from_bool(matches(pattern, key));
    }
    let shape = shape(partition);
    if !can_match(pattern, &shape) {
        return Truth::No;
    }
    // An unknown part may be longer than the one character that `?` matches.
    let text: String = shape.iter().map(|part| part.unwrap_or(GAP)).collect();
    if pattern.contains(['?', GAP]) {
        return Truth::Maybe;
    }
    if matches(pattern, &text) {
        Truth::Yes
    } else {
        Truth::Maybe
    }
}

/// Placeholder for an unknown part of the ARN. No ARN contains it.
const GAP: char = '\0';

/// The ARN of a key: characters, and `None` for an unknown part.
fn shape(partition: Option<&str>) -> Vec<Option<char>> {
    let mut shape = Vec::new();
    let literal = |shape: &mut Vec<Option<char>>, text: &str| shape.extend(text.chars().map(Some));
    literal(&mut shape, "arn:");
    match partition {
        Some(partition) => literal(&mut shape, partition),
        None => shape.push(None),
    }
    literal(&mut shape, ":kms:");
    shape.push(None);
    literal(&mut shape, ":");
    shape.push(None);
    literal(&mut shape, ":key/");
    shape.push(None);
    shape
}

/// Whether the pattern matches some text of this shape. An unknown part is any text that is not empty and has neither `:` nor `/`.
fn can_match(pattern: &str, shape: &[Option<char>]) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // Positions in the shape that a prefix of the pattern can reach; every position inside an unknown part counts as its start.
    let mut reached: Vec<bool> = (0..=shape.len()).map(|at| at == 0).collect();
    for character in pattern {
        let mut next = vec![false; shape.len() + 1];
        if character == '*' {
            let mut open = false;
            for (at, was) in reached.iter().enumerate() {
                open |= *was;
                if let Some(slot) = next.get_mut(at) {
                    *slot = open;
                }
            }
        } else {
            for (at, part) in shape.iter().enumerate() {
                if !reached.get(at).is_some_and(|was| *was) {
                    continue;
                }
                let (stay, leave) = match part {
                    Some(expected) => (false, character == '?' || character == *expected),
                    None => {
                        let fits = !matches!(character, ':' | '/');
                        (fits, fits)
                    }
                };
                if let (true, Some(slot)) = (stay, next.get_mut(at)) {
                    *slot = true;
                }
                if let (true, Some(slot)) = (leave, next.get_mut(at + 1)) {
                    *slot = true;
                }
            }
        }
        reached = next;
    }
    reached.last().is_some_and(|end| *end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_every_key_or_some_or_none() {
        for (pattern, expected) in [
            ("*", Truth::Yes),
            ("arn:aws:kms:*:*:key/*", Truth::Yes),
            ("arn:*:kms:*:*:key/*", Truth::Yes),
            ("arn:aws:kms:*", Truth::Yes),
            ("arn:aws:kms:*:*:alias/*", Truth::No),
            ("arn:aws:kms:*:*:key/", Truth::No),
            ("arn:aws-cn:kms:*:*:key/*", Truth::No),
            ("arn:aws:s3:::*", Truth::No),
            ("arn:aws:kms:eu-central-1:*:key/*", Truth::Maybe),
            ("arn:aws:kms:*:*:key/?*", Truth::Maybe),
            ("arn:aws:kms:*:*:key/mrk-*", Truth::Maybe),
        ] {
            assert_eq!(names_key(pattern, None, Some("aws")), expected, "{pattern}");
        }
        assert_eq!(
            names_key("arn:aws:kms:*:*:key/*", None, None),
            Truth::Maybe,
            "the key may be in another partition"
        );
    }
}
