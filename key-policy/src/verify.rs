//! Whether anybody can decrypt, or come to decrypt, without being an accepted release in an enclave.

use std::collections::BTreeMap;

use attestation::{Policy, Release, UnixMillis};
use base16ct::lower::encode_string as hex;
use serde::Serialize;

use crate::fact::{Fact, Request, Truth};
use crate::policy::KeyPolicy;
use crate::way::{ATTESTATION, DECRYPT, Way, ways};

/// What a judgement found, as a whole and row by row.
#[derive(Clone, Debug, Serialize)]
pub struct KeyPolicyReport {
    /// Whether every required row passed.
    pub holds: bool,
    /// Name of the trust policy.
    pub policy: String,
    /// The moment for which releases count as ended, Unix milliseconds.
    pub judged_at_ms: u64,
    /// One for each question.
    pub checks: Vec<Row>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Stable kebab-case name.
    pub name: &'static str,
    /// The question.
    pub title: &'static str,
    /// What became of it.
    pub state: RowState,
    /// Stable code, where the row did not pass.
    pub code: Option<&'static str>,
    /// What was seen.
    pub observed: String,
    /// Statements that let it happen.
    pub ways: Vec<Way>,
}

/// State of a [`Row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowState {
    /// It cannot happen.
    Passed,
    /// It can.
    Failed,
    /// Something to look at that refuses nothing.
    Warning,
}

/// Judges a key policy against a trust policy, as of `at`. `key` is the ARN of the key, where it is known.
pub fn verify(
    policy: &KeyPolicy,
    trust: &Policy,
    key: Option<&str>,
    at: UnixMillis,
) -> KeyPolicyReport {
    let judge = Judge { policy, key };
    let current: Vec<&Release> = trust
        .releases()
        .iter()
        .filter(|release| !has_ended(release, at))
        .collect();
    let mut checks = vec![
        judge.decrypt(
            (
                "unattested",
                "Can anybody decrypt without attestation?",
                "UNATTESTED_DECRYPT",
            ),
            &[facts(|_| Fact::Absent)],
        ),
        judge.decrypt(
            (
                "debug-mode",
                "Can an enclave in debug mode decrypt?",
                "DEBUG_DECRYPT",
            ),
            &[facts(|index| match index {
                0..=2 => Fact::Is("0".repeat(96)),
                _ => Fact::Unknown,
            })],
        ),
        judge.decrypt(
            (
                "other-images",
                "Can an enclave with another image decrypt?",
                "OTHER_IMAGE_DECRYPT",
            ),
            &other_images(&current),
        ),
        judge.decrypt(
            (
                "ended-releases",
                "Can a release decrypt that is no longer accepted?",
                "ENDED_RELEASE_DECRYPT",
            ),
            &trust
                .releases()
                .iter()
                .filter(|release| {
                    has_ended(release, at)
                        && !current.iter().any(|other| other.pcrs == release.pcrs)
                })
                .map(|release| at_time(release, at))
                .collect::<Vec<_>>(),
        ),
        judge.decrypt(
            (
                "registers",
                "Are the registers of a release judged as a set?",
                "MIXED_REGISTERS_DECRYPT",
            ),
            &current
                .iter()
                .flat_map(|release| mixed(release, &current))
                .collect::<Vec<_>>(),
        ),
    ];
    for (row, actions) in MANAGEMENT {
        checks.push(judge.manage(*row, actions));
    }
    checks.push(judge.outlived(&current));
    checks.push(judge.usable(&current, at));
    checks.push(root(trust));
    KeyPolicyReport {
        holds: checks.iter().all(|row| row.state != RowState::Failed),
        policy: trust.name().to_owned(),
        judged_at_ms: at.0,
        checks,
    }
}

