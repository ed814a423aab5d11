//! A whole scene that is right, from which each test changes one thing.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use attestation::{
    Aead, AttestationDocument, AttestationError, AttestationReport, ErrorCode, Freshness,
    HashScheme, Kdf, Kem, KeyConfig, Ladder, ModelIdentity, Policy, PolicySource, Question, SPECS,
    SecurityMode, ServiceManifest, TrustAnchor, UnixMillis, VerifiedAttestation, manifest_binding,
    verify,
};
use forge::{Contents, DevelopmentRoot, Forgery, Issuer};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

/// When every scene plays.
pub const NOW: UnixMillis = UnixMillis(1_800_000_000_500);

/// Fresh randomness of every scene.
pub const NONCE: [u8; 32] = [0x5a; 32];

/// An enclave, what it says, and what its visitor demands.
pub struct Scene {
    pub issuer: Issuer,
    pub anchor: TrustAnchor,
    pub contents: Contents,
    pub manifest: ServiceManifest,
    pub policy: Policy,
    pub nonce: Vec<u8>,
    pub now: UnixMillis,
}

impl Scene {
    pub fn new() -> Self {
        let mut rng = ChaCha20Rng::from_seed([42; 32]);
        let root = DevelopmentRoot::generate(&mut rng, NOW.0);
        let issuer = Issuer::new(root, &mut rng, NOW.0);
        let anchor = TrustAnchor::development(issuer.root_der()).unwrap();
        let contents = Contents::example();
        let manifest = manifest();
        let policy = Policy::for_development(anchor.clone(), pins(&contents), &manifest).unwrap();
        Self {
            issuer,
            anchor,
            contents,
            manifest,
            policy,
            nonce: NONCE.to_vec(),
            now: NOW,
        }
    }

    /// What the enclave would have signed for this manifest and [`NONCE`].
    pub fn document(&self) -> Vec<u8> {
        self.forged(|_| {})
    }

    pub fn forged(&self, change: fn(&mut Forgery)) -> Vec<u8> {
        let contents = Contents {
            user_data: Some(manifest_binding(&self.manifest.encode().unwrap()).to_vec()),
            public_key: self.manifest.x25519_key().map(<[u8]>::to_vec),
            nonce: Some(NONCE.to_vec()),
            ..self.contents.clone()
        };
        let mut forgery = self.issuer.forge(&contents, NOW.0);
        change(&mut forgery);
        forgery.build()
    }

    pub fn question<'a>(&'a self, document: &'a [u8], manifest: &'a [u8]) -> Question<'a> {
        Question {
            document,
            manifest: Some(manifest),
            policy: &self.policy,
            freshness: Freshness::Live {
                nonce: &self.nonce,
                now: self.now,
            },
            stopwatch: None,
        }
    }

    pub fn judge(&self) -> (AttestationReport, Option<VerifiedAttestation>) {
        verify(self.question(&self.document(), &self.manifest.encode().unwrap()))
    }

    /// Changes the policy through its JSON, as an operator would.
    pub fn edit_policy(&mut self, edit: impl FnOnce(&mut serde_json::Value)) {
        let mut json = serde_json::from_str(&self.policy.to_json()).unwrap();
        edit(&mut json);
        self.policy = Policy::from_json(json.to_string().as_bytes(), PolicySource::File).unwrap();
    }
}

/// A manifest that is right.
pub fn manifest() -> ServiceManifest {
    let symmetric = vec![
        (Kdf::HkdfSha256, Aead::ChaCha20Poly1305),
        (Kdf::HkdfSha256, Aead::Aes256Gcm),
    ];
    ServiceManifest {
        version: 1,
        sealing_keys: vec![
            KeyConfig {
                key_id: 2,
                kem: Kem::X25519,
                public_key: vec![2; 32],
                symmetric: symmetric.clone(),
            },
            KeyConfig {
                key_id: 1,
                kem: Kem::XWing,
                public_key: vec![1; 1216],
                symmetric,
            },
        ],
        receipt_key: [3; 32],
        model: ModelIdentity {
            id: "all-MiniLM-L6-v2".to_owned(),
            version: "1".to_owned(),
            sha256: [4; 32],
            hash_scheme: HashScheme::Sha256Manifest,
            dimension: 384,
            max_tokens: 256,
        },
        policy_version: "2027-01".to_owned(),
        security_mode: SecurityMode::Evaluation,
        not_before: NOW.seconds() - 60,
        not_after: NOW.seconds() + 3_600,
    }
}

/// The registers that a release pins.
pub fn pins(contents: &Contents) -> std::collections::BTreeMap<u8, [u8; 48]> {
    contents
        .pcrs
        .iter()
        .filter(|(index, _)| **index < 3)
        .map(|(index, value)| (*index, *value))
        .collect()
}

