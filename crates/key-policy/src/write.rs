//! Derives the policy of a key from a trust policy, so that measurements are written once.

use attestation::{Release, UnixMillis};
use base16ct::lower::encode_string as hex;
use serde_json::{Map, Value, json};

use crate::accepted::{Accepted, release_end};
use crate::instance::Instance;

/// Roles that use the key.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'a> {
    /// ARN of the role of the enclave's parent and of the accepted instances: decrypts for attested code.
    pub parent: &'a str,
    /// ARN of the role that makes data keys to seal models with.
    pub sealer: Option<&'a str>,
    /// ARN of the role that inspects the key and deletes it. It cannot change the key's policy.
    pub keeper: Option<&'a str>,
}

/// Why a key policy cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A release does not pin PCR0.
    #[error(
        "KEY_POLICY_NEEDS_PCR0: release {0:?} does not pin PCR0, by which KMS tells releases apart; pin it in the trust policy"
    )]
    NeedsPcr0(String),
    /// Two releases have the same PCR0, and differ in other registers.
    #[error(
        "KEY_POLICY_SAME_PCR0: releases {0:?} and {1:?} have the same PCR0 and differ in others; give each its own key"
    )]
    SamePcr0(String, String),
    /// Two instances have the same PCR4, and differ in other registers.
    #[error(
        "KEY_POLICY_SAME_PCR4: instances {0:?} and {1:?} have the same PCR4 and differ in others; give each its own key"
    )]
    SamePcr4(String, String),
    /// Every release has ended.
    #[error("KEY_POLICY_NO_RELEASE: every release of the trust policy has ended")]
    NoRelease,
    /// The trust policy names no model.
    #[error(
        "KEY_POLICY_NO_MODEL: the trust policy names no model, so there is no encryption context; add `model`"
    )]
    NoModel,
    /// The policy is larger than KMS accepts.
    #[error(
        "KEY_POLICY_TOO_LARGE: it would have {0} bytes, and KMS takes 32,768; name fewer releases"
    )]
    TooLarge(usize),
}

/// Writes the key policy for the code that is accepted at `at`: the releases that have not ended, and the instances. Without line
/// breaks and indentation where KMS would not accept it with them.
///
/// # Errors
/// [`WriteError`].
pub fn write<'a>(
    accepted: impl Into<Accepted<'a>>,
    deployment: Deployment<'_>,
    at: UnixMillis,
) -> Result<String, WriteError> {
    let Accepted { trust, instances } = accepted.into();
    let releases: Vec<&Release> = trust
        .releases()
        .iter()
        .filter(|release| release_end(trust, release.not_after).is_none_or(|end| end >= at))
        .collect();
    if releases.is_empty() {
        return Err(WriteError::NoRelease);
    }
    let model = trust.model().ok_or(WriteError::NoModel)?;
    // The enclave asks without organisation, so that both forms of a name are one model.
    let name = model.id.rsplit('/').next().unwrap_or(&model.id);
    let context = [
        ("kms:EncryptionContext:clearseal-model", name.to_owned()),
        (
            "kms:EncryptionContext:clearseal-version",
            hex(&model.sha256),
        ),
    ];
    let mut images = Vec::new();
    for release in releases {
        images.push(Image::from_release(
            release,
            release_end(trust, release.not_after),
        )?);
    }
    for instance in instances {
        images.push(Image::from_instance(instance));
    }
    for (at, image) in images.iter().enumerate() {
        let mut earlier = images.iter().take(at);
        if let Some(other) = earlier.find(|other| other.anchor() == image.anchor()) {
            return Err(image.conflict(other));
        }
    }

    // A document has registers of one platform. Those of the other are absent, which a negated operator counts as different, so
    // one statement serves both.
    let mut anchors: Map<String, Value> = Map::new();
    for image in &images {
        let (key, value) = image.anchor();
        let values = anchors.entry(key).or_insert_with(|| json!([]));
        if let Some(values) = values.as_array_mut() {
            values.push(value.into());
        }
    }
    let mut statements = vec![
        deny(
            "DenyUnlessAttested",
            &["kms:Decrypt"],
            json!({ "StringNotEqualsIgnoreCase": anchors }),
        ),
        deny("DenyWaysAround", BYPASS_ACTIONS, Value::Null),
    ];
    for (at, image) in images.iter().enumerate() {
        let name = match image.platform {
            Platform::Enclave => format!("Release{}", at + 1),
            Platform::Instance => format!("Instance{}", at + 1),
        };
        statements.extend(image.further_denies(&name));
        statements.push(image.allow(&name, deployment.parent, &context));
    }
    if let Some(sealer) = deployment.sealer {
        let condition = Value::Object(Map::from_iter([(
            "StringEquals".to_owned(),
            object(&context),
        )]));
        statements.push(allow("Seal", sealer, &["kms:GenerateDataKey"], condition));
    }
    if let Some(keeper) = deployment.keeper {
        statements.push(allow("Keep", keeper, KEEPER_ACTIONS, Value::Null));
    }
    let policy = json!({ "Version": "2012-10-17", "Id": format!("clearseal {}", trust.name()), "Statement": statements });
    let readable = format!("{policy:#}");
    if readable.len() <= crate::MAX_KEY_POLICY {
        return Ok(readable);
    }
    let compact = policy.to_string();
    if compact.len() > crate::MAX_KEY_POLICY {
        return Err(WriteError::TooLarge(compact.len()));
    }
    Ok(compact)
}