type Question = (&'static str, &'static str, &'static str);
type Facts = BTreeMap<String, Fact>;

/// What lets somebody decrypt later, or elsewhere. A grant can give the first of these, and no statement has to allow it.
const MANAGEMENT: &[(Question, &[&str])] = &[
    (
        (
            "reencrypt",
            "Can anybody encrypt the data key again, under another key?",
            "REENCRYPT",
        ),
        &["kms:ReEncryptFrom"],
    ),
    (
        (
            "policy-change",
            "Can anybody change this policy?",
            "POLICY_CHANGE",
        ),
        &["kms:PutKeyPolicy"],
    ),
    (
        ("grants", "Can anybody create grants?", "GRANT"),
        &["kms:CreateGrant"],
    ),
    (
        (
            "replicas",
            "Can anybody copy the key to a region with another policy?",
            "REPLICATION",
        ),
        &["kms:ReplicateKey", "kms:UpdatePrimaryRegion"],
    ),
    (
        (
            "imports",
            "Can anybody give the key material that they know?",
            "IMPORT",
        ),
        &["kms:ImportKeyMaterial"],
    ),
];

/// Operations that a grant can allow without any statement.
const BY_GRANT: &[&str] = &[DECRYPT, "kms:ReEncryptFrom"];

struct Judge<'a> {
    policy: &'a KeyPolicy,
    key: Option<&'a str>,
}