/// A scene with one thing wrong that only stages 3 and 4 can see.
pub struct AppraisalCase {
    pub name: &'static str,
    pub code: ErrorCode,
    change: fn(&mut Scene),
    forge: fn(&mut Forgery),
    manifest: fn(&mut Vec<u8>),
}

impl AppraisalCase {
    pub fn judge(&self) -> (AttestationReport, Option<VerifiedAttestation>) {
        let mut scene = Scene::new();
        (self.change)(&mut scene);
        let document = scene.forged(self.forge);
        let mut manifest = scene.manifest.encode().unwrap();
        (self.manifest)(&mut manifest);
        verify(scene.question(&document, &manifest))
    }
}

pub fn appraisal_cases() -> Vec<AppraisalCase> {
    use ErrorCode::*;
    let none = |name, code| AppraisalCase {
        name,
        code,
        change: |_| {},
        forge: |_| {},
        manifest: |_| {},
    };
    let scene = |name, code, change| AppraisalCase {
        change,
        ..none(name, code)
    };
    let forged = |name, code, forge| AppraisalCase {
        forge,
        ..none(name, code)
    };
    let carried = |name, code, manifest| AppraisalCase {
        manifest,
        ..none(name, code)
    };
    let unreadable = |name, forge, manifest| AppraisalCase {
        forge,
        manifest,
        ..none(name, ManifestMalformed)
    };
    vec![
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
            scene.edit_policy(|json| {
                json["releases"][0]["not_after"] = "2027-01-15T08:00:00Z".into();
            });
        }),
        scene("debug-mode-that-the-policy-pins", DebugMode, |scene| {
            for index in 0..3 {
                scene.contents.pcrs.insert(index, [0; 48]);
            }
            scene.policy = Policy::for_development(
                scene.anchor.clone(),
                pins(&scene.contents),
                &scene.manifest,
            )
            .unwrap();
        }),
        scene("debug-mode-in-pcr1-alone", DebugMode, |scene| {
            scene.contents.pcrs.insert(1, [0; 48]);
            scene.policy = Policy::for_development(
                scene.anchor.clone(),
                pins(&scene.contents),
                &scene.manifest,
            )
            .unwrap();
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
        forged("user-data-empty", ManifestMismatch, |f| {
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
        forged("public-key-empty", PublicKeyMismatch, |f| {
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
pub fn judged_at_another_moment() -> AttestationError {
    let scene = Scene::new();
    let mut ladder = Ladder::new(SPECS);
    let document = AttestationDocument::parse(&scene.document(), &mut ladder).unwrap();
    let authentic = document
        .authenticate(&scene.anchor, NOW, &mut ladder)
        .unwrap();
    let freshness = Freshness::Live {
        nonce: &NONCE,
        now: UnixMillis(NOW.0 + 1),
    };
    let error = authentic
        .appraise(&scene.policy, freshness, &mut ladder)
        .unwrap_err();
    assert_eq!(ladder.rows()[16].state, attestation::RowState::Failed);
    error
}

fn attest(forgery: &mut Forgery, manifest: &[u8]) {
    forgery.contents.user_data = Some(manifest_binding(manifest).to_vec());
}

/// The document's own timestamp; where it cannot be read, a moment that cannot matter.
pub fn own_time(document: &[u8]) -> UnixMillis {
    let parsed = AttestationDocument::parse(document, &mut Ladder::new(SPECS));
    parsed.map_or(UnixMillis(1_700_000_000_000), |document| {
        document.claims().timestamp
    })
}

/// Every Nitro document among the shared vectors: its name, its bytes, the root to judge it under, and its own time.
pub fn nitro_documents(
    vectors: &std::path::Path,
) -> Vec<(String, Vec<u8>, TrustAnchor, UnixMillis)> {
    let nitro = vectors.join("nitro");
    let own_root = std::fs::read(nitro.join("testpki/test_root.der")).unwrap();
    let own_root = TrustAnchor::development(&own_root).unwrap();
    let mut documents = Vec::new();
    for folder in ["documents", "refused", "derived", "testpki"] {
        let mut files: Vec<_> = std::fs::read_dir(nitro.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "cbor")
            })
            .collect();
        files.sort();
        for path in files {
            let document = std::fs::read(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            let anchor = match folder {
                "testpki" => own_root.clone(),
                _ => TrustAnchor::aws_nitro_g1(),
            };
            let at = own_time(&document);
            documents.push((format!("{folder}/{name}"), document, anchor, at));
        }
    }
    assert!(documents.len() > 200, "{} documents", documents.len());
    documents
}

/// Where the shared vectors are, or `None` after saying so.
pub fn vectors() -> Option<std::path::PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
    let path = std::env::var_os("CLEARSEAL_VECTORS").map_or(beside, Into::into);
    if path.is_dir() {
        return Some(path);
    }
    #[allow(clippy::print_stdout, reason = "whoever reads the run must see it")]
    {
        println!("skipped: no vectors");
    }
    None
}
