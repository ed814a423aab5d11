//! Cases for stages 3 and 4: at each bound, and with exactly one error.

use attestation::{
    AttestationDocument, AttestationError, AttestationReport, CheckLog, ErrorCode, Freshness, Kem,
    MAX_MANIFEST, Policy, Row, SignatureMemory, TrustAnchor, UnixMillis, VerifiedAttestation,
    manifest_binding,
};
use fixtures::{Fixture, MODEL, NONCE, NOW, pins};
use forge::Forgery;

/// A fixture with one value at its bound, or one error, that only stages 3 and 4 can detect.
pub struct AppraisalCase {
    pub name: &'static str,
    /// `None` if it must be accepted.
    pub code: Option<ErrorCode>,
    change: fn(&mut Fixture),
    forge: fn(&mut Forgery),
    manifest: fn(&mut Vec<u8>),
}

impl AppraisalCase {
    /// Document, root and moment, for verifiers of the chain alone.
    pub fn document(&self) -> (Vec<u8>, TrustAnchor, UnixMillis) {
        let mut fixture = Fixture::new();
        (self.change)(&mut fixture);
        (fixture.forged(self.forge), fixture.anchor, fixture.now)
    }

    pub fn judge(&self) -> (AttestationReport, Option<VerifiedAttestation>) {
        let mut fixture = Fixture::new();
        (self.change)(&mut fixture);
        let document = fixture.forged(self.forge);
        let mut manifest = fixture.manifest.encode().unwrap();
        (self.manifest)(&mut manifest);
        let (report, concluded) = fixture.verify(&document, &manifest);
        (report, concluded.including_simulated())
    }
}

