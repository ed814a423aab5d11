//! What only stages 3 and 4 can see: cases at each bound, and with exactly one thing wrong.

use super::{NONCE, NOW, Scene, pins};
use attestation::{
    AttestationDocument, AttestationError, AttestationReport, CheckLog, ErrorCode, Freshness, Kem,
    MAX_MANIFEST, Policy, Row, SignatureMemory, TrustAnchor, UnixMillis, VerifiedAttestation,
    manifest_binding,
};
use forge::Forgery;

/// A scene with one thing at its bound, or wrong, that only stages 3 and 4 can see.
pub struct AppraisalCase {
    pub name: &'static str,
    /// `None` for one that must be accepted.
    pub code: Option<ErrorCode>,
    change: fn(&mut Scene),
    forge: fn(&mut Forgery),
    manifest: fn(&mut Vec<u8>),
}

impl AppraisalCase {
    /// Document, root and moment, for whoever judges the chain alone.
    pub fn document(&self) -> (Vec<u8>, TrustAnchor, UnixMillis) {
        let mut scene = Scene::new();
        (self.change)(&mut scene);
        (scene.forged(self.forge), scene.anchor, scene.now)
    }

    pub fn judge(&self) -> (AttestationReport, Option<VerifiedAttestation>) {
        let mut scene = Scene::new();
        (self.change)(&mut scene);
        let document = scene.forged(self.forge);
        let mut manifest = scene.manifest.encode().unwrap();
        (self.manifest)(&mut manifest);
        let (report, concluded) = scene.verify(&document, &manifest);
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
    let scene = |name, code, change| AppraisalCase {
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
        // What must be accepted: each bound itself.
        accepted("everything-right", |_| {}, |_| {}),
        accepted(
            "pcr0-of-a-single-bit",
            |scene| {
                scene.contents.pcrs.insert(0, [0; 48]);
                scene.contents.pcrs.get_mut(&0).unwrap()[47] = 1;
                scene.policy = Policy::for_development(
                    scene.anchor.clone(),
                    pins(&scene.contents),
                    &scene.manifest,
                )
                .unwrap();
            },
            |_| {},
        ),
        accepted(
            "registers-that-nobody-pins",
            |_| {},
            |f| {
                f.contents.pcrs.insert(4, [0x44; 48]);
                f.contents.pcrs.insert(31, [0x31; 48]);
            },
        ),
        accepted(
            "release-at-its-last-millisecond",
            |scene| release_until(scene, "2027-01-15T08:00:00.500Z"),
            |_| {},
        ),
        accepted(
            "release-at-its-first-millisecond",
            |scene| release_from(scene, "2027-01-15T08:00:00.500Z"),
            |_| {},
        ),
        accepted(
            "policy-at-its-last-millisecond",
            |scene| policy_until(scene, "2027-01-15T08:00:00.500Z"),
            |_| {},
        ),
        // The same image in two releases, of which the first has ended.
        accepted(
            "release-that-follows-an-ended-one",
            |scene| {
                release_until(scene, "2027-01-01T00:00:00Z");
                scene.edit_policy(|json| {
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
            |scene| scene.nonce.truncate(16),
            |f| f.contents.nonce.as_mut().unwrap().truncate(16),
        ),
        accepted(
            "age-at-the-maximum",
            |scene| scene.now = UnixMillis(NOW.0 + 300_000),
            |_| {},
        ),
        accepted("future-at-the-skew", |_| {}, |f| f.timestamp += 60_000),
        accepted("manifest-of-8192-bytes", largest_manifest, |_| {}),
        accepted(
            "manifest-in-its-last-second",
            |scene| scene.manifest.not_after = NOW.seconds(),
            |_| {},
        ),
        accepted(
            "manifest-begins-at-the-skew",
            |scene| scene.manifest.not_before = NOW.seconds() + 60,
            |_| {},
        ),
        // The root's own validity, which a verifier of other chains would not ask.
        accepted(
            "root-in-its-first-second",
            |scene| judge_in(scene, ROOT_START),
            |f| {
                make_in(f, ROOT_START);
            },
        ),
        accepted(
            "root-in-its-last-second",
            |scene| judge_in(scene, ROOT_END),
            |f| {
                make_in(f, ROOT_END);
            },
        ),
        judged(
            "root-starts-next-second",
            CertificateNotYetValid,
            |scene| judge_in(scene, ROOT_START - 1),
            |f| make_in(f, ROOT_START - 1),
        ),
        judged(
            "root-ended-a-second-ago",
            CertificateExpired,
            |scene| judge_in(scene, ROOT_END + 1),
            |f| make_in(f, ROOT_END + 1),
        ),
        accepted(
            "crls-required",
            |scene| require_crls(scene, |at| at < 2),
            |_| {},
        ),
        scene("crls-required-and-withheld", RevocationUnknown, |scene| {
            require_crls(scene, |_| false);
        }),
        scene(
            "crls-required-and-one-withheld",
            RevocationUnknown,
            |scene| {
                require_crls(scene, |at| at != 1);
            },
        ),
        scene(
            "crls-required-and-of-another-issuer",
            RevocationUnknown,
            |scene| {
                require_crls(scene, |at| at == 2);
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
        scene("registers-of-two-releases", PcrMismatch, |scene| {
            scene.edit_policy(|json| {
                let mut other = json["releases"][0].clone();
                other["name"] = "other".into();
                json["releases"][0]["pcrs"]["1"] = "aa".repeat(48).into();
                other["pcrs"]["0"] = "bb".repeat(48).into();
                json["releases"].as_array_mut().unwrap().push(other);
            });
        }),
        scene("release-withdrawn", ReleaseExpired, |scene| {
            release_until(scene, "2027-01-15T08:00:00.499Z");
        }),
        scene("release-that-began-and-ended", ReleaseExpired, |scene| {
            release_from(scene, "2027-01-01T00:00:00Z");
            release_until(scene, "2027-01-15T08:00:00.499Z");
        }),
        scene("release-not-begun", ReleaseNotYetAccepted, |scene| {
            release_from(scene, "2027-01-15T08:00:00.501Z");
        }),
        scene("policy-over", PolicyExpired, |scene| {
            policy_until(scene, "2027-01-15T08:00:00.499Z");
        }),
        scene("debug-mode-of-a-pinned-signer", DebugMode, |scene| {
            for index in 0..3 {
                scene.contents.pcrs.insert(index, [0; 48]);
            }
            scene.contents.pcrs.insert(8, [8; 48]);
            scene.edit_policy(|json| {
                json["releases"][0]["pcrs"] = serde_json::json!({ "8": "08".repeat(48) });
            });
        }),
        scene("debug-mode-in-pcr1-alone", DebugMode, |scene| {
            scene.contents.pcrs.insert(1, [0; 48]);
            scene.edit_policy(|json| {
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
        scene("nonce-of-15-bytes", NonceTooShort, |scene| {
            scene.nonce.truncate(15);
        }),
        scene("stale", DocumentStale, |scene| {
            scene.now = UnixMillis(NOW.0 + 300_001);
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
        scene("no-x25519-key", PublicKeyMismatch, |scene| {
            scene
                .manifest
                .sealing_keys
                .retain(|key| key.kem == Kem::XWing);
        }),
        scene("model-other-hash", ModelMismatch, |scene| {
            scene.manifest.model.sha256[31] ^= 1;
        }),
        scene("model-other-name", ModelMismatch, |scene| {
            scene.manifest.model.id.push('x');
        }),
        scene("model-not-in-policy", ModelMismatch, |scene| {
            scene.edit_policy(|json| drop(json.as_object_mut().unwrap().remove("model")));
        }),
        scene("policy-version-other", PolicyVersionMismatch, |scene| {
            scene.manifest.policy_version.push('x');
        }),
        scene(
            "policy-version-not-in-policy",
            PolicyVersionMismatch,
            |scene| {
                scene.edit_policy(|json| {
                    drop(json.as_object_mut().unwrap().remove("policy_version"));
                });
            },
        ),
        scene(
            "evaluation-under-production-policy",
            SecurityModeMismatch,
            |scene| {
                scene.edit_policy(|json| json["security_mode"] = "production".into());
            },
        ),
        scene("mode-not-in-policy", SecurityModeMismatch, |scene| {
            scene.edit_policy(|json| drop(json.as_object_mut().unwrap().remove("security_mode")));
        }),
        scene("manifest-over", ManifestNotValid, |scene| {
            scene.manifest.not_after = NOW.seconds() - 1;
        }),
        scene("manifest-not-begun", ManifestNotValid, |scene| {
            scene.manifest.not_before = NOW.seconds() + 61;
        }),
    ]
}

/// Check 17: the chain verified at one moment, freshness asked for another.
pub fn judged_at_another_moment() -> (AttestationError, Vec<Row>) {
    let scene = Scene::new();
    let mut log = CheckLog::new();
    let document = AttestationDocument::parse(&scene.document(), &mut log).unwrap();
    let authentic = document
        .authenticate(&scene.anchor, NOW, &mut SignatureMemory::new(), &mut log)
        .unwrap();
    let freshness = Freshness::Live {
        nonce: &NONCE,
        now: UnixMillis(NOW.0 + 1),
    };
    let error = authentic
        .appraise(&scene.policy, freshness, &mut log)
        .unwrap_err();
    (error, log.into_rows())
}

/// Validity of the development root, Unix seconds.
const ROOT_START: u64 = NOW.0 / 1000 - 86_400;
const ROOT_END: u64 = ROOT_START + 30 * 365 * 86_400;

/// Judges in that second, with a manifest to fit.
fn judge_in(scene: &mut Scene, second: u64) {
    scene.now = UnixMillis::from_seconds(second);
    scene.manifest.not_before = second - 60;
    scene.manifest.not_after = second + 60;
}

/// Makes the document in that second, under certificates that are valid far around it; the root's validity stays.
fn make_in(forgery: &mut Forgery, second: u64) {
    forgery.timestamp = second * 1000;
    for link in &mut forgery.links[1..] {
        link.spec.not_before = forge::der::time(1_000_000_000);
        link.spec.not_after = forge::der::time(4_000_000_000);
    }
}

/// A policy that requires revocation lists, and those that `keep` lets through.
fn require_crls(scene: &mut Scene, keep: fn(usize) -> bool) {
    scene.crls = scene.lists(keep);
    scene.edit_policy(|json| json["revocation"] = "required".into());
}

fn release_from(scene: &mut Scene, start: &str) {
    scene.edit_policy(|json| json["releases"][0]["not_before"] = start.into());
}

fn policy_until(scene: &mut Scene, end: &str) {
    scene.edit_policy(|json| json["not_after"] = end.into());
}

fn release_until(scene: &mut Scene, end: &str) {
    scene.edit_policy(|json| json["releases"][0]["not_after"] = end.into());
}

/// Grows the manifest to exactly its largest size, by suites that are named again and a long version.
fn largest_manifest(scene: &mut Scene) {
    let manifest = &mut scene.manifest;
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
