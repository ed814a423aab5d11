//! Checks that only an accepted image can decrypt, now or later.

use std::collections::BTreeMap;

use attestation::UnixMillis;

use crate::accepted::{Accepted, IMAGE, Image, Images, Platform, TIME};
use crate::bypass::find_bypasses;
use crate::example::describe_facts;
use crate::fact::{Fact, Request, Truth};
use crate::policy::{Effect, KeyPolicy, Outcome};
use crate::report::{Attested, Example, KeyPolicyReport, Row, RowState};
use crate::search::{Counterexample, DECRYPT, Goal, MAX_REQUESTS, Permission, Search, Undecided};

/// Verifies a key policy against the accepted code (a trust policy, alone or with instances), as of `at`. `key` is the ARN of the
/// key, where it is known.
///
/// The policy holds only if no generated request that must fail may succeed. A Decrypt must fail unless it carries the document of
/// an enclave that is not in debug mode and has every register of one current release, or of an instance that has every register
/// of one accepted instance. This applies to any caller, encryption context and time.
pub fn verify<'a>(
    policy: &KeyPolicy,
    accepted: impl Into<Accepted<'a>>,
    key: Option<&str>,
    at: UnixMillis,
) -> KeyPolicyReport {
    let accepted = accepted.into();
    let images = Images::new(accepted, at);
    let verifier = Verifier {
        search: Search {
            policy,
            images: &images,
            key,
        },
        at,
    };
    let mut checks = verifier.check_decrypt();
    checks.extend(
        MANAGEMENT
            .iter()
            .map(|check| verifier.check_management(check)),
    );
    checks.push(verifier.check_release_ends());
    checks.push(verifier.check_release_access());
    checks.push(check_root(accepted));
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

/// A question about actions that let somebody decrypt later, or elsewhere.
struct ManagementCheck {
    question: Question,
    actions: &'static [&'static str],
}

const MANAGEMENT: &[ManagementCheck] = &[
    ManagementCheck {
        question: question(
            "reencrypt",
            "Can anybody encrypt the data key again, under another key?",
            "REENCRYPT",
        ),
        actions: &[REENCRYPT_FROM],
    },
    ManagementCheck {
        question: question(
            "policy-change",
            "Can anybody change this policy?",
            "POLICY_CHANGE",
        ),
        actions: &["kms:PutKeyPolicy"],
    },
    ManagementCheck {
        question: question("grants", "Can anybody create grants?", "GRANT"),
        actions: &["kms:CreateGrant"],
    },
    ManagementCheck {
        question: question(
            "replicas",
            "Can anybody copy the key to a region with another policy?",
            "REPLICATION",
        ),
        actions: &["kms:ReplicateKey", "kms:UpdatePrimaryRegion"],
    },
    ManagementCheck {
        question: question(
            "imports",
            "Can anybody import key material that they know into the key?",
            "IMPORT",
        ),
        actions: &["kms:ImportKeyMaterial"],
    },
];

const REENCRYPT_FROM: &str = "kms:ReEncryptFrom";

/// Permissions of a Decrypt. A grant needs no statement, so every Decrypt that must fail has to be denied.
const DECRYPT_PERMISSIONS: &[Permission] = &[Permission::Statement, Permission::Grant];

struct Verifier<'a> {
    search: Search<'a>,
    at: UnixMillis,
}