pub fn appraisal_cases() -> Vec<AppraisalCase> {
    use ErrorCode::*;
    let none = |name, code: Option<ErrorCode>| AppraisalCase {
        name,
        code,
        change: |_| {},
        forge: |_| {},
        manifest: |_| {},
    };
    let accepted = |name, change, forge| AppraisalCase {
        change,
        forge,
        ..none(name, None)
    };
    let fixture = |name, code, change| AppraisalCase {
        change,
        ..none(name, Some(code))
    };
    let forged = |name, code, forge| AppraisalCase {
        forge,
        ..none(name, Some(code))
    };
    let carried = |name, code, manifest| AppraisalCase {
        manifest,
        ..none(name, Some(code))
    };
    let judged = |name, code, change, forge| AppraisalCase {
        change,
        forge,
        ..none(name, Some(code))
    };
    let unreadable = |name, forge, manifest| AppraisalCase {
        forge,
        manifest,
        ..none(name, Some(ManifestMalformed))
    };
    vec![
        // Accepted cases: each bound itself.
        accepted("everything-right", |_| {}, |_| {}),
        accepted(
            "pcr0-of-a-single-bit",
            |fixture| {
                fixture.contents.pcrs.insert(0, [0; 48]);
                fixture.contents.pcrs.get_mut(&0).unwrap()[47] = 1;
                fixture.policy = Policy::for_development(
                    fixture.anchor.clone(),
                    pins(&fixture.contents),
                    &fixture.manifest,
                )
                .unwrap();
            },
            |_| {},
        ),
        accepted(
            "registers-without-a-pin",
            |_| {},
            |f| {
                f.contents.pcrs.insert(4, [0x44; 48]);
                f.contents.pcrs.insert(31, [0x31; 48]);
            },
        ),
        accepted(
            "release-at-its-last-millisecond",
            |fixture| release_until(fixture, "2027-01-15T08:00:00.500Z"),
            |_| {},
        ),
        accepted(
            "release-at-its-first-millisecond",
            |fixture| release_from(fixture, "2027-01-15T08:00:00.500Z"),
            |_| {},
        ),
        accepted(
            "policy-at-its-last-millisecond",
            |fixture| policy_until(fixture, "2027-01-15T08:00:00.500Z"),
            |_| {},
        ),
        // The same image in two releases, of which the first has ended.
        accepted(
            "release-that-follows-an-ended-one",
            |fixture| {
                release_until(fixture, "2027-01-01T00:00:00Z");
                fixture.edit_policy(|json| {
                    let mut next = json["releases"][0].clone();
                    next["name"] = "next".into();
                    next["not_after"] = serde_json::Value::Null;
                    json["releases"].as_array_mut().unwrap().push(next);
                });
            },
            |_| {},
        ),
        accepted(
            "nonce-of-16-bytes",
            |fixture| fixture.nonce.truncate(16),
            |f| f.contents.nonce.as_mut().unwrap().truncate(16),
        ),
        accepted(
            "age-at-the-maximum",
            |fixture| fixture.now = UnixMillis(NOW.0 + 300_000),
            |_| {},
        ),
        accepted("future-at-the-skew", |_| {}, |f| f.timestamp += 60_000),
        accepted("manifest-of-8192-bytes", largest_manifest, |_| {}),
        accepted(
            "manifest-in-its-last-second",
            |fixture| fixture.manifest.not_after = NOW.seconds(),
            |_| {},
        ),
        accepted(
            "manifest-begins-at-the-skew",
            |fixture| fixture.manifest.not_before = NOW.seconds() + 60,
            |_| {},
        ),
        accepted(
            "model-with-organisation",
            |fixture| fixture.manifest.model.id = format!("org/{MODEL}"),
            |_| {},
        ),
        accepted(
            "model-without-organisation",
            |fixture| {
                let with_organisation = format!("org/{MODEL}").into();
                fixture.edit_policy(|json| json["model"]["id"] = with_organisation);
            },
            |_| {},
        ),
        accepted("model-among-others", hold_other_model_first, |_| {}),
        // The root's own validity, which most verifiers would not check.
        accepted(
            "root-in-its-first-second",
            |fixture| judge_in(fixture, ROOT_START),
            |f| {
                make_in(f, ROOT_START);
            },
        ),
        accepted(
            "root-in-its-last-second",
            |fixture| judge_in(fixture, ROOT_END),
            |f| {
                make_in(f, ROOT_END);
            },
        ),
        judged(
            "root-starts-next-second",
            CertificateNotYetValid,
            |fixture| judge_in(fixture, ROOT_START - 1),
            |f| make_in(f, ROOT_START - 1),
        ),
        judged(
            "root-ended-a-second-ago",
            CertificateExpired,
            |fixture| judge_in(fixture, ROOT_END + 1),
            |f| make_in(f, ROOT_END + 1),
        ),
        accepted(
            "crls-required",
            |fixture| require_crls(fixture, |at| at < 2),
            |_| {},
        ),
        fixture("crls-required-and-withheld", RevocationUnknown, |fixture| {
            require_crls(fixture, |_| false);
        }),
        fixture(
            "crls-required-and-one-withheld",
            RevocationUnknown,
            |fixture| {
                require_crls(fixture, |at| at != 1);
            },
        ),
        fixture(
            "crls-required-and-of-another-issuer",
            RevocationUnknown,
            |fixture| {
                require_crls(fixture, |at| at == 2);
            },
        ),
        forged("pcr0-other", PcrMismatch, |f| {
            f.contents.pcrs.get_mut(&0).unwrap()[47] ^= 1;
        }),
        forged("pcr2-other", PcrMismatch, |f| {
            f.contents.pcrs.get_mut(&2).unwrap()[0] ^= 0x80;
        }),
        forged("pcr1-absent", PcrMismatch, |f| {
            f.contents.pcrs.retain(|index, _| *index != 1);
        }),
        fixture("registers-of-two-releases", PcrMismatch, |fixture| {
            fixture.edit_policy(|json| {
                let mut other = json["releases"][0].clone();
                other["name"] = "other".into();
                json["releases"][0]["pcrs"]["1"] = "aa".repeat(48).into();
                other["pcrs"]["0"] = "bb".repeat(48).into();
                json["releases"].as_array_mut().unwrap().push(other);
            });
        }),
        fixture("release-withdrawn", ReleaseExpired, |fixture| {
            release_until(fixture, "2027-01-15T08:00:00.499Z");
        }),
        fixture("release-that-began-and-ended", ReleaseExpired, |fixture| {
            release_from(fixture, "2027-01-01T00:00:00Z");
            release_until(fixture, "2027-01-15T08:00:00.499Z");
        }),
        fixture("release-not-begun", ReleaseNotYetAccepted, |fixture| {
            release_from(fixture, "2027-01-15T08:00:00.501Z");
        }),
        fixture("policy-over", PolicyExpired, |fixture| {
            policy_until(fixture, "2027-01-15T08:00:00.499Z");
        }),
        fixture("debug-mode-of-a-pinned-signer", DebugMode, |fixture| {
            for index in 0..3 {
                fixture.contents.pcrs.insert(index, [0; 48]);
            }
            fixture.contents.pcrs.insert(8, [8; 48]);
            fixture.edit_policy(|json| {
                json["releases"][0]["pcrs"] = serde_json::json!({ "8": "08".repeat(48) });
            });
        }),
        fixture("debug-mode-in-pcr1-alone", DebugMode, |fixture| {
            fixture.contents.pcrs.insert(1, [0; 48]);
            fixture.edit_policy(|json| {
                drop(
                    json["releases"][0]["pcrs"]
                        .as_object_mut()
                        .unwrap()
                        .remove("1"),
                );
            });
        }),
        forged("nonce-other", NonceMismatch, |f| {
            f.contents.nonce = Some(vec![0x5b; 32]);
        }),
        forged("nonce-longer", NonceMismatch, |f| {
            f.contents.nonce = Some(vec![0x5a; 33]);
        }),
        forged("nonce-null", NonceMismatch, |f| f.contents.nonce = None),
        fixture("nonce-of-15-bytes", NonceTooShort, |fixture| {
            fixture.nonce.truncate(15);
        }),
        fixture("stale", DocumentStale, |fixture| {
            fixture.now = UnixMillis(NOW.0 + 300_001);
        }),
        forged("from-the-future", DocumentFromFuture, |f| {
            f.timestamp += 60_001;
        }),
        forged("far-future", DocumentFromFuture, |f| {
            f.timestamp = 253_402_300_799_999;
        }),
        carried("manifest-byte", ManifestMismatch, |bytes| {
            *bytes.last_mut().unwrap() ^= 1;
        }),
        carried("manifest-empty", ManifestMismatch, Vec::clear),
        forged("user-data-null", ManifestMismatch, |f| {
            f.contents.user_data = None;
        }),
        forged("user-data-of-no-bytes", ManifestMismatch, |f| {
            f.contents.user_data = Some(Vec::new());
        }),
        forged("user-data-longer", ManifestMismatch, |f| {
            f.contents.user_data.as_mut().unwrap().push(0);
        }),
        unreadable(
            "manifest-attested-but-unreadable",
            |f| attest(f, &[0xa0]),
            |bytes| *bytes = vec![0xa0],
        ),
        unreadable(
            "manifest-attested-but-too-large",
            |f| attest(f, &[0; 8_193]),
            |bytes| *bytes = vec![0; 8_193],
        ),
        forged("public-key-other", PublicKeyMismatch, |f| {
            f.contents.public_key = Some(vec![9; 32]);
        }),
        forged("public-key-null", PublicKeyMismatch, |f| {
            f.contents.public_key = None;
        }),
        forged("public-key-of-no-bytes", PublicKeyMismatch, |f| {
            f.contents.public_key = Some(Vec::new());
        }),
        fixture("no-x25519-key", PublicKeyMismatch, |fixture| {
            fixture
                .manifest
                .sealing_keys
                .retain(|key| key.kem == Kem::XWing);
        }),
        fixture("model-other-hash", ModelMismatch, |fixture| {
            fixture.manifest.model.sha256[31] ^= 1;
        }),
        fixture("model-other-name", ModelMismatch, |fixture| {
            fixture.manifest.model.id.push('x');
        }),
        fixture("model-other-organisation", ModelMismatch, |fixture| {
            fixture.manifest.model.id = format!("org/{MODEL}");
            let other = format!("other/{MODEL}").into();
            fixture.edit_policy(|json| json["model"]["id"] = other);
        }),
        fixture(
            "model-names-and-hashes-exchanged",
            ModelMismatch,
            |fixture| {
                hold_other_model_first(fixture);
                let manifest = &mut fixture.manifest;
                std::mem::swap(&mut manifest.model.sha256, &mut manifest.others[0].sha256);
            },
        ),
        fixture("model-longer-name", ModelMismatch, |fixture| {
            fixture.manifest.model.id.insert(0, 'x');
        }),
        fixture("model-not-in-policy", ModelMismatch, |fixture| {
            fixture.edit_policy(|json| drop(json.as_object_mut().unwrap().remove("model")));
        }),
        fixture("policy-version-other", PolicyVersionMismatch, |fixture| {
            fixture.manifest.policy_version.push('x');
        }),
        fixture(
            "policy-version-not-in-policy",
            PolicyVersionMismatch,
            |fixture| {
                fixture.edit_policy(|json| {
                    drop(json.as_object_mut().unwrap().remove("policy_version"));
                });
            },
        ),
        fixture(
            "evaluation-under-production-policy",
            SecurityModeMismatch,
            |fixture| {
                fixture.edit_policy(|json| json["security_mode"] = "production".into());
            },
        ),
        fixture("mode-not-in-policy", SecurityModeMismatch, |fixture| {
            fixture.edit_policy(|json| drop(json.as_object_mut().unwrap().remove("security_mode")));
        }),
        fixture("manifest-over", ManifestNotValid, |fixture| {
            fixture.manifest.not_after = NOW.seconds() - 1;
        }),
        fixture("manifest-not-begun", ManifestNotValid, |fixture| {
            fixture.manifest.not_before = NOW.seconds() + 61;
        }),
    ]
}

