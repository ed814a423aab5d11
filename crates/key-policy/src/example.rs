//! Describes a request that must not succeed, and may.

use std::collections::BTreeMap;

use crate::accepted::{ATTESTATION, IMAGE, Platform};
use crate::fact::{Fact, Request};

/// Facts of a request, by condition key, for people.
pub(crate) fn describe_facts(request: &Request<'_>) -> BTreeMap<String, String> {
    let platforms = [Platform::Enclave, Platform::Instance];
    let is_register = |key: &str| {
        let mut platforms = platforms.iter();
        key == IMAGE || platforms.any(|platform| platform.registers().iter().any(|it| it == key))
    };
    let facts = request.facts.iter().filter_map(|(key, fact)| {
        let words = match fact {
            Fact::Is(value) => value.clone(),
            Fact::CaseVariant { example, .. } => example.clone(),
            Fact::NoneOf(_) => "a value that is not named".to_owned(),
            Fact::Absent if is_register(key) => return None,
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
