//! Whether anybody can decrypt, or come to decrypt, without being an accepted image.

use std::collections::BTreeMap;

use attestation::UnixMillis;

use crate::accepted::{Accepted, IMAGE, Image, Images, Platform, TIME};
use crate::fact::{Fact, Request, Truth};
use crate::policy::{KeyPolicy, Outcome};
use crate::report::{Attested, Example, KeyPolicyReport, Row, RowState};
use crate::search::{DECRYPT, Goal, Hole, MAX_REQUESTS, Permission, Search, Undecided, describe};
use crate::way::ways;

/// Judges a key policy against what is accepted (a trust policy, alone or with instances), as of `at`. `key` is the ARN of the key,
/// where it is known.
///
/// It holds only if no request that is generated and must fail may succeed. A Decrypt must fail unless it carries the document of
/// an enclave that is not in debug mode and has every register of one current release, or of an instance that has every register
/// of one accepted instance; who asks, the encryption context and the moment are any.
pub fn verify<'a>(
    policy: &KeyPolicy,
    accepted: impl Into<Accepted<'a>>,
    key: Option<&str>,
    at: UnixMillis,
) -> KeyPolicyReport {
    let accepted = accepted.into();
    let images = Images::new(accepted, at);
    let judge = Judge {
        search: Search {
            policy,
            images: &images,
            key,
        },
        at,
    };
    let mut checks = judge.decrypt();
    checks.extend(MANAGEMENT.iter().map(|row| judge.manage(*row)));
    checks.push(judge.outlived());
    checks.push(judge.usable());
    checks.push(root(accepted));
    KeyPolicyReport {
        holds: checks.iter().all(|row| row.state != RowState::Failed),
        policy: accepted.trust.name().to_owned(),
        judged_at_ms: at.0,
        checks,
    }
}

/// A question of the report. "No" is the good answer.
#[derive(Clone, Copy)]
struct Question {
    name: &'static str,
    title: &'static str,
    code: &'static str,
}

const fn question(name: &'static str, title: &'static str, code: &'static str) -> Question {
    Question { name, title, code }
}

/// Actions that let somebody decrypt later, or elsewhere.
const MANAGEMENT: &[(Question, &[&str])] = &[
    (
        question(
            "reencrypt",
            "Can anybody encrypt the data key again, under another key?",
            "REENCRYPT",
        ),
        &[REENCRYPT_FROM],
    ),
    (
        question(
            "policy-change",
            "Can anybody change this policy?",
            "POLICY_CHANGE",
        ),
        &["kms:PutKeyPolicy"],
    ),
    (
        question("grants", "Can anybody create grants?", "GRANT"),
        &["kms:CreateGrant"],
    ),
    (
        question(
            "replicas",
            "Can anybody copy the key to a region with another policy?",
            "REPLICATION",
        ),
        &["kms:ReplicateKey", "kms:UpdatePrimaryRegion"],
    ),
    (
        question(
            "imports",
            "Can anybody give the key material that they know?",
            "IMPORT",
        ),
        &["kms:ImportKeyMaterial"],
    ),
];

const REENCRYPT_FROM: &str = "kms:ReEncryptFrom";

/// The permissions that a Decrypt can have. A grant needs no statement, so that every Decrypt that must fail has to be denied.
const DECRYPT_BY: &[Permission] = &[Permission::Statement, Permission::Grant];

struct Judge<'a> {
    search: Search<'a>,
    at: UnixMillis,
}