/// Check 17: the chain verified at one moment, freshness asked for another.
pub fn judged_at_another_moment() -> (AttestationError, Vec<Row>) {
    let fixture = Fixture::new();
    let mut log = CheckLog::new();
    let document = AttestationDocument::parse(&fixture.document(), &mut log).unwrap();
    let authentic = document
        .authenticate(&fixture.anchor, NOW, &mut SignatureMemory::new(), &mut log)
        .unwrap();
    let freshness = Freshness::Live {
        nonce: &NONCE,
        now: UnixMillis(NOW.0 + 1),
    };
    let error = authentic
        .appraise(&fixture.policy, freshness, &mut log)
        .unwrap_err();
    (error, log.into_rows())
}

/// Validity of the development root, Unix seconds.
const ROOT_START: u64 = NOW.0 / 1000 - 86_400;
const ROOT_END: u64 = ROOT_START + 30 * 365 * 86_400;

/// Appraises in that second, with a matching manifest.
fn judge_in(fixture: &mut Fixture, second: u64) {
    fixture.now = UnixMillis::from_seconds(second);
    fixture.manifest.not_before = second - 60;
    fixture.manifest.not_after = second + 60;
}

/// Makes the document in that second, under certificates that are valid long before and after it; the root's validity stays.
fn make_in(forgery: &mut Forgery, second: u64) {
    forgery.timestamp = second * 1000;
    for link in &mut forgery.links[1..] {
        link.spec.not_before = forge::der::time(1_000_000_000);
        link.spec.not_after = forge::der::time(4_000_000_000);
    }
}