/// Actions that would let somebody decrypt later or elsewhere. The first would re-encrypt the data key under a key of the caller.
const BYPASS_ACTIONS: &[&str] = &[
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:CreateGrant",
    "kms:PutKeyPolicy",
    "kms:ReplicateKey",
    "kms:UpdatePrimaryRegion",
    "kms:ImportKeyMaterial",
    "kms:DeriveSharedSecret",
];

/// Actions that inspect or end the key. None of them reaches a data key.
const KEEPER_ACTIONS: &[&str] = &[
    "kms:DescribeKey",
    "kms:GetKeyPolicy",
    "kms:ListKeyPolicies",
    "kms:ListGrants",
    "kms:RevokeGrant",
    "kms:ListResourceTags",
    "kms:EnableKey",
    "kms:DisableKey",
    "kms:ScheduleKeyDeletion",
    "kms:CancelKeyDeletion",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Platform {
    Enclave,
    Instance,
}

/// An accepted image, and the registers that its statements compare.
struct Image<'a> {
    name: &'a str,
    platform: Platform,
    /// Register that identifies the image.
    anchor: u8,
    pcrs: &'a std::collections::BTreeMap<u8, [u8; 48]>,
    not_before: Option<UnixMillis>,
    not_after: Option<UnixMillis>,
}

impl<'a> Image<'a> {
    fn from_release(
        release: &'a Release,
        not_after: Option<UnixMillis>,
    ) -> Result<Self, WriteError> {
        if !release.pcrs.contains_key(&0) {
            return Err(WriteError::NeedsPcr0(release.name.clone()));
        }
        Ok(Self {
            name: &release.name,
            platform: Platform::Enclave,
            anchor: 0,
            pcrs: &release.pcrs,
            not_before: release.not_before,
            not_after,
        })
    }

    fn from_instance(instance: &'a Instance) -> Self {
        Self {
            name: &instance.name,
            platform: Platform::Instance,
            anchor: 4,
            pcrs: &instance.pcrs,
            not_before: None,
            not_after: None,
        }
    }

    fn key(&self, index: u8) -> String {
        match self.platform {
            Platform::Enclave => format!("kms:RecipientAttestation:PCR{index}"),
            Platform::Instance => format!("kms:RecipientAttestation:NitroTPMPCR{index}"),
        }
    }

    fn anchor(&self) -> (String, String) {
        let value = self.pcrs.get(&self.anchor);
        (
            self.key(self.anchor),
            value.map(|value| hex(value)).unwrap_or_default(),
        )
    }

    fn conflict(&self, other: &Image<'_>) -> WriteError {
        let names = (other.name.to_owned(), self.name.to_owned());
        match self.platform {
            Platform::Enclave => WriteError::SamePcr0(names.0, names.1),
            Platform::Instance => WriteError::SamePcr4(names.0, names.1),
        }
    }

    /// Denies this image with another value in any further register, and outside its validity. Conditions of one statement are
    /// ANDed, so each gets a separate statement.
    fn further_denies(&self, name: &str) -> Vec<Value> {
        let (anchor, value) = self.anchor();
        // PCR0 of an enclave covers PCR1 and PCR2.
        let covered = |index: u8| match self.platform {
            Platform::Enclave => index <= 2,
            Platform::Instance => index == self.anchor,
        };
        let others = self.pcrs.iter().filter(|(index, _)| !covered(**index));
        let mut all: Vec<Value> = others
            .map(|(index, other)| {
                let condition = json!({
                    "StringEqualsIgnoreCase": { anchor.clone(): value },
                    "StringNotEqualsIgnoreCase": { self.key(*index): hex(other) },
                });
                deny(
                    &format!("Deny{name}Register{index}"),
                    &["kms:Decrypt"],
                    condition,
                )
            })
            .collect();
        for (when, operator, moment) in [
            ("Before", "DateLessThan", self.not_before),
            ("After", "DateGreaterThan", self.not_after),
        ] {
            if let Some(moment) = moment {
                let condition = json!({
                    "StringEqualsIgnoreCase": { anchor.clone(): value },
                    operator: { "aws:CurrentTime": moment.to_string() },
                });
                all.push(deny(
                    &format!("Deny{name}{when}"),
                    &["kms:Decrypt"],
                    condition,
                ));
            }
        }
        all
    }

    fn allow(&self, name: &str, role: &str, context: &[(&str, String)]) -> Value {
        let registers: Map<String, Value> = self
            .pcrs
            .iter()
            .map(|(index, value)| (self.key(*index), hex(value).into()))
            .collect();
        let condition =
            json!({ "StringEqualsIgnoreCase": registers, "StringEquals": object(context) });
        allow(name, role, &["kms:Decrypt"], condition)
    }
}

fn object(entries: &[(&str, String)]) -> Value {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Value::from(value.clone())))
        .collect::<Map<_, _>>()
        .into()
}

fn deny(sid: &str, actions: &[&str], condition: Value) -> Value {
    statement(sid, "Deny", "*".into(), actions, condition)
}

fn allow(sid: &str, role: &str, actions: &[&str], condition: Value) -> Value {
    statement(sid, "Allow", json!({ "AWS": role }), actions, condition)
}

#[allow(clippy::needless_pass_by_value, reason = "moved into JSON")]
fn statement(
    sid: &str,
    effect: &str,
    principal: Value,
    actions: &[&str],
    condition: Value,
) -> Value {
    let mut statement = json!({ "Sid": sid, "Effect": effect, "Principal": principal, "Action": actions, "Resource": "*" });
    if let (Some(map), false) = (statement.as_object_mut(), condition.is_null()) {
        map.insert("Condition".to_owned(), condition);
    }
    statement
}
