//! From a trust policy to the policy of the key: measurements are written once.

use attestation::{Policy, Release, UnixMillis};
use base16ct::lower::encode_string as hex;
use serde_json::{Map, Value, json};

/// Who does what with the key.
#[derive(Clone, Copy, Debug)]
pub struct Deployment<'a> {
    /// ARN of the parent's role: decrypts, for an enclave.
    pub parent: &'a str,
    /// ARN of the role that makes data keys to seal models with.
    pub sealer: Option<&'a str>,
    /// ARN of the role that looks at the key and deletes it. It cannot change its policy.
    pub keeper: Option<&'a str>,
}

/// Why no key policy can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A release without PCR0.
    #[error(
        "KEY_POLICY_NEEDS_PCR0: release {0:?} does not pin PCR0, by which KMS tells releases apart; pin it in the trust policy"
    )]
    NeedsPcr0(String),
    /// Two releases with one PCR0 and different other registers.
    #[error(
        "KEY_POLICY_SAME_PCR0: releases {0:?} and {1:?} have the same PCR0 and differ in others; give each its own key"
    )]
    SamePcr0(String, String),
    /// Nothing is accepted.
    #[error("KEY_POLICY_NO_RELEASE: every release of the trust policy has ended")]
    NoRelease,
    /// The model is not named.
    #[error(
        "KEY_POLICY_NO_MODEL: the trust policy names no model, so there is no encryption context; add `model`"
    )]
    NoModel,
    /// More than KMS takes.
    #[error(
        "KEY_POLICY_TOO_LARGE: it would have {0} bytes, and KMS takes 32,768; name fewer releases"
    )]
    TooLarge(usize),
}

/// Writes the key policy for the releases that have not ended at `at`.
///
/// # Errors
/// [`WriteError`].
pub fn write(
    trust: &Policy,
    deployment: Deployment<'_>,
    at: UnixMillis,
) -> Result<String, WriteError> {
    let releases: Vec<&Release> = trust
        .releases()
        .iter()
        .filter(|release| release.not_after.is_none_or(|end| end >= at))
        .collect();
    if releases.is_empty() {
        return Err(WriteError::NoRelease);
    }
    let model = trust.model().ok_or(WriteError::NoModel)?;
    let context = [
        ("kms:EncryptionContext:clearseal-model", model.id.clone()),
        (
            "kms:EncryptionContext:clearseal-version",
            hex(&model.sha256),
        ),
    ];
    let mut images: Vec<String> = Vec::new();
    for (at, release) in releases.iter().enumerate() {
        let image = release
            .pcrs
            .get(&0)
            .ok_or_else(|| WriteError::NeedsPcr0(release.name.clone()))?;
        let same = releases
            .iter()
            .take(at)
            .find(|other| other.pcrs.get(&0) == Some(image));
        if let Some(other) = same {
            return Err(WriteError::SamePcr0(
                other.name.clone(),
                release.name.clone(),
            ));
        }
        images.push(hex(image));
    }

    let mut statements = vec![
        deny(
            "DenyUnlessAttested",
            &["kms:Decrypt"],
            json!({ "StringNotEqualsIgnoreCase": { pcr(0): images } }),
        ),
        deny("DenyWaysAround", AROUND, Value::Null),
    ];
    for (number, release) in releases.iter().enumerate() {
        statements.extend(exceptions(number + 1, release));
        statements.push(release_statement(
            number + 1,
            release,
            deployment.parent,
            &context,
        ));
    }
    if let Some(sealer) = deployment.sealer {
        let condition = Value::Object(Map::from_iter([(
            "StringEquals".to_owned(),
            object(&context),
        )]));
        statements.push(allow("Seal", sealer, &["kms:GenerateDataKey"], condition));
    }
    if let Some(keeper) = deployment.keeper {
        statements.push(allow("Keep", keeper, KEEP, Value::Null));
    }
    let policy = json!({ "Version": "2012-10-17", "Id": format!("clearseal {}", trust.name()), "Statement": statements });
    let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
    if text.len() > crate::MAX_KEY_POLICY {
        return Err(WriteError::TooLarge(text.len()));
    }
    Ok(text)
}

/// What would let somebody decrypt later or elsewhere. The first would encrypt the data key again under a key of the caller's.
const AROUND: &[&str] = &[
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:CreateGrant",
    "kms:PutKeyPolicy",
    "kms:ReplicateKey",
    "kms:UpdatePrimaryRegion",
    "kms:ImportKeyMaterial",
    "kms:DeriveSharedSecret",
];

/// Looking, and ending the key. Nothing that reaches a data key.
const KEEP: &[&str] = &[
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

/// Explicit denials inside one release: every other register, and the time outside of it. Conditions of one statement are
/// ANDed, so each has a statement.
fn exceptions(number: usize, release: &Release) -> Vec<Value> {
    let image = || {
        release
            .pcrs
            .get(&0)
            .map(|value| hex(value))
            .unwrap_or_default()
    };
    // PCR0 covers what PCR1 and PCR2 do.
    let others = release.pcrs.iter().filter(|(index, _)| **index > 2);
    let mut all: Vec<Value> = others
        .map(|(index, value)| {
            let condition = json!({
                "StringEqualsIgnoreCase": { pcr(0): image() },
                "StringNotEqualsIgnoreCase": { pcr(*index): hex(value) },
            });
            deny(
                &format!("DenyRelease{number}Register{index}"),
                &["kms:Decrypt"],
                condition,
            )
        })
        .collect();
    for (name, operator, moment) in [
        ("Before", "DateLessThan", release.not_before),
        ("After", "DateGreaterThan", release.not_after),
    ] {
        if let Some(moment) = moment {
            let condition = json!({
                "StringEqualsIgnoreCase": { pcr(0): image() },
                operator: { "aws:CurrentTime": moment.to_string() },
            });
            all.push(deny(
                &format!("DenyRelease{number}{name}"),
                &["kms:Decrypt"],
                condition,
            ));
        }
    }
    all
}

fn release_statement(
    number: usize,
    release: &Release,
    parent: &str,
    context: &[(&str, String)],
) -> Value {
    let registers: Vec<_> = release
        .pcrs
        .iter()
        .map(|(index, value)| (pcr(*index), hex(value)))
        .collect();
    let registers: Vec<_> = registers
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    let condition =
        json!({ "StringEqualsIgnoreCase": object(&registers), "StringEquals": object(context) });
    allow(
        &format!("Release{number}"),
        parent,
        &["kms:Decrypt"],
        condition,
    )
}

fn pcr(index: u8) -> String {
    format!("kms:RecipientAttestation:PCR{index}")
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