/// A policy that requires revocation lists, and those that `keep` lets through.
fn require_crls(fixture: &mut Fixture, keep: fn(usize) -> bool) {
    fixture.crls = fixture.lists(keep);
    fixture.edit_policy(|json| json["revocation"] = "required".into());
}

fn release_from(fixture: &mut Fixture, start: &str) {
    fixture.edit_policy(|json| json["releases"][0]["not_before"] = start.into());
}

fn policy_until(fixture: &mut Fixture, end: &str) {
    fixture.edit_policy(|json| json["not_after"] = end.into());
}

fn release_until(fixture: &mut Fixture, end: &str) {
    fixture.edit_policy(|json| json["releases"][0]["not_after"] = end.into());
}

/// The policy's model is the second of the manifest.
fn hold_other_model_first(fixture: &mut Fixture) {
    let manifest = &mut fixture.manifest;
    manifest.others = vec![manifest.model.clone()];
    manifest.model.id = "other".to_owned();
    manifest.model.sha256 = [9; 32];
}

/// Extends the manifest to exactly its largest size, with repeated suites and a long version.
fn largest_manifest(fixture: &mut Fixture) {
    let manifest = &mut fixture.manifest;
    let room = MAX_MANIFEST - manifest.encode().unwrap().len() - 64;
    let suite = manifest.sealing_keys[0].symmetric[0];
    manifest.sealing_keys[0]
        .symmetric
        .extend(vec![suite; room / 4]);
    while manifest.encode().unwrap().len() < MAX_MANIFEST {
        manifest.model.version.push('1');
    }
    assert_eq!(manifest.encode().unwrap().len(), MAX_MANIFEST);
}

fn attest(forgery: &mut Forgery, manifest: &[u8]) {
    forgery.contents.user_data = Some(manifest_binding(manifest).to_vec());
}