impl Judge<'_> {
    fn decrypt(&self) -> Vec<Row> {
        let images = self.search.images;
        let enclave = |must_fail| vec![self.goal(Platform::Enclave, must_fail)];
        let unattested = |_: &Request<'_>| Truth::Yes;
        let debug = |request: &Request<'_>| images.debug_mode(request);
        let other_image = |request: &Request<'_>| images.identify_one(request).not();
        let not_a_release =
            |request: &Request<'_>| images.match_one(Platform::Enclave, request).not();
        let mixed = |request: &Request<'_>| {
            images
                .identify_one(request)
                .min(images.match_one(Platform::Enclave, request).not())
        };
        let other_instance =
            |request: &Request<'_>| images.match_one(Platform::Instance, request).not();
        let ended = images.ended.iter().map(|image| Goal {
            fixed: self.facts_of(image, self.at),
            ..self.goal(Platform::Enclave, &not_a_release)
        });
        vec![
            self.row(
                question(
                    "unattested",
                    "Can anybody decrypt without attestation?",
                    "UNATTESTED_DECRYPT",
                ),
                &[self.goal(Platform::Nothing, &unattested)],
                DECRYPT_BY,
            ),
            self.row(
                question(
                    "debug-mode",
                    "Can an enclave in debug mode decrypt?",
                    "DEBUG_DECRYPT",
                ),
                &enclave(&debug),
                DECRYPT_BY,
            ),
            self.row(
                question(
                    "other-images",
                    "Can an enclave with another image decrypt?",
                    "OTHER_IMAGE_DECRYPT",
                ),
                &enclave(&other_image),
                DECRYPT_BY,
            ),
            self.row(
                question(
                    "ended-releases",
                    "Can a release decrypt that is no longer accepted?",
                    "ENDED_RELEASE_DECRYPT",
                ),
                &ended.collect::<Vec<_>>(),
                DECRYPT_BY,
            ),
            self.row(
                question(
                    "registers",
                    "Can an accepted image decrypt with other registers than its release has?",
                    "MIXED_REGISTERS_DECRYPT",
                ),
                &enclave(&mixed),
                DECRYPT_BY,
            ),
            self.row(
                question(
                    "instances",
                    "Can an EC2 instance decrypt whose NitroTPM measurements are not accepted?",
                    "OTHER_INSTANCE_DECRYPT",
                ),
                &[self.goal(Platform::Instance, &other_instance)],
                DECRYPT_BY,
            ),
        ]
    }

    fn manage(&self, (question, actions): (Question, &[&'static str])) -> Row {
        let always = |_: &Request<'_>| Truth::Yes;
        let goals: Vec<_> = actions
            .iter()
            .map(|action| Goal {
                action,
                ..self.goal(Platform::Nothing, &always)
            })
            .collect();
        let row = self.row(question, &goals, &[Permission::Statement]);
        if row.state != RowState::Passed || !actions.contains(&REENCRYPT_FROM) {
            return row;
        }
        let by_grant = self.row(question, &goals, &[Permission::Grant]);
        if by_grant.state == RowState::Passed {
            return row;
        }
        Row {
            state: RowState::Warning,
            code: Some("REENCRYPT_BY_GRANT"),
            observed: "No statement allows it, and none denies it: a grant of before could (`aws kms list-grants`)"
                .to_owned(),
            ..row
        }
    }

    fn goal<'g>(
        &self,
        platform: Platform,
        must_fail: &'g dyn Fn(&Request<'_>) -> Truth,
    ) -> Goal<'g> {
        Goal {
            action: DECRYPT,
            platform,
            fixed: BTreeMap::new(),
            must_fail,
        }
    }

    fn row(&self, question: Question, goals: &[Goal<'_>], by: &[Permission]) -> Row {
        let Question { name, title, code } = question;
        let mut row = Row {
            name,
            title,
            state: RowState::Passed,
            code: None,
            observed: "No".to_owned(),
            ways: Vec::new(),
            example: None,
        };
        for goal in goals {
            for permission in by {
                match self.search.find(goal, *permission) {
                    Ok(holes) => holes
                        .iter()
                        .for_each(|hole| self.report(&mut row, code, goal, hole)),
                    Err(Undecided) if row.state == RowState::Passed => {
                        row.state = RowState::Failed;
                        row.code = Some("NOT_DECIDED");
                        row.observed = format!("Not decided by {MAX_REQUESTS} requests");
                        break;
                    }
                    Err(Undecided) => {}
                }
            }
        }
        row.ways.sort_unstable();
        row.ways.dedup();
        row
    }

    fn report(&self, row: &mut Row, code: &'static str, goal: &Goal<'_>, hole: &Hole<'_>) {
        row.state = RowState::Failed;
        row.code = Some(code);
        "It may".clone_into(&mut row.observed);
        row.ways.extend(ways(
            self.search.policy,
            self.search.images,
            &hole.registers,
        ));
        if row.example.is_none() {
            row.example = Some(Example {
                action: goal.action,
                attested: match goal.platform {
                    Platform::Nothing => Attested::Nothing,
                    Platform::Enclave => Attested::Enclave,
                    Platform::Instance => Attested::Instance,
                },
                facts: describe(&hole.whole),
            });
        }
    }

    fn outlived(&self) -> Row {
        let current = &self.search.images.current;
        let ending = current
            .iter()
            .filter_map(|image| Some((image, image.not_after?)));
        let outliving: Vec<_> = ending
            .filter(|(image, end)| {
                let outcome = self.evaluate(image, UnixMillis(end.0.saturating_add(1000)));
                outcome.denied != Truth::Yes
            })
            .map(|(image, _)| image.name.clone())
            .collect();
        notice(
            question(
                "ends",
                "Does KMS enforce when a release ends?",
                "OUTLIVES_RELEASE",
            ),
            &outliving,
            "Replace the key before these end",
        )
    }

    fn usable(&self) -> Row {
        let current = &self.search.images.current;
        let locked_out: Vec<_> = current
            .iter()
            .filter(|image| {
                let outcome = self.evaluate(image, self.at);
                image.has_begun(self.at)
                    && (outcome.allowed == Truth::No || outcome.denied == Truth::Yes)
            })
            .map(|image| image.name.clone())
            .collect();
        notice(
            question(
                "usable",
                "Does every accepted release get its key?",
                "RELEASE_LOCKED_OUT",
            ),
            &locked_out,
            "No statement allows these",
        )
    }

    fn evaluate(&self, image: &Image, at: UnixMillis) -> Outcome {
        let always = |_: &Request<'_>| Truth::Yes;
        let goal = Goal {
            fixed: self.facts_of(image, at),
            ..self.goal(image.platform, &always)
        };
        self.search.policy.evaluate(&self.search.request(&goal))
    }

    #[allow(clippy::unused_self, reason = "reads like its siblings")]
    fn facts_of(&self, image: &Image, at: UnixMillis) -> BTreeMap<String, Fact> {
        let registers = image.registers.iter();
        let mut facts: BTreeMap<_, _> = registers
            .map(|(key, value)| (key.clone(), Fact::Is(value.clone())))
            .collect();
        let pcr0 = Platform::Enclave.registers().into_iter().next();
        if let Some(value) = pcr0.and_then(|key| facts.get(&key).cloned()) {
            facts.insert(IMAGE.to_owned(), value);
        }
        facts.insert(TIME.to_owned(), Fact::Is(at.to_string()));
        facts
    }
}

fn notice(question: Question, names: &[String], what: &str) -> Row {
    let some = !names.is_empty();
    Row {
        name: question.name,
        title: question.title,
        state: if some {
            RowState::Warning
        } else {
            RowState::Passed
        },
        code: some.then_some(question.code),
        observed: if some {
            format!("{what}: {}", names.join(", "))
        } else {
            "Yes".to_owned()
        },
        ways: Vec::new(),
        example: None,
    }
}

fn root(accepted: Accepted<'_>) -> Row {
    let aws = accepted.trust.anchor().is_aws();
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
        example: None,
    }
}
