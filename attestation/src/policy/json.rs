//! `trust-policy.json`.

use super::{MAX_POLICY, ModelPin, Policy, PolicyError, PolicyOrigin, Release};
use crate::anchor::TrustAnchor;
use crate::manifest::SecurityMode;
use crate::time::UnixMillis;
use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

const FORMAT: &str = "clearseal-trust-policy/1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    format: String,
    name: String,
    root: Root,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    releases: Vec<JsonRelease>,
    #[serde(default = "default_max_age")]
    max_age_seconds: u64,
    #[serde(default = "default_clock_skew")]
    clock_skew_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    security_mode: Option<SecurityMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<JsonModel>,
}

#[derive(Serialize, Deserialize)]
enum Root {
    #[serde(rename = "aws-nitro-enclaves-g1")]
    Aws,
    #[serde(rename = "development")]
    Development(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRelease {
    name: String,
    pcrs: Pcrs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonModel {
    id: String,
    sha256: String,
}

/// Registers by decimal index. A map of serde's own would let the last of two equal keys win.
#[derive(Serialize)]
#[serde(transparent)]
struct Pcrs(BTreeMap<u8, String>);

pub(super) fn read(json: &[u8], origin: PolicyOrigin) -> Result<Policy, PolicyError> {
    let unreadable = PolicyError::Unreadable;
    if json.len() > MAX_POLICY {
        return Err(unreadable(format!(
            "the policy is larger than {MAX_POLICY} bytes"
        )));
    }
    let json: Json = serde_json::from_slice(json).map_err(|error| {
        let unknown = unknown_key(json).map(|path| format!("{path} is no key of a trust policy"));
        unreadable(unknown.unwrap_or_else(|| format!("the policy is not readable: {error}")))
    })?;
    if json.format != FORMAT {
        return Err(unreadable(format!("the policy's format is not {FORMAT:?}")));
    }
    let anchor = match json.root {
        Root::Aws => TrustAnchor::aws_nitro_g1(),
        Root::Development(der) => {
            let der = Base64::decode_vec(&der)
                .map_err(|_| invalid("the development root is not base64"))?;
            TrustAnchor::development(&der).map_err(|error| invalid(&error.to_string()))?
        }
    };
    let model = json.model.map(|model| {
        let sha256 = digits(&model.sha256, "model.sha256")?;
        Ok(ModelPin {
            id: model.id,
            sha256,
        })
    });
    Policy {
        name: json.name,
        origin,
        anchor,
        not_after: moment(json.not_after, "not_after")?,
        releases: json
            .releases
            .into_iter()
            .enumerate()
            .map(|(at, json)| release(json, &format!("releases[{at}]")))
            .collect::<Result<_, _>>()?,
        max_age_seconds: json.max_age_seconds,
        clock_skew_seconds: json.clock_skew_seconds,
        security_mode: json.security_mode,
        policy_version: json.policy_version,
        model: model.transpose()?,
        #[cfg(feature = "dangerous-debug-mode")]
        allow_debug: false,
    }
    .checked()
}

pub(super) fn write(policy: &Policy) -> String {
    let root = if policy.anchor.is_aws() {
        Root::Aws
    } else {
        Root::Development(Base64::encode_string(policy.anchor.der()))
    };
    let releases = policy.releases.iter().map(|release| JsonRelease {
        name: release.name.clone(),
        pcrs: Pcrs(
            release
                .pcrs
                .iter()
                .map(|(index, value)| (*index, hex(value)))
                .collect(),
        ),
        not_before: release.not_before.map(|moment| moment.to_string()),
        not_after: release.not_after.map(|moment| moment.to_string()),
    });
    let json = Json {
        format: FORMAT.to_owned(),
        name: policy.name.clone(),
        root,
        not_after: policy.not_after.map(|moment| moment.to_string()),
        releases: releases.collect(),
        max_age_seconds: policy.max_age_seconds,
        clock_skew_seconds: policy.clock_skew_seconds,
        security_mode: policy.security_mode,
        policy_version: policy.policy_version.clone(),
        model: policy.model.as_ref().map(|model| JsonModel {
            id: model.id.clone(),
            sha256: hex(&model.sha256),
        }),
    };
    // Strings and numbers only: there is nothing in it that JSON could not write.
    serde_json::to_string_pretty(&json).unwrap_or_default()
}

fn release(json: JsonRelease, path: &str) -> Result<Release, PolicyError> {
    let pcrs = json
        .pcrs
        .0
        .iter()
        .map(|(index, value)| Ok((*index, digits(value, &format!("{path}.pcrs.{index}"))?)));
    Ok(Release {
        pcrs: pcrs.collect::<Result<_, PolicyError>>()?,
        not_before: moment(json.not_before, &format!("{path}.not_before"))?,
        not_after: moment(json.not_after, &format!("{path}.not_after"))?,
        name: json.name,
    })
}

fn moment(text: Option<String>, path: &str) -> Result<Option<UnixMillis>, PolicyError> {
    let moment = text.map(|text| {
        UnixMillis::from_rfc3339(&text).ok_or_else(|| {
            invalid(&format!(
                "{path} is not a UTC date like 2027-01-31T00:00:00Z"
            ))
        })
    });
    moment.transpose()
}

/// Where the first key stands that no policy has: serde names the key, but not the place.
fn unknown_key(json: &[u8]) -> Option<String> {
    let policy: Value = serde_json::from_slice(json).ok()?;
    let stranger = |value: &Value, path: &str, known: &[&str]| {
        let unknown = value
            .as_object()?
            .keys()
            .find(|key| !known.contains(&key.as_str()))?;
        Some(format!("{path}{unknown}"))
    };
    const POLICY: &[&str] = &[
        "format",
        "name",
        "root",
        "not_after",
        "releases",
        "max_age_seconds",
        "clock_skew_seconds",
        "security_mode",
        "policy_version",
        "model",
    ];
    const RELEASE: &[&str] = &["name", "pcrs", "not_before", "not_after"];
    let releases = policy["releases"].as_array().map_or(&[][..], Vec::as_slice);
    let in_releases = || {
        releases
            .iter()
            .enumerate()
            .find_map(|(at, release)| stranger(release, &format!("releases[{at}]."), RELEASE))
    };
    stranger(&policy, "", POLICY)
        .or_else(in_releases)
        .or_else(|| stranger(&policy["model"], "model.", &["id", "sha256"]))
}

fn digits<const N: usize>(text: &str, what: &str) -> Result<[u8; N], PolicyError> {
    let bytes = base16ct::mixed::decode_vec(text)
        .ok()
        .and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    bytes.ok_or_else(|| invalid(&format!("{what} is not {} hex digits", 2 * N)))
}

fn invalid(message: &str) -> PolicyError {
    PolicyError::Invalid(message.to_owned())
}

fn default_max_age() -> u64 {
    300
}

fn default_clock_skew() -> u64 {
    60
}

impl<'de> Deserialize<'de> for Pcrs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Registers;

        impl<'de> Visitor<'de> for Registers {
            type Value = Pcrs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from register to hex digits")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pcrs, A::Error> {
                let mut pcrs = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    // "0" and "00" would be one register under two names.
                    let index = key
                        .parse::<u8>()
                        .ok()
                        .filter(|index| index.to_string() == key);
                    let index = index
                        .ok_or_else(|| de::Error::custom(format!("{key:?} is no register")))?;
                    if pcrs.insert(index, value).is_some() {
                        return Err(de::Error::custom(format!("register {index} stands twice")));
                    }
                }
                Ok(Pcrs(pcrs))
            }
        }

        deserializer.deserialize_map(Registers)
    }
}