impl Judge<'_> {
    fn decrypt(&self, question: Question, scenes: &[Facts]) -> Row {
        let requests = scenes
            .iter()
            .map(|facts| self.request(DECRYPT, facts.clone()));
        self.row(question, &requests.collect::<Vec<_>>())
    }

    fn manage(&self, question: Question, actions: &[&'static str]) -> Row {
        let requests = actions
            .iter()
            .map(|action| self.request(action, Facts::new()));
        self.row(question, &requests.collect::<Vec<_>>())
    }

    fn row(&self, (name, title, code): Question, requests: &[Request<'_>]) -> Row {
        let mut found: Vec<Way> = Vec::new();
        let mut possible = false;
        for request in requests {
            if self.may_succeed(request) {
                possible = true;
                found.extend(ways(self.policy, request));
            }
        }
        found.sort_unstable();
        found.dedup();
        Row {
            name,
            title,
            state: if possible {
                RowState::Failed
            } else {
                RowState::Passed
            },
            code: possible.then_some(code),
            observed: if possible {
                "It may".to_owned()
            } else {
                "No".to_owned()
            },
            ways: found,
        }
    }

    /// Sound: only a Deny that certainly applies counts.
    fn may_succeed(&self, request: &Request<'_>) -> bool {
        let outcome = self.policy.evaluate(request);
        let by_grant = BY_GRANT.contains(&request.action);
        outcome.denied != Truth::Yes && (outcome.allowed != Truth::No || by_grant)
    }

    fn outlived(&self, current: &[&Release]) -> Row {
        let ending = current
            .iter()
            .filter_map(|release| Some((release, release.not_after?)));
        let outliving: Vec<_> = ending
            .filter(|(release, end)| {
                let facts = at_time(release, UnixMillis(end.0 + 1000));
                self.may_succeed(&self.request(DECRYPT, facts))
            })
            .map(|(release, _)| release.name.clone())
            .collect();
        self.notice(
            (
                "ends",
                "Does KMS enforce when a release ends?",
                "OUTLIVES_RELEASE",
            ),
            &outliving,
            "Replace the key before these end",
        )
    }

    fn usable(&self, current: &[&Release], at: UnixMillis) -> Row {
        let locked_out: Vec<_> = current
            .iter()
            .filter(|release| {
                let outcome = self
                    .policy
                    .evaluate(&self.request(DECRYPT, at_time(release, at)));
                let begun = release.not_before.is_none_or(|start| start <= at);
                begun && (outcome.allowed == Truth::No || outcome.denied == Truth::Yes)
            })
            .map(|release| release.name.clone())
            .collect();
        self.notice(
            (
                "usable",
                "Does every accepted release get its key?",
                "RELEASE_LOCKED_OUT",
            ),
            &locked_out,
            "No statement allows these",
        )
    }

    #[allow(clippy::unused_self, reason = "reads like its siblings")]
    fn notice(&self, (name, title, code): Question, releases: &[String], what: &str) -> Row {
        let some = !releases.is_empty();
        Row {
            name,
            title,
            state: if some {
                RowState::Warning
            } else {
                RowState::Passed
            },
            code: some.then_some(code),
            observed: if some {
                format!("{what}: {}", releases.join(", "))
            } else {
                "Yes".to_owned()
            },
            ways: Vec::new(),
        }
    }

    fn request(&self, action: &'static str, facts: Facts) -> Request<'_> {
        Request {
            action,
            principal: None,
            key: self.key,
            facts,
            others: Fact::Unknown,
        }
    }
}

fn root(trust: &Policy) -> Row {
    let aws = trust.anchor().is_aws();
    Row {
        name: "root",
        title: "Does the trust policy name the root that KMS trusts?",
        state: if aws {
            RowState::Passed
        } else {
            RowState::Warning
        },
        code: (!aws).then_some("DEVELOPMENT_ROOT"),
        observed: if aws {
            "AWS Nitro Enclaves"
        } else {
            "A development root: only a simulated KMS takes its documents"
        }
        .to_owned(),
        ways: Vec::new(),
    }
}

fn has_ended(release: &Release, at: UnixMillis) -> bool {
    release.not_after.is_some_and(|end| end < at)
}

fn register(index: u8) -> String {
    format!("{ATTESTATION}pcr{index}")
}

/// Every register of an enclave, and the other name of the first.
fn facts(value: impl Fn(u8) -> Fact) -> Facts {
    let mut facts: Facts = (0..32)
        .map(|index| (register(index), value(index)))
        .collect();
    facts.insert(format!("{ATTESTATION}imagesha384"), value(0));
    facts
}

/// An image that no release has: each release differs in at least one register that it pins.
fn other_images(releases: &[&Release]) -> Vec<Facts> {
    let values = |index: u8| -> Vec<String> {
        releases
            .iter()
            .filter_map(|release| release.pcrs.get(&index))
            .map(|value| hex(value))
            .collect()
    };
    let mut scenes = vec![facts(|index| match values(index) {
        none if none.is_empty() => Fact::Unknown,
        values => Fact::NoneOf(values),
    })];
    // Where no release names PCR0, any of those that are named may be the one that differs.
    if releases
        .iter()
        .any(|release| !release.pcrs.contains_key(&0))
    {
        scenes.push(facts(|_| Fact::Unknown));
    }
    scenes
}

/// A release with one register of something else. PCR0 covers what PCR1 and PCR2 do, so these cannot differ alone.
fn mixed(release: &Release, releases: &[&Release]) -> Vec<Facts> {
    let implied = |index: u8| release.pcrs.contains_key(&0) && matches!(index, 1 | 2);
    let changed = release
        .pcrs
        .keys()
        .copied()
        .filter(|index| *index != 0 && !implied(*index));
    changed
        .map(|changed| {
            // Another release may differ from this one in that register alone.
            let accepted = releases.iter().filter(|other| {
                other.pcrs.iter().all(|(index, value)| {
                    *index == changed || release.pcrs.get(index) == Some(value)
                })
            });
            let accepted: Vec<_> = accepted
                .filter_map(|other| other.pcrs.get(&changed))
                .map(|value| hex(value))
                .collect();
            facts(|index| match release.pcrs.get(&index) {
                _ if index == changed => Fact::NoneOf(accepted.clone()),
                Some(value) => Fact::Is(hex(value)),
                None => Fact::Unknown,
            })
        })
        .collect()
}

fn at_time(release: &Release, at: UnixMillis) -> Facts {
    let mut facts = facts(|index| {
        release
            .pcrs
            .get(&index)
            .map_or(Fact::Unknown, |value| Fact::Is(hex(value)))
    });
    facts.insert("aws:currenttime".to_owned(), Fact::Is(at.to_string()));
    facts
}