impl Verifier<'_> {
    fn check_decrypt(&self) -> Vec<Row> {
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
                DECRYPT_PERMISSIONS,
            ),
            self.row(
                question(
                    "debug-mode",
                    "Can an enclave in debug mode decrypt?",
                    "DEBUG_DECRYPT",
                ),
                &enclave(&debug),
                DECRYPT_PERMISSIONS,
            ),
            self.row(
                question(
                    "other-images",
                    "Can an enclave with another image decrypt?",
                    "OTHER_IMAGE_DECRYPT",
                ),
                &enclave(&other_image),
                DECRYPT_PERMISSIONS,
            ),
            self.row(
                question(
                    "ended-releases",
                    "Can a release decrypt that is no longer accepted?",
                    "ENDED_RELEASE_DECRYPT",
                ),
                &ended.collect::<Vec<_>>(),
                DECRYPT_PERMISSIONS,
            ),
            self.row(
                question(
                    "registers",
                    "Can an accepted image decrypt with other registers than its release has?",
                    "MIXED_REGISTERS_DECRYPT",
                ),
                &enclave(&mixed),
                DECRYPT_PERMISSIONS,
            ),
            self.row(
                question(
                    "instances",
                    "Can an EC2 instance decrypt whose NitroTPM measurements are not accepted?",
                    "OTHER_INSTANCE_DECRYPT",
                ),
                &[self.goal(Platform::Instance, &other_instance)],
                DECRYPT_PERMISSIONS,
            ),
        ]
    }

    fn check_management(&self, check: &ManagementCheck) -> Row {
        let ManagementCheck { question, actions } = *check;
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
            observed: "No statement allows it, and none denies it: a grant made earlier could (`aws kms list-grants`)"
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

    fn row(&self, question: Question, goals: &[Goal<'_>], permissions: &[Permission]) -> Row {
        let Question { name, title, code } = question;
        let mut row = Row {
            name,
            title,
            state: RowState::Passed,
            code: None,
            observed: "No".to_owned(),
            bypasses: Vec::new(),
            example: None,
        };
        for goal in goals {
            for permission in permissions {
                match self.search.find(goal, *permission) {
                    Ok(found) => found
                        .iter()
                        .for_each(|found| self.report(&mut row, code, goal, found)),
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
        row.bypasses.sort_unstable();
        row.bypasses.dedup();
        row
    }

    fn report(
        &self,
        row: &mut Row,
        code: &'static str,
        goal: &Goal<'_>,
        found: &Counterexample<'_>,
    ) {
        row.state = RowState::Failed;
        row.code = Some(code);
        "It may".clone_into(&mut row.observed);
        row.bypasses.extend(find_bypasses(
            self.search.policy,
            self.search.images,
            &found.attested_request,
        ));
        if row.example.is_none() {
            row.example = Some(Example {
                action: goal.action,
                attested: match goal.platform {
                    Platform::Nothing => Attested::Nothing,
                    Platform::Enclave => Attested::Enclave,
                    Platform::Instance => Attested::Instance,
                },
                facts: describe_facts(&found.complete),
            });
        }
    }

    fn check_release_ends(&self) -> Row {
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
        warning_row(
            question(
                "ends",
                "Does KMS enforce when a release ends?",
                "OUTLIVES_RELEASE",
            ),
            &outliving,
            "Replace the key before these end",
        )
    }

    fn check_release_access(&self) -> Row {
        let current = &self.search.images.current;
        let begun = current.iter().filter(|image| image.has_begun(self.at));
        let reasons: Vec<_> = begun
            .filter_map(|image| {
                let reason = self.find_lock(image)?;
                Some(format!("{} ({reason})", image.name))
            })
            .collect();
        warning_row(
            question(
                "usable",
                "Does every accepted release get its key?",
                "RELEASE_LOCKED_OUT",
            ),
            &reasons,
            "These cannot decrypt",
        )
    }

    /// Returns why an accepted image cannot decrypt; `None` where it may.
    fn find_lock(&self, image: &Image) -> Option<String> {
        let request = self.request(image, self.at);
        let outcome = self.search.policy.evaluate(&request);
        if outcome.denied == Truth::Yes {
            let denies = self.search.policy.statements.iter().filter(|statement| {
                statement.effect == Effect::Deny && statement.applies(&request) == Truth::Yes
            });
            let names: Vec<_> = denies.map(|statement| statement.name.as_str()).collect();
            return Some(format!("denied by statement {}", names.join(", ")));
        }
        (outcome.allowed == Truth::No).then(|| "no statement allows it".to_owned())
    }

    fn evaluate(&self, image: &Image, at: UnixMillis) -> Outcome {
        self.search.policy.evaluate(&self.request(image, at))
    }

    /// The Decrypt of an image.
    fn request(&self, image: &Image, at: UnixMillis) -> Request<'_> {
        let always = |_: &Request<'_>| Truth::Yes;
        self.search.request(&Goal {
            fixed: self.facts_of(image, at),
            ..self.goal(image.platform, &always)
        })
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

fn warning_row(question: Question, names: &[String], advice: &str) -> Row {
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
            format!("{advice}: {}", names.join(", "))
        } else {
            "Yes".to_owned()
        },
        bypasses: Vec::new(),
        example: None,
    }
}

fn check_root(accepted: Accepted<'_>) -> Row {
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
        bypasses: Vec::new(),
        example: None,
    }
}
