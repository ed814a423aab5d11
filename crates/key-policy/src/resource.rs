//! Whether a pattern of a `Resource` element names the key.

use crate::fact::Truth;

/// Whether `pattern` names the key with this ARN, or, for `None`, whether it names every key of `partition`.
///
/// KMS evaluates a key policy only for the key that it belongs to. The resource of such a request is an ARN of the form
/// `arn:PARTITION:kms:REGION:ACCOUNT:key/ID`, never an alias.
///
/// *Yes* only where AWS documents that the pattern matches ("IAM JSON policy elements: Resource"): `*` crosses colons only as the
/// last character of a segment, `?` never does, and the segment of the service has no wildcards. *No* only where the pattern matches
/// in no reading, with any wildcard crossing colons and with case ignored.
pub(crate) fn names_key(pattern: &str, key: Option<&str>, partition: Option<&str>) -> Truth {
    // In a key policy `*` means this key.
    if pattern == "*" {
        return Truth::Yes;
    }
    let shape: Vec<Option<char>> = match key {
        Some(key) => key.chars().map(Some).collect(),
        None => shape(partition),
    };
    if !can_match(pattern, &shape) {
        return Truth::No;
    }
    let text: Vec<char> = shape.iter().map(|part| part.unwrap_or(GAP)).collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let service = pattern.split(|character| *character == ':').nth(2);
    let names_service = service.is_some_and(|service| service == ['k', 'm', 's']);
    if names_service && certainly_matches(&pattern, &text) {
        Truth::Yes
    } else {
        Truth::Maybe
    }
}

/// Whether the pattern matches by the documented rules. A placeholder is matched by `*` alone, because an unknown part may be longer
/// than one character.
fn certainly_matches(pattern: &[char], text: &[char]) -> bool {
    // For each prefix of the text, whether the pattern so far matches it.
    let mut reached: Vec<bool> = (0..=text.len()).map(|at| at == 0).collect();
    for (at, character) in pattern.iter().enumerate() {
        let ends_segment = pattern.get(at + 1).is_none_or(|next| *next == ':');
        let mut next = Vec::with_capacity(reached.len());
        let mut before = None;
        for (end, was) in reached.iter().enumerate() {
            let last = end.checked_sub(1).and_then(|last| text.get(last).copied());
            let from_before = match (character, before, last) {
                // Either the star begins here, or it takes one more character.
                ('*', Some((_, open)), Some(last)) => open && (ends_segment || last != ':'),
                ('?', Some((was, _)), Some(last)) => was && last != ':' && last != GAP,
                (expected, Some((was, _)), Some(last)) => was && *expected == last && last != GAP,
                _ => false,
            };
            let now = from_before || (*character == '*' && *was);
            next.push(now);
            before = Some((*was, now));
        }
        reached = next;
    }
    reached.last().is_some_and(|end| *end)
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

/// Whether the pattern matches some text of this shape in some reading of it. An unknown part is any text that is not empty and has neither `:` nor `/`.
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
                    Some(expected) => {
                        let same = character.eq_ignore_ascii_case(expected);
                        (false, character == '?' || same)
                    }
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
