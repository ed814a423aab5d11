//! `trust-policy.json`: parsing and writing.

use std::collections::BTreeMap;
use std::fmt;

use base16ct::lower::encode_string as hex;
use base64ct::{Base64, Encoding};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{MAX_POLICY, Policy, PolicyError, PolicyOrigin, Release};
use crate::anchor::TrustAnchor;
use crate::json_integer;
use crate::manifest::{ModelPin, SecurityMode};
use crate::time::UnixMillis;

const FORMAT: &str = "clearseal-trust-policy/1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    format: String,
    name: String,
    /// 0 if absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    sequence: u64,
    root: Root,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    releases: Vec<JsonRelease>,
    #[serde(default = "default_max_age", deserialize_with = "json_integer::read")]
    max_age_seconds: u64,
    #[serde(
        default = "default_clock_skew",
        deserialize_with = "json_integer::read"
    )]
    clock_skew_seconds: u64,
    #[serde(default, skip_serializing_if = "Revocation::is_default")]
    revocation: Revocation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    security_mode: Option<SecurityMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<JsonModel>,
}

#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Revocation {
    #[default]
    WhenGiven,
    Required,
}

impl Revocation {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
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

/// Registers by decimal index. Serde's own map would let the last of two equal keys win.
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
    // Editors write a byte order mark; RFC 8259 §8.1 allows readers to ignore it.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let json: Json = serde_json::from_slice(json).map_err(|error| {
        let unknown =
            unknown_key(json).map(|path| format!("{path} is not a key of a trust policy"));
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
        sequence: (json.sequence > 0).then_some(json.sequence),
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
        revocation_required: json.revocation == Revocation::Required,
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
        sequence: policy.sequence.unwrap_or_default(),
        root,
        not_after: policy.not_after.map(|moment| moment.to_string()),
        releases: releases.collect(),
        max_age_seconds: policy.max_age_seconds,
        clock_skew_seconds: policy.clock_skew_seconds,
        revocation: match policy.revocation_required {
            true => Revocation::Required,
            false => Revocation::WhenGiven,
        },
        security_mode: policy.security_mode,
        policy_version: policy.policy_version.clone(),
        model: policy.model.as_ref().map(|model| JsonModel {
            id: model.id.clone(),
            sha256: hex(&model.sha256),
        }),
    };
    // Strings and numbers only: JSON can write all of them.
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
                "{path} is not a date and time of RFC 3339 such as 2027-01-31T00:00:00Z or 2027-01-31T01:00:00+01:00"
            ))
        })
    });
    moment.transpose()
}

/// Position of the first unknown key: serde names the key, but not its position.
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
        "sequence",
        "root",
        "not_after",
        "releases",
        "max_age_seconds",
        "clock_skew_seconds",
        "revocation",
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

fn is_zero(number: &u64) -> bool {
    *number == 0
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
                        .ok_or_else(|| de::Error::custom(format!("{key:?} is not a register")))?;
                    if pcrs.insert(index, value).is_some() {
                        return Err(de::Error::custom(format!("register {index} occurs twice")));
                    }
                }
                Ok(Pcrs(pcrs))
            }
        }

        deserializer.deserialize_map(Registers)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn with(member: &str, value: &str) -> Result<Policy, PolicyError> {
        let pcr = "aa".repeat(48);
        let json = format!(
            r#"{{"format":"{FORMAT}","name":"p","root":"aws-nitro-enclaves-g1","releases":[{{"name":"1","pcrs":{{"0":"{pcr}"}}}}],"{member}":{value}}}"#
        );
        read(json.as_bytes(), PolicyOrigin::ChosenByHand)
    }

    #[test]
    fn a_date_is_read_in_every_form_of_rfc_3339() {
        let end = UnixMillis::from_rfc3339("2027-01-31T00:00:00Z");
        for text in [
            "2027-01-31T00:00:00Z",
            "2027-01-31T00:00:00+00:00",
            "2027-01-31T00:00:00.000000+00:00",
            "2027-01-31t00:00:00z",
            "2027-01-31 00:00:00+00:00",
            "2027-01-31T05:30:00+05:30",
        ] {
            let policy = with("not_after", &format!("\"{text}\"")).unwrap();
            assert_eq!(policy.not_after, end, "{text}");
            assert!(policy.to_json().contains("\"2027-01-31T00:00:00Z\""));
        }
        let error = with("not_after", "\"2027-01-31\"").unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("not_after is not a date and time of RFC 3339"));
    }

    #[test]
    fn a_whole_number_of_seconds_may_have_a_point_or_an_exponent() {
        for text in ["600", "600.0", "6e2"] {
            assert_eq!(with("max_age_seconds", text).unwrap().max_age_seconds, 600);
            let skew = with("clock_skew_seconds", text).unwrap().clock_skew_seconds;
            assert_eq!(skew, 600);
        }
        for text in ["600.5", "1e400", "-1", "\"600\"", "null"] {
            for member in ["max_age_seconds", "clock_skew_seconds"] {
                let error = with(member, text).unwrap_err();
                assert_eq!(
                    error_codes::Coded::code(&error),
                    "POLICY_UNREADABLE",
                    "{text}"
                );
            }
        }
        let message = with("max_age_seconds", "600.5").unwrap_err().to_string();
        assert!(message.contains("expected a whole number"), "{message}");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let json = with("max_age_seconds", "600").unwrap().to_json();
        let marked = format!("\u{feff}{json}");
        assert!(read(marked.as_bytes(), PolicyOrigin::ChosenByHand).is_ok());
        let twice = format!("\u{feff}{marked}");
        assert!(read(twice.as_bytes(), PolicyOrigin::ChosenByHand).is_err());
        // An unknown key is reported after a byte order mark too.
        let unknown = marked.replacen("\"name\"", "\"nam\"", 1);
        let error = read(unknown.as_bytes(), PolicyOrigin::ChosenByHand).unwrap_err();
        assert!(error.to_string().contains("nam is not a key"), "{error}");
    }
}
